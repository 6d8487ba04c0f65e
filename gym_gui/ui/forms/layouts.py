"""How a form is laid out: sections that can be folded, in two columns where there is room for two."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

TWO_COLUMNS_FROM = 720


class Section(QFrame):
    """A titled part of a form. A click on its title folds it; ``folded(bool)`` follows."""

    folded = pyqtSignal(bool)

    def __init__(self, title: str, parent: QWidget | None = None, *, open_: bool = True) -> None:
        super().__init__(parent)
        self.title = title
        self.setProperty("role", "card")
        self.header = QToolButton()
        self.header.setText(title.replace("&", "&&"))
        self.header.setCheckable(True)
        self.header.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.header.setStyleSheet("QToolButton { font-weight: 600; background: transparent; padding: 2px; }")
        self.header.setAccessibleName(title)
        self.header.setToolTip(self.tr("Fold or unfold this part; what is set in it counts either way"))
        self.header.toggled.connect(self._toggled)
        self._aside = QHBoxLayout()
        top = QHBoxLayout()
        top.setContentsMargins(0, 0, 0, 0)
        top.addWidget(self.header)
        top.addStretch(1)
        top.addLayout(self._aside)
        self.body = QWidget()
        self.rows = QVBoxLayout(self.body)
        self.rows.setContentsMargins(4, 2, 4, 2)
        self.rows.setSpacing(8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 10)
        layout.setSpacing(6)
        layout.addLayout(top)
        layout.addWidget(self.body)
        self.header.setChecked(open_)
        self._toggled(open_)

    def add(self, *widgets: QWidget) -> None:
        for widget in widgets:
            self.rows.addWidget(widget)

    def add_aside(self, widget: QWidget) -> None:
        """Put something small to the right of the title."""
        self._aside.addWidget(widget)

    def set_open(self, is_open: bool) -> None:
        self.header.setChecked(is_open)

    @property
    def is_open(self) -> bool:
        return self.header.isChecked()

    def _toggled(self, is_open: bool) -> None:
        self.header.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self.body.setVisible(is_open)
        self.folded.emit(not is_open)


class Columns(QWidget):
    """Two columns side by side, or one above the other where the form is narrow."""

    def __init__(self, left: Sequence[QWidget], right: Sequence[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(10)
        for widgets in (left, right):
            column = QWidget()
            stack = QVBoxLayout(column)
            stack.setContentsMargins(0, 0, 0, 0)
            stack.setSpacing(10)
            for widget in widgets:
                stack.addWidget(widget)
            stack.addStretch(1)
            self._row.addWidget(column, 1)

    @property
    def count(self) -> int:
        return 2 if self._row.direction() == QBoxLayout.Direction.LeftToRight else 1

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        wide = self.width() >= TWO_COLUMNS_FROM
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        if direction != self._row.direction():
            self._row.setDirection(direction)
