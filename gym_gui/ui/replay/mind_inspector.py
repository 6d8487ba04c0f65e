"""What the agent believed, wanted and chose at the step of a replay, and why; and the pane that has it beside the step.

Only workers with beliefs record minds. They are put together from changes in a thread, once for an episode.
"""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QFont
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.services.minds import MindAt, mind_at, minds_of
from gym_gui.services.replay.names import action_names
from gym_gui.ui.mind.cards import BeliefCard, Card, ConfidenceBar, IntentionCard, MessageCard, WhyCard
from gym_gui.ui.mind.values import best_of, short
from gym_gui.ui.replay.desk import Opened, ReplayDesk
from gym_gui.ui.replay.fact_rows import FactRows, Row
from gym_gui.ui.replay.step_inspector import StepInspector
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.segments import Segments
from mosaic_protocol.mind import MIND, Mind
from mosaic_protocol.plain_text import one_line

_FRONT = "replay.inspector"


class MindInspector(QWidget):
    """Follows the desk. ``found(bool)``: whether the episode that is open has records of a mind."""

    found = pyqtSignal(bool)

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk = desk
        self._of: Opened | None = None
        """The episode whose minds were asked for."""
        self.minds: list[MindAt] = []
        self.problem = ""
        self.title, self.agent, self.since = QLabel(), ElidedLabel(), QLabel()
        self.title.setProperty("role", "title")
        self.agent.setProperty("role", "muted")
        self.since.setProperty("role", "muted")
        self.plan = ElidedLabel()
        bold = QFont(self.plan.font())
        bold.setWeight(QFont.Weight.DemiBold)
        self.plan.setFont(bold)
        self.trouble = QLabel()
        self.trouble.setWordWrap(True)
        self.confidence = ConfidenceBar(themes)
        self.values = FactRows(themes)
        self.choice = Card(self.tr("Choice"))
        self.why, self.beliefs = WhyCard(themes, whole=True), BeliefCard(themes, whole=True)
        self.intentions, self.messages = IntentionCard(themes, whole=True), MessageCard(themes, whole=True)
        self.empty = EmptyPage()
        self._lay_out()
        desk.opened.connect(self._follow)
        desk.told.connect(self._follow)
        desk.place_changed.connect(lambda _: self._tell())
        self._follow()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.title)
        head.addWidget(self.agent)
        head.addStretch(1)
        head.addWidget(self.since)
        self.choice.say_nothing("")
        inside = QVBoxLayout()
        inside.setContentsMargins(11, 0, 11, 2)
        inside.setSpacing(4)
        inside.addWidget(self.plan)
        sure = QHBoxLayout()
        sure.addWidget(QLabel(self.tr("confidence")))
        sure.addWidget(self.confidence, 1)
        inside.addLayout(sure)
        inside.addWidget(self.values)
        inside.addWidget(self.trouble)
        self.choice.body.addLayout(inside)
        column_widget = QWidget()
        column = QVBoxLayout(column_widget)
        column.setContentsMargins(12, 10, 12, 12)
        column.setSpacing(10)
        column.addLayout(head)
        for card in (self.choice, self.why, self.beliefs, self.intentions, self.messages):
            column.addWidget(card)
        column.addStretch(1)
        area = self._area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(column_widget)
        self.setFocusProxy(area)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._pages)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        now = self._desk.current
        if now is not self._of and (now is None or now.record is not None):
            self._of, self.minds, self.problem = now, [], ""
            has_minds = now is not None and now.record is not None and _has_minds(now)
            if now is not None and has_minds:
                self._read(now)
            self.found.emit(has_minds)
        self._tell()

    def _read(self, now: Opened) -> None:
        source = self._desk.source
        if source is None or now.episode is None:
            return
        number = now.episode.number

        def done(minds: list[MindAt]) -> None:
            if now is self._of:
                self.minds = minds
                self._tell()

        def failed(sentence: str) -> None:
            if now is self._of:
                self.problem = sentence
                self._tell()

        self._desk.cockpit.bridge.in_background(lambda: minds_of(source, number), done, failed, owner=self)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if not self.minds:
            self._pages.setCurrentIndex(0)
            if self.problem:
                self.empty.tell(self.tr("The mind cannot be shown"), self.problem)
            else:
                self.empty.tell(self.tr("Reading what the agent believed…") if self._of is not None else "", "")
            return
        self._pages.setCurrentIndex(1)
        place = self._desk.place
        at = mind_at(self.minds, place)
        self.title.setText(self.tr("Step {place}").format(place=f"{place:,}"))
        self.agent.setText(one_line(at.agent_id))
        as_of = self.tr("recorded at step {place}").format(place=f"{at.place:,}")
        self.since.setText("" if at.place == place else as_of)
        self._tell_choice(at.mind, is_here=at.place == place)
        for card in (self.why, self.beliefs, self.intentions, self.messages):
            card.show_mind(at.mind)

    def _tell_choice(self, mind: Mind, *, is_here: bool) -> None:
        plan, goal = one_line(mind.plan) or "–", one_line(mind.goal)
        self.plan.setText(self.tr("{plan} for {goal}").format(plan=plan, goal=goal) if goal else plan)
        self.confidence.show_confidence(mind.confidence)
        self.values.show_rows(self._value_rows(mind.values if is_here else ()))
        tell(self.trouble, one_line(mind.problem), "warning")

    def _value_rows(self, values: tuple[float, ...]) -> list[Row]:
        """What it expected of each action; as bars between the least and the most."""
        if not values:
            return []
        record = self._of.record if self._of is not None else None
        told, env_id = (record.action_names, record.env_id) if record is not None else ((), "")
        low, high, best = min(values), max(values), best_of(values)
        rows = []
        for place, (name, value) in enumerate(zip(action_names(env_id, len(values), told), values, strict=True)):
            share = (value - low) / (high - low) if high > low else 0.0
            rows.append(Row(one_line(name), short(value), "share", share, strong=place in best))
        return rows


def _has_minds(now: Opened) -> bool:
    return now.record is not None and any(MIND in told for told in now.record.episode.extras.values())


class InspectorPane(QWidget):
    """The step, or where its episode has one the mind behind it."""

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preferences = desk.cockpit.preferences
        self.step, self.mind = StepInspector(desk, themes), MindInspector(desk, themes)
        self.front = Segments(
            [
                ("step", self.tr("Step"), self.tr("What was seen, done and rewarded in this step")),
                ("mind", self.tr("Mind"), self.tr("What the agent believed at this step, what it chose, and why")),
            ]
        )
        self.front.choose(self._preferences.get(_FRONT, "mind"))
        self.front.chosen.connect(self._choose)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.step)
        self.pages.addWidget(self.mind)
        self._has_mind = False
        row = QHBoxLayout()
        row.setContentsMargins(12, 8, 12, 0)
        row.addWidget(self.front)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self.pages, 1)
        self.mind.found.connect(self._offer)
        self._offer(has_mind=False)

    def _offer(self, has_mind: bool) -> None:
        self._has_mind = has_mind
        self.front.setVisible(has_mind)
        self._arrange()

    def _choose(self, name: str) -> None:
        self._preferences.put(_FRONT, name)
        self._arrange()

    def _arrange(self) -> None:
        shown = self.mind if self._has_mind and self.front.choice == "mind" else self.step
        self.pages.setCurrentWidget(shown)
        self.setFocusProxy(shown)
