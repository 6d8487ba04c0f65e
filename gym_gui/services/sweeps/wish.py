"""A sweep as somebody asks for it beside a run: how many trials, by what, judged how. Checked, nothing is started."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gym_gui.services.run_request import RunRequest, flag_words
from gym_gui.services.sweeps.model import SweepSpec, config_of_trial
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
    pruner: Literal["none", "median", "asha"] = "none"


class WishError(Exception):
    """``field`` of the wish is wrong; ``str()`` goes on after its name."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


def rungs_for(pruner: str, total: int, eta: int = 2) -> tuple[int, ...]:
    """A quarter of the run, and for asha each eta times the one before, for the median each quarter. The first is
    generous on purpose: what begins slowly is to be seen. Raises :class:`WishError`."""
    if pruner == "none":
        return ()
    if not total:
        raise WishError("pruner", f"{pruner} needs the total timesteps of a run")
    if total < 8:
        raise WishError("pruner", f"{pruner} has nothing to look at in {total} steps")
    first = total // 4
    if pruner == "median":
        return first, 2 * first, 3 * first
    found = [first]
    while found[-1] * eta < total:
        found.append(found[-1] * eta)
    return tuple(found)


def spec_of(config: Mapping[str, Any], space: Space, wish: SweepWish, total: int) -> SweepSpec:
    """What the daemon is asked for. ``total``: steps of a run, 0 where nobody knows. Raises :class:`WishError`."""
    trials = wish.trials
    if wish.sampler == "grid":
        try:
            trials = min(trials, grid_points(space.searched))
        except SpaceError as error:
            raise WishError("sampler", f"grid does not fit: {error}") from None
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
        rungs=rungs_for(wish.pruner, total),
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
    for option, value, default in (
        ("--seeds", wish.seeds, usual.seeds),
        ("--metric", wish.metric, usual.metric),
        ("--sampler", wish.sampler, usual.sampler),
        ("--pruner", wish.pruner, usual.pruner),
        ("--cpus", request.cpus, 1),
        ("--gpus", request.gpus, 0),
        ("--memory-mb", request.memory_mb, 0),
    ):
        line += [option, str(value)] if value != default else []
    line += ["--minimize"] if wish.minimize else []
    line += [word for tag in request.tags for word in ("--tag", tag)]
    flags = {name: value for name, value in (settings.get("params") or {}).items() if name not in searched}
    return shlex.join([*line, *(["--", *flag_words(flags)] if flags else [])])
