"""The first conversation with a host: over ``ssh``, before anything of MOSAIC is there. Blocks; for a thread."""

from __future__ import annotations

import json
import posixpath
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.code import Code
from gym_gui.services.hosts.way import way_to
from gym_gui.services.trainer.errors import WorldError
from mosaic_host import bootstrap
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.ssh_command import SshError, posix_command

OLDEST_PYTHON = (3, 11)
_RUN_WHAT_COMES = "import sys, json; exec(json.loads(sys.stdin.buffer.readline()))"
_FACTS_SECONDS, _SEND_SECONDS = 60.0, 600.0
_LONGEST_ANSWER = 100_000


class AwayError(WorldError):
    """A host cannot be reached or used now; the sentence has ssh's own words."""


@dataclass(frozen=True)
class HostReport:
    """What was found over there."""

    home: str
    python: str
    """The interpreter that workers and the agent use."""
    version: tuple[int, ...]
    """Of that interpreter, empty when it cannot be used."""
    problem: str
    """Why it cannot be used."""
    system_version: tuple[int, ...]
    cpus: int
    memory_mb: int
    free_bytes: int
    gpus: tuple[str, ...]
    bundles: tuple[str, ...]
    clock_ahead: float
    """Seconds that its clock is ahead of this one."""
    seconds: float
    """How long the answer took."""

    @property
    def code_folder(self) -> str:
        return posixpath.join(self.home, "code")


def ask(host: Host, code: Code, *, may_ask: bool = False, thorough: bool = False) -> HostReport:
    """Look at a host, make MOSAIC's folder there, and give it the code unless it has it. Raises :class:`AwayError`.

    ``may_ask``: somebody can answer ssh's questions. ``thorough``: import what is needed instead of finding it."""
    options = {"folder": host.folder, "python": host.python, "code": code.sha256, "thorough": thorough}
    report = _conversation(host, options, b"", may_ask) or _conversation(host, options, code.wheel, may_ask)
    if report is None:
        raise AwayError(f"host {host.name} took the code and does not have it: is something removing files there?")
    return report


def _conversation(host: Host, options: dict[str, Any], wheel: bytes, may_ask: bool) -> HostReport | None:
    """None when it needs the code first."""
    options = {**options, "bytes": len(wheel)}
    given = _line(Path(bootstrap.__file__).read_text()) + _line(options) + wheel
    command = posix_command(host.python or "python3", "-c", _RUN_WHAT_COMES)
    began, began_wall = time.monotonic(), time.time()
    try:
        done = way_to(host, may_ask=may_ask).run(
            command, given=given, seconds=_SEND_SECONDS if wheel else _FACTS_SECONDS
        )
    except (SshError, OSError) as error:
        raise AwayError(f"host {host.name} cannot be reached: {error}") from None
    seconds = time.monotonic() - began
    told = _answer(done.stdout)
    if told is None:
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        why = one_line(said[-1])[:300] if said else f"it ended with status {done.returncode}"
        which = host.python or "python3"
        raise AwayError(f"host {host.name}: {which} could not be run there: {why}")
    if "problem" in told:
        raise AwayError(f"host {host.name}: {one_line(str(told['problem']))[:300]}")
    return None if told.get("needs_code") else _report(told, began_wall, seconds)


def _line(content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _answer(output: bytes) -> dict[str, Any] | None:
    """The last line, if it is ours: a login may print before it."""
    lines = output[-_LONGEST_ANSWER:].strip().splitlines()
    try:
        told = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _report(told: dict[str, Any], asked_at: float, seconds: float) -> HostReport:
    missing = [str(name) for name in told.get("missing", ())]
    problem = one_line(str(told.get("python_problem", "")))[:300]
    version = tuple(int(part) for part in told.get("version", ()))
    if not problem and version < OLDEST_PYTHON:
        problem = f"it is Python {'.'.join(map(str, version))}; 3.11 is the oldest that MOSAIC runs on"
    if not problem and missing:
        problem = f"it lacks {', '.join(missing)}"
    return HostReport(
        home=str(told["home"]),
        python=str(told["python"]),
        version=version,
        problem=problem,
        system_version=tuple(told["system_version"]),
        cpus=int(told["cpus"]),
        memory_mb=int(told["memory_mb"]),
        free_bytes=int(told["free_bytes"]),
        gpus=tuple(map(str, told["gpus"])),
        bundles=tuple(map(str, told["bundles"])),
        clock_ahead=float(told["wall_time"]) - (asked_at + seconds / 2),
        seconds=seconds,
    )
