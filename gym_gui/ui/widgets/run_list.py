"""The list of runs as people handle it: keyboard, selection shared with the cockpit, columns of their choice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from PyQt6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QKeyEvent, QMouseEvent, QShowEvent
from PyQt6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.run_marks import RunMarks
from gym_gui.ui.widgets.run_columns import RunColumns
from gym_gui.ui.widgets.run_delegate import ROW_HEIGHT, RunDelegate

TICK_MILLISECONDS = 500
_SELECT_ROWS = QItemSelectionModel.SelectionFlag.Rows
_MOVING = (
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_PageUp,
    Qt.Key.Key_PageDown,
)


class RunList(QTableView):
    """``asked(action)`` names what a key asks for: "open", "delete" or "toggle" (pause or resume)."""

    asked = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, table: RunTable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit, self.table = cockpit, table
        self._following = False
        self._had_in_sight = False
        self.setModel(table)
        self.delegate = RunDelegate(table, cockpit.themes, self)
        self.delegate.marks = RunMarks.of(cockpit.bridge, cockpit.preferences)
        self.setItemDelegate(self.delegate)
        self._set_up()
        self.columns = RunColumns(self, table, cockpit)
        self._connect()
        self._ticker = QTimer(self)
        self._ticker.setInterval(TICK_MILLISECONDS)
        self._ticker.timeout.connect(self._tick)

    def _set_up(self) -> None:
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setAccessibleName(self.tr("Runs"))
        rows = self.verticalHeader()
        assert rows is not None
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setDefaultSectionSize(ROW_HEIGHT)

    @property
    def selected(self) -> QItemSelectionModel:
        model = self.selectionModel()
        assert model is not None
        return model

    def _connect(self) -> None:
        self.selected.selectionChanged.connect(self._tell_selection)
        self.selected.currentChanged.connect(self._tell_selection)
        self._cockpit.selection.changed.connect(self.follow_selection)
        self._cockpit.themes.changed.connect(self._repaint)
        self.table.about_to_rearrange.connect(self._remember_place)
        self.table.rearranged.connect(self._return_to_place)
        # The selection hears of a removal before this list would, and moves on to a neighbour.
        self.table.about_to_remove.connect(self._begin_change)
        self.table.rowsRemoved.connect(lambda *_: self._end_change())
        self.table.rowsAboutToBeMoved.connect(self._note_sight)
        self.table.rowsMoved.connect(lambda *_: self._keep_in_sight())

    # ---- selection -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        """What is selected here changes without a person's doing."""
        before, self._following = self._following, True
        try:
            yield
        finally:
            self._following = before

    def _tell_selection(self, *_: object) -> None:
        if self._following:
            return
        chosen = [row.run_id for row in map(self.table.row_at, self._selected_positions()) if row is not None]
        current = self.table.row_at(self.currentIndex().row())
        if current is not None and current.run_id in chosen:
            chosen.remove(current.run_id)
            chosen.insert(0, current.run_id)
        with self._quietly():
            self._cockpit.selection.select(chosen)

    def _selected_positions(self) -> list[int]:
        chosen = self.selected.selection()
        ranges = [chosen[number] for number in range(len(chosen))]
        return sorted({row for one in ranges for row in range(one.top(), one.bottom() + 1)})

    def follow_selection(self) -> None:
        """Select here what is selected in the cockpit, as far as it is shown."""
        if self._following:
            return
        with self._quietly():
            ids = self._cockpit.selection.ids
            indexes = [index for index in map(self.table.index_of, ids) if index.isValid()]
            chosen = QItemSelection()
            for index in indexes:
                chosen.select(index, index)
            self.selected.select(chosen, QItemSelectionModel.SelectionFlag.ClearAndSelect | _SELECT_ROWS)
            if indexes and indexes[0].row() != self.currentIndex().row():
                self.selected.setCurrentIndex(indexes[0], QItemSelectionModel.SelectionFlag.NoUpdate)
                self.scrollTo(indexes[0])

    def _begin_change(self) -> None:
        self._following = True

    def _end_change(self) -> None:
        self._following = False
        self.follow_selection()

    def _remember_place(self) -> None:
        bar = self.verticalScrollBar()
        self._place = bar.value() if bar is not None else 0
        self._note_sight()
        self._begin_change()

    def _note_sight(self, *_: object) -> None:
        self._had_in_sight = self._has_in_sight()

    def _keep_in_sight(self) -> None:
        """A run that was looked at stays in sight: one that was just launched has no return, and leaves the end of a
        list that is sorted by it with its first one."""
        if self._had_in_sight and not self._has_in_sight():
            self.scrollTo(self.currentIndex())

    def _has_in_sight(self) -> bool:
        """Whether the current run can be seen."""
        viewport, current = self.viewport(), self.currentIndex()
        return viewport is not None and current.isValid() and self.visualRect(current).intersects(viewport.rect())

    def _return_to_place(self, chosen: bool) -> None:
        """Where one was; a person who wanted to see something else sees its beginning, or the selected run in it."""
        self._end_change()
        bar = self.verticalScrollBar()
        if bar is not None and not (chosen and self.currentIndex().isValid()):
            self.updateGeometries()
            bar.setValue(0 if chosen else self._place)
        if not chosen:
            self._keep_in_sight()

    # ---- time ----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        viewport = self.viewport()
        if viewport is None or self.delegate.away:
            return
        first, last = self.rowAt(0), self.rowAt(viewport.height() - 1)
        self.table.tick(first, last if last >= 0 else len(self.table.order) - 1)

    def showEvent(self, event: QShowEvent | None) -> None:
        self._ticker.start()
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._ticker.stop()
        super().hideEvent(event)

    def set_away(self, away: bool) -> None:
        self.delegate.away = away
        self._repaint()

    def _repaint(self) -> None:
        viewport = self.viewport()
        if viewport is not None:
            viewport.update()

    # ---- keyboard and mouse --------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        assert event is not None
        group = self.table.group_at(self.currentIndex().row())
        plain = event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
        key = event.key()
        if group is not None and plain and self._fold_by_key(group, key):
            return
        wish = {
            Qt.Key.Key_Return: "open",
            Qt.Key.Key_Enter: "open",
            Qt.Key.Key_Delete: "delete",
            Qt.Key.Key_Space: "toggle",
        }.get(Qt.Key(key))
        if wish is not None and plain:
            self.asked.emit(wish)
            return
        super().keyPressEvent(event)
        if plain and Qt.Key(key) in _MOVING and not self.selected.hasSelection() and self.currentIndex().isValid():
            # Qt gave the first row the focus and did not select it: the arrows had nowhere to go from an only run.
            self.selected.select(self.currentIndex(), QItemSelectionModel.SelectionFlag.ClearAndSelect | _SELECT_ROWS)

    def moveCursor(self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier) -> QModelIndex:
        """Home and End are for the first and last run; a table's own lead to its first and last column."""
        ends = {QAbstractItemView.CursorAction.MoveHome: 0, QAbstractItemView.CursorAction.MoveEnd: -1}
        if action in ends and self.table.rowCount():
            return self.table.index(ends[action] % self.table.rowCount(), max(0, self.currentIndex().column()))
        return super().moveCursor(action, modifiers)

    def _fold_by_key(self, group: str, key: int) -> bool:
        folded = {Qt.Key.Key_Left: True, Qt.Key.Key_Right: False}
        toggles = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
        if key not in folded and key not in toggles:
            return False
        position = self.currentIndex().row()
        self.table.fold(group, folded.get(Qt.Key(key)))
        self.setCurrentIndex(self.table.index(position, 0))
        return True

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        assert event is not None
        group = self.table.group_at(self.indexAt(event.position().toPoint()).row())
        if group is not None and event.button() == Qt.MouseButton.LeftButton:
            self.table.fold(group)
            return
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent | None) -> None:
        assert event is not None
        index = self.indexAt(event.position().toPoint())
        if self.table.row_at(index.row()) is not None:
            self.asked.emit("open")
