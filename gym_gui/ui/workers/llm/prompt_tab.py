"""The Prompts tab of a run: what its model was asked last, what it answered, and how a person answers instead."""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QFontDatabase, QHideEvent, QShowEvent
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from gym_gui.ui.context import Cockpit
from gym_gui.ui.mind.mind_feed import MindFeed, MindFeeds
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.dialogue import Exchange
from mosaic_protocol.live.messages import LONGEST_TOLD
from mosaic_protocol.mind import GIVE_BACK, TAKE_OVER
from mosaic_protocol.plain_text import one_line, visible


class PromptTab(QWidget):
    """Follows a run while it can be seen. :meth:`close_tab` ends it."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self.feed: MindFeed = MindFeeds.feed(cockpit, run_id)
        tr = self.tr
        self.badge = StatusBadge(cockpit.themes)
        self.facts = QLabel()
        self.facts.setProperty("role", "muted")
        self.facts.setWordWrap(True)
        self.prompt = _reading(tr("What the model was asked last"))
        self.answer = _reading(tr("What it answered"))
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.seat = QPushButton()
        self.choice = CalmCombo()
        self.choice.setAccessibleName(tr("Action to play"))
        self.choice.setToolTip(tr("The action that you want in the place of the model's"))
        self.play = QPushButton(tr("Play it"))
        self.play.setToolTip(tr("Play this action at the next step; it is recorded as a person's"))
        self.hint = QLineEdit()
        self.hint.setMaxLength(LONGEST_TOLD)
        self.hint.setPlaceholderText(tr("Tell the model something, and press Enter"))
        self.hint.setAccessibleName(tr("Tell the model something"))
        self.hint.setToolTip(tr("It stands in the next prompt as said by a person, and in the record"))
        self.said = QLabel()
        self.said.setWordWrap(True)
        self.empty = EmptyPage()
        self._lay_out()
        self.seat.clicked.connect(self._change_seat)
        self.play.clicked.connect(lambda: self._tell(self.choice.currentText()))
        self.hint.returnPressed.connect(self._tell_hint)
        self.feed.changed.connect(self._follow)
        self.feed.refused.connect(lambda sentence: tell(self.said, one_line(sentence), "error"))
        self._follow()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.badge)
        head.addWidget(self.facts, 1)
        texts = QSplitter(Qt.Orientation.Vertical)
        texts.setChildrenCollapsible(False)
        texts.addWidget(self.prompt)
        texts.addWidget(self.answer)
        texts.setStretchFactor(0, 2)
        texts.setStretchFactor(1, 1)
        row = QHBoxLayout()
        row.setSpacing(6)
        for widget, share in ((self.seat, 0), (self.choice, 0), (self.play, 0), (self.hint, 1)):
            row.addWidget(widget, share)
        page = QWidget()
        inside = QVBoxLayout(page)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(8)
        inside.addWidget(self.note)
        inside.addWidget(texts, 1)
        inside.addLayout(row)
        inside.addWidget(self.said)
        self._pages = QStackedWidget()
        self._pages.addWidget(self.empty)
        self._pages.addWidget(page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self._pages, 1)

    def sizeHint(self) -> QSize:
        return QSize(340, 520)

    def minimumSizeHint(self) -> QSize:
        return QSize(240, 120)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.feed.look(self, True)
        self._follow()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self.feed.look(self, False)

    def close_tab(self) -> None:
        """Look no more; the run goes on."""
        self.feed.look(self, False)

    # ---- what is shown -------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        word, colour, sentence = self.feed.standing()
        self.badge.show_state(word, colour_name=colour)
        self.badge.setToolTip(sentence)
        agent = self.feed.agent
        exchange = agent.exchange if agent is not None else None
        self._pages.setCurrentIndex(0 if exchange is None else 1)
        if agent is None or exchange is None:
            self.facts.clear()
            hint = self.tr("Steps has what was asked and answered.") if self.feed.ended else sentence
            self.empty.tell(self.tr("No prompt to show"), hint)
            return
        self.facts.setText(self._facts(exchange, agent.strategy))
        prompt = "\n\n".join(f"{one.role.upper()}\n{one.text}" for one in exchange.prompt)
        _show(self.prompt, prompt, newest_last=True)
        is_asked = agent.is_held and not exchange.action
        waits = self.tr("The run waits for you: choose an action and play it, or give back.")
        _show(self.answer, waits if is_asked else self._answered(exchange))
        tell(self.note, one_line(exchange.note), "warning")
        self._arrange(agent.choices, is_held=agent.is_held)

    def _arrange(self, choices: tuple[str, ...], *, is_held: bool) -> None:
        if [self.choice.itemText(number) for number in range(self.choice.count())] != list(choices):
            self.choice.clear()
            self.choice.addItems(choices)
        give = self.tr("The model decides again from the next step on")
        take = self.tr("The run waits for your actions from the next step on; each is recorded as a person's")
        self.seat.setText(self.tr("Give back") if is_held else self.tr("Take over"))
        self.seat.setToolTip(give if is_held else take)
        self.seat.setProperty("held", is_held)
        for widget in (self.seat, self.choice, self.play, self.hint):
            widget.setEnabled(self.feed.is_live)

    def _facts(self, exchange: Exchange, sums: dict[str, float]) -> str:
        about = "~" if exchange.is_estimated else ""
        parts = [self._validity(exchange), exchange.source or "", exchange.rung]
        if exchange.tokens_in:
            parts.append(
                self.tr("{a}{i:,} + {a}{o:,} tokens").format(a=about, i=exchange.tokens_in, o=exchange.tokens_out)
            )
            parts.append(f"{exchange.seconds:.2f} s")
        if exchange.cost:
            parts.append(f"${exchange.cost:.6f}")
        if "calls" in sums:
            parts.append(self.tr("{calls:,.0f} calls in all").format(calls=sums["calls"]))
        return " · ".join(one for one in map(one_line, parts) if one)

    def _validity(self, exchange: Exchange) -> str:
        return {
            "valid": self.tr("valid"),
            "repaired": self.tr("valid in the second turn"),
            "defaulted": self.tr("not valid: the idle action was taken"),
            "planned": self.tr("from the plan"),
            "person": self.tr("played by a person") if exchange.action else "",
        }[exchange.validity]

    def _answered(self, exchange: Exchange) -> str:
        parts = [self.tr("ACTION: {action}").format(action=exchange.action)] if exchange.action else []
        parts += [self.tr("PLAN: {plan}").format(plan=", ".join(exchange.plan))] if exchange.plan else []
        parts += [self.tr("THINKING\n{text}").format(text=exchange.reasoning)] if exchange.reasoning else []
        parts += [self.tr("ANSWER\n{text}").format(text=exchange.response)] if exchange.response else []
        return "\n\n".join(parts)

    # ---- what is told --------------------------------------------------------------------------------------------

    def _change_seat(self) -> None:
        agent = self.feed.agent
        self._tell(GIVE_BACK if agent is not None and agent.is_held else TAKE_OVER)

    def _tell(self, goal: str) -> None:
        tell(self.said, "", "muted")
        self.feed.tell(goal, "goal")

    def _tell_hint(self) -> None:
        if text := self.hint.text().strip():
            self.feed.tell(text, "belief")
            self.hint.clear()


def _reading(name: str) -> QPlainTextEdit:
    view = QPlainTextEdit()
    view.setReadOnly(True)
    view.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))  # maps are drawn with characters
    view.setAccessibleName(name)
    view.setToolTip(name)
    return view


def _show(view: QPlainTextEdit, text: str, *, newest_last: bool = False) -> None:
    """Nothing in it steers the view, and one who reads somewhere is not taken away from there."""
    shown, bar = visible(text), view.verticalScrollBar()
    if view.toPlainText() == shown or bar is None:
        return
    place, follows = bar.value(), newest_last and bar.value() >= bar.maximum()
    view.setPlainText(shown)
    bar.setValue(bar.maximum() if follows else place)
