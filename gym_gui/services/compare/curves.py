"""How groups got where they are: sample-efficiency curves on a common grid, and performance profiles. Pure.

Nothing is invented. A curve begins where every run of its group has returned something and ends where the shortest of
them ends: beyond it the others alone would be another group. A point at which a run has no number is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gym_gui.services.compare import statistics as st
from gym_gui.services.compare.comparison import Compared, Comparison, scores_of
from gym_gui.services.compare.measures import Axis, By, Measured
from gym_gui.services.compare.statistics import Array, Estimate
from gym_gui.services.run_words import counted, duration

GRID_POINTS = 100
"""Between nothing and the end of the group that goes furthest."""
LEVELS = 101
"""Of a performance profile."""
NO_BAND = "of one run there is no band"
_SAME_LENGTH = 0.98
_SHORT = 60.0
"""Seconds below which tenths matter."""
_NAMES = {Axis.STEP: "steps", Axis.TIME: "wall time", Axis.CPU: "CPU time"}


@dataclass(frozen=True)
class GroupCurve:
    """The IQM of a group's runs at places of the common grid; None where one of them has no number. ``each`` has the
    runs themselves, in the order of the group, not a number where one has none."""

    label: str
    at: Array
    iqm: Sequence[Estimate | None]
    each: Sequence[Array]


@dataclass(frozen=True)
class Curves:
    """All groups over one axis. A group without a curve is named in ``notes``, with the reason."""

    axis: Axis
    groups: Mapping[str, GroupCurve]
    notes: Sequence[str]


def curves_of(found: Comparison, axis: Axis = Axis.STEP) -> Curves:
    """Of training only: an evaluation is one number of one checkpoint."""
    if found.by is not By.TRAINING:
        return Curves(axis, {}, ["evaluations have no curve: each is one number of one checkpoint"])
    spans: dict[str, tuple[float, float]] = {}
    notes: list[str] = []
    for group in found.groups:
        span = _span(group, axis)
        if isinstance(span, str):
            notes.append(f"{group.label} has no curve: {span}")
        else:
            spans[group.label] = span
    if not spans:
        return Curves(axis, {}, notes if axis is Axis.STEP else [f"no curve over {_NAMES[axis]}: it is not stored"])
    grid = np.linspace(0.0, max(end for _, end in spans.values()), GRID_POINTS + 1)[1:]
    curves = {}
    for group in found.groups:
        if group.label not in spans:
            continue
        begin, end = spans[group.label]
        at = grid[(grid >= begin) & (grid <= end)]
        if len(at) < 2:
            notes.append(f"{group.label} has no curve: it is too short beside the others")
            continue
        curves[group.label] = _curve(found, group, axis, at)
        notes += _notes(group, curves[group.label], axis)
    return Curves(axis, curves, notes)


def _span(group: Compared, axis: Axis) -> tuple[float, float] | str:
    """From where to where all runs of a group are known, or why they are not."""
    places = [_places(one, axis) for one in group.runs]
    known = [one for one in places if one is not None and len(one)]
    if len(known) < len(places):
        what = {Axis.STEP: "returns", Axis.TIME: "time of its points", Axis.CPU: "CPU time"}[axis]
        return f"no {what} is stored for {counted(len(places) - len(known), 'run')}"
    begin = max(float(one[0]) for one in known)
    end = min(_end(one, axis) for one in group.runs)
    return (begin, end) if begin < end else "its runs have no stretch in common"


def _places(one: Measured, axis: Axis) -> Array | None:
    return None if one.curve is None else one.curve.places(axis)


def _end(one: Measured, axis: Axis) -> float:
    """The last return counts until the run ended, which the registry knows in steps."""
    places = _places(one, axis)
    last = float(places[-1]) if places is not None and len(places) else 0.0
    return max(last, float(one.run.last_step)) if axis is Axis.STEP else last


def _curve(found: Comparison, group: Compared, axis: Axis, at: Array) -> GroupCurve:
    values = []
    for name, members in group.counting.items():
        rows = np.stack([one.curve.at(at, axis) for one in members if one.curve is not None], axis=-1)
        values.append(found.references[name].normalised(rows) if found.references else rows)
    whole = np.logical_and.reduce([np.isfinite(rows).all(axis=-1) for rows in values])
    iqm: list[Estimate | None] = [None] * len(at)
    if whole.any():
        points = st.estimates(st.iqm, [rows[whole] for rows in values], samples=found.samples, seed=found.seed)
        for place, point in zip(np.flatnonzero(whole), points, strict=True):
            iqm[place] = point
    return GroupCurve(group.label, at, iqm, [column for rows in values for column in rows.T])


def _notes(group: Compared, curve: GroupCurve, axis: Axis) -> Iterator[str]:
    ends = [_end(one, axis) for one in group.runs]
    if min(ends) < _SAME_LENGTH * max(ends):
        shortest, longest = place_text(min(ends), axis), place_text(max(ends), axis)
        yield f"{group.label}: the curve ends at {shortest} with its shortest run; the longest goes on to {longest}"
    if gaps := sum(one is None for one in curve.iqm):
        yield f"{group.label}: {gaps} of {len(curve.iqm)} points are missing, where a return is not a number"
    if any(len(members) < st.FEWEST_RUNS for members in group.counting.values()):
        yield f"{group.label}: {NO_BAND}"


def place_text(place: float, axis: Axis) -> str:
    """A place on an axis in words."""
    if axis is Axis.STEP:
        return f"{place:,.0f} steps"
    return f"{place:.1f}s" if place < _SHORT else duration(place)


# ---- performance profiles ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Profiles:
    """For each group how many of its runs score above each of ``levels``, which go from the lowest score of all groups
    to the highest."""

    levels: Array
    groups: Mapping[str, Sequence[Estimate]]


def profiles_of(found: Comparison) -> Profiles:
    scores = {group.label: scores_of(group.runs, found.environments, found.references) for group in found.groups}
    every = np.concatenate([one for members in scores.values() for one in members])
    spare = 0.02 * (every.max() - every.min()) or 1.0
    levels = np.linspace(every.min() - spare, every.max() + spare, LEVELS)
    return Profiles(
        levels,
        {
            label: st.profile_estimates(members, levels, samples=found.samples, seed=found.seed)
            for label, members in scores.items()
        },
    )
