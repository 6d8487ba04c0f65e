"""The run queue: strictly first in first out, never past capacity, nothing lost."""

from __future__ import annotations

import time
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gym_gui.services.trainer.runs.queue_keys import QueueKeys, in_front_of, whole
from gym_gui.services.trainer.runs.run_queue import Demand, Reservation, RunQueue
from mosaic_host.capacity import HostCapacity
from mosaic_host.gpu import Gpu


def capacity(cpus: int = 4, memory_mb: int = 1000, gpus: int = 0) -> HostCapacity:
    return HostCapacity(cpus, memory_mb, tuple(Gpu(index, "A", f"GPU-{index}", 1) for index in range(gpus)))


class Queue(RunQueue):
    """In which runs stand in the order in which they come, unless a test says otherwise."""

    def __init__(self, capacity: HostCapacity, interactive_cpus: int = 0) -> None:
        super().__init__(capacity, interactive_cpus)
        self.keys = QueueKeys()

    def enqueue(self, run_id: str, demand: Demand, key: str = "") -> None:
        super().enqueue(run_id, demand, key or self.keys.next())


def demand(
    cpus: int = 1, gpus: int = 0, memory_mb: int = 100, mandatory_gpus: int = 0, *, interactive: bool = False
) -> Demand:
    return Demand(cpus, gpus, memory_mb, mandatory_gpus, interactive)


def test_runs_start_in_the_order_in_which_they_came() -> None:
    queue = Queue(capacity())
    for run_id in "abc":
        queue.enqueue(run_id, demand())
    assert [taken[0] for _ in "abc" if (taken := queue.take_next())] == ["a", "b", "c"]
    assert queue.take_next() is None


def test_a_small_run_does_not_pass_a_large_one_that_waits() -> None:
    queue = Queue(capacity(cpus=4))
    queue.enqueue("running", demand(cpus=3))
    queue.enqueue("large", demand(cpus=4))
    queue.enqueue("small", demand(cpus=1))
    assert queue.take_next() == ("running", Reservation(3, 100, ()))
    assert queue.take_next() is None
    queue.release("running")
    assert queue.take_next() == ("large", Reservation(4, 100, ()))
    assert queue.queued == ("small",)


def test_the_order_is_that_of_the_keys_whatever_came_first() -> None:
    queue = Queue(capacity())
    for number in (3, 1, 2):
        queue.enqueue(f"run-{number}", demand(), whole(number))
    assert queue.queued == ("run-1", "run-2", "run-3")
    assert [queue.position(run_id) for run_id in queue.queued] == [1, 2, 3]


def test_a_run_that_is_moved_to_the_front_starts_next_and_the_one_that_did_not_fit_waits_behind_it() -> None:
    queue = Queue(capacity(cpus=4))
    queue.enqueue("running", demand(cpus=3))
    assert queue.take_next() is not None
    for run_id, cpus in (("large", 4), ("small", 1), ("other", 1)):
        queue.enqueue(run_id, demand(cpus=cpus))
    assert queue.take_next() is None
    assert queue.move("small", in_front_of([whole(1)]))
    assert [queue.position(run_id) for run_id in ("small", "large", "other")] == [1, 2, 3]
    assert queue.take_next() == ("small", Reservation(1, 100, ()))
    assert queue.take_next() is None  # strictly: nothing passes the large one


def test_only_a_waiting_run_is_moved() -> None:
    queue = Queue(capacity())
    queue.enqueue("live", demand())
    assert queue.take_next() is not None
    assert not queue.move("live", whole(9))
    assert not queue.move("never seen", whole(9))
    assert queue.queued == ()


def test_a_move_in_one_line_leaves_the_other_as_it_is() -> None:
    queue = Queue(capacity(), interactive_cpus=2)
    for number in range(3):
        queue.enqueue(f"session-{number}", demand(interactive=True))
        queue.enqueue(f"training-{number}", demand())
    assert queue.move("training-2", in_front_of([whole(1)]))
    assert queue.queued == ("session-0", "session-1", "session-2", "training-2", "training-0", "training-1")


