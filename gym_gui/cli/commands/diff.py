"""``mosaic diff``: what differs between runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option, runs_argument
from gym_gui.cli.session import CliSession, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.run_diff import Row, RunDiff
    from mosaic_protocol.proto import trainer_pb2 as pb

_WIDTH = 80
"""Where there is no terminal."""
_GAP = "  "
_WIDEST_NAME = 24
_NARROWEST_COLUMN = 8


@click.command()
@runs_argument
@click.option("--all", "everything", is_flag=True, help="Also what is the same for all of them.")
@json_option
@click.pass_obj
def diff(session: CliSession, runs: Sequence[str], everything: bool, as_json: bool) -> None:
    """Show what differs between two or more runs.

    Settings (those given, and the defaults that the script took), code, environment and results. What is equal is left
    out.
    """
    from gym_gui.services.run_diff import as_object, diff_of

    found = diff_of(_found(session, runs))
    if as_json:
        fmt.echo_json(as_object(found, everything=everything))
        return
    click.echo(text_of(found, everything=everything))


def _found(session: CliSession, references: Sequence[str]) -> list[pb.Run]:
    from gym_gui.services.run_diff import MOST_RUNS

    if len(references) > MOST_RUNS:
        raise CliError(f"at most {MOST_RUNS} runs can be compared, these are {len(references)}", ExitCode.REFUSED)
    with session.client() as client:
        found = {run.run_id: run for run in (client.run(run_id_for(client, word)) for word in references)}
    if len(found) < 2:
        raise CliError(_too_few(references, next(iter(found.values()), None)), ExitCode.REFUSED)
    return list(found.values())


def _too_few(references: Sequence[str], only: pb.Run | None) -> str:
    others = "two runs or more can be compared: `mosaic runs` lists them"
    if len(references) < 2 or only is None:
        return others
    words = " and ".join(dict.fromkeys(map(repr, references)))
    times = f"was given {len(references)} times" if len(set(references)) == 1 else "are one and the same run"
    return f"{words} {times}, {run_view.called(only)}: {others}"


# ---- text --------------------------------------------------------------------------------------------------------


def text_of(found: RunDiff, *, everything: bool) -> str:
    """Who is compared, then a part for each section. Nothing is cut: what is too wide for a column stands below its
    name, a line for each run."""
    rows = found.shown(everything=everything)
    width = fmt.terminal_width() if fmt.is_terminal() else _WIDTH
    parts = [_legend(found.runs)]
    for section, members in groupby(rows, key=lambda row: row.section):
        parts.append(_section(section, list(members), found.runs, width))
    if not rows:
        parts.append("They do not differ.")
    if not everything and found.equal:
        verb = "is" if found.equal == 1 else "are"
        parts.append(fmt.dimmed(f"{fmt.counted(found.equal, 'thing')} {verb} equal; --all shows what"))
    return "\n\n".join(parts)


def _legend(runs: Sequence[pb.Run]) -> str:
    headers = ["ID", "NAME", "STATE"]
    rows = [[run_view.short_id(run.run_id), fmt.one_line(run.name), run_view.state_word(run)] for run in runs]
    return fmt.table(headers, rows, give_way="NAME", in_the_middle=True)


def _section(title: str, rows: Sequence[Row], runs: Sequence[pb.Run], width: int) -> str:
    ids = [run_view.short_id(run.run_id) for run in runs]
    names = min(_WIDEST_NAME, max(fmt.cells(row.name) for row in rows))
    room = max(_NARROWEST_COLUMN, (width - names - len(_GAP) * (len(ids) + 1)) // len(ids))
    fitting = [row for row in rows if _fits(row, names, room)]
    columns = [max(fmt.cells(text) for text in column) for column in zip(ids, *map(_texts, fitting), strict=True)]
    heading = _line(title.upper().ljust(names + len(_GAP)), ids, columns) if fitting else title.upper()
    lines = [fmt.dimmed(heading)]
    for row in rows:
        if row in fitting:
            lines.append(_line(f"{_GAP}{_padded(row.name, names)}", _texts(row), columns))
        else:
            lines.append(f"{_GAP}{row.name}")
            lines += [f"{_GAP * 2}{fmt.dimmed(one)}{_GAP}{text}" for one, text in zip(ids, _texts(row), strict=True)]
    return "\n".join(line.rstrip() for line in lines)


def _texts(row: Row) -> list[str]:
    return [value.shown for value in row.values]


def _fits(row: Row, names: int, room: int) -> bool:
    return fmt.cells(row.name) <= names and all(fmt.cells(text) <= room for text in _texts(row))


def _line(first: str, texts: Sequence[str], columns: Sequence[int]) -> str:
    return _GAP.join([first, *(_padded(text, room) for text, room in zip(texts, columns, strict=True))])


def _padded(text: str, room: int) -> str:
    return text + " " * max(0, room - fmt.cells(text))
