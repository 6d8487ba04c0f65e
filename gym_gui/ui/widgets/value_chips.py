"""Values as chips in a list of lines: filled is what somebody changed, outlined a default, the rest plain text."""

from __future__ import annotations

from PyQt6.QtCore import QModelIndex, QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPainter, QPen, QPixmap
from PyQt6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTreeWidgetItem, QWidget

from gym_gui.ui.theme import Theme, Themes

FILLED, OUTLINED = "filled", "outlined"
_KIND, _COLOUR = Qt.ItemDataRole.UserRole + 20, Qt.ItemDataRole.UserRole + 21
_PADDING, _RADIUS, _HEIGHT, _TINT = 7, 4.0, 20, 0.24
_DOT = 10


def set_chip(item: QTreeWidgetItem, column: int, kind: str, curve: int | None = None) -> None:
    """Paint a cell as a chip; ``curve`` is the number of a run's colour, else the accent is taken."""
    item.setData(column, _KIND, kind)
    item.setData(column, _COLOUR, curve)


def chip_of(item: QTreeWidgetItem, column: int) -> str:
    """``filled``, ``outlined`` or "" for plain text."""
    return item.data(column, _KIND) or ""


def dot(colour: QColor) -> QPixmap:
    """A run's colour as a small sign beside its name."""
    picture = QPixmap(_DOT, _DOT)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.drawEllipse(1, 1, _DOT - 2, _DOT - 2)
    painter.end()
    return picture


class ValueChips(QStyledItemDelegate):
    """Paints those cells as chips that :func:`set_chip` marked."""

    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes, self._view = themes, parent

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        hint = super().sizeHint(option, index)
        return QSize(hint.width(), max(hint.height(), _HEIGHT + 6))

    def initStyleOption(self, option: QStyleOptionViewItem | None, index: QModelIndex) -> None:
        """Paths and names are cut in the middle, as the list says; a sentence is read from its beginning."""
        super().initStyleOption(option, index)
        if option is not None and " " in (option.text or "") and "/" not in (option.text or ""):
            option.textElideMode = Qt.TextElideMode.ElideRight

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        kind = index.data(_KIND)
        if painter is None or not kind:
            super().paint(painter, option, index)
            return
        bare = QStyleOptionViewItem(option)
        self.initStyleOption(bare, index)
        text, bare.text = bare.text or "", ""
        style = self._view.style()
        if style is not None:
            style.drawControl(style.ControlElement.CE_ItemViewItem, bare, painter, self._view)
        self._paint_chip(painter, option, text, kind, index.data(_COLOUR))

    def _paint_chip(
        self, painter: QPainter, option: QStyleOptionViewItem, text: str, kind: str, curve: int | None
    ) -> None:
        theme = self._themes.theme
        metrics = option.fontMetrics
        room = option.rect.width() - 2 * _PADDING - 8
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, max(0, room))
        width = metrics.horizontalAdvance(shown) + 2 * _PADDING
        rect = QRectF(option.rect.left() + 4.5, option.rect.center().y() - _HEIGHT / 2 + 0.5, width, _HEIGHT)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if kind == FILLED:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(_tint(theme, curve))
        else:
            painter.setPen(QPen(theme.colour("strong_border"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect, _RADIUS, _RADIUS)
        painter.setPen(theme.colour("text"))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, shown)
        painter.restore()


def _tint(theme: Theme, curve: int | None) -> QColor:
    colour = QColor(theme.curve(curve) if curve is not None else theme.colour("accent"))
    colour.setAlphaF(_TINT)
    return colour
