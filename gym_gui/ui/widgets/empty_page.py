"""What is shown where there is nothing to show: why, and what to do next."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

_WIDEST_TEXT = 620
"""About ninety letters: the eye finds the next line."""


class EmptyPage(QWidget):
    """A title, a sentence, and at most one button; ``acted()`` when it was pressed."""

    acted = pyqtSignal()

    def __init__(self, title: str = "", text: str = "", action: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title, self.text, self.button = QLabel(), QLabel(), QPushButton()
        self.title.setProperty("role", "title")
        self.text.setProperty("role", "muted")
        self.text.setMaximumWidth(_WIDEST_TEXT)
        self.button.setProperty("kind", "primary")
        self.button.clicked.connect(self.acted)
        for label in (self.title, self.text):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            label.setWordWrap(True)
        row = QHBoxLayout()
        row.addStretch()
        row.addWidget(self.button)
        row.addStretch()
        middle = QHBoxLayout()
        middle.addStretch()
        middle.addWidget(self.text, 1)
        middle.addStretch()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 12, 24, 12)
        layout.setSpacing(8)
        layout.addStretch()
        layout.addWidget(self.title)
        layout.addLayout(middle)
        layout.addLayout(row)
        layout.addStretch()
        self.tell(title, text, action)

    def tell(self, title: str, text: str, action: str = "") -> None:
        self.title.setText(title)
        self.text.setText(text)
        self.button.setText(action)
        self.button.setToolTip(text)
        self.button.setVisible(bool(action))
