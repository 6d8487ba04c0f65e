"""Options, arguments and value types that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from gym_gui.cli import candidates
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_view import OUTCOME_WORDS, STATE_WORDS
from gym_gui.services.run_words import state_meanings

LARGEST_SEED = 2**32 - 1
"""What every random generator takes."""

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def run_argument(function: F) -> F:
    """One run: its id, a unique beginning or end of it, its name, or ``last``."""
    return click.argument("run", metavar="RUN", shell_complete=candidates.runs)(function)


def runs_argument(function: F) -> F:
    """One or more runs."""
    return click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=candidates.runs)(function)


def checkpoint_argument(function: F) -> F:
    """One checkpoint: ``RUN``, ``RUN@STEP``, ``RUN@best``, ``RUN@last``, the name of an import, or a path."""
    return click.argument("checkpoint", metavar="CHECKPOINT", shell_complete=candidates.checkpoints)(function)


class Count(click.ParamType[int]):
    """A whole number as people write large ones: ``200000``, ``200_000``, ``2e5``, ``200k``, ``1.5M``."""

    name = "n"
    _FORM = re.compile(r"([+-]?[0-9][0-9_,]*(?:\.[0-9]+)?(?:e\+?[0-9]{1,2})?)([kM]?)", re.IGNORECASE)
    _UNITS: ClassVar = {"": 1, "k": 1000, "m": 1_000_000}

    def __init__(self, least: int = 1, most: int = 2**31 - 1) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number = self._read(value.strip())
        if number is None:
            self._refuse(f"must be a whole number, got {value[:60]!r}", param)
        if number < self._least:
            self._refuse(f"must be at least {self._least}, got {value[:60]}", param)
        if number > self._most:
            self._refuse(f"must be at most {self._most:,}, got {value[:60]}", param)
        return number

    def _read(self, text: str) -> int | None:
        """Exact, however large; None for what is no whole number."""
        found = self._FORM.fullmatch(text)
        if found is None:
            return None
        number = Fraction(found[1].replace("_", "").replace(",", "")) * self._UNITS[found[2].lower()]
        return int(number) if number.denominator == 1 else None

    def _refuse(self, sentence: str, param: click.Parameter | None) -> NoReturn:
        option = param.opts[-1] if param is not None else "the number"
        raise CliError(f"{option} {sentence}", ExitCode.REFUSED)


class Minutes(click.ParamType[float]):
    """A time, as a number of minutes that may have a fraction."""

    name = "m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            option = param.opts[-1] if param is not None else "the time"
            raise CliError(f"{option} must be a number of minutes, got {value[:60]!r}", ExitCode.REFUSED) from None


class Word(click.ParamType[tuple[str, ...]]):
    """One of a few words, or something that stands for one; the nearest is offered for any other."""

    def __init__(
        self,
        noun: str,
        meanings: Mapping[str, tuple[str, ...]],
        shown: tuple[str, ...],
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.name = noun
        self._noun, self._meanings, self._shown = noun, meanings, shown
        self._elsewhere = elsewhere or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        word = value.lower().replace("-", "_").replace(" ", "_")
        if word in self._meanings:
            return self._meanings[word]
        from mosaic_protocol.suggest import did_you_mean

        hint = f": use {self._elsewhere[word]}" if word in self._elsewhere else did_you_mean(value, self._shown)
        raise CliError(f"{value[:60]!r} is no {self._noun}{hint}", ExitCode.REFUSED)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self._shown if word.startswith(incomplete.lower())]


_OUTCOMES = {**{word: (word,) for word in OUTCOME_WORDS}, "cancelled": ("canceled",)}
STATE = Word(
    "state",
    state_meanings(),
    (*STATE_WORDS, "live"),
    {word: f"--outcome {meaning[0]}" for word, meaning in _OUTCOMES.items()},
)
OUTCOME = Word("outcome", _OUTCOMES, tuple(OUTCOME_WORDS), {word: f"--state {word}" for word in STATE_WORDS})


class PlainGroup(click.Group):
    """A group that shows its help when nothing was asked of it, and lists commands in the order they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """An error that click does not say the place of was made by the command that was to begin."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            begun = self.commands.get(ctx.invoked_subcommand or "")
            if error.ctx is None and begun is not None:
                error.ctx = click.Context(begun, parent=ctx, info_name=ctx.invoked_subcommand)
            raise


def help_when_alone(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run_filters(function: F) -> F:
    """Which runs: ``states``, ``outcomes``, ``search`` and ``where``."""
    options = (
        click.option(
            "--state", "states", type=STATE, multiple=True, help="Only runs that are queued, training, playing, over…"
        ),
        click.option("--outcome", "outcomes", type=OUTCOME, multiple=True, help="Only runs that completed, failed…"),
        click.option(
            "--search", metavar="TEXT", default="", help="Only runs with this in name, id, algorithm or environment."
        ),
        click.option(
            "--where",
            metavar="EXPR",
            default="",
            help="Only runs that match: 'algo=ppo env=CartPole* lr<1e-3 tag=paper return>400'.",
            shell_complete=candidates.filter_terms,
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function
