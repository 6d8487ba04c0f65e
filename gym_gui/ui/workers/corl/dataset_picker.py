"""Which dataset a run learns from: a list, a badge that says whether it can be trusted, and what is in it."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.services.datasets.words import BADGE_COLOURS, BADGE_MEANINGS, MISSING, number, provenance, why_not_usable
from gym_gui.services.run_words import counted, size
from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.datasets.work_strip import WorkStrip
from gym_gui.ui.forms.field_editor import LABEL_WIDTH
from gym_gui.ui.styling import let_shrink, set_style_property, tell
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.datasets import DatasetEntry, Integrity
from mosaic_protocol.plain_text import one_line

_NAME = Qt.ItemDataRole.UserRole


class DatasetPicker(QWidget):
    """``changed()``: another dataset is chosen, or more is known of the one that is. ``manager_wanted(str)``: somebody
    wants to see the datasets, and this one of them."""

    changed = pyqtSignal()
    manager_wanted = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.shelf = DatasetShelf.of(cockpit.bridge)
        self._name = ""
        tr = self.tr
        label = QLabel(tr("Dataset"))
        label.setFixedWidth(LABEL_WIDTH)
        self.choice = CalmCombo()
        self.choice.setAccessibleName(tr("Dataset"))
        self.choice.setToolTip(tr("What the run learns from; its environment is the dataset's own"))
        let_shrink(self.choice, 10)
        label.setBuddy(self.choice)
        self.badge = StatusBadge(cockpit.themes)
        self.badge.setAccessibleName(tr("Whether the dataset can be trusted"))
        self.verify = QPushButton(tr("Verify"))
        self.verify.setToolTip(tr("Hash every byte of the dataset; a run learns from nothing that is not verified"))
        self.manage = QPushButton(tr("Look inside"))
        self.manage.setToolTip(tr("Show the dataset on the stage: returns, ranges and episodes; and all others below"))
        self.about, self.doubts, self.error = QLabel(), QLabel(), QLabel()
        for told, role in ((self.about, "muted"), (self.doubts, "warning"), (self.error, "error")):
            told.setWordWrap(True)
            told.setProperty("role", role)
        self.work = WorkStrip(self.shelf, lambda: self._name)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(label)
        top.addWidget(self.choice, 1)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.badge)
        row.addStretch(1)
        row.addWidget(self.verify)
        row.addWidget(self.manage)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(top)
        layout.addLayout(row)
        for widget in (self.about, self.doubts, self.work, self.error):
            layout.addWidget(widget)
        self.choice.activated.connect(lambda _: self.put(str(self.choice.currentData(_NAME) or "")))
        self.verify.clicked.connect(lambda: self.shelf.verify(self._name))
        self.manage.clicked.connect(lambda: self.manager_wanted.emit(self._name))
        self.shelf.changed.connect(self._list)
        self.shelf.job_changed.connect(self._tell)
        self._list()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.shelf.look()

    @property
    def name(self) -> str:
        return self._name

    @property
    def entry(self) -> DatasetEntry | None:
        return self.shelf.get(self._name)

    def put(self, name: str) -> None:
        """Choose a dataset by its name, also one that is not there."""
        if name != self._name:
            self._name = name
            self.work.tell("", "muted", name)
            self._list()

    def why_not(self) -> str:
        """Why nothing can be learned from what is chosen; "" when it can."""
        if not self._name:
            return ""
        if self.shelf.entries is None:
            return self.tr("Reading the datasets…")
        return why_not_usable(self._name, self.entry)

    def tell_problem(self, sentence: str) -> None:
        """Say what a run's worker had against the dataset, until something changes."""
        tell(self.error, sentence, "error")
        set_style_property(self.choice, "invalid", bool(sentence))

    def _list(self) -> None:
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItem(self.tr("choose one"))
        for entry in (self.shelf.entries or {}).values():
            self.choice.addItem(entry.name)
            self.choice.setItemData(self.choice.count() - 1, entry.name, _NAME)
            self.choice.setItemData(self.choice.count() - 1, self._summary(entry), Qt.ItemDataRole.ToolTipRole)
        if self._name and self.entry is None:
            self.choice.addItem(self._name)
            self.choice.setItemData(self.choice.count() - 1, self._name, _NAME)
        self.choice.setCurrentIndex(self.choice.findData(self._name, _NAME) if self._name else 0)
        self.choice.blockSignals(False)
        self.tell_problem("")
        self._tell()
        self.changed.emit()

    def _tell(self) -> None:
        entry = self.entry
        known = self._name and self.shelf.entries is not None
        badge = entry.badge if entry is not None else Integrity.ABSENT
        self.badge.show_state(str(badge) if known else "", colour_name=BADGE_COLOURS[badge] if known else "")
        if known:
            self.badge.setToolTip(BADGE_MEANINGS[badge])
        self.badge.setVisible(bool(known))
        can = badge in (Integrity.UNVERIFIED, Integrity.CORRUPT, Integrity.VERIFIED) and entry is not None
        self.verify.setVisible(can and badge is not Integrity.VERIFIED)
        self.verify.setEnabled(self.shelf.job is None)
        self.manage.setText(self.tr("Look inside") if entry is not None else self.tr("Datasets…"))
        self.about.setText(self._summary(entry) if entry is not None else self._empty())
        doubts = entry.found.doubts if entry is not None and entry.found is not None else []
        tell(self.doubts, "\n".join(self.tr("Doubtful: {why}.").format(why=one_line(one)) for one in doubts), "warning")

    def _empty(self) -> str:
        if self.shelf.problem:
            return self.tr("The datasets cannot be read: {why}").format(why=self.shelf.problem)
        if self.shelf.entries is None:
            return self.tr("Reading the datasets…")
        if not self.shelf.entries:
            return self.tr("There is no dataset yet: play or record a run, import a file, or collect from a policy.")
        return "" if self._name else self.tr("The algorithm sees nothing but these episodes.")

    def _summary(self, entry: DatasetEntry) -> str:
        told = entry.found
        if told is None:
            return one_line(entry.problem)
        parts = [
            one_line(told.env_id) if told.env_id else self.tr("no environment named"),
            counted(told.episodes, "episode"),
            counted(told.steps, "step"),
            self.tr("return {mean}").format(mean=number(told.returns.get("mean"))),
            size(told.bytes),
            provenance(entry),
        ]
        return " · ".join(part for part in parts if not part.endswith(MISSING))
