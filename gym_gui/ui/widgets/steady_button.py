"""A button for what is done to runs: it keeps the focus when it cannot be used for a while, and a double click is one.

Qt hands the focus of a disabled button to its neighbour: then the second press of a key that meant Pause is Cancel's.
And it takes a double click for two clicks, of which the second comes when the first may have been answered already.
"""

from __future__ import annotations

from PyQt6.QtGui import QFocusEvent, QMouseEvent
from PyQt6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QWidget


class SteadyButton(QPushButton):
    """Greyed with :meth:`set_usable`, and disabled only when the focus has left it.

    A greyed button that has the focus can still be pressed: what it is connected to checks whether it applies.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.usable = True

    def set_usable(self, usable: bool) -> None:
        self.usable = usable
        self.setEnabled(usable or self.hasFocus())
        self.update()

    def mouseDoubleClickEvent(self, event: QMouseEvent | None) -> None:
        """The second press of a double click; without it the release that follows is no click."""
        if event is not None:
            event.accept()

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        super().focusOutEvent(event)
        self.setEnabled(self.usable)

    def initStyleOption(self, option: QStyleOptionButton | None) -> None:
        super().initStyleOption(option)
        if option is not None and not self.usable:
            option.state &= ~QStyle.StateFlag.State_Enabled
