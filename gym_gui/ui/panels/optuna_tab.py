"""Optuna for one run: the trials of the study that it belongs to, or of any study file, by objective, read only."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QModelIndex, QObject, Qt, QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QPushButton,
    QStackedLayout,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import counted, is_over, quantity
from gym_gui.services.sweeps.foreign_studies import ForeignStudy, ForeignTrial
from gym_gui.services.sweeps.insight import shown_value
from gym_gui.services.sweeps.study_reader import StudyReader, value_key
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.headed_table import NOWHERE, HeadedTable
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest

LOOK_AGAIN_MILLISECONDS = 2000
_MOST_COLUMNS = 60
_REST = 8
_NUMBER, _STATE, _VALUE = range(3)


class StudyTable(HeadedTable):
    """The trials of one study, best first. Only what is seen is put into words."""

    def __init__(self, parent: QObject) -> None:
        super().__init__([], frozenset(), parent)
        self._study: ForeignStudy | None = None
        self._trials: list[ForeignTrial] = []
        self._settings: list[str] = []

    def show_study(self, study: ForeignStudy) -> None:
        self.beginResetModel()
        self._study = study
        self._trials = sorted(study.trials, key=lambda one: value_key(study, one))
        named = dict.fromkeys(name for one in study.trials for name in one.params)
        self._settings = list(named)[:_MOST_COLUMNS]
        several = len(study.directions) > 1
        self._titles = ["#", self.tr("State"), self.tr("Values") if several else self.tr("Value"), *self._settings]
        self._numbers = frozenset({_NUMBER, _VALUE, *range(_VALUE + 1, len(self._titles))})
        self.endResetModel()

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._trials)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        return self._text(self._trials[index.row()], index.column()) if role == Qt.ItemDataRole.DisplayRole else None

    def _text(self, trial: ForeignTrial, column: int) -> str:
        if column == _NUMBER:
            return str(trial.number)
        if column == _STATE:
            return trial.state
        if column == _VALUE:
            return ", ".join(map(quantity, trial.values)) or "–"
        name = self._settings[column - _VALUE - 1]
        return shown_value(trial.params[name])[:80] if name in trial.params else "–"


class OptunaTab(QWidget):
    """Finds the study of a run while it is shown, and follows it: that of its sweep, or the one in its folder."""

    def __init__(self, cockpit: Cockpit, run_id: str, run_dir: Path) -> None:
        super().__init__()
        self._cockpit, self._run_id, self._paths = cockpit, run_id, RunPaths(run_dir)
        self._reader = StudyReader()
        self._file: Path | None = None
        """That somebody chose; None for the run's own."""
        self._is_reading, self._begun, self._rests_until = False, 0.0, 0.0
        self.studies: list[ForeignStudy] = []
        self.message = EmptyPage(parent=self)
        self.message.acted.connect(self.ask_file)
        self.banner = Banner("warning")
        self.title = ElidedLabel()
        self.title.setProperty("role", "muted")
        self.choice = CalmCombo()
        let_shrink(self.choice)
        self.choice.setAccessibleName(self.tr("Study"))
        self.choice.setToolTip(self.tr("Which study of the file to show"))
        self.choice.currentIndexChanged.connect(lambda _: self._show_study())
        self.other = QPushButton(self.tr("Open a study…"))
        self.other.setToolTip(self.tr("Show a study file of Optuna's, SQLite or journal; it is read, never written"))
        self.other.clicked.connect(self.ask_file)
        self.table = StudyTable(self)
        self.view = self._make_view()
        self._lay_out()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_AGAIN_MILLISECONDS)
        self._timer.timeout.connect(self.look)

    def _make_view(self) -> QTableView:
        view = QTableView()
        view.setModel(self.table)
        view.setShowGrid(False)
        view.setWordWrap(False)
        view.setTabKeyNavigation(False)
        view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        view.setAccessibleName(self.tr("Trials of the study"))
        side = view.verticalHeader()
        assert side is not None
        side.hide()
        side.setDefaultSectionSize(26)
        return view

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(10, 6, 10, 4)
        bar.addWidget(self.title)
        bar.addStretch(1)
        bar.addWidget(self.choice)
        bar.addWidget(self.other)
        page = QWidget()
        inside = QVBoxLayout(page)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(4)
        inside.addLayout(bar)
        inside.addWidget(self.banner)
        inside.addWidget(self.view, 1)
        self._page = page
        self._content = QStackedLayout(self)
        self._content.addWidget(self.message)
        self._content.addWidget(page)

    @property
    def told(self) -> str:
        """What the tab says while it shows no study."""
        return self.message.text.text()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if not self.studies:
            self._tell(self.tr("Looking for a study…"))
        self.look()
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def close_tab(self) -> None:
        self._timer.stop()

    # ---- which file ----------------------------------------------------------------------------------------------

    def ask_file(self) -> QFileDialog:
        """Ask for a file, without blocking."""
        dialog = QFileDialog(self, self.tr("Open a study of Optuna's"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda chosen: self.open_file(Path(chosen)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def open_file(self, file: Path) -> None:
        """Show a study file instead of the run's own."""
        self._file, self.studies, self._rests_until = file, [], 0.0
        self._tell(self.tr("Reading {file}…").format(file=file.name))
        self.look()

    def look(self) -> None:
        """Find the file and read it where it changed, beside the GUI."""
        if self._is_reading or time.monotonic() < self._rests_until:
            return
        self._is_reading, self._begun, file = True, time.monotonic(), self._file
        run = self._cockpit.runs.get(self._run_id)
        sweep = run.sweep if run is not None else ""
        bridge = self._cockpit.bridge
        done, failed = partial(self._take, file), partial(self._failed, file)
        if file is None and sweep:
            read = partial(_of_sweep, self._reader, sweep)
            bridge.call(read, done, failed, owner=self)
        else:
            bridge.in_background(lambda: _of_file(self._reader, file or self._own_file()), done, failed, owner=self)

    def _own_file(self) -> Path | None:
        named = read_manifest(self._paths).get("optuna_db_path")
        return self._paths.directory / named if isinstance(named, str) and named else None

    def _end_reading(self, asked: Path | None) -> None:
        """A study that took long to read is left alone for a while: it may be written many times a second."""
        self._is_reading = False
        if asked == self._file:
            self._rests_until = time.monotonic() + _REST * (time.monotonic() - self._begun)

    # ---- what came of it -----------------------------------------------------------------------------------------

    def _take(self, asked: Path | None, found: list[ForeignStudy] | None) -> None:
        self._end_reading(asked)
        if asked != self._file:
            self.look()
            return
        self.banner.say("")
        if found:
            self._show(found)
        elif found is not None:
            self._tell(self.tr("This page waits for one."), self.tr("The file holds no study yet"))
        else:
            run = self._cockpit.runs.get(self._run_id)
            if run is not None and is_over(run):
                text = self.tr("Runs of a sweep do. A file of Optuna's can be opened as well.")
                self._tell(text, self.tr("This run belongs to no study"))
            else:
                self._tell(self.tr("Not available yet: the run belongs to no study so far. This page waits for one."))

    def _failed(self, asked: Path | None, sentence: str) -> None:
        self._end_reading(asked)
        if asked != self._file:
            self.look()
        elif self.studies:
            self.banner.say(sentence)  # what was read before stays: a writer locks a file for a moment only
        else:
            self._tell(sentence, self.tr("The study cannot be shown"))

    def _tell(self, sentence: str, title: str = "") -> None:
        self.message.tell(title, sentence, self.tr("Open a study file…"))
        self._content.setCurrentWidget(self.message)

    def _show(self, found: list[ForeignStudy]) -> None:
        if found is not self.studies:
            self.studies = found
            names = [one.name for one in found]
            if [self.choice.itemText(place) for place in range(self.choice.count())] != names:
                self.choice.blockSignals(True)
                self.choice.clear()
                self.choice.addItems(names)
                self.choice.blockSignals(False)
            self.choice.setVisible(len(found) > 1)
            self._show_study()
        self._content.setCurrentWidget(self._page)

    def _show_study(self) -> None:
        place = max(0, self.choice.currentIndex())
        if not self.studies or place >= len(self.studies):
            return
        study = self.studies[place]
        bar = self.view.verticalScrollBar()
        kept = bar.value() if bar is not None else 0
        first = self.table.columnCount() == 0
        self.table.show_study(study)
        if first:
            self.view.resizeColumnsToContents()
        if bar is not None:
            bar.setValue(kept)
        complete = len(study.ranked())
        self.title.setText(f"{study.name}: {counted(len(study.trials), 'trial')}, {complete:,} complete")


def _of_sweep(reader: StudyReader, sweep: str, client: TrainerClient) -> list[ForeignStudy] | None:
    file = Path(client.sweep_message(sweep).study_file)
    return reader.read(file) if file.exists() else None  # it is made with the first trial


def _of_file(reader: StudyReader, file: Path | None) -> list[ForeignStudy] | None:
    return None if file is None else reader.read(file)
