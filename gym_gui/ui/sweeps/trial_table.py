"""The trials of a sweep as a table: by objective at first, by any column when asked. Only what is seen is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PyQt6.QtCore import QModelIndex, QObject, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import QColor, QPainter, QPen
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from gym_gui.services.run_words import compact, counted
from gym_gui.services.sweeps.axes import OBJECTIVE, Axis
from gym_gui.services.sweeps.insight import (
    interval_of,
    objective_title,
    shown_value,
    shown_worth,
    status_of,
    steps_of,
    worth,
)
from gym_gui.services.sweeps.model import Trial, TrialState
from gym_gui.ui.models.headed_table import NOWHERE, HeadedTable
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.status_badge import badge_width, paint_badge

NUMBER, STATUS, WORTH, INTERVAL = range(4)
_FIRST = 4
_ROW_HEIGHT = 28
_PADDING = 8
_BOLD = 1.12
"""How much wider a heading is than its words: the looks draw it bold, and the view knows nothing of that."""
_LEAST_WIDTHS = {NUMBER: 44, STATUS: 120, WORTH: 78, INTERVAL: 96}


class TrialTable(HeadedTable):
    """The desk's trials that pass its filter. Columns: number, status, worth, interval, each setting, steps."""

    def __init__(self, desk: SweepDesk, parent: QObject) -> None:
        super().__init__([], frozenset(), parent, [])
        self._desk = desk
        self._shown: list[int] = []
        """Rows of the picture, in the order of the table."""
        self._order: tuple[int, bool] | None = None
        self.settings: list[str] = []
        self.reset()

    def reset(self) -> None:
        """Take what the desk has now."""
        self.beginResetModel()
        self._take_columns()
        self._arrange()
        self.endResetModel()

    def _take_columns(self) -> None:
        sweep, tr = self._desk.sweep, self.tr
        self.settings = list(sweep.spec.space) if sweep is not None else []
        what = objective_title(sweep.spec) if sweep is not None else tr("objective")
        best = sweep is None or sweep.spec.direction == "maximize"
        several = sweep is not None and len(sweep.spec.seeds) > 1
        short = (tr("IQM") if sweep is not None and sweep.spec.objective == "iqm" else tr("Mean")) if several else ""
        self._titles = ["#", tr("Status"), short or tr("Value"), tr("95 %"), *self.settings, tr("Steps")]
        self._numbers = frozenset({NUMBER, WORTH, *range(_FIRST, _FIRST + len(self.settings) + 1)})
        higher = tr("higher is better") if best else tr("lower is better")
        self._helps = [
            tr("Number of the trial"),
            tr("How it stands: pruned trials name the step they were stopped at"),
            tr("{what}; {which}. Of a trial that is not complete: what was seen of it last").format(
                what=what, which=higher
            ),
            tr("Interval over its seeds; a trial with one seed has none"),
            *self.settings,
            tr("Steps that its runs have trained, all seeds together"),
        ]

    def _arrange(self) -> None:
        picture = self._desk.picture
        passing = self._desk.passing()
        self._shown = [row for row in range(len(picture.trials)) if passing[row]] if picture is not None else []
        if self._order is not None:
            column, falling = self._order
            keys = {row: self._key(row, column) for row in self._shown}
            known = [row for row in self._shown if keys[row] is not None]
            unknown = [row for row in self._shown if keys[row] is None]
            self._shown = [*sorted(known, key=keys.__getitem__, reverse=falling), *unknown]

    def _key(self, row: int, column: int) -> Any:
        """What a column is sorted by; None stands at the end either way."""
        picture = self._desk.picture
        assert picture is not None
        trial = picture.trials[row]
        if column == NUMBER:
            return trial.number
        if column == STATUS:
            return str(trial.state), trial.last_rung
        if column == WORTH:
            return worth(trial)
        if column == INTERVAL:
            found = interval_of(trial, picture.sweep.spec)
            return None if found is None else found.low
        if column < _FIRST + len(self.settings):
            place = picture.places[row][column - _FIRST]
            return None if place != place else float(place)
        return self._steps(trial)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self._order = (column, order == Qt.SortOrder.DescendingOrder) if column >= 0 else None
        self.reset()

    # ---- reading -------------------------------------------------------------------------------------------------

    def trial_at(self, row: int) -> Trial | None:
        picture = self._desk.picture
        return picture.trials[self._shown[row]] if picture is not None and 0 <= row < len(self._shown) else None

    def row_of(self, number: int | None) -> int:
        """Where a trial stands, -1 where it does not."""
        picture = self._desk.picture
        place = picture.rows.get(number, -1) if picture is not None and number is not None else -1
        return self._shown.index(place) if place in self._shown else -1

    def objective_axis(self) -> Axis | None:
        picture = self._desk.picture
        return next((one for one in picture.axes if one.name == OBJECTIVE), None) if picture is not None else None

    def _steps(self, trial: Trial) -> int:
        return steps_of(trial, self._desk.live_steps([trial]))

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        trial, sweep = self.trial_at(index.row()), self._desk.sweep
        if trial is None or sweep is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(trial, index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._about(trial)
        return None

    def _text(self, trial: Trial, column: int) -> str:
        sweep = self._desk.sweep
        assert sweep is not None
        if column == NUMBER:
            return str(trial.number)
        if column == STATUS:
            return status_of(trial, sweep.spec).text
        if column == WORTH:
            return shown_worth(trial)
        if column == INTERVAL:
            found = interval_of(trial, sweep.spec)
            return "" if found is None else f"{found.low:.4g} – {found.high:.4g}"
        if column < _FIRST + len(self.settings):
            return shown_value(trial.params.get(self.settings[column - _FIRST]))
        return compact(self._steps(trial))

    def _about(self, trial: Trial) -> str:
        told = [trial.reason] if trial.reason else []
        values = [f"{seed.seed}: {seed.value:.4g}" for seed in trial.seeds if seed.value is not None]
        told += [self.tr("value of each seed: {values}").format(values=", ".join(values))] if values else []
        told += (
            [self.tr("promoted {times}").format(times=counted(trial.promotions, "time"))] if trial.promotions else []
        )
        return "\n".join(told)


class TrialDelegate(QStyledItemDelegate):
    """Status as a badge, the interval as a bar on the scale of all objectives, the rest as text."""

    def __init__(self, table: TrialTable, desk: SweepDesk, themes: Themes, view: QTableView) -> None:
        super().__init__(view)
        self._table, self._desk, self._themes = table, desk, themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        text = str(index.data() or "")
        extra = badge_width(text, option.font) if index.column() == STATUS else 0
        width = max(option.fontMetrics.horizontalAdvance(text), extra)
        return QSize(int(width) + 2 * _PADDING, _ROW_HEIGHT)

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        assert painter is not None
        trial, sweep, theme = self._table.trial_at(index.row()), self._desk.sweep, self._themes.theme
        if trial is None or sweep is None:
            return
        rect = QRectF(option.rect)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, theme.colour("selection"))
        inside = rect.adjusted(_PADDING, 0, -_PADDING, 0)
        if index.column() == STATUS:
            status = status_of(trial, sweep.spec)
            paint_badge(painter, inside, status.text, theme, option.font, colour_name=status.colour)
            return
        if index.column() == INTERVAL:
            self._paint_interval(painter, inside, trial)
            return
        font = option.font
        complete = trial.state is TrialState.COMPLETE
        font.setBold(index.column() == WORTH and complete)
        painter.setFont(font)
        quiet = index.column() == WORTH and not complete
        painter.setPen(theme.colour("muted" if quiet else "text"))
        text = option.fontMetrics.elidedText(str(index.data() or ""), Qt.TextElideMode.ElideRight, int(inside.width()))
        painter.drawText(inside, self._table.alignment(index.column()), text)

    def _paint_interval(self, painter: QPainter, room: QRectF, trial: Trial) -> None:
        axis, sweep = self._table.objective_axis(), self._desk.sweep
        found = interval_of(trial, sweep.spec) if sweep is not None else None
        if axis is None or found is None or found.low is None or found.high is None:
            return
        theme, picture = self._themes.theme, self._desk.picture
        colour = theme.colour("warning" if picture is not None and picture.best is trial else "accent")

        def x(value: float) -> float:
            return room.left() + room.width() * min(1.0, max(0.0, axis.place(value)))

        middle = room.center().y()
        painter.setPen(QPen(theme.colour("border"), 1))
        painter.drawLine(int(room.left()), int(middle), int(room.right()), int(middle))
        tint = QColor(colour)
        tint.setAlphaF(0.45)
        painter.fillRect(QRectF(x(found.low), middle - 4, max(2.0, x(found.high) - x(found.low)), 8), tint)
        painter.fillRect(QRectF(x(found.value) - 1, middle - 7, 2, 14), colour)


