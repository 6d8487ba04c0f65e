"""Asks, in the form and without blocking anything, before a script runs that is not a worker's own."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QFontDatabase, QKeyEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.script_consent import ForeignScript

_LEAST_ROWS = 2


class ConsentPanel(QFrame):
    """Shows the file and the command; Escape or *Not now* starts nothing. ``asking(bool)`` when it comes and goes."""

    asking = pyqtSignal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self._allow: Callable[[], object] | None = None
        self._refuse: Callable[[], object] | None = None
        self.question, self.why, self.file = QLabel(), QLabel(), QLabel()
        self.question.setStyleSheet("font-weight: 600;")
        self.why.setText(self.tr("It is new here, and may do on this machine whatever you may."))
        self.why.setToolTip(self.tr("A file that was changed is another one, and is asked about again"))
        self.file.setProperty("role", "muted")
        self.file.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.command = QPlainTextEdit()
        self.command.setReadOnly(True)
        self.command.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.command.setTabChangesFocus(True)
        self.command.setAccessibleName(self.tr("Command that would run"))
        self.command.setToolTip(self.tr("What would be started on this machine"))
        self.command.setMinimumHeight(_LEAST_ROWS * self.command.fontMetrics().lineSpacing() + 18)
        self.allow_button = QPushButton(self.tr("Allow and launch"))
        self.allow_button.setProperty("kind", "primary")
        self.allow_button.setToolTip(self.tr("Remember this file by its hash, and start the run"))
        self.allow_button.clicked.connect(lambda: self._close_with(self._allow))
        self.refuse_button = QPushButton(self.tr("Not now"))
        self.refuse_button.setToolTip(self.tr("Start nothing"))
        self.refuse_button.clicked.connect(lambda: self._close_with(self._refuse))
        buttons = QHBoxLayout()
        buttons.addWidget(self.allow_button)
        buttons.addWidget(self.refuse_button)
        buttons.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.setSpacing(6)
        for label in (self.question, self.why, self.file):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            layout.addWidget(label)
        layout.addWidget(self.command, 1)
        layout.addLayout(buttons)
        self.hide()

    def ask(self, script: ForeignScript, allow: Callable[[], object], refuse: Callable[[], object]) -> None:
        """Ask about a script; one of the two is called, once."""
        self._allow, self._refuse = allow, refuse
        self.question.setText(self.tr("Run {name}?").format(name=_breakable(script.file.name)))
        self.file.setText(f"sha256 {script.short_hash}…")
        self.file.setToolTip(str(script.file))
        self.command.setPlainText(script.command)
        self.show()
        self.asking.emit(True)
        self.refuse_button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _close_with(self, act: Callable[[], object] | None) -> None:
        self._allow = self._refuse = None
        self.hide()
        self.asking.emit(False)
        if act is not None:
            act()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self._close_with(self._refuse)
        else:
            super().keyPressEvent(event)


def _breakable(name: str) -> str:
    """A file's name has no spaces to wrap at: behind each of its parts there is room for a break."""
    for mark in "_-":
        name = name.replace(mark, f"{mark}\u200b")
    return name