def test_memory_is_waited_for_as_cpus_are() -> None:
    queue = Queue(capacity(memory_mb=1000))
    queue.enqueue("a", demand(memory_mb=600))
    queue.enqueue("b", demand(memory_mb=600))
    assert queue.take_next() is not None
    assert queue.take_next() is None
    queue.release("a")
    assert queue.take_next() == ("b", Reservation(1, 600, ()))


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (demand(cpus=8), ["8 CPUs", "there are 4"]),
        (demand(memory_mb=2000), ["2000 MB", "1000"]),
        (demand(gpus=2, mandatory_gpus=2), ["2 GPUs", "there is 1"]),
        (demand(cpus=9, memory_mb=2000), ["9 CPUs", "2000 MB"]),
    ],
)
def test_a_refusal_names_what_was_asked_and_what_there_is(asked: Demand, parts: list[str]) -> None:
    reason = Queue(capacity(gpus=1)).refusal(asked)
    assert reason is not None
    assert [part for part in parts if part not in reason] == []


def test_a_host_without_gpus_says_that_there_are_none() -> None:
    reason = Queue(capacity()).refusal(demand(gpus=1, mandatory_gpus=1))
    assert reason is not None
    assert "1 GPU where there are none" in reason


def test_a_gpu_that_is_wished_for_falls_back_to_the_cpu() -> None:
    queue = Queue(capacity(gpus=0))
    assert queue.refusal(demand(gpus=2)) is None
    queue.enqueue("a", demand(gpus=2))
    assert queue.take_next() == ("a", Reservation(1, 100, ()))


def test_a_run_gets_as_many_of_the_wished_gpus_as_the_host_has_and_waits_for_them() -> None:
    queue = Queue(capacity(gpus=2))
    queue.enqueue("one", demand(gpus=1))
    queue.enqueue("four", demand(gpus=4, mandatory_gpus=1))
    assert queue.take_next() == ("one", Reservation(1, 100, (0,)))
    assert queue.take_next() is None
    queue.release("one")
    assert queue.take_next() == ("four", Reservation(1, 100, (0, 1)))


def test_mandatory_gpus_count_even_where_none_were_wished_for() -> None:
    queue = Queue(capacity(gpus=2))
    queue.enqueue("a", demand(gpus=0, mandatory_gpus=1))
    assert queue.take_next() == ("a", Reservation(1, 100, (0,)))


def test_what_can_never_run_is_not_queued_where_it_would_block_the_rest() -> None:
    queue = Queue(capacity())
    with pytest.raises(ValueError, match="can never start"):
        queue.enqueue("a", demand(cpus=99))
    assert queue.queued == ()


def test_a_run_cannot_be_queued_twice_nor_while_it_is_live() -> None:
    queue = Queue(capacity())
    queue.enqueue("a", demand())
    with pytest.raises(ValueError, match="already queued, at position 1"):
        queue.enqueue("a", demand())
    queue.take_next()
    with pytest.raises(ValueError, match="already live"):
        queue.enqueue("a", demand())
    with pytest.raises(ValueError, match="already live"):
        queue.restore("a", demand(), Reservation(1, 100, ()))


def test_a_restored_run_keeps_what_it_holds_even_past_capacity() -> None:
    queue = Queue(capacity(cpus=2, gpus=1))
    queue.restore("big", demand(), Reservation(3, 5000, (0, 5)))
    assert queue.reserved == Reservation(3, 5000, (0, 5))
    queue.enqueue("next", demand(gpus=1))
    assert queue.take_next() is None
    queue.release("big")
    assert queue.take_next() == ("next", Reservation(1, 100, (0,)))


def test_a_gpu_of_a_restored_run_is_not_given_to_another() -> None:
    queue = Queue(capacity(gpus=2))
    queue.restore("live", demand(), Reservation(1, 100, (0,)))
    queue.enqueue("next", demand(gpus=1))
    queue.enqueue("last", demand(gpus=1))
    assert queue.take_next() == ("next", Reservation(1, 100, (1,)))
    assert queue.take_next() is None


def test_a_withdrawn_run_frees_the_line_behind_it() -> None:
    queue = Queue(capacity(cpus=4))
    queue.enqueue("live", demand(cpus=2))
    queue.take_next()
    queue.enqueue("head", demand(cpus=4))
    queue.enqueue("tail", demand(cpus=1))
    assert queue.withdraw("head")
    assert not queue.withdraw("head")
    assert not queue.withdraw("live")
    assert queue.take_next() == ("tail", Reservation(1, 100, ()))


