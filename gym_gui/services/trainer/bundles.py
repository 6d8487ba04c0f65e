"""Requirement bundles, and the managed environments built from them.

A bundle is ``requirements/<name>.txt``. Where the interpreter of the daemon satisfies it, runs use that
interpreter; else a managed environment ``venvs/<bundle>-<hash>``, named by what it was built from. The
symlink ``venvs/<bundle>`` points to the one in use. An environment counts only with its marker file, which
is written last, so a build that dies at any instant leaves the previous environment as it was.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.host import disk_free
from mosaic_protocol.paths import MosaicPaths, checked_name

MARKER_NAME = ".mosaic-bundle.json"
BYTES_NEEDED = 500 * 1024**2
BYTES_NEEDED_WITH_TORCH = 4 * 1024**3
NAMED_IN_ADVICE = 5

_LOCK_PATIENCE = 3.0  # what a killed build leaves behind is gone by then
_POLL_SECONDS = 0.1
_INCLUDE = re.compile(r"(?:-r|--requirement)[\s=]*(\S.*)")
_COMMENT = re.compile(r"(?:^|\s+)#.*$")
_PROGRESS = ("Collecting ", "Downloading ", "Using cached ", "Building ", "Installing ", "Successfully ")
# Settings that would send what pip installs somewhere else than into the environment.
_MISLEADING = frozenset({"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_DRY_RUN"})

# Runs a command and, when its own standard input closes, kills the whole process group: pip and all that it
# started die with the installing process, however that one ended.
_TETHER = """
import os, signal, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(child.wait())
"""

Status = Literal["current", "ready", "stale", "missing"]
Finder = Callable[[str], "metadata.Distribution | None"]


class BundleError(TrainerError):
    """A bundle cannot be read or installed; the message says why and what to do."""


class BundleCancelled(BundleError):
    """An installation was cancelled; the previous environment is still the one in use."""


@dataclass(frozen=True)
class Bundle:
    """A requirements file with its includes resolved."""

    name: str
    file: Path
    requirements: tuple[Requirement, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The requirements in one spelling, sorted, so that layout and order do not change the hash."""
        return tuple(sorted(set(map(str, self.requirements))))

    @property
    def hash(self) -> str:
        """Identifies what an environment built now would hold."""
        python = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
        recipe = {"requirements": self.lines, "python": python, "platform": sysconfig.get_platform()}
        return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()

    @property
    def applicable(self) -> tuple[Requirement, ...]:
        """The requirements whose markers hold on this interpreter and platform."""
        return tuple(one for one in self.requirements if one.marker is None or one.marker.evaluate())

    def torch(self) -> Requirement | None:
        """The requirement on torch, if any. Raises BundleError unless it is an exact pin."""
        torch = next((one for one in self.applicable if canonicalize_name(one.name) == "torch"), None)
        if torch is None or any(_is_exact(specifier) for specifier in torch.specifier):
            return torch
        raise BundleError(
            f"{self.file} asks for {torch} without an exact version, which may download gigabytes that this "
            "host cannot use: pin it, as in torch==2.13.0"
        )


@dataclass(frozen=True)
class BundleInfo:
    """One row of the list of bundles. ``problem`` says why its file cannot be used, else it is empty."""

    name: str
    status: Status
    file: Path
    python: Path | None = None
    missing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Preflight:
    """Whether a run can start: with ``python``, or not at all and ``advice`` says what to do."""

    python: Path | None
    missing: list[str] = field(default_factory=list)
    advice: str = ""


@dataclass(frozen=True)
class Environment:
    """A managed environment that was built to its end."""

    directory: Path
    hash: str

    @property
    def python(self) -> Path:
        return python_of(self.directory)


def read_bundle(name: str, file: Path) -> Bundle:
    """Read a requirements file and what it includes. Raises BundleError."""
    return Bundle(name, file, tuple(_resolved(file, set())))


def unmet(requirements: Iterable[Requirement], find: Finder) -> list[str]:
    """What is not satisfied by the distributions that ``find`` knows, with the version that is there instead."""
    return list(dict.fromkeys(line for one in requirements for line in _unmet(one, find, set())))


def find_here(name: str) -> metadata.Distribution | None:
    """A distribution of the running interpreter. Imports nothing of it."""
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def finder_in(directory: Path) -> Finder:
    """A finder for the distributions of another environment, made by the same Python."""
    base = {"base": str(directory), "platbase": str(directory)}
    sites = sorted({sysconfig.get_path(kind, scheme="venv", vars=base) for kind in ("purelib", "platlib")})
    return lambda name: next(iter(metadata.distributions(name=name, path=sites)), None)


def python_of(directory: Path) -> Path:
    """The interpreter of an environment."""
    return directory / "bin" / "python"


