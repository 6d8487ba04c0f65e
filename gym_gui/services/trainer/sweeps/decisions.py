"""The life of a sweep, decided purely: sweep + event → sweep + instructions. No I/O, no clock, no async, no Optuna.

Instructions are *levels*: they follow from the sweep as it is stored, not from the event, and each may be followed
twice without harm. So a daemon that died between storing and acting needs no memory of what it was about to do:
:func:`outstanding` tells its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from gym_gui.services.sweeps.model import (
    ACTIVE,
    OPEN,
    SeedPhase,
    SeedRun,
    Sweep,
    SweepSpec,
    SweepState,
    Trial,
    TrialState,
)
from gym_gui.services.sweeps.space import Value
from gym_gui.services.trainer.errors import WrongStateError
from gym_gui.services.trainer.sweeps import population
from mosaic_protocol.states import Outcome

HOPELESS = 5
"""So many trials that all failed, and nothing else: the sweep ends instead of failing as often as it was allowed to."""
MEDIAN_NEEDS = 4
"""Other trials at a rung before the median says anything."""

# ---- events ------------------------------------------------------------------------------------------------------


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
    """The last run of a seed is over. ``value``: the metric at its end, None where it has no number."""

    number: int
    index: int
    outcome: Outcome
    sentence: str = ""
    value: float | None = None
    steps: int = 0
    seconds: float = 0.0


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

# ---- instructions ------------------------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Decision:
    sweep: Sweep
    changed: tuple[int, ...] = ()
    """Numbers of the trials that are not as they were."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return tuple(outstanding(self.sweep))


# ---- deciding ----------------------------------------------------------------------------------------------------


def decide(sweep: Sweep, event: Event) -> Decision:
    """Raises :class:`WrongStateError` for what a person asks of a sweep that cannot do it."""
    after = _finished(_filled(_after(sweep, event)))
    before = sweep.trials
    changed = tuple(
        trial.number for trial in after.trials if trial.number >= len(before) or trial is not before[trial.number]
    )
    return Decision(after, changed)


def _after(sweep: Sweep, event: Event) -> Sweep:
    match event:
        case Asked(params):
            number = len(sweep.trials)
            first = population.first_seed(sweep.spec, number)
            return replace(sweep, trials=(*sweep.trials, Trial(number, params, (first,))))
        case NothingLeft(sentence):
            return replace(sweep, exhausted=sentence)
        case RungReached():
            return _judged(sweep, event)
        case RunEnded():
            return _run_ended(sweep, event)
        case Told(number):
            return _with_trial(sweep, replace(sweep.trials[number], told=True))
        case PauseAsked():
            return _paused(sweep)
        case ResumeAsked(more):
            return _resumed(sweep, more)
        case StopAsked():
            return _stopping(sweep)
    return _after_acting(sweep, event)


def _after_acting(
    sweep: Sweep,
    event: Submitted | Withdrawn | SubmissionRefused | HoldChanged | Evaluated | EvaluationFailed | EvaluationHalted,
) -> Sweep:
    """What became of something that the sweep wanted for a seed."""
    number, index = event.number, event.index
    seed = sweep.trials[number].seeds[index]
    match event:
        case Submitted():
            if seed.phase is not SeedPhase.WANTED:
                return sweep
            runs = (*seed.runs, event.run_id)
            return _with_seed(sweep, number, index, phase=SeedPhase.RUNNING, runs=runs, held=False)
        case Withdrawn():
            return _settled(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number)
        case SubmissionRefused():
            return _failed(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number, event.sentence)
        case HoldChanged():
            return _with_seed(sweep, number, index, held=event.held)
    return _after_evaluating(sweep, event) if seed.phase is SeedPhase.EVALUATING else sweep


def _with_trial(sweep: Sweep, trial: Trial) -> Sweep:
    trials = sweep.trials
    return replace(sweep, trials=(*trials[: trial.number], trial, *trials[trial.number + 1 :]))


def _with_seed(sweep: Sweep, number: int, index: int, **changes: object) -> Sweep:
    trial = sweep.trials[number]
    seeds = list(trial.seeds)
    seeds[index] = replace(seeds[index], **changes)
    return _with_trial(sweep, replace(trial, seeds=tuple(seeds)))


