"""In which order charts stand, and which are hidden: by tag, as a person arranged them. No Qt.

Charts stand in groups, and a group has a natural order. A person moves charts within their group, or out of it to the
front of everything. What nobody moved, and what comes new, stands where it would have stood anyway: behind its natural
neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gym_gui.ui.plots.tags import group_of, grouped

FIRST = "first/"
"""The group in front of all others: charts that a person took out of theirs. No group of tags has a slash."""
_MOST_KEPT = 1000


@dataclass(frozen=True)
class ChartOrder:
    """An arrangement; each change gives another one. ``groups`` has the tags of each group that was arranged."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()

    @property
    def is_natural(self) -> bool:
        return not self.groups and not self.hidden

    def arranged(self, tags: Iterable[str], wanted: str = "") -> dict[str, list[str]]:
        """Tags by group, both in the order in which they are shown; only those with all words of ``wanted``."""
        known = grouped(set(tags) - set(self.hidden), wanted)
        present = {tag for members in known.values() for tag in members}
        found = {FIRST: [tag for tag in self.groups.get(FIRST, ()) if tag in present]}
        for group, members in known.items():
            natural = [tag for tag in members if tag not in found[FIRST]]
            found[group] = _merged([tag for tag in self.groups.get(group, ()) if tag in natural], natural)
        return {group: members for group, members in found.items() if members}

    def hidden_among(self, tags: Iterable[str]) -> list[str]:
        """Those of the tags that would be there otherwise."""
        return [tag for members in grouped(set(tags) & set(self.hidden)).values() for tag in members]

    # ---- changes -------------------------------------------------------------------------------------------------

    def moved(self, tag: str, by: int, shown: Mapping[str, Sequence[str]]) -> ChartOrder:
        """One place earlier (-1) or later (1) among what is ``shown``. Before its group are the first of all, behind
        those it is in its group again."""
        section, members = self._place(tag, shown)
        place = members.index(tag) + by if tag in members else -1
        if 0 <= place < len(members):
            return self._put(tag, section, members[place], shown, behind=by > 0)
        if by < 0 and section != FIRST:
            return self._put(tag, FIRST, None, shown, behind=True)
        if by > 0 and section == FIRST:
            return self._put(tag, group_of(tag), None, shown, behind=False)
        return self

    def moved_first(self, tag: str, shown: Mapping[str, Sequence[str]]) -> ChartOrder:
        """In front of everything."""
        return self._put(tag, FIRST, None, shown, behind=False)

    def moved_to(self, tag: str, target: str, shown: Mapping[str, Sequence[str]], *, behind: bool) -> ChartOrder:
        """Beside another chart. Beside one of another group it is one of the first of all: groups stay what they
        are."""
        section, _ = self._place(target, shown)
        if tag == target:
            return self
        if section in (FIRST, group_of(tag)):
            return self._put(tag, section, target, shown, behind=behind)
        return self._put(tag, FIRST, None, shown, behind=True)

    def hiding(self, tag: str) -> ChartOrder:
        return replace(self, hidden=tuple(dict.fromkeys((*self.hidden, tag)))[-_MOST_KEPT:])

    def showing(self, tags: Iterable[str]) -> ChartOrder:
        gone = set(tags)
        return replace(self, hidden=tuple(tag for tag in self.hidden if tag not in gone))

    def in_natural_order(self) -> ChartOrder:
        """What is hidden stays so."""
        return replace(self, groups={})

    def _place(self, tag: str, shown: Mapping[str, Sequence[str]]) -> tuple[str, Sequence[str]]:
        return next(((group, list(tags)) for group, tags in shown.items() if tag in tags), (group_of(tag), []))

    def _put(
        self, tag: str, section: str, beside: str | None, shown: Mapping[str, Sequence[str]], *, behind: bool
    ) -> ChartOrder:
        """Into a section, beside one of its charts or at its beginning or end. Tags that are not shown now keep their
        places among the others."""
        groups = {name: tuple(one for one in tags if one != tag) for name, tags in self.groups.items()}
        members = [one for one in _merged(list(groups.get(section, ())), shown.get(section, ())) if one != tag]
        if beside in members:
            place = members.index(beside) + behind
        else:
            place = len(members) if behind else 0
        members.insert(place, tag)
        groups[section] = tuple(members[:_MOST_KEPT])
        return replace(self, groups={name: tags for name, tags in groups.items() if tags})

    # ---- remembering ---------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any] | None:
        """None for the natural arrangement, which nobody needs to remember."""
        groups = {group: list(tags) for group, tags in self.groups.items()}
        return None if self.is_natural else {"groups": groups, "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> ChartOrder:
        """What is not as it should be is left out: a preference is no reason to show no chart."""
        groups = kept.get("groups")
        read = {str(group): _tags(tags) for group, tags in groups.items()} if isinstance(groups, dict) else {}
        return cls({group: tags for group, tags in read.items() if tags}, _tags(kept.get("hidden")))


def _tags(kept: Any) -> tuple[str, ...]:
    found = [tag for tag in kept if isinstance(tag, str)] if isinstance(kept, list) else []
    return tuple(dict.fromkeys(found))[:_MOST_KEPT]


def _merged(arranged: list[str], natural: Sequence[str]) -> list[str]:
    """``arranged``, with the rest of the natural order each behind its natural neighbour."""
    found, before = list(arranged), ""
    for tag in natural:
        if tag not in found:
            found.insert(found.index(before) + 1 if before else 0, tag)
        before = tag
    return found
