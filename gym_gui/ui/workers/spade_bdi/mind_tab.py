"""The Mind tab of a run: what its agent believes now, why it chose its plan, what was said, and a field to tell it
something."""

from __future__ import annotations

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.mind.cards import BeliefCard, MessageCard, WhyCard
from gym_gui.ui.mind.mind_feed import MindFeed, MindFeeds
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.status_badge import StatusBadge
from gym_gui.ui.workers.spade_bdi.tell_row import TellRow
from mosaic_protocol.plain_text import one_line

_BESIDE = 560
"""From this width on the cards stand beside each other in a low panel."""


class MindTab(QWidget):
    """Follows a run while it can be seen. :meth:`close_tab` ends it."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit = cockpit
        self.feed: MindFeed = MindFeeds.feed(cockpit, run_id)
        themes = cockpit.themes
        self.badge = StatusBadge(themes)
        self.badge.setAccessibleName(self.tr("Whether every episode is shown"))
        self.place = QLabel()
        self.place.setProperty("role", "muted")
        self.which = AgentChoice(self.feed)
        self.beliefs, self.why, self.messages = BeliefCard(themes), WhyCard(themes), MessageCard(themes)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.tell_row = TellRow(self.feed)
        self.empty = EmptyPage()
        self._lay_out()
        self.feed.changed.connect(self._tell)
        self._tell()

    def _lay_out(self) -> None:
        head = self._head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.badge)
        head.addWidget(self.place)
        head.addStretch(1)
        head.addWidget(self.which)
        self.cards = QSplitter(Qt.Orientation.Vertical)
        self.cards.setChildrenCollapsible(False)
        self.cards.setHandleWidth(8)
        self.cards.setStyleSheet("QSplitter::handle { background: transparent; }")
        for card, share in ((self.beliefs, 4), (self.why, 3), (self.messages, 3)):
            self.cards.addWidget(card)
            self.cards.setStretchFactor(self.cards.count() - 1, share)
        page = QWidget()
        inside = self._inside = QVBoxLayout(page)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(8)
        inside.addWidget(self.problem)
        inside.addWidget(self.cards, 1)
        inside.addWidget(self.tell_row)
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

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        beside = self.width() >= _BESIDE and self.height() < self.width()
        if beside == (self.cards.orientation() == Qt.Orientation.Horizontal):
            return
        self.cards.setOrientation(Qt.Orientation.Horizontal if beside else Qt.Orientation.Vertical)
        # A low panel has one line for everything that is no card.
        self._head.insertWidget(2, self.tell_row, 20) if beside else self._inside.addWidget(self.tell_row)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self.feed.look(self, True)
        self._tell()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self.feed.look(self, False)

    def close_tab(self) -> None:
        """Look no more; the run goes on."""
        self.feed.look(self, False)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        word, colour, sentence = self.feed.standing()
        self.badge.show_state(word, colour_name=colour)
        self.badge.setToolTip(sentence)
        agent = self.feed.agent
        self.place.setText(self.tr("episode {number}").format(number=f"{agent.episode:,}") if agent is not None else "")
        self._pages.setCurrentIndex(0 if agent is None else 1)
        if agent is None:
            self._tell_nothing(sentence)
            return
        mind = self.feed.mind
        self.beliefs.show_mind(mind)
        self.why.show_mind(mind)
        self.messages.show_mind(mind)
        tell(self.problem, one_line(mind.problem), "warning")

    def _tell_nothing(self, sentence: str) -> None:
        if self.feed.ended:
            hint = self.tr("Replay shows what the agent believed in every recorded episode (Ctrl+R).")
            self.empty.tell(self.tr("The run is over"), hint)
        else:
            self.empty.tell(self.tr("No mind to look into yet"), sentence)


class AgentChoice(CalmCombo):
    """Which of several agents is looked at; hidden where there is one."""

    def __init__(self, feed: MindFeed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self.setAccessibleName(self.tr("Which agent is looked at"))
        self.setToolTip(self.tr("Which of the agents of this run is looked at"))
        self.activated.connect(lambda _: feed.choose(str(self.currentData())))
        feed.changed.connect(self._follow)
        self.hide()
        self._follow()

    def _follow(self) -> None:
        names = self._feed.names
        if names != [self.itemData(number) for number in range(self.count())]:
            self.clear()
            for name in names:
                self.addItem(one_line(name), name)
        if (agent := self._feed.agent) is not None:
            self.setCurrentIndex(max(0, self.findData(agent.name)))
        self.setVisible(len(names) > 1)