# ---- what people ask for -----------------------------------------------------------------------------------------


def _paused(sweep: Sweep) -> Sweep:
    if sweep.state is SweepState.PAUSED:
        return sweep
    if sweep.state is not SweepState.RUNNING:
        raise WrongStateError(f"the sweep {sweep.name!r} is {sweep.state}: there is nothing to pause")
    return replace(sweep, state=SweepState.PAUSED)


def _resumed(sweep: Sweep, more: int) -> Sweep:
    if sweep.state is SweepState.STOPPING:
        raise WrongStateError(f"the sweep {sweep.name!r} is being stopped: wait until it is, then resume it")
    if sweep.state in (SweepState.COMPLETED, SweepState.FAILED) and not more:
        raise WrongStateError(
            f"the sweep {sweep.name!r} is over ({sweep.state}): give it more trials with --budget +50% or --budget +10"
        )
    trials = sweep.trials
    if sweep.state is SweepState.STOPPED:
        trials = tuple(_reopened(sweep.spec, trial) for trial in trials)
    if more:
        sweep = replace(sweep, budget=sweep.budget + more, exhausted="", unimproved=0)
    return replace(sweep, state=SweepState.RUNNING, reason="", ended_at=0.0, trials=trials)


def _reopened(spec: SweepSpec, trial: Trial) -> Trial:
    """A trial that the sweep's stop interrupted goes on where it was. Members of a population take turns at the slots:
    which of them goes on first is not for the stop to say."""
    if trial.state is not TrialState.STOPPED:
        return trial
    again = {SeedPhase.UNMEASURED: SeedPhase.EVALUATING}
    if not spec.is_population:
        again[SeedPhase.IDLE] = SeedPhase.WANTED
    seeds = tuple(replace(seed, phase=again.get(seed.phase, seed.phase)) for seed in trial.seeds)
    return replace(trial, state=TrialState.RUNNING, reason="", seeds=seeds, told=False)


def _stopping(sweep: Sweep) -> Sweep:
    if sweep.state in (SweepState.STOPPING, SweepState.STOPPED):
        return sweep
    if sweep.is_over:
        raise WrongStateError(f"the sweep {sweep.name!r} is over already ({sweep.state})")
    sweep = replace(sweep, state=SweepState.STOPPING)
    for trial in sweep.trials:
        if trial.state is TrialState.RUNNING:
            sweep = _settled(sweep, trial.number)
    return sweep


# ---- what becomes of a trial -------------------------------------------------------------------------------------


def _run_ended(sweep: Sweep, event: RunEnded) -> Sweep:
    number, index = event.number, event.index
    seed = sweep.trials[number].seeds[index]
    if seed.phase is not SeedPhase.RUNNING:
        return sweep
    totals = {"steps": seed.steps + event.steps, "seconds": seed.seconds + event.seconds, "held": False}
    if event.outcome is Outcome.COMPLETED:
        trained = _with_seed(sweep, number, index, trained=True, **totals)
        if sweep.spec.evaluate:
            return _with_seed(_reprieved(trained, number), number, index, phase=SeedPhase.EVALUATING)
        return _measured(trained, number, index, event.value)
    sweep = _with_seed(sweep, number, index, phase=SeedPhase.IDLE, **totals)
    trial = sweep.trials[number]
    if trial.state not in OPEN:
        return sweep
    if trial.state is TrialState.PRUNING and event.outcome is Outcome.CANCELED:
        return _ended(sweep, replace(trial, state=TrialState.PRUNED))
    if sweep.state is SweepState.STOPPING:
        if sweep.spec.evaluate and _is_member_at_rung(sweep, trial):
            sweep = _with_seed(sweep, number, index, phase=SeedPhase.UNMEASURED)
        return _settled(sweep, number)
    if event.outcome in (Outcome.FAILED, Outcome.LOST):
        return _retried(sweep, event)
    if _is_member_at_rung(sweep, trial) and event.outcome is Outcome.CANCELED:
        return _rested(sweep, number)
    what = "was canceled" if event.outcome is Outcome.CANCELED else "timed out"
    return _failed(sweep, number, f"its run {seed.runs[-1][-6:]} {what}: {event.sentence}")


