"""The life of a sweep, decided purely: sweep + event → sweep + instructions. No I/O, no clock, no async, no Optuna.

What can happen is in :mod:`.events`, what is to be done in :mod:`.instructions`, which trials stop at a rung in
:mod:`.pruning`, and how a population takes its turns in :mod:`.population`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
from gym_gui.services.trainer.errors import WrongStateError
from gym_gui.services.trainer.sweeps import events as ev
from gym_gui.services.trainer.sweeps import instructions as todo
from gym_gui.services.trainer.sweeps import population, pruning
from mosaic_protocol.states import Outcome
from mosaic_protocol.suggest import did_you_mean


@dataclass(frozen=True)
class Decision:
    sweep: Sweep
    changed: tuple[int, ...] = ()
    """Numbers of the trials that are not as they were."""

    @property
    def instructions(self) -> tuple[todo.Instruction, ...]:
        return tuple(todo.outstanding(self.sweep))


# ---- deciding ----------------------------------------------------------------------------------------------------


def decide(sweep: Sweep, event: ev.Event) -> Decision:
    """Raises :class:`WrongStateError` for what a person asks of a sweep that cannot do it."""
    after = _finished(_filled(_after(sweep, event)))
    before = sweep.trials
    changed = tuple(
        trial.number for trial in after.trials if trial.number >= len(before) or trial is not before[trial.number]
    )
    return Decision(after, changed)


def _after(sweep: Sweep, event: ev.Event) -> Sweep:
    match event:
        case ev.Asked(params):
            number = len(sweep.trials)
            first = population.first_seed(sweep.spec, number)
            return replace(sweep, trials=(*sweep.trials, Trial(number, params, (first,))))
        case ev.NothingLeft(sentence):
            return replace(sweep, exhausted=sentence)
        case ev.RungReached():
            return _judged(sweep, event)
        case ev.RunEnded():
            return _run_ended(sweep, event)
        case ev.Told(number):
            return _with_trial(sweep, replace(sweep.trials[number], told=True))
        case ev.PauseAsked():
            return _paused(sweep)
        case ev.ResumeAsked(more):
            return _resumed(sweep, more)
        case ev.StopAsked():
            return _stopping(sweep)
    return _after_acting(sweep, event)


def _after_acting(
    sweep: Sweep,
    event: ev.Submitted
    | ev.Withdrawn
    | ev.SubmissionRefused
    | ev.HoldChanged
    | ev.Evaluated
    | ev.EvaluationFailed
    | ev.EvaluationHalted,
) -> Sweep:
    """What became of something that the sweep wanted for a seed."""
    number, index = event.number, event.index
    seed = sweep.trials[number].seeds[index]
    match event:
        case ev.Submitted():
            if seed.phase is not SeedPhase.WANTED:
                return sweep
            runs = (*seed.runs, event.run_id)
            return _with_seed(sweep, number, index, phase=SeedPhase.RUNNING, runs=runs, held=False)
        case ev.Withdrawn():
            return _settled(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number)
        case ev.SubmissionRefused():
            return _failed(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number, event.sentence)
        case ev.HoldChanged():
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
        sweep = replace(sweep, budget=sweep.budget + more, exhausted="", unimproved=0, forgiven=len(trials))
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


def _run_ended(sweep: Sweep, event: ev.RunEnded) -> Sweep:
    number, index = event.number, event.index
    seed = sweep.trials[number].seeds[index]
    if seed.phase is not SeedPhase.RUNNING:
        return sweep
    totals = {"steps": seed.steps + event.steps, "seconds": seed.seconds + event.seconds, "held": False}
    if event.outcome is Outcome.COMPLETED:
        trained = _with_seed(sweep, number, index, trained=True, **totals)
        if sweep.spec.evaluate:
            return _with_seed(_reprieved(trained, number), number, index, phase=SeedPhase.EVALUATING)
        return _measured(trained, number, index, event.value, event.logged)
    sweep = _with_seed(sweep, number, index, phase=SeedPhase.IDLE, **totals)
    trial = sweep.trials[number]
    if trial.state not in OPEN:
        return sweep
    if trial.state is TrialState.PRUNING and event.outcome is Outcome.CANCELED:
        return _ended(sweep, replace(trial, state=TrialState.PRUNED))
    if sweep.state is SweepState.STOPPING:
        if sweep.spec.evaluate and population.is_at_rung(sweep, trial):
            sweep = _with_seed(sweep, number, index, phase=SeedPhase.UNMEASURED)
        return _settled(sweep, number)
    if event.outcome in (Outcome.FAILED, Outcome.LOST):
        return _retried(sweep, event)
    if population.is_at_rung(sweep, trial) and event.outcome is Outcome.CANCELED:
        return _rested(sweep, number)
    what = "was canceled" if event.outcome is Outcome.CANCELED else "timed out"
    return _failed(sweep, number, f"its run {seed.runs[-1][-6:]} {what}: {event.sentence}")


def _measured(sweep: Sweep, number: int, index: int, value: float | None, logged: tuple[str, ...] = ()) -> Sweep:
    """A seed reached the end, and it is known what it is worth, or that its run logged these metrics and not the one
    that was wanted."""
    sweep = _with_seed(sweep, number, index, phase=SeedPhase.OVER, value=value)
    if value is not None:
        return _settled(_reprieved(sweep, number), number)
    run = sweep.trials[number].seeds[index].runs[-1][-6:]
    if sweep.spec.evaluate:
        return _failed(sweep, number, f"the evaluation of its run {run} gave no number")
    wanted = sweep.spec.metric
    hint = "" if wanted in logged else did_you_mean(wanted, logged)
    return _failed(sweep, number, f"its run {run} logged no number under {wanted!r}{hint}")


def _rested(sweep: Sweep, number: int) -> Sweep:
    """A member stands at its rung with a checkpoint. Where the sweep evaluates, that is what it is judged by."""
    phase = SeedPhase.EVALUATING if sweep.spec.evaluate else SeedPhase.IDLE
    return _with_seed(sweep, number, 0, phase=phase)


def _after_evaluating(sweep: Sweep, event: ev.Evaluated | ev.EvaluationFailed | ev.EvaluationHalted) -> Sweep:
    number, index = event.number, event.index
    trial = sweep.trials[number]
    seed = trial.seeds[index]
    match event:
        case ev.EvaluationHalted():
            return _settled(_with_seed(sweep, number, index, phase=SeedPhase.UNMEASURED), number)
        case ev.EvaluationFailed():
            sweep = _with_seed(sweep, number, index, failures=seed.failures + 1)
            if not event.final and seed.failures < sweep.spec.retries:
                return sweep
            return _failed(_with_seed(sweep, number, index, phase=SeedPhase.IDLE), number, event.sentence)
        case ev.Evaluated() if seed.trained:
            return _measured(sweep, number, index, event.value)
    rungs = (*trial.rungs[:-1], (trial.last_rung, event.value))
    return _with_seed(_with_trial(sweep, replace(trial, rungs=rungs)), number, index, phase=SeedPhase.IDLE)


def _reprieved(sweep: Sweep, number: int) -> Sweep:
    """A trial whose run reached its end before it could be stopped is not pruned: nothing was saved."""
    trial = sweep.trials[number]
    if trial.state is not TrialState.PRUNING:
        return sweep
    return _with_trial(sweep, replace(trial, state=TrialState.RUNNING, reason=""))


def _retried(sweep: Sweep, event: ev.RunEnded) -> Sweep:
    number, index = event.number, event.index
    trial, failures = sweep.trials[number], sweep.trials[number].seeds[index].failures + 1
    if failures > sweep.spec.retries:
        return _failed(_with_seed(sweep, number, index, failures=failures), number, event.sentence)
    if trial.state is TrialState.PRUNING:  # it crashed instead of stopping: its rung is judged already
        return _ended(sweep, replace(_with_failures(trial, index, failures), state=TrialState.PRUNED))
    if population.is_at_rung(sweep, trial):  # as above: what it was worth at its rung is known
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


def _judged(sweep: Sweep, event: ev.RungReached) -> Sweep:
    trial = sweep.trials[event.number]
    if trial.state is not TrialState.RUNNING or event.step <= trial.last_rung:
        return sweep
    if population.is_at_rung(sweep, trial):
        return sweep
    value = None if sweep.spec.evaluate else event.value  # what is evaluated is not judged by training
    trial = replace(trial, rungs=(*trial.rungs, (event.step, value)))
    sweep = _with_trial(sweep, trial)
    if event.value is None or sweep.spec.is_population:
        return sweep
    reason = pruning.why_stop(sweep, trial, event.step, event.value)
    return _with_trial(sweep, replace(trial, state=TrialState.PRUNING, reason=reason)) if reason else sweep


# ---- what comes next ---------------------------------------------------------------------------------------------


def _filled(sweep: Sweep) -> Sweep:
    """Give free slots to what is under way before anything new begins: members of a population, seeds of survivors,
    then promotions."""
    if sweep.state is not SweepState.RUNNING:
        return sweep
    if sweep.spec.is_population:
        sweep = population.turned(sweep)
    free = todo.free_slots(sweep)
    while free > 0:
        if sweep.spec.is_population:
            if (member := population.next_to_train(sweep)) is None:
                break
            sweep = _with_trial(sweep, population.wanted_again(member))
        elif (survivor := _survivor(sweep)) is not None:
            more = SeedRun(sweep.spec.seeds[len(survivor.seeds)])
            sweep = _with_trial(sweep, replace(survivor, seeds=(*survivor.seeds, more)))
        elif (trial := pruning.promotable(sweep)) is not None:
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
    if any(trial.state in OPEN or todo.is_active(trial) or todo.is_untold(trial) for trial in sweep.trials):
        return sweep
    if sweep.state is SweepState.STOPPING:
        return replace(sweep, state=SweepState.STOPPED, reason="`mosaic sweep resume` goes on with it")
    if sweep.state is not SweepState.RUNNING:
        return sweep
    states = [trial.state for trial in sweep.trials]
    useless = bool(states) and all(state is TrialState.FAILED for state in states)
    enough = min(todo.HOPELESS, sweep.budget - sweep.forgiven)
    if useless and (len(states) - sweep.forgiven >= enough or sweep.exhausted):
        reason = f"all {len(states)} trials failed; the last one: {sweep.trials[-1].reason}"
        return replace(sweep, state=SweepState.FAILED, reason=reason)
    if len(states) >= sweep.budget or sweep.exhausted:
        return replace(sweep, state=SweepState.COMPLETED, reason=sweep.exhausted)
    return sweep
