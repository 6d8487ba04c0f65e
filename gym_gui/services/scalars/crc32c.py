"""CRC-32C (Castagnoli), the checksum of event files; ``zlib.crc32`` is of another polynomial.

:func:`crc32c` is for one text and needs no numpy. :func:`checksums` takes thousands of records at once: a file of a
million events has two checksums for each, and Python's own loop over their bytes would take longer than all the rest.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_BLOCK = 64
_INVERTED = 4
"""To begin with all ones is to invert the first four bytes and begin with zero."""


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = (rest >> 1) ^ (_POLYNOMIAL if rest & 1 else 0)
        found.append(rest)
    return tuple(found)


_TABLE = _table()


def crc32c(data: bytes) -> int:
    crc, table = _ONES, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _ONES


def masked(crc: int) -> int:
    """As event files store it: a checksum of data that holds checksums would say little."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _ONES


def checksums(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The masked checksum of each part of ``data``. Parts do not overlap.

    Each part is cut into blocks from its end on. The blocks of all parts are summed side by side, four bytes at a time;
    then neighbours are joined until there is one sum for each part. Zeros before a part change nothing, so the first
    block of each may begin with them.
    """
    import numpy as np

    padded = np.zeros(_BLOCK + len(data), np.uint8)
    padded[_BLOCK:] = data
    long = lengths >= _INVERTED
    padded[(starts[long] + _BLOCK)[:, None] + np.arange(_INVERTED)] ^= 0xFF
    counts = np.maximum(1, -(-lengths // _BLOCK))
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)  # of a block, from the end
    sums = _block_sums(padded, np.repeat(starts + lengths, counts), np.repeat(lengths, counts), place)
    level = 0
    while len(sums) > len(starts):
        sums, place = _joined(sums, place, level)
        level += 1
    sums ^= np.uint32(_ONES)
    for index in np.flatnonzero(~long):
        begin = int(starts[index])
        sums[index] = crc32c(data[begin : begin + int(lengths[index])].tobytes())
    rotated = (sums >> np.uint32(15)) | (sums << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)


def _block_sums(padded: NDArray[np.uint8], ends: Any, lengths: Any, place: Any) -> NDArray[np.uint32]:
    import numpy as np

    width = _width(int(lengths.max(initial=1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[_BLOCK - width :], width)
    blocks = windows[ends - place * _BLOCK]  # what the padding shifts, a window's own width takes back
    valid = np.minimum(width, lengths - place * _BLOCK)
    if (valid < width).any():
        blocks[np.arange(width) < (width - valid)[:, None]] = 0
    words = np.ascontiguousarray(blocks.view("<u4").T)
    low, high = _word_tables()
    sums = np.zeros(len(ends), np.uint32)
    for word in words:
        sums ^= word
        sums = low[sums & np.uint32(0xFFFF)] ^ high[sums >> np.uint32(16)]
    return sums


def _width(longest: int) -> int:
    """How many bytes of a block there are to sum: where all parts are short, as headers are, not all of them."""
    return min(_BLOCK, -(-max(1, longest) // 4) * 4)


def _joined(sums: NDArray[np.uint32], place: Any, level: int) -> tuple[NDArray[np.uint32], Any]:
    """Each second sum put before its right neighbour."""
    import numpy as np

    right = place % 2 == 0
    found = sums[right]
    left, tables = sums[~right], _shift_tables(level)
    moved = np.zeros_like(left)
    for byte in range(4):
        moved ^= tables[byte][(left >> np.uint32(8 * byte)) & np.uint32(0xFF)]
    found[np.cumsum(right)[~right] - 1] ^= moved  # a left block follows its right neighbour: they count from the end
    return found, place[right] // 2


@cache
def _word_tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """What two bytes become when four, and when two, bytes are taken in."""
    import numpy as np

    first = np.array(_TABLE, np.uint32)
    tables = [first]
    for _ in range(3):
        tables.append(first[tables[-1] & np.uint32(0xFF)] ^ (tables[-1] >> np.uint32(8)))
    pairs = np.arange(65536)
    low, high = pairs & 0xFF, pairs >> 8
    return tables[3][low] ^ tables[2][high], tables[1][low] ^ tables[0][high]


@cache
def _shift_tables(level: int) -> NDArray[np.uint32]:
    """What each byte of a sum becomes when a block of ``64 * 2**level`` zeros follows."""
    import numpy as np

    bits = _shifted_bits(level)
    tables = np.zeros((4, 256), np.uint32)
    for bit, image in enumerate(bits):
        byte, place = divmod(bit, 8)
        tables[byte][(np.arange(256) >> place) & 1 == 1] ^= np.uint32(image)
    return tables


@cache
def _shifted_bits(level: int) -> tuple[int, ...]:
    """What each bit of a sum becomes. The sum is linear, so twice the zeros are the same step done twice."""
    bits = tuple(_TABLE[(1 << bit) & 0xFF] ^ ((1 << bit) >> 8) for bit in range(32)) if level == -6 else None
    if bits is None:
        half = _shifted_bits(level - 1)
        bits = tuple(_through(half, image) for image in half)
    return bits


def _through(bits: tuple[int, ...], value: int) -> int:
    found = 0
    for bit, image in enumerate(bits):
        if value >> bit & 1:
            found ^= image
    return found
