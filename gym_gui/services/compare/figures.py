"""The pictures of a comparison: curves, every run, the performance profile, and who beats whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_gui.services.charts.panels import DotPanel, LinePanel, Row, Series, Sheet
from gym_gui.services.charts.scales import Unit
from gym_gui.services.compare.comparison import Comparison
from gym_gui.services.compare.curves import Curves, Profiles, curves_of, profiles_of
from gym_gui.services.compare.measures import Axis, By
from gym_gui.services.compare.statistics import CONFIDENCE, Estimate
from gym_gui.services.run_words import counted

AXIS_TITLES = {
    Axis.STEP: "Environment steps",
    Axis.TIME: "Wall time since the run started",
    Axis.CPU: "CPU time of the training process",
}
_MEASURES = {By.TRAINING: "Return, mean of the last 100 episodes", By.EVALUATION: "Mean return evaluated"}
_PERCENT = round(100 * CONFIDENCE)


def measure(found: Comparison) -> str:
    """What the scores are, as an axis says it."""
    name = _MEASURES[found.by]
    return f"{name}, normalised" if found.is_normalised else name


def heading(found: Comparison) -> str:
    return f"{', '.join(group.label for group in found.groups)} on {', '.join(found.environments)}"


def curve_panel(found: Comparison, curves: Curves) -> LinePanel:
    series = [_curve_series(group.label, curves) for group in found.groups]
    name = {Axis.STEP: "steps", Axis.TIME: "wall time", Axis.CPU: "CPU time"}[curves.axis]
    return LinePanel(
        f"Training over {name}: IQM of the runs",
        series,
        AXIS_TITLES[curves.axis],
        measure(found),
        Unit.PLAIN if curves.axis is Axis.STEP else Unit.SECONDS,
        empty="no curve: the notes say why",
    )


def _curve_series(label: str, curves: Curves) -> Series:
    curve = curves.groups.get(label)
    if curve is None:
        return Series(label, np.array([]), np.array([]))
    return banded(label, curve.at, curve.iqm, faint=[(curve.at, one) for one in curve.each])


def banded(
    label: str,
    at: np.ndarray[tuple[int], np.dtype[np.float64]],
    points: Sequence[Estimate | None],
    *,
    faint: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    stepped: bool = False,
) -> Series:
    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        values = [None if point is None else getattr(point, name) for point in points]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    return Series(label, at, column("value"), column("low"), column("high"), faint, stepped=stepped)


def profile_panel(found: Comparison, profiles: Profiles) -> LinePanel:
    series = [
        banded(group.label, profiles.levels, profiles.groups[group.label], stepped=True) for group in found.groups
    ]
    return LinePanel(
        "Performance profile",
        series,
        f"Score τ: {measure(found)[0].lower()}{measure(found)[1:]}",
        "Part of the runs with a score above τ",
        y_range=(-0.02, 1.04),
        x_range=(float(profiles.levels[0]), float(profiles.levels[-1])),
    )


def score_panel(found: Comparison) -> DotPanel:
    rows = []
    for number, group in enumerate(found.groups):
        estimate = group.estimates["iqm"]
        scores, hints = [], []
        for name, members in group.counting.items():
            for one in members:
                reference = found.references.get(name)
                scores.append(float(reference.normalised(np.array(one.score))) if reference else one.score)
                hints.append(f"{one.run.name}: {one.score:.5g}")
        rows.append(Row(group.label, estimate.value, estimate.low, estimate.high, scores, hints, number))
    return DotPanel(f"Every run, and the IQM with its {_PERCENT} % interval", rows, measure(found))


def improvement_panel(found: Comparison) -> DotPanel:
    """Of each two groups the one that is ahead stands first."""
    places = {group.label: number for number, group in enumerate(found.groups)}
    rows = [
        Row(f"{one} > {other}", estimate.value, estimate.low, estimate.high, series=places[one])
        for (one, other), estimate in ahead(found)
    ]
    return DotPanel("Probability that a run of the first beats one of the second", rows, "P(X > Y)", (0.0, 1.0), 0.5)


def ahead(found: Comparison) -> list[tuple[tuple[str, str], Estimate]]:
    """Each two groups once, the one that wins more often first."""
    places = {group.label: number for number, group in enumerate(found.groups)}
    return [
        (pair, estimate)
        for pair, estimate in found.improvements.items()
        if estimate.value > 0.5 or (estimate.value == 0.5 and places[pair[0]] < places[pair[1]])
    ]


def sheet(found: Comparison) -> Sheet:
    """All of it on one page, as for a paper."""
    panels: list[LinePanel | DotPanel] = []
    curves = curves_of(found)
    if found.by is By.TRAINING:
        panels.append(curve_panel(found, curves))
    panels.append(profile_panel(found, profiles_of(found)))
    panels.append(score_panel(found))
    if len(found.groups) > 1:
        panels.append(improvement_panel(found))
    return Sheet(
        panels,
        [group.label for group in found.groups],
        heading(found),
        caption(found, curves.notes if found.by is By.TRAINING else ()),
        columns=2,
    )


def caption(found: Comparison, curve_notes: Sequence[str] = ()) -> list[str]:
    """What a reader must know to believe a picture."""
    runs = ", ".join(f"{group.label} {counted(len(group.runs), 'run')}" for group in found.groups)
    where = f" at step {found.at:,}" if found.at is not None else ""
    said = (
        f"{measure(found)}{where}. {runs}. IQM: mean of the middle half of the runs. "
        f"Bands and bars: {_PERCENT} % intervals of a stratified bootstrap, {found.samples:,} resamples; "
        "thin lines: single runs."
    )
    return [said, *(f"Note: {note}" for note in (*found.notes, *curve_notes))]
