"""The queue as a person asks about it: who is next, and what is each one waiting for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gym_gui.services.run_words import counted, memory_text
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

ANY_HOST = "any"


@dataclass(frozen=True)
class Waiting:
    """One place in the line."""

    position: int
    run_id: str
    name: str
    wants: str
    waits_for: str


def in_line(runs: Iterable[pb.Run]) -> list[pb.Run]:
    """The queued runs, the next one first: first come, first served, unless a person put them in another order.

    The daemon updates a run's place when that run changes, not when those in front of it leave; so it is counted here.
    """
    return sorted(filter(stands_in_line, runs), key=lambda run: (run.queue_key, run.created_at, run.run_id))


def stands_in_line(run: pb.Run) -> bool:
    """Whether a run waits for its turn. One with a reason stands beside the line: it cannot start on this machine as it
    is."""
    return run.state == RunState.INIT and not run.reason


def places(queued: Iterable[pb.Run]) -> dict[str, int]:
    """Each run's place, 1 for the next: interactive runs wait for each other, and so do all others."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for run in queued:
        lines[run.interactive].append(run.run_id)
    return {run_id: place for line in lines.values() for place, run_id in enumerate(line, start=1)}


def demand(run: pb.Run) -> pb.Resources:
    """What a run asked for."""
    try:
        asked: dict[str, Any] = json.loads(run.config_json).get("resources") or {}
        cpus, gpus, memory = (int(asked.get(name, {}).get("requested", 0)) for name in ("cpus", "gpus", "memory_mb"))
    except (ValueError, TypeError, AttributeError):
        return pb.Resources()
    return pb.Resources(cpus=cpus, gpus=gpus, memory_mb=memory)


def host_asked(run: pb.Run) -> str:
    """The host that a run has to be on, "" for this machine."""
    return str(_asked(run).get("host", ""))


def labels_asked(run: pb.Run) -> list[str]:
    """What that host has to be labelled with."""
    found = _asked(run).get("labels")
    return [str(label) for label in found] if isinstance(found, list) else []


def _asked(run: pb.Run) -> Mapping[str, Any]:
    try:
        asked = json.loads(run.config_json).get("resources")
    except (ValueError, AttributeError):
        return {}
    return asked if isinstance(asked, Mapping) else {}


def demand_text(asked: pb.Resources) -> str:
    parts = [counted(asked.cpus or 1, "CPU")]
    if asked.gpus:
        parts.append(counted(asked.gpus, "GPU"))
    if asked.memory_mb:
        parts.append(memory_text(asked.memory_mb))
    return ", ".join(parts)


def waiting_line(queued: Sequence[pb.Run], health: pb.Health) -> list[Waiting]:
    """What each of the queued runs, the next one first, is waiting for. Interactive ones come first: they have CPUs
    and a line of their own."""
    sessions = [run for run in queued if run.interactive]
    training = [run for run in queued if not run.interactive]
    there, held = pb.Resources(), pb.Resources()
    there.CopyFrom(health.capacity)
    held.CopyFrom(health.reserved)
    there.cpus, held.cpus = health.interactive_cpus, health.interactive_reserved
    return [*_line(sessions, there, held), *_line(training, health.capacity, health.reserved)]


def _line(queued: Sequence[pb.Run], capacity: pb.Resources, reserved: pb.Resources) -> list[Waiting]:
    line: list[Waiting] = []
    for position, run in enumerate(queued, start=1):
        asked, host = demand(run), host_asked(run)
        ahead = [one for one in queued[: position - 1] if host == ANY_HOST or host_asked(one) in (host, ANY_HOST)]
        if ahead:
            why = f"its turn: {ahead[-1].name} is before it"
        elif host:
            why = run.reason or f"room on {_place_text(run)}"
        else:
            why = _shortage(asked, capacity, reserved) or "starts now"
        line.append(Waiting(position, run.run_id, run.name, demand_text(asked), why))
    return line


def _place_text(run: pb.Run) -> str:
    host, labels = host_asked(run), labels_asked(run)
    place = "any host" if host == ANY_HOST else host
    return f"{place} labelled {', '.join(labels)}" if labels else place


def _shortage(asked: pb.Resources, capacity: pb.Resources, reserved: pb.Resources) -> str:
    wanted = min(asked.gpus, capacity.gpus)  # more than there are is a wish, or was refused at once
    free = {name: max(0, getattr(capacity, name) - getattr(reserved, name)) for name in ("cpus", "gpus", "memory_mb")}
    missing = []
    if (asked.cpus or 1) > free["cpus"]:
        missing.append(f"{counted(asked.cpus or 1, 'CPU')}, {free['cpus']} free")
    if wanted > free["gpus"]:
        missing.append(f"{counted(wanted, 'GPU')}, {free['gpus']} free")
    if asked.memory_mb > free["memory_mb"]:
        missing.append(f"{memory_text(asked.memory_mb)} of memory, {memory_text(free['memory_mb'])} free")
    return "; ".join(missing)
