"""Transitions are what was recorded: timeouts bootstrap, terminations do not, and nothing runs over the end of an
episode."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from mosaic_protocol.datasets import DATA, MANIFEST
from mosaic_protocol.datasets.registry import BROUGHT_VARIABLE
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.errors import UsageError
from mosaic_worker.offline import ObservationScale, RewardScale, Transitions, open_dataset
from mosaic_worker.offline.dataset import OfflineDataset
from mosaic_worker.offline.rows_file import fits_into_memory, free_bytes
from mosaic_worker.offline.streamed import StreamedTransitions
from mosaic_worker.tests.offline import made_sets


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    return MosaicPaths(tmp_path)


def by_the_book(found: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One row after the other, as the meaning of the columns is explained."""
    told: dict[str, list[Any]] = {name: [] for name in (*found, "next_observations")}
    count = len(found["rewards"])
    for i in range(count):
        seen = found["observations"][i].astype(np.float32)
        terminal, timeout = bool(found["terminals"][i]), bool(found["timeouts"][i]) or i + 1 == count
        if "next_observations" in found:
            following = found["next_observations"][i].astype(np.float32)
        elif terminal:
            following = seen
        elif timeout:
            continue
        else:
            following = found["observations"][i + 1].astype(np.float32)
        told["observations"].append(seen)
        told["next_observations"].append(following)
        told["actions"].append(found["actions"][i].astype(np.float32))
        told["rewards"].append(found["rewards"][i].astype(np.float32))
        told["terminals"].append(terminal)
        told["timeouts"].append(timeout and not terminal)
    return {name: np.array(values) for name, values in told.items()}


def same(found: Transitions, expected: dict[str, NDArray[Any]]) -> bool:
    return all(
        np.array_equal(getattr(found, name), values.astype(getattr(found, name).dtype))
        for name, values in expected.items()
    )


