"""Pictures as PNG: what any reader decodes, and nothing where the bytes are no picture."""

from __future__ import annotations

import struct
import zlib

import pytest

from mosaic_protocol.png import as_png, data_url


def test_a_picture_keeps_every_pixel() -> None:
    for colours in (1, 3):
        pixels = bytes(range(6 * colours))
        png = as_png(3, 2, pixels)
        assert struct.unpack_from(">II", png, 16) == (3, 2)
        size = struct.unpack_from(">I", png, 33)[0]
        rows = zlib.decompress(png[41 : 41 + size])
        width = 3 * colours
        assert rows == b"\0" + pixels[:width] + b"\0" + pixels[width:]
    assert data_url(as_png(1, 1, b"x")).startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize(("width", "height", "size"), [(2, 2, 5), (2, 2, 8), (0, 4, 0), (1, 1, 0)])
def test_bytes_that_are_no_picture_are_refused(width: int, height: int, size: int) -> None:
    with pytest.raises(ValueError, match="no picture"):
        as_png(width, height, bytes(size))
