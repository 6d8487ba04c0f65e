"""Files of D4RL and Minari become datasets with the same values; what cannot be right is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import minari
import numpy as np
import pytest

from gym_gui.services.datasets import DatasetEntry, DatasetRegistry, DatasetsError, importing
from gym_gui.services.datasets.environments import promised_by
from gym_gui.services.datasets.importing import ImportOrder, import_file
from gym_gui.services.datasets.minari_export import export
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.offline import open_dataset
from mosaic_worker.tests.offline import made_sets

PENDULUM = {
    "observation_space": json.dumps(
        {"type": "Box", "dtype": "float32", "shape": [3], "low": [-1, -1, -8], "high": [1, 1, 8]}
    ),
    "action_space": json.dumps({"type": "Box", "dtype": "float32", "shape": [2], "low": [-1, -1], "high": [1, 1]}),
    "env_spec": json.dumps({"id": "Toy-v0", "max_episode_steps": 50}),
    "max_episode_steps": 50,
}


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that is asked without starting a process; the real way has a test of its own."""
    monkeypatch.setattr(importing, "promised_by", lambda env_id, paths: (PENDULUM, "") if env_id else ({}, "none"))


def imported(file: Path, paths: MosaicPaths, name: str = "it", **more: Any) -> DatasetEntry:
    return import_file(ImportOrder(file, name, **more), paths)


def refusal(file: Path, paths: MosaicPaths, **more: Any) -> str:
    with pytest.raises(DatasetsError) as raised:
        imported(file, paths, **more)
    assert DatasetRegistry(paths).list() == [] and "\n" not in str(raised.value)
    assert not paths.datasets.exists() or not any(paths.datasets.iterdir()), "something was left"
    return str(raised.value)


def written(tmp_path: Path, found: dict[str, Any], **options: Any) -> Path:
    file = tmp_path / "given.hdf5"
    made_sets.write_flat(file, found, **options)
    return file


# ---- D4RL ------------------------------------------------------------------------------------------------------------


def test_columns_of_d4rl_come_back_as_they_were(tmp_path: Path, paths: MosaicPaths) -> None:
    found = made_sets.columns(500, last=30)
    entry = imported(written(tmp_path, found, compression="gzip"), paths)
    told = entry.manifest
    ends = found["terminals"] | found["timeouts"]
    assert (told.layout, told.steps, told.episodes) == ("d4rl", 500, int(ends.sum()) + (not ends[-1]))
    assert str(entry.badge) == "verified" and not entry.integrity()
    assert told.returns["p50"] is not None and told.lengths["max"] is not None
    with open_dataset("it", paths=paths) as dataset, h5py.File(entry.data) as file:
        assert np.array_equal(file["observations"], found["observations"])
        assert dataset.rows == 500 - int(found["timeouts"].sum()) - (not ends[-1])


def test_rewards_of_two_axes_and_flags_of_numbers_are_read(tmp_path: Path, paths: MosaicPaths) -> None:
    found = made_sets.columns(100, last=20)
    rewards = found["rewards"]
    found |= {"rewards": rewards[:, None], "terminals": found["terminals"].astype("f4")[:, None]}
    entry = imported(written(tmp_path, found), paths)
    with h5py.File(entry.data) as file:
        assert np.array_equal(file["rewards"], rewards) and file["terminals"].dtype == bool


def test_old_files_without_timeouts_end_episodes_after_the_limit(tmp_path: Path, paths: MosaicPaths) -> None:
    found = made_sets.columns(100, last=10**9)
    del found["timeouts"]
    found["terminals"][29] = True
    entry = imported(written(tmp_path, found), paths, max_episode_steps=40)
    with h5py.File(entry.data) as file:
        assert np.flatnonzero(file["timeouts"]).tolist() == [69, 99]
    assert entry.manifest.source["episode_ends"] == "episodes end after 40 steps"


def test_old_files_with_next_observations_show_where_episodes_end(tmp_path: Path, paths: MosaicPaths) -> None:
    found = made_sets.columns(60, last=10**9)
    del found["timeouts"]
    following = np.roll(found["observations"], -1, axis=0)
    following[[19, 44]] += 5.0
    entry = imported(written(tmp_path, found | {"next_observations": following}), paths)
    with h5py.File(entry.data) as file:
        assert np.flatnonzero(file["timeouts"]).tolist() == [19, 44, 59]
    with open_dataset("it", paths=paths) as dataset:
        assert np.array_equal(dataset.transitions().next_observations[19], following[19])


