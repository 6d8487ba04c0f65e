"""The life of a run, decided purely: run + event → run + transitions + instructions. No I/O, no clock, no async.

Every decision goes through :func:`decide`. A run becomes TERM only through :class:`Gone`, which is raised when no
process of it is left and its outbox is read to the end; until then a settled fate is kept as a *verdict*.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from gym_gui.services.trainer.errors import IllegalMoveError, WrongStateError
from gym_gui.services.trainer.runs.relabelling import relabelled, story_of
from gym_gui.services.trainer.runs.reordering import require_movable, require_queued
from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.services.trainer.runs.run_record import ActiveClock, LastWord, RunRecord, Verdict
from mosaic_protocol import events as ev
from mosaic_protocol.imported_runs import IMPORTED
from mosaic_protocol.run_config import LabelChange
from mosaic_protocol.states import LIVE_STATES, Desired, Outcome, RunState, is_legal

THROTTLED, RESUMED = "throttled", "resumed"
"""What the history calls it when the output of a worker has to wait, and when it goes on."""
HOST_AWAY, HOST_BACK = "host unreachable", "host reached"
"""What the history calls it when the host of a run cannot be reached, and when it can again."""

# ---- events --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Launching:
    """Its turn came: the launch is recorded before it happens.

    Comes again, with the next attempt, when a daemon died in between and the launch is known not to have happened.
    """

    attempt: int
    reservation: Reservation
    launch_token_hash: str


@dataclass(frozen=True)
class Waiting:
    """It cannot start yet, and the sentence says what it waits for; an empty one takes that back."""

    sentence: str


@dataclass(frozen=True)
class Launched:
    locator: str
    pid: int
    mode: str


@dataclass(frozen=True)
class LaunchFailed:
    sentence: str


@dataclass(frozen=True)
class LaunchUndone:
    """The process ended before it was the worker of the run: it never got the claim, for a reason that passes, and now
    nobody can get it. The launch is made again, with the next attempt."""

    sentence: str


@dataclass(frozen=True)
class Registered:
    session_token_hash: str
    capabilities_json: str
    worker_id: str


@dataclass(frozen=True)
class WorkerSaid:
    """A lifecycle record of the worker; ``seq`` is its number in its stream, and one heard before changes nothing."""

    event: str
    sentence: str = ""
    step: int | None = None
    stream: str = "worker"
    seq: int = 0


@dataclass(frozen=True)
class Throttled:
    """What the worker has to write waits, and the sentence says for what; an empty one says that it goes on."""

    sentence: str


@dataclass(frozen=True)
class HostAway:
    """The machine of the run cannot be reached, and the sentence says why; an empty one says that it can again. The run
    goes on over there, as far as anybody knows."""

    sentence: str


@dataclass(frozen=True)
class HostLost:
    """Its machine was away for longer than anybody wants to wait."""

    sentence: str


@dataclass(frozen=True)
class CancelRequested:
    reason: str


@dataclass(frozen=True)
class PauseRequested:
    pass


@dataclass(frozen=True)
class ResumeRequested:
    pass


@dataclass(frozen=True)
class Relabelled:
    """A person calls the run something else, or remembers something else of it."""

    change: LabelChange


@dataclass(frozen=True)
class Moved:
    """A person wants it to start earlier or later. ``request_id`` is stored with the move, so that the same request
    moves it once."""

    key: str
    story: str
    request_id: str = ""
    digest: str = ""
    config_json: str = ""
    """What it asks for then, where that is something else: another host."""


@dataclass(frozen=True)
class TimedOut:
    """The wall-clock guard or the stall guard struck; the worker may still write a checkpoint."""

    sentence: str


@dataclass(frozen=True)
class Unresponsive:
    """No handshake or no heartbeat for too long."""

    sentence: str


@dataclass(frozen=True)
class KillDue:
    """The time to stop politely is over."""


@dataclass(frozen=True)
class ProcessEnded:
    """The worker's leading process is gone; ``status`` None when nobody could read it."""

    status: int | None


