"""The files of a run on another host, as they come home: bit by bit while it goes on, and whole before it is closed.

A file that only grew is read from where the last look ended. A checkpoint appears when all of it is there. What is
hidden or no plain file stays where it is. When the run is over every file is compared by its hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from mosaic_host.hosting import LOGS, PIECE_BYTES, RUN, FileState, Hosting
from mosaic_protocol.paths import MosaicPaths

_CHECKPOINTS = "checkpoints"
_ONLY_AT_THE_END = ("outbox",)
"""What the daemon is told by other ways while the run goes on."""
_NEVER = ("claims",)
_ARRIVING = ".arriving"


class RunMirror:
    """One run's files. Belongs to one event loop; one call at a time."""

    def __init__(self, paths: MosaicPaths, run_id: str) -> None:
        self._run_id = run_id
        self._folders = {RUN: paths.run(run_id).directory, LOGS: paths.run_logs(run_id)}
        self._seen: dict[tuple[str, str], FileState] = {}
        """What was brought home, as it was then."""
        self._turn = asyncio.Lock()

    async def follow(self, host: Hosting) -> None:
        """Bring home what is new. Raises OSError when the host or the disk here says no; it may be repeated."""
        async with self._turn:
            await self._bring(await host.files(self._run_id), host, ended=False)

    async def complete(self, host: Hosting) -> None:
        """Bring home all of a run that writes no more, and compare. Raises OSError."""
        async with self._turn:
            for one in await self._bring(await host.files(self._run_id), host, ended=True):
                here = self._place(one)
                if await asyncio.to_thread(_digest, here) != await host.digest(self._run_id, one.area, one.name):
                    await self._fetch(one, host, here, 0)

    async def _bring(self, there: Sequence[FileState], host: Hosting, *, ended: bool) -> list[FileState]:
        """The files that are home now."""
        checkpoints: dict[str, list[FileState]] = defaultdict(list)
        files = [one for one in there if _is_wanted(one, ended=ended)]
        files.sort(key=lambda one: (one.area, one.name), reverse=True)  # rotations of a log before the log
        for one in files:
            self._place(one)
            if (name := _checkpoint_of(one)) is not None:
                checkpoints[name].append(one)
            else:
                await self._update(one, host)
        for name, parts in checkpoints.items():
            await self._bring_checkpoint(name, parts, host)
        if any(_first(one) in _NEVER for one in there):  # else another folder is in the place of the run's
            await asyncio.to_thread(self._remove_checkpoints_but, set(checkpoints))
        return files

    async def _update(self, one: FileState, host: Hosting) -> None:
        before, here = self._seen.get((one.area, one.name)), self._place(one)
        if before == one:
            return
        size = await asyncio.to_thread(_size, here)
        # After a restart nothing is remembered, and what is here is taken for its beginning until the end.
        grew = _is_appended_to(one) and (before is None or before.inode == one.inode)
        start = size if grew and 0 < size <= one.size else 0
        await self._fetch(one, host, here, start)
        self._seen[(one.area, one.name)] = one

    async def _fetch(self, one: FileState, host: Hosting, here: Path, start: int) -> None:
        """From ``start`` on. A file that is read again replaces the one here when it is there."""
        if start:
            await self._read_into(one, host, here, start)
            return
        draft = here.with_name(f".{here.name}{_ARRIVING}")
        if one.area == LOGS:  # those who follow it have it open
            draft = here
        await asyncio.to_thread(_emptied, draft)
        await self._read_into(one, host, draft, 0)
        if draft != here:
            await asyncio.to_thread(os.replace, draft, here)

    async def _read_into(self, one: FileState, host: Hosting, file: Path, offset: int) -> None:
        while piece := await host.read_piece(self._run_id, one.area, one.name, offset, PIECE_BYTES):
            await asyncio.to_thread(_write, file, offset, piece)
            offset += len(piece)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    async def _bring_checkpoint(self, name: str, parts: Sequence[FileState], host: Hosting) -> None:
        """They are never changed once they have their name, so one that is here is whole."""
        final = self._folders[RUN] / _CHECKPOINTS / name
        if await asyncio.to_thread(final.is_dir):
            return
        arriving = final.with_name(f".{name}{_ARRIVING}")
        await asyncio.to_thread(_without, arriving)
        for one in parts:
            below = PurePosixPath(one.name).parts[2:]
            place = arriving.joinpath(*below)
            await asyncio.to_thread(_emptied, place)
            await self._read_into(one, host, place, 0)
        if {(one.name, one.size) for one in await host.files(self._run_id) if _checkpoint_of(one) == name} != {
            (one.name, one.size) for one in parts
        }:
            return  # it is on its way out over there, or was not whole: next time
        await asyncio.to_thread(os.replace, arriving, final)

    def _remove_checkpoints_but(self, there: set[str]) -> None:
        """Those that the worker gave up."""
        for folder in self._folders[RUN].joinpath(_CHECKPOINTS).glob("*"):
            if folder.is_dir() and not folder.name.startswith(".") and folder.name not in there:
                _without(folder)

    def _place(self, one: FileState) -> Path:
        parts = PurePosixPath(one.name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in one.name or one.area not in self._folders:
            raise OSError(f"a host names a file that is none of the run's: {one.name[:200]!r}")
        place = self._folders[one.area].joinpath(*parts)
        for folder in place.relative_to(self._folders[one.area]).parents:
            if (self._folders[one.area] / folder).is_symlink():
                raise OSError(f"{self._folders[one.area] / folder} is a link: nothing is written through it")
        return place


def _first(one: FileState) -> str:
    """The entry of the run's folder that a file is in."""
    return PurePosixPath(one.name).parts[0] if one.area == RUN and one.name else ""


def _is_wanted(one: FileState, *, ended: bool) -> bool:
    return _first(one) not in _NEVER and (ended or _first(one) not in _ONLY_AT_THE_END)


def _is_appended_to(one: FileState) -> bool:
    """Small files may be written again under the same inode, and cost nothing."""
    return one.area == LOGS or "tfevents" in one.name or one.size > PIECE_BYTES


def _checkpoint_of(one: FileState) -> str | None:
    """The checkpoint whose part a file is."""
    parts = PurePosixPath(one.name).parts
    return parts[1] if one.area == RUN and len(parts) > 2 and parts[0] == _CHECKPOINTS else None


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except FileNotFoundError:
        return 0


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _emptied(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def _write(file: Path, offset: int, piece: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, piece, offset)
        os.ftruncate(descriptor, offset + len(piece))
    finally:
        os.close(descriptor)


def _without(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
