"""Whether the data of a dataset is what its manifest describes.

Hashing takes most of a second for a gigabyte, so a listing does not do it. What a check found is kept in a small file
beside the data, with the identity of the file that was checked: as long as size, times and inode are the same, the
answer holds. A launch hashes all the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from mosaic_protocol.datasets.manifest import DATA, DatasetManifest
from mosaic_protocol.regular_files import open_regular, read_regular, regular_size
from mosaic_protocol.whole_files import write_whole

CHECKED = ".checked.json"
_BLOCK = 2**20
_MOST_CHECKED_BYTES = 4096


class Integrity(StrEnum):
    """What is known about the bytes of a dataset."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    """Nobody has hashed it since it was written or changed."""
    CORRUPT = "corrupt"
    ABSENT = "absent"


def known_integrity(folder: Path, manifest: DatasetManifest) -> Integrity:
    """What can be said without reading the data."""
    try:
        size = regular_size(folder / DATA)
    except FileNotFoundError:
        return Integrity.ABSENT
    except OSError:
        return Integrity.CORRUPT
    if size != manifest.bytes:
        return Integrity.CORRUPT
    try:
        told = json.loads(read_regular(folder / CHECKED, _MOST_CHECKED_BYTES))
        if told["file"] == _identity(folder / DATA):
            return Integrity.VERIFIED if told["sha256"] == manifest.sha256 else Integrity.CORRUPT
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return Integrity.UNVERIFIED


def verify(
    folder: Path, manifest: DatasetManifest, progress: Callable[[int], None] = lambda read: None
) -> tuple[Integrity, str]:
    """Hash the data; the finding and, unless it is verified, the reason in words. ``progress`` is told bytes read."""
    file = folder / DATA
    try:
        before = _identity(file)
        found = file_sha256(file, progress)
        whole = before == _identity(file)
    except FileNotFoundError:
        return Integrity.ABSENT, f"{DATA} is not there"
    except OSError as error:
        return Integrity.CORRUPT, f"{DATA} cannot be read: {error.strerror}"
    if whole:
        note_checked(folder, found)
    if found == manifest.sha256:
        return Integrity.VERIFIED, ""
    return Integrity.CORRUPT, f"{DATA} was changed since it was written"


def note_checked(folder: Path, sha256: str) -> None:
    """Keep what the data hashes to. Where the folder cannot be written, nothing is kept."""
    with suppress(OSError):
        write_whole(folder / CHECKED, json.dumps({"sha256": sha256, "file": _identity(folder / DATA)}))


def file_sha256(file: Path, progress: Callable[[int], None] = lambda read: None) -> str:
    """Raises OSError, also for what is no regular file."""
    digest, read = hashlib.sha256(), 0
    with open_regular(file) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            read += len(block)
            progress(read)
    return digest.hexdigest()


def _identity(file: Path) -> list[int]:
    found = file.lstat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]
