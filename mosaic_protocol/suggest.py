"""How wrong input is described: the nearest valid name, the offending value, and one sentence a problem.

Everything that refuses outside input (run configs, worker manifests, command lines) words it through here, so that all
messages read alike and none repeats a value that may be a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

import pydantic

MAX_SHOWN = 60
MAX_PROBLEMS = 20
_MAX_CHOICES = 12
_MAX_PATH = 240
_HIDDEN = "a hidden value"

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,60}")
_SECRET_KEY = re.compile(
    r"(^|_)(api|access|private|secret|auth|signing|encryption|ssh|wandb|openai)_?keys?$"
    r"|(^|_)(tokens?|secrets?|passphrase|authorization|credentials?)$|(password|passwd)s?$"
)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_URL_WITH_PASSWORD = re.compile(r"://[^/\s@:]*:[^/\s@]+@")  # linear: no two parts can match the same text

FieldPath: TypeAlias = tuple[str | int, ...]


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that ``name`` was most likely meant to be, None when none is near."""
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name[:100].lower(), by_lower, n=1)  # its cost is quadratic in the length
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A sentence end for "unknown name" messages: the nearest choice, else the choices, else nothing."""
    known = sorted(set(choices))
    if near := nearest(name, known):
        return f"; did you mean {near!r}?"
    if not known:
        return ""
    rest = f", … ({len(known)} in all)" if len(known) > _MAX_CHOICES else ""
    return f"; choices are {', '.join(known[:_MAX_CHOICES])}{rest}"


def looks_secret(key: str) -> bool:
    """Whether a field of this name would hold a credential."""
    words = re.sub(r"[^a-z0-9]+", "_", _WORD_START.sub("_", key[-200:]).lower())
    return _SECRET_KEY.search(words) is not None


def holds_password(text: str) -> bool:
    """Whether a text is an address with a password in it, such as a proxy's."""
    return _URL_WITH_PASSWORD.search(text) is not None


def shown(value: object) -> str:
    """A value as it may stand in a message: short, printable, containers by their size only."""
    match value:
        case str():
            return _HIDDEN if holds_password(value) else _shortened(repr(value[: MAX_SHOWN + 1]))
        case bool() | float() | None:
            return repr(value)
        case int():
            return f"an integer of {value.bit_length()} bits" if value.bit_length() > 128 else repr(value)
        case Mapping():
            return f"an object with {_counted(len(value), 'field')}"
        case list() | tuple():
            return f"a list of {_counted(len(value), 'item')}"
    return f"a Python {type(value).__name__}"


def dotted(path: FieldPath) -> str:
    """``("a", 0, "b c")`` as ``a[0]['b c']``."""
    text = "".join(_path_part(part) for part in path).removeprefix(".")
    return text if len(text) <= _MAX_PATH else text[:_MAX_PATH] + "…"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, why, and the value as it may be shown (empty when there is none)."""

    path: str
    message: str
    value_repr: str = ""

    @classmethod
    def at(cls, path: FieldPath, message: str, value: object) -> Problem:
        """A problem with a value, hidden when any name on the way to it looks like a secret's."""
        secret = any(isinstance(part, str) and looks_secret(part) for part in path)
        return cls(dotted(path), message, _HIDDEN if secret else shown(value))

    def __str__(self) -> str:
        got = f" (got {self.value_repr})" if self.value_repr else ""
        return f"{self.path or '(top level)'}: {self.message}{got}"


class InputError(ValueError):
    """Outside input was refused. ``problems`` is never empty and holds the first :data:`MAX_PROBLEMS`;
    ``str()`` is one line for each of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems[:MAX_PROBLEMS])
        more = ["… and more problems of this kind"] if len(problems) > MAX_PROBLEMS else []
        super().__init__("\n".join([*map(str, self.problems), *more]))


def problems_of(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> list[Problem]:
    """What pydantic found wrong with input for ``model``, in MOSAIC's words."""
    found = error.errors(include_url=False)
    return [_problem_of(item, model) for item in found[: MAX_PROBLEMS + 1]]


def _problem_of(item: Any, model: type[pydantic.BaseModel]) -> Problem:
    path: FieldPath = tuple(item["loc"])
    if item["type"] == "missing":
        return Problem(dotted(path), "is required")
    if item["type"] == "extra_forbidden":
        unknown = f"is not a known field{did_you_mean(str(path[-1]), _fields_at(model, path[:-1]))}"
        return Problem.at(path, unknown, item["input"])
    if path and path[-1] == "[key]":  # pydantic's mark: the name itself is wrong, not what it holds
        path = path[:-1]
    return Problem.at(path, _sentence(item["type"], item.get("ctx", {}), item["input"]), item["input"])


_SENTENCES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "string_pattern_mismatch": "does not have the right form",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "is too short: at least {characters}",
    "string_too_long": "is too long: at most {max_length} characters",
    "too_short": "is too short: at least {items}",
    "too_long": "is too long: at most {max_length} items",
    "value_error": "{error}",
}


def _sentence(kind: str, context: Mapping[str, Any], value: object) -> str:
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"is not one of the choices{did_you_mean(str(value), choices)}"
    least = context.get("min_length", 0)
    words = {**context, "characters": _counted(least, "character"), "items": _counted(least, "item")}
    return _SENTENCES.get(kind, "is not valid here").format_map(words)


def _fields_at(model: type[pydantic.BaseModel], path: FieldPath) -> list[str]:
    """The names that are valid in the object at ``path`` of a model."""
    here: Any = model
    for part in path:
        here = _type_inside(here, part)
    return [str(name) for name in _fields_by_name(here)]


def _type_inside(annotation: Any, part: str | int) -> Any:
    """The type of what ``part`` names in a value of the annotated type, None when that is not known."""
    if get_origin(annotation) is dict:
        return get_args(annotation)[1]
    if get_origin(annotation) is list:
        return get_args(annotation)[0]
    return _fields_by_name(annotation).get(part)


def _fields_by_name(annotation: Any) -> dict[str | int, Any]:
    """Field name as written in the input → its type, for a model or an optional model."""
    candidates = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, pydantic.BaseModel):
            return {field.alias or name: field.annotation for name, field in candidate.model_fields.items()}
    return {}


def _path_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{_shortened(repr(part[: MAX_SHOWN + 1]))}]"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
