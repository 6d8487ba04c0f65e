"""Datasets hold what was recorded, whatever its form, and appear whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import pytest

from gym_gui.services.datasets import DatasetEntry, DatasetRegistry, DatasetsError
from gym_gui.services.datasets.data_spaces import SeenValues
from gym_gui.services.datasets.from_steps import Only, make
from gym_gui.services.datasets.minari_export import export
from gym_gui.services.recorded_steps import of_folder
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import WORKERS
from mosaic_protocol.datasets import MANIFEST
from mosaic_protocol.datasets.registry import staged
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.replay.environments import _plain
from mosaic_worker.tests.replay.recorded import episode, record

NESTED = "mosaic_worker.tests.replay.strange_envs:Nested-v0"


@pytest.fixture(autouse=True)
def _toy_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def minari_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def loaded(entry: DatasetEntry) -> minari.MinariDataset:
    export(entry, "tests/it-v0")
    return minari.load_dataset("tests/it-v0")


@pytest.mark.usefixtures("minari_root")
def test_dictionaries_tuples_texts_and_nan_come_back_from_minari(paths: MosaicPaths, tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", NESTED, seeds=(1, 2))
    entry = make(of_folder(recording.folder), "nested", paths)
    assert entry.manifest.observation_space_from == "environment", entry.manifest.spaces_note
    found = loaded(entry)
    ours = episode(recording, 1)
    (_, theirs) = found.iterate_episodes()
    where = ours.stacked("observation")
    assert np.array_equal(theirs.observations["where"][1][:-1], where[("where", 1)], equal_nan=True)
    assert theirs.observations["where"][0].tolist() == [*range(9)]
    assert theirs.observations["said"] == [f"step {number}" for number in range(9)]
    assert theirs.actions.tolist() == [ours.action(place) for place in range(8)] and found.action_space.start == 1


@pytest.mark.usefixtures("minari_root")
def test_pictures_come_back_without_loss(paths: MosaicPaths, tmp_path: Path) -> None:
    def end(step: dict[str, Any]) -> None:
        step |= {"truncated": True, "final_observation": step["observation"]}

    recording = record(tmp_path / "recording", "ALE/Pong-v5", most_steps=6, changes={5: end})
    found = loaded(make(of_folder(recording.folder), "pong", paths))
    (theirs,) = found.iterate_episodes()
    ours = episode(recording).stacked("observation")[()]
    assert theirs.observations.shape == (7, 210, 160, 3) and np.array_equal(theirs.observations[:-1], ours)


@pytest.mark.usefixtures("minari_root")
@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Pendulum-v1", NESTED])
def test_an_environment_that_is_gone_leaves_the_spaces_that_the_data_shows(
    env_id: str, paths: MosaicPaths, tmp_path: Path
) -> None:
    recording = record(tmp_path / "recording", env_id, seeds=(1, 2), most_steps=300)
    Recording.new(recording.folder, {**recording.about, "env_id": "Gone-v0"})
    entry = make(of_folder(recording.folder), "gone", paths)
    assert "there is no environment 'Gone-v0' here" in (entry.manifest.spaces_note or "")
    assert entry.manifest.observation_space_from == entry.manifest.action_space_from == "data"
    found = loaded(entry)
    for one in found.iterate_episodes():
        assert found.action_space.contains(one.actions[0]) and len(one.rewards) > 0


@pytest.mark.parametrize(
    ("values", "space", "fits"),
    [
        (np.zeros((3, 2), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32), True),
        (np.zeros((3, 2), np.float64), gym.spaces.Box(-1, 1, (2,), np.float32), False),
        (np.zeros((3, 2), np.float32), gym.spaces.Box(-1, 1, (3,), np.float32), False),
        (np.array([1, 3]), gym.spaces.Discrete(3, start=1), True),
        (np.array([0, 3]), gym.spaces.Discrete(3, start=1), False),
        (np.array([1, 4]), gym.spaces.Discrete(3, start=1), False),
        (np.zeros(3, np.float32), gym.spaces.Discrete(3), False),
        (np.zeros((3, 2), np.int64), gym.spaces.MultiDiscrete([2, 5]), True),
        (np.zeros((3, 2), np.int8), gym.spaces.MultiBinary(2), True),
        (np.zeros((3, 2), np.int8), gym.spaces.MultiBinary(4), False),
        (["a", "b"], gym.spaces.Text(3), True),
        (["a", "b"], gym.spaces.Discrete(3), False),
    ],
)
def test_a_space_fits_values_of_its_own_form(values: Any, space: gym.Space[Any], fits: bool) -> None:
    seen = SeenValues()
    seen.add({("part",): values})
    told = json.dumps(_plain(gym.spaces.Dict({"part": space})))
    assert seen.fits(told) is fits and not seen.fits(json.dumps(_plain(space)))


def test_one_episode_is_taken_without_a_word_on_its_neighbours(paths: MosaicPaths, tmp_path: Path) -> None:
    recording = record(tmp_path / "recording", "CartPole-v1", seeds=(1, 2, 3))
    entry = make(of_folder(recording.folder), "one", paths, Only.parse("episode=1"))
    assert (entry.manifest.episodes, entry.manifest.left_out) == (1, {})
    assert entry.manifest.steps == len(episode(recording, 1))


def test_episodes_of_another_form_are_left_out_and_counted(paths: MosaicPaths, tmp_path: Path) -> None:
    def widened(step: dict[str, Any]) -> None:
        step["observation"] = np.zeros(7)

    recording = record(tmp_path / "recording", "CartPole-v1", seeds=(1, 2, 3), changes={3: widened})
    entry = make(of_folder(recording.folder), "poles", paths)
    assert entry.manifest.episodes == 2
    assert entry.manifest.left_out == {"observation changes its form within the episode": 1}


def test_names_that_hdf5_takes_for_paths_leave_their_episode_out(paths: MosaicPaths, tmp_path: Path) -> None:
    def renamed(step: dict[str, Any]) -> None:
        step["observation"] = {"a": 1.0, "a/b": 2.0}
        if "final_observation" in step:
            step["final_observation"] = {"a": 1.0, "a/b": 2.0}

    recording = record(tmp_path / "recording", "CartPole-v1", seeds=(1, 2))
    changes = dict.fromkeys(episode(recording, 0).numbers.tolist(), renamed)
    recording = record(tmp_path / "renamed", "CartPole-v1", seeds=(1, 2), changes=changes)
    entry = make(of_folder(recording.folder), "poles", paths)
    assert entry.manifest.episodes == 1 and entry.integrity() == ""
    assert "HDF5 cannot hold it" in next(iter(entry.manifest.left_out))


def test_after_an_error_nothing_is_left(paths: MosaicPaths, tmp_path: Path) -> None:
    folder = tmp_path / "place" / "set"
    with suppress(ZeroDivisionError), staged(folder) as draft:
        (draft / "data").write_text("half")
        raise ZeroDivisionError
    assert list(folder.parent.iterdir()) == []
    recording = record(tmp_path / "recording", "CartPole-v1", seeds=(1,), most_steps=2)
    with pytest.raises(DatasetsError, match="has no episode for a dataset \\(1 left out: not ended\\)"):
        make(of_folder(recording.folder), "poles", paths)
    assert list(paths.datasets.iterdir()) == [] and DatasetRegistry(paths).list() == []


def test_what_a_killed_process_left_goes_with_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from mosaic_protocol.datasets.registry import staged\n"
        "with staged(Path(sys.argv[1])) as draft: (draft / 'data').write_text('half'); os.kill(os.getpid(), 9)"
    )
    folder = tmp_path / "set"
    assert subprocess.run([sys.executable, "-c", program, str(folder)], check=False, timeout=60).returncode == -9
    assert [path.name.endswith(".draft") for path in tmp_path.iterdir()] == [True]
    with staged(folder) as draft:
        (draft / "data").write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"v": 99}', '{"v": 1, "episodes": "many"}', "\x00"])
def test_a_folder_that_is_no_dataset_is_listed_with_the_reason(content: str, paths: MosaicPaths) -> None:
    folder = paths.dataset("strange")
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(content)
    (entry,) = DatasetRegistry(paths).list()
    assert entry.problem and entry.found is None
    with pytest.raises(DatasetsError, match="the dataset 'strange' cannot be used"):
        entry.require_readable()


DAMAGED: list[dict[str, Any]] = [
    {"actors": {"human": "many"}},
    {"returns": {"mean": "high"}},
    {"left_out": {"not ended": None}},
    {"created_at": 1e300},
    {"created_at": -1},
    {"bytes": 10**400},
    {"action_space_from": ["data"]},
]


def test_damaged_manifests_hide_no_other_dataset(paths: MosaicPaths, tmp_path: Path) -> None:
    make(of_folder(record(tmp_path / "recording", "CartPole-v1", seeds=(1,)).folder), "sound", paths)
    manifest = json.loads((paths.dataset("sound") / MANIFEST).read_text())
    for number, damage in enumerate(DAMAGED):
        paths.dataset(f"damaged-{number}").mkdir()
        (paths.dataset(f"damaged-{number}") / MANIFEST).write_text(json.dumps(manifest | damage))
    mosaic = CommandLine(paths.root)
    shown = mosaic("datasets")
    assert shown.code == 0 and shown.out.count("does not say what it must") == len(DAMAGED), shown
    assert any(line.startswith("sound") and "CartPole-v1" in line for line in shown.out.splitlines())
    readable = [one["problem"] is None for one in mosaic("datasets", "--json").json["datasets"]]
    assert readable == [False] * len(DAMAGED) + [True]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_json_cannot_hold_makes_no_manifest(number: str, paths: MosaicPaths) -> None:
    paths.dataset("endless").mkdir(parents=True)
    (paths.dataset("endless") / MANIFEST).write_text(f'{{"v": 1, "source": {{"seed": {number}}}}}')
    assert DatasetRegistry(paths).find("endless").problem == "manifest.json is not JSON"
    assert CommandLine(paths.root)("datasets", "--json").code == 0
