"""The history checker: whatever was done to a daemon, its event log must tell a legal story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gym_gui.services.trainer.run_registry import HistoryRow, RunRegistry
from mosaic_protocol.states import LIVE_STATES, TERMINAL_STATES, RunState, is_legal


def check_history(registry: RunRegistry, *, cpus: int) -> None:
    """Only legal edges, terminal is final, exactly one outcome, never more reserved than there is."""
    rows = registry.history()
    by_run: dict[str, list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row)
    for run_id, story in by_run.items():
        _check_story(run_id, story)
        _check_ending(registry, run_id, story)
    _check_reservations(rows, cpus)


def _check_story(run_id: str, story: Sequence[HistoryRow]) -> None:
    state = RunState.INIT
    for row in story:
        move = row.transition
        assert move.origin is state, f"{run_id}: the log jumps from {state} to {move.origin} at {row.revision}"
        assert move.origin is move.target or is_legal(move.origin, move.target), f"{run_id}: {move}"
        state = move.target


def _check_ending(registry: RunRegistry, run_id: str, story: Sequence[HistoryRow]) -> None:
    run = registry.get(run_id)
    endings = [
        row
        for row in story
        if row.transition.target in TERMINAL_STATES and row.transition.origin is not row.transition.target
    ]
    over = run.state in TERMINAL_STATES
    assert len(endings) == int(over), f"{run_id}: {len(endings)} endings, state {run.state}"
    assert (run.outcome is not None) == over, f"{run_id}: {run.state} with outcome {run.outcome}"
    assert not over or run.reason, f"{run_id}: ended {run.outcome} without a sentence"
    assert story[-1].transition.target is run.state


def _check_reservations(rows: Sequence[HistoryRow], cpus: int) -> None:
    held: dict[str, int] = {}
    for row in rows:
        live = row.transition.target in LIVE_STATES
        held[row.run_id] = row.reservation.cpus if live and row.reservation else 0
        assert sum(held.values()) <= cpus, f"{sum(held.values())} CPUs reserved of {cpus} at {row.revision}"
