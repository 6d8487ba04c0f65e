"""How a host is doing, in words. The list of the command line and the screen of the cockpit say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gym_gui.services.hosts.book import Host
from gym_gui.services.run_words import counted

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


def is_known(told: pb.Host | None) -> bool:
    """Whether the daemon has seen what the host has."""
    return told is not None and told.capacity.cpus > 0


def reached_by(host: Host) -> str:
    """What `ssh` calls it, and what kind of place it is."""
    return f"{host.ssh or 'here'} (Slurm)" if host.is_batch_system else host.ssh


def standing(host: Host, told: pb.Host | None) -> str:
    """``connected``, ``idle`` while no run needs it, ``drained, idle``, or why it cannot be reached."""
    if told is not None and told.away:
        return told.away
    state = "idle" if told is None or not told.connected else "connected"
    return f"drained, {state}" if host.drained else state


def labels_of(host: Host, told: pb.Host | None) -> list[str]:
    """What it is labelled with; whether it has a GPU the daemon knows once it was there."""
    return sorted({*host.labels, *(told.labels if told is not None else ())})


def why_needed(name: str, told: pb.Host | None) -> str:
    """Why a host cannot be removed, "" when it can: runs on one that nobody knows would be out of reach."""
    if told is None or not told.live:
        return ""
    sentence = f"{counted(told.live, 'run')} on {name} would be out of reach"
    return f"{sentence}: drain it first (`mosaic hosts drain {name}`), and remove it when they are over"
