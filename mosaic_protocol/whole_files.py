"""Files that appear whole or not at all: written as a draft beside their place, then renamed to it.

A reader sees the old content or the new, also when the writer dies or the disk fills up in between. A power cut may
still lose the new content: nothing is synced unless :func:`sync` is called, because few files are worth the wait.
"""

from __future__ import annotations

import glob
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DRAFT = ".draft"


def draft_of(path: Path) -> Path:
    """The draft's name: hidden, and this thread's own, so that writers at the same time do not mix their content."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}{_DRAFT}")


def remove_left_drafts(path: Path) -> None:
    """Remove the drafts, files or folders, of processes that were killed while they wrote what belongs at ``path``."""
    _remove_left(path.parent, f".{glob.escape(path.name)}.*{_DRAFT}")


def remove_all_left_drafts(folder: Path) -> None:
    """The same for whatever belongs into a folder."""
    _remove_left(folder, f".*{_DRAFT}")


def _remove_left(folder: Path, pattern: str) -> None:
    for draft in folder.glob(pattern):
        pid = draft.name.removesuffix(_DRAFT).rpartition(".")[2].partition("-")[0]
        if not pid.isdigit() or Path("/proc", pid).exists():
            continue
        with suppress(OSError):
            shutil.rmtree(draft) if draft.is_dir() and not draft.is_symlink() else draft.unlink()


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """The name of a draft that does not exist yet; at the end it takes its place, after an error it is removed.

    Removes what killed writers of ``path`` left: they may be as large as the file. Raises OSError, and the place is as
    it was.
    """
    remove_left_drafts(path)
    with _one_draft(path) as draft:
        yield draft


@contextmanager
def _one_draft(path: Path) -> Iterator[Path]:
    draft = draft_of(path)
    draft.unlink(missing_ok=True)  # anything may be there, even a pipe that waits for a reader
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed; the first error says why
            draft.unlink(missing_ok=True)


@contextmanager
def drafted_folder(path: Path) -> Iterator[Path]:
    """A draft to fill; :func:`settle` gives it its place, and at the end nothing else is left of it. Removes what
    killed writers of ``path`` left. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_left_drafts(path)
    draft = draft_of(path)
    draft.mkdir()
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def settle(draft: Path, folder: Path) -> None:
    """Write a filled draft through to the disk and give it its place in one step. Raises OSError, also where the place
    is taken."""
    for path in (*(path for path in draft.rglob("*") if path.is_file()), draft):
        sync(path)
    draft.rename(folder)
    sync(folder.parent)


def sync(path: Path) -> None:
    """Write a file or a folder through to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Replace a file's content. ``mode``: its permissions, less the umask. Raises OSError."""
    with _one_draft(path) as draft:  # small, and written often into large folders: drafts are not looked for
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
