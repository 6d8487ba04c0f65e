"""What the measuring machine is and does: processor, load, and the CPU time and memory of processes."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "var" / "benchmarks"
"""On the disk that MOSAIC would use: in a memory file system a durable write costs nothing."""

_RECORDER = b"code_changes"
_SAMPLE_SECONDS = 0.02
_BUSY_CORES = 0.25
_LOOK_SECONDS = 2.0


def description() -> str:
    """The facts that figures depend on and that the commit does not tell."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{_cpu_model()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, {_filesystem(ROOT)}, Python {platform.python_version()}, torch {_version('torch')}"
    )


def load() -> str:
    """The load averages of the last 1, 5 and 15 minutes."""
    return ", ".join(f"{average:.2f}" for average in os.getloadavg())


def is_busy() -> bool:
    """Whether others use the machine now; load averages remember minutes. Ask before measuring, which is work too."""
    before = _busy_seconds()
    time.sleep(_LOOK_SECONDS)
    return _busy_seconds() - before > _BUSY_CORES * _LOOK_SECONDS


def _busy_seconds() -> float:
    """CPU time that all processes used since the machine was started."""
    user, nice, system, _idle, _waiting, *interrupts = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(map(int, (user, nice, system, *interrupts[:2]))) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process over all its threads, ended ones too, to the nanosecond. Raises ProcessLookupError."""
    # The kernel's clock of another process, as clock_getcpuclockid(3) composes it; /proc only counts in ticks of 10 ms.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError as error:
        raise ProcessLookupError(f"process {pid} is gone") from error


def memory_mb(pid: int) -> tuple[float, float]:
    """(RSS, PSS) in megabytes; PSS counts a page that n processes share as its nth part."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return _megabytes(fields["Rss"]), _megabytes(fields["Pss"])


def children(pid: int) -> list[int]:
    """The living children of a process, whichever of its threads started them."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for words in found for child in words]


def script_of(supervisor: int) -> int | None:
    """The script that a supervisor runs, once it has started it. Beside it a supervisor has git look at the user's code
    for a moment."""
    return next((child for child in children(supervisor) if _RECORDER not in _command_of(child)), None)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is gone already
        return _RECORDER


class CpuTrace:
    """CPU time of processes against the wall clock, sampled until stopped or until the first of them is gone."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._times: list[float] = []
        self._used: list[list[float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="cpu-trace", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Wait until the first process is gone; False when it still lives."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def between(self, begin: float, end: float) -> list[float]:
        """CPU seconds of each process between two wall-clock times, by linear interpolation."""
        import numpy

        used = numpy.array(self._used)
        return [
            float(numpy.interp(end, self._times, column) - numpy.interp(begin, self._times, column))
            for column in used.T
        ]

    def _sample(self) -> None:
        while not self._stop.is_set():
            try:
                used = [cpu_seconds(pid) for pid in self._pids]
            except ProcessLookupError:
                return
            self._times.append(time.time())
            self._used.append(used)
            self._stop.wait(_SAMPLE_SECONDS)


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a folder; it is gone when the context is left.

    It leads a session, as the daemon's workers do: a scheduler that shares the CPU out by session must not tell
    them apart.
    """
    child = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},  # as the daemon's workers have it
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


_PLACES = ("MOSAIC_CORL_PATH", "MOSAIC_SBX_PYTHON")
"""Where something lies that is measured beside MOSAIC; no setting of it."""


@contextmanager
def plain_environment() -> Iterator[None]:
    """Keep settings of the caller's shell from changing what is measured: two benchmarks on one machine agree."""
    before = dict(os.environ)
    for name in list(os.environ):
        if (name.startswith("MOSAIC_") and name not in _PLACES) or name in (
            "PYTHONDONTWRITEBYTECODE",
            "PYTHONUNBUFFERED",
            "OMP_NUM_THREADS",
        ):
            del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before.get("PYTHONPATH", "")]))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _megabytes(text: str) -> float:
    return int(text.split(maxsplit=1)[0]) / 1024


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _filesystem(path: Path) -> str:
    done = subprocess.run(["stat", "-f", "-c", "%T", str(path)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "an unknown file system"


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def commit() -> str:
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=, with changes"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
