"""Suggestions below a line that get out of the way in time."""

from __future__ import annotations

from PyQt6.QtCore import QTimer
from PyQt6.QtWidgets import QCompleter, QLineEdit


def close_when_complete(line: QLineEdit, completer: QCompleter) -> None:
    """Have the list go once it offers nothing but what stands there already: it would take the next click, which is
    meant for a button."""

    def look() -> None:
        popup = completer.popup()
        if popup is not None and completer.completionCount() == 1 and completer.currentCompletion() == line.text():
            popup.hide()

    soon = QTimer(line)  # the list opens after the text has changed
    soon.setSingleShot(True)
    soon.timeout.connect(look)
    line.textEdited.connect(lambda _: soon.start(0))