class TrialList(QTableView):
    """``chosen(int)``: somebody went to this trial, by mouse or keys. ``left()``: Escape."""

    chosen = pyqtSignal(int)
    left = pyqtSignal()

    def __init__(self, desk: SweepDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._columns: list[str] = []
        self._selecting = False
        self.table = TrialTable(desk, self)
        self.setModel(self.table)
        self.setItemDelegate(TrialDelegate(self.table, desk, themes, self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setAccessibleName(self.tr("Trials of the sweep"))
        side, top = self.verticalHeader(), self.horizontalHeader()
        assert side is not None and top is not None
        side.hide()
        side.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        side.setDefaultSectionSize(_ROW_HEIGHT)
        top.setSectionsClickable(True)
        top.setSortIndicatorShown(True)
        top.setSortIndicatorClearable(True)
        top.setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        top.setMinimumSectionSize(40)
        top.setTextElideMode(Qt.TextElideMode.ElideRight)
        top.sortIndicatorChanged.connect(self._sort)
        desk.changed.connect(self.refresh)
        desk.opened.connect(self.refresh)
        desk.filtered.connect(self.refresh)
        desk.trial_changed.connect(self._follow)
        desk.moved.connect(self._move)
        themes.changed.connect(lambda _: self._move())

    def refresh(self) -> None:
        """Show what the desk has now; who reads keeps the place."""
        bar = self.verticalScrollBar()
        assert bar is not None
        place = bar.value()
        self._selecting = True
        self.table.reset()
        self._selecting = False
        self._size_columns()
        self._follow()
        bar.setValue(place)

    def _size_columns(self) -> None:
        """Once for each set of columns: widths that somebody chose stay."""
        titles = [str(self.table.headerData(n, Qt.Orientation.Horizontal)) for n in range(self.table.columnCount())]
        sweep = self._desk.sweep
        self.setColumnHidden(INTERVAL, sweep is not None and len(sweep.spec.seeds) < 2)
        if titles == self._columns or not self.table.rowCount():
            return
        self._columns = titles
        top = self.horizontalHeader()
        assert top is not None
        metrics = self.fontMetrics()
        delegate = self.itemDelegate()
        assert delegate is not None
        for column, title in enumerate(titles):
            option = QStyleOptionViewItem()
            self.initViewItemOption(option)
            rows = range(min(30, self.table.rowCount()))
            content = max((delegate.sizeHint(option, self.table.index(r, column)).width() for r in rows), default=0)
            heading = round(_BOLD * metrics.horizontalAdvance(title)) + 34
            wanted = max(content, heading, _LEAST_WIDTHS.get(column, 60))
            top.resizeSection(column, min(wanted, 200))

    def _sort(self, column: int, order: Qt.SortOrder) -> None:
        self._selecting = True
        self.table.sort(column, order)
        self._selecting = False
        self._follow()

    def _follow(self) -> None:
        """Mark the trial that was chosen, wherever that was."""
        row = self.table.row_of(self._desk.number)
        self._selecting = True
        if row < 0:
            self.clearSelection()
        else:
            self.setCurrentIndex(self.table.index(row, NUMBER))
        self._selecting = False

    def _move(self) -> None:
        viewport = self.viewport()
        if viewport is not None:
            viewport.update()

    def currentChanged(self, current: QModelIndex, previous: QModelIndex) -> None:
        super().currentChanged(current, previous)
        trial = self.table.trial_at(current.row())
        if not self._selecting and trial is not None:
            self.chosen.emit(trial.number)

    def keyPressEvent(self, event: Any) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)


def numbers_shown(table: TrialTable) -> Sequence[int]:
    """The numbers of the trials, in the order of the table."""
    trials = (table.trial_at(row) for row in range(table.rowCount()))
    return [trial.number for trial in trials if trial is not None]