def _measured(sweep: Sweep, number: int, index: int, value: float | None) -> Sweep:
    """A seed reached the end, and it is known what it is worth."""
    sweep = _with_seed(sweep, number, index, phase=SeedPhase.OVER, value=value)
    if value is not None:
        return _settled(_reprieved(sweep, number), number)
    run = sweep.trials[number].seeds[index].runs[-1][-6:]
    if sweep.spec.evaluate:
        return _failed(sweep, number, f"the evaluation of its run {run} gave no number")
    return _failed(sweep, number, f"its run {run} logged no number under {sweep.spec.metric!r}")


def _is_member_at_rung(sweep: Sweep, trial: Trial) -> bool:
    return sweep.spec.is_population and trial.waits_for_turn


def _rested(sweep: Sweep, number: int) -> Sweep:
    """A member stands at its rung with a checkpoint. Where the sweep evaluates, that is what it is judged by."""
    phase = SeedPhase.EVALUATING if sweep.spec.evaluate else SeedPhase.IDLE
    return _with_seed(sweep, number, 0, phase=phase)


def _after_evaluating(sweep: Sweep, event: Evaluated | EvaluationFailed | EvaluationHalted) -> Sweep:
    number, index = event.number, event.index
    trial = sweep.trials[number]
    seed = trial.seeds[index]
    match event:
        case EvaluationHalted():
            return _settled(_with_seed(sweep, number, index, phase=SeedPhase.UNMEASURED), number)
        case EvaluationFailed():
            sweep = _with_seed(sweep, number, index, failures=seed.failures + 1)
            if not event.final and seed.failures < sweep.spec.retries:
                return sweep
            return _failed(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number, event.sentence)
        case Evaluated() if seed.trained:
            return _measured(sweep, number, index, event.value)
    rungs = (*trial.rungs[:-1], (trial.last_rung, event.value))
    return _with_seed(_with_trial(sweep, replace(trial, rungs=rungs)), number, index, phase=SeedPhase.IDLE)


def _reprieved(sweep: Sweep, number: int) -> Sweep:
    """A trial whose run reached its end before it could be stopped is not pruned: nothing was saved."""
    trial = sweep.trials[number]
    if trial.state is not TrialState.PRUNING:
        return sweep
    return _with_trial(sweep, replace(trial, state=TrialState.RUNNING, reason=""))


def _retried(sweep: Sweep, event: RunEnded) -> Sweep:
    number, index = event.number, event.index
    trial, failures = sweep.trials[number], sweep.trials[number].seeds[index].failures + 1
    if failures > sweep.spec.retries:
        return _failed(_with_seed(sweep, number, index, failures=failures), number, event.sentence)
    if trial.state is TrialState.PRUNING:  # it crashed instead of stopping: its rung is judged already
        return _ended(sweep, replace(_with_failures(trial, index, failures), state=TrialState.PRUNED))
    if _is_member_at_rung(sweep, trial):  # as above: what it was worth at its rung is known
        return _rested(_with_seed(sweep, number, index, failures=failures), number)
    return _with_seed(sweep, number, index, failures=failures, phase=SeedPhase.WANTED)


def _with_failures(trial: Trial, index: int, failures: int) -> Trial:
    seeds = list(trial.seeds)
    seeds[index] = replace(seeds[index], failures=failures)
    return replace(trial, seeds=tuple(seeds))


def _settled(sweep: Sweep, number: int) -> Sweep:
    """Whether a trial is complete now, or was interrupted by the sweep's stop."""
    trial = sweep.trials[number]
    if trial.state is not TrialState.RUNNING:
        return sweep
    if len(trial.seeds) == len(sweep.spec.seeds) and all(seed.phase is SeedPhase.OVER for seed in trial.seeds):
        value = objective(sweep, [seed.value for seed in trial.seeds if seed.value is not None])
        return _ended(sweep, replace(trial, state=TrialState.COMPLETE, value=value))
    if sweep.state is SweepState.STOPPING and not any(seed.phase in ACTIVE for seed in trial.seeds):
        reason = "the sweep was stopped"
        return _with_trial(sweep, replace(trial, state=TrialState.STOPPED, reason=reason))
    return sweep


