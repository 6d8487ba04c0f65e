"""How much an archive may hold. Its own word on that counts for nothing: what is unpacked is counted."""

MOST_MANIFEST_BYTES = 64 * 2**20
"""Some hundred thousand files."""
_ALWAYS_TAKEN = 2**30
_LARGEST_RATIO = 1000
"""Logs come down to a fiftieth. Files of zeros come down to a ten-thousandth, and fill a disk from a mail."""


def is_bomb(unpacked: int, packed: int) -> bool:
    """Whether so many bytes of so few are more than runs come to."""
    return unpacked > _ALWAYS_TAKEN and unpacked > _LARGEST_RATIO * packed
