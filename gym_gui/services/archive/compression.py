"""Compressed files written and read in pieces. Which kind one is says its suffix when it is written, and its first
bytes when it is read. Nothing is held in memory but the pieces, whatever a file claims to hold."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import zstandard

from mosaic_protocol.run_archive import ArchiveError

SUFFIXES = (".tar.zst", ".tar.gz", ".tar")
_ZSTD_MAGIC, _GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_PIECE = 256 * 1024
_ZSTD_PIECE = 2048
"""So many bytes are unpacked at once: four may stand for 128 KiB, so 64 MiB is the most that comes of them."""
_LARGEST_WINDOW = 128 * 2**20
_ZSTD_LEVEL, _GZIP_LEVEL = 3, 6
_GZIP_BITS = 31


class Writer(Protocol):
    def write(self, data: bytes) -> object: ...

    def close(self) -> None:
        """Write what is left. The file below stays open."""


class _Zlib:
    def __init__(self, file: BinaryIO) -> None:
        self._file, self._packer = file, zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_BITS)

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())


class _Zstd:
    def __init__(self, file: BinaryIO) -> None:
        parameters = zstandard.ZstdCompressionParameters.from_level(_ZSTD_LEVEL, write_checksum=True)
        self._packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())


class _Plain:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def close(self) -> None:
        pass


def suffix_of(name: str) -> str:
    """The suffix that says how to pack; "" where there is none."""
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")


def packing(file: BinaryIO, suffix: str) -> Writer:
    kinds: dict[str, type[_Zstd | _Zlib | _Plain]] = {".tar.zst": _Zstd, ".tar.gz": _Zlib, ".tar": _Plain}
    return kinds[suffix](file)


def unpacked(file: BinaryIO) -> Iterator[bytes]:
    """The content of a file in pieces. Raises OSError, and :class:`ArchiveError` for damage and for what follows the
    end; a file that ends too early is one."""
    start = file.read(_TAR_MAGIC_AT + len(_TAR_MAGIC))
    file.seek(0)
    if start.startswith(_ZSTD_MAGIC):
        return _from_zstd(file)
    if start.startswith(_GZIP_MAGIC):
        return _from_gzip(file)
    if start and start[_TAR_MAGIC_AT:] != _TAR_MAGIC:
        raise ArchiveError("it is no archive of runs: it is no tar, and not one packed with zstd or gzip")
    return iter(lambda: file.read(_PIECE), b"")


def _from_zstd(file: BinaryIO) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW).decompressobj()
    while piece := file.read(_ZSTD_PIECE):
        if unpacker.eof:
            raise ArchiveError("something follows its end")
        try:
            yield unpacker.decompress(piece)
        except zstandard.ZstdError as error:
            raise ArchiveError(f"it is damaged ({error})") from error
    if unpacker.unused_data:
        raise ArchiveError("something follows its end")
    if not unpacker.eof:
        raise ArchiveError("it ends too early: a part of it is missing. Copy it again")


def _from_gzip(file: BinaryIO) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=_GZIP_BITS)
    while piece := file.read(_PIECE):
        if unpacker.eof:
            raise ArchiveError("something follows its end")
        while piece:
            try:
                yield unpacker.decompress(piece, _PIECE)
            except zlib.error as error:
                raise ArchiveError(f"it is damaged ({error})") from error
            piece = unpacker.unconsumed_tail
    if unpacker.unused_data:
        raise ArchiveError("something follows its end")
    if not unpacker.eof:
        raise ArchiveError("it ends too early: a part of it is missing. Copy it again")
