"""The mind of an agent at any recorded episode, put together from changes that lie in chunks before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gym_gui.cli.commands.mind import text_of
from gym_gui.services import recorded_steps
from gym_gui.services.minds import NoMindError, minds_of, newest_episode
from gym_gui.services.recorded_steps import StepSource
from mosaic_protocol.mind import MIND, WHOLE_EVERY, Belief, Considered, Intention, MindRecord, Said
from mosaic_protocol.steps.chunk import OpenedChunk
from mosaic_protocol.steps.recordings import RUN, Recording
from mosaic_worker.recording.step_recorder import StepRecorder

ABOUT = {"kind": RUN, "worker": "spade_bdi_rl_worker", "env_id": "FrozenLake-v1", "run_name": "bdi"}


@contextmanager
def recorded(folder: Path) -> Iterator[StepRecorder]:
    with closing(StepRecorder(Recording.new(folder, ABOUT).folder)) as recorder:
        yield recorder


def play(
    recorder: StepRecorder,
    agents: tuple[str, ...],
    episodes: int,
    steps: int,
    *,
    each_step: bool = False,
    apart: bool = False,
) -> None:
    """Agents in turn; each believes the number of its last episode, in changes, and a whole record every so often.
    ``apart``: each episode in a chunk of its own, as long ones are."""
    lanes = {name: recorder.lane(name, "agent") for name in agents}
    for number in range(episodes):
        for name, lane in lanes.items():
            lane.begin_episode(number)
            for place in range(steps):
                record = MindRecord(values=[float(place)])
                if place == 0:
                    record = MindRecord(
                        whole=number % WHOLE_EVERY == 0,
                        plan="explore" if number == 0 else None,
                        goal=f"play_{name}" if number % WHOLE_EVERY == 0 else None,
                        added=[Belief("played", (number,), "self")],
                        removed=[Belief("played", (number - 1,), "self")] if number % WHOLE_EVERY else [],
                    )
                extras: dict[str, Any] | None = {MIND: record.to_extra()} if place == 0 or each_step else None
                lane.append(place, 1, 0.0, place == steps - 1, extras=extras, final_observation=place + 1)
            if apart:
                recorder.flush()


def source_of(folder: Path) -> StepSource:
    return recorded_steps.of_folder(folder)


def test_any_episode_is_read_from_the_last_whole_record_on(tmp_path: Path) -> None:
    """Far more episodes than a chunk holds, of two agents whose episodes alternate."""
    with recorded(tmp_path / "r") as recorder:
        play(recorder, ("scout", "bdi"), episodes=300, steps=5)
    source = source_of(tmp_path / "r")
    for number in (0, 1, 63, 64, 65, 200, 299):
        for place, name in enumerate(("scout", "bdi")):
            (at,) = minds_of(source, 2 * number + place)
            assert (at.agent_id, at.place) == (name, 0)
            assert at.mind.beliefs == (Belief("played", (number,), "self"),)
            assert at.mind.goal == f"play_{name}"
            assert len(at.mind.removed) == (number % WHOLE_EVERY > 0)


def test_each_step_has_a_mind_where_that_was_recorded(tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        play(recorder, ("bdi",), episodes=3, steps=4, each_step=True)
    found = minds_of(source_of(tmp_path / "r"), 2)
    assert [one.place for one in found] == [0, 1, 2, 3]
    assert [one.mind.values for one in found] == [(), (1.0,), (2.0,), (3.0,)]
    assert {one.mind.beliefs for one in found} == {(Belief("played", (2,), "self"),)}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        lane = recorder.lane()
        lane.begin_episode(1)
        lane.append(0, 1, 0.0)
        lane.begin_episode(2)
        lane.append(0, 1, 0.0, extras={MIND: {"plan": "explore"}})
    source = source_of(tmp_path / "r")
    with pytest.raises(NoMindError, match="has no recorded episode 7: `mosaic episodes` lists"):
        minds_of(source, 7)
    with pytest.raises(NoMindError, match="has no record of a mind: only workers with beliefs"):
        minds_of(source, 0)
    with pytest.raises(NoMindError, match="cannot be put together: changes of a mind without a whole record"):
        minds_of(source, 1)


def test_a_mind_on_a_terminal(tmp_path: Path) -> None:
    record = MindRecord(
        whole=True,
        plan="exploit",
        goal="play",
        confidence=0.5,
        added=[Belief("slippery", (), "person"), Belief("hole", (5,), "scout\x1b[31m")],
        goals=["learn"],
        intentions=[Intention("learn", "learning", "!play"), Intention("play", "exploit", ".run_episode(exploit)")],
        considered=[Considered("reuse", "policy(cached)", "policy(cached) is not believed"), Considered("exploit")],
        messages=[Said("in", "person", "tell", "slippery")],
        problem="",
    )
    with recorded(tmp_path / "r") as recorder:
        lane = recorder.lane("bdi")
        lane.begin_episode(1)
        lane.append(0, 1, 0.0, extras={MIND: record.to_extra()})
    (at,) = minds_of(source_of(tmp_path / "r"), 0)
    told = text_of(at, 1)
    assert "chose exploit for play" in told and "██████████░░░░░░░░░░ 0.50" in told
    assert "✗ reuse  [policy(cached)]  policy(cached) is not believed" in told and "✓ exploit" in told
    assert "← person tell slippery" in told and "hole(5)" in told
    assert told.index("play by exploit: .run_episode(exploit)") < told.index("learn by learning: !play")
    assert "\x1b[31m" not in told
    assert at.to_object()["beliefs"][0] == {"belief": "slippery", "source": "person"}


def test_the_newest_episode_is_that_of_the_agent_who_is_meant(tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        play(recorder, ("scout", "bdi"), episodes=3, steps=5)
        play(recorder, ("bdi",), episodes=400, steps=5)  # the scout has done its share
    source = source_of(tmp_path / "r")

    def last_step() -> Iterator[Any]:
        return iter([step for chunk in source.chunks(405) for step in OpenedChunk(chunk).steps()][-1:])

    assert newest_episode(source, last_step()) == newest_episode(source, last_step(), "bdi") == 405
    assert newest_episode(source, last_step(), "scout") == 4
    with pytest.raises(NoMindError, match="were played by bdi, scout, none of them by 'nobody'"):
        newest_episode(source, last_step(), "nobody")
    with pytest.raises(NoMindError, match=r"'scuot'; did you mean 'scout'\?"):
        newest_episode(source, last_step(), "scuot")
    with pytest.raises(NoMindError, match="episode 4 of r was played by scout, not by 'bdi'"):
        minds_of(source, 4, "bdi")


def test_a_whole_record_is_found_behind_long_episodes_of_many_agents(tmp_path: Path) -> None:
    agents = tuple(f"a{number}" for number in range(16))
    with recorded(tmp_path / "r") as recorder:
        play(recorder, agents, episodes=WHOLE_EVERY, steps=1, apart=True)
    chunks = {chunk.first_episode: chunk for chunk in source_of(tmp_path / "r").chunks(None)}
    source = StepSource("r", ABOUT, lambda number: iter([chunks[number]] if number in chunks else []))
    (last,) = minds_of(source, 16 * WHOLE_EVERY - 1)
    assert last.agent_id == "a15" and [one.text for one in last.mind.beliefs] == [f"played({WHOLE_EVERY - 1})"]
