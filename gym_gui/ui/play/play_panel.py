"""The left side in Human and Hybrid mode: what is played, who has the seat, by which keys, and start and end of it."""

from __future__ import annotations

from typing import Any, Literal

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.checkpoints.use import capabilities
from gym_gui.services.play_sessions import SessionWish, seats_of
from gym_gui.services.run_words import counted
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.layouts import Section
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.play.game import FAMILIES
from gym_gui.ui.play.game_panel import GamePanel
from gym_gui.ui.play.keys_panel import KeysPanel, difference, merged
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.seat_panel import SeatPanel
from gym_gui.ui.play.seats_panel import SeatRow, SeatsPanel
from gym_gui.ui.play.words import own_seat
from gym_gui.ui.styling import set_style_property, tell
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.steady_button import SteadyButton
from gym_gui.ui.workers.catalog import WorkerEntry
from mosaic_protocol.live.messages import Hello, Keys, Restart, State

SHOW_MILLISECONDS = 150
_KEYS = "play.keys"


class PlayPanel(QWidget):
    """Shows what the desk says and tells it what a person wants. :meth:`use_mode` says which mode it is for."""

    def __init__(self, cockpit: Cockpit, desk: PlayDesk, queries: WorkerQueries, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit, self.desk = cockpit, desk
        self._mode: Literal["human", "hybrid"] = "human"
        self._entry: WorkerEntry | None = None
        self._listed_for = ""
        self._offered: tuple[str, list[CheckpointEntry]] | None = None
        self.going_on = Banner()
        self.going_on.acted.connect(self._join)
        self.game = GamePanel(cockpit, queries)
        self.seat = SeatPanel(cockpit.themes)
        self.seats = SeatsPanel(cockpit.themes)
        self.keys = KeysPanel()
        self.family = self._muted()
        self.recorded, self.seat_count = self._muted(), self._muted()
        self.recording_note = self._muted()
        self.recording_note.setWordWrap(True)
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.start = QPushButton()
        self.start.clicked.connect(self.start_session)
        self.stop = SteadyButton()
        self.stop.clicked.connect(lambda: desk.end() if self.stop.usable else None)
        self.discard = QPushButton(self.tr("Discard"))
        self.discard.setToolTip(self.tr("End the session and move it to the trash, from where it can be restored"))
        self.discard.clicked.connect(desk.discard)
        set_style_property(self.discard, "kind", "danger")
        self.sections: dict[str, Section] = {}
        self._met = ""
        """The run of the session that greeted last."""
        self._seat_shown: tuple[object, ...] | None = None
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(SHOW_MILLISECONDS)
        self._later.timeout.connect(self._show_newest)
        self._lay_out()
        self._connect()
        self._follow_session(desk.session)
        self.refresh()

    def _muted(self) -> QLabel:
        label = QLabel()
        label.setProperty("role", "muted")
        return label

    def _lay_out(self) -> None:
        tr = self.tr
        environment = self._section("environment", tr("Environment"), self.game)
        environment.add_aside(self.family)
        seat = self._section("seat", tr("Seat"), self.seat)
        seats = self._section("seats", tr("Side by side"), self.seats, open_=False)
        seats.add_aside(self.seat_count)
        keys = self._section("keys", tr("Keys"), self.keys)
        keys.add_aside(self.keys.edit)
        session = self._section("session", tr("Session"), self.game.session, open_=False)
        record = self._section("recording", tr("Recording"), self.recording_note)
        record.add_aside(self.recorded)
        content = QWidget()
        inside = QVBoxLayout(content)
        inside.setContentsMargins(8, 10, 8, 10)
        inside.setSpacing(10)
        for section in (environment, seat, seats, keys, session, record):
            inside.addWidget(section)
        inside.addStretch(1)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(content)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.start, 1)
        buttons.addWidget(self.stop, 1)
        buttons.addWidget(self.discard)
        foot = QVBoxLayout()
        foot.setContentsMargins(12, 8, 12, 10)
        foot.setSpacing(6)
        foot.addWidget(self.told)
        foot.addLayout(buttons)
        top = QVBoxLayout()
        top.setContentsMargins(12, 0, 12, 0)
        top.addWidget(self.going_on)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addWidget(self.area, 1)
        layout.addLayout(foot)

    def _section(self, name: str, title: str, *widgets: QWidget, open_: bool = True) -> Section:
        memory = f"play.section.{name}"
        section = self.sections[name] = Section(title, open_=bool(self._cockpit.preferences.get(memory, open_)))
        section.add(*widgets)
        section.folded.connect(lambda folded: self._cockpit.preferences.put(memory, not folded))
        return section

    def _connect(self) -> None:
        self.game.changed.connect(self._game_changed)
        self.game.described.connect(lambda _: self._show_keys())
        self.game.seed.wanted.connect(self._seed_wanted)
        self.seat.hand_over_wanted.connect(self.desk.hand_over)
        self.desk.usual = self._policy_shown
        self.seat.policy_chosen.connect(self.desk.choose_policy)
        self.seats.changed.connect(self.refresh)
        self.seats.seated.connect(self._seated)
        self.keys.changed.connect(self._keys_changed)
        self.desk.session_changed.connect(self._follow_session)
        self.desk.status_changed.connect(self._status_changed)
        self.desk.told.connect(lambda sentence, role: tell(self.told, sentence, role))
        self._cockpit.bridge.connection_changed.connect(lambda _: self.refresh())
        self._cockpit.runs.changed.connect(lambda _: self._offer_joining())
        self._cockpit.runs.changed.connect(self._look_for_new_policies)
        tell(self.told, "", "muted")

    # ---- what it is for ------------------------------------------------------------------------------------------

    def use_mode(self, mode: Literal["human", "hybrid"], entry: WorkerEntry | None) -> None:
        """Human or Hybrid, and the worker whose runs are sessions; None where there is none."""
        self._mode, self._entry = mode, entry
        if entry is not None:
            self.game.use_worker(entry.type)
        for name in ("seat", "seats"):
            self.sections[name].setVisible(mode == "hybrid")
        self._list_policies()
        self.refresh()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._listed_for = ""
        self._list_policies()

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        """What one begins with: the environment, or in a session its end."""
        (self.game.picker.choice if self.desk.status == "idle" else self.stop).setFocus(reason)

    def close_panel(self) -> None:
        """The window closes: the session goes on without it."""
        self.desk.close()

    def wish(self) -> SessionWish:
        """What would be started as the panel stands."""
        params, keys = self.game.params(), self._own_keys(self.game.env_id)
        if keys:
            params["keys"] = keys
        if seats := self._wanted_seats():
            params["seats"] = ",".join(seats)
        policy = self.seat.policy if self._mode == "hybrid" and not seats else None
        checkpoint = str(policy.path) if policy is not None and policy.env_id in ("", self.game.env_id) else ""
        return SessionWish(self.game.env_id, self.game.seed.seed, "human", checkpoint, params)

    def _wanted_seats(self) -> list[str]:
        return self.seats.specs if self._mode == "hybrid" else []

    def start_session(self) -> None:
        """Start what stands in the panel; a session that there is is ended and kept first."""
        reason = self._why_not()
        if reason:
            tell(self.told, reason, "warning")
            return
        if self._mode == "human" and self.desk.policy is not None:
            self.desk.choose_policy(None)
        elif self._mode == "hybrid":
            self.desk.choose_policy(self.seat.policy)
        self.desk.start(self.wish())

    def _why_not(self) -> str:
        if self._entry is None:
            return self.tr("No worker with live sessions is installed: the Doctor says how to get one.")
        if not self._entry.ready:
            return self._entry.reason
        if not self._cockpit.bridge.connection.connected:
            return self.tr("The trainer daemon is away; a session can be started when it is back.")
        return self.game.problem()

    # ---- the session ---------------------------------------------------------------------------------------------

    def _follow_session(self, session: LiveSession | None) -> None:
        if session is not None:
            session.hello.connect(self._greeted)
            session.state_changed.connect(self._state_changed)
        self.refresh()

    def _greeted(self, hello: Hello) -> None:
        """A session that was joined is shown as it is played. It greets again when its keys change, and then what a
        person has changed meanwhile stays."""
        if self.desk.run_id != self._met:
            self._met = self.desk.run_id
            self.game.put(hello.env_id, settings=hello.settings)
            self.seats.put(seats_of(self._cockpit.runs.get(self.desk.run_id)))
        self._show_keys()
        self.refresh()

    def _state_changed(self, state: State) -> None:
        """Who has the seat is said at once, the rest some times a second: states come much faster than that."""
        own = own_seat(state)
        seat = (own.actor, own.loading, own.advisor, state.seed, *(one.actor for one in state.seats))
        if seat != self._seat_shown:
            self._seat_shown = seat
            self._show_newest()
        elif not self._later.isActive():
            self._later.start()

    def _show_newest(self) -> None:
        session = self._live()
        if session is not None and self.isVisible():
            self.game.seed.put(session.state.seed)
            self._show_state(session.state)

    def _status_changed(self) -> None:
        self.seat.put_policy(self.desk.policy) if self.desk.policy is not None else None
        self.refresh()

    def _live(self) -> LiveSession | None:
        return self.desk.session if self.desk.status == "live" else None

    def _seated(self, seat: int, row: SeatRow) -> None:
        """While they play, a seat changes hands at once."""
        session = self._live()
        if session is not None and len(session.state.seats) == len(self.seats.rows):
            self.desk.give_seat(seat, row.occupant if row.policy is None else "policy", row.policy)

    def _seed_wanted(self, seed: int) -> None:
        session = self._live()
        if session is not None:
            session.send(Restart(seed))

    def _is_changed(self) -> bool:
        """Whether something else stands in the panel than the session plays."""
        session = self._live()
        hello = session.hello_message if session is not None else None
        if hello is None:
            return False
        if self.game.env_id != hello.env_id:
            return True
        if session is not None and session.state.frames and len(session.state.seats) != len(self._wanted_seats()):
            return True
        game = self.game.game
        played = {name: value for name, value in hello.settings.items() if game.settings.get(name) != value}
        return game.env_id == hello.env_id and self.game.game_params() != played

    # ---- keys ----------------------------------------------------------------------------------------------------

    def _own_keys(self, env_id: str) -> dict[str, Any]:
        kept = self._cockpit.preferences.get(_KEYS, {}).get(env_id)
        return dict(kept) if isinstance(kept, dict) else {}

    def _show_keys(self) -> None:
        """Those of the session where it plays this environment, else those that it would have."""
        session, game = self._live(), self.game.game
        hello = session.hello_message if session is not None else None
        own = self._own_keys(self.game.env_id)
        if hello is not None and hello.env_id == self.game.env_id:
            self.keys.show_map(hello.key_map, is_changed=bool(own))
        else:
            awaited = self.game.env_id if game.env_id != self.game.env_id else ""
            self.keys.show_map(game.with_keys(own), is_changed=bool(own), awaited=awaited)
        self.family.setText(FAMILIES.get(game.family, "") if game.env_id == self.game.env_id else "")

    def _keys_changed(self, changes: dict[str, Any]) -> None:
        env_id, game = self.game.env_id, self.game.game
        own = merged(self._own_keys(env_id), changes, game.key_map)
        kept = dict(self._cockpit.preferences.get(_KEYS, {}))
        self._cockpit.preferences.put(_KEYS, {**kept, env_id: own})
        session = self._live()
        hello = session.hello_message if session is not None else None
        if session is not None and hello is not None and hello.env_id == env_id:
            session.send(Keys(difference(hello.key_map, game.with_keys(own))))
        self._show_keys()

    # ---- policies ------------------------------------------------------------------------------------------------

    def _policy_shown(self) -> CheckpointEntry | None:
        """The one that stands beside the person in this mode, where it fits what is played."""
        session = self._live()
        hello = session.hello_message if session is not None else None
        entry = self.seat.policy if self._mode == "hybrid" else None
        return entry if entry is not None and hello is not None and entry.env_id in ("", hello.env_id) else None

    def _list_policies(self) -> None:
        """The checkpoints of the environment that can act, looked for beside the GUI."""
        env_id = self.game.env_id
        if self._mode != "hybrid" or not self.isVisible() or env_id == self._listed_for:
            return
        self._listed_for = env_id
        paths = self._cockpit.bridge.paths

        def read() -> list[CheckpointEntry]:
            found = [entry for entry in TrainingRegistry(paths).entries() if entry.env_id == env_id]
            return [entry for entry in found if capabilities(entry)["act"]]

        def take(entries: list[CheckpointEntry]) -> None:
            if env_id == self.game.env_id and (env_id, entries) != self._offered:
                self._offered = (env_id, entries)
                self.seat.offer(entries, env_id)
                self.seats.offer(entries)
                if self.desk.policy is not None and self.desk.policy.env_id == env_id:
                    self.seat.put_policy(self.desk.policy)

        self._cockpit.bridge.in_background(read, take, owner=self)

    def _look_for_new_policies(self, run_ids: list[str]) -> None:
        """A run that ended left its last checkpoint, one that was deleted took its own along."""
        runs = [self._cockpit.runs.get(run_id) for run_id in run_ids]
        if any(run is None or run.state == "TERM" for run in runs):
            self._listed_for = ""
            self._list_policies()

    # ---- what is shown -------------------------------------------------------------------------------------------

    def _game_changed(self) -> None:
        self._list_policies()
        self.refresh()

    def refresh(self) -> None:
        """Show what can be done now, and why not."""
        status, changed = self.desk.status, self._is_changed()
        tr, idle = self.tr, self.desk.status == "idle"
        held = any(button.hasFocus() for button in (self.start, self.stop, self.discard))
        self.start.setVisible(idle or changed)
        self.start.setText(tr("Start session") if idle else tr("Restart with changes"))
        self.start.setToolTip(
            tr("Start a session with these settings; every step is recorded")
            if idle
            else tr("End and keep this session, and start another with these settings")
        )
        self.stop.setVisible(not idle)
        words = {"live": tr("End and keep"), "ending": tr("Ending…")}
        self.stop.setText(words.get(status, tr("Cancel")))
        self.stop.setToolTip(tr("End the session. Its steps are kept and can be replayed"))
        self.stop.set_usable(status != "ending")
        self.discard.setVisible(status in ("live", "joining"))
        if held and not any(button.hasFocus() for button in (self.start, self.stop, self.discard)):
            # Qt would hand it to the choice of modes, which the arrow keys of a game then change.
            (self.start if idle else self.stop).setFocus()
        count = len(self.seats.rows)
        self.seat_count.setText(counted(count, tr("seat")) if count else "")
        set_style_property(self.start, "kind", "primary")
        set_style_property(self.stop, "kind", "" if changed else "primary" if status == "live" else "")
        note = tr("Changes apply at the next restart.") if changed else ""
        tell(self.game.note, note, "muted")
        session = self._live()
        self._show_state(session.state if session is not None else None)
        self._show_keys()
        self._offer_joining()

    def _show_state(self, state: State | None) -> None:
        self.seat.tell(own_seat(state) if state is not None else None)
        self.seats.tell(state)
        tr = self.tr
        if state is None:
            self.recorded.setText("")
            self.recording_note.setText(tr("Every step is recorded with who made it, and can be replayed."))
            return
        self.recorded.setText(f"{counted(state.episodes, 'episode')}, {counted(state.steps, 'step')}")
        self.recording_note.setText(
            tr("Every step is recorded. Closing the cockpit leaves the session; join it from Runs.")
        )

    def _offer_joining(self) -> None:
        others = self.desk.joinable() if self.desk.status == "idle" else []
        if not others:
            self.going_on.say("")
            return
        said = self.tr("{name} is going on.").format(name=self._cockpit.runs.label(others[0]))
        self.going_on.say(said, self.tr("Join"), self.tr("Show this session on the stage"))

    def _join(self) -> None:
        others = self.desk.joinable()
        if others:
            self.desk.join(others[0].run_id)
