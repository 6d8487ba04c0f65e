"""Roles of widgets are properties that the style sheet looks at once, when it is told to again here."""

from __future__ import annotations

from PyQt6.QtWidgets import QWidget


def restyle(widget: QWidget) -> None:
    """Have the style sheet applied to a widget whose role has changed."""
    style = widget.style()
    if style is not None:
        style.unpolish(widget)
        style.polish(widget)
