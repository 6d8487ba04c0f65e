"""A sweep as the screens draw it: everything that takes time is worked out once for each change, beside the GUI."""

from __future__ import annotations

from dataclasses import dataclass

from gym_gui.services.sweeps.axes import Axis, Places, axes_of, places_of
from gym_gui.services.sweeps.importance import Importance, importance_of
from gym_gui.services.sweeps.insight import Budget, History, budget_of, by_worth, history
from gym_gui.services.sweeps.model import OPEN, Sweep, Trial
from gym_gui.services.trainer.client import TrainerClient


@dataclass(frozen=True, eq=False)
class SweepPicture:
    """``trials`` by worth, best first; ``places`` has a row for each of them and a column for each axis."""

    sweep: Sweep
    trials: tuple[Trial, ...]
    axes: tuple[Axis, ...]
    places: Places
    history: History
    importance: tuple[Importance, ...]
    rows: dict[int, int]
    """The row of each trial, by its number."""
    best: Trial | None
    open_trials: tuple[Trial, ...]
    budget: Budget
    """Without the steps of runs that go on."""

    def trial(self, number: int) -> Trial | None:
        trials = self.sweep.trials
        return trials[number] if 0 <= number < len(trials) else None


def picture_of(sweep: Sweep) -> SweepPicture:
    trials, axes = tuple(by_worth(sweep)), tuple(axes_of(sweep))
    rows = {trial.number: row for row, trial in enumerate(trials)}
    important = tuple(importance_of(sweep))
    return SweepPicture(
        sweep,
        trials,
        axes,
        places_of(axes, trials),
        history(sweep),
        important,
        rows,
        sweep.best(),
        tuple(trial for trial in sweep.trials if trial.state in OPEN),
        budget_of(sweep),
    )


def read_picture(client: TrainerClient, reference: str, before: SweepPicture | None) -> SweepPicture | None:
    """The sweep as it is now; None where it is as it was. Blocking; for a thread."""
    sweep = client.sweep(reference)
    return None if before is not None and sweep == before.sweep else picture_of(sweep)
