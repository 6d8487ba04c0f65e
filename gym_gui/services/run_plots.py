"""Metrics of runs as a picture: one panel for each tag, a line for each run or for each group of runs.

A line that is smoothed says so, and the points as they were recorded stand behind it. A group is the IQM of its runs
with a band, on the grid of :mod:`gym_gui.services.compare.curves`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gym_gui.services.charts.drawing import Array
from gym_gui.services.charts.panels import LinePanel, Series, Sheet
from gym_gui.services.charts.scales import Unit
from gym_gui.services.compare.comparison import Compared, Comparison
from gym_gui.services.compare.curves import curves_of
from gym_gui.services.compare.figures import AXIS_TITLES, banded
from gym_gui.services.compare.groups import CompareError, Group
from gym_gui.services.compare.measures import Axis, By, Curve, Measured, moving_means, points_of, why_left_out
from gym_gui.services.compare.statistics import SAMPLES
from gym_gui.services.run_words import called, counted
from mosaic_protocol.headline import LENGTH_TAG, RECENT_EPISODES, RETURN_TAG
from mosaic_protocol.suggest import did_you_mean

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

MOST_LINES = 40
"""More cannot be told apart."""


@dataclass(frozen=True)
class Subject:
    """One line: a run, or a group of them under a name."""

    label: str
    runs: Sequence[pb.Run]
    is_group: bool = False

    @classmethod
    def of(cls, group: Group) -> Subject:
        return cls(group.label, group.runs, is_group=True)


@dataclass(frozen=True)
class PlotQuestion:
    tags: Sequence[str] = (RETURN_TAG,)
    axis: Axis = Axis.STEP
    smooth: int | None = None
    """Over so many points; None: 100 for returns and lengths of episodes, which scatter, else none."""
    unfinished: bool = False
    samples: int = SAMPLES
    title: str = ""


@dataclass
class _Made:
    panels: list[LinePanel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plotted(client: TrainerClient, subjects: Sequence[Subject], question: PlotQuestion) -> tuple[Sheet, list[str]]:
    """The picture, and sentences about what is not in it. Raises CompareError for what cannot be drawn."""
    if len(subjects) > MOST_LINES:
        advice = 'EXPR as "NAME" draws many runs as one line'
        raise CompareError(f"at most {MOST_LINES} lines can be told apart, these are {len(subjects)}: {advice}")
    _require_one_environment(subjects)
    made = _Made()
    for tag in question.tags:
        _add_panel(client, subjects, tag, question, made)
    labels = [subject.label for subject in subjects]
    notes = list(dict.fromkeys(made.notes))
    explained = [*_explained(subjects, question), *(f"Note: {note}" for note in notes)]
    sheet = Sheet(made.panels, labels, question.title or _title(subjects), explained)
    sheet.columns = 1 if len(made.panels) == 1 else 2
    sheet.panel_width, sheet.panel_height = (760.0, 420.0) if sheet.columns == 1 else (520.0, 320.0)
    return sheet, notes


def window(tag: str, question: PlotQuestion) -> int:
    if question.smooth is not None:
        return question.smooth
    return RECENT_EPISODES if tag in (RETURN_TAG, LENGTH_TAG) else 1


def _add_panel(
    client: TrainerClient, subjects: Sequence[Subject], tag: str, question: PlotQuestion, made: _Made
) -> None:
    points = {run.run_id: points_of(client, run, tag) for subject in subjects for run in subject.runs}
    if not any(points.values()):
        raise CompareError(_nobody_has(client, subjects, tag))
    for subject in subjects:
        made.notes += [f"{called(run)} has no metric {tag}" for run in subject.runs if points[run.run_id] is None]
    over = window(tag, question)
    grouped, more = _groups(subjects, points, over, question)
    where = f"{tag}: " if len(question.tags) > 1 else ""
    made.notes += [f"{where}{note}" for note in more]
    series = []
    for subject in subjects:
        if subject.is_group:
            series.append(grouped.get(subject.label, Series(subject.label, np.array([]), np.array([]))))
        else:
            series.append(_line(subject, points[subject.runs[0].run_id], over, question.axis, made.notes))
    if question.axis is not Axis.STEP and not any(len(one.x) for one in series):
        what = {Axis.TIME: "wall time", Axis.CPU: "CPU time"}[question.axis]
        raise CompareError(f"no {what} is stored for what these runs have of {tag}: --x step draws it over steps")
    smoothed = f", mean of the newest {over}" if over > 1 else ""
    unit = Unit.PLAIN if question.axis is Axis.STEP else Unit.SECONDS
    made.panels.append(LinePanel(f"{tag}{smoothed}", series, AXIS_TITLES[question.axis], x_unit=unit))


def _line(subject: Subject, points: Curve | None, over: int, axis: Axis, notes: list[str]) -> Series:
    places = None if points is None else points.places(axis)
    if points is None or places is None:
        if points is not None:
            notes.append(f"{subject.label} has no line: its {'CPU' if axis is Axis.CPU else 'wall'} time is not stored")
        return Series(subject.label, np.array([]), np.array([]))
    bad = int((~np.isfinite(points.values)).sum())
    if bad:
        notes.append(f"{subject.label}: {counted(bad, 'point')} of {len(places):,} not a number, left as a gap")
    raw = np.where(np.isfinite(points.values), points.values, np.nan)
    faint: list[tuple[Array, Array]] = [(places, raw)] if over > 1 else []
    return Series(subject.label, places, moving_means(raw, over), faint=faint, faint_kind="raw")


def _groups(
    subjects: Sequence[Subject], points: Mapping[str, Curve | None], over: int, question: PlotQuestion
) -> tuple[dict[str, Series], list[str]]:
    groups, notes = [], []
    for subject in subjects:
        if not subject.is_group:
            continue
        measured = []
        for run in subject.runs:
            curve = points[run.run_id]
            if reason := why_left_out(run, unfinished=question.unfinished):
                notes.append(f"{subject.label}: {called(run)} is left out: {reason}")
            elif curve is not None:
                measured.append(Measured(run, curve=replace(curve, values=moving_means(curve.values, over))))
        if measured:
            groups.append(Compared(subject.label, {"": measured}, (), {}))
        else:
            notes.append(f"{subject.label}: no run of it can be drawn")
    found = Comparison(By.TRAINING, None, [""], {}, groups, {}, [], question.samples)
    curves = curves_of(found, question.axis)
    series = {
        label: banded(label, curve.at, curve.iqm, faint=[(curve.at, one) for one in curve.each])
        for label, curve in curves.groups.items()
    }
    return series, [*notes, *(curves.notes if groups else ())]


def _require_one_environment(subjects: Sequence[Subject]) -> None:
    for subject in subjects:
        names = sorted({run.env_id for run in subject.runs})
        if len(names) > 1:
            raise CompareError(
                f"{subject.label!r} has runs of {names[0]} and {names[1]}, whose returns cannot be put together: "
                f"narrow it with env={names[0]}"
            )


def _nobody_has(client: TrainerClient, subjects: Sequence[Subject], tag: str) -> str:
    known = [one.tag for one in client.metrics(subjects[0].runs[0].run_id, max_points=1)]
    hint = did_you_mean(tag, known) if known else "; the first has none at all"
    return f"no run of these has a metric {tag[:60]!r}{hint}"


def _title(subjects: Sequence[Subject]) -> str:
    return ", ".join(sorted({run.env_id for subject in subjects for run in subject.runs if run.env_id}))


def _explained(subjects: Sequence[Subject], question: PlotQuestion) -> list[str]:
    said = []
    if any(subject.is_group for subject in subjects):
        sizes = ", ".join(f"{one.label} {len(one.runs)}" for one in subjects if one.is_group)
        said.append(f"Groups ({sizes}): IQM of the runs, band: 95 % interval of a bootstrap, thin: single runs.")
    if any(window(tag, question) > 1 for tag in question.tags) and not all(one.is_group for one in subjects):
        said.append("Thick: smoothed, as said above each chart; thin: the points as they were recorded.")
    return said
