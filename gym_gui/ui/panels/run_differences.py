"""What differs between the selected runs, as a table that can be walked through and copied."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QGuiApplication, QShowEvent
from PyQt6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_diff import SECTIONS, RunDiff, as_table, diff_of
from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.copyable_tree import CopyableTree
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

_NAME_WIDTH, _LEAST_COLUMN, _SCROLL_BAR = 170, 110, 16


class RunDifferences(QWidget):
    """Compares the runs it was given, beside the GUI and only while it can be seen."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._runs: list[pb.Run] = []
        self._is_reading = self._is_stale = False
        self._drawn: object = None
        self.diff: RunDiff | None = None
        self.list = CopyableTree(self._copy)
        self.list.setAccessibleName(self.tr("What differs between the selected runs"))
        self.note = ElidedLabel()
        self.note.setProperty("role", "muted")
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.everything = QCheckBox(self.tr("Show what is equal"))
        self.everything.setToolTip(self.tr("Also list what is the same for all of these runs"))
        self.everything.toggled.connect(lambda _: self._draw())
        self.copy = QPushButton(self.tr("Copy"))
        self.copy.setToolTip(self.tr("Put the table on the clipboard, as spreadsheets take it (Ctrl+C)"))
        self.copy.clicked.connect(self._copy)
        foot = QHBoxLayout()
        foot.addWidget(self.note, 1)
        foot.addWidget(self.everything)
        foot.addWidget(self.copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list, 1)
        layout.addLayout(foot)
        self.setFocusProxy(self.list)

    # ---- which runs ----------------------------------------------------------------------------------------------

    def show_runs(self, runs: Sequence[pb.Run]) -> None:
        """Compare these; call it again when there is news of one."""
        self._runs = list(runs)
        self._read_if_seen()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._read_if_seen()

    def _read_if_seen(self) -> None:
        """One reading at a time; news that came meanwhile is read after it."""
        if len(self._runs) < 2 or not self.isVisible():
            return
        if self._is_reading:
            self._is_stale = True
            return
        self._is_reading, self._is_stale, runs = True, False, list(self._runs)
        self._cockpit.bridge.in_background(lambda: diff_of(runs), self._take, self._failed, owner=self)

    def _take(self, diff: RunDiff) -> None:
        self._is_reading = False
        if [run.run_id for run in diff.runs] == [run.run_id for run in self._runs]:
            self.diff = diff
            self._draw()
        if self._is_stale:
            self._read_if_seen()

    def _failed(self, sentence: str) -> None:
        self._is_reading = False
        self.note.setText(sentence)

    # ---- showing -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Only when a word of it is another one: the place of somebody who reads is kept."""
        if self.diff is None:
            return
        rows = self.diff.shown(everything=self.everything.isChecked())
        labels = [self._cockpit.runs.label(run) for run in self.diff.runs]
        drawn = (labels, [(row.section, row.name, [value.shown for value in row.values]) for row in rows])
        if drawn != self._drawn:
            self._drawn = drawn
            self._fill(*drawn)
        self._tell(len(rows))

    def _fill(self, labels: list[str], rows: list[tuple[str, str, list[str]]]) -> None:
        titles = {
            "run": self.tr("Run"),
            "settings": self.tr("Settings"),
            "code": self.tr("Code"),
            "environment": self.tr("Environment"),
            "results": self.tr("Results"),
        }
        self.list.clear()
        self.list.setHeaderLabels(["", *labels])
        for section in SECTIONS:
            members = [(name, texts) for of, name, texts in rows if of == section]
            if not members:
                continue
            self.list.add_section(titles[section], [[name, *texts] for name, texts in members])
        self._size_columns(len(labels))

    def _size_columns(self, runs: int) -> None:
        header = self.list.header()
        viewport = self.list.viewport()
        assert header is not None and viewport is not None
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # the names of runs differ at their ends
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.resizeSection(0, _NAME_WIDTH)
        room = max(_LEAST_COLUMN, (viewport.width() - _NAME_WIDTH - _SCROLL_BAR) // max(1, runs))
        for column in range(1, runs + 1):
            header.resizeSection(column, room)

    def _tell(self, shown: int) -> None:
        assert self.diff is not None
        equal = self.diff.equal
        if not shown:
            self.note.setText(self.tr("These runs do not differ."))
        else:
            self.note.setText(
                self.tr("{different} differ, {equal} are equal").format(
                    different=len(self.diff.rows) - equal, equal=equal
                )
            )

    # ---- copying -------------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        """The selected lines, or all of them."""
        clipboard = QGuiApplication.clipboard()
        if self.diff is None or clipboard is None:
            return
        if chosen := self.list.chosen_lines:
            clipboard.setText("\n".join(chosen) + "\n")
        else:
            clipboard.setText(as_table(self.diff, everything=self.everything.isChecked()))
        count = len(chosen) or len(self.diff.shown(everything=self.everything.isChecked()))
        lines_text = self.tr("1 line") if count == 1 else self.tr("{count} lines").format(count=count)
        self._cockpit.notify(Notice(self.tr("Copied {lines}").format(lines=lines_text)))
