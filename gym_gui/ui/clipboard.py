"""The clipboard, which a platform may not have."""

from __future__ import annotations

from PyQt6.QtGui import QGuiApplication


def copy_text(text: str) -> bool:
    """Put text into the clipboard; False where there is none."""
    clipboard = QGuiApplication.clipboard()
    if clipboard is None:
        return False
    clipboard.setText(text)
    return True
