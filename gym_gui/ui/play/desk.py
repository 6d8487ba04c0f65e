"""The cockpit's part in a live session: starting it, joining it again, handing its seat over, ending it.

One for a window. Panels show what it says and tell it what a person wants; none of them talks to the session itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from PyQt6.QtCore import QObject, QTimer, pyqtSignal
from ulid import ULID

from gym_gui.services.agent_service import AgentService, PolicyLoad
from gym_gui.services.checkpoints.entry import CheckpointEntry
from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.services.live_connection import join_session
from gym_gui.services.play_sessions import SessionWish, is_live, seats_of
from gym_gui.services.run_words import is_over
from gym_gui.services.session_controller import SessionController
from gym_gui.services.trained_worlds import game_of
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.words import at_step
from mosaic_protocol.live.messages import Advise, End, HandOver, Hold, Pause, State
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome

END_SECONDS = 6.0
"""A session that does not end by itself, because its environment hangs, is ended by the daemon."""

Status = Literal["idle", "starting", "joining", "live", "ending"]


class PlayDesk(QObject):
    """``session_changed(LiveSession or None)`` when there is another session to show; ``status_changed()`` when
    :attr:`status` or :attr:`policy` is another one; ``told(sentence, role)`` about the session, "" takes it back;
    ``deploy_told(CheckpointEntry, sentence, role, env_id)`` about a policy that was asked for, with the environment to
    switch to where that would help; ``discarded(run_id)`` when a session is over that nobody wants to keep.
    """

    session_changed = pyqtSignal(object)
    status_changed = pyqtSignal()
    told = pyqtSignal(str, str)
    deploy_told = pyqtSignal(object, str, str, str)
    discarded = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, queries: WorkerQueries, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self.agents = AgentService(cockpit.bridge.paths, self._in_background)
        self.controller = SessionController(queries, self.agents)
        self.status: Status = "idle"
        self.run_id = ""
        self.wish: SessionWish | None = None
        """What was asked for of the session that there is; None of one that was joined."""
        self.session: LiveSession | None = None
        self.policy: CheckpointEntry | None = None
        """Whom the person shares the seat with."""
        self.usual: Callable[[], CheckpointEntry | None] = lambda: None
        """Whom to hand the seat over to where nobody was chosen: the one whose name a person sees beside it."""
        self._next: Callable[[], None] | None = None
        """What to do when the session that is being ended is gone."""
        self._deploying: CheckpointEntry | None = None
        """The checkpoint that a session is being started for."""
        self._never_seated: CheckpointEntry | None = None
        """The one of a session that ended before it had the seat."""
        self._in_seat: CheckpointEntry | None = None
        """The one that is said to have the seat."""
        self._refused_seat: CheckpointEntry | None = None
        """The one that is said not to have got the seat; of a session that is over nobody wants to know."""
        self._took_back = False
        """Whether the person took the seat while a policy was still being loaded for it."""
        self._advised, self._awaited, self._ended = "", "", ""
        self._unwanted: set[str] = set()
        """Runs of sessions that go to the trash when they are over."""
        self._own_seat = 1
        """Of several, the one that the person had last."""
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(round(END_SECONDS * 1000))
        self._patience.timeout.connect(self._cancel)
        cockpit.runs.changed.connect(self._runs_changed)

    # ---- beginning -----------------------------------------------------------------------------------------------

    def start(self, wish: SessionWish, deployed: CheckpointEntry | None = None) -> None:
        """Start a session, for a checkpoint that is deployed where one is named. A session that there is already is
        ended and kept first."""
        if self.status != "idle":
            self._after_the_end(lambda: self.start(wish, deployed))
            return
        self.wish, self._deploying = wish, deployed
        request_id = str(ULID())
        self._set_status("starting")
        self.told.emit(self.tr("Checking the settings and starting the session…"), "muted")
        start = lambda client: self.controller.start_session(client, wish, request_id)  # noqa: E731
        self._cockpit.bridge.call(start, self._accepted, self._not_started, owner=self)

    def _accepted(self, run: pb.Run) -> None:
        self._cockpit.runs.take([run])
        self._cockpit.selection.show([run.run_id])
        changed_mind = self.status == "ending"
        self._open(run.run_id)
        if changed_mind:
            self._set_status("ending")
            self._cancel()

    def _not_started(self, sentence: str) -> None:
        entry, self._deploying, self.wish = self._deploying, None, None
        self._set_status("idle")
        self.told.emit(sentence, "error")
        if entry is not None:
            self.deploy_told.emit(entry, sentence, "error", "")
        self._go_on()

    def joinable(self) -> list[pb.Run]:
        """Sessions that are under way and are not the one on the stage, the newest first."""
        mine = (self.run_id, self._ended)
        live = [run for run in self._cockpit.runs if is_live(run) and run.run_id not in mine]
        return sorted(live, key=lambda run: -run.created_at)

    def join(self, run_id: str) -> None:
        """Show a session that is under way. One that is on the stage is left, and goes on."""
        if run_id == self.run_id:
            return
        self.leave()
        run = self._cockpit.runs.get(run_id)
        self.wish = None
        self._open(run_id)
        if run is not None:
            self._cockpit.selection.show([run_id])
            self._find_policy(run)

    def _find_policy(self, run: pb.Run) -> None:
        """The checkpoint that a session was started with is the one to share its seat with."""
        try:
            named = json.loads(run.config_json)["metadata"]["worker"]["config"]["params"]["checkpoint"]
        except (ValueError, KeyError, TypeError):
            return
        find = lambda: TrainingRegistry(self._cockpit.bridge.paths).find(str(named))  # noqa: E731
        take = lambda entry: self.choose_policy(entry) if self.run_id == run.run_id else None  # noqa: E731
        self._cockpit.bridge.in_background(find, take, lambda sentence: None, owner=self)

    def _open(self, run_id: str) -> None:
        self.run_id = run_id
        paths = self._cockpit.bridge.paths
        session = self.session = LiveSession(
            paths.run(run_id).directory, run_id, self, join=lambda: join_session(paths, run_id)
        )
        self._advised = ""
        session.hello.connect(lambda _: self._joined(session))
        session.state_changed.connect(self._state_changed)
        session.refused.connect(self._refused)
        session.closed.connect(lambda reason: self._closed(session, reason))
        self._set_status("joining")
        self.told.emit(self.tr("Waiting for the session to listen…"), "muted")
        self.session_changed.emit(session)
        self._runs_changed([run_id])

    def _joined(self, session: LiveSession) -> None:
        if session is not self.session or self.status == "ending":
            return
        if self.status != "live":
            self._set_status("live")
            self.told.emit("", "")
        self.agents.bind(session)
        self._have_it_watch()

    # ---- under way -----------------------------------------------------------------------------------------------

    def _state_changed(self, state: State) -> None:
        self.agents.observe(state)
        if self._deploying is not None and state.actor == "policy":
            entry, self._deploying = self._deploying, None
            self._seated(entry)
        elif self._in_seat is not None and not _has_seat(state, self._in_seat):
            self._unseated()

    def _seated(self, entry: CheckpointEntry) -> None:
        self._unseated()
        self.policy = self._in_seat = entry
        name = at_step(one_line(entry.algo), str(entry.path)) if entry.algo else entry.id
        self.deploy_told.emit(entry, self.tr("{policy} has the seat.").format(policy=name), "good", "")
        self.told.emit("", "")
        self.status_changed.emit()

    def _unseated(self) -> None:
        """Whose turn has ended is no longer said to have the seat."""
        entry, self._in_seat = self._in_seat, None
        if entry is not None:
            self.deploy_told.emit(entry, "", "", "")

    def _refused(self, sentence: str) -> None:
        self.told.emit(sentence, "warning")

    def choose_policy(self, entry: CheckpointEntry | None) -> None:
        """Share the seat with this checkpoint: it watches, and plays when the person hands over."""
        self.policy = entry
        self._have_it_watch()
        self.status_changed.emit()

    def _have_it_watch(self) -> None:
        """A policy that fits the session says what it would do, and can take over without being loaded first."""
        session, entry = self.session, self.policy
        if session is None or session.hello_message is None or self.status != "live":
            return
        if seats_of(self._cockpit.runs.get(self.run_id)):  # each has its own policy, which may still be loading
            return
        fits = entry is not None and entry.env_id in ("", session.hello_message.env_id)
        wanted = str(entry.path) if entry is not None and fits else ""
        if wanted == self._advised or session.state.actor != "human":
            return
        self._advised = wanted
        if entry is None or not wanted:
            session.send(Advise())
            return

        def watch(found: tuple[CheckpointEntry, HandOver]) -> None:
            if session is self.session and self._advised == wanted:
                session.send(Advise(found[1].checkpoint, found[1].python))

        cannot = lambda sentence: self.told.emit(sentence, "warning")  # noqa: E731
        self._in_background(lambda: self.agents.prepared(entry), watch, cannot)

    def hand_over(self) -> None:
        """Give the seat to the policy, or where none was chosen to chance; from anybody else to the person."""
        session = self.session
        if session is None or self.status != "live":
            return
        if session.state.seats:
            self._hand_over_own(session.state)
        elif session.state.actor != "human" or session.state.loading:
            self._took_back = bool(session.state.loading)
            session.send(HandOver("human"))
        elif (entry := self.policy or self.usual()) is not None:
            self.deploy(entry)
        else:
            session.send(HandOver("random"))
            self.told.emit(self.tr("No policy is chosen: chance plays."), "muted")

    def _hand_over_own(self, state: State) -> None:
        """Of several seats the person's changes hands, and comes back."""
        own = next((number for number, seat in enumerate(state.seats, 1) if seat.actor == "human"), 0)
        if not own or state.seats[own - 1].loading:
            self.give_seat(self._own_seat, "human")
        elif (entry := self.policy or self.usual()) is not None:
            self.give_seat(own, "policy", entry)
        else:
            self.give_seat(own, "random")
        self._own_seat = own or self._own_seat

    def give_seat(self, seat: int, actor: str, entry: CheckpointEntry | None = None) -> None:
        """Have somebody take one of several seats, counted from 1; a policy is the checkpoint ``entry``."""
        session = self.session
        if session is None or self.status != "live":
            return
        if entry is None:
            session.send(HandOver("random" if actor == "random" else "human", seat=seat))
            return

        def give(found: tuple[CheckpointEntry, HandOver]) -> None:
            if session is self.session:
                session.send(msgspec.structs.replace(found[1], seat=seat))

        cannot = lambda sentence: self.told.emit(sentence, "warning")  # noqa: E731
        self._in_background(lambda: self.agents.prepared(entry), give, cannot)

    def deploy(self, entry: CheckpointEntry) -> None:
        """Put a checkpoint into the seat of the session, or where there is none start one for it."""
        if self.status == "live":
            self.deploy_told.emit(entry, self.tr("Loading {id}…").format(id=entry.id), "muted", "")
            self._took_back = False
            self.agents.load_policy(entry.worker, str(entry.path), self._loaded(entry))
        elif self.status == "idle":
            self.switch_environment(entry)
        else:
            self.deploy_told.emit(entry, self.tr("The session is not there yet; try again in a moment."), "warning", "")

    def switch_environment(self, entry: CheckpointEntry, seed: int = 1) -> None:
        """Start a session on a checkpoint's own environment, with it in the seat."""
        self.deploy_told.emit(entry, self.tr("Starting a session on {env}…").format(env=entry.env_id), "muted", "")

        def start(game: dict[str, Any]) -> None:
            self.start(SessionWish(entry.env_id, seed, "policy", str(entry.path), game), entry)

        self._in_background(lambda: game_of(entry), start, lambda why: self.deploy_told.emit(entry, why, "error", ""))

    def _loaded(self, entry: CheckpointEntry) -> Callable[[PolicyLoad], None]:
        def done(load: PolicyLoad) -> None:
            if load.status == "ready":
                self._seated(entry)
                return
            if load.env_id:
                self.deploy_told.emit(entry, f"{load.reason}.", "warning", load.env_id)
                return
            if self._took_back:
                self.deploy_told.emit(entry, "", "", "")
                self.told.emit(self.tr("You have the seat; the policy was not waited for."), "muted")
                return
            reason = load.reason.rstrip(".")
            kept = self.tr("{why}. The previous player keeps the seat.").format(why=reason[:1].upper() + reason[1:])
            self._refused_seat = entry
            self.deploy_told.emit(entry, kept, "error", "")
            self.told.emit(kept, "error")

        return done

    # ---- ending --------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the session; everything that was recorded is kept."""
        if self.status in ("idle", "ending"):
            return
        was, self.status = self.status, "ending"
        self.status_changed.emit()
        unwanted = self.run_id in self._unwanted
        kept = self.tr("Ending the session; its steps are kept…")
        self.told.emit(self.tr("Ending the session; it goes to the trash…") if unwanted else kept, "muted")
        if was == "live" and self.session is not None and self.session.is_joined:
            self.session.send(End())
            self._patience.start()
        elif self.run_id:
            self._cancel()

    def discard(self) -> None:
        """End the session, and move its run to the trash when it is over."""
        if self.run_id:
            self._unwanted.add(self.run_id)
            self.end()

    def _cancel(self) -> None:
        """What cannot end itself, because it hangs or has not begun, is ended by the daemon."""
        run_id, reason = self.run_id, self.tr("the session was ended from the cockpit")
        failed = lambda sentence: self.told.emit(sentence, "error")  # noqa: E731
        self._cockpit.bridge.call(lambda client: client.cancel(run_id, reason), None, failed, owner=self)

    def _after_the_end(self, act: Callable[[], None]) -> None:
        self._next = act
        self.end()

    def leave(self) -> None:
        """Let go of the session, which goes on as a run. A game that runs by the clock is paused where the person has
        the seat: nobody holds the keys any more."""
        session = self.session
        if session is None:
            return
        if self.status == "live" and session.is_joined:
            session.send(Hold(()))
            hello = session.hello_message
            if session.state.actor == "human" and not session.state.paused and hello is not None and not hello.waits:
                session.send(Pause())
        session.close()
        self._let_go(session)

    def _closed(self, session: LiveSession, reason: str) -> None:
        if session is not self.session:
            return
        self._awaited, self._never_seated, self._deploying = self.run_id, self._deploying, None
        if self.status == "ending":  # by which signal is of no interest to the person who ended it
            self._ended = self.run_id
            reason = self.tr("The session ended.")
        self._let_go(session)
        self.told.emit(reason, "muted")
        self._hear_last_word()
        self._go_on()

    def _hear_last_word(self) -> None:
        """Why a session failed stands in its run, which is over a moment after the channel is closed."""
        run = self._cockpit.runs.get(self._awaited)
        if run is None or not is_over(run):
            return
        self._awaited = ""
        entry, self._never_seated = self._never_seated, None
        if run.outcome not in (Outcome.COMPLETED, Outcome.CANCELED):
            self.told.emit(run.reason, "error")
        if entry is not None:
            self.deploy_told.emit(entry, run.reason, "error", "")

    def _let_go(self, session: LiveSession) -> None:
        self._patience.stop()
        self.session, self.run_id = None, ""
        self.agents.bind(None)
        self._unseated()
        refused, self._refused_seat = self._refused_seat, None
        if refused is not None:
            self.deploy_told.emit(refused, "", "", "")
        self._set_status("idle")
        self.session_changed.emit(None)
        session.deleteLater()

    def _go_on(self) -> None:
        act, self._next = self._next, None
        if act is not None:
            act()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self._awaited in run_ids:
            self._hear_last_word()
        for run_id in self._unwanted.intersection(run_ids):
            unwanted = self._cockpit.runs.get(run_id)
            if unwanted is None or is_over(unwanted):
                self._unwanted.discard(run_id)
                self.discarded.emit(run_id)
        if self.run_id not in run_ids or self.session is None:
            return
        run = self._cockpit.runs.get(self.run_id)
        if run is None:
            self.session.give_up(self.tr("The run of the session was deleted."))
        elif is_over(run):
            self.session.give_up(run.reason or self.tr("The session ended."))
        elif self.status == "joining" and run.queue_position:
            place = self.tr("The session waits in the queue, place {n}…").format(n=run.queue_position)
            self.told.emit(place, "muted")

    def close(self) -> None:
        """The window closes."""
        self.leave()

    def _set_status(self, status: Status) -> None:
        if status != self.status:
            self.status = status
            self.status_changed.emit()

    def _in_background(
        self, what: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[str], None]
    ) -> None:
        self._cockpit.bridge.in_background(what, done, failed, owner=self)


def _has_seat(state: State, entry: CheckpointEntry) -> bool:
    return any(seat.checkpoint == str(entry.path) for seat in state.seats or (state,))
