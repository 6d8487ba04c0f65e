"""Which seeds an arena has: ``0-99``, ``3,5,8``, ``0-9,20-29``. The order is kept; a seed counts once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from gym_gui.services.arena.errors import ArenaError

MOST_SEEDS = 10_000
LARGEST = 2**31 - 1
"""Environments written in C take 31 bits."""
_SPAN = re.compile(r"\s*(\d{1,12})\s*(?:(?:-|\.\.)\s*(\d{1,12})\s*)?")


def read_seeds(text: str) -> list[int]:
    """Raises ArenaError for what names no seeds, too many, or one of them twice."""
    found: list[int] = []
    for word in text.split(","):
        span = _SPAN.fullmatch(word)
        if span is None:
            raise ArenaError(f"{text[:60]!r} names no seeds: write them as 0-99 or 3,5,8")
        first, last = int(span[1]), int(span[2] or span[1])
        if last < first:
            raise ArenaError(f"the seeds {word.strip()} run backwards: write {last}-{first}")
        if last > LARGEST:
            raise ArenaError(f"a seed may be {LARGEST:,} at most, got {last}")
        if len(found) + last - first + 1 > MOST_SEEDS:
            raise ArenaError(f"an arena has {MOST_SEEDS:,} seeds at most")
        found += range(first, last + 1)
    seen: set[int] = set()
    for seed in found:
        if seed in seen:
            raise ArenaError(f"seed {seed} is named twice in {text[:60]!r}: its episode would be the same one again")
        seen.add(seed)
    return found


def chosen_seeds(text: str | None, episodes: int | None) -> list[int]:
    """Those that are named, else as many from 0 on. Raises ArenaError where both are given and differ."""
    if text is None:
        return list(range(episodes if episodes is not None else 100))
    found = read_seeds(text)
    if episodes is not None and episodes != len(found):
        raise ArenaError(
            f"--seeds names {len(found):,} seeds, --episodes asks for {episodes:,}: an episode has one seed, "
            "so leave one of the two out"
        )
    return found


def shown_seeds(seeds: Iterable[int]) -> str:
    """``0–9, 12, 20–22``."""
    numbered = enumerate(sorted(seeds))
    spans = [[seed for _, seed in group] for _, group in groupby(numbered, key=lambda pair: pair[1] - pair[0])]
    return ", ".join(_span(one) for one in spans)


def _span(seeds: Sequence[int]) -> str:
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}–{seeds[-1]}"