@dataclass(frozen=True)
class Gone:
    """No process is left and the outbox is read to the end, or ``unread`` says why it could not be."""

    stderr_tail: str = ""
    unread: str = ""
    lost: int = 0
    """How many records died in the worker's memory, because the disk took none."""
    place: str = ""
    """How the place of the run ended before the run did, such as a job of a batch system."""
    place_was_time: bool = False
    """Whether it had been granted for a time that is over."""


@dataclass(frozen=True)
class JournalRead:
    """The outbox that could not be read when the run ended is read to its end now; how far the run was by it."""

    step: int = 0


@dataclass(frozen=True)
class RecordsImported:
    """Numbers of a run that was made elsewhere were stored: how many, up to which step, and from when to when."""

    points: int
    step: int = 0
    began: float = 0.0
    ended: float = 0.0


LifecycleEvent: TypeAlias = (
    Launching
    | Waiting
    | Launched
    | LaunchFailed
    | LaunchUndone
    | Registered
    | WorkerSaid
    | Throttled
    | HostAway
    | HostLost
    | CancelRequested
    | PauseRequested
    | ResumeRequested
    | Relabelled
    | Moved
    | TimedOut
    | Unresponsive
    | KillDue
    | ProcessEnded
    | Gone
    | JournalRead
    | RecordsImported
)


def must_act_unstored(event: LifecycleEvent) -> bool:
    """Whether an event ends processes, which it has to also when there is no space to store it."""
    return isinstance(event, CancelRequested | TimedOut | Unresponsive | KillDue)


# ---- instructions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TellWorker:
    """Send what is desired now."""


class Patience(StrEnum):
    """What a stopping worker is being given time for."""

    STOP = "stop"  # to react at all
    CHECKPOINT = "checkpoint"  # it reacted and writes a last checkpoint
    EXIT = "exit"  # it has said its last word


@dataclass(frozen=True)
class ArmKill:
    """Kill if the processes are not gone when this patience is over."""

    patience: Patience


@dataclass(frozen=True)
class KillNow:
    pass


@dataclass(frozen=True)
class ClearAway:
    """Make sure nothing is left running, read the outbox to its end, then report :class:`Gone`."""


@dataclass(frozen=True)
class Withdraw:
    """Take the run out of the queue."""


@dataclass(frozen=True)
class Reorder:
    """Let the run stand in the queue where its key says."""


@dataclass(frozen=True)
class Release:
    """Give back what was reserved."""


Instruction: TypeAlias = TellWorker | ArmKill | KillNow | ClearAway | Withdraw | Reorder | Release


@dataclass(frozen=True)
class Transition:
    """One row of a run's history; ``origin == target`` is a note without a move."""

    origin: RunState
    target: RunState
    cause: str
    detail: str = ""


@dataclass(frozen=True)
class Decision:
    run: RunRecord
    transitions: tuple[Transition, ...] = ()
    instructions: tuple[Instruction, ...] = ()

    @property
    def changes(self) -> bool:
        return bool(self.transitions)


# ---- deciding ------------------------------------------------------------------------------------


@dataclass
class _Draft:
    """A decision in the making."""

    run: RunRecord
    cause: str
    transitions: list[Transition] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    def move(self, target: RunState, detail: str = "") -> None:
        origin = self.run.state
        if not is_legal(origin, target):
            raise IllegalMoveError(self.run.run_id, origin, target, self.cause)
        self.transitions.append(Transition(origin, target, self.cause, detail))
        self.run = replace(self.run, state=target)

    def note(self, detail: str = "") -> None:
        self.transitions.append(Transition(self.run.state, self.run.state, self.cause, detail))

    def condemn(self, outcome: Outcome, sentence: str) -> None:
        """Settle the fate; the first verdict stands."""
        if self.run.verdict is None:
            sentence = sentence or f"{outcome}, and nobody said why"
            self.run = replace(self.run, verdict=Verdict(outcome, sentence), reason=sentence)

    def stop_worker(self) -> None:
        """Asking again changes no deadline: it would cut short a last checkpoint, or put off the kill."""
        self.instructions.append(TellWorker())
        if self.run.desired is not Desired.STOP:
            self.run = replace(self.run, desired=Desired.STOP)
            self.instructions.append(ArmKill(Patience.STOP))

    def conclude(self, outcome: Outcome, sentence: str) -> None:
        self.run = replace(self.run, outcome=outcome, reason=sentence, reservation=None)
        self.move(RunState.TERM, sentence)
        self.instructions.append(Release())

    def decision(self) -> Decision:
        return Decision(self.run, tuple(self.transitions), tuple(self.instructions))


