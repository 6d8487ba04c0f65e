"""The queue of accepted runs and what the live ones hold. Pure: no I/O, no clock, no threads.

Strict first in, first out: the head of the line waits until it fits, and nothing passes it. A large run
therefore never starves behind a stream of small ones, at the price of capacity that stands idle while it
waits. The order is that of the runs' keys, which is the order in which they came until a person moves one.

Interactive runs, before which a person sits, have CPUs and a line of their own: they wait for each other and
never behind training. Memory and GPUs are the machine's, and counted together.

With other hosts there are several places, and the rule is the same for each of them: no run takes a place that a run
before it waits for. A run names its host, or lets any do; one that waits for a host holds back those behind it there,
and nobody elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gym_gui.services.trainer.execution.gpu import GPUAllocator
from mosaic_host.capacity import HostCapacity
from mosaic_protocol.host_labels import GPU
from mosaic_protocol.suggest import did_you_mean

HERE, ANY = "", "any"
"""This machine, and whichever fits first: this machine, then the hosts in their order."""


@dataclass(frozen=True)
class Demand:
    """What a run asks for. GPUs beyond ``mandatory_gpus`` are a wish: a smaller host need not grant it."""

    cpus: int
    gpus: int
    memory_mb: int
    mandatory_gpus: int = 0
    interactive: bool = False
    host: str = HERE
    """The host that it has to be on."""
    labels: frozenset[str] = frozenset()
    """What that host has to be labelled with."""

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
    host: str = HERE
    """Where it is."""


class _Place:
    """A host with what it has to give. Without a capacity it was not reached yet: nobody knows, and nothing starts."""

    def __init__(self, capacity: HostCapacity | None, *, is_open: bool, labels: frozenset[str] = frozenset()) -> None:
        self.capacity, self.is_open = capacity, is_open
        self.labels = labels | (frozenset({GPU}) if capacity is None or capacity.gpus else frozenset())
        """Before it was reached it may have a GPU."""
        self.gpus = GPUAllocator(capacity.gpus if capacity else ())


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

    def move(self, run_id: str, key: str, demand: Demand | None) -> bool:
        if run_id not in self.waiting:
            return False
        self._keys[run_id] = key
        self.waiting[run_id] = demand or self.waiting[run_id]
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
        """It starts: nearly always the head, whose leaving changes the number of no other."""
        is_head = next(iter(self.waiting)) == run_id
        del self.waiting[run_id], self._places[run_id], self._keys[run_id]
        if is_head:
            self._left += 1
        else:
            self._number()

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
        self._cpus_held: Counter[tuple[str, bool]] = Counter()
        """By host, interactive ones apart."""
        self._memory_held: Counter[str] = Counter()
        self._places = {HERE: _Place(capacity, is_open=True)}

    def set_hosts(
        self, hosts: Mapping[str, tuple[HostCapacity | None, bool]], labels: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """What the other hosts have, in their order, and whether runs may start there now. Runs that are live keep what
        they hold, also on a host that is not named any more. ``labels`` are those that a person gave."""
        places = {HERE: self._places[HERE]}
        for name, (capacity, is_open) in hosts.items():
            before = self._places.get(name)
            known = capacity or (before.capacity if before else None)
            place = places[name] = _Place(known, is_open=is_open, labels=(labels or {}).get(name, frozenset()))
            for run_id, held in self._live.items():
                if held.host == name:
                    place.gpus.hold(run_id, held.gpu_indices)
        self._places = places

    @property
    def wanted_hosts(self) -> frozenset[str]:
        """The hosts that waiting and live runs name, :data:`ANY` among them; for a run that asks for labels, those that
        have them."""
        waiting = {demand for line in (self._sessions, self._training) for demand in line.waiting.values()}
        named = {demand.host for demand in waiting if not demand.labels}
        for demand in waiting:
            named |= self._labelled(demand) if demand.labels else set()
        return frozenset({*named, *(held.host for held in self._live.values())} - {HERE})

    def _labelled(self, demand: Demand) -> set[str]:
        """The places that have what it asks for, as far as is known."""
        names = self._places if demand.host == ANY else [demand.host]
        return {name for name in names if name in self._places and demand.labels <= self._places[name].labels}

    def reserved_on(self, host: str) -> Reservation:
        """What the live runs of one host hold together, interactive ones left out."""
        held = [one for one in self._live.values() if one.host == host]
        indices = sorted({index for one in held for index in one.gpu_indices})
        return Reservation(self._cpus_held[host, False], self._memory_held[host], tuple(indices), host=host)

    def live_on(self, host: str) -> int:
        """How many runs are live there."""
        return sum(one.host == host for one in self._live.values())

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
        """What all live runs of this machine hold together, without the CPUs of interactive ones."""
        return self.reserved_on(HERE)

    @property
    def reserved_interactive(self) -> int:
        """The CPUs that interactive runs hold of those they have for themselves."""
        return self._cpus_held[HERE, True]

    def _hold(self, run_id: str, held: Reservation) -> None:
        self._live[run_id] = held
        self._cpus_held[held.host, held.interactive] += held.cpus
        self._memory_held[held.host] += held.memory_mb

    def refusal(self, demand: Demand) -> str | None:
        """The sentence that says why this can never run on this host, or None if its turn will come."""
        if demand.host == ANY:
            return self._refusal_anywhere(demand)
        if demand.host not in self._places:
            hosts = [name for name in self._places if name != HERE]
            hint = did_you_mean(demand.host, hosts) if hosts else ": `mosaic hosts add NAME USER@HOST` adds one"
            return f"There is no host {demand.host[:60]!r}{hint}"
        shortages = " and ".join(self._shortages(demand, demand.host))
        if not shortages:
            return None
        where = "here" if demand.host == HERE else f"on {demand.host}"
        return f"This run can never start {where}: it asks for {shortages}. Ask for less, or use a larger host."

    def _refusal_anywhere(self, demand: Demand) -> str | None:
        told = [" and ".join(self._shortages(demand, host)) for host in self._places]
        if not all(told):
            return None
        if demand.labels and not self._labelled(demand):
            asked = ", ".join(sorted(demand.labels))
            known = sorted({label for place in self._places.values() for label in place.labels})
            there = f"There are {', '.join(known)}." if known else "No host has a label."
            return f"No host is labelled {asked}. {there} `mosaic hosts label NAME LABEL…` labels one."
        return f"This run can never start on any host: here it asks for {told[0]}. Ask for less, or add a larger host."

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
        if reservation.host in self._places:
            self._places[reservation.host].gpus.hold(run_id, reservation.gpu_indices)
        self._hold(run_id, reservation)

    def take_next(self) -> tuple[str, Reservation] | None:
        """Start the first run that no run before it keeps from its place, if it fits now: it becomes live with what is
        returned. None: wait."""
        for line in (self._sessions, self._training):
            for run_id, held in self._first_of(line):
                line.leave(run_id)
                self._hold(run_id, held)
                return run_id, held
        return None

    def _first_of(self, line: _Line) -> Iterator[tuple[str, Reservation]]:
        """The one that may start, or nothing."""
        waited_for: set[str] = set()
        waiting: set[Demand] = set()
        open_places = {name for name, place in self._places.items() if place.is_open}
        for run_id, demand in line.waiting.items():
            if demand in waiting:
                continue  # one that asks for the same stands before it
            if (held := self._started(run_id, demand, waited_for)) is not None:
                yield run_id, held
                return
            waiting.add(demand)
            waited_for |= self._eligible(demand)
            if waited_for >= open_places:
                return

    def _eligible(self, demand: Demand) -> set[str]:
        """The places that it waits for. Who may go anywhere does not wait for a host that takes nobody now."""
        if demand.host != ANY:
            return {demand.host}
        open_places = [name for name, place in self._places.items() if place.is_open and place.capacity is not None]
        return {name for name in open_places if next(self._shortages(demand, name), None) is None}

    def _started(self, run_id: str, demand: Demand, waited_for: set[str]) -> Reservation | None:
        for host in list(self._places) if demand.host == ANY else [demand.host]:
            place = self._places.get(host)
            if place is None or not demand.labels <= place.labels:
                continue
            if not place.is_open or host in waited_for or not self._fits(demand, host):
                continue
            indices = place.gpus.reserve(run_id, self._gpus_to_give(demand, place))
            if indices is not None:
                return Reservation(demand.cpus, demand.memory_mb, indices, self._is_apart(demand), host)
        return None

    def withdraw(self, run_id: str) -> bool:
        """Take a waiting run out of its line. False if it was not waiting, for example because it is live."""
        return self._sessions.withdraw(run_id) or self._training.withdraw(run_id)

    def move(self, run_id: str, key: str, demand: Demand | None = None) -> bool:
        """Let a waiting run stand elsewhere in its line, or wait for another host. False if it was not waiting."""
        return self._sessions.move(run_id, key, demand) or self._training.move(run_id, key, demand)

    def release(self, run_id: str) -> None:
        """Give back what a live run holds; nothing happens if it is not live."""
        held = self._live.pop(run_id, None)
        if held is None:
            return
        self._cpus_held[held.host, held.interactive] -= held.cpus
        self._memory_held[held.host] -= held.memory_mb
        if held.host in self._places:
            self._places[held.host].gpus.release(run_id)

    def position(self, run_id: str) -> int:
        """The place in its line: 1 is next, 0 is not queued. Asked for every queued run of every listing."""
        return self._sessions.position(run_id) or self._training.position(run_id)

    def _is_apart(self, demand: Demand) -> bool:
        return demand.interactive and self.interactive_cpus > 0 and demand.host == HERE

    def _line_of(self, demand: Demand) -> _Line:
        return self._sessions if self._is_apart(demand) else self._training

    def _cpus_for(self, demand: Demand, there: HostCapacity) -> int:
        return self.interactive_cpus if self._is_apart(demand) else there.cpus

    def _check_unknown(self, run_id: str) -> None:
        if self.position(run_id):
            raise ValueError(f"run {run_id} is already queued, at position {self.position(run_id)}")
        if run_id in self._live:
            raise ValueError(f"run {run_id} is already live and holds {self._live[run_id]}")

    def _shortages(self, demand: Demand, host: str) -> Iterator[str]:
        if lacking := sorted(demand.labels - self._places[host].labels):
            yield f"a host that is labelled {', '.join(lacking)}"
        there = self._places[host].capacity
        if there is None:
            return
        cpus = self._cpus_for(demand, there)
        if demand.cpus > cpus:
            whom = " for interactive runs" if self._is_apart(demand) else ""
            yield f"{_counted(demand.cpus, 'CPU')} where there {_are(cpus)}{whom}"
        if demand.memory_mb > there.memory_mb:
            yield f"{demand.memory_mb} MB of memory where there are {there.memory_mb}"
        if demand.mandatory_gpus > len(there.gpus):
            yield f"{_counted(demand.mandatory_gpus, 'GPU')} where there {_are(len(there.gpus))}"

    def _fits(self, demand: Demand, host: str) -> bool:
        there = self._places[host].capacity
        if there is None or demand.mandatory_gpus > len(there.gpus):
            return False
        enough_memory = self._memory_held[host] + demand.memory_mb <= there.memory_mb
        held = self._cpus_held[host, self._is_apart(demand)]
        return enough_memory and held + demand.cpus <= self._cpus_for(demand, there)

    @staticmethod
    def _gpus_to_give(demand: Demand, place: _Place) -> int:
        return min(max(demand.gpus, demand.mandatory_gpus), place.gpus.total)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int) -> str:
    return {0: "are none", 1: "is 1"}.get(number, f"are {number}")
