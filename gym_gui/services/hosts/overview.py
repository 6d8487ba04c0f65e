"""The hosts as a person looks at them: this machine first, then each one of the list with what runs there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.standing import is_known, labels_of, standing
from gym_gui.services.run_words import is_over, memory_text
from gym_gui.services.waiting_line import host_asked
from mosaic_protocol.host_labels import GPU
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import LIVE_STATES


class Health(Enum):
    """Of a host; the word is the icon's."""

    GOOD = "good"
    IDLE = "idle"
    DRAINED = "drained"
    AWAY = "away"


@dataclass(frozen=True)
class HostLine:
    """One host. ``name`` is "" for the machine of the daemon."""

    name: str
    host: Host | None
    health: Health
    status: str
    cpus: str
    gpus: str
    memory: str
    labels: str
    runs: tuple[pb.Run, ...]
    """Live ones first, then those that wait for this host and no other."""
    live: int


def overview(hosts: Mapping[str, Host], health: pb.Health | None, runs: Iterable[pb.Run]) -> list[HostLine]:
    """``health`` is None while the daemon is away: then nobody knows how anything stands."""
    there = _by_host(runs)
    told = {one.name: one for one in health.hosts} if health is not None else {}
    return [_here(health, there.get("", [])), *(_line(host, told, health, there) for host in hosts.values())]


def _by_host(runs: Iterable[pb.Run]) -> dict[str, list[pb.Run]]:
    there: dict[str, list[pb.Run]] = defaultdict(list)
    waiting: dict[str, list[pb.Run]] = defaultdict(list)
    for run in runs:
        if run.state in LIVE_STATES:
            there[run.host].append(run)
        elif not is_over(run) and (asked := host_asked(run)):
            waiting[asked].append(run)
    for name, found in waiting.items():
        there[name] += sorted(found, key=lambda run: run.queue_key)
    return there


def _here(health: pb.Health | None, runs: list[pb.Run]) -> HostLine:
    if health is None:
        return HostLine("", None, Health.AWAY, "the daemon is away", "", "", "", "", tuple(runs), len(runs))
    shown = _shares(health.capacity, health.reserved)
    labels = GPU if health.capacity.gpus else ""
    return HostLine("", None, Health.GOOD, "connected", *shown, labels, tuple(runs), len(runs))


def _line(
    host: Host, told: Mapping[str, pb.Host], health: pb.Health | None, there: Mapping[str, list[pb.Run]]
) -> HostLine:
    runs, state = tuple(there.get(host.name, ())), told.get(host.name)
    live = sum(run.state in LIVE_STATES for run in runs)
    labels = ", ".join(labels_of(host, state))
    if health is None:
        return HostLine(host.name, host, Health.AWAY, "the daemon is away", "", "", "", labels, runs, live)
    shares = _shares(state.capacity, state.reserved) if state is not None and is_known(state) else ("", "", "")
    return HostLine(host.name, host, _health(host, state), standing(host, state), *shares, labels, runs, live)


def _health(host: Host, told: pb.Host | None) -> Health:
    if told is not None and told.away:
        return Health.AWAY
    if host.drained:
        return Health.DRAINED
    return Health.GOOD if told is not None and told.connected else Health.IDLE


def _shares(there: pb.Resources, held: pb.Resources) -> tuple[str, str, str]:
    """``2 of 8``: what runs hold of what there is."""
    memory = f"{memory_text(held.memory_mb)} of {memory_text(there.memory_mb)}"
    return f"{held.cpus} of {there.cpus}", f"{held.gpus} of {there.gpus}" if there.gpus else "none", memory
