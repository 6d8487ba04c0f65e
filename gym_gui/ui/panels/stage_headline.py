"""One run at a glance: its name and state, a big curve, the numbers that matter, and what can be done next."""

from __future__ import annotations

import time

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtWidgets import (
    QWIDGETSIZE_MAX,
    QBoxLayout,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.play_sessions import is_live
from gym_gui.services.run_words import is_over, state_word
from gym_gui.services.waiting_line import in_line, places
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.panels.key_numbers import description, key_numbers, situation
from gym_gui.ui.panels.stage_runs import StageRuns
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.headline import RECENT_EPISODES
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome, RunState

_NARROW, _LOW, _FLAT = 560, 390, 340
_LEAST_CARD = 88
"""A number with its heading; where five of them do not fit beside each other, they stand in two lines."""
_BESIDE_WIDTH = 152
_ACTIONS = ("run-pause", "run-resume", "run-cancel", "run-duplicate", "run-replay", "do-use", "show-metrics")


class RunHeadline(StageRuns):
    """Shows one run while it can be seen; :meth:`show_run` says which."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self.name = ElidedLabel(cut=cut_name)
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
        self._cards: dict[str, QFrame] = {}
        self._card_columns = 0
        self.next_actions = self._make_actions()
        self.join = QPushButton(self.tr("Join"))
        self.join.setProperty("kind", "primary")
        self.join.setToolTip(self.tr("Show this live session, and take its seat where you like"))
        self.join.clicked.connect(lambda: cockpit.commands.action("run-join").trigger())
        self.own_view = QPushButton()
        """Leads to the page that the worker of the run has for the stage; hidden where it has none."""
        self.own_view.hide()
        self._lay_out()

    def offer_own_view(self, title: str, help_text: str) -> None:
        """``title``: "" where there is none."""
        self.own_view.setText(title)
        self.own_view.setToolTip(help_text)
        self.own_view.setVisible(bool(title))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addSpacing(6)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        head.addWidget(self.own_view, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self.join, 0, Qt.AlignmentFlag.AlignVCenter)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self.about)
        layout.addWidget(self.sentence)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self.progress, 1)
        row.addWidget(self.steps)
        layout.addLayout(row)
        self._body = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._body.setSpacing(8)
        self._body.addWidget(self._number_cards())
        self._body.addWidget(self.plot, 1)
        layout.addLayout(self._body, 1)
        layout.addWidget(self.next_actions)

    def _make_actions(self) -> ActionButtons:
        """The same ones in the same places whatever the run does."""
        titles = {"run-duplicate": self.tr("Duplicate…"), "show-metrics": self.tr("All metrics")}
        return ActionButtons(
            self._cockpit.commands,
            _ACTIONS,
            titles,
            themes=self._cockpit.themes,
            signs={"run-replay": "replay", "do-use": "checkpoint", "show-metrics": "metrics"},
            partners=("run-pause", "run-resume"),
        )

    def _number_cards(self) -> QWidget:
        row = self._card_row = QWidget()
        self._card_grid = QGridLayout(row)
        self._card_grid.setContentsMargins(0, 0, 0, 0)
        self._card_grid.setSpacing(8)
        last = self.tr("mean of the last {count} episodes").format(count=RECENT_EPISODES)
        for name, title, tooltip in (
            ("mean_return", "", last),
            ("length", "", last),
            ("speed", self.tr("STEPS/S"), self.tr("environment steps per second, as last measured")),
            ("elapsed", self.tr("ELAPSED"), self.tr("how long it ran, without pauses")),
            ("remaining", self.tr("ETA"), self.tr("time until all steps are made, at this pace")),
        ):
            self._cards[name], self._headings[name], self.numbers[name] = _number_card(title, tooltip)
        self._arrange_cards(len(self._cards))
        return row

    def fit(self, room: QSize) -> None:
        """In a small window the curve keeps its room: words give way, and the numbers stand beside it."""
        narrow, low, flat = room.width() < _NARROW, room.height() < _LOW, room.height() < _FLAT
        side = 12 if narrow or flat else 20
        self._headings["mean_return"].setText(self.tr("RETURN") if narrow or flat else self.tr("MEAN RETURN"))
        self._headings["length"].setText(self.tr("LENGTH") if narrow or flat else self.tr("MEAN LENGTH"))
        self.about.setVisible(not low)
        set_style_property(self.name, "role", "title" if flat else "huge")
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(side, 6 if low else 16, side, 6 if low else 14)
        layout.setSpacing(5 if low else 8)
        directions = QBoxLayout.Direction
        self._body.setDirection(directions.RightToLeft if flat else directions.TopToBottom)
        five = room.width() - 2 * side >= len(self._cards) * (_LEAST_CARD + 8)
        self._arrange_cards(1 if flat else len(self._cards) if five else 3)
        self.plot.make_flat(flat)

    def _arrange_cards(self, columns: int) -> None:
        if columns == self._card_columns:
            return
        self._card_columns = columns
        beside = columns == 1
        directions = QBoxLayout.Direction
        for number, card in enumerate(self._cards.values()):
            self._card_grid.addWidget(card, number // columns, number % columns)
            inside = card.layout()
            assert isinstance(inside, QBoxLayout)
            inside.setDirection(directions.LeftToRight if beside else directions.TopToBottom)
            inside.setContentsMargins(10, 0 if beside else 8, 6, 0 if beside else 8)
        for place in range(len(self._cards)):
            self._card_grid.setColumnStretch(place, int(place < columns))
        self._card_grid.setSpacing(3 if beside else 8)
        self._card_row.setMaximumWidth(_BESIDE_WIDTH if beside else QWIDGETSIZE_MAX)
        self._card_row.setMinimumWidth(_BESIDE_WIDTH if beside else 0)

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
        self.name.setText(self._cockpit.runs.label(run))
        self.badge.show_state(state_word(run))
        self.join.setVisible(is_live(run))
        self.about.setText(description(run))
        text, kind = situation(run, self._place_in_line(run))
        self.sentence.setText(text)
        self.sentence.setVisible(bool(text))
        set_style_property(self.sentence, "role", kind or "muted")
        self.draw_curves()
        self.tell_numbers()

    def _why_no_curve(self, run: pb.Run) -> str:
        if not is_over(run):
            return self.tr("waiting for the first numbers")
        metrics = self._store.metrics(run.run_id)
        if metrics is None or not metrics.complete:
            return self.tr("reading the curve…")
        ended = {
            Outcome.FAILED.value: self.tr("the run failed before its first number; the log has all that it printed"),
            Outcome.TIMED_OUT.value: self.tr("the run timed out before its first number"),
            Outcome.LOST.value: self.tr("the run was lost before its first number"),
        }
        return ended.get(run.outcome, self.tr("this run recorded no numbers"))

    def _place_in_line(self, run: pb.Run) -> int:
        return places(in_line(self._cockpit.runs)).get(run.run_id, 0) if run.state == RunState.INIT else 0

    def tell_numbers(self) -> None:
        row = self._row
        if row is None:
            return
        self.plot.explain_nothing(self._why_no_curve(row.run))
        numbers = key_numbers(row, self._store.metrics(row.run_id), time.monotonic())
        for name, label in self.numbers.items():
            label.setText(getattr(numbers, name))
        self.progress.setRange(0, 100)
        self.progress.setValue(numbers.percent or 0)
        alone = self.tr("{steps} steps").format(steps=numbers.steps)
        self.steps.setText(alone if numbers.percent is None else f"{numbers.steps}   ({numbers.percent} %)")
        self.progress.setVisible(numbers.percent is not None)
        self.steps.setVisible(numbers.steps != "–")


def _number_card(title: str, tooltip: str) -> tuple[QFrame, QLabel, QLabel]:
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
    return card, heading, value
