"""Use trained: every checkpoint as a card, by environment and algorithm; evaluate, warm-start, resume, import."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.checkpoint_details import CheckpointDetails
from gym_gui.ui.panels.import_panel import ImportPanel
from gym_gui.ui.widgets.checkpoint_card import CARD_WIDTH, CheckpointCard
from gym_gui.ui.widgets.fitting_area import FittingArea
from gym_gui.ui.widgets.hinted_line import HintedLine
from mosaic_protocol.checkpoint_manifest import CheckpointError, read_manifest

_MOST_CARDS = 300
"""More than a person looks through; the filter finds the rest."""

AGE_MILLISECONDS = 20_000
_BESIDE_CARDS = 40
"""Margins and the scroll bar, whether it is there or not."""

Curve = list[list[float]]

_LEAST_LIST, _LEAST_DETAILS = 100, 134
"""Pixels that a small window leaves to the list and to the chosen checkpoint: each is scrolled."""
_ONE_CARD = 160
"""Pixels of one whole card and its margins: so much of the list stays in sight beside the details, where it fits."""


class CheckpointBrowser(QWidget):
    """``warm_start_requested`` and ``resume_requested`` bring the chosen entry for the train form, ``deploy_requested``
    for the seat of a session, and ``switch_requested`` for a session on its own environment."""

    deploy_requested = pyqtSignal(object)
    switch_requested = pyqtSignal(object)
    warm_start_requested = pyqtSignal(object)
    resume_requested = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, model_files: Sequence[str] = ()) -> None:
        """``model_files``: endings of files that workers import, besides those that everybody knows."""
        super().__init__()
        self._cockpit = cockpit
        self._worker, self._workers = "", frozenset[str]()
        """Whose checkpoints are shown, and which workers there are; "" for everybody's."""
        self.entries: list[CheckpointEntry] = []
        self._curves: dict[str, Curve] = {}
        self.cards: list[CheckpointCard] = []
        self._chosen = ""
        self._shown_columns = 1
        self._seen_steps: dict[str, int] = {}
        hints = [self.tr("Filter by environment, algorithm or run"), self.tr("Filter by name"), self.tr("Filter")]
        self.filter = HintedLine(hints, cockpit.preferences.get("checkpoints.filter", ""))
        self.filter.setToolTip(
            self.tr("Shows only checkpoints with all of these words in environment, algorithm or run")
        )
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName(self.tr("Filter checkpoints"))
        self.filter.textChanged.connect(self._filtered)
        refresh = QPushButton(self.tr("Refresh"))
        refresh.setToolTip(self.tr("Look for checkpoints on the disk again"))
        refresh.clicked.connect(self.refresh)
        importing = QPushButton(self.tr("Import…"))
        importing.setToolTip(self.tr("Bring in a model that was trained elsewhere"))
        head = QHBoxLayout()
        head.addWidget(self.filter, 1)
        head.addWidget(refresh)
        head.addWidget(importing)
        self._told = QLabel()
        self._told.setProperty("role", "muted")
        self._told.setWordWrap(True)
        self._told.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.import_panel = ImportPanel(cockpit, model_files=model_files)
        self.import_panel.imported.connect(lambda _: self.refresh())
        self.import_panel.hide()
        importing.clicked.connect(lambda: self.import_panel.setVisible(not self.import_panel.isVisible()))
        self._groups = QVBoxLayout()
        self._groups.setContentsMargins(0, 0, 8, 0)
        self._groups.addStretch(1)
        inside = QWidget()
        inside.setLayout(self._groups)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(inside)
        self._scroll.setMinimumHeight(_LEAST_LIST)
        self.details = CheckpointDetails(cockpit)
        self.details.deploy_requested.connect(self.deploy_requested)
        self.details.switch_requested.connect(self.switch_requested)
        self.details.warm_start_requested.connect(self.warm_start_requested)
        self.details.resume_requested.connect(self.resume_requested)
        self.details.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 4, 12, 10)
        layout.addLayout(head)
        layout.addWidget(self.import_panel)
        layout.addWidget(self._told)
        layout.addWidget(self._scroll, 1)
        room = self._details_room = FittingArea(self.details, _LEAST_DETAILS)
        self.details.spoke.connect(lambda: room.bring(self.details.told))
        layout.addWidget(room)
        self._to_chosen = QTimer(self)  # the list is lower once the details are laid out
        self._to_chosen.setSingleShot(True)
        self._to_chosen.setInterval(0)
        self._to_chosen.timeout.connect(self._show_chosen)
        self._ageing = QTimer(self)
        self._ageing.setInterval(AGE_MILLISECONDS)
        self._ageing.timeout.connect(self.tell_ages)
        cockpit.themes.changed.connect(lambda _: self._fill())
        cockpit.runs.changed.connect(self._runs_changed)

    # ---- what there is -------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.refresh()
        self._ageing.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._ageing.stop()

    def tell_ages(self) -> None:
        """Time went by, and "just now" is no longer true."""
        for card in self.cards:
            card.tell_age()
        self.details.tell_facts()

    def refresh(self) -> None:
        """Read the registry beside the GUI."""
        if not self.entries:
            self._tell(self.tr("Looking for checkpoints…"))
        paths = self._cockpit.bridge.paths
        self._cockpit.bridge.in_background(lambda: _read(TrainingRegistry(paths)), self._take, self._tell, owner=self)

    def close_panel(self) -> None:
        self.details.close_panel()
        self.import_panel.close_panel()

    def _runs_changed(self, run_ids: list[str]) -> None:
        """A run that ended left its last checkpoint."""
        if not self.isVisible():
            return
        runs = [self._cockpit.runs.get(run_id) for run_id in run_ids]
        if any(run is None or run.state == "TERM" for run in runs):
            self.refresh()

    def _take(self, found: tuple[list[CheckpointEntry], dict[str, Curve]]) -> None:
        if (found[0], found[1]) != (self.entries, self._curves):
            self.entries, self._curves = found
            self._fill()
        elif not self.entries:
            self._fill()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def _filtered(self, text: str) -> None:
        self._cockpit.preferences.put("checkpoints.filter", text)
        self._fill()

    def use_worker(self, worker_type: str, known: Iterable[str]) -> None:
        """Show this worker's checkpoints, and those of no worker that there is; "" shows all."""
        if (worker_type, frozenset(known)) != (self._worker, self._workers):
            self._worker, self._workers = worker_type, frozenset(known)
            self._fill()

    def _of_worker(self) -> list[CheckpointEntry]:
        if not self._worker:
            return self.entries
        return [one for one in self.entries if one.worker == self._worker or one.worker not in self._workers]

    def _fill(self) -> None:
        if any(str(card.entry.path) == self._chosen and not card.visibleRegion().isEmpty() for card in self.cards):
            self._to_chosen.start()  # it is in sight, and stays so when a new one comes before it
        self._clear()
        words = self.filter.text().lower().split()
        shown = [entry for entry in self._of_worker() if all(word in _searched(entry) for word in words)]
        self._scroll.setVisible(bool(shown))  # the message instead then stands in the middle
        if self.entries and not self._of_worker():
            self._tell(self.tr("No checkpoints of this worker yet. Choose another one above, or import a model."))
            return
        if not self.entries:
            self._tell(self.tr("No checkpoints yet. Train an agent, or import a model: what was learned appears here."))
            return
        if not shown:
            self._tell(self.tr("No checkpoint matches the filter."))
            return
        left_out = len(shown) - _MOST_CARDS
        self._tell(self.tr("{n} more: narrow the filter to see them.").format(n=left_out) if left_out > 0 else "")
        ordered = sorted(
            shown[:_MOST_CARDS], key=lambda entry: (not entry.env_id, entry.env_id, entry.algo, -entry.created_at)
        )
        for number, (env_id, group) in enumerate(groupby(ordered, key=lambda entry: entry.env_id)):
            self._groups.insertWidget(number, self._group(env_id, list(group)))

    def _group(self, env_id: str, entries: Sequence[CheckpointEntry]) -> QWidget:
        box = QWidget()
        grid = QGridLayout(box)
        grid.setContentsMargins(0, 4, 0, 8)
        title = QLabel(env_id or self.tr("unknown environment"))
        title.setProperty("role", "section")
        columns = self._shown_columns = self._columns()
        grid.addWidget(title, 0, 0, 1, columns)
        theme = self._cockpit.themes.theme
        for number, entry in enumerate(entries):
            card = CheckpointCard(entry, self._curves.get(str(entry.path), []), theme)
            card.chosen.connect(self.choose)
            card.set_selected(str(entry.path) == self._chosen)
            self.cards.append(card)
            grid.addWidget(card, 1 + number // columns, number % columns)
        for column in range(columns):
            grid.setColumnStretch(column, 1)
        return box

    def _columns(self) -> int:
        return max(1, (self.width() - _BESIDE_CARDS) // (CARD_WIDTH + 10))

    def _clear(self) -> None:
        self.cards = []
        while self._groups.count() > 1:
            item = self._groups.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._share_height()
        if self.cards and self._columns() != self._shown_columns:
            self._fill()

    def _share_height(self) -> None:
        self._details_room.allow(self.height() - self._scroll.y() - _ONE_CARD)

    def choose(self, entry: CheckpointEntry) -> None:
        """Show one in detail."""
        self._chosen = str(entry.path)
        for card in self.cards:
            card.set_selected(str(card.entry.path) == self._chosen)
        self.details.show_entry(entry)
        self._share_height()
        self.details.show()
        self._to_chosen.start()

    def _show_chosen(self) -> None:
        card = next((one for one in self.cards if str(one.entry.path) == self._chosen), None)
        if card is not None:
            self._scroll.ensureWidgetVisible(card, 0, 4)

    def _tell(self, sentence: str) -> None:
        self._told.setText(sentence)
        self._told.setVisible(bool(sentence))


def _searched(entry: CheckpointEntry) -> str:
    return f"{entry.env_id} {entry.algo} {entry.run_name} {entry.id}".lower()


def _read(registry: TrainingRegistry) -> tuple[list[CheckpointEntry], dict[str, Curve]]:
    """Every checkpoint, and the course of the returns of those that a person is likely to see."""
    entries = registry.entries()
    newest = sorted(entries, key=lambda entry: -entry.created_at)[:_MOST_CARDS]
    return entries, {str(entry.path): _curve(entry) for entry in newest}


def _curve(entry: CheckpointEntry) -> Curve:
    try:
        curve: Any = read_manifest(entry.path).metrics.get("curve", [])
    except CheckpointError:
        return []
    return curve if isinstance(curve, list) else []
