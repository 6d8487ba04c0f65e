"""A policy sees an Atari game as it did in training, and holds its actions as long."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from play_worker.games import make_game
from play_worker.lenses import AtariLens, lens_for

NEEDED = {"type": "Box", "shape": [4, 84, 84], "dtype": "uint8"}


def test_pictures_are_those_of_training() -> None:
    """Against the emulator's own grey screens, four frames an action."""
    with make_game("PongNoFrameskip-v4", {}) as game:
        lens = lens_for(NEEDED, game)
        assert lens is not None
        observation, _ = game.reset(seed=3)
        seen = [lens.look(observation)]
        greys, expected = [], [_small(_grey(game))]
        for step in range(1, 21):
            observation = game.step(2 + step // 4 % 2)[0]
            greys.append(_grey(game))
            looked = lens.look(observation)
            assert (looked is None) == (step % 4 != 0), "an action is held for four frames"
            if looked is not None:
                seen.append(looked)
                expected.append(_small(np.maximum(greys[-1], greys[-2])))
    assert [stack.shape for stack in seen if stack is not None] == [(4, 84, 84)] * 6
    for number in range(3, 6):
        wanted = np.array(expected[number - 3 : number + 1], np.int64)
        found = np.asarray(seen[number], np.int64)
        assert np.abs(found - wanted).max() <= 2, "grey out of colours is rounded once more"


def test_a_game_that_skips_frames_is_looked_at_each_step() -> None:
    with make_game("ALE/Pong-v5", {}) as game:
        lens = lens_for(NEEDED, game)
        assert lens is not None
        first = lens.look(game.reset(seed=1)[0])
        second = lens.look(game.step(2)[0])
        assert first is not None and second is not None and (first[0] == second[0]).all()
        lens.begin()
        again = lens.look(game.step(2)[0])
        assert again is not None and (again[0] == again[3]).all(), "nothing of before is seen"


@pytest.mark.parametrize(
    ("env_id", "needed"),
    [("CartPole-v1", NEEDED), ("ALE/Pong-v5", {"shape": [210, 160, 3]}), ("ALE/Pong-v5", {}), ("CarRacing-v3", NEEDED)],
)
def test_there_is_no_lens_for_anything_else(env_id: str, needed: dict[str, Any]) -> None:
    with make_game(env_id, {}) as game:
        assert lens_for(needed, game) is None


def test_an_action_is_held_as_often_as_the_game_does_not_itself() -> None:
    frame = np.zeros((210, 160, 3), np.uint8)
    for skip, held in ((1, 4), (2, 2), (4, 1), (5, 1)):
        lens = AtariLens(skip)
        assert [lens.look(frame) is not None for _ in range(8)] == [step % held == 0 for step in range(8)]


def _grey(game: Any) -> Any:
    return game.unwrapped.ale.getScreenGrayscale()


def _small(grey: Any) -> Any:
    return cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA)
