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
    OVER = "over"


ACTIVE = frozenset({SeedPhase.WANTED, SeedPhase.RUNNING})
OVER = frozenset({SweepState.STOPPED, SweepState.COMPLETED, SweepState.FAILED})
OPEN = frozenset({TrialState.RUNNING, TrialState.PRUNING})
SAMPLERS = ("tpe", "random", "grid", "cmaes")
PRUNERS = ("none", "median", "asha")
OBJECTIVES = ("iqm", "mean")


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
    pruner: Literal["none", "median", "asha"] = "none"
    rungs: tuple[int, ...] = ()
    """Steps at which a trial is judged, ascending, all before the last step."""
    eta: int = 2
    """ASHA lets the best 1/eta of a rung go on."""
    objective: Literal["iqm", "mean"] = "iqm"
    last: int = 100
    retries: int = 2
    patience: int = 0
    """End after so many trials in a row without a better one; 0: never."""

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


def config_of_trial(
    spec: SweepSpec, params: Mapping[str, Value], seed: int, *, name: str, group: str
) -> dict[str, Any]:
    """The run config with these settings and this seed."""
    config: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec.config))
    metadata = config["metadata"]
    settings = metadata["worker"]["config"]
    settings["params"] = {**(settings.get("params") or {}), **params}
    settings["seed"] = seed
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
