"""The mind of a run that trains, on the stage: what it learned, what it is about to do, which plans decided."""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.run_words import state_word
from gym_gui.ui.context import Cockpit
from gym_gui.ui.mind.cards import Card, ConfidenceBar, IntentionCard
from gym_gui.ui.mind.entries import strategy_words
from gym_gui.ui.mind.mind_feed import MindFeed, MindFeeds
from gym_gui.ui.mind.plan_strip import PlanStrip
from gym_gui.ui.mind.value_view import ValueScale, ValueView
from gym_gui.ui.plots.axis_text import value_text
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.elided_label import ElidedLabel, cut_name
from gym_gui.ui.widgets.frame_view import Frame, FrameView
from gym_gui.ui.widgets.status_badge import StatusBadge
from gym_gui.ui.workers.spade_bdi.mind_tab import AgentChoice
from mosaic_protocol.mind import AgentMind, Mind
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb

_NARROW, _LOW, _FLAT, _TINY, _ROOMY = 560, 420, 360, 270, 560
_LEAST_SIDE, _MOST_SIDE = 190, 330
_ACTIONS = ("run-pause", "run-resume", "run-cancel", "run-replay")


class MindStage(QWidget):
    """``curves_wanted()``: somebody would rather see the curves of the run."""

    curves_wanted = pyqtSignal()

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit, self.run_id = cockpit, run_id
        self.feed: MindFeed = MindFeeds.feed(cockpit, run_id)
        themes = cockpit.themes
        self.name = ElidedLabel(cut=cut_name)
        self.badge = StatusBadge(themes)
        self.place = QLabel()
        self.place.setProperty("role", "muted")
        self.which = AgentChoice(self.feed)
        self.curves = QPushButton(self.tr("Curves"))
        self.curves.setToolTip(self.tr("Show how the run does instead: its curve and its numbers"))
        self.curves.clicked.connect(self.curves_wanted)
        self.about = ElidedLabel()
        self.about.setProperty("role", "muted")
        self.values, self.scale = ValueView(themes), ValueScale(themes)
        self.reading = ElidedLabel()
        self.reading.setProperty("role", "muted")
        self.reading.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.values.pointed.connect(self.reading.setText)
        self.choice = ElidedLabel()
        self.choice.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.confidence = ConfidenceBar(themes)
        self.intentions = IntentionCard(themes)
        self.picture = FrameView(fills=True)
        """The environment, where the run draws it and there is room."""
        self.picture.hide()
        self._has_room_for_picture = False
        self.strip = PlanStrip(themes)
        self.buttons = ActionButtons(cockpit.commands, _ACTIONS, themes=themes, partners=("run-pause", "run-resume"))
        self.waiting = QLabel()
        self.waiting.setProperty("role", "muted")
        self.waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.waiting.setWordWrap(True)
        self._lay_out()
        self.feed.changed.connect(self.tell)
        self.feed.frame_arrived.connect(self._take_frame)
        cockpit.runs.changed.connect(self._runs_changed)
        self.tell()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.name)
        head.addWidget(self.badge, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        for widget in (self.place, self.which, self.curves):
            head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        self._side = QWidget()
        side = QVBoxLayout(self._side)
        side.setContentsMargins(0, 0, 0, 0)
        side.setSpacing(4)
        self._headings = [_heading(self.tr("EXPECTED RETURN")), _heading(self.tr("CONFIDENCE"))]
        side.addWidget(self._headings[0])
        side.addWidget(self.scale)
        side.addWidget(self._headings[1])
        side.addWidget(self.confidence)
        side.addSpacing(4)
        side.addWidget(self.intentions, 2)
        side.addWidget(self.picture, 3)
        left = QVBoxLayout()
        left.setSpacing(4)
        left.addWidget(self.values, 1)
        left.addWidget(self.reading)
        self._body = QWidget()
        body = QHBoxLayout(self._body)
        body.setContentsMargins(0, 0, 0, 0)
        body.setSpacing(12)
        body.addLayout(left, 1)
        body.addWidget(self._side)
        self.plans = Card("")
        self.plans.title.setText(self.tr("Plans, episode by episode"))
        inside = QHBoxLayout()
        inside.setContentsMargins(11, 0, 11, 0)
        inside.addWidget(self.strip)
        self.plans.body.addLayout(inside)
        self.plans.say_nothing("")
        self.plans.head.addWidget(self.choice, 8)
        self.choice.setAlignment(Qt.AlignmentFlag.AlignRight)
        layout = QVBoxLayout(self)
        layout.addLayout(head)
        layout.addWidget(self.about)
        layout.addWidget(self.waiting, 1)
        layout.addWidget(self._body, 1)
        layout.addWidget(self.plans)
        layout.addWidget(self.buttons)
        self.fit(QSize(800, 600))

    def sizeHint(self) -> QSize:
        """Modest: it takes all there is, and what scrolls around it must not scroll for more."""
        return self.minimumSizeHint()

    def fit(self, room: QSize) -> None:
        """In a small window the values keep their room: words give way first, then the plans and the buttons."""
        narrow, low = room.width() < _NARROW, room.height() < _LOW
        flat, tiny = room.height() < _FLAT, room.height() < _TINY
        side = 12 if narrow or low else 20
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.setContentsMargins(side, 6 if low else 14, side, 6 if low else 12)
        layout.setSpacing(4 if low else 8)
        set_style_property(self.name, "role", "title" if low or narrow else "huge")
        self.about.setVisible(not low)
        self.place.setVisible(not narrow)
        self.plans.setVisible(not flat)
        self.buttons.setVisible(room.height() >= _ROOMY)
        self._has_room_for_picture = room.height() >= _ROOMY
        self._show_picture()
        self.strip.make_flat(room.height() < _ROOMY)
        self.reading.setVisible(not tiny)
        for heading in self._headings:
            heading.setVisible(not tiny)
        self.scale.say_its_name(tiny)
        self.confidence.say_its_name(tiny)
        wide = room.width() - 2 * side
        self._side.setFixedWidth(min(_MOST_SIDE, max(_LEAST_SIDE, round(wide * 0.34))))

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.feed.look(self, True, wants_frames=True)
        self.tell()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self.feed.look(self, False)

    def close_page(self) -> None:
        """It is not needed any more."""
        self.feed.look(self, False)

    def _take_frame(self, frame: Frame) -> None:
        self.picture.show_frame(frame)
        self._show_picture()

    def _show_picture(self) -> None:
        self.picture.setVisible(self._has_room_for_picture and self.picture.has_frame)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self.run_id in run_ids:
            self.tell()

    def tell(self) -> None:
        run = self._cockpit.runs.get(self.run_id)
        agent = self.feed.agent
        if run is not None:
            self.name.setText(self._cockpit.runs.label(run))
            self.badge.show_state(state_word(run))
            self.about.setText(" · ".join([*_told_of(run), *self._learning(agent)]))
        has_mind = agent is not None
        self.waiting.setVisible(not has_mind)
        self._body.setVisible(has_mind)
        self.waiting.setText(self.feed.standing()[2])
        if agent is None:
            return
        mind = self.feed.mind
        self.place.setText(self.tr("episode {number}").format(number=f"{agent.episode:,}"))
        self.values.show_table(agent.table)
        self.scale.show_span(self.values.span)
        self.confidence.show_confidence(mind.confidence)
        self.intentions.show_mind(mind)
        self.strip.show_spans(agent.timeline)
        self.choice.setText(_choice(mind))

    def _learning(self, agent: AgentMind | None) -> list[str]:
        mean = self.feed.state.mean
        returns = [self.tr("mean return {mean}").format(mean=value_text(mean))] if mean is not None else []
        return [*(strategy_words(agent.strategy) if agent is not None else []), *returns]


def _told_of(run: pb.Run) -> list[str]:
    seed = f"seed {run.seed}" if run.HasField("seed") else ""
    return [part for part in (run.algo, run.env_id, seed) if part]


def _choice(mind: Mind) -> str:
    """``exploit: confidence(C) & C >= 0.3``"""
    chosen = next((one for one in mind.considered if not one.why_not), None)
    condition = f": {one_line(chosen.context)}" if chosen is not None and chosen.context else ""
    return f"{one_line(mind.plan)}{condition}" if mind.plan else ""


def _heading(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("role", "section")
    return label
