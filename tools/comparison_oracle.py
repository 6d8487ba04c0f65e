"""Numbers of rliable for the tests of ``gym_gui.services.compare``.

Run it where that package is installed, in an environment of its own, since it needs an old pandas:
``python -m venv DIR; DIR/bin/pip install rliable 'pandas<3'; DIR/bin/python tools/comparison_oracle.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

TARGET = Path(__file__).parents[1] / "gym_gui/tests/services/comparison_oracle.json"
REPEATS = 3_000


def scores(seed: int, runs: int, tasks: int) -> Any:
    """The scores of one group, an environment in each column."""
    chance = np.random.default_rng(seed)
    return np.round(chance.normal(0.4 + 0.1 * seed, 0.3, (runs, tasks)) + 0.2 * chance.random(tasks), 6)


def curves(seed: int, runs: int, tasks: int, points: int) -> Any:
    """The scores of one group as it trains: runs, environments, points."""
    chance = np.random.default_rng(seed)
    rise = np.linspace(0.0, 1.0, points)
    return np.round(rise * chance.normal(0.8, 0.2, (runs, tasks, 1)) + chance.normal(0, 0.1, (runs, tasks, points)), 6)


def along(library: Any, metrics: Any, seed: int, runs: int, tasks: int) -> dict[str, Any]:
    """What rliable draws: a sample-efficiency curve, and a performance profile of the scores at its end."""
    group = curves(seed, runs, tasks, 6)
    iqm, band = library.get_interval_estimates(
        {"one": group},
        lambda x: np.array([metrics.aggregate_iqm(x[..., place]) for place in range(x.shape[-1])]),
        reps=REPEATS,
    )
    levels = np.linspace(-0.2, 1.6, 10)
    profile, around = library.create_performance_profile({"one": group[..., -1]}, levels, reps=REPEATS)
    return {
        "curves": group.transpose(1, 2, 0).tolist(),
        "iqm": iqm["one"].tolist(),
        "iqm_intervals": band["one"].T.tolist(),
        "levels": levels.tolist(),
        "profile": profile["one"].tolist(),
        "profile_intervals": around["one"].T.tolist(),
    }


def main() -> int:
    from rliable import library, metrics

    np.random.seed(7)
    cases = []
    for seed, runs, tasks in ((1, 5, 4), (2, 10, 3), (3, 16, 6)):
        one, other = scores(seed, runs, tasks), scores(seed + 10, runs, tasks)

        def aggregates(x: Any) -> Any:
            gap = metrics.aggregate_optimality_gap(x, gamma=1.0)
            found = (metrics.aggregate_iqm(x), metrics.aggregate_mean(x), metrics.aggregate_median(x), gap)
            return np.array(found)

        points, intervals = library.get_interval_estimates({"one": one}, aggregates, reps=REPEATS)
        better, around = library.get_interval_estimates(
            {"one": (one, other)}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=REPEATS
        )
        cases.append(
            {
                "one": one.T.tolist(),
                "other": other.T.tolist(),
                "aggregates": dict(zip(("iqm", "mean", "median", "gap"), points["one"].tolist(), strict=True)),
                "intervals": dict(zip(("iqm", "mean", "median", "gap"), intervals["one"].T.tolist(), strict=True)),
                "improvement": float(better["one"][0]),
                "improvement_interval": around["one"][:, 0].tolist(),
            }
        )
    for case, (seed, runs, tasks) in zip(cases, ((4, 5, 1), (5, 10, 2), (6, 16, 3)), strict=True):
        case["along"] = along(library, metrics, seed, runs, tasks)
    TARGET.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases written to {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
