"""Asks, in its place and without blocking anything, why runs are to be cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QLabel, QLineEdit, QPushButton, QWidget

_LONGEST_REASON = 500


class CancelPanel(QFrame):
    """``confirmed(run_ids, reason)`` when the person is sure. Escape or "Keep" closes it and changes nothing."""

    confirmed = pyqtSignal(list, str)
    closed = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "banner")
        self.run_ids: list[str] = []
        self._question = QLabel()
        self.reason = QLineEdit()
        self.reason.setMaxLength(_LONGEST_REASON)
        self.reason.setPlaceholderText(self.tr("Why? (optional, kept with the run)"))
        self.reason.setAccessibleName(self.tr("Reason for cancelling"))
        self.reason.setToolTip(self.tr("Kept in the run's history, so that you know later why it ended"))
        self.reason.returnPressed.connect(self._confirm)
        self.confirm = QPushButton(self.tr("Cancel it"))
        self.confirm.setProperty("kind", "danger")
        self.confirm.setToolTip(self.tr("Ends the run; it may write a last checkpoint first"))
        self.confirm.clicked.connect(self._confirm)
        self.keep = QPushButton(self.tr("Keep it running"))
        self.keep.setProperty("kind", "flat")
        self.keep.setToolTip(self.tr("Close this and change nothing"))
        self.keep.clicked.connect(self.close_panel)
        # The question has a line of its own: a reason needs room to be read.
        layout = QGridLayout(self)
        layout.setContentsMargins(12, 8, 8, 8)
        layout.addWidget(self._question, 0, 0, 1, 3)
        for column, widget in enumerate((self.reason, self.confirm, self.keep)):
            layout.addWidget(widget, 1, column)
        layout.setColumnStretch(0, 1)
        self.hide()

    def ask(self, run_ids: Sequence[str], names: Sequence[str]) -> None:
        """Show the question for these runs and take the focus."""
        if not run_ids:
            return
        self.run_ids = list(run_ids)
        one = len(run_ids) == 1
        question = self.tr("Cancel {name}?") if one else self.tr("Cancel {count} runs?")
        self._question.setText(question.format(name=_short(names[0]), count=len(run_ids)))
        self._question.setToolTip("\n".join(names[:30]))
        self.confirm.setText(self.tr("Cancel it") if one else self.tr("Cancel them"))
        self.keep.setText(self.tr("Keep it running") if one else self.tr("Keep them running"))
        self.reason.clear()
        self.show()
        self.reason.setFocus(Qt.FocusReason.OtherFocusReason)

    def close_panel(self) -> None:
        self.run_ids = []
        self.hide()
        self.closed.emit()

    def _confirm(self) -> None:
        run_ids, reason = self.run_ids, self.reason.text().strip()
        if run_ids:
            self.close_panel()
            self.confirmed.emit(run_ids, reason)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.close_panel()
        else:
            super().keyPressEvent(event)


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:31]}…"
