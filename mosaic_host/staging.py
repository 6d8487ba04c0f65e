"""Files that several runs begin from, kept once by what is in them: datasets, checkpoints, scripts.

A run has a hard link, so what it began from stays as long as the run does, whatever becomes of the store.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from mosaic_host.hosting import PIECE_BYTES
from mosaic_protocol.regular_files import open_regular

_HASH = re.compile(r"[0-9a-f]{64}")
_KEPT_SECONDS = 14 * 24 * 3600.0
"""How long a file stays that no run begins from."""


class Staging:
    """Safe to use from several threads: every step is one rename or one link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arriving(self, run_id: str, sha256: str) -> Path:
        """Where a file is written that one run brings; another run may bring the same one at the same time."""
        if not _HASH.fullmatch(sha256):
            raise OSError(errno.EINVAL, "that is no SHA-256", sha256[:80])
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{sha256}.{run_id}"

    def give(self, place: Path, run_id: str, sha256: str) -> bool:
        """Link the file to where a run looks for it, if it is here whole."""
        kept, came = self.arriving(run_id, sha256).with_suffix(""), self.arriving(run_id, sha256)
        if not kept.is_file():
            if not came.is_file():
                return False
            if digest_of(came) != sha256:
                came.unlink()
                return False
            came.chmod(0o400)  # those who share it do not write into it
            came.replace(kept)
        came.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        os.utime(kept)
        os.link(kept, place)
        return True

    def prune(self) -> None:
        """Remove what no run begins from and nobody asked for lately."""
        oldest = time.time() - _KEPT_SECONDS
        for file in self._folder.iterdir() if self._folder.is_dir() else ():
            with suppress(OSError):
                found = file.stat()
                if found.st_nlink == 1 and found.st_mtime < oldest:
                    file.unlink()


def digest_of(file: Path) -> str:
    """The SHA-256 of a regular file."""
    seen = hashlib.sha256()
    with open_regular(file) as stream:
        while piece := stream.read(PIECE_BYTES):
            seen.update(piece)
    return seen.hexdigest()
