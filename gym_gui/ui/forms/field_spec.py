"""What a form asks for, one field each, from a script's flags or a JSON schema. No Qt here.

A field is edited as text (or a switch) and read as its type; what was typed is kept as it was typed, so ``3e-4`` stays
``3e-4``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mosaic_protocol.settings_schema import shown_bound

Kind: TypeAlias = Literal["int", "float", "bool", "text", "choice", "json"]
Entry: TypeAlias = str | bool
"""What stands in an editor."""

_KINDS: dict[str, Kind] = {"int": "int", "float": "float", "bool": "bool", "str": "text"}
_SCHEMA_KINDS: dict[str, Kind] = {"integer": "int", "number": "float", "boolean": "bool", "string": "text"}
_OPTIONAL = re.compile(r"(?:typing\.)?Optional\[(\w+)\]|(\w+) \| None|None \| (\w+)")
_COUNT = re.compile(r"([+-]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kM]?)", re.IGNORECASE)
_SCALES = {"": 1, "k": 1000, "m": 1_000_000}
_NONE = "none"
_SPOKEN = {
    "lr": "learning rate",
    "gae": "GAE",
    "kl": "KL",
    "adv": "advantages",
    "coef": "coefficient",
    "ent": "entropy",
    "vf": "value",
    "vloss": "value loss",
    "grad": "gradient",
    "exp": "experiment",
    "env": "environment",
    "envs": "environments",
    "wandb": "W&B",
}
"""What the short forms in names of flags stand for."""
_UNITS = (
    (("_steps", "_timesteps", "timesteps", "_frequency", "learning_starts", "checkpoint_every"), "steps"),
    (("buffer_size",), "transitions"),
    (("_seconds",), "s"),
    (("_minutes",), "min"),
    (("memory_mb",), "MB"),
    (("_episodes",), "episodes"),
    (("_epochs",), "passes"),
)


class FieldError(ValueError):
    """What was typed cannot be taken; the message is one sentence without the field's name."""


@dataclass(frozen=True)
class FieldSpec:
    """One field. ``least`` and ``most`` bound numbers; a ``required`` one must not be left empty."""

    name: str
    title: str
    kind: Kind = "text"
    default: Any = None
    help: str = ""
    choices: tuple[str, ...] = ()
    meanings: tuple[Any, ...] = ()
    """What each of the choices stands for, in their order, where that is not its text."""
    is_open: bool = False
    """Whether something else than the choices may be chosen, because others come to be known later."""
    required: bool = False
    optional: bool = False
    unit: str = ""
    least: float | None = None
    most: float | None = None
    placeholder: str = ""
    short_placeholder: str = ""
    """What to show in its place where it would be cut."""
    option: str = ""
    """How the field is given on a command line, for people who know it by that name."""

    @property
    def start(self) -> Entry:
        """What stands in the editor of a field that nobody touched."""
        return self.shown(self.default)

    def shown(self, value: Any) -> Entry:
        """A value as it is edited."""
        if self.kind == "bool":
            return bool(value) if not isinstance(value, str) else value.lower() == "true"
        if value is None:
            return ""
        if self.kind == "json" and not isinstance(value, str):
            return json.dumps(value)
        if self.kind == "choice" and value in self.meanings:
            return self.choices[self.meanings.index(value)]  # 2.0 stands for the choice 2
        return str(value)

    def read(self, entry: Entry) -> Any:
        """The value that an entry stands for; None for an empty one. Raises :class:`FieldError`."""
        if self.kind == "bool":
            return bool(entry) if not isinstance(entry, str) else entry.lower() == "true"
        text = str(entry).strip()
        if not text or (self.optional and text.lower() == _NONE):
            if self.required:
                raise FieldError("must not be left empty")
            return None
        return self._bounded(self._parsed(text))

    def differs(self, entry: Entry) -> bool:
        """Whether an entry means something else than the default."""
        try:
            return bool(self.read(entry) != self.read(self.start))
        except FieldError:
            return entry != self.start

    def _parsed(self, text: str) -> Any:
        if self.kind == "int":
            return read_count(text)
        if self.kind == "float":
            return _read_number(text)
        if self.kind == "choice":
            return self._chosen(text)
        return json_or_text(text) if self.kind == "json" else text

    def _chosen(self, text: str) -> Any:
        if text not in self.choices:
            if self.is_open:
                return text
            raise FieldError(f"must be one of {', '.join(self.choices)}")
        return self.meanings[self.choices.index(text)] if self.meanings else text

    def _bounded(self, value: Any) -> Any:
        if self.kind in ("int", "float"):
            if self.least is not None and value < self.least:
                raise FieldError(f"must be at least {shown_bound(self.least)}")
            if self.most is not None and value > self.most:
                raise FieldError(f"must be at most {shown_bound(self.most)}")
        return value


