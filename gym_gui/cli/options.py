"""Options, arguments and value types that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from gym_gui.cli import candidates
from gym_gui.cli.run_view import OUTCOME_WORDS, STATE_WORDS
from mosaic_protocol.states import RunState

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def run_argument(function: F) -> F:
    """One run: its id, a unique beginning or end of it, its name, or ``last``."""
    return click.argument("run", metavar="RUN", shell_complete=candidates.runs)(function)


def runs_argument(function: F) -> F:
    """One or more runs."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=candidates.runs)(function)


class Count(click.ParamType):
    """A whole number as people write large ones: ``200000``, ``200_000``, ``2e5``, ``200k``, ``1.5M``."""

    name = "n"
    _FORM = re.compile(r"([+-]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kM]?)", re.IGNORECASE)
    _UNITS = {"": 1, "k": 1000, "m": 1_000_000}

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = self._FORM.fullmatch(value.strip())
        number = float(found[1].replace("_", "").replace(",", "")) * self._UNITS[found[2].lower()] if found else 0.5
        if number != int(number):
            self._refuse(f"must be a whole number such as 200000, 2e5 or 200k, got {value!r}", param, ctx)
        if number < self._least:
            self._refuse(f"must be at least {self._least}, got {value}", param, ctx)
        return int(number)

    def _refuse(self, sentence: str, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        option = param.opts[-1] if param is not None else "the number"
        raise click.UsageError(f"{option} {sentence}", ctx)


class Word(click.ParamType):
    """One of a few words, or something that stands for one; the nearest is offered for any other."""

    def __init__(self, noun: str, meanings: Mapping[str, tuple[str, ...]], shown: tuple[str, ...]) -> None:
        self.name = noun
        self._noun, self._meanings, self._shown = noun, meanings, shown

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        meaning = self._meanings.get(value.lower().replace("-", "_").replace(" ", "_"))
        if meaning is None:
            from mosaic_protocol.suggest import did_you_mean

            near = did_you_mean(value, self._shown)
            raise click.UsageError(f"{value!r} is no {self._noun}{near}", ctx)
        return meaning

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._shown if word.startswith(incomplete.lower())]


def _state_meanings() -> dict[str, tuple[str, ...]]:
    words = {word: tuple(map(str, states)) for word, states in STATE_WORDS.items()}
    live = tuple(str(state) for state in RunState if state not in (RunState.INIT, RunState.TERM))
    return {**words, "running": words["training"], "live": live, **{s.lower(): (str(s),) for s in RunState}}


STATE = Word("state", _state_meanings(), (*STATE_WORDS, "live"))
OUTCOME = Word("outcome", {**{word: (word,) for word in OUTCOME_WORDS}, "cancelled": ("canceled",)}, tuple(OUTCOME_WORDS))


class PlainGroup(click.Group):
    """A group that shows its help when nothing was asked of it, and lists commands in the order they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def help_when_alone(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
