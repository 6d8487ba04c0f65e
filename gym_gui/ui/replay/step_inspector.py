"""Everything that is known of one step: what was seen and done, what it brought, and whether the replay agrees."""

from __future__ import annotations

import math
from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QFontDatabase
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.services.replay.episode_record import StepFacts
from gym_gui.ui.play.actors import actor_colour, actor_title
from gym_gui.ui.replay.desk import Opened, ReplayDesk
from gym_gui.ui.replay.fact_rows import FactRows, Row
from gym_gui.ui.replay.words import number_words, verdict_here, why_verified
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.dialogue import DIALOGUE, Exchange
from mosaic_protocol.mind import MIND
from mosaic_protocol.plain_text import one_line, visible

_APART = (MIND, DIALOGUE)
_LONGEST_DIALOGUE = 60_000


class StepInspector(QWidget):
    """Follows the desk."""

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk, self._themes = desk, themes
        tr = self.tr
        self.title, self.actor, self.verdict = QLabel(), QLabel(), QLabel()
        self.title.setProperty("role", "title")
        self.verdict.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.observation, self.action, self.outcome, self.extras = (FactRows(themes) for _ in range(4))
        self.action_words, self.observation_form = ElidedLabel(), QLabel()
        self.action_words.setProperty("role", "title")
        self.observation_form.setProperty("role", "muted")
        self.observation_form.setWordWrap(True)
        self.scale_note = QLabel(tr("Scaled to this episode; the mark is the step before."))
        self.scale_note.setProperty("role", "muted")
        self.scale_note.setWordWrap(True)
        self.dialogue = QLabel()
        self.dialogue.setTextFormat(Qt.TextFormat.PlainText)
        self.dialogue.setWordWrap(True)
        self.dialogue.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))  # it may hold a map
        self.dialogue.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.dialogue.setAccessibleName(tr("What the model was asked and what it answered"))
        self.foot = QLabel()
        self.foot.setProperty("role", "muted")
        self.foot.setWordWrap(True)
        self.empty = EmptyPage()
        self._cards = {
            "observation": _card(tr("Observation"), self.observation_form, self.observation, self.scale_note),
            "action": _card(tr("Action"), self.action_words, self.action),
            "dialogue": _card(tr("Asked and answered"), self.dialogue),
            "outcome": _card(tr("Reward and value"), self.outcome),
            "extras": _card(tr("Extras"), self.extras),
        }
        self._lay_out()
        desk.opened.connect(self._tell)
        desk.told.connect(self._tell)
        desk.place_changed.connect(lambda _: self._tell())
        themes.changed.connect(lambda _: self._tell())
        self._tell()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.title)
        head.addWidget(self.actor)
        head.addStretch(1)
        head.addWidget(self.verdict)
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(12, 10, 12, 12)
        column.setSpacing(10)
        column.addLayout(head)
        for card in self._cards.values():
            column.addWidget(card)
        column.addWidget(self.foot)
        column.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inside)
        self.setFocusProxy(area)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._pages)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        now = self._desk.current
        record = now.record if now is not None else None
        if now is None or record is None:
            self._tell_nothing(now)
            return
        self._pages.setCurrentIndex(1)
        place = self._desk.place
        if place >= len(record):
            self._tell_end(now, len(record))
            return
        facts = record.step(place)
        self.title.setText(self.tr("Step {place}").format(place=f"{place:,}"))
        colour = actor_colour(facts.actor, self._themes.theme)
        self.actor.setText(actor_title(facts.actor))
        self.actor.setStyleSheet(f"color: {colour.name()}; font-weight: 600;")
        self._tell_verdict(now, place)
        self._tell_observation(facts)
        self._tell_action(facts, colour.name())
        self._tell_outcome(facts)
        self._tell_extras(facts)
        for card in self._cards.values():
            card.show()
        self._tell_dialogue(record.dialogue(place))

    def _tell_nothing(self, now: Opened | None) -> None:
        self._pages.setCurrentIndex(0)
        if now is None:
            text = self.tr("Open a recorded episode: each of its steps is shown here.")
            self.empty.tell(self.tr("No step"), text)
        elif now.clip is not None:
            text = self.tr("A clip is a film: what was seen and done in it was not recorded.")
            self.empty.tell(self.tr("No steps"), text)
        elif now.unread:
            self.empty.tell(self.tr("The steps cannot be read"), now.unread)
        else:
            self.empty.tell(self.tr("Reading the steps…"), "")

    def _tell_end(self, now: Opened, steps: int) -> None:
        self.title.setText(self.tr("End"))
        self.actor.setText("")
        self._tell_verdict(now, steps)
        outcome = now.episode.outcome if now.episode is not None else ""
        record = now.record
        assert record is not None
        rows = [
            Row(self.tr("how it ended"), outcome or self.tr("not ended")),
            Row(self.tr("steps"), f"{steps:,}"),
            Row(self.tr("return"), number_words(record.total, signed=True), strong=True),
        ]
        self.outcome.show_rows(rows)
        for name, card in self._cards.items():
            card.setVisible(name == "outcome")

    def _tell_verdict(self, now: Opened, place: int) -> None:
        said = verdict_here(now, place)
        tell(self.verdict, said.text, said.role)
        self.foot.setText(why_verified(now))
        self.foot.setVisible(bool(self.foot.text()))

    def _tell_observation(self, facts: StepFacts) -> None:
        rows = []
        for one in facts.readings:
            if one.is_yes_or_no:
                rows.append(Row(one.name, self.tr("yes") if one.value else self.tr("no"), "span", one.value, 0, 1))
                continue
            text = number_words(one.value)
            rows.append(Row(one.name, text, "span", one.value, one.low, one.high, one.before))
        self.observation.show_rows(rows)
        self.scale_note.setVisible(bool(rows))
        self.observation_form.setText(facts.form or self.tr("not recorded"))
        self.observation_form.setVisible(not rows)

    def _tell_action(self, facts: StepFacts, colour: str) -> None:
        detail = f"   {facts.action_detail}" if facts.action_detail else ""
        self.action_words.setText(f"{facts.action}{detail}")
        self.action_words.setStyleSheet(f"color: {colour};")
        rows = [Row(one.name, one.text, "share", one.share, strong=one.is_taken) for one in facts.choices]
        if facts.advised:
            policy = actor_colour("policy", self._themes.theme).name()
            rows.append(Row(self.tr("the policy would have"), facts.advised, strong=True, colour=policy))
        self.action.show_rows(rows)

    def _tell_outcome(self, facts: StepFacts) -> None:
        colour = "good" if facts.reward > 0 else "bad" if facts.reward < 0 else ""
        rows = [
            Row(self.tr("reward"), number_words(facts.reward, signed=True), strong=True, colour=colour),
            Row(self.tr("return so far"), number_words(facts.total, signed=True)),
            Row(self.tr("return to go"), number_words(facts.to_go, signed=True)),
        ]
        if facts.value is not None:
            rows.append(Row(self.tr("value"), number_words(facts.value), strong=True))
            rows.append(Row(self.tr("return to go − value"), number_words(facts.to_go - facts.value, signed=True)))
        self.outcome.show_rows(rows)

    def _tell_dialogue(self, exchange: Exchange | None) -> None:
        """Only where a language model was asked."""
        self._cards["dialogue"].setVisible(exchange is not None)
        if exchange is not None:
            parts = [f"{one.role.upper()}\n{one.text}" for one in exchange.prompt]
            parts += [self.tr("THINKING\n{text}").format(text=exchange.reasoning)] if exchange.reasoning else []
            parts += [self.tr("ANSWER\n{text}").format(text=exchange.response)] if exchange.response else []
            parts.append(" · ".join(filter(None, (exchange.action, exchange.validity, exchange.source, exchange.note))))
            self.dialogue.setText(visible("\n\n".join(parts)[:_LONGEST_DIALOGUE]))

    def _tell_extras(self, facts: StepFacts) -> None:
        ended = f"{_yes(facts.terminated)}, {_yes(facts.truncated)}"
        rows = [
            Row(self.tr("terminated, truncated"), ended),
            Row(self.tr("step of the run"), f"{facts.number:,}"),
        ]
        # A mind has a page of its own, a dialogue a card.
        rows += [Row(one_line(str(name)), _brief(value)) for name, value in facts.extras.items() if name not in _APART]
        self.extras.show_rows(rows[:40])


def _card(title: str, *inside: QWidget) -> QFrame:
    card = QFrame()
    card.setProperty("role", "card")
    heading = QLabel(title)
    heading.setStyleSheet("font-weight: 600;")
    layout = QVBoxLayout(card)
    layout.setContentsMargins(12, 8, 12, 10)
    layout.setSpacing(4)
    layout.addWidget(heading)
    for widget in inside:
        layout.addWidget(widget)
    return card


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _brief(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return number_words(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_brief(one)}" for key, one in value.items())
    return one_line(str(value))[:200]
