"""A tar of regular files, and nothing else. Written so that any tar program reads it; read by the rules of this module,
because the general reader of Python's library believes sizes and has links, devices and holes to be careful about."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from mosaic_protocol.run_archive import ArchiveError

BLOCK = 512
END = b"\0" * (2 * BLOCK)
_RECORD = 10240
_MOST_HEADER_BYTES = 64 * 1024
_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder",
    b"6": "a named pipe",
    b"S": "a file with holes",
    b"L": "a name in another tar's way",
    b"K": "a link in another tar's way",
    b"g": "a header for all files",
}


def header(path: str, size: int, mtime: float) -> bytes:
    """What stands before the bytes of a file."""
    info = tarfile.TarInfo(path)
    info.size, info.mtime, info.mode = size, int(mtime), 0o600
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def padding(size: int) -> bytes:
    """What stands behind them."""
    return b"\0" * (-size % BLOCK)


@dataclass(frozen=True)
class Member:
    path: str
    size: int
    mtime: int


class TarReader:
    """Reads members in their order from pieces of a tar. Each is read to its end before the next."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._waiting = memoryview(b"")  # sliced at every read, which must not copy it
        self._left = self._pad = 0

    def next_member(self) -> Member | None:
        """None at the end, behind which there is nothing. Raises :class:`ArchiveError` for everything that is no
        regular file."""
        assert not self._left, "the member before was not read"
        self._exactly(self._pad)
        self._pad = 0
        block = self._exactly(BLOCK)
        if block == END[:BLOCK]:
            self._require_end()
            return None
        path, size = _name(block), _number(block[124:136])
        _require_checksum(block)
        if block[156:157] == b"x":
            given = self._extended(size)
            block = self._exactly(BLOCK)
            _require_checksum(block)
            path = given.get("path") or _name(block)
            size = int(given["size"]) if "size" in given else _number(block[124:136])
        kind = block[156:157]
        if kind not in (b"0", b"\0"):
            found = _KINDS.get(kind, "something else than a file")
            raise ArchiveError(f"{path[:120]!r} in it is {found}, and an archive of runs has regular files only")
        self._left, self._pad = size, -size % BLOCK
        return Member(path, size, _number(block[136:148]))

    def content(self) -> Iterator[memoryview]:
        """The bytes of the member, in pieces."""
        while self._left:
            piece = self._some(self._left)
            self._left -= len(piece)
            yield piece

    def _extended(self, size: int) -> dict[str, str]:
        """A long name or a large size, as the standard has them. Other keys (holes among them) are refused."""
        if size > _MOST_HEADER_BYTES:
            raise ArchiveError("a header in it is larger than any name needs")
        text = self._exactly(size)
        self._exactly(-size % BLOCK)
        found: dict[str, str] = {}
        while text:
            length, _, _ = text.partition(b" ")
            if not length.isdigit() or len(length) > 6 or not 0 < int(length) <= len(text):
                raise ArchiveError("a header in it is damaged")
            key, _, value = text[len(length) + 1 : int(length) - 1].partition(b"=")
            if key not in (b"path", b"size") or (key == b"size" and not (value.isdigit() and len(value) < 19)):
                raise ArchiveError(f"a header in it has {key[:40]!r}, which an archive of runs has not")
            found[key.decode()] = _text(value)
            text = text[int(length) :]
        return found

    def _require_end(self) -> None:
        """Tars end with zeros. What follows those is not for us, and so nobody should send it."""
        if self._exactly(BLOCK) != END[:BLOCK]:
            raise ArchiveError("it is damaged: it has no proper end")
        zeros = len(self._waiting)
        while True:
            if bytes(self._waiting).strip(b"\0"):
                raise ArchiveError("something follows its end")
            piece = next(self._pieces, None)
            if piece is None:
                return
            self._waiting = memoryview(piece)
            zeros += len(piece)
            if zeros > 2 * _RECORD:
                raise ArchiveError("something follows its end")

    def _exactly(self, size: int) -> bytes:
        found = []
        while size:
            piece = self._some(size)
            size -= len(piece)
            found.append(piece)
        return b"".join(found)

    def _some(self, most: int) -> memoryview:
        while not self._waiting:
            piece = next(self._pieces, None)
            if piece is None:
                raise ArchiveError("it ends too early: a part of it is missing. Copy it again")
            self._waiting = memoryview(piece)
        found, self._waiting = self._waiting[:most], self._waiting[most:]
        return found


def _name(block: bytes) -> str:
    name, prefix = _field(block[:100]), _field(block[345:500]) if block[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _field(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise ArchiveError(f"a name in it is not text: {name[:60]!r}") from None


def _number(field: bytes) -> int:
    digits = _field(field).strip()
    if digits.strip(b"01234567") or not digits:
        raise ArchiveError("it is no archive of runs, or damaged: a size in it is not a number")
    return int(digits, 8)


def _require_checksum(block: bytes) -> None:
    if _number(block[148:156]) != sum(block[:148]) + 8 * 0x20 + sum(block[156:]):
        raise ArchiveError("it is no archive of runs, or damaged: a header in it does not add up")