def test_position_counts_from_the_head_and_is_zero_for_the_rest() -> None:
    queue = Queue(capacity())
    for run_id in "abc":
        queue.enqueue(run_id, demand())
    queue.take_next()
    assert [queue.position(run_id) for run_id in ("a", "b", "c", "unknown")] == [0, 1, 2, 0]


def test_releasing_twice_gives_back_once() -> None:
    queue = Queue(capacity(gpus=1))
    for run_id in "ab":
        queue.enqueue(run_id, demand(gpus=1))
    queue.take_next()
    queue.release("a")
    queue.take_next()
    queue.release("a")
    assert queue.reserved == Reservation(1, 100, (0,))


def test_a_released_run_may_be_queued_again() -> None:
    queue = Queue(capacity())
    queue.enqueue("a", demand())
    queue.take_next()
    queue.release("a")
    queue.enqueue("a", demand())
    assert queue.position("a") == 1


def test_a_negative_demand_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="negative"):
        demand(cpus=-1)


def test_the_view_of_live_runs_cannot_be_written_to() -> None:
    queue = Queue(capacity())
    with pytest.raises(TypeError):
        queue.live["a"] = Reservation(1, 1, ())  # type: ignore[index]


def test_an_interactive_run_does_not_wait_behind_training_nor_training_behind_it() -> None:
    queue = Queue(capacity(cpus=2), interactive_cpus=1)
    for run_id in ("training", "waits"):
        queue.enqueue(run_id, demand(cpus=2))
    assert queue.take_next() == ("training", Reservation(2, 100, ()))
    queue.enqueue("session", demand(interactive=True))
    queue.enqueue("next session", demand(interactive=True))
    assert (queue.position("waits"), queue.position("session"), queue.position("next session")) == (1, 1, 2)
    assert queue.take_next() == ("session", Reservation(1, 100, (), interactive=True))
    assert queue.take_next() is None
    assert (queue.reserved.cpus, queue.reserved_interactive, queue.queued_interactive) == (2, 1, 1)
    queue.release("training")
    assert queue.take_next() == ("waits", Reservation(2, 100, ()))
    queue.release("session")
    assert queue.take_next() == ("next session", Reservation(1, 100, (), interactive=True))


def test_memory_and_gpus_are_the_machines_for_sessions_too() -> None:
    queue = Queue(capacity(memory_mb=1000, gpus=1), interactive_cpus=2)
    queue.enqueue("training", demand(memory_mb=600, gpus=1))
    queue.take_next()
    queue.enqueue("hungry", demand(memory_mb=600, interactive=True))
    assert queue.take_next() is None
    assert queue.withdraw("hungry")
    queue.enqueue("fast", demand(gpus=1, interactive=True))
    assert queue.take_next() is None
    queue.release("training")
    assert queue.take_next() == ("fast", Reservation(1, 100, (0,), interactive=True))


def test_a_session_that_asks_for_more_than_sessions_have_is_refused() -> None:
    reason = Queue(capacity(cpus=8), interactive_cpus=2).refusal(demand(cpus=3, interactive=True))
    assert reason is not None
    assert "3 CPUs where there are 2 for interactive runs" in reason


def test_without_cpus_of_their_own_sessions_wait_in_line_with_all_others() -> None:
    queue = Queue(capacity(cpus=1), interactive_cpus=0)
    queue.enqueue("training", demand())
    queue.enqueue("session", demand(interactive=True))
    queue.take_next()
    assert (queue.take_next(), queue.position("session")) == (None, 1)
    queue.release("training")
    assert queue.take_next() == ("session", Reservation(1, 100, ()))


def test_a_restored_session_holds_what_sessions_have() -> None:
    queue = Queue(capacity(cpus=1), interactive_cpus=1)
    queue.restore("session", demand(), Reservation(1, 100, (), interactive=True))
    queue.enqueue("next", demand(interactive=True))
    queue.enqueue("training", demand())
    assert queue.take_next() == ("training", Reservation(1, 100, ()))
    assert queue.take_next() is None


