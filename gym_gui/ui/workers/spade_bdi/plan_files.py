"""Plans as files: those that come with the worker, which nobody changes here, and a person's own. No Qt."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.regular_files import read_regular

SUFFIX = ".asl"
MOST_BYTES = 1024 * 1024


class PlanFileError(Exception):
    """A file of plans cannot be read or written; ``str()`` is one sentence."""


@dataclass(frozen=True)
class PlanFiles:
    """Blocking: use it in a thread. Raises :class:`PlanFileError`."""

    shipped: Path
    """The folder of those that come with the worker."""
    own: Path
    """Where copies are saved."""
    names: tuple[str, ...] = field(default=())
    """Of those that come with the worker."""

    @classmethod
    def of(cls, package: Path, paths: MosaicPaths) -> PlanFiles:
        shipped = package / "plans"
        names = tuple(sorted(file.stem for file in shipped.glob(f"*{SUFFIX}")))
        return cls(shipped, paths.custom / "spade_bdi" / "plans", names)

    def saved(self) -> list[Path]:
        """Copies that were saved, by name."""
        return sorted(file for file in self.own.glob(f"*{SUFFIX}") if not file.name.startswith("."))

    def file_of(self, name: str) -> Path:
        """The file that a setting means: plans that come with the worker by their name, any others by their path."""
        return self.shipped / f"{name}{SUFFIX}" if name in self.names else Path(name).expanduser()

    def is_shipped(self, file: Path) -> bool:
        return file.resolve().is_relative_to(self.shipped.resolve())

    def read(self, file: Path) -> str:
        try:
            return read_regular(file, MOST_BYTES, follow=True).decode()
        except UnicodeDecodeError as error:
            raise PlanFileError(f"{file} is not text in UTF-8: byte {error.start} cannot be read") from None
        except OSError as error:
            raise PlanFileError(f"{file} cannot be read: {error.strerror or error}") from None

    def save(self, file: Path, text: str, before: str) -> Path:
        """Write a person's plans; the file that has them now. Those that come with the worker are copied, and so are
        those that somebody else changed since they were ``before``."""
        target = file
        if self.is_shipped(file) or not self._is_still(file, before):
            target = self._free_name(file.stem)
        try:
            self._write(target, text)
        except OSError as error:
            raise PlanFileError(f"{target} cannot be written: {error.strerror or error}") from None
        return target

    def _is_still(self, file: Path, before: str) -> bool:
        try:
            return self.read(file) == before
        except PlanFileError:
            return not file.exists()

    def _free_name(self, stem: str) -> Path:
        stem = stem.removesuffix("-copy")
        tried = (self.own / f"{stem}-copy{'' if n == 1 else f'-{n}'}{SUFFIX}" for n in range(1, 10_000))
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
