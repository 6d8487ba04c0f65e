"""Pictures from strangers, looked at before anybody decodes them: PNG and JPEG, and GIF for what is only saved.

A decoder allocates what a header claims, so the header is read here, and the claim refused where it is absurd. A PNG is
also unpacked once, never further than its size says, and freed of everything that is not its pixels: texts and colour
profiles are packed as well, and a decoder would unpack them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MOST_BYTES = 16 << 20
MOST_PIXELS = 3840 * 2160
_MOST_SCANS = 64
"""A JPEG may be sent in many passes; each costs as much as a picture."""
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_PARTS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PASSES = 7
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN, _END = 0xDA, 0xD9
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


class PictureError(Exception):
    """A picture is not shown; the message is a sentence."""


@dataclass(frozen=True)
class Picture:
    """``data`` is safe to be decoded as ``kind`` ("png", "jpeg") and nothing else."""

    kind: str
    width: int
    height: int
    data: bytes


def picture_of(data: bytes) -> Picture:
    """Raises :class:`PictureError`. May take a second for a large one: not for a thread that must not wait."""
    if len(data) > MOST_BYTES:
        raise PictureError(f"The picture has {len(data):,} bytes, and at most {MOST_BYTES >> 20} MiB are read of one.")
    try:
        if data.startswith(_PNG):
            return _png(data)
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        if data[:6] in (b"GIF87a", b"GIF89a"):
            width, height = struct.unpack_from("<HH", data, 6)
            _require_size(width, height)
            return Picture("gif", width, height, data)
    except struct.error:
        raise PictureError("The picture is cut off.") from None
    raise PictureError("The picture is neither PNG nor JPEG.")


def _require_size(width: int, height: int) -> None:
    if not width or not height:
        raise PictureError(f"The picture says that it has {width:,} x {height:,} pixels.")
    if width * height > MOST_PIXELS:
        raise PictureError(
            f"The picture claims {width:,} x {height:,} pixels, and at most {MOST_PIXELS:,} are shown of one."
        )


# ---- PNG ---------------------------------------------------------------------------------------------------------


def _png(data: bytes) -> Picture:
    parts = list(_png_parts(data))
    if not parts or parts[0][0] != b"IHDR" or len(parts[0][1]) != 13:
        raise PictureError("The picture is no PNG: its header is missing.")
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    _require_size(width, height)
    if depth not in (1, 2, 4, 8, 16) or colours not in _CHANNELS:
        raise PictureError("The picture is no PNG: it names colours that there are none of.")
    row = (width * _CHANNELS[colours] * depth + 7) // 8 + 1
    _require_pixels(b"".join(content for name, content in parts if name == b"IDAT"), row * height, bool(interlaced))
    kept = [(name, content) for name, content in parts if name in _PNG_PARTS]
    return Picture("png", width, height, _PNG + b"".join(_png_part(name, content) for name, content in kept))


def _png_parts(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Up to the end that it names; what follows is nobody's."""
    place = len(_PNG)
    while True:
        length, name = struct.unpack_from(">I4s", data, place)
        begin, end = place + 8, place + 8 + length
        (told,) = struct.unpack_from(">I", data, end)
        if zlib.crc32(data[place + 4 : end]) != told:
            raise PictureError("The picture is damaged: a checksum is wrong.")
        yield name, data[begin:end]
        if name == b"IEND":
            return
        place = end + 4


def _png_part(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def _require_pixels(packed: bytes, size: int, interlaced: bool) -> None:
    """That the packed pixels are as many as the header says, without unpacking one more. The passes of an interlaced
    picture have more rows than it is high."""
    most = size * 2 + _PASSES if interlaced else size
    unpacker = zlib.decompressobj()
    try:
        found = len(unpacker.decompress(packed, most + 1))
    except zlib.error:
        raise PictureError("The picture is damaged: its pixels cannot be unpacked.") from None
    if found > most:
        raise PictureError("The picture holds more than its size says.")
    if not interlaced and found < size:
        raise PictureError("The picture is cut off.")


# ---- JPEG --------------------------------------------------------------------------------------------------------


def _jpeg(data: bytes) -> Picture:
    width = height = 0
    for marker, begin, _ in _jpeg_segments(data):
        if marker in _FRAME_MARKERS:
            if width:
                raise PictureError("The picture is damaged: it names its size twice.")
            height, width = struct.unpack_from(">HH", data, begin + 1)
            _require_size(width, height)
    if not width:
        raise PictureError("The picture is no JPEG: it does not say its size.")
    return Picture("jpeg", width, height, data)


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(marker, begin, end) of each segment, also behind the pixels of a scan."""
    place, scans = 2, 0
    while place < len(data):
        place = data.find(b"\xff", place)
        if place < 0 or place + 1 >= len(data):
            return
        marker = data[place + 1]
        if marker in (0x00, 0xFF) or marker in _ALONE:  # pixels, filling, or a mark between them
            place += 1 if marker == 0xFF else 2
            continue
        if marker == _END:
            return
        (length,) = struct.unpack_from(">H", data, place + 2)
        yield marker, place + 4, place + 2 + length
        scans += marker == _SCAN
        if scans > _MOST_SCANS:
            raise PictureError(f"The picture has more than {_MOST_SCANS} passes.")
        place += 2 + length
