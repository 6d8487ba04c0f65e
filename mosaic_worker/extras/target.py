"""The environment that extras go into: an interpreter, what it has, and pip in it."""

from __future__ import annotations

import ctypes.util
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement

from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.extras.sets import DebianPackage, ExtrasError

SILENCE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_PROBE_SECONDS = 60.0
_MEGABYTE = 10**6
_SPARE_MEGABYTES = 100

# Settings that would send what pip installs somewhere else than into the environment.
_MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN")
_POINT_OF_NO_RETURN = "Installing collected packages: "
_DOWNLOAD = re.compile(r"(?:Downloading|Using cached) ([^-\s]+)-([^-\s]+)[^\s]* \((.* [MG]B)\)")

_PROBE = """
import importlib.metadata, importlib.util, json, os, re, sys, sysconfig
names = {}
for found in importlib.metadata.distributions():
    if found.metadata["Name"]:
        names.setdefault(re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower(), found.version)
marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
print(json.dumps({
    "prefix": sys.prefix,
    "series": "%d.%d" % sys.version_info[:2],
    "packages": sysconfig.get_path("purelib"),
    "pip": importlib.util.find_spec("pip") is not None,
    "managed_by_system": sys.prefix == sys.base_prefix and os.path.exists(marker),
    "installed": names,
}))
"""


