"""Requirement bundles, and the managed environments built from them.

A bundle is ``requirements/<name>.txt``. Where the interpreter of the daemon satisfies it, runs use that
interpreter; else a managed environment ``venvs/<bundle>-<hash>``, named by what it was built from. The
symlink ``venvs/<bundle>`` points to the one in use. An environment counts only with its marker file, which
is written last, so a build that dies at any instant leaves the previous environment as it was.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gym_gui.services.trainer.bundles.build import (
    MARKER_NAME,
    POLL_SECONDS,
    EnvironmentBuild,
    python_of,
)
from gym_gui.services.trainer.bundles.requirements import (
    Bundle,
    BundleError,
    find_here,
    finder_in,
    installed,
    missing_here,
    read_bundle,
)
from mosaic_host.capacity import disk_free
from mosaic_protocol.paths import MosaicPaths, checked_name

if TYPE_CHECKING:  # a host builds its first environment with a Python that has nothing yet
    from mosaic_protocol.worker_manifest import WorkerManifest

PROJECT_REQUIREMENTS = Path(__file__).resolve().parents[4] / "requirements"
"""The bundles that come with MOSAIC; a worker may bring more in its own folder."""
BYTES_NEEDED = 500 * 1024**2
BYTES_NEEDED_WITH_TORCH = 4 * 1024**3
NAMED_IN_ADVICE = 5
CONSTRAINTS = "constraints.txt"
"""Lies beside the bundles and is none: it says which versions to take, not what to install."""

_LOCK_PATIENCE = 3.0  # what a killed build leaves behind is gone by then


Status = Literal["current", "ready", "stale", "missing"]


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


def runs_from(directory: Path) -> bool:
    """Whether a process was started from this environment, as far as /proc tells, through whatever links."""
    wanted = directory.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, RuntimeError):  # it ended, is not ours, or its name leads in a circle
            started_in = _started_in(process)
            if started_in is not None and started_in.is_relative_to(wanted):
                return True
    return False


def _started_in(process: Path) -> Path | None:
    """The folder of the program that a process was started as, without links; None when it was named without one. The
    program itself is not followed: the interpreter of an environment is a link out of it."""
    program = os.fsdecode((process / "cmdline").read_bytes().split(b"\0", 1)[0])
    if "/" not in program:
        return None
    folder = Path(program).parent
    return (folder if folder.is_absolute() else (process / "cwd").readlink() / folder).resolve()


def requirement_dirs(workers: Iterable[WorkerManifest]) -> list[Path]:
    """Where bundles are looked for: the project's folder, then that of each worker's package."""
    return [PROJECT_REQUIREMENTS, *(worker.package_dir / "requirements" for worker in workers)]


def bundle_files(directory: Path) -> list[Path]:
    """The bundles of one folder, by name."""
    return sorted(file for file in directory.glob("*.txt") if file.name != CONSTRAINTS)


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
        return {**record, "python": str(python), "requirements": installed(known, find)}

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
            for file in bundle_files(directory):
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
        missing = missing_here(bundle)
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
            EnvironmentBuild(bundle, directory, pip_cache, log, progress, cancel, lock).run(torch)
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
            time.sleep(POLL_SECONDS)
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