def objective(sweep: Sweep, values: Iterable[float]) -> float:
    """Of several seeds: the mean, or the mean of their middle half."""
    ordered = sorted(values)
    cut = len(ordered) // 4 if sweep.spec.objective == "iqm" else 0
    kept = ordered[cut : len(ordered) - cut]
    return sum(kept) / len(kept)


def _failed(sweep: Sweep, number: int, sentence: str) -> Sweep:
    trial = sweep.trials[number]
    if trial.state not in OPEN:
        return sweep
    return _ended(sweep, replace(trial, state=TrialState.FAILED, reason=sentence))


def _ended(sweep: Sweep, trial: Trial) -> Sweep:
    """Store an end, and whether it was an improvement."""
    best = sweep.best()
    sweep = _with_trial(sweep, replace(trial, told=False))
    better = sweep.best()
    unimproved = 0 if better is not best else sweep.unimproved + 1
    sweep = replace(sweep, unimproved=unimproved)
    if sweep.spec.patience and unimproved >= sweep.spec.patience and not sweep.exhausted:
        return replace(sweep, exhausted=f"nothing got better in the last {unimproved} trials")
    return sweep


# ---- rungs -------------------------------------------------------------------------------------------------------


def _judged(sweep: Sweep, event: RungReached) -> Sweep:
    trial = sweep.trials[event.number]
    if trial.state is not TrialState.RUNNING or event.step <= trial.last_rung:
        return sweep
    if _is_member_at_rung(sweep, trial):
        return sweep
    value = None if sweep.spec.evaluate else event.value  # what is evaluated is not judged by training
    trial = replace(trial, rungs=(*trial.rungs, (event.step, value)))
    sweep = _with_trial(sweep, trial)
    if event.value is None or sweep.spec.is_population:
        return sweep
    reason = _why_stop(sweep, trial, event.step, event.value)
    return _with_trial(sweep, replace(trial, state=TrialState.PRUNING, reason=reason)) if reason else sweep


def _why_stop(sweep: Sweep, trial: Trial, step: int, value: float) -> str:
    """Why a trial does not go on beyond a rung, "" when it does."""
    sign = sweep.spec.sign()
    others = sorted((sign * one for number, one in _at_rung(sweep, step) if number != trial.number), reverse=True)
    mine, where = sign * value, f"pruned at step {step:,}"
    if sweep.spec.pruner == "asha":
        rank, kept = 1 + sum(one > mine for one in others), _kept(sweep, len(others) + 1)
        return "" if rank <= kept else f"{where}: number {rank} of {len(others) + 1} there, and the best {kept} go on"
    if sweep.spec.pruner == "median" and len(others) >= MEDIAN_NEEDS:
        middle = _median(others)
        told = sign * middle
        return "" if mine >= middle else f"{where}: {value:.4g} is worse than the median of {told:.4g} there"
    return ""


