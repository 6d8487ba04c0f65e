"""Roles of widgets are properties. A style sheet reads them once; the functions here make it read them again."""

from __future__ import annotations

from PyQt6.QtWidgets import QComboBox, QLabel, QWidget


def set_style_property(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet goes by; nothing happens when it has that value already."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    style = widget.style()
    if style is not None:
        style.unpolish(widget)
        style.polish(widget)


def tell(label: QLabel, sentence: str, role: str) -> None:
    """Show a sentence in a role's colour, or with "" nothing."""
    set_style_property(label, "role", role)
    label.setText(sentence)
    label.setVisible(bool(sentence))


def let_shrink(combo: QComboBox, letters: int = 6) -> None:
    """A combo box as wide as there is room, for so many letters at least, and not as its longest choice."""
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    combo.setMinimumContentsLength(letters)
