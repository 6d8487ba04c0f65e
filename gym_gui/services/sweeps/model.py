"""A sweep and its trials as the registry keeps them and the wire carries them. Immutable: decisions make new ones.

Structs of msgspec, because ten thousand trials are to be listed at once, and they are read faster than dataclasses.
Trials hold no cycles, so the garbage collector need not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from gym_gui.services.sweeps.space import Dimension, Value

WORST = 1.7976931348623157e308
"""What stands for a metric that is not a number, on the bad side of every other: JSON has no infinity."""


class SweepState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    """Its runs are being ended."""
    STOPPED = "stopped"
    COMPLETED = "completed"
    FAILED = "failed"


class TrialState(StrEnum):
    RUNNING = "running"
    PRUNING = "pruning"
    """It was judged; its run is being stopped with a checkpoint."""
    PRUNED = "pruned"
    STOPPED = "stopped"
    """The sweep was stopped before the trial ended."""
    COMPLETE = "complete"
    FAILED = "failed"


class SeedPhase(StrEnum):
    WANTED = "wanted"
    """A run is to be submitted: the first, or one that goes on from the last."""
    RUNNING = "running"
    """Its last run is not over."""
    IDLE = "idle"
    """Its last run was stopped, with a checkpoint; it may go on."""
    EVALUATING = "evaluating"
    """Its last run is over, and episodes are played with its checkpoint."""
    UNMEASURED = "unmeasured"
    """Its evaluation was interrupted by the sweep's stop, and is made again when the sweep goes on."""
    OVER = "over"


ACTIVE = frozenset({SeedPhase.WANTED, SeedPhase.RUNNING, SeedPhase.EVALUATING})
OVER = frozenset({SweepState.STOPPED, SweepState.COMPLETED, SweepState.FAILED})
OPEN = frozenset({TrialState.RUNNING, TrialState.PRUNING})
SAMPLERS = ("tpe", "random", "grid", "cmaes")
PRUNERS = ("none", "median", "asha", "pbt")
POPULATION = "pbt"
"""Not a pruner in the strict sense: poor members of a population go on from the checkpoints of good ones."""
MEDIAN_NEEDS = 4
"""Other trials at a rung before their median says anything."""
OBJECTIVES = ("iqm", "mean")
MODES = ("deterministic", "sampled")


class SweepSpec(msgspec.Struct, frozen=True):
    """What was asked for. ``config`` is the run config that every trial changes; the first of ``seeds`` is judged at
    the rungs, the others are added to trials that reached the end."""

    config: dict[str, Any]
    space: dict[str, Dimension]
    metric: str
    trials: int
    fixed: dict[str, Value] = {}
    """Settings that every trial has, and that the default settings do not have."""
    direction: Literal["maximize", "minimize"] = "maximize"
    parallel: int = 1
    seeds: tuple[int, ...] = (1,)
    sampler: Literal["tpe", "random", "grid", "cmaes"] = "tpe"
    sampler_seed: int = 0
    pruner: Literal["none", "median", "asha", "pbt"] = "none"
    rungs: tuple[int, ...] = ()
    """Steps at which a trial is judged, ascending, all before the last step."""
    eta: int = 2
    """ASHA lets the best 1/eta of a rung go on."""
    objective: Literal["iqm", "mean"] = "iqm"
    last: int = 100
    retries: int = 2
    patience: int = 0
    """End after so many trials in a row without a better one; 0: never."""
    evaluate: int = 0
    """The value of a run is that of so many episodes played with its last checkpoint; 0: of the metric of training."""
    evaluate_mode: Literal["deterministic", "sampled"] = "deterministic"
    evaluate_seed: int = 7
    quantile: float = 0.25
    """pbt: the part of a population that is replaced by copies of as many of the best."""
    perturb: float = 1.25
    """pbt: a copy's numbers are multiplied or divided by this."""
    resample: float = 0.25
    """pbt: how probably a setting of a copy is drawn from its whole range instead."""

    @property
    def is_population(self) -> bool:
        return self.pruner == POPULATION

    @property
    def total_steps(self) -> int:
        """How long a run is; 0 where the config leaves it to the script."""
        return int(_settings(self.config).get("total_timesteps") or 0)

    def sign(self) -> float:
        return 1.0 if self.direction == "maximize" else -1.0


class SeedRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What one seed of a trial went through. ``runs``: ids, oldest first; each goes on from the one before, unless that
    left no checkpoint."""

    seed: int
    phase: SeedPhase = SeedPhase.WANTED
    runs: tuple[str, ...] = ()
    failures: int = 0
    value: float | None = None
    held: bool = False
    """Paused because the sweep is."""
    steps: int = 0
    """Trained by all its runs together; what was trained twice counts twice."""
    seconds: float = 0.0
    trained: bool = False
    """Its training reached the end; what is missing, if anything, is the evaluation."""


class Turn(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of a member of a population at a rung: it went on by itself, or as a copy of a better one."""

    step: int
    source: int
    """The trial whose checkpoint it goes on from: itself, or the better one."""
    before: dict[str, Value]
    """The settings that it had until here."""
    own_runs: int = 0
    """How many runs of its own it had by then; later ones belong to the time after this."""
    source_runs: int = 0
    """How many runs the source had by then: the last of them has the checkpoint."""