class QueueMachine(RuleBasedStateMachine):
    """Random use against a plain model: a line of waiting runs for each side and a table of what is held."""

    @initialize(cpus=st.integers(1, 6), memory=st.integers(1, 6), gpus=st.integers(0, 3), apart=st.integers(0, 3))
    def start(self, cpus: int, memory: int, gpus: int, apart: int) -> None:
        self.queue = Queue(capacity(cpus, memory, gpus), apart)
        self.lines: dict[bool, deque[tuple[str, Demand]]] = {True: deque(), False: deque()}
        self.held: dict[str, Reservation] = {}
        self.restored: set[str] = set()
        self.made = 0
        self.foremost = 0

    def new_id(self) -> str:
        self.made += 1
        return f"run-{self.made}"

    def is_apart(self, asked: Demand) -> bool:
        return asked.interactive and self.queue.interactive_cpus > 0

    def cpus_for(self, *, apart: bool) -> int:
        return self.queue.interactive_cpus if apart else self.queue.capacity.cpus

    @property
    def waiting(self) -> list[tuple[str, Demand]]:
        return [*self.lines[True], *self.lines[False]]

    @rule(
        cpus=st.integers(0, 7),
        memory=st.integers(0, 7),
        gpus=st.integers(0, 4),
        mandatory=st.integers(0, 4),
        interactive=st.booleans(),
    )
    def submit(self, cpus: int, memory: int, gpus: int, mandatory: int, interactive: bool) -> None:
        asked, there, run_id = Demand(cpus, gpus, memory, mandatory, interactive), self.queue.capacity, self.new_id()
        apart = self.is_apart(asked)
        possible = cpus <= self.cpus_for(apart=apart) and memory <= there.memory_mb and mandatory <= len(there.gpus)
        assert (self.queue.refusal(asked) is None) == possible
        if possible:
            self.queue.enqueue(run_id, asked)
            self.lines[apart].append((run_id, asked))

    @rule(
        cpus=st.integers(0, 3),
        memory=st.integers(0, 3),
        gpus=st.sets(st.integers(0, 4), max_size=2),
        interactive=st.booleans(),
    )
    def readopt(self, cpus: int, memory: int, gpus: set[int], interactive: bool) -> None:
        run_id, held = self.new_id(), Reservation(cpus, memory, tuple(sorted(gpus)), interactive)
        self.queue.restore(run_id, Demand(cpus, len(gpus), memory), held)
        self.held[run_id] = held
        self.restored.add(run_id)

    @rule()
    def take(self) -> None:
        ready = [line for line in self.lines.values() if line and self.fits(line[0][1])]
        taken = self.queue.take_next()
        assert (taken is not None) == bool(ready)
        if taken is not None:
            run_id, asked = ready[0].popleft()
            assert taken[0] == run_id
            assert taken[1].interactive is self.is_apart(asked)
            assert (taken[1].cpus, taken[1].memory_mb) == (asked.cpus, asked.memory_mb)
            assert self.held_gpus().isdisjoint(taken[1].gpu_indices)
            assert len(taken[1].gpu_indices) == self.gpus_due(asked) >= asked.mandatory_gpus
            self.held[run_id] = taken[1]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.held)))
        self.queue.release(run_id)
        del self.held[run_id]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), to_the_front=st.booleans())
    def move(self, data: st.DataObject, to_the_front: bool) -> None:
        entry = data.draw(st.sampled_from(self.waiting))
        line = self.lines[self.is_apart(entry[1])]
        line.remove(entry)
        if to_the_front:
            self.foremost -= 1
            line.appendleft(entry)
        else:
            line.append(entry)
        assert self.queue.move(entry[0], whole(self.foremost) if to_the_front else self.queue.keys.next())

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.waiting))
        assert self.queue.withdraw(entry[0])
        self.lines[self.is_apart(entry[1])].remove(entry)

    @rule()
    def release_something_unknown(self) -> None:
        self.queue.release("never seen")
        if self.waiting:
            self.queue.release(self.waiting[0][0])

    def gpus_due(self, asked: Demand) -> int:
        return min(max(asked.gpus, asked.mandatory_gpus), len(self.queue.capacity.gpus))

    def held_gpus(self) -> set[int]:
        return {index for one in self.held.values() for index in one.gpu_indices}

    def fits(self, asked: Demand) -> bool:
        there = self.queue.capacity
        free = len({gpu.index for gpu in there.gpus} - self.held_gpus())
        apart = self.is_apart(asked)
        cpus = sum(one.cpus for one in self.held.values() if one.interactive is apart) + asked.cpus
        memory = sum(one.memory_mb for one in self.held.values()) + asked.memory_mb
        enough_cpus = cpus <= self.cpus_for(apart=apart)
        return enough_cpus and memory <= there.memory_mb and self.gpus_due(asked) <= free

    @invariant()
    def nothing_is_lost_and_order_is_kept(self) -> None:
        assert self.queue.queued == tuple(run_id for run_id, _ in self.waiting)
        assert dict(self.queue.live) == self.held
        for line in self.lines.values():
            assert [self.queue.position(run_id) for run_id, _ in line] == list(range(1, len(line) + 1))

    @invariant()
    def what_was_taken_from_the_queue_stays_within_capacity(self) -> None:
        mine = [held for run_id, held in self.held.items() if run_id not in self.restored]
        indices = [index for held in mine for index in held.gpu_indices]
        assert len(indices) == len(set(indices))
        assert set(indices) <= {gpu.index for gpu in self.queue.capacity.gpus}
        for apart in (True, False):
            assert sum(held.cpus for held in mine if held.interactive is apart) <= self.cpus_for(apart=apart)
        assert sum(held.memory_mb for held in mine) <= self.queue.capacity.memory_mb

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        for run_id in list(self.held):
            self.queue.release(run_id)
        for run_id, _ in self.waiting:
            taken = self.queue.take_next()
            assert taken is not None
            assert taken[0] == run_id
            self.queue.release(run_id)
        assert self.queue.reserved == Reservation(0, 0, ())


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# ---- several hosts -----------------------------------------------------------------------------------------------


