"""Options of a command that hands unknown ones on: which were meant for the command itself, and which lack a value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gym_gui.cli.errors import HOME_OPTION, CliError, ExitCode, stands_before

_REFUSED = re.compile(r"has no flag (--[^\s;,]+)(?:; did you mean '(--[^']+)')?")
_NEAR = 0.8


def require_values(ctx: click.Context) -> None:
    """Refuse ``--env-id --seed 3``: an option that took another one for its value."""
    if ctx.resilient_parsing:
        return
    own = _own_options(ctx)
    for param in ctx.command.get_params(ctx):
        taken = ctx.params.get(param.name or "")
        if isinstance(param, click.Option) and isinstance(taken, str) and taken.partition("=")[0] in own:
            sentence = f"{param.opts[-1]} needs a value, and {taken} is an option"
            raise CliError(f"{sentence}. See `{ctx.command_path} --help`.", ExitCode.REFUSED)


@contextmanager
def misspelt_options_told() -> Iterator[None]:
    """A flag that the script does not have may have been meant for us: then that is what to say."""
    ctx = click.get_current_context()
    try:
        yield
    except CliError as error:
        meant = _meant(str(error), ctx)
        if meant is None or error.code != ExitCode.REFUSED:
            raise
        raise CliError(meant, ExitCode.REFUSED) from error


def _meant(sentence: str, ctx: click.Context) -> str | None:
    refused = _REFUSED.search(sentence)
    if refused is None:
        return None
    typed, scripts = refused[1], refused[2]
    if typed == HOME_OPTION:
        return stands_before(ctx.command_path)
    near = difflib.get_close_matches(typed, _own_options(ctx), n=1, cutoff=_NEAR)
    if not near or (scripts and _likeness(typed, scripts) >= _likeness(typed, near[0])):
        return None
    return f"there is no option {typed!r}; did you mean {near[0]!r}?"


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _own_options(ctx: click.Context) -> list[str]:
    options = (param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option))
    return [word for option in options for word in option.opts]
