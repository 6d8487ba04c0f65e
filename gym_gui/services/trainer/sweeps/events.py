"""What happens to a sweep: its runs, its study and the people who asked for it. Values only; what follows from them is
decided by :mod:`gym_gui.services.trainer.sweeps.decisions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gym_gui.services.sweeps.space import Value
from mosaic_protocol.states import Outcome


@dataclass(frozen=True)
class Asked:
    """The sampler proposed the next trial."""

    params: dict[str, Value]


@dataclass(frozen=True)
class NothingLeft:
    """The sampler has no more proposals."""

    sentence: str


@dataclass(frozen=True)
class Submitted:
    number: int
    index: int
    run_id: str


@dataclass(frozen=True)
class Withdrawn:
    """A run that was wanted was never submitted, and is wanted no more."""

    number: int
    index: int


@dataclass(frozen=True)
class SubmissionRefused:
    """The settings of a trial make no run."""

    number: int
    index: int
    sentence: str


@dataclass(frozen=True)
class RungReached:
    """The first seed of a trial passed a rung; None where its metric had no number yet."""

    number: int
    step: int
    value: float | None


@dataclass(frozen=True)
class RunEnded:
    """The last run of a seed is over. ``value``: the metric at its end, None where it has no number; ``logged``: then,
    what else the run logged."""

    number: int
    index: int
    outcome: Outcome
    sentence: str = ""
    value: float | None = None
    steps: int = 0
    seconds: float = 0.0
    logged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluated:
    """Episodes were played with the last checkpoint of a seed. ``value`` None where their returns are no number."""

    number: int
    index: int
    value: float | None


@dataclass(frozen=True)
class EvaluationFailed:
    """``final``: tried again it fails again."""

    number: int
    index: int
    sentence: str
    final: bool = False


@dataclass(frozen=True)
class EvaluationHalted:
    """No process plays episodes of a seed any more, and nothing was measured."""

    number: int
    index: int


@dataclass(frozen=True)
class HoldChanged:
    """A run was paused, or let go on, because the sweep was."""

    number: int
    index: int
    held: bool


@dataclass(frozen=True)
class Told:
    """The study has heard how a trial ended."""

    number: int


@dataclass(frozen=True)
class PauseAsked:
    pass


@dataclass(frozen=True)
class ResumeAsked:
    """``more``: how many more trials there may be."""

    more: int = 0


@dataclass(frozen=True)
class StopAsked:
    pass


Event: TypeAlias = (
    Asked
    | NothingLeft
    | Submitted
    | Withdrawn
    | SubmissionRefused
    | RungReached
    | RunEnded
    | Evaluated
    | EvaluationFailed
    | EvaluationHalted
    | HoldChanged
    | Told
    | PauseAsked
    | ResumeAsked
    | StopAsked
)
