"""The history checker: whatever was done to a daemon, its event log must tell a legal story.

Every test with a daemon ends with :func:`check_history`; the nemesis campaign (``tools/nemesis``) adds what its clients
saw and did to the same rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import HistoryRow, RunRegistry
from mosaic_protocol.states import LIVE_STATES, TERMINAL_STATES, RunState, is_legal


def check_history(
    registry: RunRegistry, *, cpus: int, interactive_cpus: int = TrainerSettings.interactive_cpus
) -> None:
    """Only legal edges, terminal is final, exactly one outcome, never more reserved than there is."""
    found = violations(registry, cpus=cpus, interactive_cpus=interactive_cpus)
    assert not found, "; ".join(found)


def violations(
    registry: RunRegistry, *, cpus: int, interactive_cpus: int = TrainerSettings.interactive_cpus
) -> list[str]:
    """A sentence for each rule that the event log breaks."""
    rows = registry.history()
    found = [
        problem
        for run_id, story in stories(rows).items()
        for problem in (*_jumps(run_id, story), *_endings(registry.get(run_id), story))
    ]
    return [*found, *_overbooked(rows, cpus, apart=False), *_overbooked(rows, interactive_cpus, apart=True)]


def stories(rows: Sequence[HistoryRow]) -> dict[str, list[HistoryRow]]:
    """The event log run by run."""
    by_run: dict[str, list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row)
    return by_run


def _jumps(run_id: str, story: Sequence[HistoryRow]) -> Iterator[str]:
    state = RunState.INIT
    for row in story:
        move = row.transition
        if move.origin is not state:
            yield f"{run_id}: the log jumps from {state} to {move.origin} at {row.revision}"
        if move.origin is not move.target and not is_legal(move.origin, move.target):
            yield f"{run_id}: {move} is not legal"
        state = move.target


def _endings(run: RunRecord, story: Sequence[HistoryRow]) -> Iterator[str]:
    moves = [row.transition for row in story]
    endings = [move for move in moves if move.target in TERMINAL_STATES and move.origin is not move.target]
    over = run.state in TERMINAL_STATES
    if len(endings) != int(over):
        yield f"{run.run_id}: {len(endings)} endings, state {run.state}"
    if (run.outcome is not None) != over:
        yield f"{run.run_id}: {run.state} with outcome {run.outcome}"
    if over and not run.reason:
        yield f"{run.run_id}: ended {run.outcome} without a sentence"
    if moves[-1].target is not run.state:
        yield f"{run.run_id}: the log ends in {moves[-1].target}, the run is in {run.state}"


def _overbooked(rows: Sequence[HistoryRow], cpus: int, *, apart: bool) -> Iterator[str]:
    """Of training, or ``apart`` of interactive runs: each has CPUs of its own."""
    held: dict[str, int] = {}
    for row in rows:
        holds = row.reservation if row.transition.target in LIVE_STATES else None
        held[row.run_id] = holds.cpus if holds is not None and holds.interactive is apart else 0
        if sum(held.values()) > cpus:
            whose = " for interactive runs" if apart else ""
            yield f"{sum(held.values())} CPUs reserved of {cpus}{whose} at {row.revision}"
