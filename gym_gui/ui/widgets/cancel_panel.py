"""Asks why runs are to be cancelled."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QLineEdit, QWidget

from gym_gui.ui.widgets.ask_bar import AskBar

_LONGEST_REASON = 500


class CancelPanel(AskBar):
    """``confirmed(run_ids, reason)`` when the person is sure."""

    confirmed = pyqtSignal(list, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        self.reason = QLineEdit()
        super().__init__(self.reason, parent)
        self.reason.setMaxLength(_LONGEST_REASON)
        self.reason.setPlaceholderText(self.tr("Why? (optional, kept with the run)"))
        self.reason.setAccessibleName(self.tr("Reason for cancelling"))
        self.reason.setToolTip(self.tr("Kept in the run's history, so that you know later why it ended"))
        self.reason.returnPressed.connect(self._confirm)

    def ask_for(self, run_ids: Sequence[str], names: Sequence[str]) -> None:
        """Show the question for these runs and take the focus."""
        if not run_ids:
            return
        one = len(run_ids) == 1
        self.reason.clear()
        self.ask(
            self.tr("Cancel this run?") if one else self.tr("Cancel {count} runs?").format(count=len(run_ids)),
            names,
            (self.tr("Cancel it"), self.tr("Keep it running"))
            if one
            else (self.tr("Cancel them"), self.tr("Keep them running")),
            self.tr("Ends the run; it may write a last checkpoint first"),
            lambda: self.confirmed.emit(list(run_ids), self.reason.text().strip()),
        )
        self.reason.setFocus(Qt.FocusReason.OtherFocusReason)
