"""What is to be done for a sweep as it is stored: its instructions, and how they follow from it. Pure.

Instructions are *levels*: they follow from the sweep, not from the event that changed it, and each may be followed
twice without harm. So a daemon that died between storing and acting needs no memory of what it was about to do:
:func:`outstanding` tells its successor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gym_gui.services.sweeps.model import ACTIVE, OPEN, SeedPhase, SeedRun, Sweep, SweepState, Trial, TrialState
from gym_gui.services.trainer.sweeps import population

HOPELESS = 5
"""So many trials that all failed, and nothing else: the sweep ends instead of failing as often as it was allowed to."""


@dataclass(frozen=True)
class Ask:
    """Ask the sampler for this trial."""

    number: int


@dataclass(frozen=True)
class Start:
    """Submit the first run of a seed, or the one that goes on from its last."""

    number: int
    index: int


@dataclass(frozen=True)
class Find:
    """Look whether a run that is wanted no more was submitted by a daemon that died before it could say so."""

    number: int
    index: int


@dataclass(frozen=True)
class Cancel:
    run_id: str
    reason: str


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with the newest checkpoint of a seed."""

    number: int
    index: int


@dataclass(frozen=True)
class Halt:
    """End an evaluation that nobody waits for."""

    number: int
    index: int


@dataclass(frozen=True)
class Hold:
    number: int
    index: int
    held: bool


@dataclass(frozen=True)
class Tell:
    """Tell the study how a trial ended."""

    number: int


Instruction: TypeAlias = Ask | Start | Find | Cancel | Evaluate | Halt | Hold | Tell


def outstanding(sweep: Sweep) -> Iterator[Instruction]:
    """Everything that is to be done for a sweep as it stands."""
    for trial in sweep.trials:
        if is_untold(trial):
            yield Tell(trial.number)
        for index, seed in enumerate(trial.seeds):
            yield from _for_seed(sweep, trial, index, seed)
    may_ask = sweep.state is SweepState.RUNNING and not sweep.exhausted and len(sweep.trials) < sweep.budget
    if may_ask and free_slots(sweep) > 0 and not looks_hopeless(sweep):
        yield Ask(len(sweep.trials))


def _for_seed(sweep: Sweep, trial: Trial, index: int, seed: SeedRun) -> Iterator[Instruction]:
    goes_on = trial.state in OPEN and sweep.state is not SweepState.STOPPING
    if seed.phase is SeedPhase.WANTED:
        if not goes_on:
            yield Find(trial.number, index)
        elif sweep.state is SweepState.RUNNING:
            yield Start(trial.number, index)
    elif seed.phase is SeedPhase.EVALUATING:
        if not goes_on:
            yield Halt(trial.number, index)
        elif sweep.state is SweepState.RUNNING:
            yield Evaluate(trial.number, index)
    elif seed.phase is SeedPhase.RUNNING:
        if not goes_on or trial.state is TrialState.PRUNING:
            yield Cancel(seed.runs[-1], trial.reason or "the sweep was stopped")
        elif population.is_at_rung(sweep, trial):
            yield Cancel(seed.runs[-1], f"it waits at step {trial.last_rung:,} for the rest of its population")
        elif seed.held is not (sweep.state is SweepState.PAUSED):
            yield Hold(trial.number, index, held=not seed.held)


def free_slots(sweep: Sweep) -> int:
    """How many more runs and evaluations may be under way."""
    active = sum(seed.phase in ACTIVE for trial in sweep.trials for seed in trial.seeds)
    return sweep.spec.parallel - active


def looks_hopeless(sweep: Sweep) -> bool:
    """Whether so many trials failed, and none has shown a number, that nothing new begins beside those under way: they
    end the sweep or let it go on. A population is not judged before all of its members are there."""
    if sweep.spec.is_population:
        return False
    failed = sum(trial.state is TrialState.FAILED for trial in sweep.trials[sweep.forgiven :])
    return failed >= HOPELESS and not any(map(_has_shown_a_number, sweep.trials))


def _has_shown_a_number(trial: Trial) -> bool:
    if trial.state is TrialState.FAILED:
        return False
    return trial.state is TrialState.COMPLETE or any(value is not None for _, value in trial.rungs)


def is_untold(trial: Trial) -> bool:
    """Whether the study has to hear of it; one that the sweep's stop interrupted may go on."""
    return trial.state not in OPEN and not trial.told and trial.state is not TrialState.STOPPED


def is_active(trial: Trial) -> bool:
    """Whether something is under way for it, or is to be."""
    return any(seed.phase in ACTIVE for seed in trial.seeds)
