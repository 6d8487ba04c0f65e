"""``mosaic tensorboard``: the curves of runs in TensorBoard, on one server for all who look at them."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gym_gui.cli import candidates, run_view
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, json_option, run_filters
from gym_gui.cli.session import CliSession, passing_notice, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.tensorboard.run_folders import Found
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_RUNS = 500


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=candidates.runs)
@run_filters
@click.option("--port", type=Count(0, 65535), default=0, help="Where it listens.  [default: any port that is free]")
@click.option("--open", "opens", is_flag=True, help="Open it in the web browser.")
@json_option
@click.pass_obj
def tensorboard(
    session: CliSession,
    runs: Sequence[str],
    states: Sequence[tuple[str, ...]],
    outcomes: Sequence[tuple[str, ...]],
    search: str,
    where: str,
    port: int,
    opens: bool,
    as_json: bool,
) -> None:
    """Show runs in TensorBoard until Ctrl-C.

    Without RUN, those that the filters leave, at most 500, newest first. It listens on this machine alone. Who asks for
    the same runs in another terminal, or in the cockpit, gets the same server, which ends with the last of them.
    """
    of_state = f" state={','.join(sum(states, ()))}" if states else ""
    filters = (sum(outcomes, ()), search, where + of_state)
    if runs and any(filters):
        raise click.UsageError("name runs, or filter them: not both")
    with session.client() as client:
        found = _found(session, client, runs, filters)
    _serve(session, found, port, opens=opens, as_json=as_json)


def _found(
    session: CliSession, client: TrainerClient, names: Sequence[str], filters: tuple[tuple[str, ...], str, str]
) -> Found:
    from gym_gui.services.tensorboard.run_folders import folders_of
    from gym_gui.services.training_telemetry import TrainingTelemetryService

    chosen: list[pb.Run]
    if names:
        chosen = list({run.run_id: run for run in (client.run(run_id_for(client, name)) for name in names)}.values())
    else:
        outcomes, search, where = filters
        page = client.runs(size=_MOST_RUNS, outcomes=outcomes, search=search, where=where)
        chosen = list(page.runs)
        if page.total > len(chosen):
            click.echo(f"mosaic: the newest {len(chosen):,} of {page.total:,} runs; filters show others", err=True)
    with passing_notice("looking for event files…"):
        found = folders_of(chosen, TrainingTelemetryService(client, session.paths))
    if not found.folders:
        why = fmt.one_line(found.notes[0]) if found.notes else "there are no such runs"
        raise CliError(f"there is nothing to show: {why}", ExitCode.REFUSED)
    if names:
        for note in found.notes:
            click.echo(f"mosaic: {fmt.one_line(note)}", err=True)
    return found


def _serve(session: CliSession, found: Found, port: int, *, opens: bool, as_json: bool) -> None:
    from gym_gui.services.tensorboard.lease import TensorBoardError, TensorBoardLease

    with TensorBoardLease(session.paths, found.folders, port=port) as lease:
        try:
            with passing_notice("starting TensorBoard…"):
                address = lease.open()
        except TensorBoardError as error:
            raise CliError(str(error), ExitCode.FAILED) from error
        if port and f":{port}/" not in address:
            click.echo(f"mosaic: these runs are served already, on another port than {port}", err=True)
        _tell(found, address, as_json=as_json)
        if opens and not webbrowser.open(address):
            click.echo("mosaic: no web browser could be opened: open the address in one yourself", err=True)
        try:
            ended = lease.wait()
        except KeyboardInterrupt:
            return
        if ended:
            raise CliError(ended, ExitCode.FAILED)


def _tell(found: Found, address: str, *, as_json: bool) -> None:
    if as_json:
        runs = [
            {"run_id": run.run_id, "name": name, "folder": str(found.folders[name])} for name, run in found.runs.items()
        ]
        fmt.echo_json({"address": address, "runs": runs, "notes": found.notes})
        return
    only = next(iter(found.runs.values()))
    what = run_view.called(only) if len(found.runs) == 1 else fmt.counted(len(found.runs), "run")
    click.echo(f"TensorBoard shows {fmt.one_line(what)} at {address} until Ctrl-C.")
