"""Merging, splitting and exporting keep every step, and whole episodes; doubts are said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from gym_gui.services.datasets import DatasetRegistry, DatasetsError
from gym_gui.services.datasets.d4rl_export import export
from gym_gui.services.datasets.importing import ImportOrder, import_file
from gym_gui.services.datasets.merging import Share, merge, split
from gym_gui.services.datasets.plausibility import doubts
from gym_gui.services.datasets.survey import surveyed
from mosaic_protocol.datasets import DATA
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.offline import Transitions, open_dataset
from mosaic_worker.tests.offline import made_sets


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path)


def transitions(name: str, paths: MosaicPaths) -> Transitions:
    with open_dataset(name, paths=paths) as dataset:
        return dataset.transitions()


def with_next(found: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return found | {"next_observations": np.roll(found["observations"], -1, axis=0)}


def made(kind: str, name: str, paths: MosaicPaths, seed: int) -> None:
    if kind == "played":
        episodes = [made_sets.episode(5 + k, terminated=k % 2 == 0, seed=seed + k) for k in range(6)]
        made_sets.episode_set(paths, name, episodes)
        return
    found = made_sets.columns(90, last=15, seed=seed)
    made_sets.flat_set(paths, name, with_next(found) if kind == "flat-next" else found)


KINDS = ("played", "flat", "flat-next")


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_a_merge_has_the_transitions_of_both(first: str, second: str, paths: MosaicPaths) -> None:
    made(first, "one", paths, 1)
    made(second, "two", paths, 50)
    entry = merge(["one", "two"], "both", paths)
    assert entry.manifest.layout == ("episodes" if first == second == "played" else "d4rl")
    found, parts = transitions("both", paths), [transitions("one", paths), transitions("two", paths)]
    for name in ("observations", "actions", "rewards", "next_observations", "terminals"):
        together = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(getattr(found, name), together), name
    assert [one["name"] for one in entry.manifest.source["of"]] == ["one", "two"]


def test_numbers_of_another_kind_are_not_cut_off(paths: MosaicPaths) -> None:
    """Whole rewards first, fractions behind them: a column of whole numbers would make nothing of those."""
    whole, fractions = made_sets.columns(60, last=15, seed=1), made_sets.columns(60, last=15, seed=2)
    whole["rewards"], whole["observations"] = np.ones(60, np.int64), np.ones((60, 3), np.uint8)
    made_sets.flat_set(paths, "one", whole)
    made_sets.flat_set(paths, "two", fractions)
    merge(["one", "two"], "both", paths)
    with h5py.File(paths.dataset("both") / DATA) as data:
        assert np.array_equal(data["rewards"][:60], whole["rewards"])
        assert np.array_equal(data["rewards"][60:], fractions["rewards"])
        assert np.array_equal(data["observations"][60:], fractions["observations"])


def test_actors_are_counted_of_the_steps_that_are_there(paths: MosaicPaths) -> None:
    """Of a timeout that leads nowhere the last step is left out, where others have what each step led to."""
    made("flat", "one", paths, 1)
    made("flat-next", "two", paths, 50)
    told = merge(["one", "two"], "both", paths).manifest
    assert sum(told.actors.values()) == told.steps < 180


def test_what_a_killed_maker_of_another_dataset_left_goes_with_the_next_one(paths: MosaicPaths) -> None:
    made("flat", "one", paths, 1)
    made("flat", "two", paths, 2)
    left = paths.datasets / ".lost.4194305-1.draft"  # no process has such a number
    left.mkdir()
    (left / DATA).write_bytes(b"half")
    merge(["one", "two"], "both", paths)
    assert not left.exists()


def test_what_does_not_fit_is_not_merged(paths: MosaicPaths) -> None:
    made("flat", "one", paths, 1)
    made_sets.flat_set(paths, "wide", made_sets.columns(50, width=4), observation_space=made_sets.box(4))
    made_sets.flat_set(paths, "other", made_sets.columns(50), env_id="Other-v0")
    with pytest.raises(DatasetsError, match="'wide' has another observation space than 'one'"):
        merge(["one", "wide"], "both", paths)
    with pytest.raises(DatasetsError, match="'one' is of Toy-v0 and 'other' of Other-v0"):
        merge(["one", "other"], "both", paths)
    with pytest.raises(DatasetsError, match="two datasets or more"):
        merge(["one"], "both", paths)
    with pytest.raises(DatasetsError, match="'one' is named twice"):
        merge(["one", "other", "one"], "both", paths)
    (paths.dataset("one") / DATA).write_bytes(b"changed")
    with pytest.raises(DatasetsError, match="'one' is damaged and not used"):
        merge(["one", "other"], "both", paths)


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_has_every_episode_once_and_the_same_again(kind: str, paths: MosaicPaths) -> None:
    made(kind, "one", paths, 1)
    parts = split("one", Share.parse_all("train:0.5,test:0.5"), paths, seed=3)
    whole = DatasetRegistry(paths).find("one").manifest
    assert [entry.name for entry in parts] == ["one-train", "one-test"]
    assert sum(entry.manifest.episodes for entry in parts) == whole.episodes
    returns = np.concatenate([transitions(entry.name, paths).returns() for entry in parts])
    assert np.allclose(np.sort(returns), np.sort(transitions("one", paths).returns()))
    hashes = [entry.manifest.sha256 for entry in parts]
    made(kind, "again", paths, 1)
    again = split("again", Share.parse_all("train:0.5,test:0.5"), paths, seed=3)
    assert [transitions(entry.name, paths).returns().tolist() for entry in again] == [
        transitions(entry.name, paths).returns().tolist() for entry in parts
    ], hashes


def test_the_progress_of_a_split_goes_once_through_all_of_its_parts(paths: MosaicPaths) -> None:
    made("played", "one", paths, 1)
    told: list[tuple[int, int]] = []
    parts = split("one", Share.parse_all("train:0.5,test:0.5"), paths, progress=lambda *rows: told.append(rows))
    whole = sum(entry.manifest.steps for entry in parts)
    assert told == sorted(told) and told[-1] == (whole, whole)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("train", "fractions are written"),
        ("train:2", "fractions are written"),
        ("a:0.9,b:0.9", "are more than 1 together"),
        ("a:0.5,a:0.5", "have the same name"),
    ],
)
def test_fractions_that_are_none_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(DatasetsError, match=sentence):
        Share.parse_all(text)


def test_a_part_of_less_than_an_episode_is_refused_before_anything_is_made(paths: MosaicPaths) -> None:
    made("played", "one", paths, 1)
    with pytest.raises(DatasetsError, match="5 % of the 6 episodes of 'one' is less than one: 'test' would be empty"):
        split("one", Share.parse_all("train:0.95,test:0.05"), paths)
    assert [entry.name for entry in DatasetRegistry(paths).list()] == ["one"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_to_d4rl_imports_as_the_same_transitions(kind: str, paths: MosaicPaths, tmp_path: Path) -> None:
    made(kind, "one", paths, 1)
    file = tmp_path / "out.hdf5"
    assert export(DatasetRegistry(paths).find("one"), file) == DatasetRegistry(paths).find("one").manifest.steps
    import_file(ImportOrder(file, "back"), paths)
    found, expected = transitions("back", paths), transitions("one", paths)
    for name in ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    with pytest.raises(DatasetsError, match="exists already"):
        export(DatasetRegistry(paths).find("one"), file)


# ---- plausibility ----------------------------------------------------------------------------------------------------


def walked(rows: int = 4000, width: int = 3) -> dict[str, NDArray[Any]]:
    """Observations that go on from one another, rewards that depend on them."""
    draw = np.random.default_rng(0)
    found = made_sets.columns(rows, width=width, last=200)
    found["observations"] = np.cumsum(draw.normal(0, 0.1, (rows, width)), axis=0).astype("f4")
    found["rewards"] = (found["observations"][:, 0] - 0.3 * found["actions"][:, 0] ** 2).astype("f4")
    return with_next(found)


def doubted(found: dict[str, NDArray[Any]], tmp_path: Path, name: str = "mine", **told: Any) -> list[str]:
    file = tmp_path / "data.hdf5"
    made_sets.write_flat(file, found)
    spaces = made_sets.box(found["observations"].shape[1]), made_sets.box(2)
    return doubts(name, surveyed(file, "d4rl", *spaces), told)


def test_sound_data_raises_no_doubt(tmp_path: Path) -> None:
    assert doubted(walked(), tmp_path) == []


def test_every_kind_of_doubt_is_said(tmp_path: Path) -> None:
    found = walked()
    assert "lead to another observation" in doubted(found | {"next_observations": found["observations"]}, tmp_path)[0]
    shuffled = np.random.default_rng(1).permutation(4000)
    noise = {name: values[shuffled] for name, values in found.items()}
    del noise["next_observations"]
    assert any("the rows are noise, or were shuffled" in one for one in doubted(noise, tmp_path))
    rewards = np.random.default_rng(2).normal(size=4000).astype("f4")
    assert "rewards depend on neither" in doubted(found | {"rewards": rewards}, tmp_path)[0]
    still = found["observations"].copy()
    still[:, 1] = 2.0
    told = doubted(found | {"observations": still, "next_observations": np.roll(still, -1, axis=0)}, tmp_path)
    assert "1 of 3 columns of observations never change (1)" in told[0]
    spoilt = found["rewards"].copy()
    spoilt[:7] = np.nan
    assert "7 of 4,000 rewards are not finite" in doubted(found | {"rewards": spoilt}, tmp_path)[0]
    limited = doubted(found, tmp_path, max_episode_steps=20, env_id="Toy-v0")
    assert "where Toy-v0 ends them after 20" in limited[0]
    space = '{"type": "Box", "shape": [2], "dtype": "float32", "low": [-0.1, -0.1], "high": [0.1, 0.1]}'
    beyond = doubted(found, tmp_path, action_space=space, action_space_from="environment")
    assert "in column 0, where the environment's bounds are -0.1 and 0.1" in beyond[0]


def test_a_name_that_promises_something_else_is_doubted(tmp_path: Path) -> None:
    told = doubted(walked(), tmp_path, "hopper-medium-replay-v2")
    assert "observations have 3 numbers, where data called 'hopper-medium-replay-v2' has 11" in told
    assert any("data called 'medium-replay' lies between" in one for one in told)


def test_columns_of_an_export_are_those_of_d4rl(paths: MosaicPaths, tmp_path: Path) -> None:
    made("played", "one", paths, 1)
    export(DatasetRegistry(paths).find("one"), tmp_path / "out.hdf5")
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {*made_sets.columns(1), "next_observations", "infos"}
        assert file["observations"].shape == file["next_observations"].shape and file["timeouts"].dtype == bool
