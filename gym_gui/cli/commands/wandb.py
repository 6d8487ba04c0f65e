"""``mosaic wandb``: what Weights & Biases recorded of a run, its upload, and whether W&B can be reached."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view, wandb_view
from gym_gui.cli.commands.metrics import write_csv
from gym_gui.cli.errors import ExitCode
from gym_gui.cli.options import PlainGroup, help_when_alone, json_option, run_argument, runs_argument
from gym_gui.cli.session import CliSession, passing_notice, run_id_for

if TYPE_CHECKING:
    from gym_gui.services.wandb.run_side import WandbSide
    from mosaic_protocol.proto import trainer_pb2 as pb


@click.group(cls=PlainGroup, invoke_without_command=True)
@click.pass_context
def wandb(ctx: click.Context) -> None:
    """See and upload what Weights & Biases recorded of runs.

    A run is tracked when it is started with --track. The key comes from WANDB_API_KEY, the keyring or ~/.netrc; it is
    never shown and never stored.
    """
    help_when_alone(ctx)


# ---- show --------------------------------------------------------------------------------------------------------


@wandb.command()
@run_argument
@click.option("--tag", "tags", metavar="T", multiple=True, help="Only this metric; may be repeated.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every point as tag,step,value,wall_time.")
@json_option
@click.pass_obj
def show(session: CliSession, run: str, tags: Sequence[str], as_csv: bool, as_json: bool) -> None:
    """Show what W&B recorded of a run, without network.

    Reads the file in the run's folder, also while the run goes on: curves, summary, settings, system metrics and media,
    the link of the run's page, and whether all of it was uploaded.
    """
    if as_csv and as_json:
        raise click.UsageError("choose one of --csv and --json")
    from gym_gui.services.wandb.watcher import WandbWatcher

    found = _run(session, run)
    with passing_notice("reading…"):
        news = WandbWatcher(Path(found.run_dir)).look(is_over=run_view.is_over(found))
    series = wandb_view.series_of(news.columns, tags, found)
    if as_json:
        fmt.echo_json(wandb_view.run_object(found, news, series))
    elif as_csv:
        from gym_gui.services.scalars.metric_table import Stretch

        write_csv(Stretch(one.tag, one.steps, one.values, one.wall_times) for one in series)
    else:
        wandb_view.tell_run(found, news, series)


def _run(session: CliSession, word: str) -> pb.Run:
    with session.client() as client:
        return client.run(run_id_for(client, word))


# ---- sync --------------------------------------------------------------------------------------------------------


@wandb.command()
@runs_argument
@json_option
@click.pass_obj
def sync(session: CliSession, runs: Sequence[str], as_json: bool) -> int:
    """Upload runs that were recorded offline, or whose upload was broken off.

    Runs wandb's own sync, one run after the other. Ctrl-C ends it; what is missing is sent the next time.
    """
    from gym_gui.services.wandb.preparation import NothingToUploadError, UploadRefusedError, prepare_upload

    with session.client() as client:
        chosen = list({run.run_id: run for run in (client.run(run_id_for(client, word)) for word in runs)}.values())
    done = []
    for run in chosen:
        try:
            prepared = prepare_upload(run, session.paths, os.environ)
            prepared.require_answer()
        except NothingToUploadError as error:
            done.append(_Synced(run, error.side, ""))
        except UploadRefusedError as error:
            done.append(_Synced(run, None, str(error)))
        else:
            done.append(_upload(run, prepared, as_json=as_json))
        if not as_json:
            _tell_synced(done[-1])
    if as_json:
        fmt.echo_json({"runs": [_synced_object(one) for one in done]})
    return ExitCode.FAILED if any(one.problem for one in done) else ExitCode.OK


@dataclass(frozen=True)
class _Synced:
    run: pb.Run
    side: WandbSide | None
    problem: str


def _upload(run: pb.Run, prepared: Any, *, as_json: bool) -> _Synced:
    try:
        with prepared.start() as upload:
            for line in upload.lines():
                if not as_json:
                    click.echo(fmt.dimmed(f"  {fmt.one_line(line)}"))
            came_of_it = upload.result()
    except OSError as error:
        return _Synced(run, None, f"wandb could not be started: {error.strerror or error}")
    return _Synced(run, came_of_it.side, came_of_it.problem)


def _tell_synced(one: _Synced) -> None:
    if one.problem:
        click.echo(f"mosaic: {run_view.called(one.run)}: {fmt.one_line(one.problem)}", err=True)
    else:
        url = one.side.url if one.side is not None else ""
        click.echo(f"{run_view.called(one.run)} is uploaded{f': {url}' if url else '.'}")


def _synced_object(one: _Synced) -> dict[str, Any]:
    return {
        "run_id": one.run.run_id,
        "upload": str(one.side.upload) if one.side is not None else None,
        "url": (one.side.url or None) if one.side is not None else None,
        "problem": one.problem or None,
    }


# ---- check -------------------------------------------------------------------------------------------------------


@wandb.command()
@json_option
@click.pass_obj
def check(session: CliSession, as_json: bool) -> int:
    """Say whether W&B can be used from here.

    Whether wandb is installed, where the key comes from, which proxy is used, and whether the server answers and knows
    the key. Exits with 1 when it cannot be used.
    """
    from gym_gui.services.package_python import python_with
    from gym_gui.services.wandb.route import NoRouteError, Reach, probe, route_from
    from mosaic_protocol.wandb_keys import find_key

    with passing_notice("asking W&B…"):
        key, python = find_key(os.environ), python_with("wandb", session.paths)
        route = None
        try:
            route = route_from(os.environ)
            reach = probe(route, key)
        except NoRouteError as error:
            reach = Reach(False, problem=str(error))
    is_fine = bool(python) and key is not None and reach.answers and reach.key_is_good is not False
    if as_json:
        fmt.echo_json(wandb_view.check_object(python, key, route, reach))
    else:
        click.echo(fmt.pairs(wandb_view.check_facts(python, key, route, reach)))
    return ExitCode.OK if is_fine else ExitCode.FAILED
