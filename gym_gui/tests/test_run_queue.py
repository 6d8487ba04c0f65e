"""The run queue: strictly first in first out, never past capacity, nothing lost."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gym_gui.services.trainer.gpu import Gpu
from gym_gui.services.trainer.host import HostCapacity
from gym_gui.services.trainer.run_queue import Demand, Reservation, RunQueue


def capacity(cpus: int = 4, memory_mb: int = 1000, gpus: int = 0) -> HostCapacity:
    return HostCapacity(cpus, memory_mb, tuple(Gpu(index, "A", f"GPU-{index}", 1) for index in range(gpus)))


def demand(cpus: int = 1, gpus: int = 0, memory_mb: int = 100, mandatory_gpus: int = 0) -> Demand:
    return Demand(cpus, gpus, memory_mb, mandatory_gpus)


def test_runs_start_in_the_order_in_which_they_came() -> None:
    queue = RunQueue(capacity())
    for run_id in "abc":
        queue.enqueue(run_id, demand())
    assert [taken[0] for _ in "abc" if (taken := queue.take_next())] == ["a", "b", "c"]
    assert queue.take_next() is None


def test_a_small_run_does_not_pass_a_large_one_that_waits() -> None:
    queue = RunQueue(capacity(cpus=4))
    queue.enqueue("running", demand(cpus=3))
    queue.enqueue("large", demand(cpus=4))
    queue.enqueue("small", demand(cpus=1))
    assert queue.take_next() == ("running", Reservation(3, 100, ()))
    assert queue.take_next() is None
    queue.release("running")
    assert queue.take_next() == ("large", Reservation(4, 100, ()))
    assert queue.queued == ("small",)


def test_memory_is_waited_for_as_cpus_are() -> None:
    queue = RunQueue(capacity(memory_mb=1000))
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
    reason = RunQueue(capacity(gpus=1)).refusal(asked)
    assert reason is not None
    assert [part for part in parts if part not in reason] == []


def test_a_host_without_gpus_says_that_there_are_none() -> None:
    reason = RunQueue(capacity()).refusal(demand(gpus=1, mandatory_gpus=1))
    assert reason is not None
    assert "1 GPU where there are none" in reason


def test_a_gpu_that_is_wished_for_falls_back_to_the_cpu() -> None:
    queue = RunQueue(capacity(gpus=0))
    assert queue.refusal(demand(gpus=2)) is None
    queue.enqueue("a", demand(gpus=2))
    assert queue.take_next() == ("a", Reservation(1, 100, ()))


def test_a_run_gets_as_many_of_the_wished_gpus_as_the_host_has_and_waits_for_them() -> None:
    queue = RunQueue(capacity(gpus=2))
    queue.enqueue("one", demand(gpus=1))
    queue.enqueue("four", demand(gpus=4, mandatory_gpus=1))
    assert queue.take_next() == ("one", Reservation(1, 100, (0,)))
    assert queue.take_next() is None
    queue.release("one")
    assert queue.take_next() == ("four", Reservation(1, 100, (0, 1)))


def test_mandatory_gpus_count_even_where_none_were_wished_for() -> None:
    queue = RunQueue(capacity(gpus=2))
    queue.enqueue("a", demand(gpus=0, mandatory_gpus=1))
    assert queue.take_next() == ("a", Reservation(1, 100, (0,)))


def test_what_can_never_run_is_not_queued_where_it_would_block_the_rest() -> None:
    queue = RunQueue(capacity())
    with pytest.raises(ValueError, match="can never start"):
        queue.enqueue("a", demand(cpus=99))
    assert queue.queued == ()


def test_a_run_cannot_be_queued_twice_nor_while_it_is_live() -> None:
    queue = RunQueue(capacity())
    queue.enqueue("a", demand())
    with pytest.raises(ValueError, match="already queued, at position 1"):
        queue.enqueue("a", demand())
    queue.take_next()
    with pytest.raises(ValueError, match="already live"):
        queue.enqueue("a", demand())
    with pytest.raises(ValueError, match="already live"):
        queue.restore("a", demand(), Reservation(1, 100, ()))


def test_a_restored_run_keeps_what_it_holds_even_past_capacity() -> None:
    queue = RunQueue(capacity(cpus=2, gpus=1))
    queue.restore("big", demand(), Reservation(3, 5000, (0, 5)))
    assert queue.reserved == Reservation(3, 5000, (0, 5))
    queue.enqueue("next", demand(gpus=1))
    assert queue.take_next() is None
    queue.release("big")
    assert queue.take_next() == ("next", Reservation(1, 100, (0,)))


def test_a_gpu_of_a_restored_run_is_not_given_to_another() -> None:
    queue = RunQueue(capacity(gpus=2))
    queue.restore("live", demand(), Reservation(1, 100, (0,)))
    queue.enqueue("next", demand(gpus=1))
    queue.enqueue("last", demand(gpus=1))
    assert queue.take_next() == ("next", Reservation(1, 100, (1,)))
    assert queue.take_next() is None


def test_a_withdrawn_run_frees_the_line_behind_it() -> None:
    queue = RunQueue(capacity(cpus=4))
    queue.enqueue("live", demand(cpus=2))
    queue.take_next()
    queue.enqueue("head", demand(cpus=4))
    queue.enqueue("tail", demand(cpus=1))
    assert queue.withdraw("head")
    assert not queue.withdraw("head")
    assert not queue.withdraw("live")
    assert queue.take_next() == ("tail", Reservation(1, 100, ()))


def test_position_counts_from_the_head_and_is_zero_for_the_rest() -> None:
    queue = RunQueue(capacity())
    for run_id in "abc":
        queue.enqueue(run_id, demand())
    queue.take_next()
    assert [queue.position(run_id) for run_id in ("a", "b", "c", "unknown")] == [0, 1, 2, 0]


def test_releasing_twice_gives_back_once() -> None:
    queue = RunQueue(capacity(gpus=1))
    for run_id in "ab":
        queue.enqueue(run_id, demand(gpus=1))
    queue.take_next()
    queue.release("a")
    queue.take_next()
    queue.release("a")
    assert queue.reserved == Reservation(1, 100, (0,))


def test_a_released_run_may_be_queued_again() -> None:
    queue = RunQueue(capacity())
    queue.enqueue("a", demand())
    queue.take_next()
    queue.release("a")
    queue.enqueue("a", demand())
    assert queue.position("a") == 1


def test_a_negative_demand_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="negative"):
        demand(cpus=-1)


def test_the_view_of_live_runs_cannot_be_written_to() -> None:
    queue = RunQueue(capacity())
    with pytest.raises(TypeError):
        queue.live["a"] = Reservation(1, 1, ())  # type: ignore[index]


class QueueMachine(RuleBasedStateMachine):
    """Random use against a plain model: a line of waiting runs and a table of what is held."""

    @initialize(cpus=st.integers(1, 6), memory=st.integers(1, 6), gpus=st.integers(0, 3))
    def start(self, cpus: int, memory: int, gpus: int) -> None:
        self.queue = RunQueue(capacity(cpus, memory, gpus))
        self.line: deque[tuple[str, Demand]] = deque()
        self.held: dict[str, Reservation] = {}
        self.restored: set[str] = set()
        self.made = 0

    def new_id(self) -> str:
        self.made += 1
        return f"run-{self.made}"

    @rule(cpus=st.integers(0, 7), memory=st.integers(0, 7), gpus=st.integers(0, 4), mandatory=st.integers(0, 4))
    def submit(self, cpus: int, memory: int, gpus: int, mandatory: int) -> None:
        asked, there, run_id = Demand(cpus, gpus, memory, mandatory), self.queue.capacity, self.new_id()
        possible = cpus <= there.cpus and memory <= there.memory_mb and mandatory <= len(there.gpus)
        assert (self.queue.refusal(asked) is None) == possible
        if possible:
            self.queue.enqueue(run_id, asked)
            self.line.append((run_id, asked))

    @rule(cpus=st.integers(0, 3), memory=st.integers(0, 3), gpus=st.sets(st.integers(0, 4), max_size=2))
    def readopt(self, cpus: int, memory: int, gpus: set[int]) -> None:
        run_id, held = self.new_id(), Reservation(cpus, memory, tuple(sorted(gpus)))
        self.queue.restore(run_id, Demand(cpus, len(gpus), memory), held)
        self.held[run_id] = held
        self.restored.add(run_id)

    @rule()
    def take(self) -> None:
        fits = bool(self.line) and self.fits(self.line[0][1])
        taken = self.queue.take_next()
        assert (taken is not None) == fits
        if taken is not None:
            run_id, asked = self.line.popleft()
            assert taken[0] == run_id
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

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(list(self.line)))
        assert self.queue.withdraw(entry[0])
        self.line.remove(entry)

    @rule()
    def release_something_unknown(self) -> None:
        self.queue.release("never seen")
        if self.line:
            self.queue.release(self.line[0][0])

    def gpus_due(self, asked: Demand) -> int:
        return min(max(asked.gpus, asked.mandatory_gpus), len(self.queue.capacity.gpus))

    def held_gpus(self) -> set[int]:
        return {index for one in self.held.values() for index in one.gpu_indices}

    def fits(self, asked: Demand) -> bool:
        there = self.queue.capacity
        free = len({gpu.index for gpu in there.gpus} - self.held_gpus())
        cpus = sum(one.cpus for one in self.held.values()) + asked.cpus
        memory = sum(one.memory_mb for one in self.held.values()) + asked.memory_mb
        return cpus <= there.cpus and memory <= there.memory_mb and self.gpus_due(asked) <= free

    @invariant()
    def nothing_is_lost_and_order_is_kept(self) -> None:
        assert self.queue.queued == tuple(run_id for run_id, _ in self.line)
        assert dict(self.queue.live) == self.held
        places = [self.queue.position(run_id) for run_id, _ in self.line]
        assert places == list(range(1, len(self.line) + 1))

    @invariant()
    def what_was_taken_from_the_queue_stays_within_capacity(self) -> None:
        mine = [held for run_id, held in self.held.items() if run_id not in self.restored]
        indices = [index for held in mine for index in held.gpu_indices]
        assert len(indices) == len(set(indices))
        assert set(indices) <= {gpu.index for gpu in self.queue.capacity.gpus}
        assert sum(held.cpus for held in mine) <= self.queue.capacity.cpus
        assert sum(held.memory_mb for held in mine) <= self.queue.capacity.memory_mb

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        for run_id in list(self.held):
            self.queue.release(run_id)
        for run_id, _ in self.line:
            taken = self.queue.take_next()
            assert taken is not None
            assert taken[0] == run_id
            self.queue.release(run_id)
        assert self.queue.reserved == Reservation(0, 0, ())


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