def runs_from(directory: Path) -> bool:
    """Whether a process was started from this environment, as far as /proc tells."""
    prefix = os.fsencode(directory) + b"/"
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if command_line.read_bytes().startswith(prefix):
                return True
    return False


class BundleManager:
    """Finds bundles, judges them and builds their environments.

    Keeps no state in memory, so it may be used from any thread and from several processes at once; builds
    of one bundle exclude each other through a lock file. Every method raises BundleError for a bundle that
    is unknown or unreadable and ValueError for something that is not a name.

    ``in_use`` is asked before an outdated environment is removed, with its directory.
    """

    def __init__(
        self,
        paths: MosaicPaths,
        requirement_dirs: Sequence[Path],
        *,
        in_use: Callable[[Path], bool] = runs_from,
    ) -> None:
        self._paths = paths
        self._venvs = paths.venvs.absolute()
        self._requirement_dirs = tuple(requirement_dirs)
        self._in_use = in_use

    def list(self) -> tuple[BundleInfo, ...]:
        """Every bundle with its status, by name. A file that cannot be read is listed with its problem."""
        return tuple(self._described(name, file) for name, file in sorted(self._files().items()))

    def preflight(self, bundle: str) -> Preflight:
        """Find an interpreter that satisfies a bundle, without starting one. Takes milliseconds."""
        return self._preflight(self._read(bundle))

    def bundle_record(self, bundle: str) -> dict[str, Any]:
        """What the run manifest says of a bundle: name, hash, interpreter, direct requirements as installed.

        Without a usable interpreter ``python`` is None and ``requirements`` empty.
        """
        known = self._read(bundle)
        python = self._preflight(known).python
        record = {"name": known.name, "hash": known.hash, "python_version": platform.python_version()}
        if python is None:
            return {**record, "python": None, "requirements": []}
        find = find_here if python == Path(sys.executable) else finder_in(python.parent.parent)
        return {**record, "python": str(python), "requirements": _installed(known, find)}

    def install(self, bundle: str, progress: Callable[[str], None], cancel: threading.Event | None = None) -> Path:
        """Build the bundle's environment unless it is there, make it the one in use, return its directory.

        Blocks for seconds to minutes; ``progress`` is called with one line at a time in the calling thread.
        Raises BundleCancelled soon after ``cancel`` is set; no process is left then, nor when ``progress``
        raises.
        """
        known = self._read(bundle)
        try:
            self._venvs.mkdir(parents=True, exist_ok=True)
            with _exclusive(self._venvs / f".{known.name}.lock", known.name) as lock:
                directory = self._built(known, progress, cancel or threading.Event(), lock)
                _point(self._venvs / known.name, directory)
                self._remove_outdated(known, directory)
        except OSError as error:
            raise BundleError(f"The environment for {known.name} could not be built: {error}.") from error
        return directory

    def _files(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for directory in self._requirement_dirs:
            for file in sorted(directory.glob("*.txt")):
                with suppress(ValueError):
                    found.setdefault(checked_name(file.stem), file)
        return found

    def _read(self, bundle: str) -> Bundle:
        files = self._files()
        file = files.get(checked_name(bundle))
        if file is None:
            near = difflib.get_close_matches(bundle, files, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(files)) or 'none'}"
            raise BundleError(f"There is no bundle {bundle}: {hint}")
        return read_bundle(bundle, file)

    def _described(self, name: str, file: Path) -> BundleInfo:
        try:
            bundle = read_bundle(name, file)
        except BundleError as error:
            return BundleInfo(name, "missing", file, problem=str(error))
        judged = self._preflight(bundle)
        if judged.python is not None:
            current = judged.python == Path(sys.executable)
            return BundleInfo(name, "current" if current else "ready", file, judged.python)
        stale = self._linked(name) is not None
        return BundleInfo(name, "stale" if stale else "missing", file, missing=tuple(judged.missing))

    def _preflight(self, bundle: Bundle) -> Preflight:
        missing = unmet(bundle.requirements, find_here)
        if not missing:
            return Preflight(Path(sys.executable))
        environment = self._linked(bundle.name)
        if environment is not None and environment.hash == bundle.hash:
            return Preflight(environment.python)
        return Preflight(None, missing, _advice(bundle.name, missing, outdated=environment is not None))

    def _linked(self, name: str) -> Environment | None:
        link = self._venvs / name
        if not link.is_symlink():
            return None
        return _finished(self._venvs / os.readlink(link))

    def _built(self, bundle: Bundle, progress: Callable[[str], None], cancel: threading.Event, lock: int) -> Path:
        directory = self._venvs / f"{bundle.name}-{bundle.hash[:12]}"
        environment = _finished(directory)
        if environment is not None and environment.hash == bundle.hash:
            progress(f"{bundle.name} is already built in {directory}")
            return directory
        self._sweep(bundle)
        _discard(directory)
        torch = bundle.torch()
        _check_disk(bundle.name, self._venvs, BYTES_NEEDED_WITH_TORCH if torch else BYTES_NEEDED)
        log = self._paths.logs / f"bundle-{bundle.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            pip_cache = self._paths.pip_cache.absolute()
            _Build(bundle, directory, pip_cache, log, progress, cancel, lock).run(torch)
        except BaseException:
            _discard(directory, ignore_errors=True)
            raise
        return directory

    def _environments(self, bundle: Bundle) -> Iterator[Path]:
        pattern = re.compile(re.escape(bundle.name) + r"-[0-9a-f]{12}")
        for entry in self._venvs.iterdir():
            if pattern.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink():
                yield entry

    def _sweep(self, bundle: Bundle) -> None:
        for directory in tuple(self._environments(bundle)):
            if _finished(directory) is None:
                _discard(directory, ignore_errors=True)

    def _remove_outdated(self, bundle: Bundle, current: Path) -> None:
        for directory in tuple(self._environments(bundle)):
            if directory != current and not self._in_use(directory):
                _discard(directory, ignore_errors=True)


