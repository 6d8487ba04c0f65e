"""A place to type a key: hidden letters, what is wrong with it said below, and nothing of it kept in the widget."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from mosaic_protocol.wandb_keys import why_not_a_key


class KeyPrompt(QFrame):
    """Hidden until :meth:`ask`. ``entered(str)`` brings a key that looks like one; Return and Esc work as expected."""

    entered = pyqtSignal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self.why = QLabel()
        self.why.setWordWrap(True)
        self.why.setTextFormat(Qt.TextFormat.PlainText)
        self.field = QLineEdit()
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setPlaceholderText(self.tr("Key"))
        self.field.setAccessibleName(self.tr("Key for Weights & Biases"))
        self.field.setToolTip(self.tr("Kept in the keyring, or in memory where there is none; never in a file"))
        self.field.returnPressed.connect(self._enter)
        self.field.textEdited.connect(lambda _: self.complain(""))
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "error")
        self.problem.hide()
        self.keep = QPushButton(self.tr("Keep"))
        self.keep.setProperty("kind", "primary")
        self.keep.setToolTip(self.tr("Keep the key for uploads; runs are not affected"))
        self.keep.clicked.connect(self._enter)
        self.cancel = QPushButton(self.tr("Cancel"))
        self.cancel.setToolTip(self.tr("Type no key (Esc)"))
        self.cancel.clicked.connect(self.close_prompt)
        row = QHBoxLayout()
        row.addWidget(self.field, 1)
        row.addWidget(self.keep)
        row.addWidget(self.cancel)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.addWidget(self.why)
        layout.addLayout(row)
        layout.addWidget(self.problem)
        self.hide()

    def ask(self, why: str) -> None:
        self.why.setText(why)
        self.complain("")
        self.show()
        self.field.setFocus()

    def complain(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))

    def close_prompt(self) -> None:
        """What was typed is gone."""
        self.field.clear()
        self.hide()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.close_prompt()
            return
        super().keyPressEvent(event)

    def _enter(self) -> None:
        typed = self.field.text().strip()
        if problem := why_not_a_key(typed):
            self.complain(problem)
            return
        self.close_prompt()
        self.entered.emit(typed)
