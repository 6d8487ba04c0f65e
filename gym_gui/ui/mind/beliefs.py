"""Beliefs as rows of a table, with what changed. No Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from mosaic_protocol.mind import Belief, Mind, text_of
from mosaic_protocol.plain_text import one_line

Mark = Literal["+", "−", ""]
SEEN_SECONDS = 3.0
"""So long a change stays marked: states come five times a second, and nobody reads that fast."""
_PLACES = 4


@dataclass(frozen=True)
class BeliefRow:
    mark: Mark
    name: str
    value: str
    source: str


def belief_rows(mind: Mind, *, only_changes: bool = False) -> list[BeliefRow]:
    """By name; what was dropped stands before what is held under the same name."""
    new = set(map(_key, mind.added))
    found = [_row("−", one) for one in mind.removed]
    found += [_row("+" if _key(one) in new else "", one) for one in mind.beliefs]
    shown = [row for row in found if row.mark or not only_changes]
    order = {"−": 0, "+": 1, "": 2}
    return sorted(shown, key=lambda row: (row.name, order[row.mark]))


def summary(mind: Mind) -> tuple[int, int, int]:
    """How many are held, new and dropped."""
    return len(mind.beliefs), len(mind.added), len(mind.removed)


def _row(mark: Mark, belief: Belief) -> BeliefRow:
    value = ", ".join(text_of(_rounded(one)) for one in belief.args)
    return BeliefRow(mark, one_line(belief.functor), one_line(value), one_line(belief.source))


def _rounded(term: object) -> object:
    """Digits that nobody reads make columns wide."""
    return round(term, _PLACES) if isinstance(term, float) else term


def _key(belief: Belief) -> bytes:
    return msgspec.json.encode(belief)


def _name(belief: Belief) -> tuple[str, int, str]:
    return belief.functor, len(belief.args), belief.source


class RecentChanges:
    """Changes of a mind that is looked at live, marked for a moment. Of a belief that changes all the time the last
    change is."""

    def __init__(self) -> None:
        self._added: dict[bytes, float] = {}
        self._removed: dict[tuple[str, int, str], tuple[Belief, float]] = {}

    def take(self, mind: Mind, now: float) -> Mind:
        """The mind with the changes of the last moments; ``now`` is monotonic."""
        held = {_key(one): one for one in mind.beliefs}
        self._added |= {_key(one): now for one in mind.added}
        self._removed |= {_name(one): (one, now) for one in mind.removed}
        self._added = {key: at for key, at in self._added.items() if key in held and now - at < SEEN_SECONDS}
        self._removed = {
            name: (one, at)
            for name, (one, at) in self._removed.items()
            if _key(one) not in held and now - at < SEEN_SECONDS
        }
        added = tuple(held[key] for key in self._added)
        return msgspec.structs.replace(mind, added=added, removed=tuple(one for one, _ in self._removed.values()))

    def forget(self) -> None:
        self._added, self._removed = {}, {}
