"""Asks in its place, without blocking anything, whether to go on, and names the runs that it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PyQt6 import sip
from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QApplication, QFrame, QGridLayout, QLabel, QLineEdit, QPushButton, QSizePolicy, QWidget

_MOST_NAMES, _LONGEST_NAME = 6, 40


class AskBar(QFrame):
    """Escape or the second button closes it and changes nothing; ``closed()`` follows either way."""

    closed = pyqtSignal()

    def __init__(self, middle: QWidget | None = None, parent: QWidget | None = None, *, harmless: bool = False) -> None:
        """``middle``: something to fill in, between the question and its buttons. ``harmless``: to go on takes nothing
        from anybody; then the button says so by its colour, and Return in what is filled in goes on."""
        super().__init__(parent)
        self.setProperty("role", "banner")
        self._act: Callable[[], object] | None = None
        self._asked_from: QWidget | None = None
        self.question, self.names = QLabel(), QLabel()
        self.question.setStyleSheet("font-weight: 600;")
        self.names.setProperty("role", "muted")
        for label in (self.question, self.names):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
        self.confirm, self.keep = QPushButton(self.tr("Go on")), QPushButton(self.tr("Keep"))
        self.confirm.setProperty("kind", "primary" if harmless else "danger")
        self.confirm.setToolTip(self.tr("Do what is asked about"))
        self.confirm.clicked.connect(self._confirm)
        if harmless and isinstance(middle, QLineEdit):
            middle.returnPressed.connect(self.confirm.click)
        self.keep.setProperty("kind", "flat")
        self.keep.setToolTip(self.tr("Close this and change nothing"))
        self.keep.clicked.connect(self.close_panel)
        layout = QGridLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.setVerticalSpacing(4)
        layout.addWidget(self.question, 0, 0, 1, 3)
        layout.addWidget(self.names, 1, 0, 1, 3)
        for column, widget in enumerate((middle or QWidget(), self.confirm, self.keep)):
            layout.addWidget(widget, 2, column)
        layout.setColumnStretch(0, 1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.hide()

    def ask(
        self,
        question: str,
        names: Sequence[str],
        answers: tuple[str, str],
        help_text: str,
        act: Callable[[], object],
    ) -> None:
        """Show the question; ``answers``: to go on, to keep things as they are. ``act`` is called for the first."""
        self._act = act
        if not self.isAncestorOf(had_focus := QApplication.focusWidget()):
            self._asked_from = had_focus
        self.question.setText(question)
        shown = [
            name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names[:_MOST_NAMES]
        ]
        more = len(names) - len(shown)
        text = ", ".join(shown)
        self.names.setText(self.tr("{names} and {more} more").format(names=text, more=more) if more else text)
        self.names.setToolTip("\n".join(names[:30]))
        self.names.setVisible(bool(names))
        self.confirm.setText(answers[0])
        self.confirm.setToolTip(help_text)
        self.keep.setText(answers[1])
        self.show()
        self.keep.setFocus(Qt.FocusReason.OtherFocusReason)

    def close_panel(self) -> None:
        """Whoever was asked by keyboard goes on where that was: left to itself the focus falls on any field nearby."""
        self._act = None
        before, self._asked_from = self._asked_from, None
        had_focus = self.isAncestorOf(QApplication.focusWidget())
        self.hide()
        if had_focus and before is not None and not sip.isdeleted(before) and before.isVisible():
            before.setFocus(Qt.FocusReason.OtherFocusReason)
        self.closed.emit()

    def _confirm(self) -> None:
        act = self._act
        if act is not None:
            self.close_panel()
            act()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.close_panel()
        else:
            super().keyPressEvent(event)
