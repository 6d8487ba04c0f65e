"""A damaged database is kept aside and reported, never overwritten. A recent copy lies beside each database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TypeVar

from gym_gui.services.trainer.errors import RegistryCorruptError
from gym_gui.services.trainer.storage.group_commit import connect
from gym_gui.services.trainer.storage.run_registry import RunRegistry

T = TypeVar("T")


def opened_or_kept_aside(path: Path, opener: Callable[[Path], T]) -> T:
    """Open a database. A damaged one is moved aside and the error says where to and what can be done now."""
    try:
        return opener(path)
    except RegistryCorruptError as error:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        kept, copy = _move_aside(path, stamp), _kept_copy(path, stamp)
        restore = (
            f"either bring back the copy of {_age(copy)}: cp {quote(str(copy))} {quote(str(path))}; or " if copy else ""
        )
        raise RegistryCorruptError(
            f"{error}. It was kept as {kept}. Now {restore}start the daemon again to begin with an empty one; "
            "the folders of the runs are untouched, and live workers go on."
        ) from error


class RecentCopy:
    """The copy beside a registry."""

    def __init__(self, registry: RunRegistry) -> None:
        self._registry = registry
        self._held: int | None = None
        """How many commits the copy holds; None while none was made."""

    def refresh(self) -> None:
        """Copy what changed, and nothing when nothing did: an idle daemon need not write a large registry over and
        over. Blocks; for a thread."""
        commits = self._registry.commits
        if commits != self._held:
            _back_up(self._registry.path)
            self._held = commits


def _back_up(path: Path) -> None:
    """Replace the copy beside a database, atomically, without disturbing writers."""
    draft = path.with_suffix(".backup-draft")
    draft.unlink(missing_ok=True)
    try:
        with closing(connect(path, read_only=True)) as source, closing(sqlite3.connect(draft)) as target:
            source.backup(target)
        draft.replace(backup_of(path))
    finally:
        draft.unlink(missing_ok=True)  # half a copy would hold space that a full disk has a better use for


def backup_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.backup{path.suffix}")


def _kept_copy(path: Path, stamp: str) -> Path | None:
    """The copy under a name that no later one takes: the next daemon begins an empty registry, and copies that too."""
    copy = backup_of(path)
    if not copy.exists():
        return None
    return copy.rename(path.with_name(f"{path.stem}.backup-{stamp}{path.suffix}"))


def _move_aside(path: Path, stamp: str) -> Path:
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    return kept


def _age(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
