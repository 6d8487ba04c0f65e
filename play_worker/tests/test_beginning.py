"""A session that begins in a recorded episode stands in the very state, and its own replay is an ordinary one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.replay.clips import Clip
from mosaic_worker.replay.simulation import Replay
from mosaic_worker.tests.replay.recorded import episode, made, record
from play_worker.beginning import TAKEN_OVER, Beginning
from play_worker.games import make_game
from play_worker.tests.by_hand import Session


def taken(folder: Path, step: int, number: int = 0) -> Beginning:
    found = Beginning.asked_for({"from_recording": str(folder), "from_episode": number, "from_step": step})
    assert found is not None
    return found


def recorded_by(session: Session, env_id: str) -> RecordedEpisode:
    found = Recording(session.run_dir / "outbox", {"env_id": env_id})
    return next(iter(read_episodes(found.chunks(0), 0)))


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "Pendulum-v1"])
def test_what_was_taken_over_replays_verified_with_those_who_acted(env_id: str, tmp_path: Path) -> None:
    source = record(tmp_path / "source", env_id, most_steps=30)
    before, step = episode(source), min(4, len(episode(source)) - 1)
    how: dict[str, Any] = {"from_recording": str(source.folder), "from_episode": 0, "from_step": step}
    how |= {"frames": env_id == "Pendulum-v1"}
    with Session(tmp_path / "session", env_id, actor="random", speed=0, episodes=1, **how) as session:
        assert session.ended() == 0, session.output
        after = recorded_by(session, env_id)
        films = list(session.run_dir.glob("videos/*"))
    assert after.seed == before.seed and after.is_whole and len(after) > step
    assert after.actors[:step] == ["policy"] * step and set(after.actors[step:]) == {"random"}
    assert after.extras[0][TAKEN_OVER] == {"episode": 0, "step": step}
    assert after.rewards[:step].tolist() == before.rewards[:step].tolist()
    with closing(Replay(after, lambda: make_game(env_id, {}))) as replay:
        for _ in replay.run():
            pass
        assert (replay.difference, replay.verified) == (None, len(after))
    assert [film.name for film in films] == (["episode-0-step-0.mp4"] if how["frames"] else [])
    for film in films:
        assert len(Clip(film)) == len(after) + 1


def test_a_session_is_refused_where_the_game_is_another_one(tmp_path: Path) -> None:
    source = record(tmp_path / "source", "Pendulum-v1", most_steps=30)
    Recording.new(source.folder, {**source.about, "worker": "play"})
    how: dict[str, Any] = {"from_recording": str(source.folder), "from_step": 9, "gravity": 3.0}
    with Session(tmp_path / "session", "Pendulum-v1", actor="random", speed=0, episodes=1, **how) as session:
        assert session.ended() != 0
        assert "step 9 cannot be reached: the game leaves the recording at step 1 (observation[0]" in session.output


def test_only_steps_that_have_a_next_one_can_be_taken_over(tmp_path: Path) -> None:
    source = record(tmp_path, "CartPole-v1", seeds=(3, None))
    length = len(episode(source))
    assert taken(source.folder, length - 1).step == length - 1 and Beginning.asked_for({}) is None
    for step, number, why in (
        (length, 0, f"can be taken over at the steps 0 to {length - 1}, not at {length}"),
        (0, 1, "recorded without a seed"),
        (0, 7, "has no episode 7"),
    ):
        with pytest.raises(UsageError, match=why):
            taken(source.folder, step, number)
    with pytest.raises(UsageError, match="holds no recording"):
        taken(tmp_path / "nowhere", 0)


def test_an_episode_that_was_not_ended_goes_on_where_it_stopped(tmp_path: Path) -> None:
    source = record(tmp_path, "Pendulum-v1", most_steps=5)
    found = taken(source.folder, 5)
    assert [one.actor for one in found.steps()] == ["policy"] * 5
    with closing(made("Pendulum-v1")) as env:
        observation, reward = env.reset(seed=found.seed)[0], None
        for place, one in enumerate(found.steps()):
            found.check(place, observation, reward)
            observation, reward = env.step(one.action)[:2]
        found.check(5, observation, reward)
        with pytest.raises(UsageError, match=r"recording at step 4 \(reward was .* replayed, not taken over"):
            found.check(5, observation, 17.0)