@dataclass(frozen=True)
class Target:
    """One environment as it was found."""

    python: str
    prefix: Path
    packages: Path
    installed: Mapping[str, str]

    @classmethod
    def probe(cls, python: str) -> Target:
        """Ask an interpreter what it has. Raises ExtrasError when it cannot be installed into."""
        try:
            # Isolated: what PYTHONPATH adds to a run is not what the environment has.
            answer = subprocess.run(
                [python, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=60, check=True
            )
            found = json.loads(answer.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ExtrasError(f"{python} is not a Python interpreter that works here: {_brief(error)}.", 2) from None
        if not found["pip"]:
            raise ExtrasError(f"{python} has no pip; `{python} -m ensurepip` adds it.", 2)
        if found["managed_by_system"]:
            raise ExtrasError(
                f"{python} belongs to the operating system; make an environment of your own with "
                f"`{python} -m venv DIRECTORY` and give its interpreter with --python.",
                2,
            )
        return cls(python, Path(found["prefix"]), Path(found["packages"]), found["installed"])


def check_disk(target: Target, installed_megabytes: int, download_megabytes: int) -> None:
    """Raise ExtrasError when the environment's disk, or the one that pip downloads to, has too little room."""
    if not installed_megabytes:
        return
    scratch = Path(tempfile.gettempdir())
    need = {target.packages: installed_megabytes + _SPARE_MEGABYTES}
    if scratch.stat().st_dev == target.packages.stat().st_dev:
        need[target.packages] += download_megabytes
    else:
        need[scratch] = download_megabytes + _SPARE_MEGABYTES
    for place, megabytes in need.items():
        free = shutil.disk_usage(place).free // _MEGABYTE
        if free < megabytes:
            raise ExtrasError(f"The disk is too full: needs {megabytes:,} MB, has {free:,} MB at {place}.")


@contextmanager
def only_one(prefix: Path) -> Iterator[None]:
    """Refuse while another process installs into the same environment. Raises ExtrasError."""
    try:
        descriptor = os.open(prefix / ".mosaic-extras.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ExtrasError(f"{prefix} cannot be written to: {error.strerror}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ExtrasError(f"Another process is installing extras into {prefix}; wait for it to end.") from None
    finally:
        os.close(descriptor)


class PipRun:
    """One ``pip install`` into an environment, reported on while it runs.

    pip writes to a file and leads a session of its own: neither a Ctrl-C in the terminal nor the death of this process
    cuts it off while it replaces files.
    """

    def __init__(self, target: Target, tell: Callable[[str], None]) -> None:
        self._target, self._tell = target, tell
        self._replacing = False
        self._partial = b""
        self._tail: deque[str] = deque(maxlen=30)
        self._last_told = self._began = time.monotonic()

    def install(self, requirements: Sequence[Requirement], constraints: Sequence[str]) -> None:
        """Raises ExtrasError when pip fails, KeyboardInterrupt when it was interrupted before it changed anything."""
        with tempfile.TemporaryDirectory(prefix="mosaic-extras-") as folder:
            listed = Path(folder) / "constraints.txt"
            listed.write_text("".join(f"{line}\n" for line in constraints))
            command = [self._target.python, "-I", "-u", "-m", "pip", "install", "--constraint", str(listed)]
            log = Path(folder) / "pip.log"
            with log.open("wb") as output, log.open("rb") as reader:
                # Its scratch files go with the folder, also when it is broken off.
                environment = _pip_environment() | {"TMPDIR": folder}
                status = self._follow([*command, *map(str, requirements)], output, reader, environment)
        if status != 0:
            state = "Run the same command again." if self._replacing else "The environment is as it was."
            raise ExtrasError(f"pip failed: {_complaint(self._tail)} {state}")

    def _follow(self, command: list[str], output: IO[bytes], reader: IO[bytes], environment: Mapping[str, str]) -> int:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        while process.returncode is None:
            try:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                self._read(reader)
            except KeyboardInterrupt:
                self._interrupt(process, reader)
        self._read(reader)
        return process.returncode

    def _interrupt(self, process: subprocess.Popen[bytes], reader: IO[bytes]) -> None:
        """End pip, unless it has begun to replace files. Held meanwhile, so that it cannot begin in between."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGSTOP)
            self._read(reader)
            if not self._replacing:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise KeyboardInterrupt
            os.killpg(process.pid, signal.SIGCONT)
        self._tell("Files are being put in place: finishing that, so that the environment stays whole.")

    def _read(self, reader: IO[bytes]) -> None:
        *lines, self._partial = (self._partial + reader.read()).split(b"\n")
        for line in (raw.decode(errors="replace").strip() for raw in lines):
            if line:
                self._hear(line)
        now = time.monotonic()
        if now - self._last_told > SILENCE_SECONDS:
            self._say(now, "still working")

    def _hear(self, line: str) -> None:
        self._tail.append(line)
        self._replacing = self._replacing or line.startswith(_POINT_OF_NO_RETURN)
        if told := _condensed(line):
            self._say(time.monotonic(), told)

    def _say(self, now: float, line: str) -> None:
        self._last_told = now
        self._tell(f"{now - self._began:4.0f} s  {line}")


def _condensed(line: str) -> str:
    """What a line of pip's says in short, "" for the many that nobody misses."""
    if found := _DOWNLOAD.match(line):
        return f"Downloading {found[1]} {found[2]} ({found[3]})"
    if line.startswith(_POINT_OF_NO_RETURN):
        return f"Putting {len(line.removeprefix(_POINT_OF_NO_RETURN).split(','))} packages in place"
    return line[:100] if line.startswith("Building ") else ""


def missing_debian(packages: Sequence[DebianPackage]) -> list[DebianPackage]:
    return [package for package in packages if ctypes.util.find_library(package.library) is None]


def apt_command(packages: Sequence[DebianPackage]) -> list[str]:
    return ["apt-get", "install", "-y", "--no-install-recommends", *(package.name for package in packages)]


def install_debian(packages: Sequence[DebianPackage], tell: Callable[[str], None]) -> str:
    """Install system packages where that is allowed; returns what is left to do, "" when nothing is."""
    command = apt_command(packages)
    by_hand = f"Run `sudo {' '.join(command)}`"
    if shutil.which("apt-get") is None:
        libraries = ", ".join(f"lib{package.library}" for package in packages)
        return f"Install what provides {libraries} on your system (on Debian: {' '.join(command)})."
    if os.geteuid() != 0:
        return f"{by_hand}: that needs root."
    tell(f"Installing the Debian packages {', '.join(package.name for package in packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    return f"{by_hand}: apt-get failed ({_complaint(done.stderr.splitlines()).rstrip('.')}); `apt-get update` may help."


def _pip_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
    kept.setdefault("PIP_CACHE_DIR", str(MosaicPaths.from_environment().pip_cache))
    return kept | {
        "PIP_PROGRESS_BAR": "off",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _complaint(lines: Sequence[str] | deque[str]) -> str:
    errors = [line for line in lines if line.startswith(("ERROR:", "E:"))] or list(lines)[-1:] or ["it wrote nothing"]
    text = errors[-1].removeprefix("ERROR:").removeprefix("E:").strip()[:300]
    return text if text.endswith(".") else text + "."


def _brief(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with status {error.returncode}"
    return (getattr(error, "strerror", None) or str(error).splitlines()[0])[:200]
