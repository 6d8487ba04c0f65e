"""A comparison as one HTML file that can be mailed: pictures, numbers and program are inside, nothing is loaded.

Names come from people and may hold anything: every text passes :func:`escaped`, numbers and names for the program
travel as JSON in which no tag can begin, and a policy lets exactly the style and the script of this file work.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from gym_gui.services.charts import svg
from gym_gui.services.charts.drawing import COLOURS, DARK, LIGHT, colour_of
from gym_gui.services.charts.panels import DotPanel, LinePanel, drawn
from gym_gui.services.compare import figures
from gym_gui.services.compare.comparison import FEW_RUNS, Comparison
from gym_gui.services.compare.curves import Curves, curves_of, profiles_of
from gym_gui.services.compare.measures import Axis, By
from gym_gui.services.compare.origin import Origin
from gym_gui.services.compare.report import NAMES, figure, interval
from gym_gui.services.compare.statistics import CONFIDENCE, Estimate
from gym_gui.services.run_words import counted, duration, short_id
from mosaic_protocol.plain_text import one_line

_HERE = Path(__file__).parent
_PERCENT = round(100 * CONFIDENCE)
_UNITS = {Axis.STEP: "steps", Axis.TIME: "seconds", Axis.CPU: "seconds"}
_AXIS_WORDS = {Axis.STEP: "Steps", Axis.TIME: "Wall time", Axis.CPU: "CPU time"}
_WIDE, _HALF = 1060.0, 520.0
_TABLE_ROWS = 20
_ROLES = ("ink", "muted", "grid", "axis", "paper", *(f"c{number}" for number in range(COLOURS)))


@dataclass(frozen=True)
class About:
    """What a report says of itself."""

    command: str
    when: str


def document(found: Comparison, origin: Origin, about: About) -> str:
    curves = [curves_of(found, axis) for axis in Axis] if found.by is By.TRAINING else []
    drawn_over = [one for one in curves if one.groups]
    profile = figures.profile_panel(found, profiles_of(found))
    charts: dict[str, Any] = {"profile": _chart(profile, "")}
    sections = [_estimates(found)]
    if curves:
        panels = {one.axis: figures.curve_panel(found, one) for one in drawn_over}
        charts |= {f"curve-{axis}": _chart(panel, _UNITS[axis]) for axis, panel in panels.items()}
        sections.append(_curves(panels, curves))
    sections.append(pair(_improvements(found), _profile(profile)))
    sections += [_notes(found), _runs(found), _left_out(found), _settings(found, origin), _made(found, origin, about)]
    style, script = style_and_script()
    return Template((_HERE / "page.html").read_text(encoding="utf-8")).substitute(
        policy=policy_for(style, script),
        style=style,
        script=script,
        title=escaped(figures.heading(found)),
        about=escaped(f"{figures.measure(found)}{_where(found)}. {_sizes(found)}. Made {about.when} with MOSAIC."),
        finding=escaped(finding(found)),
        legend="Groups",
        toggles=_toggles(found),
        axes=_axis_choice([one.axis for one in drawn_over]) if curves else "",
        sections="\n".join(part for part in sections if part),
        data=safe_json({"colours": COLOURS, "charts": charts}),
        footer=escaped(f"SHA-256 of the data: {origin.data_hash}"),
    )


# ---- what makes it safe ------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    return escape(one_line(text))


def safe_json(value: Any) -> str:
    """JSON in which neither a tag nor a comment can begin."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def style_and_script() -> tuple[str, str]:
    """Style and program, without their tags."""
    text = (_HERE / "page_parts.html").read_text(encoding="utf-8")
    style, script = (text.split(f"<{tag}>")[1].split(f"</{tag}>")[0] for tag in ("style", "script"))
    names = [f"c{number}" for number in range(COLOURS)]
    return Template(style).substitute(
        light=" ".join(f"--{name}:{LIGHT[name]};" for name in names),
        dark=" ".join(f"--{name}:{DARK[name]};" for name in names),
        paints="\n".join(
            f'[data-stroke="{role}"] {{ stroke:var(--{role}) }} [data-fill="{role}"] {{ fill:var(--{role}) }}'
            for role in _ROLES
        ),
        swatches="\n".join(f".swatch.{name} {{ background:var(--{name}) }}" for name in names),
    ), script


