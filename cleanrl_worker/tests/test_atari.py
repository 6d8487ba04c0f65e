"""Atari games: what their names mean, what an agent sees of them, and that a kept game goes on to the bit."""

from __future__ import annotations

from typing import Any

import cv2
import gymnasium as gym
import numpy as np
import pytest

from cleanrl_worker import atari
from cleanrl_worker.atari import AtariEvaluation, AtariGame, AtariGames, UnknownGameError, parse_name
from mosaic_worker.state.plain_state import decode, encode
from mosaic_worker.state.tensor_kinds import Tensors


def play(games: AtariGames, steps: int, seed: int) -> list[Any]:
    """Everything that random actions bring."""
    random = np.random.default_rng(seed)
    story: list[Any] = []
    for _ in range(steps):
        found = games.step(random.integers(int(games.single_action_space.n), size=games.count))
        story.append([games.observations.copy(), found.rewards, found.terminated, found.truncated])
        story.append(found.finished)
    return story


def same(one: list[Any], other: list[Any]) -> bool:
    return all(
        mine == theirs if not (mine and isinstance(mine[0], np.ndarray)) else all(map(np.array_equal, mine, theirs))
        for mine, theirs in zip(one, other, strict=True)
    )


@pytest.fixture
def breakout() -> AtariGames:
    return AtariGames("BreakoutNoFrameskip-v4", 2, seed=3)


# --- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "rom", "sticky"),
    [
        ("ALE/Pong-v5", "pong", 0.25),
        ("PongNoFrameskip-v4", "pong", 0.0),
        ("Pong-v5", "pong", 0.0),
        ("MsPacmanNoFrameskip-v4", "ms_pacman", 0.0),
        ("ALE/TicTacToe3D-v5", "tic_tac_toe_3d", 0.25),
    ],
)
def test_a_game_has_three_spellings_of_which_one_means_sticky_actions(env_id: str, rom: str, sticky: float) -> None:
    assert parse_name(env_id) == (rom, sticky)


def test_every_game_that_gymnasium_names_is_known() -> None:
    import ale_py

    gym.register_envs(ale_py)
    named = [name for name in gym.registry if name.startswith("ALE/") and "-ram" not in name]
    assert len(named) > 100
    for name in named:
        parse_name(name)


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("PongNoFramskip-v4", "there is no Atari game 'PongNoFramskip-v4'; did you mean 'PongNoFrameskip-v4'?"),
        ("ALE/Pongg-v5", "there is no Atari game 'ALE/Pongg-v5'; did you mean 'ALE/Pong-v5'?"),
        ("Montezuma-v5", "there is no Atari game 'Montezuma-v5'; did you mean 'MontezumaRevenge-v5'?"),
        ("CartPole-v1", "CartPole-v1 is none: try an algorithm for Gymnasium's environments, such as ppo"),
        (
            "Pong-v4",
            "there is no Atari game 'Pong-v4'; names are spelled like PongNoFrameskip-v4, Pong-v5 or",
        ),
        ("Combat-v5", "there is no Atari game 'Combat-v5'; "),
        ("../../x", "there is no Atari game '../../x'; names are spelled like PongNoFrameskip-v4, Pong-v5 or ALE/Pong"),
    ],
)
def test_an_unknown_game_is_answered_with_the_nearest(env_id: str, sentence: str) -> None:
    with pytest.raises(UnknownGameError) as refused:
        parse_name(env_id)
    assert str(refused.value).startswith(sentence)


# --- what is seen ------------------------------------------------------------------------------------------


def test_an_observation_is_the_last_four_pictures(breakout: AtariGames) -> None:
    before = breakout.observations.copy()
    assert (before == before[:, :1]).all(), "a new episode is four times its first picture"
    breakout.step(np.array([2, 3]))
    assert np.array_equal(breakout.observations[:, :3], before[:, 1:])
    assert not np.array_equal(breakout.observations[:, 3], before[:, 3])


def test_a_picture_is_the_brighter_of_the_last_two_of_four_frames() -> None:
    """Against the same frames taken one by one."""
    game = AtariGame("SpaceInvadersNoFrameskip-v4", episodic_life=True)
    game.seed(1)
    game.reset()
    single = AtariGame("SpaceInvadersNoFrameskip-v4", episodic_life=True)
    for step in range(30):
        single.snapshot = game.snapshot
        game.step(step % 6)
        frames = []
        for _ in range(4):
            single._ale.act(single._actions[step % 6])
            frames.append(single._ale.getScreenGrayscale())
        brighter = np.maximum(frames[2], frames[3])
        expected = cv2.resize(brighter, (84, 84), interpolation=cv2.INTER_AREA)
        assert np.array_equal(game.stack[-1], expected)
        assert game.frames == single.frames + 4


