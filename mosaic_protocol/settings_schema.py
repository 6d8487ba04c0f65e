"""Parameters of a worker that describes them by a JSON schema: reading it, checking values, describing them as flags.

Of JSON schema a small part is read: the names and types of properties, choices, bounds, defaults and what is required.
What a property says beyond that is for the worker itself to check.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mosaic_protocol.suggest import Problem, did_you_mean, shown

MAX_SCHEMA_BYTES = 256 * 1024
FILES = "x-files"
"""The keyword for a parameter that names files: a regular expression that matches the names in its text."""
ENV_ARGUMENT = "x-env-argument"
"""The keyword, with ``true``, for a parameter that ``gymnasium.make`` is given under its own name."""
_LARGEST_BOUND = 1e300
_RUN_FIELDS = frozenset({"algo", "dataset", "env_id", "seed", "total_timesteps"})
"""What the run has fields for: a schema may describe them, but they are no parameters."""
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "string": ((str,), "text"),
    "array": ((list, tuple), "a list"),
    "object": ((dict,), "an object with fields"),
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_ABOUT_ALL = ("title", "description", "properties", "required", "additionalProperties")
_READ = frozenset({"type", "enum", "default", *_BOUNDS, *_ABOUT_ALL})
_OTHERS = """
    $schema $id $ref $defs $comment $anchor $dynamicRef $dynamicAnchor $vocabulary definitions examples format
    deprecated readOnly writeOnly const multipleOf minLength maxLength pattern items prefixItems additionalItems
    contains minItems maxItems uniqueItems minContains maxContains minProperties maxProperties patternProperties
    propertyNames dependentRequired dependentSchemas dependencies unevaluatedItems unevaluatedProperties allOf anyOf
    oneOf not if then else contentEncoding contentMediaType contentSchema
"""
_LEFT_TO_THE_WORKER = frozenset(_OTHERS.split())
"""Keywords of JSON schema that are not read here. Any other is a mistake, unless it begins with ``x-``."""


class SchemaError(ValueError):
    """A schema that cannot be used; the message is one sentence."""


MOST_HINTS = 20


def read_schema(file: Path) -> dict[str, Any]:
    """The schema in a file. Raises :class:`SchemaError`."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_SCHEMA_BYTES + 1)
        schema = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise SchemaError(f"{file.name} cannot be read: {error}") from error
    return checked_schema(schema, file.name)


def checked_schema(schema: Any, called: str) -> dict[str, Any]:
    """The schema itself when it is an object whose properties are objects. Raises :class:`SchemaError`."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not all(isinstance(one, dict) for one in properties.values()):
        raise SchemaError(f"{called} is not a JSON schema: it must be an object with 'properties'")
    if not _is_list_of_texts(schema.get("required", [])):
        raise SchemaError(f"{called} is not a JSON schema: 'required' must be a list of names")
    if problem := _unknown_keyword(schema):
        raise SchemaError(f"{called} is not a JSON schema: it {problem}")
    for name, one in properties.items():
        if problem := _shape_problem(one):
            raise SchemaError(f"{called} is not a JSON schema: {name!r} {problem}")
    return dict(schema)


def _shape_problem(one: Mapping[str, Any]) -> str:
    kind = one.get("type", "string")
    if not isinstance(kind, str) and not _is_list_of_texts(kind):
        return "has a 'type' that is neither a name nor a list of names"
    if not isinstance(one.get("enum", []), list):
        return "has an 'enum' that is not a list"
    for bound in _BOUNDS:
        if bound in one and not (_is_bound(one[bound]) and abs(one[bound]) <= _LARGEST_BOUND):
            return f"has a {bound!r} that is not a number"
    if FILES in one and not _is_pattern(one[FILES]):
        return f"has {FILES!r} that are not a regular expression"
    return _unknown_keyword(one)


def _unknown_keyword(schema: Mapping[str, Any]) -> str:
    """A misspelt keyword would silently check nothing."""
    known = _READ | _LEFT_TO_THE_WORKER
    wrong = next((name for name in schema if name not in known and not str(name).startswith("x-")), None)
    if wrong is None:
        return ""
    return f"has a keyword {wrong!r} that JSON schema does not know{did_you_mean(wrong, _READ)}"


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def parameters(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters that a schema describes, by name."""
    return {name: one for name, one in schema.get("properties", {}).items() if name not in _RUN_FIELDS}


