"""Several runs at a glance: their returns in one plot, and a line of numbers for each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from gym_gui.services.run_words import state_word
from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MOST_RUNS
from gym_gui.ui.panels.key_numbers import key_numbers
from gym_gui.ui.panels.stage_runs import StageRuns
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.headline import RECENT_EPISODES

_NARROW = 600
_FIRST_TO_GO = ("length", "speed", "progress", "remaining")
_NUMBERS = ("mean_return", "length", "speed", "progress", "remaining")
_MOST_HEIGHT = 190


class ComparedRuns(StageRuns):
    """Shows the given runs while it can be seen; beyond :data:`MOST_RUNS` it says how many it leaves out."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._lines: dict[str, dict[str, QLabel]] = {}
        self._badges: dict[str, StatusBadge] = {}
        self._headings: dict[str, QLabel] = {}
        self.title = QLabel()
        self.title.setProperty("role", "huge")
        self._table = QScrollArea()
        self._table.setWidgetResizable(True)
        self._table.setFrameShape(QFrame.Shape.NoFrame)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._table.setMaximumHeight(_MOST_HEIGHT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 14)
        layout.setSpacing(10)
        layout.addWidget(self.title)
        layout.addWidget(self.plot, 1)
        layout.addWidget(self._table)
        bottom = QHBoxLayout()
        titles = {"show-metrics": self.tr("All metrics")}
        self.next_actions = ActionButtons(cockpit.commands, ("show-metrics", "run-cancel"), titles)
        bottom.addWidget(self.next_actions)
        bottom.addStretch(1)
        layout.addLayout(bottom)
        cockpit.themes.changed.connect(lambda _: self._make_lines())

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Where there is little room, the numbers that say least give way."""
        roomy = self.width() >= _NARROW
        for line in (self._headings, *self._lines.values()) if self._headings else ():
            for name in _FIRST_TO_GO:
                line[name].setVisible(roomy)

    # ---- which runs ----------------------------------------------------------------------------------------------

    def show_runs(self, run_ids: Sequence[str]) -> None:
        """Show these; call it again when there is news of one."""
        shown = list(run_ids)[:MOST_RUNS]
        others = self.take_rows(shown)
        left_out = len(run_ids) - len(shown)
        said = self.tr("{count} runs compared").format(count=len(shown))
        self.title.setText(
            said if not left_out else self.tr("{said}, {more} more selected").format(said=said, more=left_out)
        )
        if others:
            self._make_lines()
        if self.rows:
            self.tell()

    # ---- telling -------------------------------------------------------------------------------------------------

    def _make_lines(self) -> None:
        self._lines, self._badges = {}, {}
        inside = QWidget()
        grid = QGridLayout(inside)
        grid.setContentsMargins(2, 0, 8, 0)
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(5)
        titles = (self.tr("return"), self.tr("length"), self.tr("steps/s"), self.tr("steps"), self.tr("ETA"))
        self._headings = {name: QLabel(title) for name, title in zip(_NUMBERS, titles, strict=True)}
        for column, heading in enumerate(self._headings.values(), start=2):
            heading.setProperty("role", "section")
            grid.addWidget(heading, 0, column, _side(column))
        for number in ("mean_return", "length"):
            self._headings[number].setToolTip(self.tr("mean of the last {count}").format(count=RECENT_EPISODES))
        theme = self._cockpit.themes.theme
        for line, (run_id, row) in enumerate(self.rows.items(), start=1):
            colour = theme.curve(self._store.colour_number(run_id)).name()
            dot, name = QLabel(f"<span style='color:{colour}'>●</span>"), ElidedLabel(row.run.name)
            title = QHBoxLayout()
            title.setSpacing(8)
            title.addWidget(dot)
            title.addWidget(name)
            title.addStretch(1)
            self._badges[run_id] = StatusBadge(self._cockpit.themes)
            grid.addLayout(title, line, 0)
            grid.addWidget(self._badges[run_id], line, 1)
            self._lines[run_id] = {number: QLabel("–") for number in _NUMBERS}
            for column, label in enumerate(self._lines[run_id].values(), start=2):
                grid.addWidget(label, line, column, _side(column))
        self._fit()
        grid.setColumnStretch(0, 1)
        grid.setRowStretch(len(self.rows) + 1, 1)
        self._table.setWidget(inside)
        self._table.setMinimumHeight(min(_MOST_HEIGHT, inside.sizeHint().height() + 4))

    def tell(self) -> None:
        for run_id, row in self.rows.items():
            self._badges[run_id].show_state(state_word(row.run))
        self.draw_curves()
        self.tell_numbers()

    def tell_numbers(self) -> None:
        now = time.monotonic()
        for run_id, row in self.rows.items():
            numbers = key_numbers(row, self._store.metrics(run_id), now)
            for name, label in self._lines[run_id].items():
                label.setText(getattr(numbers, name))


def _side(column: int) -> Qt.AlignmentFlag:
    return Qt.AlignmentFlag.AlignRight if column > 1 else Qt.AlignmentFlag.AlignLeft
