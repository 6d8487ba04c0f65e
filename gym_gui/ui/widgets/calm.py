"""Combo boxes, spin boxes and sliders that the wheel passes over: scrolling a form must not change what is in it.

The wheel goes on to what scrolls around them. A combo box never follows it, focused or not: its list does, when open.
"""

from __future__ import annotations

from PyQt6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PyQt6.QtGui import QPaintEvent, QWheelEvent
from PyQt6.QtWidgets import QComboBox, QSlider, QSpinBox, QStyle, QStyleOptionComboBox, QStylePainter, QWidget

_LABEL_MARGIN = 4
"""That styles leave around the text of a combo box."""


class CalmCombo(QComboBox):
    """The wheel never chooses. What has no room is cut with an ellipsis, not in the middle of a letter."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # the usual one takes the focus by the wheel

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        if event is not None:
            event.ignore()

    def sizeHint(self) -> QSize:
        """With the margin of the label, which the style's own hint leaves out: else the longest word would be cut."""
        return super().sizeHint().grownBy(QMargins(0, 0, _LABEL_MARGIN, 0))

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if self.isEditable():
            super().paintEvent(event)
            return
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        option.currentText = self.shown_text()
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)

    def shown_text(self) -> str:
        """What is chosen, as far as there is room."""
        room = self.room_for_words(self.size())
        return self.fontMetrics().elidedText(self.currentText(), Qt.TextElideMode.ElideRight, room)

    def room_for_words(self, size: QSize) -> int:
        """How wide a choice may be in a combo box of this size without being cut."""
        style, option = self.style(), QStyleOptionComboBox()
        assert style is not None
        self.initStyleOption(option)
        option.rect = QRect(QPoint(0, 0), size)
        part = QStyle.SubControl.SC_ComboBoxEditField
        return style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self).width() - _LABEL_MARGIN


class CalmSpinBox(QSpinBox):
    """Follows the wheel only while it has the focus."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        if event is not None and not self.hasFocus():
            event.ignore()
        else:
            super().wheelEvent(event)


class CalmSlider(QSlider):
    """Follows the wheel only while it has the focus."""

    def __init__(self, orientation: Qt.Orientation, parent: QWidget | None = None) -> None:
        super().__init__(orientation, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        if event is not None and not self.hasFocus():
            event.ignore()
        else:
            super().wheelEvent(event)
