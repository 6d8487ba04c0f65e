"""Sessions in their own processes: seats change hands, every step is recorded, and what breaks is said."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.live.client import LiveClient, SessionAwayError
from mosaic_protocol.live.frames import FrameReader
from mosaic_protocol.live.messages import (
    Act,
    End,
    Go,
    HandOver,
    Hold,
    Keys,
    Pause,
    Press,
    Restart,
    SingleStep,
    Speed,
    Unseated,
    socket_of,
)
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.tests.by_hand import FAULTY, ROOT, Session, told
from play_worker.tests.dropped import dropped_policies

# ---- seats -----------------------------------------------------------------------------------------------------------


def test_a_person_moves_a_turn_based_game_and_it_waits_in_between(tmp_path: Path) -> None:
    with Session(tmp_path, "FrozenLake-v1", slippery=False, map="4x4") as session:
        hello = session.client.wait_for_hello()
        assert (hello.waits, hello.family, hello.settings) == (True, "toy_text", {"slippery": False, "map": "4x4"})
        session.until("its first move", lambda: session.client.state.waiting)
        for key in ("right", "right", "down", "down", "down", "right"):
            session.send(Press(key))
        session.until("the goal", lambda: session.client.state.over == "terminated")
        state = session.client.state
        assert (state.steps, state.total, state.episodes, state.best) == (6, 1.0, 1, 1.0)
        assert "G" in state.text, "drawn with characters"
        frame = session.client.frame()
        assert frame is not None and len(frame.pixels) == frame.width * frame.height * 3
        session.send(Press("left"))  # begins the next episode, and is no move
        session.until("the next episode", lambda: session.client.state.episode == 1)
        assert (session.client.state.seed, session.client.state.step) == (8, 0)
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
    assert [step.action for step in steps] == [2, 2, 1, 1, 1, 2]
    assert [step.observation for step in steps] == [0, 1, 2, 6, 10, 14]
    assert {step.actor for step in steps} == {"human"}
    assert steps[-1].terminated and steps[-1].final_observation == 15
    assert not socket_of(session.run_dir).exists()
    assert not Path(state.frames).exists()


def test_a_real_time_game_begins_with_a_key_and_runs_at_a_speed(tmp_path: Path) -> None:
    with Session(tmp_path, "CartPole-v1", speed=4) as session:
        session.until("a state", lambda: session.client.state.waiting)
        assert session.client.state.steps == 0
        session.send(Hold(("left",)))
        session.until("the end", lambda: session.client.state.over)
        session.send(Restart("same"), Hold(()), Hold(("right",)))
        session.until("another end", lambda: session.client.state.over and session.client.state.episode == 1)
        assert session.client.state.seed == 7
        session.send(End())
        session.ended()
        steps = session.steps()
    assert [{step.action for step in steps if step.episode == number} for number in (0, 1)] == [{0}, {1}]
    again = next(step for step in steps if step.episode == 1)
    assert steps[0].observation == again.observation, "the same seed begins alike"


def test_who_leaves_without_a_word_holds_no_key_and_a_clock_waits_for_somebody(tmp_path: Path) -> None:
    with Session(tmp_path, "MountainCar-v0", speed=0.25) as session:
        session.until("a state", lambda: session.client.state.waiting)
        with LiveClient(session.run_dir) as other:
            other.send(Hold(("left",)))
            session.until("the key", lambda: session.client.state.action == "push left")
        session.until("the key let go", lambda: session.client.state.action == "coast")
        assert not session.client.state.paused, "somebody watches"
        session.forget_client()
        session.until("the clock to stand still", lambda: session.client.state.paused)
        stood = session.client.state.steps
        session.send(SingleStep())
        session.until("one step", lambda: session.client.state.steps == stood + 1)


def test_pause_single_step_speed_and_restart(tmp_path: Path) -> None:
    with Session(tmp_path, FAULTY, actor="random", speed=0.5, env_kwargs={"length": 100_000}) as session:
        session.until("steps", lambda: session.client.state.steps > 3)
        session.send(Pause())
        session.until("a pause", lambda: session.client.state.paused)
        held = session.client.state.steps
        for more in (1, 2):
            session.send(SingleStep())
            session.until("one step", lambda more=more: session.client.state.steps == held + more)
        assert not session.client.receive(0.3), "nothing happens while it is paused"
        session.send(Speed(0), Go())
        session.until("many steps", lambda: session.client.state.steps > held + 500)
        session.send(Restart("next"))
        session.until("another episode", lambda: session.client.state.episode == 1)
        session.send(Restart(99))
        session.until("a seed that was asked for", lambda: session.client.state.seed == 99)
        session.send(End())
        with pytest.raises(SessionAwayError, match="the session ended"):
            session.until("its end", lambda: False)
        session.ended()
        steps = session.steps()
    assert [step.step for step in steps] == list(range(len(steps)))
    assert len(steps) == session.client.state.steps, "the last state is told"


def test_keys_that_mean_no_action_are_refused_and_the_game_goes_on(tmp_path: Path) -> None:
    with Session(tmp_path, "Pendulum-v1") as session:
        session.send(Keys({"x": 3}))
        session.until("a sentence", lambda: "the key 'x' cannot be used" in session.client.state.problem)
        session.send(Press("x"))
        session.send(Press("left"))
        session.until("steps", lambda: session.client.state.steps > 2)
        session.send(End())
        session.ended()


def test_every_step_knows_who_made_it(tmp_path: Path) -> None:
    script = tmp_path / "actions.json"
    script.write_text(json.dumps([1, 1, 0]))
    with Session(tmp_path / "session", FAULTY, speed=0, env_kwargs={"length": 100_000}) as session:
        session.send(Act(1), Act(0))
        session.until("two moves", lambda: session.client.state.steps == 2)
        session.send(HandOver("random"))
        session.until("chance", lambda: session.client.state.actor == "random" and session.client.state.steps > 50)
        session.send(Press("1"), Hold(("1",)), Act(1))
        session.until("a refusal", lambda: session.client.refusals)
        assert session.client.refusals == ["the random actor has the seat: hand it over to the person first"]
        session.send(HandOver("human"))
        session.until("a person", lambda: session.client.state.actor == "human")
        taken = session.client.state.steps
        assert not session.client.receive(0.3) and session.client.state.steps == taken, "keys of before are no moves"
        session.send(HandOver("scripted", script=str(script)))
        session.until("the script's end", lambda: "no more actions" in session.client.state.problem)
        assert session.client.state.actor == "human", "the one of before plays on"
        before = session.client.state.steps
        session.send(Act(1))
        session.until("a move", lambda: session.client.state.steps == before + 1)
        session.send(End())
        session.ended()
        steps = session.steps()
    runs = [steps[0].actor, *(b.actor for a, b in pairwise(steps) if a.actor != b.actor)]
    assert runs == ["human", "random", "scripted", "human"]
    assert [step.action for step in steps if step.actor == "scripted"] == [1, 1, 0]
    assert {step.episode for step in steps} == {0}, "in the middle of an episode"
    assert [step.observation[0] for step in steps] == list(range(len(steps)))


# ---- policies --------------------------------------------------------------------------------------------------------


def pole(tmp_path: Path, act: str = "", **params: Any) -> Session:
    workers = dropped_policies(tmp_path / "workers", act)
    params = {"speed": 0, **params}
    return Session(tmp_path / "session", "CartPole-v1", {"MOSAIC_WORKER_PATH": str(workers)}, **params)


def test_a_policy_takes_the_seat_while_the_one_of_before_plays_on(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    with pole(tmp_path, actor="random") as session:
        session.until("chance", lambda: session.client.state.steps > 0)
        session.send(HandOver("policy", checkpoint=checkpoint))
        session.until("loading", lambda: session.client.state.loading == checkpoint)
        loading = session.client.state
        assert loading.actor == "random"
        session.until("steps meanwhile", lambda: session.client.state.steps > loading.steps)
        session.until("the policy", lambda: session.client.state.actor == "policy")
        assert session.client.state.checkpoint == checkpoint and session.client.state.unseated == Unseated()
        seated = session.client.state.steps
        session.until("its steps", lambda: session.client.state.steps > seated + 50)
        session.send(HandOver("human"))
        session.until("a person", lambda: session.client.state.actor == "human")
        assert not session.client.state.checkpoint
        session.send(End())
        session.ended()
        steps = session.steps()
    first = next(step for step in steps if step.actor == "policy")
    assert first.info["checkpoint"] == checkpoint and len(first.info["sha256"]) == 64
    assert [step.step for step in steps] == list(range(len(steps)))


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("return np.zeros((len(observations), 3), np.int64)", "wrong action"),
        ("return np.zeros(7, np.int64)", "actions of the shape"),
        ("return np.full(len(observations), 9)", "wrong action"),
        ("raise ValueError('no idea')", "no idea"),
        ("import os; os._exit(4)", "status 4"),
    ],
    ids=["shape", "batch", "no-such-action", "raises", "dies"],
)
def test_a_policy_that_breaks_gives_the_seat_back(tmp_path: Path, act: str, said: str) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    with pole(tmp_path, act, actor="random") as session:
        session.until("chance", lambda: session.client.state.steps > 0)
        session.send(HandOver("policy", checkpoint=checkpoint))
        session.until("the refusal", lambda: said in session.client.state.problem)
        state = session.client.state
        assert state.actor == "random" and "\n" not in state.problem
        assert (state.checkpoint, state.unseated) == ("", Unseated(1, checkpoint, state.problem))
        session.until("chance again", lambda: session.client.state.steps > state.steps + 20)
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
    assert {step.actor for step in steps} == {"random"}
    assert [step.step for step in steps] == list(range(len(steps)))


def test_a_policy_of_another_environment_never_takes_the_seat(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints", "toy_continuous"))
    with pole(tmp_path, actor="random") as session:
        session.until("chance", lambda: session.client.state.steps > 0)
        wrongs = ((checkpoint, "it was trained on Pendulum-v1"), (str(tmp_path / "none"), "none"))
        for number, (wrong, said) in enumerate(wrongs, start=1):
            session.send(HandOver("policy", checkpoint=wrong))
            session.until("the refusal", lambda number=number: session.client.state.unseated.number == number)
            unseated = session.client.state.unseated
            assert unseated.checkpoint == wrong and said in unseated.why
            assert session.client.state.actor == "random"
        session.send(HandOver("policy", checkpoint=checkpoint), HandOver("random"))
        session.until("the end of the first wish", lambda: session.client.state.unseated.number == 3)
        assert session.client.state.unseated.why == "somebody else was given the seat meanwhile"
        session.send(End())
        session.ended()
        assert {step.actor for step in session.steps()} == {"random"}


@pytest.mark.parametrize("python", ["", sys.executable])
def test_a_policy_that_began_gets_the_seat_back_at_once(tmp_path: Path, python: str) -> None:
    """Whoever hands it over may name the interpreter that the session took by itself."""
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    with pole(tmp_path, actor="policy", checkpoint=checkpoint) as session:
        session.until("the policy", lambda: session.client.state.actor == "policy")
        session.send(HandOver("human"))
        session.until("a person", lambda: session.client.state.actor == "human")
        session.send(HandOver("policy", checkpoint=checkpoint, python=python))
        loads: list[str] = []

        def has_the_seat() -> bool:
            loads.append(session.client.state.loading)
            return session.client.state.actor == "policy"

        session.until("the policy again", has_the_seat)
        assert not any(loads), "it was loaded already"
        session.send(End())
        assert session.ended() == 0


def test_a_session_of_a_policy_alone_fails_when_it_cannot_be_loaded(tmp_path: Path) -> None:
    with pole(tmp_path, actor="policy", checkpoint=str(tmp_path / "none"), episodes=1) as session:
        assert session.ended() == 2
        assert "play_worker: the policy failed" in session.output.splitlines()[-1]


# ---- the same twice --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env_id", "params"),
    [
        ("FrozenLake-v1", {}),
        ("Taxi-v4", {"rainy": True}),
        ("CliffWalking-v1", {"slippery": True}),
        ("Blackjack-v1", {}),
        ("CartPole-v1", {}),
        ("MountainCar-v0", {}),
        ("Acrobot-v1", {}),
        ("Pendulum-v1", {"gravity": 5.0}),
        ("MountainCarContinuous-v0", {}),
        ("LunarLander-v3", {"wind": True, "gravity": -7.5}),
        ("BipedalWalkerHardcore-v3", {}),
        ("CarRacing-v3", {"total": 40, "other_colours": True}),
        ("MiniGrid-DoorKey-6x6-v0", {}),
        ("HalfCheetah-v5", {}),
        ("ALE/Pong-v5", {"total": 40, "difficulty": 1, "sticky_actions": 0.25}),
    ],
)
def test_a_seeded_session_gives_the_same_steps_twice(tmp_path: Path, env_id: str, params: dict[str, Any]) -> None:
    recorded = []
    for name in ("one", "two"):
        wanted = {"actor": "random", "speed": 0, "seed": 11, "total": 400, **params}
        with Session(tmp_path / name, env_id, **wanted) as session:
            assert session.ended() == 0, session.output
            recorded.append([told(step) for step in session.steps()])
    assert len(recorded[0]) == params.get("total", 400)
    assert recorded[0] == recorded[1]


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_an_environment_that_raises_in_step_ends_the_session_with_a_sentence(tmp_path: Path) -> None:
    with Session(tmp_path, FAULTY, actor="random", speed=0, env_kwargs={"fault": "raise"}) as session:
        assert session.ended() == 2
        assert f"play_worker: the environment {FAULTY} failed in step: RuntimeError: the game broke" in session.output
        assert len(session.steps()) == 5


def test_an_environment_that_ends_its_process_costs_no_step(tmp_path: Path) -> None:
    with Session(tmp_path, FAULTY, actor="random", speed=0, env_kwargs={"fault": "exit", "at": 777}) as session:
        assert session.ended() == 3
        assert [step.observation[0] for step in session.steps()] == list(range(777))


def test_an_environment_that_cannot_draw_is_played_without_pictures(tmp_path: Path) -> None:
    kwargs = {"fault": "raise", "place": "render", "at": 0}
    with Session(tmp_path, FAULTY, env_kwargs=kwargs) as session:
        session.until("the sentence", lambda: "there are no pictures" in session.client.state.problem)
        session.send(Act(1))
        session.until("a step", lambda: session.client.state.steps == 1)
        assert session.client.frame() is None
        session.send(Restart("next"))  # another chance, which it takes: only its first picture breaks
        session.until("a picture", lambda: session.client.frame() is not None)
        session.until("no more complaints", lambda: not session.client.state.problem)
        session.send(End())
        assert session.ended() == 0


@pytest.mark.parametrize("place", ["step", "render"])
def test_an_environment_that_hangs_is_named_and_can_be_killed(tmp_path: Path, place: str) -> None:
    kwargs = {"fault": "hang", "place": place, "at": 20, "length": 100_000}
    with Session(tmp_path, FAULTY, actor="random", speed=0.2, env_kwargs=kwargs) as session:
        wanted = f"the environment does not come back from {place}"
        session.until("the sentence", lambda: wanted in session.client.state.problem)
        session.kill()
        assert len(session.steps()) == 20


def test_a_session_killed_at_any_instant_has_recorded_every_step_it_finished(tmp_path: Path) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        counter = tmp_path / f"counter-{number}"
        kwargs = {"counter": str(counter), "length": 10}
        with Session(folder, FAULTY, actor="random", speed=0, env_kwargs=kwargs) as session:
            wanted = 200 + 777 * number
            session.until("steps", lambda wanted=wanted: session.client.state.steps > wanted)
            seen, frames = session.client.state.steps, session.client.state.frames
            session.kill()
            finished = int.from_bytes(counter.read_bytes(), "little")
            steps = session.steps()
        assert max(seen, finished - 1) <= len(steps) <= finished
        assert [step.observation[0] for step in steps] == list(range(len(steps)))
        assert [step.episode for step in steps] == [at // 10 for at in range(len(steps))]
        # What the kill left in memory is removed by the next session of this user, which may be another test's.
        with Session(tmp_path / f"after-{number}", FAULTY, actor="random") as following:
            following.until("a picture", lambda following=following: following.client.frame() is not None)
            assert not Path(frames).exists(), "found stale and removed"


READER = """
import sys
from pathlib import Path
from mosaic_protocol.live.frames import FrameReader
reader = FrameReader(Path(sys.argv[1]))
print("reading", flush=True)
while True:
    reader.latest()
"""


def test_a_frame_reader_that_dies_disturbs_nobody(tmp_path: Path) -> None:
    with Session(tmp_path, FAULTY, actor="random", speed=1, env_kwargs={"length": 100_000}) as session:
        session.until("a picture", lambda: session.client.frame() is not None)
        command = [sys.executable, "-c", READER, session.client.state.frames]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None and reader.stdout.readline() == "reading\n"
            reader.kill()
        before = session.client.state.steps
        session.until("the session goes on", lambda: session.client.state.steps > before + 10)
        session.until("another picture", lambda: session.client.frame() is not None)
        session.send(End())
        assert session.ended() == 0


def test_watchers_that_leave_and_die_do_not_disturb_the_session(tmp_path: Path) -> None:
    with Session(tmp_path, FAULTY, actor="random", speed=1, env_kwargs={"length": 100_000}) as session:
        session.until("a picture", lambda: session.client.frame() is not None)
        reader = FrameReader(Path(session.client.state.frames))
        session.client.close()
        session._client = None
        session.until("the session goes on", lambda: session.client.state.steps > 5)
        assert reader.latest() is not None
        reader.close()
        session.send(End())
        assert session.ended() == 0
