"""``mosaic queue``: which runs wait, in which order and for what, and putting them in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates, run_view
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode, translated
from gym_gui.cli.options import PlainGroup, json_option, runs_argument
from gym_gui.cli.session import CliSession, program, run_id_for
from mosaic_protocol.states import RunState

if TYPE_CHECKING:
    from gym_gui.services.queue_moves import Moves
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_PER_CALL = 500
_PLACES = "--first, --last, --before RUN, --after RUN or --host NAME"


@click.group(cls=PlainGroup, invoke_without_command=True)
@json_option
@click.pass_context
def queue(ctx: click.Context, as_json: bool) -> None:
    """List the runs that wait, the next one first.

    With what each asks for and waits for. Nothing passes the head of the line; `mosaic queue move` puts the runs in
    another order. Sessions have a line of their own.
    """
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise click.UsageError("--json goes behind `move`")
        return
    session: CliSession = ctx.obj
    with session.client() as client:
        listed = _listed(client)
    if as_json:
        fmt.echo_json({"queue": listed})
    else:
        click.echo(_text(listed))


@queue.command()
@runs_argument
@click.option("--first", is_flag=True, help="To the front: they start next.")
@click.option("--last", is_flag=True, help="To the end of the line.")
@click.option("--before", metavar="RUN", help="Before this run.", shell_complete=candidates.runs)
@click.option("--after", metavar="RUN", help="Behind this run.", shell_complete=candidates.runs)
@click.option(
    "--host",
    metavar="NAME",
    help="To another host: one of `mosaic hosts`, any, or here for this machine.",
    shell_complete=candidates.hosts,
)
@json_option
@click.pass_obj
def move(
    session: CliSession,
    runs: Sequence[str],
    first: bool,
    last: bool,
    before: str | None,
    after: str | None,
    host: str | None,
    as_json: bool,
) -> int:
    """Move queued runs to another place in the line, or to another host.

    Several keep the order in which they are named. A run that has started meanwhile is refused, the others are moved.
    """
    chosen = {"first": first, "last": last, "before": before, "after": after, "host": host}
    named = [(where, value) for where, value in chosen.items() if value or value == ""]
    if len(named) != 1:
        raise CliError(f"say where to, with just one of {_PLACES}", ExitCode.REFUSED)
    (where, anchor), *_ = named
    with session.client() as client:
        moves = _moved(client, runs, where, anchor)
    return _told(moves, as_json=as_json)


def _moved(client: TrainerClient, references: Sequence[str], where: str, anchor: str | bool) -> Moves:
    from gym_gui.services.queue_moves import HOST, Spot, move_runs

    run_ids = list(dict.fromkeys(run_id_for(client, reference) for reference in references))
    if where == HOST:
        spot = Spot(where, str(anchor))
    else:
        spot = Spot(where, run_id_for(client, anchor)) if isinstance(anchor, str) else Spot(where)
    moves = move_runs(client, run_ids, spot)
    if len(moves.done) > 1:  # the first was answered before the last was moved
        moves.done = [client.run(run.run_id) for run in moves.done]
    return moves


def _told(moves: Moves, *, as_json: bool) -> int:
    """Print what became of the runs; the code of the first that was refused."""
    errors = [known for known in map(translated, moves.refused) if known is not None]
    for error in errors:
        click.echo(f"mosaic: {fmt.one_line(str(error))}", err=True)
    if as_json:
        runs = [run_view.run_object(run) for run in moves.done]
        fmt.echo_json({"runs": runs, "errors": [error.as_json() for error in errors]})
    else:
        for run in moves.done:
            click.echo(_sentence(run))
    return errors[0].code if errors else ExitCode.OK


def _sentence(run: pb.Run) -> str:
    """A run that fits has started by now."""
    from gym_gui.services.waiting_line import ANY_HOST, host_asked

    place = f"{fmt.ordinal(run.queue_position)} in line" if run.queue_position else "about to start"
    host = host_asked(run)
    where = f", for {'any host' if host == ANY_HOST else host}" if host else ""
    return f"{run_view.called(run)} is {place}{where}"


def _listed(client: TrainerClient) -> list[dict[str, Any]]:
    """Those in line first, then those that cannot start on this machine as it is."""
    from gym_gui.services.waiting_line import demand, demand_text, in_line, stands_in_line, waiting_line

    queued = _queued(client)
    runs = {run.run_id: run for run in queued}
    line = [
        (one.position, runs[one.run_id], one.wants, one.waits_for)
        for one in waiting_line(in_line(queued), client.health())
    ]
    beside = [(None, run, demand_text(demand(run)), run.reason) for run in queued if not stands_in_line(run)]
    return [
        {
            "position": position,
            "interactive": run.interactive,
            "run_id": run.run_id,
            "name": run.name,
            "asks_for": wants,
            "waits_for": waits_for,
        }
        for position, run, wants, waits_for in [*line, *beside]
    ]


def _queued(client: TrainerClient) -> list[pb.Run]:
    found: list[pb.Run] = []
    token = ""
    while True:
        page = client.runs(size=_MOST_PER_CALL, token=token, states=[RunState.INIT])
        found += page.runs
        token = page.next_page_token
        if not token:
            return found


def _text(listed: Sequence[dict[str, Any]]) -> str:
    if not listed:
        return f"Nothing waits. `{program()} runs` lists all runs."
    headers = ["PLACE", "ID", "NAME", "ASKS FOR", "WAITS FOR"]
    rows = [
        [
            _place(one),
            run_view.short_id(one["run_id"]),
            fmt.one_line(one["name"]),
            one["asks_for"],
            fmt.one_line(one["waits_for"]),
        ]
        for one in listed
    ]
    return fmt.table(headers, rows, shorter=[("ASKS FOR", None)], give_way="WAITS FOR")


def _place(one: dict[str, Any]) -> str:
    if one["position"] is None:
        return "beside"
    return f"{fmt.ordinal(one['position'])}{' session' if one['interactive'] else ''}"
