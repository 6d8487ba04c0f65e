"""A list of entries with a heading and lines below it: intentions, plans that were considered, messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PyQt6.QtCore import QAbstractListModel, QModelIndex, QObject, QRectF, QSize, Qt
from PyQt6.QtGui import QFont, QFontDatabase, QFontMetricsF, QPainter, QPen, QResizeEvent
from PyQt6.QtWidgets import QAbstractItemView, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gym_gui.ui.mind.entries import Entry
from gym_gui.ui.theme import Theme, Themes

_NOWHERE = QModelIndex()
ENTRY = Qt.ItemDataRole.UserRole
_PAD, _GAP, _BAR = 8.0, 2.0, 3.0
_WRAPPED = Qt.TextFlag.TextWordWrap.value
_TOO_MUCH = 10_000.0


class _Entries(QAbstractListModel):
    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.entries: list[Entry] = []

    def show(self, entries: list[Entry]) -> None:
        if len(entries) == len(self.entries):
            self.entries = entries
            if entries:
                self.dataChanged.emit(self.index(0), self.index(len(entries) - 1))
            return
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def rowCount(self, parent: QModelIndex = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self.entries[index.row()]
        if role == ENTRY:
            return entry
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            return entry.spoken
        return entry.title if role == Qt.ItemDataRole.DisplayRole else None


class _Painter(QStyledItemDelegate):
    def __init__(self, view: EntryList, themes: Themes) -> None:
        super().__init__(view)
        self._view, self._themes = view, themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        width = self._view.room
        return QSize(width, int(self._heights(index.data(ENTRY), width)[-1] + 2 * _PAD - 2))

    def _heights(self, entry: Entry, width: float) -> list[float]:
        """Where each part ends."""
        ends = [QFontMetricsF(self._bold(entry)).height()]
        for text, font in ((entry.code, self._code), (entry.text, self._view.font())):
            high = _text_height(text, font, width - 2 * _PAD - _BAR) + _GAP if text else 0.0
            ends.append(ends[-1] + high)
        return ends

    def _bold(self, entry: Entry) -> QFont:
        font = QFont(self._view.font())
        font.setWeight(QFont.Weight.DemiBold if entry.strong else QFont.Weight.Normal)
        return font

    @property
    def _code(self) -> QFont:
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        size = self._view.font().pixelSize()
        font.setPixelSize(size - 1) if size > 0 else font.setPointSizeF(self._view.font().pointSizeF() * 0.92)
        return font

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        if painter is None:
            return
        entry, theme = index.data(ENTRY), self._themes.theme
        room = QRectF(option.rect)
        painter.save()
        painter.setClipRect(room)
        if option.state & QStyle.StateFlag.State_HasFocus and self._view.hasFocus():
            painter.fillRect(room, theme.colour("selection"))
        painter.setPen(QPen(theme.colour("border"), 1))
        painter.drawLine(room.bottomLeft(), room.bottomRight())
        if entry.colour:
            painter.fillRect(QRectF(room.left(), room.top() + 4, _BAR, room.height() - 9), theme.colour(entry.colour))
        self._paint_words(painter, theme, entry, room)
        painter.restore()

    def _paint_words(self, painter: QPainter, theme: Theme, entry: Entry, room: QRectF) -> None:
        inside = room.adjusted(_PAD + _BAR, _PAD - 2, -_PAD, 0)
        ends = self._heights(entry, room.width())
        font = self._view.font()
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        aside = min(metrics.horizontalAdvance(entry.aside) + 1, inside.width() * 0.6) if entry.aside else 0.0
        right, left = Qt.AlignmentFlag.AlignRight, Qt.AlignmentFlag.AlignLeft
        elide = Qt.TextElideMode.ElideRight
        painter.setPen(theme.colour(entry.aside_colour))
        line = QRectF(inside.left(), inside.top(), inside.width(), ends[0])
        painter.drawText(line, right, metrics.elidedText(entry.aside, elide, aside))
        bold = self._bold(entry)
        painter.setFont(bold)
        painter.setPen(theme.colour("text"))
        title = QFontMetricsF(bold).elidedText(entry.title, elide, inside.width() - aside - (8 if aside else 0))
        painter.drawText(line, left, title)
        for text, top, end, ink, writing in (
            (entry.code, ends[0], ends[1], "text", self._code),
            (entry.text, ends[1], ends[2], "muted", font),
        ):
            if text:
                painter.setFont(writing)
                painter.setPen(theme.colour(ink))
                painter.drawText(
                    QRectF(inside.left(), inside.top() + top + _GAP, inside.width(), end - top),
                    left.value | _WRAPPED,
                    text,
                )


def _text_height(text: str, font: QFont, width: float) -> float:
    return QFontMetricsF(font).boundingRect(QRectF(0, 0, max(20.0, width), _TOO_MUCH), _WRAPPED, text).height()


class EntryList(QListView):
    """Entries from above; with the keyboard one is looked at after the other. A ``whole`` list is as high as its
    entries, for a column that scrolls."""

    def __init__(self, themes: Themes, parent: QWidget | None = None, *, whole: bool = False) -> None:
        super().__init__(parent)
        self._whole = whole
        self._entries = _Entries(self)
        self.setModel(self._entries)
        self.setItemDelegate(_Painter(self, themes))
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setTabKeyNavigation(False)
        self.setStyleSheet("QListView { background: transparent; }")
        themes.changed.connect(self._repaint)

    @property
    def entries(self) -> list[Entry]:
        return self._entries.entries

    @property
    def room(self) -> int:
        """How wide an entry is."""
        port = self.viewport()
        return port.width() if port is not None else self.width()

    def show_entries(self, entries: Sequence[Entry]) -> None:
        if list(entries) != self.entries:
            self._entries.show(list(entries))
            self._take_room()

    def _take_room(self) -> None:
        if self._whole:
            self.setFixedHeight(self.content_height())

    def content_height(self) -> int:
        """Of all entries together."""
        heights = (self.sizeHintForIndex(self._entries.index(row)).height() for row in range(len(self.entries)))
        return sum(heights) + 2 * self.frameWidth()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()  # lines are broken for another width
        self._take_room()

    def minimumSizeHint(self) -> QSize:
        return QSize(100, 40)

    def _repaint(self, *_: object) -> None:
        port = self.viewport()
        if port is not None:
            port.update()
