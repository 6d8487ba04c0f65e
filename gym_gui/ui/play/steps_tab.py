"""The Steps tab of a run: its newest steps as they are recorded, the return of the episode, and what a policy thinks.

Steps come over the telemetry lane, whatever made them; the return and the policy's opinion of a live session come from
the session itself, at once.
"""

from __future__ import annotations

import time
from typing import Any

from PyQt6.QtCore import QSize, Qt, QTimer
from PyQt6.QtGui import QFont, QHideEvent, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.play import words
from gym_gui.ui.play.actors import HUMAN, POLICY, RANDOM, SCRIPTED, actor_colour, actor_icon, actor_title, last_actor
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.policy_names import policy_name
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.play.steps_advice import AdviceCard
from gym_gui.ui.play.steps_chart import ReturnChart, ReturnCurve
from gym_gui.ui.play.steps_feed import BusBatch, BusFeed
from gym_gui.ui.play.steps_ring import MOST_ROWS, StepRing, StepRow
from gym_gui.ui.play.steps_table import DIFFERS, StepTable, StepView
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.status_badge import StatusBadge
from mosaic_protocol.live.messages import State

REFRESH_MILLISECONDS = 100
_PACE_SECONDS = 1.0
_LEAST_WITH_CURVE, _LEAST_WITH_ADVICE = 330, 260
_ICON = 15


