"""Paints one cell of the runs: straight from the row, and with what was laid out once for each text and badge."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QModelIndex, QPoint, QPointF, QRect, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPixmap, QPolygon, QStaticText
from PyQt6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, RunRow
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.run_marks import RunMarks
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.elided_label import cut_end, cut_name
from gym_gui.ui.widgets.status_badge import paint_badge, state_colour

ROW_HEIGHT = 30
_PADDING = 8
_BAR = 3
_STATUS, _NAME, _STEPS = (COLUMN_NUMBERS[name] for name in ("status", "name", "steps"))
_QUIET = frozenset(COLUMN_NUMBERS[name] for name in ("created", "worker", "reserved", "queue"))
_MOST_KEPT = 20_000
_SELECTED = QStyle.StateFlag.State_Selected


class RunDelegate(QStyledItemDelegate):
    """``away`` greys everything: what is shown is what was true when the daemon was last there."""

    def __init__(self, table: RunTable, themes: Themes, view: QTableView) -> None:
        super().__init__(view)
        self._table, self._themes, self._view = table, themes, view
        self.away = False
        self.marks: RunMarks | None = None
        self.painted = 0
        """Cells so far; a measurement of painting checks that there was any."""
        self._theme: Theme | None = None
        self._font = QFont()
        self._texts: dict[tuple[str, int], tuple[QStaticText, float]] = {}
        self._badges: dict[tuple[str, int, float, bool], QPixmap] = {}
        self._colours: dict[str, QColor] = {}

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        column = index.column()
        row = self._table.row_at(index.row())
        text = self._table.cell(row, column) if row is not None else ""
        extra = 30 if column == _STATUS else 0
        return QSize(option.fontMetrics.horizontalAdvance(text) + 2 * _PADDING + extra, ROW_HEIGHT)

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        assert painter is not None
        self.painted += 1
        self._keep_up(option.font)
        rect, position = option.rect, index.row()
        row = self._table.row_at(position)
        if row is None:
            self._paint_header(painter, rect, position)
            return
        if _SELECTED in option.state:
            painter.fillRect(rect, self._colours["selection"])
        self._paint_cell(painter, rect, row, index.column())
        if index.column() == _STATUS:
            self._paint_marks(painter, rect, row.run_id)
        if self._view.currentIndex().row() == position and self._view.hasFocus():
            painter.fillRect(rect.left(), rect.bottom(), rect.width(), 1, self._colours["accent"])

    def _keep_up(self, font: QFont) -> None:
        """What was laid out for another look or another font is of no use."""
        theme = self._themes.theme
        if theme is self._theme and font == self._font:
            return
        self._theme, self._font = theme, QFont(font)
        self._texts.clear()
        self._badges.clear()
        names = ("text", "muted", "selection", "accent", "border", "raised")
        self._colours = {name: theme.colour(name) for name in names}

    # ---- a run ---------------------------------------------------------------------------------------------------

    def _paint_cell(self, painter: QPainter, rect: QRect, row: RunRow, column: int) -> None:
        if column == _STATUS:
            badge = self._badge(row.word, rect.width(), painter)
            painter.drawPixmap(QPoint(rect.left() + _PADDING, rect.top()), badge)
            return
        lift = 0
        if column == _STEPS and row.fraction is not None:
            self._paint_progress(painter, rect, row, row.fraction)
            lift = _BAR // 2 + 1
        text = self._table.cell(row, column)
        if not text:
            return
        laid, advance = self._text(text, rect.width() - 2 * _PADDING, cut_name if column == _NAME else cut_end)
        left = rect.right() - _PADDING - advance if self._table.columns[column].right else float(rect.left() + _PADDING)
        top = rect.top() + (rect.height() - laid.size().height()) / 2 - lift
        painter.setPen(self._colours["muted" if column in _QUIET or self.away else "text"])
        painter.drawStaticText(QPointF(left, top), laid)

    def _paint_marks(self, painter: QPainter, rect: QRect, run_id: str) -> None:
        """A run's own colour at the left edge, and a small corner for one that is pinned."""
        colour = self.marks.colours.get(run_id) if self.marks is not None else None
        if colour is not None:
            painter.fillRect(rect.left(), rect.top() + 2, 3, rect.height() - 4, self._themes.theme.curve(colour))
        if self.marks is not None and run_id in self.marks.pinned:
            corner = [rect.topRight(), rect.topRight() - QPoint(8, 0), rect.topRight() + QPoint(0, 8)]
            painter.save()
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._colours["accent"])
            painter.drawPolygon(QPolygon(corner))
            painter.restore()

    def _text(self, text: str, room: int, cut: Callable[[str, QFontMetrics, int], str]) -> tuple[QStaticText, float]:
        """A text laid out for a width, and the width that it takes."""
        found = self._texts.get((text, room))
        if found is None:
            if len(self._texts) > _MOST_KEPT:
                self._texts.clear()
            laid = QStaticText(cut(text, QFontMetrics(self._font), room))
            laid.setTextFormat(Qt.TextFormat.PlainText)
            laid.prepare(font=self._font)
            found = self._texts[(text, room)] = (laid, laid.size().width())
        return found

    def _badge(self, word: str, width: int, painter: QPainter) -> QPixmap:
        device = painter.device()
        ratio = device.devicePixelRatioF() if device is not None else 1.0
        found = self._badges.get((word, width, ratio, self.away))
        if found is None:
            room = QRectF(0, 0, width - _PADDING, ROW_HEIGHT)
            found = QPixmap(round(room.width() * ratio), round(room.height() * ratio))
            found.setDevicePixelRatio(ratio)
            found.fill(Qt.GlobalColor.transparent)
            pen = QPainter(found)
            paint_badge(pen, room, word, self._themes.theme, self._font, grey=self.away)
            pen.end()
            self._badges[(word, width, ratio, self.away)] = found
        return found

    def _paint_progress(self, painter: QPainter, rect: QRect, row: RunRow, fraction: float) -> None:
        left, width = rect.left() + _PADDING, rect.width() - 2 * _PADDING
        top = rect.bottom() - _BAR - 2
        painter.fillRect(left, top, width, _BAR, self._colours["border"])
        painter.fillRect(left, top, round(width * fraction), _BAR, state_colour(row.word, self._themes.theme))

    # ---- a group -------------------------------------------------------------------------------------------------

    def _paint_header(self, painter: QPainter, rect: QRect, position: int) -> None:
        """Each cell paints its part of one text that runs across the whole width."""
        group, viewport = self._table.group_at(position), self._view.viewport()
        if group is None or viewport is None:
            return
        painter.save()
        painter.setClipRect(rect)
        painter.fillRect(rect, self._colours["raised"])
        bold = QFont(self._font)
        bold.setWeight(QFont.Weight.DemiBold)
        painter.setFont(bold)
        painter.setPen(self._colours["accent" if self._view.currentIndex().row() == position else "text"])
        across = QRect(_PADDING, rect.top(), viewport.width() - 2 * _PADDING, rect.height())
        words = f"{'▸' if group in self._table.view.collapsed else '▾'}  {self._table.group_title(group)}"
        fitting = QFontMetrics(bold).elidedText(words, Qt.TextElideMode.ElideRight, across.width())
        painter.drawText(across, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, fitting)
        painter.restore()
