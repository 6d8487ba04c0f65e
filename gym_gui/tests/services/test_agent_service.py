"""A policy on its way into the seat of a session: followed by what the session tells, and never at its cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gym_gui.services.agent_service import AgentService, PolicyLoad
from gym_gui.services.session_controller import SessionController
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.support.made_checkpoints import RUN_A, write_run
from mosaic_protocol.checkpoint_manifest import TENSOR_FILE
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Command, HandOver, Hello, SeatState, State, Unseated
from mosaic_protocol.paths import MosaicPaths


class Told:
    """A session that notes what it is sent."""

    def __init__(self, env_id: str = "CartPole-v1") -> None:
        self.hello_message: Hello | None = Hello(env_id, "classic_control", KeyMap(), False, 50.0)
        self.state = State()
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)


class Bench:
    """An agent service with a session and a run's checkpoints."""

    def __init__(self, home: Path, env_id: str = "CartPole-v1") -> None:
        self.paths = MosaicPaths(home)
        (self.older, self.newer) = write_run(self.paths, RUN_A, "cart", (100, 200), tensors=b"x")
        self.session = Told(env_id)
        self.ended: list[PolicyLoad] = []
        self.service = AgentService(self.paths)
        self.service.bind(self.session)

    def load(self, uri: object) -> PolicyLoad:
        return self.service.load_policy("learner-1", str(uri), self.ended.append)

    def tell(self, **changes: Any) -> None:
        self.session.state = msgspec.structs.replace(self.session.state, **changes)
        self.service.observe(self.session.state)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_policy_is_ready_when_the_session_says_that_it_has_the_seat(bench: Bench) -> None:
    bench.tell(actor="policy", checkpoint=str(bench.older), advisor="ppo at step 100")
    load = bench.load(bench.newer)
    (wish,) = bench.session.sent
    assert isinstance(wish, HandOver) and (wish.actor, wish.checkpoint) == ("policy", str(bench.newer))
    bench.tell(steps=3)
    bench.tell(loading=str(bench.newer))
    bench.tell(loading="", steps=4)
    assert load.status == "loading" and bench.ended == [], "the one of before still plays"
    bench.tell(checkpoint=str(bench.newer), problem="there are no pictures until the next episode")
    assert (load.status, load.reason, bench.ended) == ("ready", "", [load]), "whatever else is wrong"
    bench.tell(actor="human", checkpoint="")
    assert bench.ended == [load], "it is told once"


@pytest.mark.parametrize("spelt", [lambda path: f"file://{path}", lambda path: f"{RUN_A}@200", str])
def test_a_checkpoint_is_a_folder_a_uri_or_a_name(bench: Bench, spelt: Callable[[Path], str]) -> None:
    bench.load(spelt(bench.newer))
    (wish,) = bench.session.sent
    assert isinstance(wish, HandOver) and wish.checkpoint == str(bench.newer)


def test_a_policy_that_cannot_be_loaded_says_why_each_time(bench: Bench) -> None:
    why = "the policy failed: no such tensor"
    for number in (1, 2):
        load = bench.load(bench.newer)
        bench.tell(steps=number, problem="there are no pictures until the next episode")
        assert load.status == "loading", "what stands there is another problem, or the one of before"
        bench.tell(unseated=Unseated(number, str(bench.newer), why))
        assert (load.status, load.reason) == ("failed", why)
    other = bench.load(bench.older)
    bench.tell(unseated=Unseated(3, str(bench.newer), why))
    assert other.status == "loading", "that was another policy"


def test_a_session_that_was_joined_again_is_asked_again(bench: Bench) -> None:
    load = bench.load(bench.newer)
    bench.service.bind(bench.session)
    assert bench.session.sent == [load.wish, load.wish]
    bench.tell(checkpoint=str(bench.newer))
    bench.service.bind(bench.session)
    assert load.status == "ready" and len(bench.session.sent) == 2


def test_of_several_seats_the_persons_is_meant_to_the_end(bench: Bench) -> None:
    others = (SeatState("seat-1", actor="policy", checkpoint=str(bench.newer)), SeatState("seat-2"))
    bench.tell(seats=others, actor="policy", checkpoint=str(bench.newer))
    load = bench.load(bench.newer)
    assert load.wish is not None and load.wish.seat == 2
    bench.tell(steps=1)
    assert bench.ended == [], "the other seat has had it before"
    bench.tell(seats=(others[0], SeatState("seat-2", actor="policy", checkpoint=str(bench.newer))))
    assert load.status == "ready"


def test_a_run_that_trains_has_no_seat_to_give(bench: Bench) -> None:
    bench.session.hello_message = Hello("CartPole-v1", "", KeyMap(), False, 30.0, is_training=True)
    assert "this run trains" in bench.load(bench.newer).reason and not bench.session.sent


def test_a_policy_of_another_environment_is_not_sent_to_the_session(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "FrozenLake-v1")
    load = bench.load(bench.newer)
    assert (load.status, load.env_id, bench.session.sent) == ("failed", "CartPole-v1", [])
    assert "CartPole-v1" in load.reason and "FrozenLake-v1" in load.reason


def test_what_is_damaged_or_unknown_is_refused_and_the_session_hears_nothing(bench: Bench) -> None:
    (bench.newer / TENSOR_FILE).write_bytes(b"shorter or longer")
    for uri, said in ((bench.newer, "damaged"), ("nothing-like-it", "nothing-like-it")):
        load = bench.load(uri)
        assert load.status == "failed" and said in load.reason, load.reason
    assert bench.session.sent == []


def test_the_newest_wish_wins_and_the_end_of_the_session_ends_it(bench: Bench) -> None:
    first, second = bench.load(bench.older), bench.load(bench.newer)
    assert (first.status, second.status) == ("failed", "loading") and "another policy" in first.reason
    bench.tell(unseated=Unseated(1, str(bench.newer), "somebody else was given the seat meanwhile"))
    assert second.status == "failed" and "somebody else" in second.reason
    third = bench.load(bench.older)
    bench.service.bind(None)
    assert third.status == "failed" and "ended" in third.reason
    assert "start one first" in bench.load(bench.older).reason


def test_activating_a_run_takes_the_best_checkpoint_of_the_agent(bench: Bench) -> None:
    controller = SessionController(WorkerQueries(bench.paths), bench.service)
    controller.activate_checkpoint("learner-1", RUN_A, bench.ended.append)
    (wish,) = bench.session.sent
    assert isinstance(wish, HandOver) and wish.checkpoint == str(bench.newer), "its mean return is the highest"
    controller.activate_checkpoint("somebody-else", RUN_A, bench.ended.append)
    assert "has no checkpoint of somebody-else" in bench.ended[-1].reason
    controller.activate_checkpoint("", "01K9ZQ3V7X0000000000CCCCCC", bench.ended.append)
    assert bench.ended[-1].status == "failed"
