"""Sweeps as the daemon would keep them, made by hand."""

from __future__ import annotations

import math
from typing import Any

from gym_gui.services.sweeps.model import SeedPhase, SeedRun, Sweep, SweepSpec, SweepState, Trial, TrialState
from gym_gui.services.sweeps.space import Dimension

SPACE = {
    "learning_rate": Dimension("float", 1e-4, 1e-2, log=True),
    "num_steps": Dimension("choice", choices=(32, 64, 128)),
    "update_epochs": Dimension("int", 1, 9),
}


def made_spec(**changed: Any) -> SweepSpec:
    settings = {"algo": "ppo", "env_id": "CartPole-v1", "seed": 1, "total_timesteps": 4000, "params": {"gamma": 0.9}}
    config = {"run_name": "sweep", "metadata": {"worker": {"type": "toy", "module": "toy", "config": settings}}}
    given: dict[str, Any] = {
        "config": config,
        "space": SPACE,
        "metric": "charts/episodic_return",
        "trials": 6,
        "pruner": "asha",
        "rungs": (1000, 2000),
        "seeds": (1, 2),
        "parallel": 2,
    }
    return SweepSpec(**{**given, **changed})


def made_trial(
    number: int,
    state: TrialState,
    value: float | None = None,
    rungs: tuple[tuple[int, float | None], ...] = (),
    steps: int = 4000,
    values: tuple[float, ...] = (),
    **changed: Any,
) -> Trial:
    """A trial whose settings follow from its number; ``values`` are those of its seeds."""
    params = {"learning_rate": 1e-4 * 10 ** (number % 5 / 2), "num_steps": (32, 64, 128)[number % 3]}
    seeds = values or (value,)
    runs = tuple(
        SeedRun(place, SeedPhase.OVER, (f"run-{number}-{place}",), value=one, steps=steps, seconds=10.0)
        for place, one in enumerate(seeds, start=1)
    )
    return Trial(number, {**params, "update_epochs": 1 + number % 9}, runs, state, rungs, value, **changed)


def made_sweep(*trials: Trial, **changed: Any) -> Sweep:
    spec = changed.pop("spec", None) or made_spec()
    given = {"budget": spec.trials, "state": SweepState.RUNNING, "created_at": 1.0, **changed}
    return Sweep("01SWEEP", "tuned", spec, trials=trials, **given)


def usual_sweep(**changed: Any) -> Sweep:
    """Two complete, two pruned, one promoted, one running."""
    state = TrialState
    return made_sweep(
        made_trial(0, state.COMPLETE, 100.0, ((1000, 40.0), (2000, 60.0)), values=(90.0, 110.0)),
        made_trial(1, state.PRUNED, rungs=((1000, 20.0),), steps=1000, reason="pruned at step 1,000"),
        made_trial(2, state.COMPLETE, 200.0, ((1000, 80.0), (2000, 150.0)), values=(190.0, 210.0)),
        made_trial(3, state.PRUNED, rungs=((1000, 30.0), (2000, 35.0)), steps=2000),
        made_trial(4, state.RUNNING, rungs=((1000, 70.0),), steps=0, promotions=1),
        made_trial(5, state.RUNNING, steps=0),
        **changed,
    )


def large_sweep(count: int) -> Sweep:
    """Complete and pruned trials whose value depends on the learning rate alone."""
    trials = []
    for number in range(count):
        place = number * 0.618 % 1
        params = {
            "learning_rate": 1e-4 * 100**place,
            "num_steps": (32, 64, 128)[number % 3],
            "update_epochs": 1 + number % 9,
        }
        value = 200 * math.exp(-((place - 0.7) ** 2) * 20)
        state = TrialState.PRUNED if number % 4 == 0 else TrialState.COMPLETE
        seed = SeedRun(1, SeedPhase.OVER, (f"run-{number}",), value=value, steps=4000, seconds=1.0)
        kept = value if state is TrialState.COMPLETE else None
        trials.append(Trial(number, params, (seed,), state, ((1000, value / 2),), kept))
    return made_sweep(*trials, spec=made_spec(trials=count), state=SweepState.COMPLETED)
