"""Several seats side by side: the same seeds, one step at a time, and every step recorded with its seat."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mosaic_protocol.live.messages import Act, End, HandOver, Pause, Press, Restart, Undo
from mosaic_protocol.steps.recorded_episodes import read_episodes
from mosaic_protocol.steps.recordings import Recording
from mosaic_worker.errors import UsageError
from mosaic_worker.replay.simulation import Replay
from mosaic_worker.tests.policies.toys import new_checkpoint
from play_worker.games import make_game
from play_worker.seating import first_wishes, names_of
from play_worker.tests.by_hand import Session, told
from play_worker.tests.dropped import dropped_policies


def lake(tmp_path: Path, seats: str, **params: Any) -> Session:
    return Session(tmp_path, "FrozenLake-v1", seats=seats, slippery=False, **params)


def require_verified(session: Session, env_id: str, params: dict[str, Any]) -> list[Any]:
    episodes = list(read_episodes(Recording.new(session.run_dir / "outbox", {"kind": "run"}).chunks()))
    for episode in episodes:
        assert not episode.options, "the environment was given none"
        with closing(Replay(episode, lambda: make_game(env_id, params))) as replay:
            for _ in replay.run():
                pass
            assert replay.difference is None and replay.verified == len(episode)
    return episodes


def test_two_persons_move_together_and_a_round_is_over_when_both_are(tmp_path: Path) -> None:
    with lake(tmp_path, "human,human") as session:
        assert session.client.wait_for_hello().seats == ("seat-1", "seat-2")
        session.until(
            "a first move",
            lambda: all(seat.waiting for seat in session.client.state.seats) and session.client.state.seats,
        )
        session.send(Press("down"))  # without a seat: the first person's
        assert not session.client.receive(0.3) or session.client.state.steps == 0, "nobody moves alone"
        session.send(Act(2, seat=2))
        session.until("a step of both", lambda: session.client.state.steps == 2)
        state = session.client.state
        assert [(seat.action, seat.step) for seat in state.seats] == [("down", 1), ("right", 1)]
        assert (state.step, state.action, state.actor) == (1, "down", "human"), "a client of one seat sees the first"
        assert session.client.frame(1) is not None and session.client.frame(2) is not None
        session.send(Press("right", seat=1), Press("right", seat=2))  # the first falls
        session.until("the fall", lambda: session.client.state.seats[0].over)
        assert not session.client.state.rounds
        for key in ("down", "down", "down", "right"):
            session.send(Press(key))
            session.send(Press(key, seat=2))
        session.until("the round", lambda: session.client.state.rounds)
        (ended,) = session.client.state.rounds
        assert (ended.seed, ended.totals, ended.steps) == (7, (0.0, 1.0), (2, 6))
        assert [seat.best for seat in session.client.state.seats] == [0.0, 1.0]
        session.send(Undo(5))
        session.until("both back", lambda: [seat.step for seat in session.client.state.seats] == [1, 1])
        assert not session.client.state.rounds and session.client.state.episodes == 0
        session.send(HandOver("random", seat=3))
        session.until("a refusal", lambda: session.client.refusals)
        assert session.client.refusals == ["there is no seat 3: this session has 2"]
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
        require_verified(session, "FrozenLake-v1", {"slippery": False})
    assert [step.agent_id for step in steps[:4]] == ["seat-1", "seat-2"] * 2
    assert {step.episode for step in steps if step.agent_id == "seat-1"} == {0}
    assert [step.action for step in steps if step.agent_id == "seat-2"] == [2, 2, 1, 1, 1, 2]


def test_a_person_against_a_policy_on_the_same_seeds(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    workers = {"MOSAIC_WORKER_PATH": str(dropped_policies(tmp_path / "workers"))}
    seats = f"human,policy:{checkpoint}"
    with Session(tmp_path / "session", "CartPole-v1", workers, seats=seats, speed=0) as session:
        session.until(
            "the policy", lambda: len(session.client.state.seats) == 2 and session.client.state.seats[1].advice
        )
        state = session.client.state
        assert [seat.actor for seat in state.seats] == ["human", "policy"] and state.steps == 0
        assert state.waiting, "the clock begins with a key"
        session.send(Press("left"))
        session.until("a round", lambda: session.client.state.rounds)
        session.send(Restart("next"), Press("right"))
        session.until("another", lambda: len(session.client.state.rounds) == 2)
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
        episodes = require_verified(session, "CartPole-v1", {})
    assert [one.seed for one in episodes] == [7, 7, 8, 8]
    assert [one.agent_id for one in episodes] == ["seat-1", "seat-2"] * 2
    firsts = {(step.agent_id, step.episode): step for step in reversed(steps)}
    assert firsts["seat-1", 0].observation == firsts["seat-2", 1].observation
    assert {step.actor for step in steps if step.agent_id == "seat-2"} == {"policy"}


def test_seats_without_a_person_give_the_same_steps_twice(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    workers = {"MOSAIC_WORKER_PATH": str(dropped_policies(tmp_path / "workers"))}
    params = {"seats": f"random,random,policy:{checkpoint}", "deterministic": False, "speed": 0, "episodes": 4}
    recorded = []
    for name in ("one", "two"):
        with Session(tmp_path / name, "CartPole-v1", workers, **params) as session:
            assert session.ended() == 0, session.output
            recorded.append([(*told(step), step.agent_id) for step in session.steps()])
    assert recorded[0] == recorded[1] and len({row[1] for row in recorded[0]}) == 12
    rounds = [[row for row in recorded[0] if row[1] == episode] for episode in (0, 1)]
    assert [row[3:] for row in rounds[0]] != [] and [row[3:7] for row in rounds[0]] == [row[3:7] for row in rounds[1]]


def test_a_pause_holds_every_seat(tmp_path: Path) -> None:
    with Session(tmp_path, "CartPole-v1", seats="random,random", speed=1) as session:
        session.until("steps", lambda: session.client.state.steps > 2)
        session.send(Pause())
        session.until("a pause", lambda: session.client.state.paused)
        held = session.client.state.steps
        session.client.receive(0.3)
        assert session.client.state.steps == held and held % 2 == 0
        session.send(End())
        assert session.ended() == 0


def test_a_policy_that_dies_leaves_the_other_seat_alone(tmp_path: Path) -> None:
    checkpoint = str(new_checkpoint(tmp_path / "checkpoints"))
    dying = "global asked; asked = globals().get('asked', 0) + 1; asked < 5 or __import__('os')._exit(4)"
    workers = {"MOSAIC_WORKER_PATH": str(dropped_policies(tmp_path / "workers", dying))}
    seats = f"random,policy:{checkpoint}"
    with Session(tmp_path / "session", "CartPole-v1", workers, seats=seats, speed=0.2) as session:
        session.until("its end", lambda: any("status 4" in seat.problem for seat in session.client.state.seats))
        assert [seat.actor for seat in session.client.state.seats] == ["random", "human"], "the person's, who watches"
        taken = session.client.state.steps
        session.send(HandOver("random", seat=2))
        session.until("both again", lambda: session.client.state.steps > taken + 6)
        session.send(End())
        assert session.ended() == 0
        steps = session.steps()
    assert [step.step for step in steps] == list(range(len(steps)))


def test_seats_are_spelt_as_a_list(tmp_path: Path) -> None:
    script = tmp_path / "moves.json"
    script.write_text("[1, 2]")
    wishes = first_wishes({"seats": f"human, policy:/a/b ,scripted:{script},random", "deterministic": False})
    assert [wish.actor for wish in wishes] == ["human", "policy", "scripted", "random"]
    assert wishes[1].checkpoint == "/a/b" and not wishes[1].deterministic
    assert names_of(1) == [""] and names_of(2) == ["seat-1", "seat-2"]
    for wrong, said in (
        ("human,", "is nobody who takes a seat"),
        ("policy", "is nobody who takes a seat"),
        ("cat:tom", "is nobody who takes a seat"),
        ("human:me", "is nobody who takes a seat"),
        (",".join(["random"] * 9), "a session has 8 at most"),
    ):
        with pytest.raises(UsageError, match=said):
            first_wishes({"seats": wrong})
