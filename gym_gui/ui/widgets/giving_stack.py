"""Pages that give way to what is asked above them."""

from __future__ import annotations

from PyQt6.QtCore import QSize
from PyQt6.QtWidgets import QStackedWidget

_LEAST_HEIGHT = 24


class GivingStack(QStackedWidget):
    """Likes as much room as its pages, and asks for next to none.

    A question that unfolds in a dock takes room from the pages; it would otherwise make the dock higher, and Qt does
    not make it lower again when the question is answered.
    """

    def minimumSizeHint(self) -> QSize:
        return QSize(super().minimumSizeHint().width(), _LEAST_HEIGHT)