def on(host: str, cpus: int = 1, **more: int) -> Demand:
    return Demand(cpus, more.get("gpus", 0), 100, more.get("gpus", 0), host=host)


def with_hosts(**hosts: int | None) -> Queue:
    """A queue of this machine with 4 CPUs, and hosts with so many; None: not reached yet."""
    queue = Queue(capacity(cpus=4))
    queue.set_hosts(
        {name: (None if cpus is None else capacity(cpus=cpus), cpus is not None) for name, cpus in hosts.items()}
    )
    return queue


def started(queue: Queue) -> dict[str, str]:
    """The host of each run that starts now."""
    found = {}
    while taken := queue.take_next():
        found[taken[0]] = taken[1].host
    return found


def test_a_run_that_waits_for_its_host_holds_back_those_behind_it_there_and_nobody_elsewhere() -> None:
    queue = with_hosts(a=2, b=2)
    for run_id, asked in {"1": on("a", 2), "2": on("a", 2), "3": on("a"), "4": on("b"), "5": on("")}.items():
        queue.enqueue(run_id, asked)
    assert started(queue) == {"1": "a", "4": "b", "5": ""}
    queue.release("1")
    assert started(queue) == {"2": "a"}
    queue.release("2")
    assert started(queue) == {"3": "a"}


def test_any_takes_the_first_place_that_fits_and_keeps_its_turn_everywhere() -> None:
    queue = with_hosts(a=2, b=8)
    for run_id, asked in {"1": on("any", 4), "2": on("any", 8), "3": on("b", 1), "4": on("a", 1)}.items():
        queue.enqueue(run_id, asked)
    assert started(queue) == {"1": "", "2": "b", "4": "a"}
    queue.enqueue("5", on("any", 8))
    queue.enqueue("6", on("b", 1))
    assert started(queue) == {}, "3 waits for b, 5 behind it, and 6 behind both"
    queue.release("2")
    assert started(queue) == {"3": "b"}, "5 is next there, although 6 would fit"


def test_a_host_that_was_not_reached_yet_starts_nothing_and_refuses_nothing() -> None:
    queue = with_hosts(a=None)
    assert queue.refusal(on("a", 99)) is None
    queue.enqueue("1", on("a"))
    queue.enqueue("2", on(""))
    assert started(queue) == {"2": ""}
    queue.set_hosts({"a": (capacity(cpus=1), True)})
    assert started(queue) == {"1": "a"}


def test_what_runs_on_a_host_is_kept_while_it_is_away_and_counts_when_it_is_back() -> None:
    queue = with_hosts(a=1)
    queue.enqueue("1", on("a"))
    assert started(queue) == {"1": "a"}
    queue.enqueue("2", on("a"))
    queue.set_hosts({"a": (None, False)})
    assert started(queue) == {}
    queue.set_hosts({"a": (capacity(cpus=1), True)})
    assert started(queue) == {}, "1 still holds its CPU"
    queue.release("1")
    assert started(queue) == {"2": "a"}