def read_count(text: str) -> int:
    """A whole number as people write large ones: ``200000``, ``200_000``, ``2e5``, ``200k``, ``1.5M``."""
    found = _COUNT.fullmatch(text)
    number = float(found[1].replace("_", "").replace(",", "")) * _SCALES[found[2].lower()] if found else 0.5
    if found and re.fullmatch(r"[+-]?[0-9][0-9_,]*", text):
        return int(text.replace("_", "").replace(",", ""))  # a float would round the long ones
    if not math.isfinite(number) or number != int(number):
        raise FieldError("must be a whole number, such as 7, 500000 or 500k")
    return int(number)


def _read_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise FieldError("must be a number, such as 0.001 or 1e-3") from None
    if not math.isfinite(number):
        raise FieldError("must be a finite number")
    return number


def json_or_text(text: str) -> Any:
    """What stands there as JSON, else as the text that it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def title_of(name: str) -> str:
    """``learning_rate`` as people write it."""
    parts = [part for part in name.replace("-", "_").split("_") if part]
    if len(parts) > 1 and parts[0] == "num":
        parts = parts[1:]  # the value says that it is a number
    elif parts[:1] == ["norm"]:
        parts[0] = "normalise"
    words = " ".join(_SPOKEN.get(part, part) for part in parts)
    return words[:1].upper() + words[1:]


def unit_of(name: str) -> str:
    """The unit that a name implies, "" for none."""
    return next((unit for ends, unit in _UNITS if name.endswith(ends)), "")


def from_flag(flag: Mapping[str, Any]) -> FieldSpec:
    """A field for a flag as ``--describe-flags`` describes it."""
    text = str(flag.get("type") or "str")
    found = _OPTIONAL.fullmatch(text)
    plain = next(filter(None, found.groups())) if found else text
    meanings = tuple(one for one in flag.get("choices") or () if one is not None)
    choices = tuple(map(str, meanings))
    kind: Kind = "choice" if choices else _KINDS.get(plain, "text")
    return FieldSpec(
        name=flag["name"],
        title=title_of(flag["name"]),
        kind=kind,
        default=flag.get("default"),
        help=str(flag.get("help") or ""),
        choices=choices,
        meanings=meanings,
        required=bool(flag.get("required")),
        optional=found is not None,
        unit=unit_of(flag["name"]) if kind in ("int", "float") else "",
        option=str(flag.get("option") or ""),
    )


def from_flags(flags: Iterable[Mapping[str, Any]], leave_out: Iterable[str] = ()) -> list[FieldSpec]:
    out = frozenset(leave_out)
    return [from_flag(flag) for flag in flags if flag["name"] not in out]


def from_schema(schema: Mapping[str, Any]) -> list[FieldSpec]:
    """Fields for the properties of a JSON schema; what it does not say in plain types is edited as JSON."""
    required, properties = schema.get("required"), schema.get("properties")
    required = set(map(str, required)) if isinstance(required, list) else set()
    if not isinstance(properties, Mapping):
        return []
    return [_property(name, part, name in required) for name, part in properties.items() if isinstance(part, dict)]


def _property(name: str, part: Mapping[str, Any], required: bool) -> FieldSpec:
    kinds = part.get("type")
    listed = part.get("enum")
    optional = (isinstance(kinds, list) and "null" in kinds) or (isinstance(listed, list) and None in listed)
    kind_name = next((one for one in kinds if one != "null"), None) if isinstance(kinds, list) else kinds
    meanings = tuple(one for one in listed if one is not None) if isinstance(listed, list) else ()
    choices = tuple(map(str, meanings))
    if optional and kind_name == "boolean":  # a switch has no third position
        choices, meanings = ("yes", "no"), (True, False)
    return FieldSpec(
        name=name,
        title=str(part.get("title") or title_of(name)),
        kind="choice" if choices else _SCHEMA_KINDS.get(str(kind_name), "json"),
        default=part.get("default"),
        help=str(part.get("description") or ""),
        choices=choices,
        meanings=meanings,
        required=required and "default" not in part,
        optional=optional,
        unit=str(part.get("x-unit") or unit_of(name)),
        least=_number_or_none(part.get("minimum")),
        most=_number_or_none(part.get("maximum")),
    )


def _number_or_none(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
