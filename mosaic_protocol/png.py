"""A picture as PNG, with nothing but the standard library: for models that see, and for pages that are mailed."""

from __future__ import annotations

import base64
import struct
import zlib

_FIRST_BYTES = b"\x89PNG\r\n\x1a\n"
_GREY, _COLOUR = 0, 2
_KINDS = {1: _GREY, 3: _COLOUR}


def as_png(width: int, height: int, pixels: bytes) -> bytes:
    """Rows from the top, one byte a pixel for grey or three for colours. Raises ValueError for another number."""
    kind = _KINDS.get(len(pixels) // max(width * height, 1))
    if kind is None or len(pixels) % (width * height):
        raise ValueError(f"{len(pixels):,} bytes are no picture of {width}x{height}")
    size = len(pixels) // height
    rows = b"".join(b"\0" + pixels[at : at + size] for at in range(0, len(pixels), size))
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return _FIRST_BYTES + b"".join(_part(name, content) for name, content in parts)


def data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _part(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
