"""The best settings of a sweep beside the default ones, on seeds that the sweep never saw: what is submitted, and what
follows from the values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.sweeps.evaluation import evaluated
from gym_gui.services.sweeps.model import Sweep, Trial, config_of_trial
from gym_gui.services.worker_tools import ToolError, ToolHandle
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from gym_gui.services.compare.statistics import Array, Estimate
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

DEFAULT = "default"
FIRST_SEED = 100_001
"""Far from those that people give a sweep."""


@dataclass(frozen=True, eq=False)
class Contender:
    """Settings that are measured on fresh seeds; ``trial`` None for the default ones. Equal to itself alone."""

    label: str
    trial: Trial | None

    @property
    def params(self) -> Mapping[str, Any]:
        return self.trial.params if self.trial is not None else {}


@dataclass(frozen=True)
class Measured:
    contender: Contender
    values: tuple[float, ...]
    left_out: tuple[str, ...]
    estimate: Estimate | None
    beats_default: Estimate | None


def contenders(sweep: Sweep, best: int) -> list[Contender]:
    """The best trials, best first, and the settings that a run has when the sweep changes none: the script's own and
    those of the command line, without the fixed ones of the space file."""
    chosen = [Contender(f"trial {trial.number}", trial) for trial in sweep.ranked()[:best]]
    return [*chosen, Contender(DEFAULT, None)]


def submitted(client: TrainerClient, sweep: Sweep, who: Contender, seeds: Sequence[int]) -> list[str]:
    """The runs of a contender, begun where they were not; asked for again they are the same runs."""
    return [
        client.submit(_config(sweep, who, seed), _request_id(sweep, who, seed), name_is_default=True).run.run_id
        for seed in seeds
    ]


def _word(who: Contender) -> str:
    return f"t{who.trial.number}" if who.trial is not None else DEFAULT


def _request_id(sweep: Sweep, who: Contender, seed: int) -> str:
    return f"best-{sweep.sweep_id}-{_word(who)}-{seed}"


def _config(sweep: Sweep, who: Contender, seed: int) -> dict[str, Any]:
    name, group = f"{sweep.name}-{_word(who)}-s{seed}", f"{sweep.name}-{_word(who)}-fresh"
    params = {} if who.trial is None else {**sweep.spec.fixed, **who.trial.params}
    return config_of_trial(sweep.spec, params, seed, name=name, group=group)


def measured(
    client: TrainerClient,
    sweep: Sweep,
    runs: Mapping[Contender, Sequence[pb.Run]],
    paths: MosaicPaths | None = None,
) -> list[Measured]:
    """Each contender with the value of every run, and with intervals; runs that did not complete are left out, and it
    is said why. Where the sweep is judged by evaluations, those that are missing are made here, one after the other."""
    import numpy as np

    from gym_gui.services.compare import statistics as st

    paths = paths or MosaicPaths.from_environment()
    aggregate = st.iqm if sweep.spec.objective == "iqm" else st.mean
    values: dict[Contender, list[float]] = {}
    left_out: dict[Contender, list[str]] = {}
    for who, members in runs.items():
        values[who], left_out[who] = [], []
        for run in members:
            value, why_not = _valued(client, paths, sweep, run)
            if value is None:
                left_out[who].append(f"{run.name}: {why_not}")
            else:
                values[who].append(value)
    default = next((np.array(found) for who, found in values.items() if who.trial is None and found), None)
    return [
        Measured(
            who,
            tuple(found),
            tuple(left_out[who]),
            st.estimate(aggregate, [np.array(found)]) if found else None,
            _beats(sweep, np.array(found), default) if who.trial is not None and found else None,
        )
        for who, found in values.items()
    ]


def _beats(sweep: Sweep, mine: Array, default: Array | None) -> Estimate | None:
    from gym_gui.services.compare import statistics as st

    if default is None:
        return None
    sign = sweep.spec.sign()
    return st.improvement_estimate([sign * mine], [sign * default])


def _valued(client: TrainerClient, paths: MosaicPaths, sweep: Sweep, run: pb.Run) -> tuple[float | None, str]:
    """As the sweep measures it, and why there is no number where there is none."""
    if run.outcome != Outcome.COMPLETED:
        return None, f"{run.outcome or 'not over'} {run.reason}".strip()
    if not sweep.spec.evaluate:
        return _of_training(client, sweep, run), "its metric has no number"
    try:
        return evaluated(paths, sweep.spec, [run.run_id], ToolHandle()), "its evaluation gave no number"
    except (CheckpointsError, ToolError, OSError) as error:
        return None, str(error)


def _of_training(client: TrainerClient, sweep: Sweep, run: pb.Run) -> float | None:
    """The mean of the last points of its metric."""
    for series in client.metrics(run.run_id, [sweep.spec.metric], max_points=sweep.spec.last):
        if series.values:
            mean = sum(series.values) / len(series.values)
            return mean if math.isfinite(mean) else None
    return None
