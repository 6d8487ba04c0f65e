"""A row of tools in two halves, which stand above each other where there is no room for both in one row."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QSize
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

_MARGIN, _SPACING = 10, 6


class FoldingBar(QWidget):
    """Never asks for more width than its wider half needs. Beside each other the right half has all that it wants, and
    the left one shrinks."""

    def __init__(self, left: QWidget, right: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._left, self._right = left, right
        self._layout = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._layout.setContentsMargins(_MARGIN, _SPACING, _MARGIN, _SPACING)
        self._layout.setSpacing(_SPACING)
        right.setSizePolicy(QSizePolicy.Policy.Minimum, right.sizePolicy().verticalPolicy())
        self._layout.addWidget(left, 1)
        self._layout.addWidget(right)

    @property
    def is_folded(self) -> bool:
        return self._layout.direction() == QBoxLayout.Direction.TopToBottom

    def minimumSizeHint(self) -> QSize:
        widest = max(self._left.minimumSizeHint().width(), self._right.minimumSizeHint().width())
        return QSize(widest + 2 * _MARGIN, self._layout.minimumSize().height())

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        self._fold_if_needed()
        super().resizeEvent(event)

    def event(self, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.LayoutRequest:
            self._fold_if_needed()
        return super().event(event)

    def _fold_if_needed(self) -> None:
        needed = self._left.minimumSizeHint().width() + self._right.sizeHint().width()
        room = self.width() - 2 * _MARGIN - _SPACING
        directions = QBoxLayout.Direction
        direction = directions.LeftToRight if needed <= room else directions.TopToBottom
        if direction != self._layout.direction():
            self._layout.setDirection(direction)
            self.updateGeometry()
