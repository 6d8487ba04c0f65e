"""From selected runs to the curves of a plot: with distinct names, seeds together where wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gym_gui.services.run_words import short_id
from gym_gui.services.seed_groups import seed_group
from gym_gui.ui.plots.drawing import Curve
from gym_gui.ui.plots.run_metrics import RunMetrics


@dataclass(frozen=True)
class ShownRun:
    """A run as far as its curves are concerned. ``experiment`` is what a mean over its seeds is called."""

    run_id: str
    name: str
    experiment: str
    group: str
    colour: int
    metrics: RunMetrics


def shown_run(
    run_id: str, name: str, algo: str, env_id: str, config_json: str, colour: int, metrics: RunMetrics
) -> ShownRun:
    experiment = " · ".join(part for part in (algo, env_id) if part) or name
    return ShownRun(run_id, name, experiment, seed_group(run_id, config_json), colour, metrics)


def curves_of(runs: Sequence[ShownRun], *, together: bool) -> list[Curve]:
    """A curve for each run, or with seeds ``together`` for each experiment, in the order of the runs."""
    if not together:
        return [Curve(run.run_id, label, run.colour, (run.metrics,)) for run, label in _labelled(runs)]
    groups: dict[str, list[ShownRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    labels = {run.run_id: label for run, label in _labelled(runs)}
    return [_experiment(members, labels) for members in groups.values()]


def _experiment(members: Sequence[ShownRun], labels: dict[str, str]) -> Curve:
    first = members[0]
    if len(members) == 1:
        return Curve(first.run_id, labels[first.run_id], first.colour, (first.metrics,))
    label = f"{first.experiment} ({len(members)} seeds)"
    return Curve(f"{first.run_id}+", label, first.colour, tuple(run.metrics for run in members))


def _labelled(runs: Sequence[ShownRun]) -> list[tuple[ShownRun, str]]:
    names = Counter(run.name for run in runs)
    return [(run, run.name if names[run.name] == 1 else f"{run.name} ({short_id(run.run_id)})") for run in runs]