def policy_for(style: str, script: str, *, pictures: bool = False) -> str:
    """``pictures``: whether the file holds some."""

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {allowed(style)}; script-src {allowed(script)}; "
        f"{'img-src data:; ' if pictures else ''}base-uri 'none'; form-action 'none'"
    )


# ---- what is said ------------------------------------------------------------------------------------------------


def finding(found: Comparison) -> str:
    """Who is ahead, and whether the intervals bear it out."""
    ranked = sorted(found.groups, key=lambda group: -group.estimates["iqm"].value)
    first = ranked[0]
    best = first.estimates["iqm"]
    said = f"{first.label} has the highest IQM: {interval(best)} over {counted(len(first.runs), 'run')}."
    if len(ranked) == 1:
        return f"{first.label}: IQM {interval(best)} over {counted(len(first.runs), 'run')}."
    second = ranked[1]
    other = second.estimates["iqm"]
    chance = found.improvements[first.label, second.label]
    said += f" {second.label} follows with {interval(other)}; a run of {first.label} beats one of {second.label} with "
    said += f"probability {interval(chance)}."
    if best.low is None or other.high is None:
        return f"{said} One run says nothing about others: no interval can be given."
    if best.low <= other.high:
        return f"{said} The two intervals overlap: these runs do not settle which is better."
    if min(len(first.runs), len(second.runs)) < FEW_RUNS:
        return f"{said} These are few runs: intervals of fewer than {FEW_RUNS} are rough."
    return said


def _where(found: Comparison) -> str:
    return f" at step {found.at:,}" if found.at is not None else ""


def _sizes(found: Comparison) -> str:
    return ", ".join(f"{group.label}: {counted(len(group.runs), 'run')}" for group in found.groups)


def _toggles(found: Comparison) -> str:
    return "".join(
        f'<label><input type="checkbox" checked data-group="{number}">'
        f'<span class="swatch {colour_of(number)}"></span>{escaped(group.label)}</label>'
        for number, group in enumerate(found.groups)
    )


def _axis_choice(axes: Sequence[Axis]) -> str:
    boxes = "".join(
        f'<label><input type="radio" name="axis" value="{axis}"{" checked" if not place else ""}>'
        f"{_AXIS_WORDS[axis]}</label>"
        for place, axis in enumerate(axes)
    )
    runs = '<label><input type="checkbox" id="runs" checked>Single runs</label>'
    return (
        f'<fieldset class="switch"><legend>Curves over</legend>{boxes}</fieldset>'
        f'<fieldset class="switch"><legend>Show</legend>{runs}</fieldset>'
    )


# ---- sections ----------------------------------------------------------------------------------------------------


def section(title: str, hint: str, body: str) -> str:
    said = f'<p class="hint">{escaped(hint)}</p>' if hint else ""
    return f"<section><h2>{escaped(title)}</h2>{said}{body}</section>"


def pair(*sections: str) -> str:
    there = [one for one in sections if one]
    return f'<div class="pair">{"".join(there)}</div>' if len(there) > 1 else "".join(there)


def _estimates(found: Comparison) -> str:
    columns = list(found.groups[0].estimates)
    heads = [("Group", ""), ("Runs", "n"), *((NAMES[name], "n") for name in columns)]
    rows = [
        [group.label, str(len(group.runs)), *(interval(group.estimates[name]) for name in columns)]
        for group in found.groups
    ]
    panel = figures.score_panel(found)
    hint = (
        f"Each dot is a run, the upright line the IQM (mean of the middle half of the runs), the bar its {_PERCENT} % "
        "interval. Names of runs appear under the pointer."
    )
    return section("What was reached", hint, f"{picture(panel, _WIDE)}{table(heads, rows, numbered=True)}")