class _Build:
    """One build, in its final place: an environment cannot be moved. Its processes keep the lock held."""

    def __init__(
        self,
        bundle: Bundle,
        directory: Path,
        pip_cache: Path,
        log: Path,
        progress: Callable[[str], None],
        cancel: threading.Event,
        lock: int,
    ) -> None:
        self._bundle, self._directory, self._log = bundle, directory, log
        self._progress, self._cancel, self._lock = progress, cancel, lock
        self._environ = {name: value for name, value in os.environ.items() if name not in _MISLEADING}
        self._environ |= {"PIP_CACHE_DIR": str(pip_cache), "PIP_PROGRESS_BAR": "off", "PIP_NO_INPUT": "1"}
        self._environ |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}

    def run(self, torch: Requirement | None) -> None:
        python = str(python_of(self._directory))
        pip = [python, "-I", "-m", "pip", "install"]
        self._log.write_bytes(b"")
        self._step(f"Creating {self._directory}", [sys.executable, "-I", "-m", "venv", str(self._directory)])
        if torch is not None:
            self._step(f"Installing {torch}", [*pip, str(torch)])
        listed = self._directory / "requirements.txt"
        listed.write_text("".join(f"{line}\n" for line in self._bundle.lines))
        self._step(f"Installing the requirements of {self._bundle.name}", [*pip, "-r", str(listed)])
        self._finish()

    def _finish(self) -> None:
        find = finder_in(self._directory)
        if missing := unmet(self._bundle.requirements, find):
            raise BundleError(f"pip ended well but did not install {missing[0]}: see {self._log}")
        marker = {
            "schema": 1,
            "bundle": self._bundle.name,
            "hash": self._bundle.hash,
            "python": platform.python_version(),
            "requirements": self._bundle.lines,
            "installed": _installed(self._bundle, find),
            "built_at": time.time(),
        }
        _write_durably(self._directory / MARKER_NAME, json.dumps(marker, indent=2))

    def _step(self, title: str, command: list[str]) -> None:
        self._progress(title)
        with self._log.open("ab") as log, self._log.open("rb") as reader:
            reader.seek(0, os.SEEK_END)
            last_lines = self._follow(command, log, _LineReader(reader))
        if last_lines is not None:
            raise BundleError(
                f"{title} failed: {_complaint(last_lines)} (log: {self._log}). "
                f"Mend the cause, then run `mosaic bundles install {self._bundle.name}` again."
            )

    def _follow(self, command: list[str], log: IO[bytes], output: _LineReader) -> list[str] | None:
        """Run a command to its end, reporting its progress. None is success, else the last lines it wrote."""
        tail: deque[str] = deque(maxlen=20)
        with self._started(command, log) as process:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_POLL_SECONDS)
                for line in output.new_lines():
                    tail.append(line)
                    if line.startswith(_PROGRESS):
                        self._progress(line)
                if process.returncode is not None:
                    return None if process.returncode == 0 else list(tail)
                if self._cancel.is_set():
                    raise BundleCancelled(f"Installing {self._bundle.name} was cancelled; nothing changed.")

    @contextmanager
    def _started(self, command: list[str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _TETHER, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environ,
            start_new_session=True,
            pass_fds=(self._lock,),
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


class _LineReader:
    """Whole lines of a file that another process appends to."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._partial = b""

    def new_lines(self) -> Iterator[str]:
        *lines, self._partial = (self._partial + self._file.read()).split(b"\n")
        yield from filter(None, (line.decode(errors="replace").strip() for line in lines))


def _complaint(lines: Sequence[str]) -> str:
    errors = [line for line in lines if line.startswith("ERROR:")] or list(lines[-1:]) or ["it wrote nothing"]
    return errors[0].removeprefix("ERROR:").strip()


def _is_exact(specifier: Specifier) -> bool:
    return specifier.operator in ("==", "===") and "*" not in specifier.version


def _resolved(file: Path, seen: set[Path]) -> Iterator[Requirement]:
    if file.resolve() in seen:
        return
    seen.add(file.resolve())
    for line in _logical_lines(file):
        include = _INCLUDE.fullmatch(line)
        if include:
            yield from _resolved(file.parent / include[1], seen)
        else:
            yield _requirement(line, file)


def _logical_lines(file: Path) -> Iterator[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"The requirements file {file} cannot be read: {error}") from error
    for line in text.replace("\\\n", " ").splitlines():
        if content := _COMMENT.sub("", line).strip():
            yield content


def _requirement(line: str, file: Path) -> Requirement:
    if line.startswith("-"):
        option = re.split(r"[\s=]", line)[0]
        raise BundleError(f"{file} has the pip option {option}: put options into pip's own configuration")
    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise BundleError(f"{file} has a line that is not a requirement: {line[:80]!r}") from error
    if requirement.url and urlsplit(requirement.url).password:
        raise BundleError(f"{file} has a password in the address of {requirement.name}: keep it in ~/.netrc")
    return requirement


def _unmet(requirement: Requirement, find: Finder, seen: set[tuple[str, str]]) -> Iterator[str]:
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    wanted = f"{requirement.name}{requirement.specifier}"
    found = find(requirement.name)
    if found is None or not found.version:
        yield wanted
    elif not _accepts(requirement, found.version):
        yield f"{wanted} (not {found.version})"
    else:
        for extra in sorted(requirement.extras):
            yield from _unmet_extra(found, extra, find, seen)


def _unmet_extra(found: metadata.Distribution, extra: str, find: Finder, seen: set[tuple[str, str]]) -> Iterator[str]:
    key = (canonicalize_name(found.name), extra)
    if key in seen:
        return
    seen.add(key)
    for needed in map(Requirement, found.requires or ()):
        marker, needed.marker = needed.marker, None
        if marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
            yield from _unmet(needed, find, seen)


def _accepts(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _installed(bundle: Bundle, find: Finder) -> list[str]:
    found = {canonicalize_name(one.name): find(one.name) for one in bundle.applicable}
    return sorted(f"{name}=={one.version}" for name, one in found.items() if one is not None)


def _advice(name: str, missing: Sequence[str], *, outdated: bool) -> str:
    named = ", ".join(missing[:NAMED_IN_ADVICE])
    more = f" and {len(missing) - NAMED_IN_ADVICE} more" if len(missing) > NAMED_IN_ADVICE else ""
    why = "its environment was built from older requirements; " if outdated else ""
    return f"The bundle {name} is not ready: {why}it lacks {named}{more}. Run `mosaic bundles install {name}`."


def _finished(directory: Path) -> Environment | None:
    """The environment in a directory; None unless it was built to its end and its interpreter exists."""
    try:
        marker = json.loads((directory / MARKER_NAME).read_text())
        recorded = str(marker["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Environment(directory, recorded) if os.access(python_of(directory), os.X_OK) else None


def _check_disk(name: str, venvs: Path, needed: int) -> None:
    free = disk_free(venvs)
    if free < needed:
        raise BundleError(
            f"Installing {name} needs {needed / 1e9:.1f} GB free in {venvs}, and {free / 1e9:.1f} GB are: "
            "make room, or move the data root with MOSAIC_HOME."
        )


@contextmanager
def _exclusive(path: Path, name: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_PATIENCE
        while not _locked(descriptor):
            if time.monotonic() > deadline:
                raise BundleError(f"Another process is installing {name} now: wait for it, then try again.")
            time.sleep(_POLL_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _discard(directory: Path, *, ignore_errors: bool = False) -> None:
    # The marker goes first: a removal that is cut short must not leave something that counts as built.
    with suppress(FileNotFoundError):
        (directory / MARKER_NAME).unlink()
    if directory.exists():
        shutil.rmtree(directory, ignore_errors=ignore_errors)


def _point(link: Path, directory: Path) -> None:
    spare = link.with_name(f".{link.name}.link")
    spare.unlink(missing_ok=True)
    spare.symlink_to(directory.name)
    spare.replace(link)


def _write_durably(path: Path, text: str) -> None:
    spare = path.with_name(path.name + ".tmp")
    with spare.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    spare.replace(path)
