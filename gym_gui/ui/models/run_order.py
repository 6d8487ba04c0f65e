"""Which runs are shown and in which order: filtered, sorted, grouped, and kept so change by change. Without Qt.

A change is described by an :class:`Edit` before it is made, so that a Qt model can announce it as Qt wants.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gym_gui.services.run_filter import EVERYTHING, RunFilter
from gym_gui.ui.models.extra_columns import SETTING, column_named
from gym_gui.ui.models.run_rows import BUCKETS, LIVE, RunRow
from mosaic_protocol.proto import trainer_pb2 as pb

Key = tuple[Any, ...]
GROUPINGS: dict[str, Callable[[RunRow], str]] = {
    "": lambda row: "",
    "algorithm": lambda row: str(row.run.algo),
    "environment": lambda row: str(row.run.env_id),
    "tags": lambda row: ", ".join(row.run.tags),
    "group": lambda row: str(row.run.group),
}
"""Besides them a setting groups runs, under the name of its column: ``setting:learning_rate``."""
_HEADER, _MEMBER = 0, 1
_EVERY_BUCKET = frozenset(BUCKETS)


class _Backwards:
    """Text that sorts from z to a; numbers are negated instead, which is faster."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: _Backwards) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and other.text == self.text

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Edit:
    """One change of the list: "insert", "remove", "move" (to before ``target``) or "touch". Then :meth:`apply` it."""

    kind: str
    position: int
    apply: Callable[[], None]
    target: int = 0


