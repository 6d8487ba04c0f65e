"""What is being done to datasets, how far it is, and a way to cancel it; afterwards what came of it."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.styling import tell

_STEPS = 1000


class WorkStrip(QWidget):
    """Takes no room while there is nothing to say. ``about`` names the one dataset whose work is shown; without it, all
    is."""

    def __init__(
        self, shelf: DatasetShelf, about: Callable[[], str] | None = None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._shelf, self._about = shelf, about
        self.said = QLabel()
        self.said.setWordWrap(True)
        self.said.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.bar = QProgressBar()
        self.bar.setRange(0, _STEPS)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(8)
        self.bar.setMinimumWidth(90)
        self.bar.setAccessibleName(self.tr("How far the work on datasets is"))
        self.cancel = QPushButton(self.tr("Cancel"))
        self.cancel.setToolTip(self.tr("Stop this work; nothing of a dataset that is not whole is left"))
        self.cancel.clicked.connect(shelf.cancel)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.said, 3)
        row.addWidget(self.bar, 2)
        row.addWidget(self.cancel)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(row)
        shelf.job_changed.connect(self.follow)
        shelf.told.connect(self.tell)
        self.hide()
        self.follow()

    def follow(self) -> None:
        job = self._shelf.job
        if job is not None and not self._concerns(job.subject):
            job = None
        self.bar.setVisible(job is not None)
        self.cancel.setVisible(job is not None)
        if job is None:
            return
        self.cancel.setEnabled(not job.is_cancelled)
        self.bar.setRange(0, _STEPS if job.share >= 0 else 0)
        self.bar.setValue(round(_STEPS * max(job.share, 0.0)))
        word = self.tr("stopping…") if job.is_cancelled else job.line or self.tr("starting…")
        self.tell(f"{job.title}: {word}", "muted", job.subject)

    def _concerns(self, subject: str) -> bool:
        return self._about is None or subject == self._about()

    def tell(self, sentence: str, role: str, subject: str = "") -> None:
        """Show a sentence about a dataset, if it is of those that are shown here."""
        if not self._concerns(subject):
            return
        tell(self.said, sentence, role)
        self.setVisible(bool(sentence))
