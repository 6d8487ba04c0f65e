"""Names of files made from names that somebody else gave."""

from __future__ import annotations

_LONGEST = 120


def safe_file_name(tag: str) -> str:
    """A tag as a file name: ``charts/SPS`` becomes ``charts-SPS``. The end of a long one stays: there tags differ."""
    plain = "".join(mark if mark.isalnum() or mark in "._-" else "-" for mark in tag)
    short = plain.encode()[-_LONGEST:].decode(errors="ignore")
    return short.strip(".-") or "curve"