class StepsTab(QWidget):
    """Follows a run while it can be seen, and asks for nothing otherwise. :meth:`close_tab` ends it."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit, self.run_id = cockpit, run_id
        self._sessions = LiveSessions.of(cockpit.bridge)
        self.ring, self.curve = StepRing(), ReturnCurve()
        self._feed: BusFeed | None = None
        self._session: LiveSession | None = None
        """The episode that the recorded steps are in, and its return so far."""
        self._has_news = self._is_closed = self._ended = False
        self.missed, self.starving = 0, False
        self._problem = ""
        self._paces: list[tuple[float, int]] = []
        self._make_widgets()
        self._lay_out()
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MILLISECONDS)
        self._timer.timeout.connect(self._refresh)
        cockpit.themes.changed.connect(self._dress)
        self._sessions.joined.connect(self._joined)
        self._dress(cockpit.themes.theme)
        self._joined(run_id)
        self._tell()

    def _make_widgets(self) -> None:
        themes = self._cockpit.themes
        self.badge = StatusBadge(themes)
        self.badge.setAccessibleName(self.tr("Whether every step is shown"))
        self.pace = QLabel()
        self.pace.setProperty("role", "muted")
        self._who = {actor: (QLabel(), ElidedLabel()) for actor in (HUMAN, POLICY, RANDOM, SCRIPTED)}
        self.advice = AdviceCard(themes)
        self.chart = ReturnChart(self.curve, themes)
        self.total = QLabel("–")
        self.total.setProperty("role", "muted")
        self.table = StepTable(self.ring, themes, self._words, self)
        self.view = StepView(self.table)
        self.empty = QLabel()
        self.empty.setProperty("role", "muted")
        self.empty.setWordWrap(True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.differences = ElidedLabel()
        self.differences.setProperty("role", "muted")

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.badge)
        head.addWidget(self.pace)
        head.addStretch(1)
        for picture, name in self._who.values():
            head.addWidget(picture)
            head.addWidget(name)
        card = self._return_card = QFrame()
        card.setProperty("role", "card")
        title = QLabel(self.tr("Episode return"))
        bold = QFont(title.font())
        bold.setWeight(QFont.Weight.DemiBold)
        title.setFont(bold)
        above = QHBoxLayout()
        above.setContentsMargins(12, 8, 12, 0)
        above.addWidget(title, 1)
        above.addWidget(self.total)
        inside = QVBoxLayout(card)
        inside.setContentsMargins(1, 1, 1, 6)
        inside.setSpacing(2)
        inside.addLayout(above)
        inside.addWidget(self.chart)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.advice)
        layout.addWidget(card, 1)
        layout.addWidget(self.empty, 2)
        layout.addWidget(self.view, 3)
        layout.addWidget(self.differences)

    def sizeHint(self) -> QSize:
        return QSize(340, 480)

    def minimumSizeHint(self) -> QSize:
        """In a low panel the table alone is left; without this the panel would take its height from the stage."""
        return QSize(240, 120)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._return_card.setVisible(self.height() >= _LEAST_WITH_CURVE)

    # ---- looking -------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()
        self._follow()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()
        self._stop()

    def close_tab(self) -> None:
        """Ask for no more; the run and its session go on."""
        self._is_closed = True
        self._timer.stop()
        self._stop()
        self._leave()

    def _follow(self) -> None:
        if self._feed is not None or self._is_closed or self._ended:
            return
        # From the last rows on: who comes back sees what is new, and not what went by meanwhile.
        self.ring.clear()
        self.missed, self.starving = 0, False
        feed = self._feed = BusFeed(self._cockpit.bridge, self.run_id, "steps", MOST_ROWS, self)
        feed.arrived.connect(self._take)
        feed.ended.connect(self._end)
        feed.failed.connect(self._fail)
        self._cockpit.bridge.begin(feed)

    def _stop(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.stop()
            feed.deleteLater()

    def _end(self) -> None:
        """Nothing more will come. Where steps were left out, the last ones are read once more: now there is time."""
        self._feed, self._has_news = None, True
        if self.missed and self.isVisible():
            self._follow()
        else:
            self._ended = True

    def _fail(self, sentence: str) -> None:
        self._feed, self._problem = None, sentence
        self._has_news = True

    # ---- the live session ----------------------------------------------------------------------------------------

    def _joined(self, run_id: str) -> None:
        session = self._sessions.get(run_id) if run_id == self.run_id else None
        if session is None or session is self._session or self._is_closed:
            return
        self._leave()
        self._session = session
        session.state_changed.connect(self._take_state)
        session.hello.connect(self._greet)
        session.closed.connect(self._close_advice)
        if session.hello_message is not None:
            self._take_state(session.state)

    def _leave(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._sessions.get(self.run_id) is session:
            session.state_changed.disconnect(self._take_state)
            session.hello.disconnect(self._greet)
            session.closed.disconnect(self._close_advice)

    def _close_advice(self, _: str) -> None:
        self.advice.hide()  # what a policy thought of a step that will not be made is of no use

    def _greet(self, _: object) -> None:
        self._has_news = True  # actions have names now

    def _take_state(self, state: State) -> None:
        self.curve.add(state.episode, state.step, state.total, last_actor(state))
        if not self.isVisible():
            return
        has_room = self.height() >= _LEAST_WITH_ADVICE
        advisor = policy_name(self._cockpit, state.advisor) if state.advisor and has_room else ""
        self.advice.show_state(self._hello, state, advisor)

    @property
    def _is_live(self) -> bool:
        return self._session is not None and self._session.is_joined

    @property
    def _hello(self) -> Any:
        return self._sessions.hello_of(self.run_id)

    def _words(self, action: Any) -> str:
        return words.action_words(action, self._hello)

    # ---- recorded steps ------------------------------------------------------------------------------------------

    def _take(self, batches: list[BusBatch]) -> None:
        for batch in batches:
            rows = self.ring.add(batch.records)
            self.missed, self.starving = batch.missed, batch.starving
            if not self._is_live:
                self._draw_recorded(rows)
        self._has_news = True
        self._paces.append((time.monotonic(), self.ring.taken + self.missed))

    def _draw_recorded(self, rows: list[StepRow]) -> None:
        """The return from the rewards, where all of the episode was seen. Of several agents the first one's."""
        for row in rows:
            if row.agent == rows[0].agent and row.number is not None:
                self.curve.add_reward(row.episode, row.number, row.reward, row.actor)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Ten times a second at most, whatever comes."""
        self.chart.refresh()
        self._tell_total()
        if self._has_news and (self.view.is_at_top or not self.table.rowCount()):
            self._has_news = False
            self.table.refresh()
        self._tell()

    def _tell(self) -> None:
        self.badge.show_state(*self._badge())
        self.badge.setToolTip(self._honest_words())
        self.pace.setText(self._pace_words())
        has_rows = bool(self.table.rowCount())
        self.view.setVisible(has_rows)
        self.empty.setVisible(not has_rows)
        over = self.tr("This run recorded no steps.") if self._ended else self.tr("No step was recorded yet.")
        self.empty.setText(self._problem or over)
        judged, differing = self.ring.judged, self.ring.differing
        told = self.tr("{sign} you and the policy chose differently: {count} of {all} steps")
        self.differences.setText(told.format(sign=DIFFERS, count=f"{differing:,}", all=f"{judged:,}"))
        self.differences.setVisible(judged > 0)
        self._tell_who()

    def _tell_who(self) -> None:
        """A legend of those who acted, or think about it."""
        state = self._session.state if self._session is not None else State(actor="")
        seen = {row.actor for row in self.table.rows} | {state.actor} | ({POLICY} if state.advisor else set())
        for actor, (picture, name) in self._who.items():
            advisor = policy_name(self._cockpit, state.advisor) if actor == POLICY and state.advisor else ""
            name.setText(advisor or actor_title(actor))
            for widget in (picture, name):
                widget.setVisible(actor in seen)

    def _tell_total(self) -> None:
        points = self.curve.points
        self.total.setText(words.signed(points[-1][1]) if points else "–")

    def _badge(self) -> tuple[str, str, str]:
        count = self.tr("{count} missed").format(count=f"{self.missed:,}")
        if self._problem:
            return self.tr("not followed"), "", "bad"
        if self._ended:
            return self.tr("recorded") if not self.missed else f"{self.tr('recorded')} · {count}", "", "idle"
        if not self._cockpit.bridge.connection.connected:
            return self.tr("daemon away"), "", "warning"
        if self.starving:
            return f"STARVED · {count}", "", "warning"
        return (f"RESUMED · {count}", "", "accent") if self.missed else (f"{self.tr('live')} · {count}", "", "good")

    def _honest_words(self) -> str:
        if self._problem:
            return self._problem
        if not self._cockpit.bridge.connection.connected and not self._ended:
            return self.tr("Steps are recorded all the same, and come when the daemon is back")
        if self.starving:
            return self.tr(
                "More steps come than can be shown: the newest ones are, now and then. All of them are recorded."
            )
        if self.missed:
            return self.tr("{count} steps went by without being shown here. All of them are recorded.").format(
                count=f"{self.missed:,}"
            )
        return self.tr("Every step since this tab was opened is shown")

    def _pace_words(self) -> str:
        """Steps a second over the last moments, from what came and what was left out."""
        now = time.monotonic()
        self._paces = [one for one in self._paces if now - one[0] < 3 * _PACE_SECONDS]
        if len(self._paces) < 2 or self._ended or now - self._paces[-1][0] > 2 * _PACE_SECONDS:
            return ""
        (began, first), (last, newest) = self._paces[0], self._paces[-1]
        if last - began < _PACE_SECONDS / 2:
            return ""
        return self.tr("{count} steps/s").format(count=f"{(newest - first) / (last - began):,.0f}")

    def _dress(self, theme: Theme) -> None:
        for actor, (picture, _) in self._who.items():
            picture.setPixmap(icon(actor_icon(actor), actor_colour(actor, theme)).pixmap(QSize(_ICON, _ICON)))
        self.table.refresh()


def has_steps(client: TrainerClient, run_id: str) -> bool:
    """Whether any step of a run was recorded."""
    return client.step_totals(run_id).steps > 0