def test_games_begin_at_different_moments() -> None:
    games = AtariGames("PongNoFrameskip-v4", 6, seed=1)
    assert len({game.frames for game in games.games}) > 1
    fired = 2 * atari.FRAME_SKIP
    assert all(1 <= game.frames - fired <= atari.MOST_NO_OPS for game in games.games)


def test_fire_is_pressed_for_each_life_so_that_the_ball_is_always_in_play(breakout: AtariGames) -> None:
    """No-ops alone lose a life after a while: without fire the ball would never come."""
    lost = 0
    for _ in range(200):
        lost += int(breakout.step(np.zeros(2, dtype=np.int64)).terminated.sum())
    assert lost >= 8


def test_a_lost_life_ends_the_episode_and_the_game_goes_on() -> None:
    games = AtariGames("BreakoutNoFrameskip-v4", 1, seed=2)
    random = np.random.default_rng(1)
    lives, scores = [], []
    finished: list[tuple[int, float, int]] = []
    while not finished:
        game = games.games[0]
        before = game.lives
        found = games.step(random.integers(4, size=1))
        finished += found.finished
        if found.terminated[0] and not finished:
            lives.append((before, game.lives))
            scores.append(game.score)
    assert lives == [(5, 4), (4, 3), (3, 2), (2, 1)]
    ((number, score, frames),) = finished
    assert number == 0 and score >= max(scores) and frames > 400
    assert games.games[0].lives == 5 and games.games[0].score == 0


def test_the_score_is_the_games_own_over_all_its_lives() -> None:
    games = AtariGames("SpaceInvadersNoFrameskip-v4", 1, seed=1)
    random = np.random.default_rng(0)
    total = 0.0
    for _ in range(3000):
        found = games.step(random.integers(6, size=1))
        total += float(found.rewards[0])
        if found.finished:
            break
    ((_, score, _),) = found.finished
    assert score == total > 5, "unclipped, and summed over episodes of a life each"


def test_a_game_that_meets_the_time_limit_is_truncated_and_shows_its_last_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atari, "MOST_FRAMES", 200)
    games = AtariGames("PongNoFrameskip-v4", 1, seed=1)
    before = games.observations.copy()
    while not (found := games.step(np.zeros(1, dtype=np.int64))).truncated[0]:
        before = games.observations.copy()
    assert not found.terminated[0] and len(found.finished) == 1
    ((number, last),) = found.cut_off
    assert number == 0 and np.array_equal(last[:3], before[0, 1:])
    assert not np.array_equal(last, games.observations[0])


# --- kept games --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", "PongNoFrameskip-v4", "MontezumaRevenge-v5"])
def test_a_kept_game_goes_on_to_the_bit(env_id: str) -> None:
    """Through the form that checkpoints have, into games that were somewhere else; sticky actions draw lots too."""
    games = AtariGames(env_id, 2, seed=3)
    play(games, 120, seed=1)
    tensors: Tensors = {}
    kept = encode(games.snapshot, "games", tensors)
    expected = play(games, 300, seed=2)
    other = AtariGames(env_id, 2, seed=99)
    play(other, 10, seed=5)
    other.snapshot = decode(kept, tensors)
    assert same(expected, play(other, 300, seed=2))


def test_the_same_seed_gives_the_same_games_and_another_one_others() -> None:
    stories = [play(AtariGames("ALE/Breakout-v5", 2, seed=seed), 60, seed=1) for seed in (4, 4, 5)]
    assert same(stories[0], stories[1]) and not same(stories[0], stories[2])


def test_games_of_another_number_are_refused(breakout: AtariGames) -> None:
    kept = AtariGames("BreakoutNoFrameskip-v4", 1, seed=1).snapshot
    with pytest.raises(ValueError, match="the checkpoint has 1 games, this run has 2"):
        breakout.snapshot = kept


# --- evaluation --------------------------------------------------------------------------------------------


def test_an_evaluated_episode_is_a_whole_game_with_its_true_score() -> None:
    env = AtariEvaluation("SpaceInvadersNoFrameskip-v4", "rgb_array")
    random = np.random.default_rng(0)
    rewards, lives, done = [], [], False
    first, _ = env.reset(seed=7)
    assert first.shape == (4, 84, 84)
    while not done:
        _, reward, terminated, truncated, info = env.step(random.integers(6))
        rewards.append(reward)
        lives.append(info["lives"])
        done = terminated or truncated
    assert set(lives) == {3, 2, 1, 0} and max(rewards) >= 5
    assert sum(rewards) == env._game.score
    assert env.render().shape == (210, 160, 3)


def test_evaluation_is_repeatable_and_a_reset_begins_a_new_game() -> None:
    def seen(seed: int | None, env: AtariEvaluation) -> list[Any]:
        first, _ = env.reset(seed=seed)
        return [first, *(env.step(0)[0] for _ in range(40))]

    env = AtariEvaluation("ALE/Breakout-v5")
    first, again, other = seen(7, env), seen(7, env), seen(None, env)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert env.step(0)[4]["lives"] >= 4
