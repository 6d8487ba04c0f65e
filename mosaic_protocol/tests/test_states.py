from __future__ import annotations

import pytest

from mosaic_protocol import states
from mosaic_protocol.states import LEGAL_MOVES, RunState


def reachable_from(origin: RunState) -> set[RunState]:
    seen: set[RunState] = set()
    waiting = [origin]
    while waiting:
        for target in LEGAL_MOVES[waiting.pop()] - seen:
            seen.add(target)
            waiting.append(target)
    return seen


def test_every_state_has_its_row_in_the_table_of_legal_moves() -> None:
    assert set(LEGAL_MOVES) == set(RunState)


def test_a_run_that_is_over_stays_over() -> None:
    assert LEGAL_MOVES[RunState.TERM] == frozenset()
    assert {state for state, targets in LEGAL_MOVES.items() if not targets} == states.TERMINAL_STATES


def test_every_other_state_can_be_reached_from_init() -> None:
    assert reachable_from(RunState.INIT) == set(RunState) - {RunState.INIT}


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.TERM])
def test_every_unfinished_run_can_end_at_once(state: RunState) -> None:
    assert states.is_legal(state, RunState.TERM)


def test_no_move_leads_back_to_init_or_to_the_state_itself() -> None:
    assert not any(RunState.INIT in targets for targets in LEGAL_MOVES.values())
    assert not any(state in targets for state, targets in LEGAL_MOVES.items())


def test_a_fault_can_only_be_cleared_away() -> None:
    assert LEGAL_MOVES[RunState.FAULT] == {RunState.TERM}


def test_only_pausing_and_resuming_goes_back_and_forth() -> None:
    both_ways = {(a, b) for a in RunState for b in RunState if states.is_legal(a, b) and states.is_legal(b, a)}
    assert both_ways == {(RunState.EXEC, RunState.PAUSE), (RunState.PAUSE, RunState.EXEC)}


def test_live_states_are_those_between_the_queue_and_the_end() -> None:
    assert set(RunState) - {RunState.INIT, RunState.TERM} == states.LIVE_STATES
