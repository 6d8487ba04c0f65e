"""The flags of a training script, read from its source without running it.

A script's flags are the fields of its ``Args`` dataclass: name, type, default, and the sentence under each field.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mosaic_protocol.suggest import did_you_mean

PlainType: TypeAlias = type[int] | type[float] | type[bool] | type[str]

_PLAIN_TYPES: dict[str, PlainType] = {"int": int, "float": float, "bool": bool, "str": str}
_ANNOTATION = re.compile(r"(?:typing\.)?Optional\[(\w+)\]|(\w+) \| None|None \| (\w+)|(\w+)")


class FlagError(ValueError):
    """A flag the script does not have, or a value it cannot take; the message is one sentence."""


@dataclass(frozen=True)
class Flag:
    """One flag as the script declares it; ``type`` is the annotation's text."""

    name: str
    type: str
    default: Any
    help: str

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def optional(self) -> bool:
        return "None" in self.type or "Optional" in self.type

    @property
    def plain_type(self) -> PlainType | None:
        """The Python type, None when the annotation is not one of the plain ones."""
        match = _ANNOTATION.fullmatch(self.type)
        return _PLAIN_TYPES.get(next(filter(None, match.groups()))) if match else None


def read_flags(script: Path) -> dict[str, Flag]:
    """The script's flags by name, in the order of declaration; {} for a script without an ``Args`` class."""
    tree = ast.parse(script.read_text(), filename=str(script))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Args":
            return _fields(node.body)
    return {}


def _fields(body: list[ast.stmt]) -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            found[name] = Flag(name, ast.unparse(statement.annotation), _literal(statement.value), _sentence(following))
    return found


def _literal(node: ast.expr | None) -> Any:
    """A default that can be told from the source; anything computed is None."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _sentence(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def checked(flags: dict[str, Flag], name: str, value: Any, script: str) -> Any:
    """The value as the flag's type, or :class:`FlagError`. Text is read as the type says, since a command line has
    nothing else."""
    flag = flags.get(name.replace("-", "_"))
    if flag is None:
        raise FlagError(f"{script} has no flag --{name.replace('_', '-')}{_nearest_option(name, flags)}")
    kind = flag.plain_type
    if flag.optional and (value is None or str(value).lower() == "none"):
        return None
    if isinstance(value, str) and kind is not None:
        value = _read(kind, value)
    if kind is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and not isinstance(value, bool | None):
        return str(value)
    raise FlagError(f"{flag.option} must be a {_spoken(kind)}, got {value!r}")


def _read(kind: PlainType, text: str) -> Any:
    """Text as a value of the type; the text itself when it is none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


def _nearest_option(name: str, flags: dict[str, Flag]) -> str:
    return did_you_mean(f"--{name.replace('_', '-')}", [flag.option for flag in flags.values()])


def _spoken(kind: PlainType) -> str:
    return {int: "whole number", float: "number", bool: "switch", str: "text"}[kind]


def command_line(values: dict[str, Any]) -> list[str]:
    """Flags as a script's command line takes them: switches without value, lists spread, ``None`` by its name."""
    words: list[str] = []
    for name, value in values.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, list | tuple):
            words += [f"--{option}", *map(_word, value)]
        elif (word := _word(value)).startswith("-"):
            words.append(f"--{option}={word}")  # on its own argparse would take -1e-05 for a flag
        else:
            words += [f"--{option}", word]
    return words


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
