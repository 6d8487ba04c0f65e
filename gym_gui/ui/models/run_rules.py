"""What can be done to which runs, and if not, why not. Without Qt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gym_gui.services.run_words import PLAY, is_over, state_word
from mosaic_protocol.imported_runs import IMPORTED
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Desired, Outcome, RunState

NOTHING_SELECTED = "Select a run first."
_ONE_ONLY = "Select just one run."
_TWO_ONLY = "Select two runs."


LOOKING = "its checkpoints are being looked for"


@dataclass(frozen=True)
class Known:
    """What a rule goes by besides the run itself.

    ``cannot_go_on``: of runs that are over, why they cannot go on, "" for one that can; a run that is not in it was not
    looked at yet. ``hidden``: runs that filters and folded groups keep out of sight. ``cannot_pause``: types of workers
    that declare no pause.
    """

    cannot_go_on: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    cannot_pause: frozenset[str] = frozenset()


def _cancel(run: pb.Run, known: Known) -> str:
    if is_over(run):
        return "it is over"
    return "it is stopping already" if run.desired == Desired.STOP else ""


def _pause(run: pb.Run, known: Known) -> str:
    if is_over(run):
        return "it is over"
    if run.worker_type in known.cannot_pause:
        return f"its worker {run.worker_type!r} cannot pause runs"
    if run.state == RunState.FAULT:
        return f"it is {state_word(run)}"
    return f"it is {state_word(run)}" if run.desired != Desired.RUN else ""


def _imported(run: pb.Run, known: Known) -> str:
    """Why what needs more of a run than its numbers cannot be done."""
    return "it was imported, and only its numbers are here" if run.worker_type == IMPORTED else ""


def _resume(run: pb.Run, known: Known) -> str:
    if run.worker_type == IMPORTED:
        return _imported(run, known)
    if is_over(run):
        if run.outcome == Outcome.COMPLETED:
            return "it completed; duplicate it to train again"
        return known.cannot_go_on.get(run.run_id, LOOKING)
    if run.desired == Desired.PAUSE:
        return ""
    return f"it is {state_word(run)}"


def _delete(run: pb.Run, known: Known) -> str:
    if run.run_id in known.hidden:
        return "it is hidden by a filter or a folded group; show it first"
    return "" if is_over(run) else "it is not over; cancel it first"


def _join(run: pb.Run, known: Known) -> str:
    if run.algo != PLAY:
        return "it is no live session"
    return "it is over; its steps are kept" if is_over(run) else ""


_RULES: dict[str, Callable[[pb.Run, Known], str]] = {
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "delete": _delete,
    "copy-id": lambda run, known: "",
    "open": lambda run, known: "",
    "duplicate": _imported,
    "join": _join,
    "replay": _imported,
    "folder": lambda run, known: _imported(run, known) if run.run_dir else "it has none",
    "borrow": _imported,
    "swap": lambda run, known: "",
}
_FOR_ONE = frozenset({"open", "join", "replay", "duplicate", "folder"})
_FOR_TWO = frozenset({"borrow", "swap"})
ACTIONS = tuple(_RULES)


_NOTHING_KNOWN = Known()


def applicable(action: str, runs: Sequence[pb.Run], known: Known = _NOTHING_KNOWN) -> list[pb.Run]:
    """The runs among these to which it can be done."""
    if _wrong_number(action, runs) or (action == "borrow" and _why_apart(*runs)):
        return []
    return [run for run in runs if not _RULES[action](run, known)]


def why_not(action: str, runs: Sequence[pb.Run], known: Known = _NOTHING_KNOWN) -> str:
    """The sentence that says why it can be done to none of these; "" when it can."""
    if not runs:
        return NOTHING_SELECTED
    if wrong := _wrong_number(action, runs):
        return wrong
    if action == "borrow" and (apart := _why_apart(*runs)):
        return f"Not for these two: {apart}."
    if applicable(action, runs, known):
        return ""
    reason = _RULES[action](runs[0], known)
    return f"Not for {runs[0].name}: {reason}." if len(runs) == 1 else f"For none of the {len(runs)} runs: {reason}."


def _wrong_number(action: str, runs: Sequence[pb.Run]) -> str:
    if action in _FOR_ONE and len(runs) != 1:
        return _ONE_ONLY
    return _TWO_ONLY if action in _FOR_TWO and len(runs) != 2 else ""


def _why_apart(one: pb.Run, other: pb.Run) -> str:
    """Why the settings of one run mean nothing to another; "" when they do."""
    if one.worker_type != other.worker_type:
        return "they are of different workers"
    return "they train with different algorithms" if one.algo != other.algo else ""