@dataclass
class View:
    """What a person chose to see."""

    words: tuple[str, ...] = ()
    wanted: RunFilter = EVERYTHING
    buckets: frozenset[str] = _EVERY_BUCKET
    sort: str = "created"
    descending: bool = True
    grouping: str = ""
    collapsed: set[str] = field(default_factory=set)
    pinned: frozenset[str] = frozenset()
    """Runs that stand before all others of their group."""
    hidden: frozenset[str] = frozenset()

    def shows(self, row: RunRow) -> bool:
        return self.shown_of((row,)) != []

    def shown_of(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """Those of the rows that are shown. Only what a person chose is asked of each: rows come by ten thousand."""
        if self.buckets != _EVERY_BUCKET:
            rows = [row for row in rows if row.bucket in self.buckets]
        if self.hidden:
            rows = [row for row in rows if row.run_id not in self.hidden]
        if self.words:
            rows = [row for row in rows if row.matches(self.words)]
        return list(filter(self.wanted.test, rows) if self.wanted else rows)

    def group(self, row: RunRow) -> str:
        own = GROUPINGS.get(self.grouping)
        if own is not None:
            return own(row)
        value = row.setting(self.grouping.removeprefix(SETTING))
        return "" if value is None else f"{self.grouping.removeprefix(SETTING)} = {value}"

    @property
    def standing(self) -> Key:
        """The choices by which runs are put in order, for comparing."""
        return (self.sort, self.descending, self.grouping, self.pinned)

    def key(self, row: RunRow) -> Key:
        return self.keys()(row, self.group(row))

    def keys(self) -> Callable[[RunRow, str], Key]:
        """Where a run of a group stands. What has no value comes last both ways, words after numbers; among equals the
        newest run is first."""
        column, descending, pinned = column_named(self.sort), self.descending, self.pinned

        def key(row: RunRow, group: str) -> Key:
            value: Any = column.key(row) if column is not None else None
            missing, is_text = value is None, isinstance(value, str)
            if missing:
                value = 0
            elif descending:
                value = _Backwards(value) if is_text else -value
            rank = (0 if row.run_id in pinned else 4) + 2 * missing + is_text
            return (group, _MEMBER, rank, value, -row.run.created_at, row.run_id)

        return key


class RunOrder:
    """The runs that are known, and the list of those that are shown, with a header before each group."""

    def __init__(self) -> None:
        self.rows: dict[str, RunRow] = {}
        self.view = View()
        self.counts: Counter[str] = Counter()
        """How many runs there are of each bucket, shown or not."""
        self._keys: list[Key] = []
        self._shown: dict[str, Key] = {}
        self._stand: dict[str, Key] = {}
        """Where runs stand in their group, shown or not, as far as it was asked: another filter moves none of them."""
        self._stand_by: Key = ()
        """The choices that this holds for."""
        self._group_of: dict[str, str] = {}
        self._groups: Counter[str] = Counter()
        self._live: Counter[str] | None = None

    # ---- looking -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._keys)

    def row(self, position: int) -> RunRow | None:
        """The run there; None where a header is, and where a run is gone whose line is about to be taken away."""
        key = self._keys[position]
        return self.rows.get(key[-1]) if key[1] == _MEMBER else None

    def header(self, position: int) -> str | None:
        """The name of the group whose header is there; None where a run is."""
        key = self._keys[position]
        return None if key[1] == _MEMBER else key[0]

    def position(self, run_id: str) -> int:
        """Where a run is shown, -1 when it is not."""
        key = self._shown.get(run_id)
        return -1 if key is None else bisect_left(self._keys, key)

    def size(self, group: str) -> int:
        """How many runs of a group the filters let through, also while it is folded."""
        return self._groups[group]

    def live_in(self, group: str) -> int:
        """How many of them are live."""
        if self._live is None:
            rows = ((name, self.rows[run_id]) for run_id, name in self._group_of.items())
            self._live = Counter(name for name, row in rows if row.bucket == LIVE)
        return self._live[group]

    def matching(self) -> int:
        """How many runs the filters let through."""
        return len(self._group_of)

    # ---- changing everything -------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Build the list again, after the view changed."""
        if self.view.standing != self._stand_by:
            self._stand, self._stand_by = {}, self.view.standing
        self._group_of, self._shown = {}, {}
        self._place_all(self.rows.values())

    def absorb(self, run_ids: Iterable[str]) -> None:
        """Build the list again after very many runs changed, without asking the others where they stand."""
        changed = list(run_ids)
        for run_id in changed:
            for known in (self._group_of, self._shown, self._stand):
                known.pop(run_id, None)
        self._place_all(row for row in map(self.rows.get, changed) if row is not None)

    def _place_all(self, rows: Iterable[RunRow]) -> None:
        view, self._live = self.view, None
        shown = view.shown_of(rows)
        self._stand_where_unknown(shown)
        keys = [self._stand[row.run_id] for row in shown]
        self._group_of.update({key[-1]: key[0] for key in keys})
        self._shown.update({key[-1]: key for key in keys if key[0] not in view.collapsed})
        self._groups = Counter(self._group_of.values())
        headers = self._groups if view.grouping else ()
        self._keys = sorted([*self._shown.values(), *map(self._header_key, headers)])

    def _stand_where_unknown(self, rows: Iterable[RunRow]) -> None:
        key, group = self.view.keys(), self.view.group if self.view.grouping else _no_group
        for row in rows:
            if row.run_id not in self._stand:
                self._stand[row.run_id] = key(row, group(row))

    def take(self, runs: Iterable[pb.Run], now: float) -> list[str]:
        """Note what the daemon says; the runs about which something is new."""
        return [run.run_id for run in runs if self._note(run, now)]

    def _note(self, run: pb.Run, now: float) -> bool:
        row = self.rows.get(run.run_id)
        if row is None:
            row = self.rows[run.run_id] = RunRow(run, now)
        elif row.run == run:
            return False
        else:
            self.counts[row.bucket] -= 1
            row.update(run, now)
        self.counts[row.bucket] += 1
        return True

    def forget(self, run_id: str) -> bool:
        """A run is gone; False when it was not known. :meth:`edits` takes it off the list."""
        row = self.rows.get(run_id)
        if row is None:
            return False
        self.counts[row.bucket] -= 1
        del self.rows[run_id]
        return True

    # ---- changing a little ---------------------------------------------------------------------------------------

    def edits(self, run_ids: Iterable[str]) -> Iterator[Edit]:
        """What has to change in the list for these runs. Each edit must be applied before the next is asked for."""
        for run_id in run_ids:
            self._live = None
            self._stand.pop(run_id, None)
            row = self.rows.get(run_id)
            new = self.view.group(row) if row is not None and self.view.shows(row) else None
            old = self._group_of.get(run_id)
            if new is not None and new != old:
                yield from self._join(run_id, new)
            key = None if row is None or new is None or new in self.view.collapsed else self.view.key(row)
            yield from self._place(run_id, key)
            if old is not None and old != new:
                yield from self._leave(run_id, old, new)
            if new is not None and self.view.grouping:
                yield Edit("touch", bisect_left(self._keys, self._header_key(new)), _nothing)

    def _join(self, run_id: str, group: str) -> Iterator[Edit]:
        self._group_of[run_id] = group
        self._groups[group] += 1
        if self.view.grouping and self._groups[group] == 1:
            yield self._insertion(self._header_key(group))

    def _leave(self, run_id: str, group: str, new: str | None) -> Iterator[Edit]:
        if new is None:
            del self._group_of[run_id]
        self._groups[group] -= 1
        if self._groups[group] > 0:
            return
        del self._groups[group]
        if self.view.grouping:
            yield self._removal(self._header_key(group))

    def _place(self, run_id: str, key: Key | None) -> Iterator[Edit]:
        old = self._shown.pop(run_id, None)
        if key is not None:
            self._shown[run_id] = key
        if old is None and key is not None:
            yield self._insertion(key)
        elif old is not None and key is None:
            yield self._removal(old)
        elif old is not None and key is not None:
            yield self._transfer(old, key)

    def _insertion(self, key: Key) -> Edit:
        position = bisect_left(self._keys, key)
        return Edit("insert", position, lambda: self._keys.insert(position, key))

    def _removal(self, key: Key) -> Edit:
        position = bisect_left(self._keys, key)
        return Edit("remove", position, lambda: self._keys.__delitem__(position))

    def _transfer(self, old: Key, new: Key) -> Edit:
        origin, target = bisect_left(self._keys, old), bisect_left(self._keys, new)

        def move() -> None:
            del self._keys[origin]
            self._keys.insert(target - 1 if target > origin else target, new)

        return Edit("touch" if target in (origin, origin + 1) else "move", origin, move, target)

    @staticmethod
    def _header_key(group: str) -> Key:
        return (group, _HEADER, group)


def _nothing() -> None:
    """A touch changes no place."""


def _no_group(row: RunRow) -> str:
    return ""