_HEARD_AFTER_THE_END = (
    CancelRequested | PauseRequested | ResumeRequested | Relabelled | Moved | JournalRead | RecordsImported
)


def decide(run: RunRecord, event: LifecycleEvent) -> Decision:
    """What follows from an event. Raises :class:`WrongStateError` for requests that cannot be, and
    :class:`IllegalMoveError` when the table of states would be broken. Late news about a finished run changes
    nothing."""
    if run.is_over and not isinstance(event, _HEARD_AFTER_THE_END):
        return Decision(run)
    draft = _Draft(run, _cause_of(event))
    _handle(draft, event)
    return draft.decision()


def _handle(draft: _Draft, event: LifecycleEvent) -> None:  # noqa: C901 - one flat table of events
    match event:
        case Launching():
            _launching(draft, event)
        case Waiting():
            _waiting(draft, event)
        case Launched():
            _launched(draft, event)
        case LaunchFailed():
            _launch_failed(draft, event)
        case LaunchUndone():
            _launch_undone(draft, event)
        case Registered():
            _registered(draft, event)
        case WorkerSaid():
            _worker_said(draft, event)
        case Throttled():
            _throttled(draft, event)
        case HostAway():
            _host_away(draft, event)
        case HostLost():
            _host_lost(draft, event)
        case CancelRequested():
            _cancel_requested(draft, event)
        case PauseRequested():
            _pause_requested(draft)
        case ResumeRequested():
            _resume_requested(draft)
        case Relabelled():
            _relabelled(draft, event)
        case Moved():
            _moved(draft, event)
        case TimedOut():
            _timed_out(draft, event)
        case Unresponsive():
            _unresponsive(draft, event)
        case KillDue():
            _kill_due(draft)
        case ProcessEnded():
            _process_ended(draft, event)
        case Gone():
            _gone(draft, event)
        case JournalRead():
            _journal_read(draft, event)
        case RecordsImported():
            _records_imported(draft, event)


def _cause_of(event: LifecycleEvent) -> str:
    if isinstance(event, Throttled):
        return THROTTLED if event.sentence else RESUMED
    if isinstance(event, HostAway):
        return HOST_AWAY if event.sentence else HOST_BACK
    return event.event if isinstance(event, WorkerSaid) else type(event).__name__


def _launching(draft: _Draft, event: Launching) -> None:
    draft.run = replace(
        draft.run,
        attempt=event.attempt,
        reservation=event.reservation,
        launch_token_hash=event.launch_token_hash,
        host=event.reservation.host,
    )
    if draft.run.state is RunState.HSHK and not draft.run.locator:
        draft.note(f"attempt {event.attempt}")
    else:
        draft.move(RunState.HSHK, f"attempt {event.attempt}")


def _waiting(draft: _Draft, event: Waiting) -> None:
    if not draft.run.locator and draft.run.verdict is None and draft.run.reason != event.sentence:
        draft.run = replace(draft.run, reason=event.sentence)
        draft.note(event.sentence or "it can start again")


def _launched(draft: _Draft, event: Launched) -> None:
    waited = draft.run.verdict is None  # what it waited for is no reason any more
    reason = "" if waited else draft.run.reason
    draft.run = replace(draft.run, locator=event.locator, pid=event.pid, start_mode=event.mode, reason=reason)
    draft.note(f"pid {event.pid}, {event.mode}")
    if draft.run.desired is Desired.STOP:  # the stop came while there was no process yet to be killed
        draft.instructions.append(ArmKill(Patience.STOP))


def _launch_failed(draft: _Draft, event: LaunchFailed) -> None:
    draft.condemn(Outcome.FAILED, event.sentence)
    draft.move(RunState.FAULT, event.sentence)
    draft.instructions.append(ClearAway())


