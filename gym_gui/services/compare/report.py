"""A comparison as an object for programs, as rows for a spreadsheet, as a table for a paper, and as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gym_gui.services.compare.comparison import Compared, Comparison
from gym_gui.services.compare.curves import Curves, GroupCurve, Profiles, curves_of, profiles_of
from gym_gui.services.compare.measures import Axis
from gym_gui.services.compare.statistics import CONFIDENCE, Estimate

COLUMNS = ("group", "environment", "run_id", "name", "seed", "steps", "score", "left_out")
_PERCENT = round(100 * CONFIDENCE)
NAMES = {"iqm": "IQM", "mean": "Mean", "median": "Median", "optimality_gap": "Optimality gap"}


def as_object(found: Comparison) -> dict[str, Any]:
    """Numbers that are not finite do not occur: runs that have such a score do not count, and gaps are null."""
    curves, profiles = [curves_of(found, axis) for axis in Axis], profiles_of(found)
    return {
        "by": str(found.by),
        "at": found.at,
        "environments": list(found.environments),
        "references": {name: [one.low, one.high] for name, one in found.references.items()},
        "confidence": CONFIDENCE,
        "samples": found.samples,
        "groups": [_group(group, curves, profiles) for group in found.groups],
        "profile_levels": profiles.levels.tolist(),
        "improvements": [
            {"better": one, "worse": other, **_estimate(estimate)}
            for (one, other), estimate in found.improvements.items()
        ],
        "notes": list(found.notes),
        "curve_notes": {str(one.axis): list(one.notes) for one in curves},
    }


def _group(group: Compared, curves: Iterable[Curves], profiles: Profiles) -> dict[str, Any]:
    return {
        "label": group.label,
        "estimates": {name: _estimate(one) for name, one in group.estimates.items()},
        "runs": [
            {
                "run_id": one.run.run_id,
                "name": one.run.name,
                "env_id": one.run.env_id,
                "seed": one.run.seed if one.run.HasField("seed") else None,
                "steps": one.run.last_step,
                "score": one.score,
            }
            for one in group.runs
        ],
        "left_out": [{"run_id": one.run.run_id, "name": one.run.name, "reason": one.why_not} for one in group.left_out],
        "curves": {str(one.axis): _curve(one.groups[group.label]) for one in curves if group.label in one.groups},
        "profile": [_estimate(one) for one in profiles.groups[group.label]],
    }


def _curve(curve: GroupCurve) -> dict[str, Any]:
    return {"at": curve.at.tolist(), "iqm": [None if one is None else _estimate(one) for one in curve.iqm]}


def _estimate(one: Estimate) -> dict[str, float | None]:
    return {"value": one.value, "low": one.low, "high": one.high}


def rows(found: Comparison) -> Iterable[tuple[Any, ...]]:
    """Every run, also those that do not count, in the order of :data:`COLUMNS`."""
    for group in found.groups:
        for one in (*group.runs, *group.left_out):
            run = one.run
            seed = run.seed if run.HasField("seed") else ""
            score = "" if one.why_not else repr(one.score)
            yield group.label, run.env_id, run.run_id, run.name, seed, run.last_step, score, one.why_not


def latex(found: Comparison) -> str:
    """A table for ``booktabs``, with what must be said about it as a comment above."""
    columns = list(found.groups[0].estimates)
    lines = [f"% {_plain(note)}" for note in found.notes]
    lines += [
        f"% {found.by}, {', '.join(found.environments)}, {_PERCENT} percent intervals, {found.samples:,} resamples",
        rf"\begin{{tabular}}{{l{'r' * (len(columns) + 1)}}}",
        r"\toprule",
        " & ".join(["", "Runs", *(NAMES[name] for name in columns)]) + r" \\",
        r"\midrule",
    ]
    for group in found.groups:
        cells = [_escaped(group.label), str(len(group.runs)), *(interval(group.estimates[name]) for name in columns)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def interval(one: Estimate) -> str:
    """A number with its interval, where it has one."""
    if one.low is None or one.high is None:
        return figure(one.value)
    return f"{figure(one.value)} [{figure(one.low)}, {figure(one.high)}]"


def figure(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"


def _plain(text: str) -> str:
    return " ".join(text.split())


_SPECIAL = {mark: f"\\{mark}" for mark in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(mark, mark) for mark in text)