class Trial(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    number: int
    params: dict[str, Value]
    seeds: tuple[SeedRun, ...]
    state: TrialState = TrialState.RUNNING
    rungs: tuple[tuple[int, float | None], ...] = ()
    """(step, value) of every rung it was looked at; None where it had no number yet."""
    value: float | None = None
    reason: str = ""
    promotions: int = 0
    told: bool = False
    """Whether the study has heard how it ended."""
    turns: tuple[Turn, ...] = ()
    """Of a member of a population: one for each rung that the whole population has passed."""

    @property
    def first_params(self) -> dict[str, Value]:
        """The settings that it began with; ``params`` are those that it has now."""
        return self.turns[0].before if self.turns else self.params

    @property
    def copies(self) -> int:
        """How often it was replaced by a copy of a better one."""
        return sum(turn.source != self.number for turn in self.turns)

    @property
    def waits_for_turn(self) -> bool:
        """Whether it passed a rung that the whole population is yet to be judged at."""
        return len(self.rungs) > len(self.turns)

    def at_rung(self, step: int) -> float | None:
        return next((value for at, value in self.rungs if at == step), None)

    @property
    def last_rung(self) -> int:
        return self.rungs[-1][0] if self.rungs else 0


class Sweep(msgspec.Struct, frozen=True):
    sweep_id: str
    name: str
    spec: SweepSpec
    created_at: float = 0.0
    ended_at: float = 0.0
    state: SweepState = SweepState.RUNNING
    reason: str = ""
    budget: int = 0
    """How many trials there may be; more than the spec's after ``--budget``."""
    exhausted: str = ""
    """Why no more trials are asked for, before the budget is used up."""
    unimproved: int = 0
    """Trials that ended since the last one that was better than all before."""
    forgiven: int = 0
    """How many trials there were when more were asked for: what failed before says nothing about those to come."""
    trials: tuple[Trial, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def best(self) -> Trial | None:
        """The complete trial with the best value; of equals the first."""
        done = [trial for trial in self.trials if trial.state is TrialState.COMPLETE and trial.value is not None]
        sign = self.spec.sign()
        return max(done, key=lambda one: (sign * (one.value or 0.0), -one.number), default=None)

    def ranked(self) -> list[Trial]:
        """Complete trials, best first."""
        done = [trial for trial in self.trials if trial.state is TrialState.COMPLETE and trial.value is not None]
        sign = self.spec.sign()
        return sorted(done, key=lambda one: (-sign * (one.value or 0.0), one.number))


def turns_told(trial: Trial) -> list[dict[str, Any]]:
    """The turns of a member of a population for people and programs: each with the settings from there on."""
    settings = [*(turn.before for turn in trial.turns), trial.params]
    return [
        {"step": turn.step, "source": turn.source, "params": params}
        for turn, params in zip(trial.turns, settings[1:], strict=True)
    ]


def lineage(sweep: Sweep, number: int, index: int = 0) -> tuple[str, ...]:
    """The runs that made what a seed of a trial knows, oldest first. Of a copy in a population these are the runs of
    the better one up to the copy, and its own from there on: as one curve, no step counts twice."""
    trial, chain = sweep.trials[number], tuple[str, ...]()
    runs = trial.seeds[index].runs
    while copy := _last_copy(trial, len(runs)):  # one whose first run is yet to be submitted counts
        chain = (*runs[copy.own_runs :], *chain)
        trial = sweep.trials[copy.source]
        runs = trial.seeds[index].runs[: copy.source_runs]
    return (*runs, *chain)


def _last_copy(trial: Trial, most_runs: int) -> Turn | None:
    """The newest turn that made a copy of it, among those before which it had so many runs at most."""
    copies = (turn for turn in reversed(trial.turns) if turn.source != trial.number and turn.own_runs <= most_runs)
    return next(copies, None)


def config_of_trial(
    spec: SweepSpec, params: Mapping[str, Value], seed: int, *, name: str, group: str
) -> dict[str, Any]:
    """The run config with these settings and this seed."""
    config: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec.config))
    metadata = config["metadata"]
    settings = metadata["worker"]["config"]
    settings["params"] = {**(settings.get("params") or {}), **params}
    settings["seed"] = seed
    if params:  # what the sweep began from may be a preset; a trial has other settings
        metadata.pop("preset", None)
    metadata["group"] = group
    config["run_name"] = name
    return config


def _settings(config: Mapping[str, Any]) -> Mapping[str, Any]:
    found = config.get("metadata", {}).get("worker", {}).get("config", {})
    return found if isinstance(found, Mapping) else {}


_encode = msgspec.json.Encoder().encode
_sweep_decoder = msgspec.json.Decoder(Sweep)
_trial_decoder = msgspec.json.Decoder(Trial)
_trials_decoder = msgspec.json.Decoder(tuple[Trial, ...])
_spec_decoder = msgspec.json.Decoder(SweepSpec)


def encode_sweep(sweep: Sweep) -> bytes:
    """Without its trials, which have rows of their own."""
    return _encode(replace(sweep, trials=()))


def decode_sweep(document: bytes | str) -> Sweep:
    return _sweep_decoder.decode(document)


def encode_trial(trial: Trial) -> bytes:
    return _encode(trial)


def decode_trial(document: bytes | str) -> Trial:
    return _trial_decoder.decode(document)


def decode_trials(array: bytes | str) -> tuple[Trial, ...]:
    """Of a JSON array of trials."""
    return _trials_decoder.decode(array)


def encode_spec(spec: SweepSpec) -> bytes:
    return _encode(spec)


def decode_spec(document: bytes | str) -> SweepSpec:
    """Raises msgspec.ValidationError or msgspec.DecodeError."""
    return _spec_decoder.decode(document)
