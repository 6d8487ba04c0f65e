"""A folder for as long as something is done. A process that is killed leaves its folder; the next one removes it.

Each is locked while it is in use, so that one without a lock belongs to nobody. A process id in its name would not tell
that to a process in another container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def passing_folder(kind: str) -> Iterator[Path]:
    """An empty folder that only its owner can enter; ``kind`` is a word in its name. Raises OSError."""
    prefix = f"mosaic-{kind}-{os.getuid()}-"
    _remove_left(Path(tempfile.gettempdir()), prefix)
    folder, lock = _new(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new(prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        try:
            lock = _opened(folder)
        except FileNotFoundError:
            continue  # another process took it for a left one before it was locked
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), folder.lstat()):
                return folder, lock
        os.close(lock)


def _remove_left(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):
            lock = _opened(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while somebody uses it
                if os.fstat(lock).st_uid == os.getuid():
                    shutil.rmtree(folder)
            finally:
                os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
