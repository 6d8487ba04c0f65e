"""Several runs at a glance: their returns in one plot and a line of numbers for each, or what differs between them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.compare.groups import MOST_RUNS as MOST_COMPARED
from gym_gui.services.run_words import state_word
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MOST_RUNS
from gym_gui.ui.panels.key_numbers import key_numbers
from gym_gui.ui.panels.run_comparison import RunComparison
from gym_gui.ui.panels.run_differences import RunDifferences
from gym_gui.ui.panels.stage_runs import StageRuns
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.headline import RECENT_EPISODES

_NARROW, _FLAT = 600, 340
_FIRST_TO_GO = ("length", "speed", "progress", "remaining")
_NUMBERS = ("mean_return", "length", "speed", "progress", "remaining")
_ACTIONS = ("run-pause", "run-resume", "run-cancel", "show-metrics")
_COMPARE, _STATISTICS = "compare-settings", "compare-runs"
_MOST_HEIGHT, _FLAT_HEIGHT = 190, 84


class ComparedRuns(StageRuns):
    """Shows the given runs while it can be seen; beyond :data:`MOST_RUNS` it says how many it leaves out."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._lines: dict[str, dict[str, QLabel]] = {}
        self._badges: dict[str, StatusBadge] = {}
        self._headings: dict[str, QLabel] = {}
        self._roomy, self._most_height = True, _MOST_HEIGHT
        self.title = ElidedLabel()
        self.title.setProperty("role", "huge")
        self._table = QScrollArea()
        self._table.setWidgetResizable(True)
        self._table.setFrameShape(QFrame.Shape.NoFrame)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 14)
        layout.setSpacing(10)
        self._head = self._make_head()
        layout.addLayout(self._head)
        layout.addWidget(self.plot, 1)
        layout.addWidget(self._table)
        self.differences = RunDifferences(cockpit)
        self.differences.hide()
        layout.addWidget(self.differences, 1)
        self.comparison = RunComparison(cockpit)
        self.comparison.hide()
        layout.addWidget(self.comparison, 1)
        self.next_actions = ActionButtons(
            cockpit.commands,
            _ACTIONS,
            {"show-metrics": self.tr("All metrics")},
            themes=cockpit.themes,
            signs={"show-metrics": "metrics"},
            partners=("run-pause", "run-resume"),
        )
        layout.addWidget(self.next_actions)
        cockpit.themes.changed.connect(lambda _: self._dress())
        self._add_command()

    def _make_head(self) -> QHBoxLayout:
        self.views = Segments(
            [
                ("curves", self.tr("Curves"), self.tr("Returns and numbers of the selected runs")),
                ("differences", self.tr("Differences"), self.tr("What differs: settings, code, environment, results")),
                ("comparison", self.tr("Compare"), self.tr("Which is better, and how sure that is: IQM, intervals")),
            ]
        )
        self.views.chosen.connect(self._show_view)
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        head.addWidget(self.views, 0, Qt.AlignmentFlag.AlignRight)
        return head

    def _add_command(self) -> None:
        text = self.tr("Show what differs between the selected runs: settings, code, environment, results")
        also = "diff difference settings code packages"
        command = Command(_COMPARE, self.tr("Compare settings"), "Run/Compare", "Ctrl+Shift+D", text, also)
        self._cockpit.commands.add(command, self.compare_settings)
        text = self.tr("Which of the selected runs are better, and how sure that is: IQM, intervals, curves")
        also = "statistics iqm interval bootstrap report better significant"
        command = Command(_STATISTICS, self.tr("Compare runs"), "Run/Compare", "Ctrl+Shift+S", text, also)
        self._cockpit.commands.add(command, self.compare_runs)
        self._offer_command()
        self._cockpit.selection.changed.connect(lambda _: self._offer_command())

    def _offer_command(self) -> None:
        several = len(self._cockpit.selection.ids) > 1
        for name in (_COMPARE, _STATISTICS):
            self._cockpit.commands.enable(name, several, "" if several else self.tr("Select two runs or more."))

    def compare_settings(self) -> None:
        """Show what differs, ready for the arrow keys."""
        self.views.choose("differences")
        self.differences.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def compare_runs(self) -> None:
        """Show which is better."""
        self.views.choose("comparison")
        self.comparison.grouping.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _show_view(self, name: str) -> None:
        self.plot.setVisible(name == "curves")
        self._table.setVisible(name == "curves")
        self.differences.setVisible(name == "differences")
        self.comparison.setVisible(name == "comparison")
        self.next_actions.setVisible(name == "curves")  # the others need the height

    def fit(self, room: QSize) -> None:
        """Where there is little room, numbers that say least give way; where it is low, buttons replace the title."""
        self._roomy = room.width() >= _NARROW
        flat = room.height() < _FLAT
        if flat != self.title.isHidden():
            self._put_actions_into_head(flat)
        self.title.setVisible(not flat)
        self._most_height = _FLAT_HEIGHT if flat else _MOST_HEIGHT
        self.plot.make_flat(flat)
        self.differences.note.setVisible(not flat)
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(*((12, 4, 12, 4) if flat else (20, 16, 20, 14)))
        layout.setSpacing(4 if flat else 10)
        self._fit()

    def _put_actions_into_head(self, flat: bool) -> None:
        layout = self.layout()
        assert layout is not None
        if flat:
            layout.removeWidget(self.next_actions)
            self._head.insertWidget(0, self.next_actions, 1)
        else:
            self._head.removeWidget(self.next_actions)
            layout.addWidget(self.next_actions)

    def _fit(self) -> None:
        for line in (self._headings, *self._lines.values()) if self._headings else ():
            for name in _FIRST_TO_GO:
                line[name].setVisible(self._roomy)
        self._table.setMaximumHeight(self._most_height)
        inside = self._table.widget()
        if inside is not None:
            self._table.setMinimumHeight(min(self._most_height, inside.sizeHint().height() + 4))

    # ---- which runs ----------------------------------------------------------------------------------------------

    def show_runs(self, run_ids: Sequence[str]) -> None:
        """Show these; call it again when there is news of one."""
        shown = list(run_ids)[:MOST_RUNS]
        others = self.take_rows(shown)
        left_out = len(run_ids) - len(shown)
        said = self.tr("{count} runs").format(count=len(shown))
        self.title.setText(
            said if not left_out else self.tr("{said}, {more} more selected").format(said=said, more=left_out)
        )
        if others:
            self._make_lines()
        self.differences.show_runs([row.run for row in self.rows.values()])
        every = [run for run in map(self._cockpit.runs.get, run_ids[:MOST_COMPARED]) if run is not None]
        self.comparison.show_runs(every)
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
        titles = (self.tr("mean return"), self.tr("mean length"), self.tr("steps/s"), self.tr("steps"), self.tr("ETA"))
        self._headings = {name: QLabel(title) for name, title in zip(_NUMBERS, titles, strict=True)}
        for column, heading in enumerate(self._headings.values(), start=2):
            heading.setProperty("role", "section")
            grid.addWidget(heading, 0, column, _side(column))
        for number in ("mean_return", "length"):
            self._headings[number].setToolTip(
                self.tr("mean of the last {count} episodes").format(count=RECENT_EPISODES)
            )
        theme = self._cockpit.themes.theme
        for line, (run_id, row) in enumerate(self.rows.items(), start=1):
            colour = theme.curve(self._store.colour_number(run_id)).name()
            dot = QLabel(f"<span style='color:{colour}'>●</span>")
            dot.setProperty("rich", True)
            name = ElidedLabel(self._cockpit.runs.label(row.run), cut=cut_name)
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
        grid.setColumnStretch(0, 1)
        grid.setRowStretch(len(self.rows) + 1, 1)
        self._table.setWidget(inside)
        self._fit()

    def _dress(self) -> None:
        self._make_lines()
        self.tell()

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
