"""Going back: the episode that counts is the line that was played on, and it replays to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic_protocol.live.messages import Act, End, HandOver, Press, Undo
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.recording.step_recorder import StepRecorder
from mosaic_worker.replay.simulation import Replay
from play_worker.games import make_game
from play_worker.side import Side
from play_worker.stage import Stage
from play_worker.tests.by_hand import FAULTY, Session


class Line:
    """What an episode should be: the model that a side is compared with."""

    def __init__(self) -> None:
        self.steps: list[tuple[Any, float]] = []
        self.made = 0

    def back(self, steps: int) -> None:
        del self.steps[len(self.steps) - steps :]


def played(folder: Path, env_id: str, params: dict[str, Any], chance: random.Random) -> list[Line]:
    """Steps and undos at random, over several episodes, in a side of a session."""
    recording = Recording.new(folder, {"kind": "run", "worker": "play", "env_id": env_id})
    lines: list[Line] = []
    with closing(StepRecorder(recording.folder, seal_seconds=3600)) as recorder:
        stage = Stage(env_id, params)
        with closing(Side("", HandOver("random"), stage, params, recorder.lane(), lambda: None)) as side:
            side.seat.hand_over(side.wish)
            for seed in range(3):
                side.begin_episode(seed)
                lines.append(_episode(side, chance, recorder.flush))
    return lines


def _episode(side: Side, chance: random.Random, flush: Callable[[], None]) -> Line:
    line = Line()
    while True:
        for _ in range(chance.randrange(1, 60)):
            if side.over:
                break
            assert side.choose()
            before = side.total
            side.make_step()
            line.steps.append((side.seat.human.last, side.total - before))
            line.made += 1
        if chance.random() < 0.3:
            flush()
        if line.made > (100 if side.stage.family == "atari" else 400) or (side.over and chance.random() < 0.3):
            return line
        back = chance.randrange(1, len(line.steps) + 1)
        side.go_back(side.earlier(back))
        line.back(back)
        assert (side.step, side.over) == (len(line.steps), "")


@pytest.mark.parametrize(
    ("env_id", "params"),
    [
        ("FrozenLake-v1", {}),
        ("Blackjack-v1", {}),
        ("Taxi-v4", {"rainy": True}),
        ("CartPole-v1", {}),
        ("Pendulum-v1", {}),
        ("LunarLander-v3", {"wind": True}),
        ("BipedalWalker-v3", {}),
        ("MiniGrid-DoorKey-6x6-v0", {}),
        ("HalfCheetah-v5", {}),
        ("ALE/Pong-v5", {"sticky_actions": 0.25}),
    ],
)
def test_whatever_is_undone_the_final_line_is_what_was_played_and_replays(
    tmp_path: Path, env_id: str, params: dict[str, Any]
) -> None:
    lines = played(tmp_path, env_id, params, random.Random(f"{env_id} undone"))
    episodes = {one.number: one for one in read_episodes(Recording.at(tmp_path).chunks())}
    assert sum(len(one) for one in episodes.values()) == sum(len(line.steps) for line in lines)
    for number, line in enumerate(lines):
        episode = episodes[number]
        assert [_plain(episode.action(place)) for place in range(len(episode))] == [
            _plain(one) for one, _ in line.steps
        ]
        np.testing.assert_allclose(episode.rewards, [reward for _, reward in line.steps], atol=1e-9)
        assert sum(len(branch.numbers) for branch in episode.branches) == line.made - len(line.steps)
        assert verified(episode, env_id, params) == len(episode)


def verified(episode: RecordedEpisode, env_id: str, params: dict[str, Any]) -> int:
    with closing(Replay(episode, lambda: make_game(env_id, params))) as replay:
        for _ in replay.run():
            pass
        assert replay.difference is None, replay.difference
        return replay.verified


def _plain(action: Any) -> Any:
    return action.tolist() if hasattr(action, "tolist") else action


def test_a_game_that_goes_another_way_is_not_undone_and_goes_on(tmp_path: Path) -> None:
    with closing(StepRecorder(tmp_path)) as recorder:
        stage = Stage(FAULTY, {"env_kwargs": {"length": 100}})
        with closing(Side("", HandOver("random"), stage, {}, recorder.lane(), lambda: None)) as side:
            side.seat.hand_over(side.wish)
            side.begin_episode(1)
            for made in range(5):
                side.choose()
                side.make_step()
                if made == 2:
                    stage.env.unwrapped._count = 50  # type: ignore[attr-defined]
            with pytest.raises(UsageError, match="does not go the same way twice"):
                side.earlier(1)
            side.choose()
            side.make_step()
            assert side.step == 6 and len(side.history) == 0, "it plays on"
            with pytest.raises(UsageError, match="does not go the same way twice"):
                side.earlier(1)


def test_a_person_undoes_a_fall_and_the_session_records_both(tmp_path: Path) -> None:
    with Session(tmp_path, "FrozenLake-v1", slippery=False) as session:
        session.until("its first move", lambda: session.client.state.waiting)
        session.send(Undo())
        session.until("a refusal", lambda: session.client.refusals)
        assert session.client.refusals == ["there is no step to undo"]
        session.send(Press("down"), Press("right"))  # into the hole
        session.until("the fall", lambda: session.client.state.over)
        assert (session.client.state.can_undo, session.client.state.episodes) == (2, 1)
        session.send(Undo(9))
        session.until("a refusal", lambda: len(session.client.refusals) == 2)
        assert session.client.refusals[1] == "9 steps cannot be undone: the episode has 2"
        session.send(Undo(1))
        session.until("before the fall", lambda: not session.client.state.over)
        state = session.client.state
        assert (state.step, state.can_undo, state.episodes, state.best, state.steps) == (1, 1, 0, None, 2)
        assert (state.action, state.acted) == ("", ""), "the move into the hole has not happened any more"
        for key in ("down", "right", "down", "right", "right"):
            session.send(Press(key))
        session.until("the goal", lambda: session.client.state.over)
        state = session.client.state
        assert (state.step, state.total, state.steps, state.episode) == (6, 1.0, 7, 0)
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
        (episode,) = read_episodes(_chunks(session))
    assert [step.action for step in steps] == [1, 2, 1, 2, 1, 2, 2], "nothing that was made is lost"
    assert [step.info.get("undone") for step in steps] == [None, None, 1, None, None, None, None]
    assert [episode.action(place) for place in range(len(episode))] == [1, 1, 2, 1, 2, 2]
    assert episode.is_whole and verified(episode, "FrozenLake-v1", {"slippery": False}) == 6


def test_a_game_by_the_clock_waits_for_a_key_after_an_undo(tmp_path: Path) -> None:
    with Session(tmp_path, "CartPole-v1", turns="wait") as session:
        session.until("a state", lambda: session.client.state.waiting)
        session.send(Act(0), Act(1), Act(0), Act(1))
        session.until("four steps", lambda: session.client.state.step == 4)
        session.send(Undo(3), Act(1))
        session.until("another one", lambda: session.client.state.steps == 5)
        assert session.client.state.step == 2
        session.send(End())
        assert session.ended() == 0


def _chunks(session: Session) -> Any:
    outbox = session.run_dir / "outbox"
    return Recording.new(outbox, {"kind": "run"}).chunks()