@pytest.mark.parametrize("has_next", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_columns_become_the_transitions_of_the_textbook(seed: int, has_next: bool, paths: MosaicPaths) -> None:
    found = made_sets.columns(700, seed=seed, last=9)
    if has_next:
        found["next_observations"] = np.random.default_rng(9).normal(size=found["observations"].shape).astype("f4")
    made_sets.flat_set(paths, "flat", found)
    with open_dataset("flat", paths=paths) as dataset:
        transitions = dataset.transitions()
        assert same(transitions, by_the_book(found))
        assert dataset.rows == len(transitions) and transitions.lengths().sum() == dataset.rows
        if has_next:
            assert dataset.rows == 700 and dataset.episodes == len(transitions.returns())


def test_loading_takes_a_thirtieth_of_a_loop_over_rows(paths: MosaicPaths) -> None:
    found = made_sets.columns(60_000, width=11, actions=3)
    made_sets.flat_set(paths, "flat", found, observation_space=made_sets.box(11), action_space=made_sets.box(3))
    began = time.process_time()
    expected = by_the_book(found)
    loop = time.process_time() - began
    with open_dataset("flat", paths=paths, verify=False) as dataset:
        took = []
        for _ in range(3):
            began = time.process_time()
            transitions = dataset.transitions()
            took.append(time.process_time() - began)
    assert same(transitions, expected)
    assert loop > 30 * min(took), (loop, took)


def test_a_timeout_leads_to_the_observation_that_was_recorded_last(paths: MosaicPaths) -> None:
    episodes = [made_sets.episode(5, terminated=False, seed=1), made_sets.episode(3, terminated=True, seed=2)]
    made_sets.episode_set(paths, "played", episodes)
    with open_dataset("played", paths=paths) as dataset:
        found = dataset.transitions()
    assert found.terminals.tolist() == [False] * 7 + [True]
    assert found.timeouts.tolist() == [False] * 4 + [True] + [False] * 3
    assert np.array_equal(found.next_observations[4], episodes[0]["observations"][5])
    assert np.array_equal(found.observations[5], episodes[1]["observations"][0])
    assert found.episode_starts.tolist() == [0, 5, 8] and found.lengths().tolist() == [5, 3]
    assert np.allclose(found.returns(), [one["rewards"].sum() for one in episodes])


def test_a_step_that_terminated_and_timed_out_at_once_is_terminal(paths: MosaicPaths) -> None:
    found = made_sets.columns(10, last=10**9)
    found["terminals"][4] = found["timeouts"][4] = True
    made_sets.flat_set(paths, "both", found)
    with open_dataset("both", paths=paths) as dataset:
        transitions = dataset.transitions()
    assert transitions.terminals[4] and not transitions.timeouts[4]


def test_returns_count_the_reward_of_a_step_that_is_left_out(paths: MosaicPaths) -> None:
    found = made_sets.columns(10, last=10**9)
    found["rewards"][:] = 1
    found["timeouts"][[4, 9]] = True
    made_sets.flat_set(paths, "timed", found)
    with open_dataset("timed", paths=paths) as dataset:
        transitions = dataset.transitions()
    assert transitions.lengths().tolist() == [4, 4] and transitions.returns().tolist() == [5, 5]


def test_counted_observations_and_actions_are_flattened_as_gymnasium_does(paths: MosaicPaths) -> None:
    form = gym.spaces.Dict({"b": gym.spaces.Discrete(4), "a": gym.spaces.Box(0, 9, (2, 2), np.float32)})
    draw = [form.sample() for _ in range(6)]
    one = made_sets.episode(5, terminated=True)
    del one["observations"]
    one |= {"observations/b": np.array([x["b"] for x in draw]), "observations/a": np.array([x["a"] for x in draw])}
    one["actions"] = np.array([0, 2, 1, 1, 0])
    ends = {"low": [[0, 0], [0, 0]], "high": [[9, 9], [9, 9]]}
    inner = {"a": {"type": "Box", "dtype": "float32", "shape": [2, 2], **ends}, "b": json.loads(made_sets.discrete(4))}
    told = json.dumps({"type": "Dict", "subspaces": inner})
    made_sets.episode_set(paths, "nested", [one], observation_space=told, action_space=made_sets.discrete(3))
    with open_dataset("nested", paths=paths) as dataset:
        assert dataset.observation_space == form and dataset.action_space == gym.spaces.Discrete(3)
        found = dataset.transitions()
    assert np.array_equal(found.observations, np.array([gym.spaces.flatten(form, x) for x in draw[:-1]]))
    assert found.actions.dtype == np.int64 and found.actions.tolist() == [0, 2, 1, 1, 0]


def test_the_best_episodes_are_taken_whole_and_less_than_one_is_refused(paths: MosaicPaths) -> None:
    episodes = [made_sets.episode(length, terminated=True, seed=length) for length in (2, 3, 4, 5)]
    for reward, one in zip((1.0, 9.0, 2.0, 8.0), episodes, strict=True):
        one["rewards"][:] = reward / len(one["rewards"])
    made_sets.episode_set(paths, "four", episodes)
    with open_dataset("four", paths=paths) as dataset:
        found = dataset.transitions()
    best = found.best_fraction(0.5)
    assert np.allclose(best.returns(), [9, 8]) and best.lengths().tolist() == [3, 5]
    assert np.array_equal(best.observations[:3], episodes[1]["observations"][:-1])
    with pytest.raises(UsageError, match="10 % of 4 episodes is less than one"):
        found.best_fraction(0.1)


@pytest.mark.parametrize("layout", ["flat", "played"])
@pytest.mark.parametrize("has_next", [False, True])
def test_parts_of_whole_episodes_are_the_whole(layout: str, has_next: bool, paths: MosaicPaths) -> None:
    if layout == "flat":
        found = made_sets.columns(900, last=9)
        found["timeouts"][40:60] = ~found["terminals"][40:60]  # episodes of one step, of which nothing is learned
        if has_next:
            found["next_observations"] = np.random.default_rng(9).normal(size=found["observations"].shape).astype("f4")
        made_sets.flat_set(paths, "flat", found)
    else:
        episodes = [made_sets.episode(1 + k % 9, terminated=k % 2 == 0, seed=k) for k in range(90)]
        made_sets.episode_set(paths, "played", episodes)
    with open_dataset(layout, paths=paths) as dataset:
        whole = dataset.transitions()
        for part_bytes in (1, 1500, 10**9):
            streamed = StreamedTransitions(dataset, part_bytes=part_bytes)
            parts = list(streamed.parts())
            assert len(parts) > 5 if part_bytes < 10**9 else len(parts) == 1
            assert joined(parts, whole) and joined(list(streamed.parts()), whole)
            assert len(streamed) == len(whole) and streamed.width == whole.width
            assert np.array_equal(streamed.lengths(), whole.lengths())
            best, expected = streamed.best_fraction(0.3), whole.best_fraction(0.3)
            assert joined(list(best.parts()), expected) and len(best) == len(expected)
            assert np.allclose(best.returns(), expected.returns(), rtol=1e-12)
            assert np.array_equal(ObservationScale.of(streamed).std, ObservationScale.of(whole).std)


def joined(parts: list[Transitions], whole: Transitions) -> bool:
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    return all(np.array_equal(np.concatenate([getattr(p, n) for p in parts]), getattr(whole, n)) for n in names)


# ---- streaming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["flat", "played"])
def test_a_round_of_batches_has_every_row_once(layout: str, paths: MosaicPaths) -> None:
    if layout == "flat":
        made_sets.flat_set(paths, "flat", made_sets.columns(1000, last=20))
    else:
        made_sets.episode_set(
            paths, "played", [made_sets.episode(9 + k, terminated=k % 2 == 0, seed=k) for k in range(50)]
        )
    with open_dataset(layout, paths=paths) as opened:
        dataset = OfflineDataset(opened.entry, cache_bytes=20_000)
        whole = opened.transitions()
        stream = dataset.batches(1, np.random.default_rng(3))
        drawn = np.array([next(stream).observations[0] for _ in range(len(whole))])
        assert not np.array_equal(drawn, whole.observations)
        assert np.array_equal(np.unique(drawn, axis=0), np.unique(whole.observations, axis=0))
        again = dataset.batches(64, np.random.default_rng(3))
        assert next(again).observations.shape == (64, 3)
        dataset.close()


def test_rows_are_found_by_their_numbers_in_any_order(paths: MosaicPaths) -> None:
    made_sets.flat_set(paths, "flat", made_sets.columns(1000, last=20))
    with open_dataset("flat", paths=paths) as opened:
        dataset = OfflineDataset(opened.entry, cache_bytes=20_000)
        whole = opened.transitions()
        numbers = np.random.default_rng(0).integers(0, dataset.rows, 300)
        for name, values in dataset.rows_at(numbers)._asdict().items():
            assert np.array_equal(values, getattr(whole, name)[numbers]), name
        dataset.close()


STREAMING = """
import resource, sys
import numpy as np
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.offline import open_dataset
from pathlib import Path
with open_dataset("large", paths=MosaicPaths(Path(sys.argv[1])), cache_bytes=48 * 2**20) as dataset:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 140 * 2**20,) * 2)
    stream, rows = dataset.batches(256, np.random.default_rng(0)), 0
    while rows < dataset.rows:
        batch = next(stream)
        rows += len(batch.rewards)
    dataset.rows_at(np.arange(0, dataset.rows, 5000))
    try:
        dataset.transitions()
    except MemoryError:
        print("streamed", rows >= dataset.rows, "whole: no memory")
"""


def test_data_beyond_the_memory_streams(paths: MosaicPaths) -> None:
    rows, width = 150_000, 200
    folder = paths.dataset("large")
    folder.mkdir(parents=True)
    with h5py.File(folder / DATA, "w") as data:
        column = data.create_dataset("observations", (rows, width), "f4", chunks=(4096, width))
        for first in range(0, rows, 50_000):
            column[first : first + 50_000] = np.full((50_000, width), first, "f4")
        for name, values in made_sets.columns(rows, width=1, last=1000).items():
            if name != "observations":
                data.create_dataset(name, data=values)
        ends = data["terminals"][:] | data["timeouts"][:]
        ends[-1] = True
    made_sets.describe(folder, "d4rl", int(ends.sum()), rows, observation_space=made_sets.box(width))
    told = subprocess.run(
        [sys.executable, "-c", STREAMING, str(paths.root)], check=False, capture_output=True, text=True, timeout=100
    )
    assert told.stdout == "streamed True whole: no memory\n", told.stderr[-2000:]


def test_free_memory_is_what_the_machine_the_group_and_the_own_limits_leave(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    inner = groups / "above" / "mine"
    inner.mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    (proc / "self" / "cgroup").write_text("0::/above/mine\n")
    assert free_bytes(proc, groups) == 8000 * 1024
    (inner / "memory.max").write_text("max\n")
    (groups / "above" / "memory.max").write_text("5000000\n")
    (groups / "above" / "memory.stat").write_text("anon 1000000\nfile 3000000\n")
    assert free_bytes(proc, groups) == 4_000_000
    assert fits_into_memory(2_000_000, 4_000_000) and not fits_into_memory(2_000_001, 4_000_000)
    assert free_bytes(tmp_path / "none", tmp_path / "none") > 10**12  # nothing is known
    assert free_bytes() > 0


# ---- what is refused -------------------------------------------------------------------------------------------------


def refusal(name: str, paths: MosaicPaths) -> str:
    with pytest.raises(UsageError) as raised, open_dataset(name, paths=paths) as dataset:
        dataset.transitions()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_dataset_that_cannot_be_used_is_refused_in_one_sentence(paths: MosaicPaths) -> None:
    assert refusal("hopper", paths) == "there is no dataset 'hopper': `mosaic datasets from-run RUN NAME` makes one"
    folder = made_sets.flat_set(paths, "poles", made_sets.columns(100))
    assert refusal("pole", paths) == "there is no dataset 'pole'; did you mean 'poles'?"
    data = bytearray((folder / DATA).read_bytes())
    data[-5] ^= 1
    (folder / DATA).write_bytes(data)
    assert refusal("poles", paths).startswith(
        "the dataset 'poles' is damaged and not used: data.hdf5 was changed since it was written"
    )
    (folder / DATA).unlink()
    assert "data.hdf5 is not there" in refusal("poles", paths)
    (folder / MANIFEST).write_text('{"v": 99}')
    assert refusal("poles", paths) == (
        "the dataset 'poles' cannot be used: a newer version of MOSAIC made it: update this one"
    )


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "terminals"])
def test_a_missing_column_is_named(name: str, paths: MosaicPaths) -> None:
    found = made_sets.columns(100)
    folder = made_sets.flat_set(paths, "poles", found)
    made_sets.write_flat(folder / DATA, {key: values for key, values in found.items() if key != name})
    made_sets.describe(folder, "d4rl", 1, 100)
    assert refusal("poles", paths) == f"the dataset 'poles' cannot be used: data.hdf5 has no {name}"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"observation_space": made_sets.box(4)}, "values have the shape (3,), where the space has 4 numbers"),
        (
            {"observation_space": '{"type": "Text"}'},
            "values of the kind 'Text' cannot be learned from: they are no numbers",
        ),
        (
            {"action_space": '{"type": "MultiBinary", "n": 2}'},
            "actions of the kind 'MultiBinary' cannot be learned from",
        ),
        ({"observation_space": "[]"}, "a space in the manifest cannot be read"),
        ({"observation_space": '{"type": "Box", "shape": [99999999999]}'}, "values have the shape"),
    ],
)
def test_spaces_that_do_not_fit_are_refused(more: dict[str, Any], sentence: str, paths: MosaicPaths) -> None:
    made_sets.flat_set(paths, "poles", made_sets.columns(100), **more)
    assert sentence in refusal("poles", paths)


