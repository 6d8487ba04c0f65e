"""The processes of a campaign, found from outside: the daemon need not answer for it, nor live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.read_connection import ReadConnection
from gym_gui.tests.support.cleanrl_runs import children_of
from gym_gui.tests.support.marked_processes import processes_using
from mosaic_host.executor import process_of
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.states import LIVE_STATES

_DAEMON = b"gym_gui.services.trainer"
_FORK_SERVER = b"mosaic_protocol.fork_server"


@dataclass(frozen=True)
class Victim:
    """A process, and the run that it works for."""

    process: ProcessIdentity
    run: str = ""


def daemons(paths: MosaicPaths) -> list[Victim]:
    found = (ProcessIdentity.of(pid) for pid in processes_using(paths.root) if _DAEMON in command_of(pid))
    return [Victim(process) for process in found if process is not None]


def fork_servers(paths: MosaicPaths) -> list[Victim]:
    """Children of a daemon; what they fork looks the same but is not."""
    parents = [daemon.process.pid for daemon in daemons(paths)]
    servers = (child for parent in parents for child in children_of(parent))
    return [Victim(server) for server in servers if _FORK_SERVER in command_of(server.pid)]


def workers(paths: MosaicPaths) -> list[Victim]:
    return [Victim(process, run.run_id) for run, process in _leaders(paths) if run.worker_type == "toy"]


def supervisors(paths: MosaicPaths) -> list[Victim]:
    return [Victim(process, run.run_id) for run, process in _leaders(paths) if run.worker_type == "cleanrl"]


def scripts(paths: MosaicPaths) -> list[Victim]:
    return [Victim(child, one.run) for one in supervisors(paths) for child in children_of(one.process.pid)]


def _leaders(paths: MosaicPaths) -> Iterator[tuple[RunRecord, ProcessIdentity]]:
    for run in live_runs(paths):
        if run.locator and (process := process_of(run.locator)).is_alive():
            yield run, process


def live_runs(paths: MosaicPaths) -> list[RunRecord]:
    """Runs that hold resources, by the registry on disk."""
    marks = ",".join("?" * len(LIVE_STATES))
    with closing(ReadConnection(paths.registry_db)) as registry:
        rows = registry.rows(f"SELECT document FROM runs WHERE state IN ({marks})", sorted(LIVE_STATES))
    return [msgspec.json.decode(row["document"], type=RunRecord) for row in rows]


def command_of(pid: int) -> bytes:
    """Its words, separated by NUL; nothing when it ended just now."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def serving(paths: MosaicPaths) -> set[int]:
    """The daemons that have the registry open."""
    return {one.process.pid for one in daemons(paths) if _holds(one.process.pid, paths.registry_db)}


def _holds(pid: int, file: Path) -> bool:
    wanted = str(file.resolve())
    try:
        return any(str(link.readlink()) == wanted for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
