"""The command line of a script: its ``Args`` dataclass, whose defaults are those of the run that is resumed."""

from __future__ import annotations

import dataclasses
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import tyro

from mosaic_worker.errors import UsageError
from mosaic_worker.state import checkpoints

A = TypeVar("A")

_NOT_INHERITED = frozenset({"resume", "warm_start"})
_TRUTH = {"true": True, "false": False}


def parse(kind: type[A], description: str, words: list[str] | None = None) -> A:
    """Parse the command line. With ``--resume CHECKPOINT`` every flag that is not given is as it was in that run.

    Raises :class:`UsageError` when the checkpoint cannot be read; prints help and exits as usual otherwise.
    """
    words = _with_switches(kind, sys.argv[1:] if words is None else words)
    resumed = _value_of("--resume", words)
    if resumed is None:
        return tyro.cli(kind, description=description, args=words)
    return tyro.cli(kind, description=description, args=words, default=kind(**_inherited(kind, Path(resumed))))


def _with_switches(kind: type[Any], words: list[str]) -> list[str]:
    """``--norm-adv False``, as scripts with argparse take it, in the words that switches have here."""
    switches = {field.name for field in dataclasses.fields(kind) if field.type in (bool, "bool")}
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        flag, joined, value = word.partition("=")
        if not joined and rest and rest[0].lower() in _TRUTH:
            value = rest[0]
        name = flag[2:]
        if flag.startswith("--") and name.replace("-", "_") in switches and value.lower() in _TRUTH:
            found.append(flag if _TRUTH[value.lower()] else f"--no-{name}")
            rest = rest if joined else rest[1:]
        else:
            found.append(word)
    return found


def _value_of(flag: str, words: list[str]) -> str | None:
    for word, following in zip_longest(words, words[1:]):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None


def _inherited(kind: type[Any], path: Path) -> dict[str, Any]:
    try:
        saved = checkpoints.read_manifest(path).args
    except checkpoints.CheckpointError as error:
        raise UsageError(str(error)) from error
    known = {field.name for field in dataclasses.fields(kind)} - _NOT_INHERITED
    return {name: value for name, value in saved.items() if name in known}
