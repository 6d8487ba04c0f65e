"""A sweep on the stage: how far it is and what it found, what of its budget is used, and all its trials at a glance."""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QLineEdit, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.run_words import duration, quantity
from gym_gui.services.sweeps.axes import filter_text
from gym_gui.services.sweeps.insight import (
    STATE_COLOURS,
    ended,
    objective_title,
    seconds_left,
    with_live,
    worth,
)
from gym_gui.services.sweeps.model import Sweep, TrialState
from gym_gui.ui.context import Cockpit
from gym_gui.ui.styling import set_style_property, tell
from gym_gui.ui.sweeps.budget_bar import BudgetBar
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.sweeps.parallel import MOST_LINES, ParallelCoordinates
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.status_badge import StatusBadge

ACTIONS = ("sweep-pause", "sweep-resume", "sweep-stop", "sweep-more")
_FLAT, _LOW = 360, 470


class SweepPage(QWidget):
    """``left()``: the person wants the stage back. Questions are asked in :attr:`ask_bar` and :attr:`more_bar`."""

    left = pyqtSignal()

    def __init__(self, cockpit: Cockpit, desk: SweepDesk) -> None:
        super().__init__()
        self._cockpit, self._desk = cockpit, desk
        self._pruned = 0
        self.name = ElidedLabel(cut=cut_name)
        self.name.setProperty("role", "huge")
        self.badge = StatusBadge(cockpit.themes)
        self.badge.setAccessibleName(self.tr("State of the sweep"))
        self.progress = QLabel()
        self.progress.setProperty("role", "muted")
        self.about, self.sentence = ElidedLabel(), QLabel()
        self.about.setProperty("role", "muted")
        self.sentence.setWordWrap(True)
        self.close_button = QPushButton(self.tr("Close"))
        self.close_button.setProperty("kind", "flat")
        self.close_button.setToolTip(self.tr("Show the runs on the stage again; the sweep goes on (Esc)"))
        self.close_button.clicked.connect(self.left)
        self.budget = BudgetBar(cockpit.themes)
        self.ask_bar = AskBar()
        self.more = QLineEdit("+50%")
        self.more.setAccessibleName(self.tr("More trials"))
        self.more.setToolTip(self.tr("How many more trials there may be: +10, or +50% of those there may be now"))
        self.more_bar = AskBar(self.more, harmless=True)
        self.parallel = ParallelCoordinates(desk, cockpit.themes)
        self.parallel.chosen.connect(desk.choose)
        self.filter_told = ElidedLabel()
        self.filter_told.setProperty("role", "muted")
        titles = {
            "sweep-pause": self.tr("Pause"),
            "sweep-resume": self.tr("Resume"),
            "sweep-stop": self.tr("Stop…"),
        }
        self.next_actions = ActionButtons(cockpit.commands, ACTIONS, titles, partners=ACTIONS[:2])
        self._lay_out()
        for changed in (desk.opened, desk.changed):
            changed.connect(self.tell)
        desk.moved.connect(self._tell_budget)
        desk.filtered.connect(self._tell_filter)
        desk.told.connect(self._tell_failure)
        self.setFocusProxy(self.parallel)
        desk.watch(self)
        self.tell()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addSpacing(6)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        head.addWidget(self.close_button, 0, Qt.AlignmentFlag.AlignVCenter)
        told = QHBoxLayout()
        self.about.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        told.addWidget(self.about, 1)
        told.addWidget(self.progress)
        card = QFrame()
        card.setProperty("role", "card")
        title = QLabel(self.tr("Parallel coordinates"))
        title.setStyleSheet("font-weight: 600;")
        self.filter_told.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.filter_told.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._card_head = QWidget()
        top = QHBoxLayout(self._card_head)
        top.setContentsMargins(10, 0, 10, 0)
        top.addWidget(title)
        top.addWidget(self.filter_told, 1)
        inside = QVBoxLayout(card)
        inside.setContentsMargins(2, 8, 2, 4)
        inside.setSpacing(4)
        inside.addWidget(self._card_head)
        inside.addWidget(self.parallel, 1)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addLayout(told)
        layout.addWidget(self.sentence)
        layout.addWidget(self.budget)
        layout.addWidget(self.ask_bar)
        layout.addWidget(self.more_bar)
        layout.addWidget(card, 1)
        layout.addWidget(self.next_actions)

    def fit(self, room: QSize) -> None:
        """Where it is low, what says least gives way: the legend, then the title of the coordinates."""
        low, flat = room.height() < _LOW, room.height() < _FLAT
        side = 12 if flat or room.width() < 560 else 20
        layout = self.layout()
        assert layout is not None
        layout.setContentsMargins(side, 6 if low else 14, side, 6 if low else 12)
        layout.setSpacing(5 if low else 9)
        set_style_property(self.name, "role", "title" if flat else "huge")
        self._card_head.setVisible(not flat)
        self.budget.make_flat(low)

    # ---- telling -------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        sweep = self._desk.sweep
        if sweep is None:
            self.name.setText(self.tr("Reading the sweep…") if self._desk.reference else "")
            self.badge.show_state("")
            for label in (self.progress, self.about, self.sentence):
                label.setText("")
            return
        self.name.setText(sweep.name)
        self.badge.show_state(str(sweep.state), colour_name=STATE_COLOURS[sweep.state])
        self.progress.setText(self._progress(sweep))
        self.about.setText(self._about(sweep))
        tell(self.sentence, sweep.reason, "error" if sweep.state == "failed" else "muted")
        self._pruned = sum(trial.state is TrialState.PRUNED for trial in sweep.trials)
        self._tell_budget()
        self._tell_filter()

    def _tell_budget(self) -> None:
        picture = self._desk.picture
        if picture is not None:
            live = self._desk.live_steps(picture.open_trials)
            self.budget.show_budget(with_live(picture.budget, picture.open_trials, live), self._pruned)

    def _progress(self, sweep: Sweep) -> str:
        done = self.tr("{done} of {all} trials").format(done=ended(sweep), all=f"{sweep.budget:,}")
        left = seconds_left(sweep)
        return done if left is None else self.tr("{done} · about {time} left").format(done=done, time=duration(left))

    def _about(self, sweep: Sweep) -> str:
        settings = sweep.spec.config.get("metadata", {}).get("worker", {}).get("config", {})
        what = [str(settings[name]) for name in ("algo", "env_id", "dataset") if settings.get(name)]
        best = sweep.best()
        value = worth(best) if best is not None else None
        if best is None or value is None:
            found = self.tr("no complete trial yet")
        else:
            found = self.tr("best: trial {number} with {objective} {value}").format(
                number=best.number, objective=objective_title(sweep.spec), value=quantity(value)
            )
        return " · ".join([*what, found])

    def _tell_filter(self) -> None:
        picture = self._desk.picture
        if picture is None:
            return
        if self._desk.ranges:
            passing = int(self._desk.passing().sum())
            told = self.tr("{count} pass: {filter}").format(
                count=f"{passing:,}", filter=filter_text(picture.axes, self._desk.ranges)
            )
        elif len(picture.trials) > MOST_LINES:
            told = self.tr("the best {shown} of {all} trials").format(shown=MOST_LINES, all=f"{len(picture.trials):,}")
        else:
            told = self.tr("drag along an axis to filter")
        self.filter_told.setText(told)

    def _tell_failure(self, sentence: str) -> None:
        if self._desk.sweep is None and self._desk.reference:
            self.name.setText(self.tr("The sweep cannot be shown"))
        tell(self.sentence, sentence, "warning")

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)
