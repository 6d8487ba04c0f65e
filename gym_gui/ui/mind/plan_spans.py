"""Which plan decided which episodes, arranged along a line. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic_protocol.mind import PlanSpan
from mosaic_protocol.plain_text import one_line


@dataclass(frozen=True)
class Stretch:
    """A part of the line, from one column of pixels to before another."""

    left: int
    right: int
    plan: str


def reach(spans: Sequence[PlanSpan]) -> tuple[int, int]:
    """The first episode, and the one after the last."""
    if not spans:
        return 0, 0
    return min(one.first_episode for one in spans), max(one.first_episode + one.episodes for one in spans)


def newest(spans: Sequence[PlanSpan], episodes: int) -> list[PlanSpan]:
    """The last so many episodes alone."""
    _, end = reach(spans)
    first = end - episodes
    kept = []
    for one in spans:
        begin, stop = max(one.first_episode, first), one.first_episode + one.episodes
        if stop > begin:
            kept.append(PlanSpan(begin, one.plan, stop - begin))
    return kept


def stretches(spans: Sequence[PlanSpan], width: int) -> list[Stretch]:
    """The line in so many columns; where several plans share a column, the one with most episodes in it is seen."""
    first, end = reach(spans)
    if width < 1 or end <= first:
        return []
    weights: list[dict[str, float]] = [{} for _ in range(width)]
    scale = width / (end - first)
    for one in spans:
        left, right = (one.first_episode - first) * scale, (one.first_episode + one.episodes - first) * scale
        for column in range(max(0, int(left)), min(width, int(right) + 1)):
            part = min(right, column + 1) - max(left, column)
            if part > 0:
                name = one_line(one.plan)
                weights[column][name] = weights[column].get(name, 0.0) + part
    found: list[Stretch] = []
    for column, shares in enumerate(weights):
        plan = max(shares, key=lambda name: shares[name]) if shares else ""
        if found and found[-1].plan == plan:
            found[-1] = Stretch(found[-1].left, column + 1, plan)
        else:
            found.append(Stretch(column, column + 1, plan))
    return [one for one in found if one.plan]


def shares(spans: Sequence[PlanSpan]) -> list[tuple[str, int]]:
    """Every plan with the number of its episodes, the most frequent first."""
    counts: dict[str, int] = {}
    for one in spans:
        name = one_line(one.plan)
        counts[name] = counts.get(name, 0) + one.episodes
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


class PlanNumbers:
    """A number for each plan that is seen, the same as long as it is looked at: its colour."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, plan: str) -> int:
        return self._numbers.setdefault(one_line(plan), len(self._numbers))
