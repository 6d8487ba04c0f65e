"""A line to type into, whose hint fits the room that there is."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QLineEdit, QWidget

_AROUND = 20


class HintedLine(QLineEdit):
    """Shows the first of its hints that is not cut, from the longest to the shortest, or the last one."""

    def __init__(self, hints: Sequence[str], text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._hints = tuple(hints)
        self.setPlaceholderText(self._hints[0])

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        room, measure = self.width() - _AROUND, self.fontMetrics().horizontalAdvance
        self.setPlaceholderText(next((hint for hint in self._hints if measure(hint) <= room), self._hints[-1]))
