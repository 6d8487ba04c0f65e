"""``mosaic rename``, ``tag`` and ``note``: what people call runs and remember of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option, run_argument
from gym_gui.cli.session import CliSession, run_id_for

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


@click.command()
@run_argument
@click.argument("name", metavar="NAME")
@json_option
@click.pass_obj
def rename(session: CliSession, run: str, name: str, as_json: bool) -> None:
    """Give a run another name.

    Also while it trains: its id, folder and files stay as they are.
    """
    found = _updated(session, run, name=name)
    _tell(found, f"{run_view.called(found)} has this name now", as_json=as_json)


@click.command()
@run_argument
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("--remove", metavar="TAG", multiple=True, help="Take this tag away; may be given several times.")
@json_option
@click.pass_obj
def tag(session: CliSession, run: str, tags: Sequence[str], remove: Sequence[str], as_json: bool) -> None:
    """Add tags to a run, or take some away.

    Runs are found by their tags: `mosaic runs --where tag=paper`.
    """
    if not tags and not remove:
        raise CliError("name a tag to add, or one to take away with --remove", ExitCode.REFUSED)
    found = _updated(session, run, add_tags=tags, remove_tags=remove)
    left = ", ".join(map(fmt.one_line, found.tags)) or "none"
    _tell(found, f"{run_view.called(found)} has the tags: {left}", as_json=as_json)


@click.command()
@run_argument
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--append", is_flag=True, help="Add a line to the notes that are there.")
@json_option
@click.pass_obj
def note(session: CliSession, run: str, text: str | None, append: bool, as_json: bool) -> None:
    """Write notes about a run, or without TEXT print them.

    "-" takes the text from the standard input, "" removes the notes.
    """
    if text is None:
        if append:
            raise CliError("--append needs the text to add", ExitCode.REFUSED)
        with session.client() as client:
            found = client.run(run_id_for(client, run))
        lines = "\n".join(map(fmt.one_line, _notes(found).splitlines()))
        _tell(found, lines or f"{run_view.called(found)} has no notes", as_json=as_json)
        return
    if text == "-":
        from mosaic_protocol.run_config import MAX_NOTES  # takes pydantic, for which no help should wait

        text = sys.stdin.read(MAX_NOTES + 1).rstrip("\n")
    if append:
        with session.client() as client:
            text = "\n".join(part for part in (_notes(client.run(run_id_for(client, run))), text) if part)
    found = _updated(session, run, notes=text)
    _tell(found, f"the notes of {run_view.called(found)} are kept", as_json=as_json)


def _updated(session: CliSession, reference: str, **change: Any) -> pb.Run:
    with session.client() as client:
        return client.update(run_id_for(client, reference), **change)


def _notes(run: pb.Run) -> str:
    return str(json.loads(run.config_json).get("metadata", {}).get("notes", ""))


def _tell(run: pb.Run, sentence: str, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json(run_view.run_object(run))
    else:
        click.echo(sentence)
