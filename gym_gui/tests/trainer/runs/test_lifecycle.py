"""The life of a run: only legal moves, one outcome, a sentence for it, and the first verdict stands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_gui.services.trainer.errors import IllegalMoveError, WrongStateError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_queue import RunQueue
from gym_gui.services.trainer.runs.run_record import LastWord, RunRecord, Verdict
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from gym_gui.tests.support.run_records import HELD, LEADER, live_record, run_record
from mosaic_host.capacity import HostCapacity
from mosaic_protocol import events as ev
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.run_config import LabelChange
from mosaic_protocol.states import LIVE_STATES, Desired, Outcome, RunState, is_legal

S = RunState
STOP_ORDERS = (lc.TellWorker(), lc.ArmKill(lc.Patience.STOP))


def said(event: str, sentence: str = "", **more: Any) -> lc.WorkerSaid:
    return lc.WorkerSaid(event, sentence, **more)


def moves(decision: lc.Decision) -> list[tuple[RunState, RunState]]:
    """The edges a decision goes along, without notes."""
    return [(step.origin, step.target) for step in decision.transitions if step.origin is not step.target]


def follow(run: RunRecord, *events: lc.LifecycleEvent) -> RunRecord:
    for event in events:
        run = lc.decide(run, event).run
    return run


# ---- the table -----------------------------------------------------------------------------------

LAUNCHING = lc.Launching(1, HELD, "hash")

MOVES: list[tuple[str, RunRecord, lc.LifecycleEvent, list[tuple[RunState, RunState]], tuple[lc.Instruction, ...]]] = [
    ("its turn came", run_record(), LAUNCHING, [(S.INIT, S.HSHK)], ()),
    ("the process is known", live_record(state=S.HSHK, locator="", pid=0), lc.Launched(LEADER, 4242, "cold"), [], ()),
    (
        "no process came to be",
        live_record(state=S.HSHK, locator="", pid=0),
        lc.LaunchFailed("no such file"),
        [(S.HSHK, S.FAULT)],
        (lc.ClearAway(),),
    ),
    ("the process died before it had the claim", live_record(state=S.HSHK), lc.LaunchUndone("disk full"), [], ()),
    ("a queued run no longer fits the machine", run_record(), lc.Waiting("too large"), [], ()),
    ("its worker is missing", live_record(state=S.HSHK, locator="", pid=0), lc.Waiting("not installed"), [], ()),
    ("somebody renames it", live_record(state=S.EXEC), lc.Relabelled(LabelChange(name="other")), [], ()),
    ("its output waits", live_record(state=S.EXEC), lc.Throttled("steps wait for disk space"), [], ()),
    ("its host is away", live_record(state=S.EXEC, host="a"), lc.HostAway("no route to a"), [], ()),
    (
        "its host stayed away",
        live_record(state=S.EXEC, host="a"),
        lc.HostLost("away for 24 hours"),
        [(S.EXEC, S.FAULT)],
        (lc.ClearAway(),),
    ),
    ("handshake", live_record(state=S.HSHK), lc.Registered("h", "{}", "w"), [(S.HSHK, S.RDY)], ()),
    ("handshake again", live_record(state=S.EXEC), lc.Registered("h", "{}", "w"), [], ()),
    ("the worker began", live_record(state=S.RDY), said(ev.RUN_STARTED), [(S.RDY, S.EXEC)], ()),
    (
        "the worker began and the handshake was not noted",
        live_record(state=S.HSHK),
        said(ev.RUN_STARTED),
        [(S.HSHK, S.RDY), (S.RDY, S.EXEC)],
        (),
    ),
    ("paused", live_record(state=S.EXEC), said(ev.RUN_PAUSED), [(S.EXEC, S.PAUSE)], ()),
    (
        "paused for a reason of its own",
        live_record(state=S.EXEC),
        said(ev.RUN_PAUSED, sentence="the budget is used up"),
        [(S.EXEC, S.PAUSE)],
        (lc.TellWorker(),),
    ),
    ("paused again", live_record(state=S.PAUSE), said(ev.RUN_PAUSED), [], ()),
    ("resumed", live_record(state=S.PAUSE), said(ev.RUN_RESUMED), [(S.PAUSE, S.EXEC)], ()),
    (
        "reacts to a stop",
        live_record(state=S.EXEC),
        said(ev.RUN_STOPPING),
        [],
        (lc.ArmKill(lc.Patience.CHECKPOINT),),
    ),
    ("completed", live_record(state=S.EXEC), said(ev.RUN_COMPLETED), [], (lc.ArmKill(lc.Patience.EXIT),)),
    ("stopped", live_record(state=S.EXEC), said(ev.RUN_STOPPED), [], (lc.ArmKill(lc.Patience.EXIT),)),
    (
        "failed",
        live_record(state=S.EXEC),
        said(ev.RUN_FAILED, "broken"),
        [(S.EXEC, S.FAULT)],
        (lc.ArmKill(lc.Patience.EXIT),),
    ),
    ("a beat is no event", live_record(state=S.EXEC), said(ev.HEARTBEAT), [], ()),
    ("an unknown word is no event", live_record(state=S.EXEC), said("run_danced"), [], ()),
    (
        "cancel in the queue",
        run_record(),
        lc.CancelRequested("no"),
        [(S.INIT, S.TERM)],
        (lc.Withdraw(), lc.Release()),
    ),
    ("cancel while training", live_record(state=S.EXEC), lc.CancelRequested("no"), [], STOP_ORDERS),
    ("pause", live_record(state=S.EXEC), lc.PauseRequested(), [], (lc.TellWorker(),)),
    ("resume", live_record(state=S.PAUSE, desired=Desired.PAUSE), lc.ResumeRequested(), [], (lc.TellWorker(),)),
    ("moved in the queue", run_record(), lc.Moved("800000000000", "first"), [], (lc.Reorder(),)),
    ("too long", live_record(state=S.EXEC), lc.TimedOut("limit"), [], STOP_ORDERS),
    ("silent", live_record(state=S.EXEC), lc.Unresponsive("silent"), [(S.EXEC, S.FAULT)], (lc.KillNow(),)),
    ("patience is over", live_record(state=S.EXEC), lc.KillDue(), [], (lc.KillNow(),)),
    ("the process ended", live_record(state=S.EXEC), lc.ProcessEnded(0), [], (lc.ClearAway(),)),
    (
        "nothing is left, for no good reason",
        live_record(state=S.EXEC, exit_status=1),
        lc.Gone(),
        [(S.EXEC, S.FAULT), (S.FAULT, S.TERM)],
        (lc.Release(),),
    ),
    (
        "nothing is left, as it should be",
        live_record(state=S.EXEC, last_word=LastWord(ev.RUN_COMPLETED, "done")),
        lc.Gone(),
        [(S.EXEC, S.TERM)],
        (lc.Release(),),
    ),
    (
        "nothing is left after a fault",
        live_record(state=S.FAULT, verdict=Verdict(Outcome.FAILED, "broken")),
        lc.Gone(),
        [(S.FAULT, S.TERM)],
        (lc.Release(),),
    ),
    ("its journal could be read after all", live_record(state=S.TERM, journal_unread="why"), lc.JournalRead(), [], ()),
    (
        "numbers of a run from elsewhere came",
        run_record(state=S.TERM, worker_type="imported"),
        lc.RecordsImported(9),
        [],
        (),
    ),
]


@pytest.mark.parametrize(("run", "event", "edges", "orders"), [row[1:] for row in MOVES], ids=[row[0] for row in MOVES])
def test_an_event_moves_a_run_and_orders_what_follows(
    run: RunRecord,
    event: lc.LifecycleEvent,
    edges: list[tuple[RunState, RunState]],
    orders: tuple[lc.Instruction, ...],
) -> None:
    decision = lc.decide(run, event)
    assert moves(decision) == edges
    assert decision.instructions == orders


def test_what_a_run_waits_for_is_its_reason_until_it_starts() -> None:
    waiting = lc.decide(live_record(state=S.HSHK, locator="", pid=0), lc.Waiting("not installed"))
    assert waiting.run.reason == "not installed" and waiting.changes
    assert not lc.decide(waiting.run, lc.Waiting("not installed")).changes, "it is noted once"
    assert lc.decide(waiting.run, lc.Launched(LEADER, 4242, "cold")).run.reason == ""


def test_a_host_that_is_away_is_noted_once_and_so_is_that_it_is_back() -> None:
    away = lc.decide(live_record(state=S.PAUSE, host="a"), lc.HostAway("no route"))
    assert (away.run.state, away.run.away) == (S.PAUSE, "no route")
    assert [one.cause for one in away.transitions] == ["host unreachable"]
    assert not lc.decide(away.run, lc.HostAway("no route")).changes
    back = lc.decide(away.run, lc.HostAway(""))
    assert back.run.away == "" and [one.cause for one in back.transitions] == ["host reached"]


def test_a_run_whose_host_stays_away_ends_as_lost_and_as_canceled_where_that_was_asked_before() -> None:
    lost = lc.decide(live_record(state=S.EXEC, host="a"), lc.HostLost("away for 24 hours")).run
    ended = lc.decide(lost, lc.Gone(unread="its journal is over there")).run
    assert (ended.outcome, ended.reason, ended.away) == (Outcome.LOST, "away for 24 hours", "")
    canceled = lc.decide(live_record(state=S.EXEC, host="a"), lc.CancelRequested("enough")).run
    ended = lc.decide(lc.decide(canceled, lc.HostLost("away")).run, lc.Gone()).run
    assert ended.outcome is Outcome.CANCELED


def test_output_that_waits_is_noted_once_and_so_is_that_it_goes_on() -> None:
    waits = lc.decide(live_record(state=S.EXEC), lc.Throttled("steps wait"))
    assert waits.run.throttled == "steps wait" and [one.cause for one in waits.transitions] == ["throttled"]
    assert not lc.decide(waits.run, lc.Throttled("steps wait")).changes
    goes_on = lc.decide(waits.run, lc.Throttled(""))
    assert goes_on.run.throttled == "" and [one.cause for one in goes_on.transitions] == ["resumed"]
    assert not lc.decide(run_record(), lc.Throttled("steps wait")).changes, "a queued run has no worker"


def test_a_launch_that_is_undone_is_launched_with_the_next_attempt() -> None:
    undone = lc.decide(live_record(state=S.HSHK), lc.LaunchUndone("disk full"))
    assert (undone.run.locator, undone.run.reason, undone.run.reservation) == ("", "disk full", HELD)
    again = lc.decide(undone.run, lc.Launching(2, HELD, "other"))
    assert (again.run.state, again.run.attempt, moves(again)) == (S.HSHK, 2, [])


@pytest.mark.parametrize("event", [lc.CancelRequested("enough"), lc.TimedOut("late"), lc.Unresponsive("silent")])
def test_a_run_that_is_to_stop_is_not_launched_again(event: lc.LifecycleEvent) -> None:
    stopping = follow(live_record(state=S.HSHK), event)
    assert not lc.decide(stopping, lc.LaunchUndone("disk full")).changes


def test_a_run_whose_folder_is_away_ends_with_a_mark_that_goes_when_its_journal_is_read() -> None:
    ended = follow(live_record(state=S.EXEC, exit_status=-9), lc.Gone(unread="its folder is away"))
    assert (ended.state, ended.outcome, ended.journal_unread) == (S.TERM, Outcome.FAILED, "its folder is away")
    read = lc.decide(ended, lc.JournalRead(70))
    assert (read.run.journal_unread, read.run.last_step, read.changes) == ("", 70, True)
    assert (read.run.outcome, read.run.reason) == (ended.outcome, ended.reason), "how it ended is settled"
    assert not lc.decide(read.run, lc.JournalRead(80)).changes


def test_imported_numbers_say_when_a_run_was_and_how_far_it_got() -> None:
    run = run_record(state=S.TERM, outcome=Outcome.COMPLETED, reason="imported", worker_type="imported")
    first = lc.decide(run, lc.RecordsImported(9, 70, 1000.0, 1060.0)).run
    assert (first.last_step, first.started_at, first.ended_at, first.active.seconds) == (70, 1000.0, 1060.0, 60.0)
    more = lc.decide(first, lc.RecordsImported(1, 50, 990.0, 1030.0)).run
    assert (more.last_step, more.started_at, more.ended_at, more.active.seconds) == (70, 990.0, 1060.0, 70.0)
    assert (more.state, more.outcome, more.reason) == (run.state, run.outcome, run.reason)
    timeless = lc.decide(run, lc.RecordsImported(1, 5)).run
    assert (timeless.started_at, timeless.ended_at) == (0.0, 0.0)
    trained = run_record(state=S.TERM, outcome=Outcome.COMPLETED, reason="done")
    assert not lc.decide(trained, lc.RecordsImported(1, 5)).changes


@pytest.mark.parametrize(("lost", "words"), [(0, ""), (1, "; 1 record is lost"), (1200, "; 1,200 records are lost")])
def test_what_died_in_a_workers_memory_is_told(lost: int, words: str) -> None:
    canceled = follow(live_record(state=S.EXEC), lc.CancelRequested("enough"), lc.ProcessEnded(-9))
    reason = follow(canceled, lc.Gone(lost=lost)).reason
    assert (words in reason) and ("lost" in reason) == bool(lost)


def test_every_event_is_in_the_table() -> None:
    told = {type(row[2]) for row in MOVES}
    assert told == set(lc.LifecycleEvent.__args__)


@pytest.mark.parametrize("state", sorted(LIVE_STATES - {S.HSHK}))
def test_a_run_that_lives_is_not_launched_again(state: RunState) -> None:
    with pytest.raises(IllegalMoveError):
        lc.decide(live_record(state=state), LAUNCHING)


def test_a_launched_run_is_not_launched_again_before_its_handshake() -> None:
    with pytest.raises(IllegalMoveError):
        lc.decide(live_record(state=S.HSHK), LAUNCHING)


def test_a_launch_that_is_known_not_to_have_happened_is_made_again() -> None:
    recorded = live_record(state=S.HSHK, locator="", pid=0)
    again = lc.decide(recorded, lc.Launching(2, HELD, "other"))
    assert again.run.attempt == 2
    assert again.run.launch_token_hash == "other"
    assert moves(again) == []
    assert again.changes


# ---- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [lc.PauseRequested(), lc.ResumeRequested()])
@pytest.mark.parametrize("state", [S.FAULT, S.TERM])
def test_a_run_that_is_ending_or_over_cannot_be_paused_or_resumed(request_: lc.LifecycleEvent, state: RunState) -> None:
    run = live_record(state=state, outcome=Outcome.FAILED if state is S.TERM else None, reason="it broke")
    with pytest.raises(WrongStateError, match=run.name):
        lc.decide(run, request_)


@pytest.mark.parametrize("state", [S.INIT, S.HSHK, S.RDY])
def test_a_run_that_has_not_begun_takes_the_wish_to_pause_along(state: RunState) -> None:
    run = live_record(state=state)
    asked = lc.decide(run, lc.PauseRequested())
    assert (asked.run.state, asked.run.desired, asked.changes) == (state, Desired.PAUSE, True)
    assert asked.instructions == (lc.TellWorker(),)
    taken_back = lc.decide(asked.run, lc.ResumeRequested())
    assert (taken_back.run.desired, taken_back.changes) == (Desired.RUN, True)


@pytest.mark.parametrize("request_", [lc.PauseRequested(), lc.ResumeRequested()])
def test_a_run_that_is_being_stopped_cannot_be_paused_or_resumed(request_: lc.LifecycleEvent) -> None:
    stopping = follow(live_record(state=S.EXEC), lc.CancelRequested(""))
    with pytest.raises(WrongStateError, match="being stopped"):
        lc.decide(stopping, request_)


def test_cancelling_what_is_over_says_how_it_ended() -> None:
    over = live_record(state=S.TERM, outcome=Outcome.COMPLETED, reason="finished at step 10")
    with pytest.raises(WrongStateError, match=r"already over: completed, finished at step 10"):
        lc.decide(over, lc.CancelRequested("too late"))


def test_cancelling_twice_gives_the_worker_no_less_time_for_its_checkpoint() -> None:
    stopping = follow(live_record(state=S.EXEC), lc.CancelRequested("first"), said(ev.RUN_STOPPING))
    again = lc.decide(stopping, lc.CancelRequested("second"))
    assert not any(isinstance(order, lc.ArmKill) for order in again.instructions)
    assert again.run.verdict == Verdict(Outcome.CANCELED, "canceled: first")


def test_a_worker_that_appears_after_the_cancel_is_stopped_too() -> None:
    """The kill of a run without a known process kills nothing, so it has to be armed once there is one."""
    cancelled = follow(live_record(state=S.HSHK, locator="", pid=0), lc.CancelRequested("no"), lc.KillDue())
    assert lc.ArmKill(lc.Patience.STOP) in lc.decide(cancelled, lc.Launched(LEADER, 4242, "cold")).instructions


def test_a_second_pause_only_repeats_the_wish() -> None:
    pausing = follow(live_record(state=S.EXEC), lc.PauseRequested())
    again = lc.decide(pausing, lc.PauseRequested())
    assert not again.changes
    assert again.instructions == (lc.TellWorker(),)


# ---- outcomes ------------------------------------------------------------------------------------

ENDINGS: list[tuple[str, Sequence[lc.LifecycleEvent], Outcome, list[str]]] = [
    (
        "the worker finished",
        [said(ev.RUN_COMPLETED, "finished at step 9"), lc.ProcessEnded(0)],
        Outcome.COMPLETED,
        ["finished at step 9"],
    ),
    ("finished without a word of why", [said(ev.RUN_COMPLETED), lc.ProcessEnded(0)], Outcome.COMPLETED, ["completed"]),
    (
        "finished before the cancel reached it",
        [lc.CancelRequested("bored"), said(ev.RUN_COMPLETED, "finished at step 9"), lc.ProcessEnded(0)],
        Outcome.COMPLETED,
        ["finished at step 9", "canceled: bored"],
    ),
    (
        "finished, then killed for not leaving",
        [said(ev.RUN_COMPLETED, "finished"), lc.KillDue(), lc.ProcessEnded(-9)],
        Outcome.COMPLETED,
        ["finished"],
    ),
    (
        "stopped on request",
        [lc.CancelRequested("bored"), said(ev.RUN_STOPPED, "stopped at step 4"), lc.ProcessEnded(0)],
        Outcome.CANCELED,
        ["canceled: bored", "stopped at step 4"],
    ),
    (
        "killed because it would not stop",
        [lc.CancelRequested(""), lc.KillDue(), lc.ProcessEnded(-9)],
        Outcome.CANCELED,
        ["canceled", "killed by signal 9 (SIGKILL)"],
    ),
    (
        "broke while it was being stopped",
        [lc.CancelRequested("bored"), said(ev.RUN_FAILED, "RuntimeError: x"), lc.ProcessEnded(1)],
        Outcome.CANCELED,
        ["canceled: bored"],
    ),
    (
        "cancelled after it broke",
        [said(ev.RUN_FAILED, "RuntimeError: x"), lc.CancelRequested("too late"), lc.ProcessEnded(1)],
        Outcome.FAILED,
        ["RuntimeError: x"],
    ),
    (
        "too long",
        [lc.TimedOut("reached its limit"), said(ev.RUN_STOPPED, "stopped at step 4"), lc.ProcessEnded(0)],
        Outcome.TIMED_OUT,
        ["reached its limit", "stopped at step 4"],
    ),
    (
        "cancelled after the limit",
        [lc.TimedOut("reached its limit"), lc.CancelRequested("too late"), lc.ProcessEnded(-15)],
        Outcome.TIMED_OUT,
        ["reached its limit", "SIGTERM"],
    ),
    ("silent", [lc.Unresponsive("no heartbeat"), lc.ProcessEnded(-9)], Outcome.FAILED, ["no heartbeat", "SIGKILL"]),
    (
        "said that it failed",
        [said(ev.RUN_FAILED, "ValueError: y"), lc.ProcessEnded(1)],
        Outcome.FAILED,
        ["ValueError: y"],
    ),
    ("failed without a word of why", [said(ev.RUN_FAILED), lc.ProcessEnded(1)], Outcome.FAILED, ["failed"]),
    (
        "stopped by somebody else",
        [said(ev.RUN_STOPPED, "stopped at step 4"), lc.ProcessEnded(0)],
        Outcome.CANCELED,
        ["from outside", "stopped at step 4"],
    ),
    ("killed by somebody else", [lc.ProcessEnded(-9)], Outcome.FAILED, ["was killed by signal 9 (SIGKILL)"]),
    ("crashed", [lc.ProcessEnded(-11)], Outcome.FAILED, ["signal 11 (SIGSEGV)"]),
    ("a signal without a name", [lc.ProcessEnded(-123)], Outcome.FAILED, ["signal 123"]),
    ("left with a status", [lc.ProcessEnded(3)], Outcome.FAILED, ["exited with status 3"]),
    ("left without a word", [lc.ProcessEnded(0)], Outcome.FAILED, ["without a last word"]),
    ("nobody saw it leave", [lc.ProcessEnded(None)], Outcome.LOST, ["last word"]),
    ("never started", [lc.LaunchFailed("never started: no such file")], Outcome.FAILED, ["never started"]),
    ("never started, and nobody knows why", [lc.LaunchFailed("")], Outcome.FAILED, [" "]),
]


@pytest.mark.parametrize(("story", "outcome", "told"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
def test_a_run_ends_as_the_strongest_evidence_says(
    story: Sequence[lc.LifecycleEvent], outcome: Outcome, told: list[str]
) -> None:
    run = follow(live_record(state=S.EXEC), *story, lc.Gone())
    assert (run.state, run.outcome) == (S.TERM, outcome)
    for part in told:
        assert part in run.reason


@pytest.mark.parametrize("status", [0, 1, -9, None])
def test_an_unexplained_end_quotes_what_the_worker_wrote_last(status: int | None) -> None:
    run = follow(live_record(state=S.EXEC), lc.ProcessEnded(status), lc.Gone("MemoryError: out of it"))
    assert "MemoryError: out of it" in run.reason


@pytest.mark.parametrize(
    ("story", "was_time", "outcome"),
    [
        ([said(ev.RUN_STOPPED, "stopped at step 7")], True, Outcome.TIMED_OUT),
        ([said(ev.RUN_STOPPED, "stopped at step 7")], False, Outcome.CANCELED),
        ([lc.ProcessEnded(None)], True, Outcome.TIMED_OUT),
        ([lc.ProcessEnded(None)], False, Outcome.LOST),
    ],
)
def test_a_place_that_ended_before_its_run_is_the_reason(
    story: Sequence[lc.LifecycleEvent], was_time: bool, outcome: Outcome
) -> None:
    end = lc.Gone(place="Slurm ended its job 7", place_was_time=was_time)
    run = follow(live_record(state=S.EXEC), *story, end)
    assert run.outcome == outcome and "Slurm ended its job 7" in run.reason
    assert ("stopped at step 7" in run.reason) == (run.last_word is not None)


def test_the_end_of_a_place_changes_no_verdict_and_no_completion() -> None:
    end = lc.Gone(place="Slurm ended its job 7", place_was_time=True)
    canceled = follow(live_record(state=S.EXEC), lc.CancelRequested("enough"), end)
    assert canceled.outcome == Outcome.CANCELED
    completed = follow(live_record(state=S.EXEC), said(ev.RUN_COMPLETED, "done"), end)
    assert completed.outcome == Outcome.COMPLETED


def test_a_cancel_in_the_queue_says_that_nothing_started() -> None:
    assert follow(run_record(), lc.CancelRequested("no")).reason == "canceled: no (it had not started)"


def test_the_first_last_word_stands() -> None:
    run = follow(live_record(state=S.EXEC), said(ev.RUN_COMPLETED, "done"), said(ev.RUN_FAILED, "no, broken"))
    assert run.last_word == LastWord(ev.RUN_COMPLETED, "done")
    assert run.state is S.EXEC


# ---- hearing -------------------------------------------------------------------------------------


def test_a_record_heard_before_changes_nothing() -> None:
    run = follow(live_record(state=S.EXEC), said(ev.RUN_PAUSED, seq=5), said(ev.RUN_RESUMED, seq=6))
    again = lc.decide(run, said(ev.RUN_PAUSED, seq=5))
    assert again == lc.Decision(run)


def test_nobody_can_speak_for_a_run_that_waits_in_the_queue() -> None:
    waiting = run_record()
    for word in sorted(ev.LIFECYCLE_EVENTS):
        assert lc.decide(waiting, said(word, seq=1)) == lc.Decision(waiting)


def test_streams_are_counted_apart() -> None:
    run = follow(live_record(state=S.RDY), said(ev.HEARTBEAT, stream="script", seq=9), said(ev.RUN_STARTED, seq=1))
    assert run.state is S.EXEC


def test_a_record_without_a_number_does_not_bring_old_ones_back() -> None:
    run = follow(live_record(state=S.EXEC), said(ev.RUN_PAUSED, seq=5), said(ev.RUN_RESUMED))
    assert follow(run, said(ev.RUN_PAUSED, seq=5)).state is S.EXEC


def test_the_step_never_goes_back() -> None:
    run = follow(live_record(state=S.EXEC), said(ev.HEARTBEAT, step=10), said(ev.HEARTBEAT, step=4))
    assert run.last_step == 10


# ---- an illegal move tells its story -------------------------------------------------------------


def test_an_illegal_move_names_run_from_to_and_cause() -> None:
    run = live_record(state=S.EXEC)
    with pytest.raises(IllegalMoveError) as raised:
        lc.decide(run, LAUNCHING)
    error = raised.value
    assert (error.run_id, error.origin, error.target, error.cause) == (run.run_id, S.EXEC, S.HSHK, "Launching")


def test_an_illegal_move_tells_what_came_before() -> None:
    story = ["INIT→HSHK Launching", "HSHK→RDY Registered"]
    error = IllegalMoveError("01K", S.RDY, S.HSHK, "Launching", story)
    assert error.story == tuple(story)
    assert all(part in str(error) for part in story)


async def test_the_daemon_adds_the_last_events_of_the_run_to_the_story(tmp_path: Path) -> None:
    with (
        closing(RunRegistry(tmp_path / "registry.sqlite")) as registry,
        closing(TelemetryStore(tmp_path / "telemetry.sqlite")) as store,
        closing(StepStore(tmp_path / "steps.sqlite")) as steps,
    ):
        nobody: Any = None
        queue = RunQueue(HostCapacity(1, 1))
        daemon = TrainerOrchestrator(
            MosaicPaths(tmp_path), TrainerSettings(), registry, TelemetryHub(store, steps), queue, nobody, nobody
        )
        run, _ = registry.insert(run_record(), "").result(30)
        for event in (LAUNCHING, lc.Launched(LEADER, 4242, "cold")):
            decision = lc.decide(registry.get(run.run_id), event)
            registry.save(decision.run, decision.transitions).result(30)
        daemon.tracked[run.run_id] = TrackedRun(registry.get(run.run_id))
        with pytest.raises(IllegalMoveError) as raised:
            await daemon.apply(run.run_id, LAUNCHING)
    assert raised.value.run_id == run.run_id
    assert [part.rpartition(" ")[2] for part in raised.value.story] == ["Submitted", "Launching", "Launched"]


# ---- whatever happens ----------------------------------------------------------------------------

_sentences = st.sampled_from(["", "because", "it was time"])
_words = st.builds(
    lc.WorkerSaid,
    event=st.sampled_from([*sorted(ev.LIFECYCLE_EVENTS), "run_danced"]),
    sentence=_sentences,
    step=st.none() | st.integers(0, 100),
    stream=st.sampled_from(["worker", "script"]),
    seq=st.integers(0, 6),
)
_events = st.one_of(
    st.builds(lc.Launching, st.integers(1, 3), st.just(HELD), st.just("hash")),
    st.builds(lc.Launched, st.just(LEADER), st.sampled_from(["cold", "warm"])),
    st.builds(lc.LaunchFailed, _sentences),
    st.builds(lc.LaunchUndone, _sentences),
    st.builds(lc.Waiting, _sentences),
    st.builds(lc.Throttled, _sentences),
    st.builds(lc.HostAway, _sentences),
    st.builds(lc.HostLost, _sentences),
    st.builds(lc.Registered, st.just("hash"), st.just("{}"), st.sampled_from(["", "w1"])),
    _words,
    _words,
    _words,
    st.builds(lc.CancelRequested, _sentences),
    st.just(lc.PauseRequested()),
    st.just(lc.ResumeRequested()),
    st.builds(lc.TimedOut, _sentences),
    st.builds(lc.Unresponsive, _sentences),
    st.just(lc.KillDue()),
    st.builds(lc.ProcessEnded, st.none() | st.integers(-64, 255)),
    st.builds(lc.Gone, _sentences, _sentences),
    st.builds(lc.JournalRead, st.integers(0, 100)),
    st.builds(lc.RecordsImported, st.integers(1, 9), st.integers(0, 100)),
)


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(_events, max_size=25), st.booleans())
def test_no_sequence_of_events_breaks_the_rules(story: list[lc.LifecycleEvent], launched: bool) -> None:
    run = follow(run_record(), LAUNCHING, lc.Launched(LEADER, 4242, "cold")) if launched else run_record()
    endings, refusals = 0, list[str]()
    for event in story:
        try:
            decision = lc.decide(run, event)
        except (WrongStateError, IllegalMoveError) as error:
            refusals.append(str(error))
            continue
        assert lc.decide(run, event) == decision, "deciding depends on nothing but the run and the event"
        _check_step(run, event, decision)
        endings += sum(target is S.TERM for _, target in moves(decision))
        run = decision.run
    assert endings == int(run.is_over)
    assert all(run.run_id in refusal or run.name in refusal for refusal in refusals)


def _check_step(before: RunRecord, event: lc.LifecycleEvent, decision: lc.Decision) -> None:
    _check_edges(before, decision)
    after = decision.run
    if before.is_over:
        marked = isinstance(event, lc.JournalRead) and before.journal_unread
        assert marked or decision == lc.Decision(before), "late news change nothing"
        assert (after.outcome, after.reason) == (before.outcome, before.reason)
        return
    assert (after.outcome is not None) == after.is_over
    assert before.verdict in (None, after.verdict), "the first verdict stands"
    assert before.last_word in (None, after.last_word)
    assert before.desired is not Desired.STOP or after.desired is Desired.STOP, "a stop is final"
    assert all(after.heard[stream] >= seq for stream, seq in before.heard.items())
    assert (lc.Release() in decision.instructions) == after.is_over
    if after.is_over:
        _check_ending(before, after)


def _check_edges(before: RunRecord, decision: lc.Decision) -> None:
    state = before.state
    for step in decision.transitions:
        assert step.origin is state
        assert step.origin is step.target or is_legal(step.origin, step.target)
        state = step.target
    assert state is decision.run.state


def _check_ending(before: RunRecord, after: RunRecord) -> None:
    assert after.reason.strip(), "every outcome has a sentence"
    assert after.reservation is None
    finished = before.last_word is not None and before.last_word.event == ev.RUN_COMPLETED
    if finished:
        assert after.outcome is Outcome.COMPLETED, "what the worker finished is completed, whatever else was wanted"
    elif before.verdict is not None and not before.is_queued:
        assert after.outcome is before.verdict.outcome
        assert after.reason.startswith(before.verdict.sentence)
    else:
        assert after.outcome is not Outcome.COMPLETED
