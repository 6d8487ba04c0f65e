"""The flags of a training script: what each takes, and how values become a command line of it.

They are read from the source without running anything of it, see :mod:`mosaic_worker.scripts.flag_reader`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mosaic_worker.scripts.flag_reader import RawFlag, read_raw_flags

PlainType: TypeAlias = type[int] | type[float] | type[bool] | type[str]
Switch: TypeAlias = Literal["pair", "word", "on", "off"]
"""How a switch is set: ``--x`` or ``--no-x``; ``--x True``; only ``--x`` for on; only ``--x`` for off."""

_PLAIN_TYPES: dict[str, PlainType] = {"int": int, "float": float, "bool": bool, "str": str}
_PLAIN_TEXT = re.compile(r"[A-Za-z/][\w./+-]*")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ANNOTATION = re.compile(r"(?:typing\.)?Optional\[(\w+)\]|(\w+) \| None|None \| (\w+)|(\w+)")


class FlagError(ValueError):
    """A flag the script does not have, or a value it cannot take; the message is one sentence."""


@dataclass(frozen=True)
class Flag(RawFlag):
    """One flag as the script declares it; ``type`` is the annotation's text."""

    @property
    def option(self) -> str:
        return self.spelling or "--" + self.name.replace("_", "-")

    @property
    def optional(self) -> bool:
        return "None" in self.type or "Optional" in self.type

    @property
    def plain_type(self) -> PlainType | None:
        """The Python type, None when the annotation is not one of the plain ones."""
        match = _ANNOTATION.fullmatch(self.type)
        return _PLAIN_TYPES.get(next(filter(None, match.groups()))) if match else None

    def as_json(self) -> dict[str, Any]:
        """For forms and for programs."""
        return {
            "name": self.name,
            "option": self.option,
            "type": self.type,
            "default": self.default,
            "help": self.help,
            "choices": list(self.choices),
            "required": self.required,
        }


def read_flags(script: Any) -> dict[str, Flag]:
    """The flags of a script (a path, or a parsed module) by name, in the order of declaration; {} when none can be
    read. Raises what reading and parsing a file raise."""
    return {raw.name: Flag(**vars(raw)) for raw in read_raw_flags(script)}


def checked(flags: dict[str, Flag], name: str, value: Any, script: str) -> Any:
    """The value as the flag's type, or :class:`FlagError`. Text is read as the type says, since a command line has
    nothing else."""
    flag = flags.get(name.replace("-", "_"))
    if flag is None:
        raise FlagError(_unknown(flags, name.replace("-", "_"), value, script))
    kind = flag.plain_type
    if flag.optional and (value is None or str(value).lower() == "none"):
        return None
    if isinstance(value, str) and kind is not None:
        value = _read(kind, value)
    if flag.choices and value not in flag.choices:
        raise FlagError(f"{flag.option} must be one of {', '.join(map(str, flag.choices))}, got {value!r}")
    if kind is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is str and not isinstance(value, bool | None):
        return str(value)
    if isinstance(value, bool):
        raise FlagError(f"{flag.option} needs a value: it is no switch but a {_spoken(kind)}")
    raise FlagError(f"{flag.option} must be a {_spoken(kind)}, got {value!r}")


def _unknown(flags: dict[str, Flag], name: str, value: Any, script: str) -> str:
    option = f"--{name.replace('_', '-')}"
    if name.startswith("no_") and name[3:] in flags:  # alone it would have turned the flag off
        return f"{option} takes no value, got {value!r}"
    return f"{script} has no flag {option}{_nearest_option(name, flags)}"


def _read(kind: PlainType, text: str) -> Any:
    """Text as a value of the type; the text itself when it is none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        value = kind(text)
    except ValueError:
        return text
    return text if value != value else value  # "nan" is what it says: not a number


def _nearest_option(name: str, flags: dict[str, Flag]) -> str:
    from mosaic_protocol.suggest import did_you_mean  # needs more than an old environment has

    return did_you_mean(f"--{name.replace('_', '-')}", [flag.option for flag in flags.values()])


def _spoken(kind: PlainType) -> str:
    return {int: "whole number", float: "number", bool: "switch", str: "text"}[kind]


def command_line(values: Mapping[str, Any], flags: Mapping[str, Flag] | None = None) -> list[str]:
    """Values as the script's command line takes them: switches as it spells them, lists spread, ``None`` by its name
    (or left out where no word stands for it)."""
    words: list[str] = []
    for name, value in values.items():
        flag = (flags or {}).get(name) or Flag(name, "", None, "")
        if flag.yaml:
            words.append(f"{flag.option}={_yaml(flag, value)}")
        elif isinstance(value, bool):
            words += _switch(flag, value)
        elif isinstance(value, list | tuple):
            words += [flag.option, *map(_word, value)]
        elif value is None and flag.spelling:
            continue  # argparse has no word for it, and it is the default where it is possible at all
        elif (word := _word(value)).startswith("-"):
            words.append(f"{flag.option}={word}")  # on its own argparse would take -1e-05 for a flag
        else:
            words += [flag.option, word]
    return words


def _switch(flag: Flag, value: bool) -> list[str]:
    match flag.switch:
        case "word":
            return [flag.option, str(value)]
        case "on" | "off":
            return [flag.option] if value is (flag.switch == "on") else []
    return [flag.option if value else f"--no-{flag.option.removeprefix('--')}"]


def _yaml(flag: Flag, value: Any) -> str:
    """One word that YAML reads as the value: JSON is YAML, and text that would be read as something else is quoted. Of
    a flag with a type of its own, text is what somebody wrote in YAML already."""
    if isinstance(value, str) and (flag.plain_type is None or _is_plain_text(value)):
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def _is_plain_text(value: str) -> bool:
    return _PLAIN_TEXT.fullmatch(value) is not None and value.lower() not in _YAML_WORDS


def _word(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
