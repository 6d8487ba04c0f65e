"""Flags of a training script as people type them: ``--num-envs 8 --anneal-lr --no-norm-adv --learning-rate=3e-4``.

The command line and the workers read them alike; what a value means is for them to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

FlagWord: TypeAlias = tuple[str, str, str | bool]
"""(flag as typed, name with underscores, text or switch)."""

_FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9_.-]*")


class FlagWordError(ValueError):
    """A word that belongs to no flag."""


def split_flags(words: Iterable[str]) -> Iterator[FlagWord]:
    """A flag's value is the next word unless that is a flag itself; without one it is a switch, off with ``--no-``."""
    rest = [word for word in words if word != "--"]
    while rest:
        word = rest.pop(0)
        flag, has_value, text = word.partition("=")
        if not _FLAG.fullmatch(flag):
            raise FlagWordError(f"{word[:60]!r} stands alone: flags of the script begin with -- and take one value")
        if has_value:
            yield flag, _name(flag), text
        elif rest and not rest[0].startswith("--"):
            yield flag, _name(flag), rest.pop(0)
        else:
            off = flag.startswith(("--no-", "--no_"))
            yield flag, _name(f"--{flag[5:]}" if off else flag), not off


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
