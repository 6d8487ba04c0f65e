"""What a designer would circle: words that do not fit where they stand, and parts that lie over each other."""

from __future__ import annotations

from PyQt6.QtCore import QRect, Qt
from PyQt6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QDockWidget,
    QLabel,
    QLineEdit,
    QMainWindow,
    QPushButton,
    QSplitter,
    QStyle,
    QStyleOptionButton,
    QStyleOptionComboBox,
    QWidget,
)

from gym_gui.ui.widgets.calm import CalmCombo

_SLACK = 2
_FLOATING = ("floating",)


def misfits(widget: QWidget) -> list[str]:
    """What is wrong with a widget that can be seen, in words; mostly nothing."""
    found = []
    if isinstance(widget, QLabel):
        found += _of_label(widget)
    elif isinstance(widget, QAbstractButton):
        found += _of_button(widget)
    elif isinstance(widget, QComboBox):
        found += _of_combo(widget)
    elif isinstance(widget, QLineEdit):
        found += _of_line(widget)
    elif isinstance(widget, QDockWidget):
        found += _of_dock(widget)
    return [*found, *_overlaps(widget)]


def _of_dock(dock: QDockWidget) -> list[str]:
    """A dock that needs more height than there is grows out of the window, over the status line."""
    window = dock.parentWidget()
    bar = window.statusBar() if isinstance(window, QMainWindow) and not dock.isFloating() else None
    below = dock.geometry().bottom() - bar.geometry().top() if bar is not None and bar.isVisible() else 0
    return [f"it lies over the status line ({below} px)"] if below > _SLACK else []


def _of_label(label: QLabel) -> list[str]:
    if not label.text() or type(label).__name__.startswith("Elided"):
        return []
    if label.wordWrap():
        needed = label.heightForWidth(label.width())
        return [f"{needed - label.height()} px of its lines are cut off"] if needed > label.height() + _SLACK else []
    needed = label.sizeHint().width()
    return [f"{needed - label.width()} px of its words are cut off"] if needed > label.width() + _SLACK else []


def _of_button(button: QAbstractButton) -> list[str]:
    text = button.text().replace("&", "")
    over = button.fontMetrics().horizontalAdvance(text) - _room_for_words(button)
    if text and over > 0:
        return [f"{over} px of its words are cut off"]
    hint = button.minimumSizeHint().height()
    return [f"{hint - button.height()} px too low"] if text and hint > button.height() + _SLACK else []


def _room_for_words(button: QAbstractButton) -> int:
    """Without the padding that the looks give to a push button, into which words are not painted."""
    style = button.style()
    if style is None or not isinstance(button, QPushButton):
        return button.width() - 4
    option = QStyleOptionButton()
    option.initFrom(button)
    return style.subElementRect(QStyle.SubElement.SE_PushButtonContents, option, button).width()


def _of_combo(combo: QComboBox) -> list[str]:
    over = combo.fontMetrics().horizontalAdvance(combo.currentText()) - _room_for_choice(combo)
    return [f"{over} px of its choice are cut off"] if over > 0 and not combo.isEditable() else []


def _room_for_choice(combo: QComboBox) -> int:
    """A calm combo box leaves a margin beside its words, and cuts them itself."""
    if isinstance(combo, CalmCombo):
        return combo.room_for_words(combo.size())
    option = QStyleOptionComboBox()
    option.initFrom(combo)  # Qt keeps the fuller way to itself for combos that it made
    style = combo.style()
    assert style is not None
    part = QStyle.SubControl.SC_ComboBoxEditField
    room: QRect = style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, combo)
    return room.width() + _SLACK


def _of_line(line: QLineEdit) -> list[str]:
    if line.text() or not line.placeholderText():
        return []
    over = line.fontMetrics().horizontalAdvance(line.placeholderText()) - line.width() + 8
    return [f"{over} px of its hint are cut off"] if over > _SLACK else []


def _overlaps(widget: QWidget) -> list[str]:
    """Which of the siblings after it lies over it. Cards that float, and layers with no own surface, may."""
    parent = widget.parentWidget()
    layout = parent.layout() if parent is not None else None
    if parent is None or layout is None or layout.indexOf(widget) < 0 or isinstance(parent, QSplitter):
        return []
    found = []
    for other in parent.children():
        if not isinstance(other, QWidget) or other is widget or not other.isVisible() or other.isWindow():
            continue
        if layout.indexOf(other) <= layout.indexOf(widget) or other.testAttribute(_THROUGH):
            continue
        both = widget.geometry() & other.geometry()
        if both.width() > _SLACK and both.height() > _SLACK:
            found.append(f"{type(other).__name__} lies over it ({both.width()}x{both.height()} px)")
    return found


_THROUGH = Qt.WidgetAttribute.WA_TransparentForMouseEvents
