"""Which code a run runs and on what, recorded at its start, because later it cannot be found out.

Cheap enough for every start: nothing is executed and no package is opened, only names of folders are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from mosaic_protocol.regular_files import read_regular

_MOST_SCRIPT_BYTES = 16 * 2**20
_MOST_GIT_BYTES = 2**20
_MOST_CPU_BYTES = 16 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIST_INFO = re.compile(r"([A-Za-z0-9_.]+)-([^-]+)\.(?:dist|egg)-info")


def code_record(script: Path) -> dict[str, Any]:
    """A file of code: where it is, the SHA-256 of its content, and the commit its folder stands at. None for what
    cannot be found out."""
    path = script.absolute()
    try:
        digest = hashlib.sha256(read_regular(path.resolve(), _MOST_SCRIPT_BYTES)).hexdigest()
    except OSError:
        digest = None
    return {"path": str(path), "sha256": digest, "commit": commit_of(path.parent)}


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that are plain values, which is what JSON can keep."""
    return {name: value for name, value in settings.items() if isinstance(value, str | int | float) or value is None}


def settings_hash(settings: Mapping[str, Any]) -> str:
    """SHA-256 over a worker's settings in one spelling, without the run's own id: equal for runs that were given the
    same."""
    given = {name: value for name, value in settings.items() if name != "run_id"}
    return hashlib.sha256(json.dumps(given, sort_keys=True, separators=(",", ":"), default=str).encode()).hexdigest()


def commit_of(folder: Path) -> str | None:
    """The commit that a folder's repository stands at, read from its files; None where there is no repository. Whether
    the folder has changes that are not committed is not looked at: the hash of the script shows it."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        try:
            if git.is_file():  # of a work tree beside the repository: it names the folder
                pointed = _line(git).removeprefix("gitdir: ")
                git = (place / pointed).resolve()
            if git.is_dir():
                return _head(git)
        except (OSError, ValueError):
            return None
    return None


def _head(git: Path) -> str | None:
    head = _line(git / "HEAD")
    if not head.startswith("ref: "):
        return head if _COMMIT.fullmatch(head) else None
    name = head.removeprefix("ref: ")
    if ".." in name or name.startswith("/"):
        return None
    shared = git / "commondir"
    common = (git / _line(shared)).resolve() if shared.is_file() else git
    for place in (git, common):
        if (place / name).is_file():
            found = _line(place / name)
            return found if _COMMIT.fullmatch(found) else None
    packed = common / "packed-refs"
    if packed.is_file():
        for line in read_regular(packed, _MOST_GIT_BYTES).decode().splitlines():
            commit, _, ref = line.partition(" ")
            if ref == name and _COMMIT.fullmatch(commit):
                return commit
    return None


def _line(file: Path) -> str:
    return read_regular(file, _MOST_GIT_BYTES).decode().strip()


# ---- the machine -------------------------------------------------------------------------------------------------


def surroundings(python: Path) -> dict[str, Any]:
    """The machine, and the interpreter with all its packages."""
    system = os.uname()
    return {
        "host": socket.gethostname(),
        "system": f"{system.sysname} {system.release} {system.machine}",
        "cpus": os.cpu_count(),
        "cpu_model": cpu_model(),
        "python": _python_version(python),
        "packages": packages_of(python),
    }


@lru_cache(1)
def cpu_model() -> str | None:
    """What the first processor calls itself: the same program adds in another order on another one."""
    try:
        with Path("/proc/cpuinfo").open("rb") as file:
            told = file.read(_MOST_CPU_BYTES).decode(errors="replace")
    except OSError:
        return None
    found = re.search(r"^(?:model name|cpu model|Processor)\s*:\s*(\S.*)$", told, re.MULTILINE)
    return found[1].strip() if found else None


def packages_of(python: Path) -> dict[str, str]:
    """Name and version of every package that an interpreter has of its own, by the names of their folders."""
    found: dict[str, str] = {}
    for folder in _site_packages(python):
        try:
            found = {**_packages_in(folder, folder.stat().st_mtime_ns), **found}
        except OSError:
            continue
    return dict(sorted(found.items()))


@lru_cache(16)
def _packages_in(folder: Path, changed: int) -> dict[str, str]:
    """Read once for each state of the folder, which changes with every package that comes or goes."""
    matches = filter(None, map(_DIST_INFO.fullmatch, os.listdir(folder)))
    return {match[1].lower().replace("_", "-").replace(".", "-"): match[2] for match in matches}


def _site_packages(python: Path) -> Iterable[Path]:
    if python == Path(sys.executable):
        return _own_site_packages()
    return sorted(python.parent.parent.glob("lib/python3*/site-packages"))


@lru_cache(1)
def _own_site_packages() -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")))


def _python_version(python: Path) -> str | None:
    if python == Path(sys.executable):
        return platform.python_version()
    try:
        config = read_regular(python.parent.parent / "pyvenv.cfg", _MOST_GIT_BYTES).decode()
    except (OSError, ValueError):
        return None
    found = re.search(r"^version(?:_info)? *= *([0-9][0-9.]*[0-9])", config, re.MULTILINE)
    return found[1] if found else None
