"""Combo boxes, spin boxes and sliders that the wheel passes over: scrolling a form must not change what is in it.

The wheel goes on to what scrolls around them. A combo box never follows it, focused or not: its list does, when open.
"""

from __future__ import annotations

from PyQt6.QtCore import Qt
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

    def paintEvent(self, event: QPaintEvent | None) -> None:
        style = self.style()
        if self.isEditable() or style is None:
            super().paintEvent(event)
            return
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        parts = QStyle.SubControl
        room = style.subControlRect(QStyle.ComplexControl.CC_ComboBox, option, parts.SC_ComboBoxEditField, self)
        cut = Qt.TextElideMode.ElideRight
        option.currentText = self.fontMetrics().elidedText(self.currentText(), cut, room.width() - _LABEL_MARGIN)
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)


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
