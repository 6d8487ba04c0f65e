"""The runs as a Qt table: every change of the book is made in place, so that selection and scrolling stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from PyQt6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt, pyqtSignal

from gym_gui.services.metric_spans import Spans
from gym_gui.services.run_words import ordinal
from gym_gui.services.waiting_line import in_line, places
from gym_gui.ui.models.extra_columns import MetricColumn, column_named, title_of
from gym_gui.ui.models.run_order import RunOrder, View
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, COLUMNS, QUEUED, TICKING, Column, RunRow
from gym_gui.ui.run_book import RunBook
from mosaic_protocol.headline import RECENT_EPISODES

_MOST_EDITS = 100
"""With more changes at once, each would cost the view more than a new list."""

_NOWHERE = QModelIndex()
_HEADER_FLAGS = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
_RUN_FLAGS = _HEADER_FLAGS | Qt.ItemFlag.ItemIsSelectable
_QUEUE, _NAME, _CREATED = (COLUMN_NUMBERS[name] for name in ("queue", "name", "created"))


class RunTable(QAbstractTableModel):
    """Flat: a group's header is a row of its own, which cannot be selected. ``counted()`` follows every change.

    ``about_to_rearrange()`` and ``rearranged(chosen)`` surround a change of the list as a whole; ``chosen`` when a
    person wanted to see something else, and not when very much changed by itself. ``about_to_remove()`` comes before
    Qt's own word on it.
    """

    counted = pyqtSignal()
    about_to_remove = pyqtSignal()
    about_to_rearrange = pyqtSignal()
    rearranged = pyqtSignal(bool)

    def __init__(self, book: RunBook, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._book = book
        self.order = RunOrder()
        self._places: dict[str, int] | None = None
        self._ages: dict[str, str] = {}
        """How old the runs in sight were said to be."""
        self.columns: list[Column] = list(COLUMNS)
        """The columns of every list, then those that somebody added."""
        self._titles = self._column_titles()
        self._helps = self._column_helps()
        self.order.take(book, time.monotonic())
        self.order.rebuild()
        self._known = len(self.order.rows)
        book.changed.connect(self._take)

    # ---- what a view asks ----------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.order)

    def columnCount(self, parent: QModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        return _HEADER_FLAGS if self.row_at(index.row()) is None else _RUN_FLAGS

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.order.row(index.row())
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self.cell(row, index.column()) if row else self._header_cell(index)
        if role == Qt.ItemDataRole.ToolTipRole and row is not None:
            return self._explanation(row)
        if role == Qt.ItemDataRole.TextAlignmentRole and self.columns[index.column()].right:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.title(self.columns[section].name)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.help_of(self.columns[section].name)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if self.columns[section].right else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.InitialSortOrderRole:
            descending = self.columns[section].largest_first
            return Qt.SortOrder.DescendingOrder if descending else Qt.SortOrder.AscendingOrder
        return None

    def cell(self, row: RunRow, column: int) -> str:
        if column == _NAME:
            return self._book.label(row.run)
        if column == _QUEUE:
            return ordinal(self.place(row.run_id)) if row.bucket == QUEUED else ""
        return self.columns[column].text(row, time.monotonic())

    def _header_cell(self, index: QModelIndex) -> str:
        return self.group_title(self.order.header(index.row()) or "") if index.column() == 0 else ""

    def group_title(self, group: str) -> str:
        """A header's words: the group, how many runs it has, how many of them are live."""
        name = group or self.tr("(none)")
        total, live = self.order.size(group), self.order.live_in(group)
        runs = self.tr("{total} runs").format(total=f"{total:,}") if total != 1 else self.tr("1 run")
        if live:
            return self.tr("{name}    {runs}, {live} live").format(name=name, runs=runs, live=live)
        return f"{name}    {runs}"

    def _explanation(self, row: RunRow) -> str:
        run = row.run
        lines = [f"{run.name}  ·  {run.run_id}"]
        if run.reason:
            lines.append(run.reason)
        if row.bucket == QUEUED:
            lines.append(self.tr("{place} in line").format(place=ordinal(self.place(run.run_id))))
        if row.is_training and run.seconds_since_progress > 30:
            lines.append(self.tr("No progress for {seconds:.0f} s").format(seconds=run.seconds_since_progress))
        return "\n".join(lines)

    def place(self, run_id: str) -> int:
        """A queued run's place in the line, 1 for the next."""
        return self._all_places().get(run_id, 0)

    def _all_places(self) -> dict[str, int]:
        """When one run leaves the line or is moved in it, all behind it have another place."""
        if self._places is None:
            self._places = places(in_line(row.run for row in self.order.rows.values() if row.bucket == QUEUED))
        return self._places

    # ---- finding -------------------------------------------------------------------------------------------------

    def row_at(self, position: int) -> RunRow | None:
        return self.order.row(position) if 0 <= position < len(self.order) else None

    def group_at(self, position: int) -> str | None:
        return self.order.header(position) if 0 <= position < len(self.order) else None

    def index_of(self, run_id: str) -> QModelIndex:
        position = self.order.position(run_id)
        return self.index(position, 0) if position >= 0 else QModelIndex()

    # ---- what a person chooses -----------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self.order.view

    def show(self, **choices: Any) -> None:
        """Change fields of the :class:`View`: words, wanted, buckets, sort, descending, grouping, collapsed."""
        chosen = replace(self.order.view, **choices)
        if chosen != self.order.view:
            self.order.view = chosen
            self._rearrange(self.order.rebuild, chosen=True)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if 0 <= column < len(self.columns):
            self.show(sort=self.columns[column].name, descending=order == Qt.SortOrder.DescendingOrder)

    @property
    def extras(self) -> list[str]:
        """The names of the columns that were added."""
        return [column.name for column in self.columns[len(COLUMNS) :]]

    def add_column(self, name: str) -> bool:
        """Add a column at the end; False for one that is there or that nobody knows."""
        column = column_named(name)
        if column is None or column in self.columns:
            return False
        place = len(self.columns)
        self.beginInsertColumns(_NOWHERE, place, place)
        self.columns.append(column)
        self.endInsertColumns()
        return True

    def remove_column(self, name: str) -> bool:
        """Take one away that was added; False for any other."""
        if name not in self.extras:
            return False
        place = [column.name for column in self.columns].index(name)
        if self.view.sort == name:
            self.show(sort="created", descending=True)
        self.beginRemoveColumns(_NOWHERE, place, place)
        del self.columns[place]
        self.endRemoveColumns()
        return True

    def number_of(self, name: str) -> int:
        """Of a column that there is, -1 for any other."""
        return next((number for number, column in enumerate(self.columns) if column.name == name), -1)

    def take_spans(self, found: Mapping[str, Spans]) -> None:
        """What was read of metrics; the runs stand where it puts them."""
        known = [run_id for run_id in found if run_id in self.order.rows]
        for run_id in known:
            row = self.order.rows[run_id]
            row.spans = {**row.spans, **found[run_id]}
        if len(known) > _MOST_EDITS:
            self._rearrange(lambda: self.order.absorb(known), chosen=False)
        else:
            self._edit(known)

    def fold(self, group: str, folded: bool | None = None) -> None:
        """Hide or show the runs of a group; without ``folded`` the other of the two."""
        collapsed = set(self.view.collapsed)
        fold = group not in collapsed if folded is None else folded
        collapsed.add(group) if fold else collapsed.discard(group)
        self.show(collapsed=collapsed)

    # ---- changes -------------------------------------------------------------------------------------------------

    def _take(self, run_ids: Sequence[str]) -> None:
        now = time.monotonic()
        there = [run for run in map(self._book.get, run_ids) if run is not None]
        gone = [run_id for run_id in run_ids if self._book.get(run_id) is None and self.order.forget(run_id)]
        changed = [*gone, *self.order.take(there, now)]
        if not changed:
            return
        known = len(self.order.rows)
        line, self._places = self._places, None
        if len(changed) > _MOST_EDITS:
            self._rearrange(lambda: self.order.absorb(changed), chosen=False)
        else:
            self._edit(changed)
        if gone or known != self._known:
            self._known = known
            self._names_may_differ()
        if line is not None and line != self._all_places():
            self._repaint(_QUEUE)
        self.counted.emit()

    def _names_may_differ(self) -> None:
        """A run that came or went may have had a name that another one has too."""
        self._repaint(_NAME)

    def _repaint(self, column: int) -> None:
        if len(self.order):
            self.dataChanged.emit(self.index(0, column), self.index(len(self.order) - 1, column))

    def _rearrange(self, change: Callable[[], None], *, chosen: bool) -> None:
        self.about_to_rearrange.emit()
        self.beginResetModel()
        change()
        self.endResetModel()
        self.rearranged.emit(chosen)

    def _edit(self, run_ids: Sequence[str]) -> None:
        last = len(self.columns) - 1
        for edit in self.order.edits(run_ids):
            here = edit.position
            if edit.kind == "touch":
                edit.apply()
                self.dataChanged.emit(self.index(here, 0), self.index(here, last))
            elif edit.kind == "insert":
                self.beginInsertRows(_NOWHERE, here, here)
                edit.apply()
                self.endInsertRows()
            elif edit.kind == "remove":
                self.about_to_remove.emit()
                self.beginRemoveRows(_NOWHERE, here, here)
                edit.apply()
                self.endRemoveRows()
            else:
                self.beginMoveRows(_NOWHERE, here, here, _NOWHERE, edit.target)
                edit.apply()
                self.endMoveRows()

    def tick(self, first: int, last: int) -> None:
        """Time went by: the rows from first to last that train show it, and those whose age reads differently now."""
        before, self._ages = self._ages, {}
        for position in range(max(0, first), min(last, len(self.order) - 1) + 1):
            row = self.order.row(position)
            if row is None:
                continue
            if row.is_training:
                self.dataChanged.emit(self.index(position, TICKING[0]), self.index(position, TICKING[-1]))
            self._ages[row.run_id] = age = self.cell(row, _CREATED)
            if before.get(row.run_id, age) != age:
                self.dataChanged.emit(self.index(position, _CREATED), self.index(position, _CREATED))

    # ---- words ---------------------------------------------------------------------------------------------------

    def title(self, column: str) -> str:
        return self._titles.get(column) or title_of(column)

    def help_of(self, column: str) -> str:
        if column in self._helps:
            return self._helps[column]
        metric = MetricColumn.named(column)
        if metric is None:
            return self.tr("The setting {name}, where the run was given it").format(name=title_of(column))
        lowest = self.tr("lowest") if metric.is_lowest else self.tr("highest")
        kind = self.tr("newest") if metric.kind == "last" else lowest
        return self.tr("The {kind} value of {tag}").format(kind=kind, tag=metric.tag)

    def _column_titles(self) -> dict[str, str]:
        return {
            "status": self.tr("Status"),
            "name": self.tr("Name"),
            "algorithm": self.tr("Algorithm"),
            "environment": self.tr("Environment"),
            "seed": self.tr("Seed"),
            "steps": self.tr("Steps"),
            "return": self.tr("Mean return"),
            "sps": self.tr("Steps/s"),
            "elapsed": self.tr("Elapsed"),
            "eta": self.tr("ETA"),
            "queue": self.tr("Queue"),
            "created": self.tr("Created"),
            "worker": self.tr("Worker"),
            "reserved": self.tr("Reserved"),
            "tags": self.tr("Tags"),
        }

    def _column_helps(self) -> dict[str, str]:
        return {
            "status": self.tr("Where the run is in its life"),
            "name": self.tr("What people call it"),
            "algorithm": self.tr("What it trains with"),
            "environment": self.tr("What it trains on"),
            "seed": self.tr("The seed of its random numbers"),
            "steps": self.tr("Environment steps done, of all it is to do"),
            "return": self.tr("Mean return of the last {count} episodes").format(count=RECENT_EPISODES),
            "sps": self.tr("Newest steps per second"),
            "elapsed": self.tr("Time it has trained, without queue and pauses"),
            "eta": self.tr("Time until its last step, at the pace it has"),
            "queue": self.tr("Its place in the line for CPU, GPU and memory"),
            "created": self.tr("When it was submitted"),
            "worker": self.tr("The worker that runs it"),
            "reserved": self.tr("What it holds of the machine"),
            "tags": self.tr("Short texts to find it by"),
        }