def test_a_manifest_that_counts_otherwise_is_refused(paths: MosaicPaths) -> None:
    folder = made_sets.flat_set(paths, "poles", made_sets.columns(100))
    made_sets.describe(folder, "d4rl", 1, 99)
    assert "its manifest says 99 in 1" in refusal("poles", paths)


def test_what_the_first_version_wrote_is_read(paths: MosaicPaths) -> None:
    folder = made_sets.episode_set(paths, "old", [made_sets.episode(4, terminated=True)])
    told = json.loads((folder / MANIFEST).read_text())
    kept = ("created_at", "sha256", "bytes", "episodes", "steps", "returns", "actors", "left_out", "source", "env_id")
    old = {"v": 1, **{name: told[name] for name in (*kept, "observation_space", "action_space")}, "unknown": 1}
    (folder / MANIFEST).write_text(json.dumps(old))
    with open_dataset("old", paths=paths) as dataset:
        assert (dataset.rows, dataset.episodes, dataset.env_id) == (4, 1, "Toy-v0")


# ---- scales ----------------------------------------------------------------------------------------------------------


def test_scales_bring_observations_and_returns_into_range(paths: MosaicPaths) -> None:
    episodes = [made_sets.episode(4, terminated=True, seed=k) for k in range(5)]
    made_sets.episode_set(paths, "played", episodes)
    with open_dataset("played", paths=paths) as dataset:
        found = dataset.transitions()
    scaled = ObservationScale.of(found)(found.observations)
    assert np.allclose(scaled.mean(axis=0), 0, atol=1e-5) and np.allclose(scaled.std(axis=0), 1, atol=1e-2)
    scale = RewardScale.by_return_range(found)
    returns = np.add.reduceat(scale(found.rewards), found.episode_starts[:-1])
    assert np.isclose(returns.max() - returns.min(), 1000, rtol=1e-4)


def test_a_dataset_that_was_brought_to_another_host_is_the_one_of_its_name(
    paths: MosaicPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BROUGHT_VARIABLE, str(tmp_path / "brought"))
    with pytest.raises(UsageError, match="there is no dataset 'swings'"):
        open_dataset("swings", paths=paths)
    (tmp_path / "brought" / "swings").mkdir(parents=True)
    with pytest.raises(UsageError, match="manifest"):
        open_dataset("swings", paths=paths)
