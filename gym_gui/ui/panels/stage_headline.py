"""One run at a glance: its name and state, a big curve, the numbers that matter, and what can be done next."""

from __future__ import annotations

import time

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QProgressBar, QVBoxLayout, QWidget

from gym_gui.services.run_words import is_over, state_word
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.models.waiting_line import in_line
from gym_gui.ui.panels.key_numbers import description, key_numbers, situation
from gym_gui.ui.panels.stage_runs import StageRuns
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.headline import RECENT_EPISODES
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

_NARROW = 560
_LOW = 430
_WHILE_IT_LIVES = ("run-pause", "run-resume", "run-cancel", "show-metrics")
_AFTERWARDS = ("run-resume", "run-duplicate", "do-use", "show-metrics")
_ACTIONS = ("run-pause", "run-resume", "run-cancel", "run-duplicate", "do-use", "show-metrics")


class RunHeadline(StageRuns):
    """Shows one run while it can be seen; :meth:`show_run` says which."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self.name = ElidedLabel()
        self.name.setProperty("role", "huge")
        self.badge = StatusBadge(cockpit.themes)
        self.about = ElidedLabel()
        self.about.setProperty("role", "muted")
        self.sentence = QLabel()
        self.sentence.setWordWrap(True)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setStyleSheet("QProgressBar { min-height: 6px; max-height: 6px; }")
        self.steps = QLabel()
        self.steps.setProperty("role", "muted")
        self.progress.setAccessibleName(self.tr("Progress of the run"))
        self.numbers: dict[str, QLabel] = {}
        self._headings: dict[str, QLabel] = {}
        self.next_actions = ActionButtons(cockpit.commands, _ACTIONS, {"show-metrics": self.tr("All metrics")})
        self._lay_out()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addSpacing(6)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self.about)
        layout.addWidget(self.sentence)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self.progress, 1)
        row.addWidget(self.steps)
        layout.addLayout(row)
        layout.addWidget(self._number_cards())
        layout.addWidget(self.plot, 1)
        bottom = QHBoxLayout()
        bottom.addWidget(self.next_actions)
        bottom.addStretch(1)
        layout.addLayout(bottom)

    def _number_cards(self) -> QWidget:
        row = QWidget()
        grid = QGridLayout(row)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(8)
        last = self.tr("mean of the last {count}").format(count=RECENT_EPISODES)
        for column, (name, title, tooltip) in enumerate(
            (
                ("mean_return", "", last),
                ("length", "", last),
                ("speed", self.tr("STEPS/S"), self.tr("environment steps per second, as last measured")),
                ("elapsed", self.tr("ELAPSED"), self.tr("time of training, without pauses")),
                ("remaining", self.tr("ETA"), self.tr("time until all steps are made, at this pace")),
            )
        ):
            self._headings[name], self.numbers[name] = _number_card(grid, column, title, tooltip)
            grid.setColumnStretch(column, 1)
        return row

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """On a small screen the curve keeps its room, and words give way."""
        super().resizeEvent(event)
        narrow, low = self.width() < _NARROW, self.height() < _LOW
        self._headings["mean_return"].setText(self.tr("RETURN") if narrow else self.tr("MEAN RETURN"))
        self._headings["length"].setText(self.tr("LENGTH") if narrow else self.tr("MEAN LENGTH"))
        self.about.setVisible(not low)
        layout = self.layout()
        if layout is not None:
            layout.setContentsMargins(20, 8 if low else 16, 20, 8 if low else 14)
            layout.setSpacing(6 if low else 8)

    # ---- which run -----------------------------------------------------------------------------------------------

    def show_run(self, run_id: str | None) -> None:
        """Show a run, or none; call it again when there is news of it."""
        self.take_rows([run_id] if run_id else [])
        self.tell()

    @property
    def _row(self) -> RunRow | None:
        return next(iter(self.rows.values()), None)

    # ---- telling -------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        if self._row is None:
            return
        run = self._row.run
        self.name.setText(run.name)
        self.badge.show_state(state_word(run))
        self.about.setText(description(run))
        self.next_actions.offer(_AFTERWARDS if is_over(run) else _WHILE_IT_LIVES)
        text, kind = situation(run, self._place_in_line(run))
        self.sentence.setText(text)
        self.sentence.setVisible(bool(text))
        set_style_property(self.sentence, "role", kind or "muted")
        nothing = self.tr("this run recorded no numbers") if is_over(run) else self.tr("waiting for the first numbers")
        self.plot.explain_nothing(nothing)
        self.draw_curves()
        self.tell_numbers()

    def _place_in_line(self, run: pb.Run) -> int:
        waiting = [one.run_id for one in in_line(self._cockpit.runs)] if run.state == RunState.INIT else []
        return waiting.index(run.run_id) + 1 if run.run_id in waiting else 0

    def tell_numbers(self) -> None:
        row = self._row
        if row is None:
            return
        numbers = key_numbers(row, self._store.metrics(row.run_id), time.monotonic())
        for name, label in self.numbers.items():
            label.setText(getattr(numbers, name))
        self.progress.setRange(0, 100)
        self.progress.setValue(numbers.percent or 0)
        self.steps.setText(numbers.steps if numbers.percent is None else f"{numbers.steps}   ({numbers.percent} %)")
        self.progress.setVisible(numbers.percent is not None)
        self.steps.setVisible(numbers.steps != "–")


def _number_card(grid: QGridLayout, column: int, title: str, tooltip: str) -> tuple[QLabel, QLabel]:
    card = QFrame()
    card.setProperty("role", "card")
    card.setToolTip(tooltip)
    heading, value = QLabel(title), QLabel("–")
    heading.setProperty("role", "section")
    value.setProperty("role", "title")
    value.setAccessibleName(f"{title} {tooltip}".strip())
    layout = QVBoxLayout(card)
    layout.setContentsMargins(10, 8, 6, 8)
    layout.setSpacing(2)
    layout.addWidget(heading)
    layout.addWidget(value)
    grid.addWidget(card, 0, column)
    return heading, value
