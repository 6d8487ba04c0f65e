"""Files that a worker reads: those that come with it, which nobody changes here, and a person's own. No Qt."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from mosaic_protocol.regular_files import read_regular

MOST_BYTES = 1024 * 1024


class OwnFileError(Exception):
    """A file cannot be read or written; ``str()`` is one sentence."""


@dataclass(frozen=True)
class OwnFiles:
    """Blocking: use it in a thread. Raises :class:`OwnFileError`."""

    shipped: Path
    """The folder of those that come with the worker."""
    own: Path
    """Where copies are saved."""
    suffix: str
    """Of all of them, such as ``.asl``."""
    names: tuple[str, ...] = field(default=())
    """Of those that come with the worker."""

    @classmethod
    def of(cls, shipped: Path, own: Path, suffix: str) -> OwnFiles:
        return cls(shipped, own, suffix, tuple(sorted(file.stem for file in shipped.glob(f"*{suffix}"))))

    def saved(self) -> list[Path]:
        """Copies that were saved, by name."""
        return sorted(file for file in self.own.glob(f"*{self.suffix}") if not file.name.startswith("."))

    def file_of(self, name: str) -> Path:
        """The file that a setting means: one that comes with the worker by its name, any other by its path."""
        return self.shipped / f"{name}{self.suffix}" if name in self.names else Path(name).expanduser()

    def is_shipped(self, file: Path) -> bool:
        return file.resolve().is_relative_to(self.shipped.resolve())

    def read(self, file: Path) -> str:
        try:
            return read_regular(file, MOST_BYTES, follow=True).decode()
        except UnicodeDecodeError as error:
            raise OwnFileError(f"{file} is not text in UTF-8: byte {error.start} cannot be read") from None
        except OSError as error:
            raise OwnFileError(f"{file} cannot be read: {error.strerror or error}") from None

    def save(self, file: Path, text: str, before: str) -> Path:
        """Write a person's file; the one that has the text now. Those that come with the worker are copied, and so are
        those that somebody else changed since they were ``before``."""
        target = file
        if self.is_shipped(file) or not self._is_still(file, before):
            target = self._free_name(file.stem)
        try:
            self._write(target, text)
        except OSError as error:
            raise OwnFileError(f"{target} cannot be written: {error.strerror or error}") from None
        return target

    def _is_still(self, file: Path, before: str) -> bool:
        try:
            return self.read(file) == before
        except OwnFileError:
            return not file.exists()

    def _free_name(self, stem: str) -> Path:
        stem = stem.removesuffix("-copy")
        tried = (self.own / f"{stem}-copy{'' if n == 1 else f'-{n}'}{self.suffix}" for n in range(1, 10_000))
        return next(one for one in tried if not one.exists())

    def _write(self, file: Path, text: str) -> None:
        """Whole or not at all: a run may read it at any moment. A link leads to the file that is written."""
        file = file.resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".saving-", suffix=".tmp", dir=file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                if file.exists():
                    os.fchmod(handle, file.stat().st_mode & 0o777)
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