def _launch_undone(draft: _Draft, event: LaunchUndone) -> None:
    """A run that is to stop, or whose fate is settled, has no next attempt."""
    if draft.run.state is RunState.HSHK and draft.run.verdict is None and draft.run.desired is not Desired.STOP:
        draft.run = replace(draft.run, locator="", pid=0, start_mode="", reason=event.sentence)
        draft.note(event.sentence)


def _registered(draft: _Draft, event: Registered) -> None:
    draft.run = replace(
        draft.run,
        session_token_hash=event.session_token_hash,
        capabilities_json=event.capabilities_json,
        worker_id=event.worker_id or draft.run.worker_id,
    )
    if draft.run.state is RunState.HSHK:
        draft.move(RunState.RDY)
    else:
        draft.note("registered again")


def _worker_said(draft: _Draft, event: WorkerSaid) -> None:
    heard = draft.run.heard.get(event.stream, 0)
    if draft.run.is_queued or 0 < event.seq <= heard:  # a queued run has no worker that could say anything
        return
    draft.run = replace(draft.run, heard={**draft.run.heard, event.stream: max(heard, event.seq)})
    if event.step is not None:
        draft.run = replace(draft.run, last_step=max(draft.run.last_step, event.step))
    _WORDS.get(event.event, _heard)(draft, event)


def _heard(draft: _Draft, event: WorkerSaid) -> None:
    """Nothing follows from it."""


def _said_started(draft: _Draft, event: WorkerSaid) -> None:
    if draft.run.state is RunState.HSHK:  # the handshake was granted by a daemon that died before it could note it
        draft.move(RunState.RDY)
    if draft.run.state is RunState.RDY:
        draft.move(RunState.EXEC)


def _said_paused(draft: _Draft, event: WorkerSaid) -> None:
    if draft.run.state is RunState.EXEC:
        draft.move(RunState.PAUSE)
    if event.sentence and draft.run.desired is Desired.RUN:
        # It paused for a reason of its own: it stays so until somebody resumes it.
        draft.run = replace(draft.run, desired=Desired.PAUSE)
        draft.note(event.sentence)
        draft.instructions.append(TellWorker())


def _said_resumed(draft: _Draft, event: WorkerSaid) -> None:
    if draft.run.state is RunState.PAUSE:
        draft.move(RunState.EXEC)


def _said_stopping(draft: _Draft, event: WorkerSaid) -> None:
    draft.note(event.sentence)
    draft.instructions.append(ArmKill(Patience.CHECKPOINT))


def _said_last_word(draft: _Draft, event: WorkerSaid) -> None:
    if draft.run.last_word is not None:
        return
    draft.run = replace(draft.run, last_word=LastWord(event.event, event.sentence, event.step))
    if event.event == ev.RUN_FAILED:
        draft.condemn(Outcome.FAILED, event.sentence or "the worker said that the run failed, and not why")
    if event.event == ev.RUN_FAILED and draft.run.state is not RunState.FAULT:
        draft.move(RunState.FAULT, event.sentence)
    else:
        draft.note(event.sentence)
    draft.instructions.append(ArmKill(Patience.EXIT))  # after its last word a worker has no business left


_WORDS: dict[str, Callable[[_Draft, WorkerSaid], None]] = {
    ev.RUN_STARTED: _said_started,
    ev.RUN_PAUSED: _said_paused,
    ev.RUN_RESUMED: _said_resumed,
    ev.RUN_STOPPING: _said_stopping,
    ev.RUN_COMPLETED: _said_last_word,
    ev.RUN_FAILED: _said_last_word,
    ev.RUN_STOPPED: _said_last_word,
}


def _throttled(draft: _Draft, event: Throttled) -> None:
    if draft.run.state in LIVE_STATES and draft.run.throttled != event.sentence:
        draft.run = replace(draft.run, throttled=event.sentence)
        draft.note(event.sentence or "it goes on")


def _host_away(draft: _Draft, event: HostAway) -> None:
    if draft.run.state in LIVE_STATES and draft.run.away != event.sentence:
        draft.run = replace(draft.run, away=event.sentence)
        draft.note(event.sentence or "it goes on")


