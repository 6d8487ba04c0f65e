"""A line in a form: what else the next run takes over from the one that was duplicated."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.forms.kept import Kept


class KeptNote(QWidget):
    """Not there while nothing is kept. A button in it drops everything; ``changed()`` follows that and :meth:`keep`."""

    changed = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kept = Kept()
        self.label = QLabel()
        self.label.setWordWrap(True)
        self.label.setToolTip(self.tr("This form has no fields for it. The next run gets it as it stands here."))
        self.drop_button = QPushButton(self.tr("Leave it out"))
        self.drop_button.setToolTip(self.tr("The next run is not given what stands above"))
        self.drop_button.clicked.connect(lambda: self.keep(Kept()))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.label)
        layout.addWidget(self.drop_button, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def keep(self, kept: Kept) -> None:
        self.kept, words = kept, kept.words()
        self.label.setText(self.tr("Also taken over from the run: {list}").format(list=", ".join(words)))
        self.setVisible(bool(words))
        self.changed.emit()