def test_a_name_of_d4rl_brings_references_and_an_environment(
    tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "promised_by", lambda env_id, paths: ({}, f"asked for {env_id}"))
    found = made_sets.columns(3000, width=11, actions=3, last=10**9)
    del found["timeouts"]
    entry = imported(written(tmp_path, found), paths, "hopper-medium-v2")
    told = entry.manifest
    assert told.episodes == 3 and told.spaces_note == "asked for Hopper-v5" and told.env_id == "Hopper-v5"
    assert told.references is not None and told.references.whose == "d4rl"
    assert round(told.references.normalised(3234.3)) == 100
    assert "consecutive observations are as unlike as any two" in " ".join(told.doubts)
    assert "rewards depend on neither observations nor actions" in " ".join(told.doubts)
    assert "data called 'medium' lies between" in " ".join(told.doubts)


# ---- Minari ----------------------------------------------------------------------------------------------------------


def test_a_dataset_of_minari_comes_back_as_it_went(
    tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    found = made_sets.columns(120, last=20)
    found["next_observations"] = np.roll(found["observations"], -1, axis=0)
    first = imported(written(tmp_path, found), paths, "first")
    folder = export(first, "tests/it-v0")
    theirs = minari.load_dataset("tests/it-v0")
    again = imported(folder, paths, "again")
    assert (again.manifest.layout, again.manifest.steps) == ("episodes", 120) and again.manifest.doubts
    with open_dataset("again", paths=paths) as dataset, open_dataset("first", paths=paths) as before:
        assert np.array_equal(dataset.transitions().next_observations, before.transitions().next_observations)
        assert dataset.episodes == theirs.total_episodes


def test_a_minari_file_without_its_last_observation_is_refused(tmp_path: Path, paths: MosaicPaths) -> None:
    one = made_sets.episode(5, terminated=True)
    one["observations"] = one["observations"][:-1]
    made_sets.write_episodes(tmp_path / "main_data.hdf5", [made_sets.episode(3, terminated=True), one])
    told = refusal(tmp_path / "main_data.hdf5", paths)
    assert told == "main_data.hdf5: episode_1 must have one more observation than rewards"
    del one["truncations"]
    made_sets.write_episodes(tmp_path / "main_data.hdf5", [one])
    assert refusal(tmp_path / "main_data.hdf5", paths) == "main_data.hdf5 has no truncations in episode_0"


# ---- what is refused -------------------------------------------------------------------------------------------------


def changed(**changes: Callable[[Any], Any]) -> dict[str, Any]:
    found = made_sets.columns(100, last=20)
    for name, change in changes.items():
        found[name] = change(found[name])
    return found


def spoilt(values: Any, place: Any, value: float) -> Any:
    values[place] = value
    return values


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        changed(rewards=lambda v: spoilt(v, 7, np.nan)),
        {},
        "not finite (NaN or infinite), first in row 7",
    ),
    (changed(observations=lambda v: spoilt(v, (3, 1), np.inf)), {}, "observations that are not finite"),
    (changed(observations=lambda v: v[:, :2]), {"env_id": "Toy-v0"}, "the shape (2,), where those of Toy-v0 have (3,)"),
    (changed(actions=lambda v: spoilt(v, (5, 1), 3.5)), {"env_id": "Toy-v0"}, "actions out of bounds: 3.5 in row 5"),
    (changed(actions=lambda v: v[:99]), {}, "has 100 rewards and 99 actions"),
    (changed(terminals=lambda v: np.full(100, 7.0)), {}, "terminals that are neither true nor false"),
    (changed(terminals=lambda v: v & False, timeouts=lambda v: v & False), {}, "has no episode boundaries"),
    (changed(rewards=lambda v: np.stack([v, v], 1)), {}, "numbers for each step in rewards, where one is needed"),
    (changed(rewards=lambda v: v[:0]), {}, "has no rewards: it is empty"),
    (
        changed(rewards=lambda v: spoilt(v.astype("f8"), 7, -1e39)),
        {},
        "has rewards that are beyond what 32 bits hold, first in row 7",
    ),
]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("found", "more", "sentence"), BAD, ids=[sentence[:30] for *_, sentence in BAD])
def test_columns_that_cannot_be_right_are_refused(
    found: dict[str, Any], more: dict[str, Any], sentence: str, tmp_path: Path, paths: MosaicPaths
) -> None:
    assert sentence in refusal(written(tmp_path, found), paths, **more)


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "terminals"])
def test_a_missing_column_is_named_with_those_there_are(name: str, tmp_path: Path, paths: MosaicPaths) -> None:
    found = {key: values for key, values in made_sets.columns(10).items() if key != name}
    told = refusal(written(tmp_path, found), paths)
    assert told == f"given.hdf5 has no {name}; it has {', '.join(sorted(found))}"


@pytest.mark.usefixtures("toy")
def test_actions_out_of_bounds_are_clipped_when_asked_for(tmp_path: Path, paths: MosaicPaths) -> None:
    file = written(tmp_path, changed(actions=lambda v: spoilt(v, (5, 1), 3.5)))
    entry = imported(file, paths, env_id="Toy-v0", clip_actions=True)
    with h5py.File(entry.data) as data:
        assert data["actions"][5, 1] == 1.0
    assert entry.manifest.action_space_from == "environment" and entry.manifest.max_episode_steps == 50


