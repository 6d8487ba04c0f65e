"""The belief base: ordered, so that a run repeats itself, and with an account of what changed, so that records are
cheap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class BeliefBase(dict[tuple[str, int], "BeliefGroup"]):
    """Beliefs by functor and number of arguments, as the interpreter expects them."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[Any, bool] = {}
        """Each literal that came (True) or went (False) since somebody last emptied this; one that did both is not
        there."""
        self.has_marks = False
        """Whether one ever came with more marks than its source: seldom, and then the same can be believed twice."""

    def __missing__(self, group: tuple[str, int]) -> BeliefGroup:
        made = self[group] = BeliefGroup(self)
        return made

    def all(self) -> Iterator[Any]:
        """Every belief, in the order in which they came within their groups."""
        for group in self.values():
            yield from group


class BeliefGroup:
    """The beliefs of one functor and arity, in the order in which they came."""

    __slots__ = ("_base", "_changes", "_held", "version")

    def __init__(self, base: BeliefBase) -> None:
        self._held: dict[Any, None] = {}
        self._base, self._changes = base, base.changes
        self.version = 0
        """Grows with each change: who remembers it need not look again."""

    def add(self, literal: Any) -> bool:
        """False when it was believed already."""
        if literal in self._held:
            return False
        self._held[literal] = None
        if len(literal.annots) > 1:
            self._base.has_marks = True
        self._note(literal, True)
        return True

    def remove(self, literal: Any) -> None:
        del self._held[literal]
        self._note(literal, False)

    def _note(self, literal: Any, came: bool) -> None:
        self.version += 1
        if self._changes.get(literal, came) is came:
            self._changes[literal] = came
        else:
            del self._changes[literal]

    def __iter__(self) -> Iterator[Any]:
        """As they are now: a plan may change beliefs while it goes through them."""
        return iter(tuple(self._held))

    def __contains__(self, literal: object) -> bool:
        return literal in self._held

    def __len__(self) -> int:
        return len(self._held)
