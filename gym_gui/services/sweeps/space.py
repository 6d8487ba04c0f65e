"""The space of a sweep: which settings are searched, between what. Read from a TOML file, checked before anything runs.

    learning_rate = { low = 1e-5, high = 1e-2, log = true }
    num_steps = [32, 64, 128]           # one of these
    update_epochs = { low = 1, high = 10 }
    num_envs = 8                        # fixed

Every refusal is a :class:`SpaceError`: one sentence that names file, line and setting.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from mosaic_protocol.suggest import did_you_mean, shown

Value: TypeAlias = bool | int | float | str | None

MOST_BYTES = 256 * 1024
MOST_DIMENSIONS = 100
MOST_CHOICES = 1000
MOST_GRID = 1_000_000
_KEYS = ("low", "high", "log", "step", "choices")
_NOT_SEARCHED = {
    "seed": "seeds are given with --seeds",
    "total_timesteps": "every trial has the same number of steps, given with --total-timesteps",
    "env_id": "the environment is given with --env-id",
}


class SpaceError(Exception):
    """A space that cannot be searched; ``str()`` is a sentence for a person."""


@dataclass(frozen=True)
class Dimension:
    """One setting that is searched: a range of whole numbers or of numbers, or one of some values."""

    kind: Literal["float", "int", "choice"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    choices: tuple[Value, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether it can be searched; a file is told more exactly what is wrong."""
        if self.kind == "choice":
            return 0 < len(self.choices) <= MOST_CHOICES
        finite = all(map(math.isfinite, (self.low, self.high, self.step or 0.0)))
        fits = self.step is None or (0 < self.step <= self.high - self.low and not self.log)
        return finite and self.low < self.high and (self.low > 0 or not self.log) and fits

    def grid(self) -> list[Value]:
        """Every value. Raises :class:`SpaceError` for a range that has no step."""
        if self.kind == "choice":
            return list(self.choices)
        if self.log or (self.kind == "float" and self.step is None):
            raise SpaceError("has no fixed number of values: give it a step, or a list of values")
        step = self.step or 1
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        if count > MOST_GRID:
            raise SpaceError(f"has {count:,} values: too many for a grid")
        values = [self.low + index * step for index in range(count)]
        return [int(value) if self.kind == "int" else value for value in values]

    def ends(self) -> tuple[Value, Value]:
        """The two outermost values."""
        if self.kind == "choice":
            return self.choices[0], self.choices[-1]
        return (int(self.low), int(self.high)) if self.kind == "int" else (self.low, self.high)


@dataclass(frozen=True)
class Space:
    searched: dict[str, Dimension]
    fixed: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class _Source:
    """Where a space was read from, for sentences."""

    name: str
    text: str

    def refuse(self, key: str, why: str) -> SpaceError:
        return SpaceError(f"{self.name}{self._line(key)}: {key} {why}")

    def _line(self, key: str) -> str:
        pattern = re.compile(
            rf"""^\s*(?:["']?{re.escape(key)}["']?\s*[=.]|\[\s*["']?{re.escape(key)}["']?\s*\])""", re.MULTILINE
        )
        found = pattern.search(self.text)
        if found is None:
            return ""
        return f", line {self.text.count(chr(10), 0, found.start() + len(found[0]) - len(found[0].lstrip())) + 1}"


def read_space(text: str, name: str, flags: Sequence[Mapping[str, Any]] = ()) -> Space:
    """The space in a TOML text. ``flags``: those of the script, as its worker describes them; without any, names are
    left to the worker to judge."""
    if len(text) > MOST_BYTES:
        raise SpaceError(f"{name} is too long for a space: at most {MOST_BYTES // 1024} KB are read")
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpaceError(f"{name} is not TOML: {error}") from None
    except RecursionError:
        raise SpaceError(f"{name} is nested too deeply") from None
    source = _Source(name, text)
    known = {str(flag["name"]): flag for flag in flags}
    searched: dict[str, Dimension] = {}
    fixed: dict[str, Value] = {}
    for written, given in tables.items():
        setting = written.replace("-", "_")
        if setting in searched or setting in fixed:
            raise source.refuse(written, "is given twice")
        _require_known(source, written, setting, known)
        if isinstance(given, dict | list):
            searched[setting] = _as_taken(_dimension(source, written, given), known.get(setting, {}))
        else:
            fixed[setting] = _value(source, written, given)
        if setting in known:
            _require_fitting(source, written, known[setting], searched.get(setting), fixed.get(setting))
    _require_searchable(source, searched)
    return Space(searched, fixed)


def _require_known(source: _Source, written: str, setting: str, known: Mapping[str, Any]) -> None:
    if setting in _NOT_SEARCHED:
        raise source.refuse(written, f"cannot be searched: {_NOT_SEARCHED[setting]}")
    if known and setting not in known:
        raise source.refuse(written, f"is not a setting of the script{did_you_mean(setting, known)}")


def _require_searchable(source: _Source, searched: Mapping[str, Dimension]) -> None:
    if not searched:
        raise SpaceError(f"{source.name} has nothing to search: give at least one range or list of values")
    if len(searched) > MOST_DIMENSIONS:
        raise SpaceError(f"{source.name} has {len(searched)} settings to search: at most {MOST_DIMENSIONS} are allowed")


def _dimension(source: _Source, key: str, given: dict[str, Any] | list[Any]) -> Dimension:
    if isinstance(given, list):
        return _choice(source, key, given)
    for word in given:
        if word not in _KEYS:
            raise source.refuse(key, f"has the key {word[:60]!r}{did_you_mean(word, _KEYS)}")
    if "choices" in given:
        if len(given) > 1:
            raise source.refuse(key, "has choices and a range: give one of them")
        if not isinstance(given["choices"], list):
            raise source.refuse(key, "has choices that are no list")
        return _choice(source, key, given["choices"])
    return _range(source, key, given)