def _host_lost(draft: _Draft, event: HostLost) -> None:
    """Nobody knows what became of it. What it is found to have done when its host is back is read, and it is ended."""
    if draft.run.state not in LIVE_STATES:
        return
    draft.condemn(Outcome.LOST, event.sentence)
    draft.run = replace(draft.run, desired=Desired.STOP)
    if draft.run.state is not RunState.FAULT:
        draft.move(RunState.FAULT, event.sentence)
    draft.instructions.append(ClearAway())


def _cancel_requested(draft: _Draft, event: CancelRequested) -> None:
    run = draft.run
    if run.is_over:
        told = run.reason if run.reason.startswith(str(run.outcome)) else f"{run.outcome}, {run.reason}"
        raise WrongStateError(f"run {run.short} is already over: {told}")
    sentence = f"canceled: {event.reason}" if event.reason else "canceled"
    if run.is_queued:
        draft.instructions.append(Withdraw())
        draft.conclude(Outcome.CANCELED, f"{sentence} (it had not started)")
        return
    draft.condemn(Outcome.CANCELED, sentence)
    draft.note(sentence)
    draft.stop_worker()


def _pause_requested(draft: _Draft) -> None:
    _require_unharmed(draft.run, "pause")
    if draft.run.desired is not Desired.PAUSE:
        draft.run = replace(draft.run, desired=Desired.PAUSE)
        draft.note()
    draft.instructions.append(TellWorker())


def _resume_requested(draft: _Draft) -> None:
    _require_unharmed(draft.run, "resume")
    if draft.run.desired is not Desired.RUN:
        draft.run = replace(draft.run, desired=Desired.RUN)
        draft.note()
    draft.instructions.append(TellWorker())


def _relabelled(draft: _Draft, event: Relabelled) -> None:
    if draft.run.deleted_at:
        raise WrongStateError(f"run {draft.run.short} is in the trash: `mosaic restore` brings it back first")
    changed = relabelled(draft.run, event.change)
    if changed != draft.run:
        draft.run = changed
        draft.note(story_of(event.change))


def _moved(draft: _Draft, event: Moved) -> None:
    """Noted also where it stands there already: the request has to be known when it comes again."""
    if event.config_json:  # one that stands beside the line may stand in it for another host
        require_queued(draft.run)
        draft.run = replace(draft.run, config_json=event.config_json, reason="")
    else:
        require_movable(draft.run)
    draft.run = replace(draft.run, queue_key=event.key)
    draft.note(event.story)
    draft.instructions.append(Reorder())


def _require_unharmed(run: RunRecord, what: str) -> None:
    """A run that has not begun takes the wish along: its worker learns it at the handshake, and holds at its first safe
    point."""
    if run.desired is Desired.STOP and not run.is_over:
        raise WrongStateError(f"run {run.short} is being stopped; it cannot {what}")
    if run.is_over:
        raise WrongStateError(f"run {run.short} cannot {what}: it ended: {run.outcome}, {run.reason}")
    if run.state is RunState.FAULT:
        raise WrongStateError(f"run {run.short} cannot {what}: it is ending")


def _timed_out(draft: _Draft, event: TimedOut) -> None:
    draft.condemn(Outcome.TIMED_OUT, event.sentence)
    draft.note(event.sentence)
    draft.stop_worker()


def _unresponsive(draft: _Draft, event: Unresponsive) -> None:
    draft.condemn(Outcome.FAILED, event.sentence)
    draft.run = replace(draft.run, desired=Desired.STOP)
    if draft.run.state is not RunState.FAULT:
        draft.move(RunState.FAULT, event.sentence)
    draft.instructions.append(KillNow())


def _kill_due(draft: _Draft) -> None:
    draft.note("it did not stop in time")
    draft.instructions.append(KillNow())


def _process_ended(draft: _Draft, event: ProcessEnded) -> None:
    draft.run = replace(draft.run, exit_status=event.status)
    draft.note("status unknown" if event.status is None else describe_exit(event.status))
    draft.instructions.append(ClearAway())


