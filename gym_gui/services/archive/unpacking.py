"""An archive unpacked into a folder of its own, every file compared with the manifest. Whoever wrote it may mean harm:
it is refused whole for the first thing that is not as it should be, and the folder is the caller's to remove."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gym_gui.services.archive import compression
from gym_gui.services.archive.limits import MOST_MANIFEST_BYTES, is_bomb
from gym_gui.services.archive.tar import Member, TarReader
from mosaic_protocol import run_archive
from mosaic_protocol.regular_files import open_regular
from mosaic_protocol.run_archive import ArchivedFile, ArchiveError, Manifest, read_manifest

_SPARE_BYTES = 256 * 2**20
"""Left free on the disk for runs that are going on."""


class OpenArchive:
    """An archive whose manifest was read."""

    def __init__(self, manifest: Manifest, reader: TarReader) -> None:
        self.manifest, self._reader = manifest, reader

    def unpack(self, folder: Path, progress: Callable[[int, int], None]) -> None:
        """Write every file below an empty folder. Raises :class:`ArchiveError` and OSError."""
        if self.manifest.total + _SPARE_BYTES > shutil.disk_usage(folder).free:
            raise ArchiveError(f"its {self.manifest.total / 2**20:,.0f} MiB do not fit on the disk of {folder.parent}")
        for member, expected in self._members(progress):
            self._write(folder, member, expected)

    def check(self, progress: Callable[[int, int], None]) -> None:
        """Read every byte and compare it with the manifest; nothing is written. Raises :class:`ArchiveError`."""
        for member, expected in self._members(progress):
            digest = hashlib.sha256()
            for piece in self._reader.content():
                digest.update(piece)
            _require_hash(member, digest.hexdigest(), expected)

    def _members(self, progress: Callable[[int, int], None]) -> Iterator[tuple[Member, ArchivedFile]]:
        """Every file with what the manifest says of it, to be read before the next."""
        missing = {file.path: file for file in self.manifest.files}
        done = 0
        while (member := self._reader.next_member()) is not None:
            yield member, _listed(member, missing, self.manifest)
            done += member.size
            progress(done, self.manifest.total)
        if missing:
            raise ArchiveError(f"{next(iter(missing))!r} is missing in it")

    def _write(self, folder: Path, member: Member, expected: ArchivedFile) -> None:
        place = folder / member.path
        digest = hashlib.sha256()
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (FileExistsError, NotADirectoryError) as error:
            raise ArchiveError(f"{member.path[:120]!r} in it is a file and a folder") from error
        with os.fdopen(descriptor, "wb") as file:
            for piece in self._reader.content():
                digest.update(piece)
                file.write(piece)
        _require_hash(member, digest.hexdigest(), expected)
        os.utime(place, (member.mtime, member.mtime))


def _require_hash(member: Member, found: str, expected: ArchivedFile) -> None:
    if found != expected.sha256:
        raise ArchiveError(f"{member.path[:120]!r} in it is damaged: its hash is not that of the manifest")


def _listed(member: Member, missing: dict[str, ArchivedFile], manifest: Manifest) -> ArchivedFile:
    """What the manifest says of a file, once."""
    expected = missing.pop(member.path, None)
    if expected is None:
        known = any(file.path == member.path for file in manifest.files)
        raise ArchiveError(f"{member.path[:120]!r} is {'twice in it' if known else 'in it, but not in its manifest'}")
    if member.size != expected.size:
        raise ArchiveError(f"{member.path[:120]!r} in it has another size than the manifest says")
    return expected


@contextmanager
def opened(file: Path) -> Iterator[OpenArchive]:
    """Open an archive and read its manifest. Raises OSError and :class:`ArchiveError`."""
    with open_regular(file, follow=True) as stream:
        size = os.fstat(stream.fileno()).st_size
        if not size:
            raise ArchiveError("it is empty")
        reader = TarReader(compression.unpacked(stream))
        first = reader.next_member()
        if first is None or first.path != run_archive.MANIFEST:
            raise ArchiveError(f"it is no archive of runs: its first file is not {run_archive.MANIFEST}")
        if first.size > MOST_MANIFEST_BYTES:
            raise ArchiveError("its manifest is larger than that of any archive")
        manifest = read_manifest(b"".join(reader.content()))
        if is_bomb(manifest.total, size):
            raise ArchiveError(f"{size:,} bytes that become {manifest.total:,} are a bomb, not runs")
        yield OpenArchive(manifest, reader)