def _kept(sweep: Sweep, count: int) -> int:
    """How many of a rung go on. The first one does: nobody knows better yet, and waiting would leave a slot empty."""
    return max(1, count // sweep.spec.eta)


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _at_rung(sweep: Sweep, step: int) -> list[tuple[int, float]]:
    found = ((trial.number, trial.at_rung(step)) for trial in sweep.trials if trial.last_rung >= step)
    return [(number, value) for number, value in found if value is not None]


def _promotable(sweep: Sweep) -> Trial | None:
    """A pruned trial that is among the best of its rung now that others were there; the highest rung first."""
    if sweep.spec.pruner != "asha":
        return None
    sign = sweep.spec.sign()
    for step in reversed(sweep.spec.rungs):
        ranked = sorted(_at_rung(sweep, step), key=lambda one: (-sign * one[1], one[0]))
        for number, _ in ranked[: _kept(sweep, len(ranked))] if ranked else ():
            trial = sweep.trials[number]
            if trial.state is TrialState.PRUNED and trial.last_rung == step:
                return trial
    return None


# ---- what comes next ---------------------------------------------------------------------------------------------


def _free(sweep: Sweep) -> int:
    active = sum(seed.phase in ACTIVE for trial in sweep.trials for seed in trial.seeds)
    return sweep.spec.parallel - active


def _filled(sweep: Sweep) -> Sweep:
    """Give free slots to what is under way before anything new begins: members of a population, seeds of survivors,
    then promotions."""
    if sweep.state is not SweepState.RUNNING:
        return sweep
    if sweep.spec.is_population:
        sweep = population.turned(sweep)
    free = _free(sweep)
    while free > 0:
        if sweep.spec.is_population:
            if (member := population.next_to_train(sweep)) is None:
                break
            sweep = _with_trial(sweep, population.wanted_again(member))
        elif (survivor := _survivor(sweep)) is not None:
            more = SeedRun(sweep.spec.seeds[len(survivor.seeds)])
            sweep = _with_trial(sweep, replace(survivor, seeds=(*survivor.seeds, more)))
        elif (trial := _promotable(sweep)) is not None:
            seeds = (replace(trial.seeds[0], phase=SeedPhase.WANTED), *trial.seeds[1:])
            promoted = replace(trial, state=TrialState.RUNNING, reason="", seeds=seeds, told=False)
            sweep = _with_trial(sweep, replace(promoted, promotions=trial.promotions + 1))
        else:
            break
        free -= 1
    return sweep


def _survivor(sweep: Sweep) -> Trial | None:
    """A trial whose first seed reached the end and that has not had all its seeds."""
    wanted = len(sweep.spec.seeds)
    running = (trial for trial in sweep.trials if trial.state is TrialState.RUNNING)
    ready = (one for one in running if one.seeds[0].phase is SeedPhase.OVER and len(one.seeds) < wanted)
    return next(ready, None)


def _finished(sweep: Sweep) -> Sweep:
    """A sweep is over when nothing is left to do for it, telling the study included: of one that is over nobody asks
    what is outstanding."""
    if any(trial.state in OPEN or _is_active(trial) or _is_untold(trial) for trial in sweep.trials):
        return sweep
    if sweep.state is SweepState.STOPPING:
        return replace(sweep, state=SweepState.STOPPED, reason="`mosaic sweep resume` goes on with it")
    if sweep.state is not SweepState.RUNNING:
        return sweep
    states = [trial.state for trial in sweep.trials]
    useless = bool(states) and all(state is TrialState.FAILED for state in states)
    if useless and (len(states) >= min(HOPELESS, sweep.budget) or sweep.exhausted):
        reason = f"all {len(states)} trials failed; the last one: {sweep.trials[-1].reason}"
        return replace(sweep, state=SweepState.FAILED, reason=reason)
    if len(states) >= sweep.budget or sweep.exhausted:
        return replace(sweep, state=SweepState.COMPLETED, reason=sweep.exhausted)
    return sweep


def _is_untold(trial: Trial) -> bool:
    """Whether the study has to hear of it; one that the sweep's stop interrupted may go on."""
    return trial.state not in OPEN and not trial.told and trial.state is not TrialState.STOPPED


def _is_active(trial: Trial) -> bool:
    return any(seed.phase in ACTIVE for seed in trial.seeds)


def outstanding(sweep: Sweep) -> Iterator[Instruction]:
    """Everything that is to be done for a sweep as it stands."""
    for trial in sweep.trials:
        if _is_untold(trial):
            yield Tell(trial.number)
        for index, seed in enumerate(trial.seeds):
            yield from _for_seed(sweep, trial, index, seed)
    may_ask = sweep.state is SweepState.RUNNING and not sweep.exhausted and len(sweep.trials) < sweep.budget
    if may_ask and _free(sweep) > 0:
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
        elif _is_member_at_rung(sweep, trial):
            yield Cancel(seed.runs[-1], f"it waits at step {trial.last_rung:,} for the rest of its population")
        elif seed.held is not (sweep.state is SweepState.PAUSED):
            yield Hold(trial.number, index, held=not seed.held)
