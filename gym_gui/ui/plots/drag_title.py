"""The title of a chart, by which it is dragged to another place."""

from __future__ import annotations

from PyQt6.QtCore import QMimeData, QPoint, Qt
from PyQt6.QtGui import QDrag, QMouseEvent
from PyQt6.QtWidgets import QApplication, QLabel, QWidget

CHART = "application/x-mosaic-chart"
_MOST_PIXELS = 320


class DragTitle(QLabel):
    """Carries ``tag`` under the mouse, with a small picture of its card."""

    def __init__(self, text: str, tag: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._tag = tag
        self._pressed: QPoint | None = None
        self.can_move = False

    def let_move(self) -> None:
        self.can_move = True
        self.setCursor(Qt.CursorShape.OpenHandCursor)

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is not None and self.can_move and event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position().toPoint()
        super().mousePressEvent(event)  # ignored: the card takes the focus

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        if event is None or self._pressed is None:
            return
        far = (event.position().toPoint() - self._pressed).manhattanLength()
        if far >= QApplication.startDragDistance():
            self._pressed = None
            self._drag()

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:
        self._pressed = None
        super().mouseReleaseEvent(event)

    def _drag(self) -> None:
        drag, data, card = QDrag(self), QMimeData(), self.parentWidget()
        data.setData(CHART, self._tag.encode())
        drag.setMimeData(data)
        if card is not None:
            drag.setPixmap(card.grab().scaledToWidth(min(_MOST_PIXELS, card.width())))
        drag.exec(Qt.DropAction.MoveAction)
