"""A line across the top of a panel that says something about all of it, with at most one thing to do."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget


class Banner(QFrame):
    """Hidden while it has nothing to say. ``acted()`` when its button was pressed."""

    acted = pyqtSignal()

    def __init__(self, role: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self.label = QLabel()
        self.label.setProperty("role", role)
        self.label.setWordWrap(True)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.button = QPushButton()
        self.button.setProperty("kind", "flat")
        self.button.clicked.connect(self.acted)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 4, 6, 4)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.hide()

    def say(self, text: str, action: str = "", tooltip: str = "") -> None:
        """Say this, or with "" nothing."""
        self.label.setText(text)
        self.button.setText(action)
        self.button.setToolTip(tooltip)
        self.button.setVisible(bool(action))
        self.setVisible(bool(text))
