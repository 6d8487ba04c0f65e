"""Where arenas are: a folder for each, with ``arena.json`` and a folder for each entry.

The episodes are recordings, part after part: who plays makes a new part for what is missing, and nothing that is in one
is ever written again. So a process that is killed loses the episode it was in, and the next one goes on behind it. One
process plays at a time: the lock is held by it and by the programs that it started, so that it is free only when the
last of them is gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gym_gui.services.arena.errors import ArenaBusyError, ArenaError
from gym_gui.services.arena.model import Arena, Entry, from_json, to_json
from mosaic_protocol.paths import MosaicPaths, checked_name
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.whole_files import write_whole

_FILE = "arena.json"
_MOST_BYTES = 16 * 2**20
_LONGEST = 48


class ArenaStore:
    """The arenas below one data root. Holds nothing open between calls."""

    def __init__(self, paths: MosaicPaths) -> None:
        self.paths = paths

    def names(self) -> list[str]:
        """The newest first."""
        return [arena.name for arena in self.all()]

    def all(self) -> list[Arena]:
        """Those that can be read, the newest first."""
        found = []
        for file in self.paths.arenas.glob(f"*/{_FILE}"):
            try:
                found.append(self._read(file))
            except ArenaError:
                continue
        return sorted(found, key=lambda one: one.created, reverse=True)

    def load(self, name: str) -> Arena:
        """Raises ArenaError."""
        try:
            file = self.paths.arena(name) / _FILE
        except ValueError as error:
            raise ArenaError(str(error)) from error
        if not file.is_file():
            known = self.names()
            hint = did_you_mean(name, known) if known else ""
            raise ArenaError(f"there is no arena {name[:60]!r}{hint}: `mosaic arena list` lists those there are")
        return self._read(file)

    def exists(self, name: str) -> bool:
        return (self.paths.arena(name) / _FILE).is_file()

    def save(self, arena: Arena) -> None:
        """Raises ArenaError where it cannot be written."""
        folder = self.paths.arena(arena.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / _FILE, json.dumps(to_json(arena), indent=1) + "\n")
        except OSError as error:
            raise ArenaError(f"the arena cannot be kept in {folder}: {error.strerror or error}") from error

    def folder(self, arena: Arena, entry: Entry) -> Path:
        return self.paths.arena(arena.name) / "entries" / checked_name(entry.key)

    def set_problem(self, name: str, key: str, problem: str) -> None:
        """With the lock held."""
        arena = self.load(name)
        entries = tuple(replace(one, problem=problem) if one.key == key else one for one in arena.entries)
        if entries != arena.entries:
            self.save(replace(arena, entries=entries))

    def remove(self, name: str, wanted: str) -> Entry:
        """Take an entry out, by its key or label, with what it played. Raises ArenaError where there is none."""
        self.load(name)
        with self.playing(name):
            arena = self.load(name)
            found = next((one for one in arena.entries if wanted in (one.key, one.label)), None)
            if found is None:
                hint = did_you_mean(wanted, [one.label for one in arena.entries])
                raise ArenaError(f"the arena {name} has no entry {wanted[:60]!r}{hint}")
            self.save(replace(arena, entries=tuple(one for one in arena.entries if one is not found)))
            shutil.rmtree(self.folder(arena, found), ignore_errors=True)
        return found

    @contextmanager
    def playing(self, name: str, patience: float = 10.0) -> Iterator[int]:
        """The lock of an arena, as a descriptor that programs can hold as well. Raises ArenaBusyError."""
        folder = self.paths.arena(name)
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _locked(descriptor, name, time.monotonic() + patience)
            yield descriptor
        finally:
            os.close(descriptor)

    def is_playing(self, name: str) -> bool:
        try:
            with self.playing(name, patience=0.0):
                return False
        except ArenaBusyError:
            return True

    def _read(self, file: Path) -> Arena:
        try:
            return from_json(json.loads(read_regular(file, _MOST_BYTES)))
        except OSError as error:
            raise ArenaError(f"{file} cannot be read: {error.strerror or error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ArenaError(f"{file} does not describe an arena: {error}") from error


def default_name(env_id: str, seeds: tuple[int, ...], env_kwargs: object) -> str:
    """The same for the same game and seeds, so that the same command goes on with the same arena."""
    spans = f"{seeds[0]}-{seeds[-1]}" if seeds == tuple(range(seeds[0], seeds[-1] + 1)) else f"{len(seeds)}-seeds"
    stem = re.sub(r"[^a-z0-9_.-]+", "-", env_id.lower()).strip("-.")[:_LONGEST]
    return f"{stem}.{spans}" + (".own" if env_kwargs else "")


def slug(label: str, taken: set[str]) -> str:
    """A folder's name for a label, with a number where it is taken."""
    stem = re.sub(r"[^a-z0-9_-]+", "-", label.lower()).strip("-_")[:_LONGEST] or "entry"
    return next(name for name in (stem, *(f"{stem}-{number}" for number in range(2, 10_000))) if name not in taken)


def _locked(descriptor: int, name: str, deadline: float) -> None:
    """A process that was killed a moment ago still has programs that finish their step: they are waited for."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() >= deadline:
                raise ArenaBusyError(f"another process plays in the arena {name}: wait for it, or end it") from None
            time.sleep(0.05)
