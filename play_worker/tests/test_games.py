"""Settings reach the constructor under its own names; what cannot be made is refused in one sentence."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic_worker.errors import UsageError
from play_worker.actions import BadActionError, fitted, kept
from play_worker.games import chosen_settings, family_of, make_game
from play_worker.stage import Stage


def test_settings_have_one_name_for_all_games() -> None:
    with make_game("FrozenLake-v1", {"map": "8x8", "slippery": False}) as lake:
        assert lake.observation_space.n == 64  # type: ignore[attr-defined]
        assert {move[0] for move in lake.unwrapped.P[0][2]} == {1.0}  # type: ignore[attr-defined]
    with make_game("Pendulum-v1", {"gravity": 3.5}) as pendulum:
        assert pendulum.unwrapped.g == 3.5  # type: ignore[attr-defined]
    with make_game("CartPole-v1", {"env_kwargs": {"sutton_barto_reward": True}}) as pole:
        assert pole.unwrapped._sutton_barto_reward  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", ["LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"])
def test_the_second_episode_of_a_box2d_game_is_as_its_seed_says(env_id: str) -> None:
    def played(env: gym.Env[Any, Any]) -> bytes:
        env.action_space.seed(5)
        seen = [env.reset(seed=5)[0], *(env.step(env.action_space.sample())[0] for _ in range(30))]
        return np.array(seen).tobytes()

    with make_game(env_id, {}) as one, make_game(env_id, {}) as other:
        other.reset(seed=4)
        for _ in range(30):
            other.step(other.action_space.sample())
        assert played(one) == played(other)


@pytest.mark.parametrize(
    ("env_id", "params", "said"),
    [
        ("", {}, "--env-id is missing"),
        ("FrozenLak-v1", {}, "did you mean 'FrozenLake-v1'"),
        ("CartPole-v1", {"gravity": 3.0}, "--gravity is not a setting of CartPole-v1: it has none"),
        ("FrozenLake-v1", {"sticky_actions": 0.5}, "--sticky-actions is not a setting .* --map, --slippery"),
        ("FrozenLake-v1", {"map": "9x9"}, "^FrozenLake-v1 has no map '9x9': its maps are 4x4, 8x8$"),
        ("FrozenLake-v1", {"env_kwargs": {"map_name": ["SG"]}}, "has no map .* its maps are 4x4, 8x8"),
        ("CartPole-v1", {"env_kwargs": {"render_mode": "human"}}, "cannot set 'render_mode'"),
        ("CartPole-v1", {"env_kwargs": {"colour": 1}}, "^CartPole-v1 has no setting 'colour'; .*sutton_barto_reward"),
        ("no_such_module:Thing-v0", {}, "cannot be made here: ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(env_id: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        make_game(env_id, params)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("params", [{}, {"gravity": -4.0}])
def test_a_game_whose_package_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]
) -> None:
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.box2d", "Box2D"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(UsageError, match=r"LunarLander-v3 needs the package Box2D, .*install_extras --set box2d"):
        make_game("LunarLander-v3", params)


def test_without_pygame_it_is_said_once_how_to_get_pictures(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    stage = Stage("CartPole-v1", {})
    for seed in (1, 2):
        stage.reset(seed)
        stage.draw()
        assert "python -m mosaic_worker.extras --set video" in stage.picture_problem
        assert len(stage.picture_problem) < 100, "a terminal has room for it"
    stage.close()
    assert (stage.picture_failures, capfd.readouterr().err.count("no pictures")) == (1, 1)


def test_families_decide_who_waits_for_whom() -> None:
    for env_id, family, waits in (
        ("FrozenLake-v1", "toy_text", True),
        ("CartPole-v1", "classic_control", False),
        ("play_worker.tests.faulty_games:Faulty-v0", "other", True),
    ):
        stage = Stage(env_id, {})
        assert (stage.family, stage.waits) == (family, waits)
        stage.close()
    stage = Stage("FrozenLake-v1", {"turns": "run"})
    assert not stage.waits
    stage.close()


def test_the_record_knows_the_settings_that_were_chosen() -> None:
    params = {"map": "8x8", "slippery": False, "speed": 2.0, "env_kwargs": {"success_rate": 0.5}}
    assert chosen_settings(params) == {"map": "8x8", "slippery": False, "success_rate": 0.5}


def test_actions_are_made_to_fit_or_refused() -> None:
    with make_game("CartPole-v1", {}) as pole:
        space = pole.action_space
        assert fitted(space, np.int64(1)) == 1 and type(fitted(space, np.array([1]))) is int
        for wrong in (2, -1, 0.5, [0, 1], "left", None, np.zeros((2, 2)), {"a": 1}):
            with pytest.raises(BadActionError):
                fitted(space, wrong)
    with make_game("Pendulum-v1", {}) as pendulum:
        assert fitted(pendulum.action_space, [5.0]) == np.float32(2.0), "moved inside the bounds"
        for unfit in ([1.0, 2.0], 1.0, [np.nan], ["x"], None):
            with pytest.raises(BadActionError):
                fitted(pendulum.action_space, unfit)
    assert family_of(pole) == "classic_control"


def test_an_observation_stays_as_it_was() -> None:
    array = np.zeros(2)
    held = kept({"a": array, "b": (array, 3)})
    array[:] = 1
    assert held["a"].tolist() == [0, 0] and held["b"][0].tolist() == [0, 0]