def _gone(draft: _Draft, event: Gone) -> None:
    if draft.run.state not in LIVE_STATES:
        raise IllegalMoveError(draft.run.run_id, draft.run.state, RunState.TERM, draft.cause)
    verdict = final_verdict(draft.run, event.stderr_tail, event.place, was_time=event.place_was_time)
    if event.lost:
        lost = "1 record is lost" if event.lost == 1 else f"{event.lost:,} records are lost"
        sentence = f"{verdict.sentence}; {lost} that it held in memory, because its journal could not be written"
        verdict = replace(verdict, sentence=sentence)
    if verdict.outcome in (Outcome.FAILED, Outcome.LOST) and draft.run.state is not RunState.FAULT:
        draft.move(RunState.FAULT, verdict.sentence)
    draft.run = replace(draft.run, away="")
    if event.unread:
        draft.run = replace(draft.run, journal_unread=event.unread)
        draft.note(event.unread)
    draft.conclude(verdict.outcome, verdict.sentence)


def _journal_read(draft: _Draft, event: JournalRead) -> None:
    """How the run ended is settled, whatever the journal says; only the mark goes."""
    if draft.run.journal_unread:
        step = max(draft.run.last_step, event.step)
        draft.run = replace(draft.run, journal_unread="", last_step=step)
        draft.note("its journal is read to the end")


def _records_imported(draft: _Draft, event: RecordsImported) -> None:
    """Times are those of the numbers: when it was imported says nothing about the run."""
    run = draft.run
    if run.worker_type != IMPORTED:
        return
    began = min(one for one in (run.started_at, event.began) if one > 0) if run.started_at or event.began else 0.0
    ended = max(run.ended_at, event.ended)
    step, active = max(run.last_step, event.step), ActiveClock(max(0.0, ended - began))
    draft.run = replace(run, last_step=step, started_at=began, ended_at=ended, active=active)
    draft.note(f"{event.points:,} points")


# ---- outcomes that speak -------------------------------------------------------------------------


def describe_exit(status: int) -> str:
    """An exit status in words; negative numbers are signals, as in :mod:`subprocess`."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "unknown"
    return f"killed by signal {-status} ({name})"


def final_verdict(run: RunRecord, stderr_tail: str = "", place: str = "", *, was_time: bool = False) -> Verdict:
    """The outcome of a run of which nothing is left, from the strongest evidence there is. ``place`` says how its place
    ended before it did, ``was_time`` that it was for time."""
    word, verdict = run.last_word, run.verdict
    if word is not None and word.event == ev.RUN_COMPLETED:
        late = f" before it could be stopped ({verdict.sentence})" if verdict else ""
        return Verdict(Outcome.COMPLETED, f"{word.sentence or 'completed'}{late}")
    if verdict is not None:
        return Verdict(verdict.outcome, verdict.sentence + _how_it_stopped(run))
    if place:
        outcome = Outcome.TIMED_OUT if was_time else Outcome.CANCELED if word is not None else Outcome.LOST
        return Verdict(outcome, place + (_how_it_stopped(run) or "; the worker left no last word"))
    if word is not None:
        return Verdict(Outcome.CANCELED, f"stopped from outside the trainer{_how_it_stopped(run)}")
    return _verdict_from_exit(run.exit_status, stderr_tail)


def _how_it_stopped(run: RunRecord) -> str:
    word = run.last_word
    if word is not None and word.event == ev.RUN_STOPPED:
        return f"; {word.sentence}" if word.sentence else ""
    if run.desired is Desired.STOP and run.exit_status is not None and run.exit_status < 0:
        return f"; {describe_exit(run.exit_status)}"
    return ""


def _verdict_from_exit(status: int | None, stderr_tail: str) -> Verdict:
    said = f": {stderr_tail}" if stderr_tail else ""
    if status is None:
        why = "what had started it was gone before, so nobody saw how it ended"
        return Verdict(Outcome.LOST, f"the worker left no last word, and {why}{said}")
    if status == 0:
        return Verdict(Outcome.FAILED, f"the worker ended without a last word{said}")
    verb = "was " if status < 0 else ""
    return Verdict(Outcome.FAILED, f"the worker {verb}{describe_exit(status)}{said}")
