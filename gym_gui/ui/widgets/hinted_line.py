"""A line to type into, whose hint fits the room that there is."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QFocusEvent, QResizeEvent
from PyQt6.QtWidgets import QLineEdit, QWidget

_AROUND = 20
_FOR_A_MOMENT = (Qt.FocusReason.PopupFocusReason, Qt.FocusReason.ActiveWindowFocusReason)


class HintedLine(QLineEdit):
    """Shows the first of its hints that is not cut, from the longest to the shortest, or the last one; and of an entry
    that is too long the beginning, once the keyboard is elsewhere."""

    def __init__(self, hints: Sequence[str], text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.home(False)
        self.set_hints(hints)

    def set_hints(self, hints: Sequence[str]) -> None:
        self._hints = tuple(hints)
        self._fit()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._fit()

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        super().focusOutEvent(event)
        if event is not None and event.reason() not in _FOR_A_MOMENT:
            self.home(False)

    def _fit(self) -> None:
        room, measure = self.width() - _AROUND, self.fontMetrics().horizontalAdvance
        self.setPlaceholderText(next((hint for hint in self._hints if measure(hint) <= room), self._hints[-1]))
