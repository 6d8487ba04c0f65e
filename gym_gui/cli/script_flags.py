"""Flags of the training script, as typed behind the command's own: ``--num-envs 8 --anneal-lr --no-norm-adv``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from gym_gui.cli.errors import CliError, ExitCode
from mosaic_protocol.flag_words import FlagWordError, split_flags

Value: TypeAlias = bool | int | float | str

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9_]*)")


def parse_script_flags(
    words: Sequence[str], reserved: Collection[str] = (), texts: Collection[str] = ()
) -> dict[str, Value]:
    """Names with underscores and their values. A flag's value is the next word unless that is a flag itself; without
    one it is a switch, which ``--no-`` turns off. ``reserved`` are names that the command has options of its own for,
    ``texts`` names whose value stays as it was typed.

    Raises :class:`CliError` for a word without a flag, a flag given twice and a reserved one.
    """
    found: dict[str, Value] = {}
    try:
        for flag, name, value in split_flags(words):
            if name in reserved:
                raise _refusal(f"{flag} is an option of mosaic itself: give it before the --")
            if name in found:
                raise _refusal(f"{flag} is given twice")
            found[name] = typed(value) if isinstance(value, str) and name not in texts else value
    except FlagWordError as error:
        raise _refusal(str(error)) from None
    return found


def typed(text: str) -> Value:
    """A word as the number or switch it looks like. What JSON cannot say (``inf``) or would say differently
    (``007``) stays text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        number = float(text)
    except ValueError:  # also for 1_ and for more digits than Python reads
        return text
    return number if math.isfinite(number) and not re.fullmatch(r"[+-]?0[0-9_]+", text) else text


def _refusal(sentence: str) -> CliError:
    return CliError(f"{sentence}. See `mosaic train --help`.", ExitCode.REFUSED)


def as_option(name: str) -> str:
    """The option that sets a field of this name."""
    return "--" + name.replace("_", "-")


def show(flags: dict[str, Any]) -> str:
    """Flags as a command line, for people."""
    words = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(as_option(name) if value else f"--no-{name.replace('_', '-')}")
        else:
            words.append(f"{as_option(name)} {value}")
    return " ".join(words)
