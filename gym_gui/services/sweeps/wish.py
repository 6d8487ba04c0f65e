"""A sweep as somebody asks for it beside a run: how many trials, by what, judged how. Checked, nothing is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gym_gui.services.run_request import RunRequest, flag_words
from gym_gui.services.sweeps.model import POPULATION, SweepSpec, config_of_trial
from gym_gui.services.sweeps.space import Space, SpaceError, grid_points
from mosaic_protocol.settings_spelling import respelt

METRIC = "charts/episodic_return"


@dataclass(frozen=True)
class SweepWish:
    trials: int = 20
    parallel: int = 1
    seeds: int = 1
    metric: str = METRIC
    minimize: bool = False
    sampler: Literal["tpe", "random", "grid", "cmaes"] = "tpe"
    pruner: Literal["none", "median", "asha", "pbt"] = "none"
    interval: int = 0
    """pbt: steps from rung to rung; 0 for a tenth of the run."""
    quantile: float = 0.25
    perturb: float = 1.25
    resample: float = 0.25


class WishError(Exception):
    """``field`` of the wish is wrong; ``str()`` goes on after its name."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


def rungs_for(pruner: str, total: int, eta: int = 2, interval: int = 0) -> tuple[int, ...]:
    """A quarter of the run, and for asha each eta times the one before, for the median each quarter. The first is
    generous on purpose: what begins slowly is to be seen. A population has one every ``interval`` steps. Raises
    :class:`WishError`."""
    if pruner == "none":
        return ()
    if not total:
        raise WishError("pruner", f"{pruner} needs the total timesteps of a run")
    if total < 8:
        raise WishError("pruner", f"{pruner} has nothing to look at in {total} steps")
    if pruner == POPULATION:
        return _every(interval or total // 10, total)
    first = total // 4
    if pruner == "median":
        return first, 2 * first, 3 * first
    found = [first]
    while found[-1] * eta < total:
        found.append(found[-1] * eta)
    return tuple(found)


def _every(interval: int, total: int) -> tuple[int, ...]:
    """The rungs of a population, none of them so near the end that nothing follows it."""
    found = tuple(range(max(1, interval), total - interval // 2, max(1, interval)))
    if not found:
        raise WishError("interval", f"must be below the {total:,} steps of a run")
    return found


def _require_population(wish: SweepWish) -> None:
    """What else a population needs; raises :class:`WishError` at the field."""
    if wish.seeds > 1:
        raise WishError("seeds", "must be 1: each member of a population has a seed of its own")
    if wish.trials < 2:
        raise WishError("trials", "must be 2 or more: they are the members of the population")


def spec_of(config: Mapping[str, Any], space: Space, wish: SweepWish, total: int) -> SweepSpec:
    """What the daemon is asked for. ``total``: steps of a run, 0 where nobody knows. Raises :class:`WishError`."""
    trials = wish.trials
    if wish.sampler == "grid":
        try:
            trials = min(trials, grid_points(space.searched))
        except SpaceError as error:
            raise WishError("sampler", f"grid does not fit: {error}") from None
    if wish.pruner == POPULATION:
        _require_population(wish)
    settings = config["metadata"]["worker"]["config"]
    seed = int(settings.get("seed", 1))
    if total:
        settings["total_timesteps"] = total
    return SweepSpec(
        config=dict(config),
        space=space.searched,
        fixed=space.fixed,
        metric=wish.metric,
        trials=trials,
        direction="minimize" if wish.minimize else "maximize",
        parallel=wish.parallel,
        seeds=tuple(range(seed, seed + wish.seeds)),
        sampler=wish.sampler,
        sampler_seed=1,
        pruner=wish.pruner,
        rungs=rungs_for(wish.pruner, total, interval=wish.interval),
        quantile=wish.quantile,
        perturb=wish.perturb,
        resample=wish.resample,
    )


def outermost(spec: SweepSpec) -> list[tuple[str, dict[str, Any]]]:
    """("lowest" or "highest", the config of a run with that value of every setting): what a worker does not take shows
    in one of them."""
    found = []
    for end, word in ((0, "lowest"), (1, "highest")):
        params = {**spec.fixed, **{name: one.ends()[end] for name, one in spec.space.items()}}
        found.append((word, config_of_trial(spec, params, spec.seeds[0], name="sweep", group="sweep")))
    return found


def sweep_command(words: Sequence[str], request: RunRequest, wish: SweepWish, searched: Sequence[str]) -> str:
    """The ``mosaic sweep`` command that does the same, the space in a file ``sweep.toml``. ``words`` choose the
    script."""
    settings = respelt(request.settings)
    line = ["mosaic", "sweep", *words]
    for name in ("env_id", "dataset", "seed", "total_timesteps"):
        if name in settings:
            line += [f"--{name.replace('_', '-')}", str(settings[name])]
    line += ["--space", "sweep.toml", "--trials", str(wish.trials), "--parallel", str(wish.parallel)]
    usual = SweepWish()
    asked = wish if wish.pruner == POPULATION else usual
    for option, value, default in (
        ("--seeds", wish.seeds, usual.seeds),
        ("--metric", wish.metric, usual.metric),
        ("--sampler", wish.sampler, usual.sampler),
        ("--pruner", wish.pruner, usual.pruner),
        ("--interval", asked.interval, usual.interval),
        ("--quantile", asked.quantile, usual.quantile),
        ("--perturb", asked.perturb, usual.perturb),
        ("--resample", asked.resample, usual.resample),
        ("--cpus", request.cpus, 1),
        ("--gpus", request.gpus, 0),
        ("--memory-mb", request.memory_mb, 0),
        ("--host", request.host, ""),
    ):
        line += [option, str(value)] if value != default else []
    line += ["--minimize"] if wish.minimize else []
    line += [word for tag in request.tags for word in ("--tag", tag)]
    flags = {name: value for name, value in (settings.get("params") or {}).items() if name not in searched}
    return shlex.join([*line, *(["--", *flag_words(flags)] if flags else [])])
