"""Why a sweep cannot be, in a sentence: said by a client before it asks, and by the daemon when it is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gym_gui.services.sweeps.model import SweepSpec
from gym_gui.services.sweeps.space import MOST_DIMENSIONS, SpaceError, grid_points
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest

MOST_TRIALS = 100_000
MOST_SEEDS = 1000
MOST_RUNGS = 1000
MOST_EPISODES = 1_000_000


def why_refused(spec: SweepSpec) -> str:
    """What of a spec is impossible for any worker; "" for nothing."""
    wrong = _wrong_space(spec) or _wrong_number(spec) or _wrong_rungs(spec)
    return wrong or _wrong_population(spec) or _wrong_evaluation(spec)


def why_unable(spec: SweepSpec, worker: WorkerManifest) -> str:
    """What a worker lacks for a sweep, "" for nothing."""
    able = worker.capabilities
    if spec.pruner in ("asha", "pbt") and not able.resume:
        return f"{spec.pruner} goes on from checkpoints, and this worker cannot: take the pruner median or none"
    if spec.evaluate and not (able.offline_inference and worker.policies.evaluate):
        return f"the worker {worker.type!r} cannot evaluate checkpoints: judge its runs by a metric of training"
    return why_unchangeable(spec, worker) if spec.is_population else ""


def why_unchangeable(spec: SweepSpec, worker: WorkerManifest) -> str:
    """Which setting of a space cannot be changed while a run goes on, "" for none. A checkpoint holds networks, buffers
    and environments of a certain size; and a script that MOSAIC does not know may take its settings from there."""
    settings = spec.config["metadata"]["worker"]["config"]
    algo = str(settings.get("algo") or "")
    known = worker.algorithms.get(algo)
    if known is None or any(choice.is_foreign for choice in worker.chosen(settings).values()):
        return "pbt changes settings while a run goes on, and of this script nobody knows which of them it can change"
    for name in spec.space:
        if name not in known.changeable_params:
            why = f"a run of {algo} that goes on must leave it as it was"
            return f"pbt cannot search {name[:60]}: {why}{did_you_mean(name, known.changeable_params)}"
    return ""


def _wrong_space(spec: SweepSpec) -> str:
    if not spec.space or len(spec.space) > MOST_DIMENSIONS:
        return f"a sweep searches 1 to {MOST_DIMENSIONS} settings"
    for name, dimension in spec.space.items():
        if not dimension.is_sound:
            return f"{name[:60]} has no values to search, or a range that cannot be"
    if spec.sampler == "grid":
        try:
            grid_points(spec.space)
        except SpaceError as error:
            return str(error)
    return ""


def _wrong_number(spec: SweepSpec) -> str:
    limits: Mapping[str, tuple[int, int, int]] = {
        "trials": (spec.trials, 1, MOST_TRIALS),
        "parallel": (spec.parallel, 1, 1000),
        "seeds": (len(spec.seeds), 1, MOST_SEEDS),
        "rungs": (len(spec.rungs), 0, MOST_RUNGS),
        "last": (spec.last, 1, 1_000_000),
        "retries": (spec.retries, 0, 100),
        "patience": (spec.patience, 0, MOST_TRIALS),
        "eta": (spec.eta, 2, 100),
    }
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            return f"{name} must be between {least} and {most:,}, got {value:,}"
    return "a seed is named twice" if len(set(spec.seeds)) < len(spec.seeds) else ""


def _wrong_rungs(spec: SweepSpec) -> str:
    if list(spec.rungs) != sorted(set(spec.rungs)) or any(step < 1 for step in spec.rungs):
        return "rungs are steps in ascending order, from 1 on"
    if spec.pruner != "none" and not spec.rungs:
        return f"the pruner {spec.pruner} needs rungs"
    return ""


def _wrong_population(spec: SweepSpec) -> str:
    if not spec.is_population:
        return ""
    if len(spec.seeds) > 1:
        return "pbt gives each member of its population a seed of its own: seeds must be 1"
    if spec.trials < 2:
        return "a population has at least 2 members: trials must be 2 or more"
    limits = {"quantile": (spec.quantile, 0.01, 0.5), "resample": (spec.resample, 0.0, 1.0)}
    for name, (value, least, most) in limits.items():
        if not (math.isfinite(value) and least <= value <= most):
            return f"{name} must be between {least:g} and {most:g}, got {value:g}"
    if not (math.isfinite(spec.perturb) and 1 < spec.perturb <= 100):
        return f"perturb must be above 1 and at most 100, got {spec.perturb:g}"
    return ""


def _wrong_evaluation(spec: SweepSpec) -> str:
    if not 0 <= spec.evaluate <= MOST_EPISODES:
        return f"evaluate must be between 0 and {MOST_EPISODES:,} episodes, got {spec.evaluate:,}"
    if spec.evaluate and spec.pruner in ("median", "asha"):
        return (
            f"{spec.pruner} judges running trials by the returns of training, and this sweep is judged by evaluations: "
            "the two are not mixed. Take the pruner none, or pbt, which evaluates at its rungs"
        )
    return ""