def _curves(panels: dict[Axis, LinePanel], curves: Sequence[Curves]) -> str:
    hint = (
        f"IQM of the runs on a common grid, with its {_PERCENT} % interval; thin lines are single runs. A curve begins "
        "where every run of its group has returned something and ends with the shortest of them. Arrow keys go along."
    )
    parts = []
    for one in curves:
        panel = panels.get(one.axis)
        if panel is None:
            parts.append("".join(f'<p class="hint">{escaped(note[:1].upper() + note[1:])}.</p>' for note in one.notes))
            continue
        shapes = svg.fragment(drawn(panel, _WIDE, 380.0))
        picture = f'<figure class="broad" data-chart="curve-{one.axis}">{shapes}</figure>'
        numbers = _numbers(panel, _UNITS[one.axis])
        parts.append(f'<div data-axis="{one.axis}">{picture}{listed(one.notes)}{numbers}</div>')
    return section("How it was reached", hint, "".join(parts))


def _profile(panel: LinePanel) -> str:
    hint = "How many of the runs score above τ. The higher curve is better; where two cross, neither is."
    picture = f'<figure data-chart="profile">{svg.fragment(drawn(panel, _HALF, 330.0))}</figure>'
    return section("Performance profile", hint, picture + _numbers(panel, ""))


def _improvements(found: Comparison) -> str:
    pairs = figures.ahead(found)
    if not pairs:
        return ""
    heads = [("A run of", ""), ("beats one of", ""), ("with probability", "n")]
    rows = [[one, other, interval(estimate)] for (one, other), estimate in pairs]
    hint = "Over all pairs of runs, a draw counts half; dashed: neither is better."
    panel = figures.improvement_panel(found)
    return section("Probability of improvement", hint, f"{picture(panel, _HALF)}{table(heads, rows)}")


def _notes(found: Comparison) -> str:
    return section("What weakens this comparison", "", listed(found.notes)) if found.notes else ""


def _runs(found: Comparison) -> str:
    heads = [("Group", ""), ("Run", ""), ("Id", ""), ("Seed", "n"), ("Steps", "n"), ("Trained", "n"), ("Score", "n")]
    if len(found.environments) > 1:
        heads.insert(2, ("Environment", ""))
    parts = []
    for number, group in enumerate(found.groups):
        for one in group.runs:
            run = one.run
            cells = [group.label, run.name, short_id(run.run_id), str(run.seed) if run.HasField("seed") else "–"]
            cells += [f"{run.last_step:,}", duration(run.active_seconds), figure(one.score)]
            if len(found.environments) > 1:
                cells.insert(2, run.env_id)
            parts.append(table_line(cells, heads, number))
    return section("Every run that counts", "", table_rows(heads, parts))


def _left_out(found: Comparison) -> str:
    left = [(group.label, one) for group in found.groups for one in group.left_out]
    if not left:
        return section("What was left out", "", "<p>Nothing: every run that was asked for counts.</p>")
    heads = [("Group", ""), ("Run", ""), ("Id", ""), ("Steps", "n"), ("Why", "")]
    rows = [
        [label, one.run.name, short_id(one.run.run_id), f"{one.run.last_step:,}", one.why_not] for label, one in left
    ]
    hint = "A run that failed did not reach what it would have. If one group fails more often, that is a result."
    return section("What was left out", hint, table(heads, rows))


def _settings(found: Comparison, origin: Origin) -> str:
    if not origin.differences:
        return section("What differs between the runs", "", "<p>Nothing that was recorded.</p>")
    heads = [("", ""), ("", ""), *((group.label, "") for group in found.groups)]
    rows = [[one.section, one.name, *one.values] for one in origin.differences]
    hint = f"Settings, code and packages; (×3): so many runs have it. {origin.equal} other recorded things are equal."
    return section("What differs between the runs", hint, table(heads, rows))


