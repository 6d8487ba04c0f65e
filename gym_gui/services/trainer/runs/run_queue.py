"""The queue of accepted runs and what the live ones hold. Pure: no I/O, no clock, no threads.

Strict first in, first out: the head of the line waits until it fits, and nothing passes it. A large run
therefore never starves behind a stream of small ones, at the price of capacity that stands idle while it
waits. The order is that of the runs' keys, which is the order in which they came until a person moves one.

Interactive runs, before which a person sits, have CPUs and a line of their own: they wait for each other and
never behind training. Memory and GPUs are the machine's, and counted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gym_gui.services.trainer.execution.gpu import GPUAllocator
from mosaic_host.capacity import HostCapacity


@dataclass(frozen=True)
class Demand:
    """What a run asks for. GPUs beyond ``mandatory_gpus`` are a wish: a smaller host need not grant it."""

    cpus: int
    gpus: int
    memory_mb: int
    mandatory_gpus: int = 0
    interactive: bool = False

    def __post_init__(self) -> None:
        if min(self.cpus, self.gpus, self.memory_mb, self.mandatory_gpus) < 0:
            raise ValueError(f"a run cannot ask for a negative amount: {self}")


@dataclass(frozen=True)
class Reservation:
    """What a run holds from its launch until the last of its processes is gone."""

    cpus: int
    memory_mb: int
    gpu_indices: tuple[int, ...]
    interactive: bool = False
    """Whether its CPUs are counted with those of interactive runs."""


class _Line:
    """Runs that wait for each other."""

    def __init__(self) -> None:
        self.waiting: dict[str, Demand] = {}
        self._keys: dict[str, str] = {}
        self._places: dict[str, int] = {}
        """Of each waiting run, counted from the day the daemon started; the head of the line has one more than left."""
        self._left = 0

    def add(self, run_id: str, demand: Demand, key: str) -> None:
        last = next(reversed(self.waiting), None)
        self.waiting[run_id], self._keys[run_id] = demand, key
        self._places[run_id] = self._left + len(self.waiting)
        if last is not None and key < self._keys[last]:
            self._arrange()

    def move(self, run_id: str, key: str) -> bool:
        if run_id not in self.waiting:
            return False
        self._keys[run_id] = key
        self._arrange()
        return True

    def _arrange(self) -> None:
        self.waiting = dict(sorted(self.waiting.items(), key=lambda one: self._keys[one[0]]))
        self._number()

    def _number(self) -> None:
        self._places = {waiting: place for place, waiting in enumerate(self.waiting, start=self._left + 1)}

    @property
    def head(self) -> tuple[str, Demand] | None:
        return next(iter(self.waiting.items()), None)

    def leave(self, run_id: str) -> None:
        """The head starts."""
        del self.waiting[run_id], self._places[run_id], self._keys[run_id]
        self._left += 1

    def withdraw(self, run_id: str) -> bool:
        if self.waiting.pop(run_id, None) is None:
            return False
        del self._keys[run_id]
        self._number()
        return True

    def position(self, run_id: str) -> int:
        return self._places.get(run_id, self._left) - self._left


class RunQueue:
    """Decides which run may start next. Not thread-safe: one owner calls it.

    A run is known while it is queued or live, and never both. Runs taken from the queue never exceed the
    capacity together with what is held; only restored ones may, because they already run.

    ``interactive_cpus`` is what interactive runs have of their own; with 0 they wait in line with all others.
    """

    def __init__(self, capacity: HostCapacity, interactive_cpus: int = 0) -> None:
        self.capacity, self.interactive_cpus = capacity, interactive_cpus
        self._sessions, self._training = _Line(), _Line()
        self._live: dict[str, Reservation] = {}
        self._gpus = GPUAllocator(capacity.gpus)

    @property
    def queued(self) -> tuple[str, ...]:
        """The waiting runs, each line in its order; interactive ones first."""
        return (*self._sessions.waiting, *self._training.waiting)

    @property
    def queued_interactive(self) -> int:
        """How many of them wait for CPUs of interactive runs."""
        return len(self._sessions.waiting)

    @property
    def live(self) -> Mapping[str, Reservation]:
        """What each live run holds, by run id. A read-only view that follows the queue."""
        return MappingProxyType(self._live)

    @property
    def reserved(self) -> Reservation:
        """What all live runs hold together, without the CPUs of interactive ones."""
        held = self._live.values()
        indices = sorted({index for one in held for index in one.gpu_indices})
        return Reservation(self._held_cpus(interactive=False), sum(one.memory_mb for one in held), tuple(indices))

    @property
    def reserved_interactive(self) -> int:
        """The CPUs that interactive runs hold of those they have for themselves."""
        return self._held_cpus(interactive=True)

    def _held_cpus(self, *, interactive: bool) -> int:
        return sum(one.cpus for one in self._live.values() if one.interactive is interactive)

    def refusal(self, demand: Demand) -> str | None:
        """The sentence that says why this can never run on this host, or None if its turn will come."""
        shortages = " and ".join(self._shortages(demand))
        if not shortages:
            return None
        return f"This run can never start here: it asks for {shortages}. Ask for less, or use a larger host."

    def enqueue(self, run_id: str, demand: Demand, key: str) -> None:
        """Put a run where its key says. Raises ValueError if it is already known or can never run here."""
        self._check_unknown(run_id)
        if reason := self.refusal(demand):
            raise ValueError(reason)  # at the head it would block every run behind it for ever
        self._line_of(demand).add(run_id, demand, key)

    def restore(self, run_id: str, demand: Demand, reservation: Reservation) -> None:
        """Take up a run that is live already; it keeps what it holds, even past capacity.

        Raises ValueError if the run is already known. ``demand`` is what it once asked for; what
        counts is what it holds.
        """
        self._check_unknown(run_id)
        self._gpus.hold(run_id, reservation.gpu_indices)
        self._live[run_id] = reservation

    def take_next(self) -> tuple[str, Reservation] | None:
        """Start the head of a line if it fits now: it becomes live with what is returned. None: wait."""
        for line in (self._sessions, self._training):
            if (head := line.head) is not None and (held := self._started(*head)) is not None:
                line.leave(head[0])
                return head[0], held
        return None

    def _started(self, run_id: str, demand: Demand) -> Reservation | None:
        if not self._fits(demand):
            return None
        indices = self._gpus.reserve(run_id, self._gpus_to_give(demand))
        if indices is None:
            return None
        held = Reservation(demand.cpus, demand.memory_mb, indices, self._is_apart(demand))
        self._live[run_id] = held
        return held

    def withdraw(self, run_id: str) -> bool:
        """Take a waiting run out of its line. False if it was not waiting, for example because it is live."""
        return self._sessions.withdraw(run_id) or self._training.withdraw(run_id)

    def move(self, run_id: str, key: str) -> bool:
        """Let a waiting run stand elsewhere in its line. False if it was not waiting."""
        return self._sessions.move(run_id, key) or self._training.move(run_id, key)

    def release(self, run_id: str) -> None:
        """Give back what a live run holds; nothing happens if it is not live."""
        self._live.pop(run_id, None)
        self._gpus.release(run_id)

    def position(self, run_id: str) -> int:
        """The place in its line: 1 is next, 0 is not queued. Asked for every queued run of every listing."""
        return self._sessions.position(run_id) or self._training.position(run_id)

    def _is_apart(self, demand: Demand) -> bool:
        return demand.interactive and self.interactive_cpus > 0

    def _line_of(self, demand: Demand) -> _Line:
        return self._sessions if self._is_apart(demand) else self._training

    def _cpus_for(self, demand: Demand) -> int:
        return self.interactive_cpus if self._is_apart(demand) else self.capacity.cpus

    def _check_unknown(self, run_id: str) -> None:
        if self.position(run_id):
            raise ValueError(f"run {run_id} is already queued, at position {self.position(run_id)}")
        if run_id in self._live:
            raise ValueError(f"run {run_id} is already live and holds {self._live[run_id]}")

    def _shortages(self, demand: Demand) -> Iterator[str]:
        there, cpus = self.capacity, self._cpus_for(demand)
        if demand.cpus > cpus:
            whom = " for interactive runs" if self._is_apart(demand) else ""
            yield f"{_counted(demand.cpus, 'CPU')} where there {_are(cpus)}{whom}"
        if demand.memory_mb > there.memory_mb:
            yield f"{demand.memory_mb} MB of memory where there are {there.memory_mb}"
        if demand.mandatory_gpus > len(there.gpus):
            yield f"{_counted(demand.mandatory_gpus, 'GPU')} where there {_are(len(there.gpus))}"

    def _fits(self, demand: Demand) -> bool:
        held = self._held_cpus(interactive=self._is_apart(demand))
        memory_mb = sum(one.memory_mb for one in self._live.values())
        enough_memory = memory_mb + demand.memory_mb <= self.capacity.memory_mb
        return enough_memory and held + demand.cpus <= self._cpus_for(demand)

    def _gpus_to_give(self, demand: Demand) -> int:
        return min(max(demand.gpus, demand.mandatory_gpus), self._gpus.total)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int) -> str:
    return {0: "are none", 1: "is 1"}.get(number, f"are {number}")