FIELDS = {
    "observation_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 16}),
    "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 1, "n": 4}),
}


def choices(**changes: Callable[[Any], Any]) -> dict[str, Any]:
    rows = {"observations": np.arange(20) % 16, "actions": np.arange(20) % 4 + 1, "rewards": np.ones(20, np.float32)}
    ends = {"terminals": np.arange(20) % 10 == 9, "timeouts": np.zeros(20, np.bool_)}
    return {name: changes.get(name, lambda v: v)(values) for name, values in (rows | ends).items()}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            choices(actions=lambda v: spoilt(v, 7, 5)),
            "actions out of bounds: 5 in row 7, where the environment has the",
        ),
        (choices(actions=lambda v: spoilt(v, 7, 0)), "actions out of bounds: 0 in row 7"),
        (choices(actions=lambda v: v + 0.3), "actions that are no whole numbers: 1.3 in row 0"),
        (choices(observations=lambda v: spoilt(v, 3, 16)), "observations out of bounds: 16 in row 3"),
    ],
    ids=["above", "below", "fractions", "observations"],
)
def test_choices_that_the_environment_does_not_have_are_refused(
    found: dict[str, Any], sentence: str, tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "promised_by", lambda env_id, paths: (FIELDS, ""))
    assert sentence in refusal(written(tmp_path, found), paths, env_id="Field-v0", clip_actions=True)


def test_choices_that_are_written_as_floats_are_read(
    tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "promised_by", lambda env_id, paths: (FIELDS, ""))
    found = choices(actions=lambda v: v.astype("f4")[:, None], observations=lambda v: v.astype("f8"))
    with h5py.File(imported(written(tmp_path, found), paths, env_id="Field-v0").data) as data:
        assert data["actions"].dtype == np.int64 and np.array_equal(data["actions"], choices()["actions"])
        assert np.array_equal(data["observations"], choices()["observations"])


def test_actions_of_minari_stay_within_their_bounds_too(
    tmp_path: Path, paths: MosaicPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "promised_by", lambda env_id, paths: (PENDULUM, "") if env_id else ({}, "none"))
    one = made_sets.episode(5, terminated=True)
    one["actions"] = spoilt(np.zeros((5, 2), np.float32), (3, 1), 3.5)
    made_sets.write_episodes(tmp_path / "main_data.hdf5", [one])
    told = refusal(tmp_path / "main_data.hdf5", paths, env_id="Toy-v0")
    assert "actions out of bounds: 3.5 in step 3 of episode_0" in told and "--clip-actions" in told
    entry = imported(tmp_path / "main_data.hdf5", paths, env_id="Toy-v0", clip_actions=True)
    with h5py.File(entry.data) as data:
        assert data["episode_0/actions"][3].tolist() == [0.0, 1.0]


def test_a_file_that_is_no_hdf5_is_refused(tmp_path: Path, paths: MosaicPaths) -> None:
    file = tmp_path / "given.pkl"
    file.write_bytes(b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00]\x94.")
    assert refusal(file, paths).startswith("given.pkl is a pickle, which can run any program when it is read")
    file.write_bytes(b"")
    assert refusal(file, paths) == "given.pkl is empty"
    file.write_bytes(b"<html>")
    assert refusal(file, paths) == "given.pkl is no HDF5 file"
    assert refusal(tmp_path / "gone.hdf5", paths).startswith("there is no file")
    (tmp_path / "folder").mkdir()
    assert "is a folder without data/main_data.hdf5" in refusal(tmp_path / "folder", paths)
    assert refusal(tmp_path / "folder" / ".." / "folder", paths).startswith("folder is a folder")


def test_a_truncated_file_is_refused(tmp_path: Path, paths: MosaicPaths) -> None:
    file = written(tmp_path, made_sets.columns(5000))
    file.write_bytes(file.read_bytes()[:-3000])
    assert "it is truncated: its end is missing" in refusal(file, paths)


def test_a_taken_name_or_none_at_all_is_refused_before_anything_is_read(tmp_path: Path, paths: MosaicPaths) -> None:
    file = written(tmp_path, made_sets.columns(50, last=9))
    imported(file, paths)
    with pytest.raises(DatasetsError, match="there is a dataset 'it' already"):
        imported(file, paths)
    with pytest.raises(DatasetsError, match="is not a plain name"):
        imported(file, paths, "../it")


def test_an_environment_is_asked_in_a_process_of_a_worker(paths: MosaicPaths) -> None:
    told, why = promised_by("Pendulum-v1", paths)
    assert (told["max_episode_steps"], why) == (200, "") and json.loads(told["action_space"])["high"] == [2.0]
