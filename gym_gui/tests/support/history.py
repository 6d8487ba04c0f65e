"""The history checker: whatever was done to a daemon, its event log must tell a legal story.

Every test with a daemon ends with :func:`check_history`; the nemesis campaign (``tools/nemesis``) adds what its clients
saw and did to the same rules.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from gym_gui.services.trainer.runs.run_queue import ANY
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import HistoryRow, RunRegistry
from mosaic_protocol.states import LIVE_STATES, TERMINAL_STATES, RunState, is_legal


def check_history(
    registry: RunRegistry, *, cpus: int, interactive_cpus: int = TrainerSettings.interactive_cpus
) -> None:
    """Only legal edges, terminal is final, exactly one outcome, never more reserved than there is, and none that starts
    before its turn."""
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
    overbooked = [*_overbooked(rows, cpus, apart=False), *_overbooked(rows, interactive_cpus, apart=True)]
    runs = [registry.get(run_id) for run_id in stories(rows)]
    interactive = {run.run_id: run.interactive for run in runs}
    hosts = {run.run_id: json.loads(run.config_json).get("resources", {}).get("host", "") for run in runs}
    return [*found, *overbooked, *Turns(interactive, hosts).taken_out_of_order(rows)]


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
        if holds is not None and holds.host:
            holds = None  # what another machine has is not this one's to count
        held[row.run_id] = holds.cpus if holds is not None and holds.interactive is apart else 0
        if sum(held.values()) > cpus:
            whose = " for interactive runs" if apart else ""
            yield f"{sum(held.values())} CPUs reserved of {cpus}{whose} at {row.revision}"


class Turns:
    """The queue as the event log tells it: runs come to the end, people move them, and the first of a line starts.

    Those that cannot start on the machine as it is are passed. What the log cannot tell any more, because the run
    beside which another was put is deleted for good, is not judged.
    """

    def __init__(self, interactive: Mapping[str, bool], hosts: Mapping[str, str] = MappingProxyType({})) -> None:
        """``hosts``: which host each run asked for; "" is this machine."""
        self._interactive, self._hosts = interactive, hosts
        self._lines: dict[bool, list[str]] = {True: [], False: []}
        self._passed: set[str] = set()

    def taken_out_of_order(self, rows: Sequence[HistoryRow]) -> Iterator[str]:
        for row in rows:
            move, line = row.transition, self._lines[self._interactive[row.run_id]]
            if move.cause == "Submitted":
                line.append(row.run_id)
            elif move.cause == "Moved":
                self._put(line, row.run_id, move.detail)
            elif move.cause == "Waiting" and move.detail != "it can start again":
                self._passed.add(row.run_id)
            elif move.cause == "Waiting":
                self._passed.discard(row.run_id)
            if move.origin is RunState.INIT and move.target is not RunState.INIT and row.run_id in line:
                ahead = [run_id for run_id in line[: line.index(row.run_id)] if run_id not in self._passed]
                place = row.reservation.host if row.reservation is not None else ""
                ahead = [run_id for run_id in ahead if self._hosts.get(run_id, "") in (place, ANY)]
                if move.target in LIVE_STATES and ahead:
                    yield f"{row.run_id} starts at {row.revision} while {', '.join(ahead)} wait before it"
                line.remove(row.run_id)

    @staticmethod
    def _put(line: list[str], run_id: str, where: str) -> None:
        if run_id not in line:
            return
        line.remove(run_id)
        ends = {"to the front of the queue": 0, "to the end of the queue": len(line)}
        anchor = next((place for place, one in enumerate(line) if where.endswith(f"({one[-6:]})")), None)
        if where in ends:
            line.insert(ends[where], run_id)
        elif anchor is not None:
            line.insert(anchor + where.startswith("after "), run_id)
