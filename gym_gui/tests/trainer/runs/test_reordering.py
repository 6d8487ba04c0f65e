"""Moving runs in the queue: keys that sort, and what a move may be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_gui.services.trainer.errors import RefusedError, WrongStateError
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.queue_keys import QueueKeys, between, in_front_of, whole
from gym_gui.services.trainer.runs.reordering import Place, Where, new_key, require_same_line
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import HistoryRow
from gym_gui.tests.support.history import Turns
from gym_gui.tests.support.run_records import live_record, run_record
from mosaic_protocol.states import Outcome, RunState


def line_of(count: int) -> list[RunRecord]:
    return [run_record(name=f"run-{number}", queue_key=whole(number)) for number in range(1, count + 1)]


def moved(line: list[RunRecord], run: RunRecord, place: Place, keys: QueueKeys) -> list[RunRecord]:
    others = [one.queue_key for one in line if one.run_id != run.run_id]
    again = replace(run, queue_key=new_key(place, others, keys.next))
    return sorted([again if one.run_id == run.run_id else one for one in line], key=lambda one: one.queue_key)


# ---- keys --------------------------------------------------------------------------------------------------------


def test_keys_are_handed_out_in_order_behind_all_that_were_seen() -> None:
    keys = QueueKeys()
    first = keys.next()
    keys.seen(f"{whole(40)}.8000")
    keys.seen(whole(3))
    following = [keys.next() for _ in range(20)]
    assert following == sorted(following)
    assert first < following[0] == whole(41)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (whole(1), whole(2)),
        (whole(1), whole(9)),
        (whole(1), f"{whole(1)}.0001"),
        (f"{whole(1)}.ffff", whole(2)),
        (f"{whole(1)}.0001", f"{whole(1)}.0002"),
        (f"{whole(1)}.ffff.ffff", whole(2)),
        (whole(1), f"{whole(1)}.0000.0001"),
        (whole(-1), whole(0)),
    ],
)
def test_between_two_keys_there_is_always_a_third(low: str, high: str) -> None:
    key = between(low, high)
    assert low < key < high
    assert not key.endswith(".0000")


def test_there_is_nothing_between_a_key_and_itself_or_an_earlier_one() -> None:
    for low, high in ((whole(1), whole(1)), (whole(2), whole(1))):
        with pytest.raises(ValueError, match="does not come before"):
            between(low, high)


@given(st.lists(st.integers(0, 200), max_size=60))
def test_keys_that_are_put_between_others_keep_the_order_of_the_line(inserted: list[int]) -> None:
    line = [whole(1), whole(2)]
    for place in inserted:
        at = place % (len(line) - 1)
        line.insert(at + 1, between(line[at], line[at + 1]))
    assert line == sorted(set(line))
    assert all(not key.endswith(".0000") for key in line)


@pytest.mark.parametrize("where", [Where.BEFORE, Where.AFTER])
@pytest.mark.parametrize("newest", [True, False])
def test_a_thousand_moves_into_one_gap_cost_a_bit_each(where: Where, newest: bool) -> None:
    """Beside the same run each time, or beside the one that was moved last."""
    keys, line = QueueKeys(), [whole(1), whole(2), whole(3)]
    anchor = run_record(queue_key=whole(2))
    for _ in range(1000):
        line.append(new_key(Place(where, anchor), line, keys.next))
        anchor = replace(anchor, queue_key=line[-1]) if newest else anchor
    assert len(set(line)) == len(line)
    assert max(map(len, line)) <= len(whole(1)) + 5 * (1000 // 15 + 1)


# ---- places ------------------------------------------------------------------------------------------------------


@given(st.data())
def test_any_sequence_of_moves_gives_the_order_that_a_person_expects(data: st.DataObject) -> None:
    keys, line = QueueKeys(), line_of(5)
    for run in line:
        keys.seen(run.queue_key)
    expected = [run.run_id for run in line]
    for _ in range(data.draw(st.integers(0, 12))):
        run = data.draw(st.sampled_from(line))
        where = data.draw(st.sampled_from([one for one in Where if one is not Where.HOST]))
        anchor = data.draw(st.sampled_from([one for one in line if one.run_id != run.run_id]))
        beside = where in (Where.BEFORE, Where.AFTER)
        line = moved(line, run, Place(where, anchor if beside else None), keys)
        expected.remove(run.run_id)
        at = expected.index(anchor.run_id)
        spot = {Where.FIRST: 0, Where.LAST: len(expected), Where.BEFORE: at, Where.AFTER: at + 1}[where]
        expected.insert(spot, run.run_id)
        assert [one.run_id for one in line] == expected
    newest = keys.next()
    assert newest > line[-1].queue_key  # what is submitted then comes behind all of them


def test_the_first_of_an_empty_line_has_a_place_too() -> None:
    assert in_front_of([]) < whole(1)
    assert new_key(Place(Where.LAST), [], QueueKeys().next) == whole(1)


def test_a_run_does_not_stand_beside_itself() -> None:
    run = run_record(queue_key=whole(1))
    with pytest.raises(RefusedError, match="itself: name another run"):
        require_same_line(run, run, sessions_apart=True)


def test_a_session_and_a_training_run_have_no_order_unless_they_share_a_line() -> None:
    session, training = run_record(interactive=True, queue_key=whole(1)), run_record(queue_key=whole(2))
    with pytest.raises(RefusedError, match="wait in different lines"):
        require_same_line(training, session, sessions_apart=True)
    require_same_line(training, session, sessions_apart=False)


# ---- decisions ---------------------------------------------------------------------------------------------------


def test_a_move_changes_the_key_alone_and_is_noted() -> None:
    run = run_record(queue_key=whole(3))
    decision = lc.decide(run, lc.Moved(whole(0), "to the front of the queue", "request", "digest"))
    assert decision.run == replace(run, queue_key=whole(0))
    assert decision.transitions == (lc.Transition(RunState.INIT, RunState.INIT, "Moved", "to the front of the queue"),)
    assert decision.instructions == (lc.Reorder(),)


@pytest.mark.parametrize("state", [RunState.HSHK, RunState.RDY, RunState.EXEC, RunState.PAUSE, RunState.FAULT])
def test_a_run_that_has_started_is_not_moved(state: RunState) -> None:
    with pytest.raises(WrongStateError, match="not in the queue any more: it has started"):
        lc.decide(live_record(state=state), lc.Moved(whole(0), "to the front of the queue"))


def test_a_run_that_is_over_is_not_moved() -> None:
    over = run_record(state=RunState.TERM, outcome=Outcome.CANCELED, reason="canceled")
    with pytest.raises(WrongStateError, match="is not in the queue: it ended: canceled"):
        lc.decide(over, lc.Moved(whole(0), "to the front of the queue"))


def test_a_run_that_cannot_start_on_this_machine_has_no_place_to_move_from() -> None:
    beside = run_record(queue_key=whole(1), reason="it asks for 8 CPUs where there are 4")
    with pytest.raises(WrongStateError, match="does not stand in the line: it asks for 8 CPUs"):
        lc.decide(beside, lc.Moved(whole(0), "to the front of the queue"))


def test_the_history_names_the_place() -> None:
    other = run_record(name="ppo-3")
    assert Place(Where.FIRST).story == "to the front of the queue"
    assert Place(Where.LAST).story == "to the end of the queue"
    assert Place(Where.AFTER, other).story == f"after ppo-3 ({other.run_id[-6:]})"
    digests = {Place(where).digest for where in (Where.FIRST, Where.LAST)}
    digests |= {Place(where, other).digest for where in (Where.BEFORE, Where.AFTER)}
    assert len(digests) == 4


# ---- the checker -------------------------------------------------------------------------------------------------


def told(run_id: str, cause: str, detail: str = "", target: RunState = RunState.INIT) -> HistoryRow:
    return HistoryRow(0, run_id, 0.0, 0.0, lc.Transition(RunState.INIT, target, cause, detail), None)


@pytest.mark.parametrize(
    ("moved", "started", "wrong"),
    [
        ("to the front of the queue", "CCCCCC", False),
        ("to the end of the queue", "AAAAAA", False),
        ("before b (BBBBBB)", "CCCCCC", True),
        ("after a (AAAAAA)", "AAAAAA", False),
        ("to the front of the queue", "AAAAAA", True),
    ],
)
def test_the_history_checker_sees_a_run_that_starts_before_its_turn(moved: str, started: str, wrong: bool) -> None:
    ids = ("AAAAAA", "BBBBBB", "CCCCCC")
    rows = [*(told(run_id, "Submitted") for run_id in ids), told("CCCCCC", "Moved", moved)]
    rows.append(told(started, "Launching", "attempt 1", RunState.HSHK))
    found = list(Turns(dict.fromkeys(ids, False)).taken_out_of_order(rows))
    assert bool(found) is wrong, found


def test_the_history_checker_lets_a_run_pass_one_that_cannot_start_here() -> None:
    rows = [told("AAAAAA", "Submitted"), told("BBBBBB", "Submitted"), told("AAAAAA", "Waiting", "it asks for 8 CPUs")]
    rows.append(told("BBBBBB", "Launching", "attempt 1", RunState.HSHK))
    assert not list(Turns({"AAAAAA": False, "BBBBBB": False}).taken_out_of_order(rows))