def is_structured(one: Mapping[str, Any]) -> bool:
    """Whether a parameter is an object or a list and nothing else, which a command line can say in JSON alone."""
    kinds = one.get("type")
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    return bool(named) and named <= {"object", "array", "null"}


def from_json_text(text: str) -> Any:
    """A word of a command line as the object or list that it spells; the text itself where it spells none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def with_absolute_files(params: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The parameters with the files among them named from the root. A run has a folder of its own, in which a name that
    was typed elsewhere names nothing."""
    found = dict(params)
    for name, value in params.items():
        pattern = known.get(name, {}).get(FILES)
        if isinstance(value, str) and isinstance(pattern, str):
            found[name] = re.sub(pattern, lambda file: str(Path(file[0]).expanduser().absolute()), value)
    return found


def problems_with(params: Mapping[str, Any], schema: Mapping[str, Any], place: str) -> Iterator[Problem]:
    """What is wrong with parameters; ``place`` is where they stand in the config."""
    known = parameters(schema)
    unknown = 0
    for name, value in params.items():
        if name in known:
            yield from _value_problems(value, known[name], f"{place}.{name}")
        elif schema.get("additionalProperties") is not True:
            unknown += 1
            # Looking for the nearest name costs as much as there are names, and nobody reads a thousand hints.
            hint = did_you_mean(name, known) if unknown <= MOST_HINTS else ""
            yield Problem(f"{place}.{name}", f"is not a parameter of the worker{hint}")
    for name in schema.get("required") or ():
        if name in known and name not in params:
            yield Problem(f"{place}.{name}", "is required")


def _value_problems(value: Any, described: Mapping[str, Any], path: str) -> Iterator[Problem]:
    kinds = [described["type"]] if isinstance(described.get("type"), str) else list(described.get("type") or ())
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        spoken = " or ".join(_TYPES[kind][1] for kind in kinds if kind in _TYPES) or "null"
        if isinstance(value, bool):  # a flag without a value arrives as a switch
            yield Problem(path, f"needs a value: it is no switch but {spoken}")
            return
        yield Problem(path, f"must be {spoken}", shown(value))
        return
    choices = described.get("enum")
    if isinstance(choices, list) and value not in choices:
        yield Problem(path, f"is not one of the choices{did_you_mean(str(value), map(str, choices))}", shown(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if not math.isfinite(value):
        yield Problem(path, "must be a finite number", shown(value))
        return
    above, below = described.get("exclusiveMinimum"), described.get("exclusiveMaximum")
    if _is_bound(above) and value <= above:
        yield Problem(path, f"must be more than {shown_bound(above)}", shown(value))
    if _is_bound(below) and value >= below:
        yield Problem(path, f"must be less than {shown_bound(below)}", shown(value))
    least, most = described.get("minimum"), described.get("maximum")
    if _is_bound(least) and value < least:
        yield Problem(path, f"must be at least {shown_bound(least)}", shown(value))
    if _is_bound(most) and value > most:
        yield Problem(path, f"must be at most {shown_bound(most)}", shown(value))


def shown_bound(bound: float) -> str:
    """A bound as a sentence names it: exact, large ones with commas."""
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:,.15g}"


def _is_bound(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_of(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    if kind not in _TYPES:
        return True  # an unknown type is for the worker to check
    if isinstance(value, bool):  # Python takes True for the number 1
        return kind == "boolean"
    return isinstance(value, _TYPES[kind][0])


def _spoken_type(kinds: Any) -> str:
    named = [kinds] if isinstance(kinds, str) else list(kinds or ())
    return " or ".join(_TYPES[kind][1] if kind in _TYPES else kind for kind in named if kind != "null") or "any"


def as_flags(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parameters as the flags of a script are described, for help pages and forms."""
    required = set(schema.get("required") or ())
    return [
        {
            "name": name,
            "option": f"--{name.replace('_', '-')}",
            "type": _spoken_type(one.get("type")),
            "default": one.get("default"),
            "choices": list(one.get("enum") or ()),
            "help": str(one.get("description") or one.get("title") or ""),
            "required": name in required and "default" not in one,
        }
        for name, one in parameters(schema).items()
    ]
