"""What MOSAIC writes is its owner's alone: folders of mode 0700, files of mode 0600.

Logs, configs and checkpoints hold what a script printed and what a person typed, and a machine has other users. The
daemon and the command line create everything so (:func:`keep_private`; workers inherit it), and a daemon that starts
takes back what an older version left open (:func:`tighten`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mosaic_protocol.paths import MosaicPaths

_OTHERS = 0o077
_inherited: int | None = None


def keep_private() -> None:
    """From here on this process and its children create files that nobody else may read."""
    global _inherited  # noqa: PLW0603 - the mask belongs to the process as well
    before = os.umask(_OTHERS)
    _inherited = before if _inherited is None else _inherited


def as_before() -> None:
    """Undo :func:`keep_private`, for a program that takes this one's place and also writes elsewhere."""
    if _inherited is not None:
        os.umask(_inherited)


def prepare(paths: MosaicPaths) -> None:
    """For a program that keeps its mask: close what is there, and make the folder that it writes to. Never fails."""
    tighten(paths)
    with suppress(OSError):  # the code that writes there reports what is wrong
        paths.training.mkdir(mode=0o700, parents=True, exist_ok=True)


def tighten(paths: MosaicPaths) -> None:
    """Close the folders below a data root, and the files right in them, to others. Never fails.

    What lies deeper is behind a closed folder. The root itself is left alone, as somebody may have named a folder that
    holds more than this; so are links, and whatever belongs to somebody else. So is the clients' token: once others
    could read it, closing its file is not enough, and the daemon makes another one.
    """
    for path in _ours(paths):
        if path != paths.token_file:
            _tighten(path)


def _ours(paths: MosaicPaths) -> Iterator[Path]:
    yield from (paths.root / "cockpit.json", paths.root / "logs" / "cockpit-errors.log")
    folders = (paths.trainer, paths.telemetry_db.parent, paths.training, paths.logs, paths.logs.with_name("cli"))
    for folder in (*folders, paths.configs, paths.runs, paths.imported):
        yield folder
        try:
            with os.scandir(folder) as entries:
                yield from (Path(entry.path) for entry in entries if entry.is_file(follow_symlinks=False))
        except OSError:
            continue  # not there yet, or not a folder


def _tighten(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        found = os.fstat(descriptor)
        alone = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
        if alone and found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except OSError:
        pass  # a file system without modes, or one that may only be read; the daemon will say so
    finally:
        os.close(descriptor)
