"""The doors to gym, d4rl and wandb do what scripts of their time expect of the libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corl_worker.doors import d4rl, gym, wandb
from corl_worker.doors.gym import offline
from corl_worker.upstream import DOORS
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.harness import row_tap


class Kept:
    """Hears what the doors hand on."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, Any], int | None]] = []
        self.episodes: list[tuple[float, int]] = []

    def row(self, values: Mapping[str, Any], step: int | None) -> None:
        self.rows.append((dict(values), step))

    def episode(self, total: float, length: int) -> None:
        self.episodes.append((total, length))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    monkeypatch.setattr(row_tap, "listener", kept)
    return kept


@pytest.fixture
def env(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The environment of the dataset "swings", whose actions lie between -2 and 2."""
    monkeypatch.setenv(offline.DATASET_VARIABLE, str(MosaicPaths(home).dataset("swings")))
    offline._of_this_run.cache_clear()
    made = gym.make("swings")
    yield made
    made.close()
    offline._of_this_run.cache_clear()


def by_rows(env: Any) -> dict[str, Any]:
    """What d4rl's own loop makes of the columns, one row after another."""
    data = env.get_dataset()
    names = ("observations", "actions", "next_observations", "rewards", "terminals")
    kept: dict[str, list[Any]] = {name: [] for name in names}
    for row in range(len(data["rewards"]) - 1):
        if data["timeouts"][row]:
            continue
        following = data["observations"][row + 1]
        found = data["observations"][row], data["actions"][row], following, data["rewards"][row], data["terminals"][row]
        for name, value in zip(names, found, strict=True):
            kept[name].append(value)
    return {name: np.array(values) for name, values in kept.items()}


def test_an_environment_speaks_as_gym_did(env: Any, heard: Kept) -> None:
    env.seed(3)
    first = env.reset()
    env.seed(3)
    assert np.array_equal(first, env.reset())
    seen, reward, done, info = env.step(np.array([0.5], np.float32))
    assert (seen.shape, type(reward), done) == ((3,), float, False)
    total, steps = reward, 1
    while not done:
        _, reward, done, info = env.step(np.array([0.5], np.float32))
        total, steps = total + reward, steps + 1
    assert info["TimeLimit.truncated"] is True
    assert steps == env._max_episode_steps == 200
    ((told, length),) = heard.episodes
    assert told == pytest.approx(total)
    assert length == 200


def test_actions_lie_between_ones_in_the_environment_and_in_the_data(env: Any) -> None:
    assert env.action_space.high.tolist() == [1.0]
    env.seed(1)
    env.reset()
    env.step(np.array([[1.0]]))  # one dimension more, as old scripts have it
    assert env.env.unwrapped.last_u == 2.0
    actions = env.get_dataset()["actions"]
    assert -1.0 <= actions.min() < -0.9
    assert 0.9 < actions.max() <= 1.0


def test_transitions_are_those_that_d4rl_makes(env: Any) -> None:
    found, expected = d4rl.qlearning_dataset(env), by_rows(env)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert np.array_equal(found[name], values), name
    assert len(found["rewards"]) == 3 * 59  # of each episode all but the step that the time limit ended


def test_old_columns_without_timeouts_end_by_their_length(env: Any) -> None:
    columns = env.get_dataset()
    timeouts = columns.pop("timeouts")
    env.env.spec.max_episode_steps = 60
    old = d4rl.qlearning_dataset(env, dataset=columns)
    assert np.array_equal(old["rewards"], columns["rewards"][:-1][~timeouts[:-1]])


def test_episodes_come_one_after_another(env: Any) -> None:
    assert [len(one["rewards"]) for one in d4rl.sequence_dataset(env)] == [60, 60, 60]


def test_scores_are_normalised_by_the_references_of_the_dataset(env: Any) -> None:
    wrapped = gym.wrappers.TransformReward(gym.wrappers.TransformObservation(env, lambda seen: seen + 1), abs)
    assert wrapped.get_normalized_score(np.array([-1200.0, -150.0])).tolist() == [0.0, 1.0]
    assert (wrapped.ref_min_score, wrapped._max_episode_steps) == (-1200.0, 200)
    wrapped.seed(0)
    assert wrapped.reset().min() >= -7.0
    assert wrapped.step(np.array([0.0]))[1] >= 0.0


def test_data_that_was_changed_ends_the_script_with_a_sentence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "swings"
    folder.mkdir()
    for file in MosaicPaths(home).dataset("swings").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "data.hdf5").open("r+b") as data:
        data.seek(3000)
        data.write(b"\xff")
    monkeypatch.setenv(offline.DATASET_VARIABLE, str(folder))
    offline._of_this_run.cache_clear()
    with pytest.raises(SystemExit) as ending:
        gym.make("swings")
    offline._of_this_run.cache_clear()
    assert ending.value.code == 2
    assert "'swings' is damaged and not used" in capsys.readouterr().err


def test_rows_given_to_wandb_are_heard_with_their_step(heard: Kept) -> None:
    run = wandb.init(project="p", config={"lr": 0.1}, name="n", id="i", group="g", mode="online")
    assert wandb.run is run
    run.save()
    wandb.mark_preempting()
    wandb.log({"loss": 1.0}, step=4)
    run.log({"picture": wandb.Image("x.png"), "score": 2.0})
    assert (wandb.config.lr, run.id, run.name) == (0.1, "i", "n")
    wandb.finish()
    assert wandb.run is None
    assert heard.rows[0] == ({"loss": 1.0}, 4)
    assert heard.rows[1][0]["score"] == 2.0
    with pytest.raises(AttributeError, match="no 'nothing_of_theirs'"):
        _ = wandb.nothing_of_theirs


def test_the_doors_open_under_the_names_of_the_libraries() -> None:
    code = "import gym, gym.spaces, gym.wrappers, d4rl, wandb; print(gym.make('Pendulum-v1').action_space.high)"
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(DOORS)!r}, {str(DOORS.parents[1])!r}]; {code}"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == "[1.]\n"