def _made(found: Comparison, origin: Origin, about: About) -> str:
    method = (
        f"Intervals: percentiles of a stratified bootstrap with {found.samples:,} resamples from seed {found.seed}; "
        "runs are drawn again within each environment, and for curves with all their points. IQM, optimality gap, "
        "probability of improvement and performance profiles are those of Agarwal et al., Deep Reinforcement "
        "Learning at the Edge of the Statistical Precipice, NeurIPS 2021. One run has no interval."
    )
    if found.references:
        scales = "; ".join(f"{name}: {one.low:g} is 0, {one.high:g} is 1" for name, one in found.references.items())
        method += f" Scores are normalised. {scales}."
    facts = [*((f"runs: {name}", value) for name, value in origin.facts), *origin.made_by]
    facts += [("made", about.when), ("SHA-256 of the data", origin.data_hash)]
    items = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in facts)
    body = f"<p>{escaped(method)}</p><pre><code>{escaped(about.command)}</code></pre><dl>{items}</dl>"
    return section("How this was made", "", body)


# ---- parts -------------------------------------------------------------------------------------------------------


def picture(panel: DotPanel, width: float) -> str:
    broad = ' class="broad"' if width == _WIDE else ""
    return f"<figure{broad}>{svg.fragment(drawn(panel, width))}</figure>"


def listed(notes: Sequence[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escaped(note)}</li>" for note in notes)}</ul>' if notes else ""


def table(heads: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], *, numbered: bool = False) -> str:
    return table_rows(heads, [table_line(row, heads, place if numbered else None) for place, row in enumerate(rows)])


def table_line(cells: Sequence[str], heads: Sequence[tuple[str, str]], series: int | None = None) -> str:
    kinds = [f' class="{kind}"' if kind else "" for _, kind in heads]
    inside = "".join(f"<td{kind}>{escaped(cell)}</td>" for cell, kind in zip(cells, kinds, strict=True))
    return f"<tr>{inside}</tr>" if series is None else f'<tr data-series="{series}">{inside}</tr>'


def table_rows(heads: Sequence[tuple[str, str]], lines: Sequence[str]) -> str:
    titles = "".join(
        f'<th scope="col"{f""" class="{kind}" """ if kind else ""}>{escaped(text)}</th>' for text, kind in heads
    )
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _numbers(panel: LinePanel, unit: str) -> str:
    """The same as a picture, for those who cannot see it or want to copy it."""
    grid = sorted({float(x) for one in panel.series for x in one.x})
    chosen = (
        [grid[round(place)] for place in np.linspace(0, len(grid) - 1, min(_TABLE_ROWS, len(grid)))] if grid else []
    )
    heads = [(panel.x_title, "n"), *((one.label, "n") for one in panel.series)]
    rows = []
    for x in chosen:
        cells = [duration(x) if unit == "seconds" else figure(x) if not unit else f"{x:,.0f}"]
        for one in panel.series:
            place = np.flatnonzero(one.x == x)
            cells.append(_cell(one, int(place[0])) if len(place) else "")
        rows.append(cells)
    return f"<details><summary>The numbers of this figure</summary>{table(heads, rows)}</details>"


def _cell(one: Any, place: int) -> str:
    value = float(one.y[place])
    if math.isnan(value):
        return "missing"
    low, high = (_known(part, place) for part in (one.low, one.high))
    return interval(Estimate(value, low, high))


def _chart(panel: LinePanel, unit: str) -> dict[str, Any]:
    """What the program shows under the pointer."""
    return {
        "unit": unit,
        "series": [
            {
                "label": one_line(one.label),
                "x": [float(f"{x:.7g}") for x in one.x],
                **{
                    name: [_known(part, place) for place in range(len(one.x))]
                    for name, part in (("y", one.y), ("low", one.low), ("high", one.high))
                },
            }
            for one in panel.series
        ],
    }


def _known(values: Any, place: int) -> float | None:
    if values is None or not math.isfinite(values[place]):
        return None
    return float(f"{values[place]:.6g}")