def test_each_host_has_gpus_of_its_own() -> None:
    queue = Queue(capacity(cpus=4))
    queue.set_hosts({"a": (capacity(cpus=4, gpus=1), True), "b": (capacity(cpus=4, gpus=1), True)})
    for run_id in "123":
        queue.enqueue(run_id, on("any", gpus=1))
    taken = [queue.take_next() for _ in range(3)]
    assert [(one[1].host, one[1].gpu_indices) if one else None for one in taken] == [("a", (0,)), ("b", (0,)), None]


def labelled(*labels: str, host: str = "any", cpus: int = 1) -> Demand:
    return Demand(cpus, 0, 0, host=host, labels=frozenset(labels))


def with_labels(*, b_is_open: bool = True) -> Queue:
    """Host a has a GPU and nothing else, b is labelled fast and lab, and c was not reached yet."""
    queue = Queue(capacity(cpus=4))
    queue.set_hosts(
        {"a": (capacity(cpus=1, gpus=1), True), "b": (capacity(cpus=1), b_is_open), "c": (None, False)},
        {"b": frozenset({"fast", "lab"})},
    )
    return queue


def test_a_run_goes_to_a_host_that_has_all_its_labels_and_waits_for_no_other() -> None:
    queue = with_labels()
    queue.enqueue("1", labelled("fast", "lab"))
    queue.enqueue("2", labelled("fast"))
    queue.enqueue("3", labelled("gpu"))
    queue.enqueue("4", on("any"))
    assert started(queue) == {"1": "b", "3": "a", "4": ""}, "2 waits for b and keeps nobody from the rest"
    assert queue.wanted_hosts == {"a", "b"}, "only those are reached that a label names"
    queue.release("1")
    assert started(queue) == {"2": "b"}


def test_a_host_that_was_not_reached_yet_may_have_a_gpu() -> None:
    queue = with_labels()
    assert queue.refusal(labelled("gpu", host="c")) is None
    queue.enqueue("1", labelled("gpu", cpus=1))
    queue.enqueue("2", labelled("gpu", cpus=1))
    assert started(queue) == {"1": "a"}
    assert queue.wanted_hosts == {"a", "c"}
    queue.set_hosts({"c": (capacity(cpus=1), True)})
    assert started(queue) == {}, "it has none"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (labelled("fats"), "No host is labelled fats. There are fast, gpu, lab. `mosaic hosts label NAME LABEL…`"),
        (labelled("fast", host="a"), "This run can never start on a: it asks for a host that is labelled fast."),
        (labelled("fast", cpus=2), "This run can never start on any host: here it asks for a host that is labelled"),
    ],
)
def test_a_label_that_no_fitting_host_has_is_refused(asked: Demand, told: str) -> None:
    assert (with_labels().refusal(asked) or "").startswith(told)


def test_a_waiting_run_is_moved_to_another_host_and_keeps_its_place() -> None:
    queue = with_hosts(a=1, b=2)
    for run_id in "123":
        queue.enqueue(run_id, on("a"))
    assert started(queue) == {"1": "a"}
    assert queue.move("3", "3", on("b")) and not queue.move("1", "1", on("b"))
    assert started(queue) == {"3": "b"}
    assert queue.position("2") == 1


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (on("nobe"), "There is no host 'nobe'; did you mean 'node'?"),
        (on("node", 3), "This run can never start on node: it asks for 3 CPUs where there are 2."),
        (on("any", 9), "This run can never start on any host: here it asks for 9 CPUs where there are 4."),
    ],
)
def test_what_can_never_run_on_a_host_is_refused_with_the_reason(asked: Demand, told: str) -> None:
    assert (with_hosts(node=2).refusal(asked) or "").startswith(told)


def test_ten_thousand_queued_runs_on_five_hundred_hosts_are_decided_in_a_moment() -> None:
    queue = with_hosts(**{f"n{number}": 1 for number in range(500)})
    queue.set_hosts({f"n{number}": (capacity(cpus=1), number % 2 == 0) for number in range(500)})
    for number in range(10_000):
        queue.enqueue(f"{number}", on("any" if number % 3 else f"n{number % 500}", 1))
    assert len(started(queue)) == 254
    began = time.process_time()
    assert queue.take_next() is None
    assert time.process_time() - began < 0.05
