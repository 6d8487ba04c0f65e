"""What a first look at a host found, as sentences: the command line and the cockpit show the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gym_gui.services.hosts.book import Host
from gym_gui.services.run_words import counted, duration, size

if TYPE_CHECKING:
    from gym_gui.services.hosts.reach import HostReport

_LEAST_BYTES = 1_000_000_000
_CLOCK_SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """``status`` is ok, warn or fail."""

    what: str
    status: str
    sentence: str


def examine(host: Host, *, may_ask: bool = False) -> list[Finding]:
    """Look whether runs can go to a host, and give it the code. ``may_ask``: somebody can answer ssh's questions.

    Blocks for as long as ssh does; for a thread."""
    from gym_gui.services.hosts.code import pack
    from gym_gui.services.hosts.reach import AwayError, ask

    try:
        found = list(findings(host, ask(host, pack(), may_ask=may_ask, thorough=True)))
    except AwayError as error:
        return [Finding("ssh", "fail", str(error))]
    return [*found, *([_slurm(host, may_ask)] if host.is_batch_system else [])]


def findings(host: Host, found: HostReport) -> Iterator[Finding]:
    yield Finding("ssh", "ok", f"{host.ssh or 'this machine'} answered in {duration(found.seconds)}")
    yield _python(host, found)
    free = f"{size(found.free_bytes)} free in {found.home}"
    is_enough = found.free_bytes > _LEAST_BYTES
    yield Finding("disk", "ok", free) if is_enough else Finding("disk", "warn", f"only {free}")
    yield _clock(found)
    yield Finding("cpus", "ok", f"{counted(found.cpus, 'CPU')}, {size(found.memory_mb * 2**20)} of memory")
    yield Finding("gpus", "ok", "; ".join(found.gpus) or "none")
    yield Finding("code", "ok", "the same as here")
    if found.bundles:
        yield Finding("bundles", "ok", ", ".join(found.bundles))


def _python(host: Host, found: HostReport) -> Finding:
    if found.problem:
        hint = f"`mosaic hosts install {host.name}` builds one there, or name one that has what workers need (--python)"
        return Finding("python", "fail", f"{found.python} cannot be used: {found.problem}; {hint}")
    return Finding("python", "ok", f"{'.'.join(map(str, found.version))} at {found.python}")


def _clock(found: HostReport) -> Finding:
    """Nothing depends on it but what people read."""
    ahead = found.clock_ahead
    if abs(ahead) < _CLOCK_SECONDS + found.seconds:
        return Finding("clock", "ok", "as here")
    way = "ahead of" if ahead > 0 else "behind"
    return Finding("clock", "warn", f"{duration(abs(ahead))} {way} this one: times in its files differ by that")


def _slurm(host: Host, may_ask: bool) -> Finding:
    """Whether Slurm answers, and would take a job of a run."""
    from gym_gui.services.hosts.way import way_to
    from gym_gui.services.trainer.execution.hosts.slurm_jobs import Needs, submission
    from mosaic_protocol.ssh_command import SshError, posix_command, said

    words = submission(host, "test", "/tmp", "/dev/null", Needs(1, 0, 0))
    try:
        done = way_to(host, may_ask=may_ask).run(posix_command(*words, "--test-only"), given=b"#!/bin/sh\n")
    except (SshError, OSError) as error:
        return Finding("slurm", "fail", str(error))
    told = said(done.stderr) or f"sbatch ended with status {done.returncode}"
    return Finding("slurm", "ok" if done.returncode == 0 else "fail", told.removeprefix("sbatch: "))
