"""A file that HDF5 can write to also when the disk is full.

Where a write fails, HDF5 keeps what it could not write and tries again with every object that is let go; at the end of
the process it crashes. So it is not shown that: what the disk refuses stays in memory, and the writer of the file asks
whether something was refused before it writes more. That bounds the memory by what is written between two such looks.
"""

from __future__ import annotations

import io
from pathlib import Path


class PatientFile(io.RawIOBase):
    """For ``h5py.File``; call :meth:`require_space` often. Belongs to one thread."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = path.open("w+b", buffering=0)
        self._at = self._end = 0
        self._refused: list[tuple[int, bytes]] = []
        self._why: OSError | None = None

    def require_space(self) -> None:
        """Raises OSError when something was refused."""
        if self._why is not None:
            raise OSError(self._why.errno, self._why.strerror, str(self._file.name))

    # ---- as HDF5 calls it ----------------------------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def write(self, data: object) -> int:
        content = bytes(memoryview(data))  # type: ignore[arg-type]
        try:
            if self._why is None:
                self._written(content)
        except OSError as error:
            self._why = error
        if self._why is not None:
            self._refused.append((self._at, content))
        self._at += len(content)
        self._end = max(self._end, self._at)
        return len(content)

    def _written(self, content: bytes) -> None:
        self._file.seek(self._at)
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        self._file.seek(self._at)
        found = self._file.read(len(view)) or b""
        view[:] = found.ljust(len(view), b"\0")
        for start, content in self._refused:
            first, behind = max(start, self._at), min(start + len(content), self._at + len(view))
            if first < behind:
                view[first - self._at : behind - self._at] = content[first - start : behind - start]
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._end = self._at if size is None else size
        if self._why is None:
            try:
                self._file.truncate(self._end)
            except OSError as error:
                self._why = error
        return self._end

    def close(self) -> None:
        self._file.close()
        super().close()
