"""Which packages a worker's process can import, and where they are: the one place that knows.

A worker's process finds three things besides what is installed in its environment: its own package, wherever its
manifest lies; and the packages of MOSAIC that workers may use (:data:`SHARED`). Nobody else lists them: not the
dispatcher, not the tools that ask a worker something, not the fork servers that watch for changed code.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest

SHARED = ("mosaic_protocol", "mosaic_worker")
"""What workers may import of MOSAIC: what both sides agree on, and the kit."""
PACKAGE_VARIABLE = "MOSAIC_WORKER_PACKAGE"
"""The folder of the worker's package, for programs of the kit that work for any worker."""

_ROOT = Path(__file__).resolve().parents[1]


def shared_folders() -> dict[str, Path]:
    """Each shared package, and the folder that holds it."""
    return dict.fromkeys(SHARED, _ROOT)


def worker_environment(manifest: WorkerManifest, environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment of a process of a worker: what is inherited, without the daemon's own settings, and with the
    worker's package and the shared ones on the module search path."""
    inherited = {name: value for name, value in environ.items() if not name.startswith("MOSAIC_TRAINER_")}
    folders = [manifest.python_path, *shared_folders().values()]
    search = [*map(str, folders), inherited.get("PYTHONPATH", "")]
    return {
        **inherited,
        "MOSAIC_HOME": str(home),
        PACKAGE_VARIABLE: str(manifest.package_dir),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, search))),
    }


def sources(package: str, search_path: str) -> Iterator[Path]:
    """The files of the worker's package, found on its module search path, and of the shared packages; tests left out.
    A process that imported them is stale when one changes."""
    folders = [Path(entry) / package for entry in search_path.split(os.pathsep) if entry]
    folders += [folder / name for name, folder in shared_folders().items()]
    for folder in folders:
        if folder.is_dir():
            yield from (file for file in folder.rglob("*.py") if "tests" not in file.relative_to(folder).parts)


def fingerprint(package: str, search_path: str, python: Path) -> str:
    """Changes when code that a process of the worker imported has changed on disk: the files of :func:`sources`, or the
    folder of an interpreter's packages, whose time changes when something is installed."""
    seen = hashlib.sha256()
    try:
        watched = [*sources(package, search_path), *python.parent.parent.glob("lib/python3*/site-packages")]
        for entry in sorted(watched):
            state = entry.stat()
            seen.update(f"{entry}:{state.st_mtime_ns}:{state.st_size}\n".encode())
    except OSError:  # it is changing right now
        return f"unknown at {time.monotonic_ns()}"
    return seen.hexdigest()
