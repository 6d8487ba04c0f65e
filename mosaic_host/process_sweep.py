"""Finding every process of a run, also those that tried to get away, and nothing else.

A process belongs to a run if it did not start before the run's leader and
  - is in the leader's session or process group, or descends from a process that belongs, or
  - carries ``MOSAIC_RUN_ID=<id>`` in the environment it was executed with (survives setsid and re-parenting), or
  - holds the run's claim file open for writing (survives a fork without exec, where the environment says nothing).
"""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mosaic_protocol import claims
from mosaic_protocol.process_identity import ProcessIdentity, boot_id, stat_fields


@dataclass(frozen=True)
class RunMarks:
    """What the processes of a run are known by."""

    run_id: str
    run_dir: Path
    attempt: int
    leader: ProcessIdentity


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int
    dead: bool


def processes_of(run: RunMarks, *, leader_was_seen: bool = True) -> list[ProcessIdentity]:
    """The living processes of a run. Processes of another boot cannot be meant.

    The number of a session means something only while it cannot have been given away: while the leader lives, or
    afterwards to one who saw it alive (``leader_was_seen``).
    """
    leader = run.leader
    if leader.boot != boot_id():
        return []
    table = {process.pid: process for process in _all_processes() if _may_belong(process, leader)}
    session = leader.pid if _is_still_its_session(leader, table, leader_was_seen) else None
    found = {pid for pid, process in table.items() if _is_marked(process, run, session)}
    _add_descendants(found, table)
    return [ProcessIdentity(pid, table[pid].start_ticks, boot_id()) for pid in sorted(found) if not table[pid].dead]


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone. The descriptor pins it between check and signal."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if not process.is_alive():
            return False
        with suppress(ProcessLookupError, PermissionError):  # it is gone, or has become another user's
            signal.pidfd_send_signal(descriptor, number)
        return True
    finally:
        os.close(descriptor)


def lives_without_its_folder(run_id: str) -> bool:
    """Whether a process of a run lives whose folder cannot be found: it carries the run's mark, or holds a claim of the
    run open wherever that is now."""
    claim = f"/{run_id}/claims/"
    return any(
        not process.dead and (_has_environment_mark(process.pid, run_id) or _holds_open(process.pid, claim))
        for process in _all_processes()
        if process.pid not in (os.getpid(), 1)
    )


def _may_belong(process: _Process, leader: ProcessIdentity) -> bool:
    return process.start_ticks >= leader.start_ticks and process.pid not in (os.getpid(), 1)


def _is_marked(process: _Process, run: RunMarks, session: int | None) -> bool:
    leader = run.leader
    return (
        (process.pid, process.start_ticks)
        == (leader.pid, leader.start_ticks)  # it leads no session yet when just forked
        or session in (process.session, process.group)
        or _has_environment_mark(process.pid, run.run_id)
        or _holds_open(process.pid, os.path.realpath(claims.path_of(run.run_dir / "claims", run.attempt)), whole=True)
    )


def _is_still_its_session(leader: ProcessIdentity, table: dict[int, _Process], leader_was_seen: bool) -> bool:
    holder = table.get(leader.pid)
    return leader_was_seen if holder is None else holder.start_ticks == leader.start_ticks


def _has_environment_mark(pid: int, run_id: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"MOSAIC_RUN_ID={run_id}".encode() in environment.split(b"\0")


def _holds_open(pid: int, path: str, *, whole: bool = False) -> bool:
    """Whether a process has a file open for writing whose path has this in it, or is this."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):
            link = f"/proc/{pid}/fd/{descriptor}"
            found = os.readlink(link)
            if (found == path if whole else path in found) and os.lstat(link).st_mode & stat.S_IWUSR:
                return True
    return False


def _add_descendants(found: set[int], table: dict[int, _Process]) -> None:
    grown = True
    while grown:
        children = {pid for pid, process in table.items() if process.parent in found} - found
        grown = bool(children)
        found |= children


def _all_processes() -> list[_Process]:
    listed = (_read(int(entry)) for entry in os.listdir("/proc") if entry.isdecimal())
    return [process for process in listed if process is not None]


def _read(pid: int) -> _Process | None:
    fields = stat_fields(pid)
    if fields is None:
        return None
    state, parent, group, session = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
    return _Process(pid, parent, group, session, int(fields[19]), state in "ZX")
