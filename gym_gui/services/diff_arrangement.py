"""What differs between runs, in the order in which people ask: how they did, what differs, what was changed in all of
them, what nobody changed. Without Qt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from gym_gui.services.run_diff import Row, RunDiff
from gym_gui.services.run_words import duration

PartName = Literal["results", "different", "changed", "same", "run", "code", "environment"]
PARTS: tuple[PartName, ...] = ("results", "different", "changed", "same", "run", "code", "environment")
_BETTER_WHEN_HIGHER = ("mean return", "last return")
_ALWAYS = ("mean return",)
_SAID_BETTER = ("last return", "last episode length")
"""Of one episode, where the mean of a hundred stands above."""
_AS_SHARE = ("steps/s", "steps", "trained")
_FACTORS = (0.001, 1000.0)
"""Within these the second value is said to be so many times the first."""


def arranged(diff: RunDiff, *, words: str = "", everything: bool = False) -> dict[PartName, list[Row]]:
    """The rows in whose name or values each of some words occurs, by part; parts without any are left out. Without
    ``everything`` what is equal in code, environment and the like is left out as well, and so is what a result says
    twice."""
    wanted = words.casefold().split()
    found: dict[PartName, list[Row]] = {part: [] for part in PARTS}
    for row in diff.rows:
        part = _part_of(row)
        is_news = not row.is_equal or part in ("changed", "same") or row.name in _ALWAYS
        is_said_already = part == "results" and row.name in _SAID_BETTER and not wanted
        if (everything or (is_news and not is_said_already)) and all(word in _haystack(row) for word in wanted):
            found[part].append(row)
    found["results"].sort(key=lambda row: row.name != _ALWAYS[0])
    return {part: rows for part, rows in found.items() if rows}


def _part_of(row: Row) -> PartName:
    if row.section != "settings":
        names: Mapping[str, PartName] = {
            "results": "results",
            "run": "run",
            "code": "code",
            "environment": "environment",
        }
        return names[row.section]
    if not row.is_equal:
        return "different"
    return "changed" if row.is_changed(row.values[0]) else "same"


def _haystack(row: Row) -> str:
    return " ".join([row.name, *(value.text for value in row.values)]).casefold()


class Gap(NamedTuple):
    """What the second of two runs has more than the first. ``is_better`` where more is better or worse."""

    text: str
    is_better: bool | None = None


def gap(row: Row) -> Gap:
    """Empty where there is nothing to say: equal values, words, one run or three."""
    if len(row.values) != 2 or row.is_equal or row.name == "seed":
        return Gap("")
    one, other = (value.raw for value in row.values)
    if not _is_number(one) or not _is_number(other):
        return Gap("")
    if row.section != "results":
        return Gap(_times(float(one), float(other)))
    if row.name in _AS_SHARE and one > 0:
        return Gap(f"{(other - one) / one:+.0%}".replace("-", "−"))
    text = f"{'+' if other > one else '−'}{_amount(row.name, abs(other - one))}"
    return Gap(text, other > one if row.name in _BETTER_WHEN_HIGHER else None)


def _amount(name: str, value: float) -> str:
    return duration(value) if name == "trained" else f"{value:,.4g}"


def _times(one: float, other: float) -> str:
    if one > 0 and other > 0 and _FACTORS[0] <= other / one <= _FACTORS[1]:
        return f"× {other / one:.3g}"
    return f"{'+' if other > one else '−'}{abs(other - one):.3g}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