def _choice(source: _Source, key: str, values: list[Any]) -> Dimension:
    if not values:
        raise source.refuse(key, "has an empty list of values")
    if len(values) > MOST_CHOICES:
        raise source.refuse(key, f"has {len(values):,} values: at most {MOST_CHOICES:,} are allowed")
    checked = tuple(_value(source, key, value) for value in values)
    if len({(type(value), value) for value in checked}) < len(checked):
        raise source.refuse(key, "has a value twice")
    return Dimension("choice", choices=checked)


def _value(source: _Source, key: str, value: Any) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        raise source.refuse(key, "must be a finite number")
    if isinstance(value, int) and abs(value) > 2**53:
        raise source.refuse(key, "is too large")
    if not isinstance(value, bool | int | float | str):
        raise source.refuse(key, f"has a value that is no number, text or switch ({shown(value)})")
    return value


def _range(source: _Source, key: str, given: Mapping[str, Any]) -> Dimension:
    for word in ("low", "high"):
        if word not in given:
            raise source.refuse(key, f"has no {word}: a range needs low and high")
    numbers = {word: given[word] for word in ("low", "high", "step") if word in given}
    for word, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise source.refuse(key, f"has a {word} that is no number ({shown(number)})")
        _value(source, key, number)
    low, high, step = numbers["low"], numbers["high"], numbers.get("step")
    log = given.get("log", False)
    if not isinstance(log, bool):
        raise source.refuse(key, "has a log that is neither true nor false")
    if low >= high:
        why = "is empty" if low > high else "has one value only: write it as a fixed value"
        raise source.refuse(key, f"{why} (low {low}, high {high})")
    if log and low <= 0:
        raise source.refuse(key, f"has a logarithmic range through zero: low must be above 0 (got {low})")
    if step is not None and (step <= 0 or step > high - low):
        raise source.refuse(key, f"has a step that does not fit into the range ({step})")
    if step is not None and log:
        raise source.refuse(key, "has a step in a logarithmic range: give one of them")
    whole = all(isinstance(number, int) for number in numbers.values())
    kind: Literal["int", "float"] = "int" if whole else "float"
    return Dimension(kind, float(low), float(high), log, None if step is None else float(step))


_WHOLE, _NUMBER, _SWITCH, _TEXT = "whole numbers", "numbers", "true or false", "text"
_SPOKEN = {
    _WHOLE: re.compile(r"\bint\b|whole number"),
    _NUMBER: re.compile(r"\bfloat\b|\ba number"),
    _SWITCH: re.compile(r"\bbool\b|true or false"),
    _TEXT: re.compile(r"\bstr\b|\btext\b"),
}
"""How a worker may call the type of a setting: in Python's words or in those of a schema."""


def _taken(flag: Mapping[str, Any]) -> list[str]:
    """What a setting takes; nothing for a type that only the script understands."""
    kind = str(flag.get("type", ""))
    return [word for word, pattern in _SPOKEN.items() if pattern.search(kind)]


def _as_taken(one: Dimension, flag: Mapping[str, Any]) -> Dimension:
    """From 0 to 1 of a setting that takes any number are all numbers between them, not these two alone."""
    taken = _taken(flag)
    return replace(one, kind="float") if one.kind == "int" and _NUMBER in taken and _WHOLE not in taken else one


def _require_fitting(
    source: _Source, key: str, flag: Mapping[str, Any], searched: Dimension | None, fixed: Value
) -> None:
    """A setting that takes whole numbers, a switch or one of some words gets such values only."""
    taken = _taken(flag)
    if searched is not None and searched.kind != "choice":
        if searched.kind == "float" and _WHOLE in taken and _NUMBER not in taken:
            raise source.refuse(key, "takes whole numbers: write low, high and step without a point")
        if taken and not {_WHOLE, _NUMBER} & set(taken):
            raise source.refuse(key, f"takes {' or '.join(taken)}, which has no ranges: give a list of values")
        return
    allowed = flag.get("choices") or ()
    for value in searched.choices if searched is not None else (fixed,):
        if allowed and value not in allowed:
            raise source.refuse(key, f"does not take {shown(value)}{did_you_mean(str(value), map(str, allowed))}")
        if taken and not _kinds_of(value) & set(taken):
            raise source.refuse(key, f"takes {' or '.join(taken)}, not {shown(value)}")


def _kinds_of(value: Value) -> set[str]:
    match value:
        case bool():
            return {_SWITCH}
        case int():
            return {_WHOLE, _NUMBER}
        case float():
            return {_NUMBER}
    return {_TEXT}


def grid_points(space: Mapping[str, Dimension]) -> int:
    """How many points the grid of a space has. Raises :class:`SpaceError` with the name of a range that has no step."""
    count = 1
    for name, dimension in space.items():
        try:
            count *= len(dimension.grid())
        except SpaceError as error:
            raise SpaceError(f"{name} {error}") from None
        if count > MOST_GRID:
            raise SpaceError(f"the grid has more than {MOST_GRID:,} points: take fewer values, or another sampler")
    return count


def grid_point(space: Mapping[str, Dimension], place: int) -> dict[str, Value]:
    """One point of the grid, the last setting changing fastest."""
    found: dict[str, Value] = {}
    for name in reversed(list(space)):
        values = space[name].grid()
        place, index = divmod(place, len(values))
        found[name] = values[index]
    return {name: found[name] for name in space}
