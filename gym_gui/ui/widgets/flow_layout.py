"""Widgets one after the other, in as many lines as it takes."""

from __future__ import annotations

from PyQt6.QtCore import QPoint, QRect, QSize, Qt
from PyQt6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """From left to right; what does not fit begins the next line."""

    def __init__(self, parent: QWidget | None = None, spacing: int = 6) -> None:
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem | None) -> None:
        assert item is not None
        self._items.append(item)

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def sizeHint(self) -> QSize:
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        widest = QSize()
        for item in self._items:
            widest = widest.expandedTo(item.minimumSize())
        return widest

    def _arrange(self, rect: QRect, *, move: bool) -> int:
        """The height that it takes. What is lower than its line stands in the middle of it."""
        y = rect.top()
        for line in self._lines(rect.width()):
            tall = max(size.height() for _, size in line)
            x = rect.left()
            for item, size in line:
                if move:
                    room = QSize(min(size.width(), rect.width()), size.height())
                    item.setGeometry(QRect(QPoint(x, y + (tall - size.height()) // 2), room))
                x += size.width() + self.spacing()
            y += tall + self.spacing()
        return max(0, y - self.spacing() - rect.top())

    def _lines(self, width: int) -> list[list[tuple[QLayoutItem, QSize]]]:
        lines: list[list[tuple[QLayoutItem, QSize]]] = []
        used = 0
        for item in self._items:
            size = item.sizeHint()
            if not lines or used + size.width() > width:
                lines.append([])
                used = 0
            lines[-1].append((item, size))
            used += size.width() + self.spacing()
        return lines
