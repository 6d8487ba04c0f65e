"""What can be done to which runs, and if not, why not. Without Qt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gym_gui.services.run_words import is_over, state_word
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Desired, Outcome, RunState

NOTHING_SELECTED = "Select a run first."
_ONE_ONLY = "Select just one run."


def _cancel(run: pb.Run) -> str:
    if is_over(run):
        return "it is over"
    return "it is stopping already" if run.desired == Desired.STOP else ""


def _pause(run: pb.Run) -> str:
    if is_over(run):
        return "it is over"
    if run.state != RunState.EXEC:
        return f"it is {state_word(run)}, only a run that trains can pause"
    return f"it is {state_word(run)}" if run.desired != Desired.RUN else ""


def _resume(run: pb.Run) -> str:
    if is_over(run):
        return "it completed; duplicate it to train anew" if run.outcome == Outcome.COMPLETED else ""
    if run.desired == Desired.PAUSE:
        return ""
    return f"it is {state_word(run)}"


def _delete(run: pb.Run) -> str:
    return "" if is_over(run) else "it is not over; cancel it first"


_RULES: dict[str, Callable[[pb.Run], str]] = {
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "delete": _delete,
    "copy-id": lambda run: "",
    "open": lambda run: "",
    "duplicate": lambda run: "",
    "folder": lambda run: "" if run.run_dir else "it has none",
}
_FOR_ONE = frozenset({"open", "duplicate", "folder"})
ACTIONS = tuple(_RULES)


def applicable(action: str, runs: Sequence[pb.Run]) -> list[pb.Run]:
    """The runs among these to which it can be done."""
    if action in _FOR_ONE and len(runs) != 1:
        return []
    return [run for run in runs if not _RULES[action](run)]


def why_not(action: str, runs: Sequence[pb.Run]) -> str:
    """The sentence that says why it can be done to none of these; "" when it can."""
    if not runs:
        return NOTHING_SELECTED
    if action in _FOR_ONE and len(runs) != 1:
        return _ONE_ONLY
    if applicable(action, runs):
        return ""
    reason = _RULES[action](runs[0])
    return f"Not for {runs[0].name}: {reason}." if len(runs) == 1 else f"For none of the {len(runs)} runs: {reason}."
