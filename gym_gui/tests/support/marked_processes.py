"""Processes found by a mark in the environment they were executed with. Children inherit it: daemons, workers and fork
servers, also those that left the session or were forked twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from mosaic_host.process_sweep import send_signal
from mosaic_protocol.process_identity import ProcessIdentity

_POLL_SECONDS = 0.05


def processes_using(home: Path) -> list[int]:
    """The living processes that were started with a data root at or below a folder, by anybody."""
    return processes_marked("MOSAIC_HOME", str(home))


def workers_using(home: Path) -> list[int]:
    """Those of them that belong to a run, also where no registry knows of them: a daemon that is killed right after a
    launch has not noted its process yet."""
    return [pid for pid in processes_using(home) if "MOSAIC_RUN_ID" in environment_of(pid)]


def processes_marked(variable: str, value: str) -> list[int]:
    """The living processes, except this one, whose variable has this value or one that goes on below it (``/``)."""
    mark = f"{variable}={value}".encode()
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _was_started_with(pid, mark)]


def end_all(find: Callable[[], Iterable[int]], patience: float = 20.0) -> None:
    """Kill what is found, and look again, until nothing is: a process that starts others may be quicker than one look.
    Raises AssertionError when something outlives the patience."""
    deadline = time.monotonic() + patience
    while found := list(find()):
        assert time.monotonic() < deadline, f"these processes do not end: {[command_of(pid) for pid in found]}"
        for process in filter(None, map(ProcessIdentity.of, found)):
            send_signal(process, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def environment_of(pid: int) -> dict[str, str]:
    """What a process was executed with; nothing when it is gone."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (part.decode(errors="replace").partition("=") for part in content.split(b"\0"))
    return {name: value for name, _, value in pairs}


def command_of(pid: int) -> str:
    """The command line of a process; "" when it is gone."""
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return " ".join(content.decode(errors="replace").split("\0")).strip()


def _was_started_with(pid: int, mark: bytes) -> bool:
    if pid == os.getpid() or ProcessIdentity.of(pid) is None:
        return False
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return any(variable == mark or variable.startswith(mark + b"/") for variable in environment.split(b"\0"))
