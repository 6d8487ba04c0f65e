"""Run states, outcomes and the one table of legal moves. Imports no other module of MOSAIC, on purpose."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """Where a run is in its life."""

    INIT = "INIT"  # accepted and durable; waiting for its turn
    HSHK = "HSHK"  # launched; waiting for the worker's handshake
    RDY = "RDY"  # the worker registered and prepares
    EXEC = "EXEC"  # the worker said run_started
    PAUSE = "PAUSE"  # the worker holds still at a safe point
    FAULT = "FAULT"  # something went wrong; what is left of the run is being cleared away
    TERM = "TERM"  # over: exactly one outcome, no process left


class Outcome(StrEnum):
    """How a run ended. A run has one if and only if it is in TERM."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"
    LOST = "lost"


class Desired(StrEnum):
    """What the daemon wants a worker to do. Levels, not edges: resending one is harmless."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


LEGAL_MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.INIT: frozenset({RunState.HSHK, RunState.FAULT, RunState.TERM}),
    RunState.HSHK: frozenset({RunState.RDY, RunState.FAULT, RunState.TERM}),
    RunState.RDY: frozenset({RunState.EXEC, RunState.FAULT, RunState.TERM}),
    RunState.EXEC: frozenset({RunState.PAUSE, RunState.FAULT, RunState.TERM}),
    RunState.PAUSE: frozenset({RunState.EXEC, RunState.FAULT, RunState.TERM}),
    RunState.FAULT: frozenset({RunState.TERM}),
    RunState.TERM: frozenset(),
}

TERMINAL_STATES = frozenset({RunState.TERM})
LIVE_STATES = frozenset({RunState.HSHK, RunState.RDY, RunState.EXEC, RunState.PAUSE, RunState.FAULT})
"""States in which a run holds resources and may have processes."""


def is_legal(origin: RunState, target: RunState) -> bool:
    """Whether a run may go from one state straight to another."""
    return target in LEGAL_MOVES[origin]
