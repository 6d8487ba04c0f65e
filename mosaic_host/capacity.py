"""What this host has to give: CPUs, memory, GPUs and free disk space.

A container often has less than its machine, so control-group limits (versions 1 and 2, at every level above
this process) count as much as the hardware does. Parsing is apart from reading, so that it can be tested on
text.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mosaic_host.gpu import Gpu, detect_gpus

_PROC = Path("/proc")
_UNLIMITED_BYTES = 1 << 60  # version 1 writes "no limit" as a number near 2**63
_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class HostCapacity:
    """The most that all live runs together may reserve."""

    cpus: int
    memory_mb: int
    gpus: tuple[Gpu, ...] = ()

    @classmethod
    def detect(
        cls,
        *,
        cpus: int | None = None,
        memory_mb: int | None = None,
        gpus: tuple[Gpu, ...] | None = None,
        proc: Path = _PROC,
    ) -> HostCapacity:
        """Measure this host; what is passed in is taken as it is. May block for seconds to probe GPUs."""
        limits = _cgroup_limits(proc)
        return cls(
            _available_cpus(limits) if cpus is None else cpus,
            _available_memory_mb(limits, proc) if memory_mb is None else memory_mb,
            detect_gpus() if gpus is None else gpus,
        )


@dataclass(frozen=True)
class Limits:
    """Control-group limits; None where there is none."""

    cpus: float | None = None
    memory_bytes: int | None = None

    def tightened(self, other: Limits) -> Limits:
        """The stricter of both, for each limit."""
        cpus = [value for value in (self.cpus, other.cpus) if value is not None]
        memory = [value for value in (self.memory_bytes, other.memory_bytes) if value is not None]
        return Limits(min(cpus, default=None), min(memory, default=None))


@dataclass(frozen=True)
class CgroupMount:
    """Where a control-group hierarchy is mounted, which part of it, and what it controls."""

    point: Path
    root: str
    version: int
    controllers: frozenset[str]


@dataclass(frozen=True)
class DiskRoom:
    """How full a disk is for its users: what is kept back for the system counts neither as used nor as free."""

    path: Path
    """What was asked about."""
    used: int
    free: int

    @property
    def total(self) -> int:
        return self.used + self.free

    @property
    def percent(self) -> float:
        return 100 * self.used / self.total if self.total else 100.0


def disk_room(path: Path) -> DiskRoom:
    """Of the disk that holds ``path``, or will once it exists. Raises OSError."""
    existing = path.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    found = shutil.disk_usage(existing)
    return DiskRoom(path, found.used, found.free)


def disk_free(path: Path) -> int:
    """Free bytes for this user on the disk that holds ``path``, or will once it exists. Raises OSError."""
    return disk_room(path).free


def parse_meminfo(text: str) -> int | None:
    """Total memory in bytes from ``/proc/meminfo``."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def parse_cpu_max(text: str) -> float | None:
    """CPUs from ``cpu.max`` of version 2: ``<quota or max> <period>`` in microseconds."""
    quota, _, period = text.strip().partition(" ")
    return parse_cpu_quota(quota, period or "100000")


def parse_cpu_quota(quota: str, period: str) -> float | None:
    """CPUs from the two files of version 1; a quota of -1 is no limit."""
    if not (quota.strip().isdecimal() and period.strip().isdecimal()) or int(period) == 0:
        return None
    return int(quota) / int(period)


def parse_memory_limit(text: str) -> int | None:
    """Bytes from ``memory.max`` (version 2) or ``memory.limit_in_bytes`` (version 1)."""
    number = text.strip()
    if not number.isdecimal() or int(number) >= _UNLIMITED_BYTES:
        return None
    return int(number)


def parse_memberships(text: str) -> dict[str, str]:
    """This process's group by controller from ``/proc/self/cgroup``; version 2 is under the empty name."""
    groups: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, separator, group = rest.partition(":")
        if separator:
            groups.update(dict.fromkeys(controllers.split(","), group))
    return groups


def parse_cgroup_mounts(text: str) -> tuple[CgroupMount, ...]:
    """The control-group mounts in ``/proc/self/mountinfo``."""
    mounts = []
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if separator and len(fields) >= 5 and len(kind) >= 3 and kind[0] in ("cgroup", "cgroup2"):
            version = 2 if kind[0] == "cgroup2" else 1
            controllers = frozenset([""] if version == 2 else kind[2].split(","))
            point, root = Path(_unescaped(fields[4])), _unescaped(fields[3])
            mounts.append(CgroupMount(point, root, version, controllers))
    return tuple(mounts)


def _unescaped(text: str) -> str:
    return _OCTAL_ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def _available_cpus(limits: Limits) -> int:
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if limits.cpus is None:
        return allowed
    # Rounded down: promising a CPU of which only half is there would slow every run on it.
    return max(1, min(allowed, int(limits.cpus)))


def _available_memory_mb(limits: Limits, proc: Path) -> int:
    total = parse_meminfo(_text(proc / "meminfo"))
    if total is None:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total, limits.memory_bytes or total) // (1 << 20)


def _cgroup_limits(proc: Path) -> Limits:
    groups = parse_memberships(_text(proc / "self" / "cgroup"))
    limits = Limits()
    for mount in parse_cgroup_mounts(_text(proc / "self" / "mountinfo")):
        for controller in mount.controllers & groups.keys():
            for directory in _levels(mount, groups[controller]):
                limits = limits.tightened(_limits_in(directory, mount.version))
    return limits


def _levels(mount: CgroupMount, group: str) -> Iterator[Path]:
    """The group's directory and each one above it, up to the mount: a limit anywhere on the way applies."""
    yield mount.point
    try:
        below = PurePosixPath(group).relative_to(mount.root)
    except ValueError:
        return  # the group lies outside what this container sees; the mount point is the nearest thing
    directory = mount.point
    for part in below.parts:
        directory = directory / part
        yield directory


def _limits_in(directory: Path, version: int) -> Limits:
    if version == 2:
        memory = parse_memory_limit(_text(directory / "memory.max"))
        return Limits(parse_cpu_max(_text(directory / "cpu.max")), memory)
    return Limits(
        parse_cpu_quota(_text(directory / "cpu.cfs_quota_us"), _text(directory / "cpu.cfs_period_us")),
        parse_memory_limit(_text(directory / "memory.limit_in_bytes")),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
