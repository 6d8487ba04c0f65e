"""``mosaic datasets``: recorded episodes as data to learn from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import ExitCode
from gym_gui.cli.options import PlainGroup, json_option, run_argument
from gym_gui.cli.recorded import step_source
from gym_gui.cli.session import CliSession, program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.datasets import DatasetEntry

_SOURCE_WORDS = (("run_name", "run"), ("run_id", "run id"), ("worker", "worker"), ("algo", "algorithm"))
_dataset_argument = click.argument("name", metavar="NAME", shell_complete=candidates.datasets)


@click.group(cls=PlainGroup, invoke_without_command=True)
@json_option
@click.pass_context
def datasets(ctx: click.Context, as_json: bool) -> None:
    """List, make or export datasets of recorded episodes.

    A dataset holds whole episodes of a run whose steps were recorded, with who acted in each step.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


@datasets.command("list")
@json_option
@click.pass_obj
def list_datasets(session: CliSession, as_json: bool) -> None:
    """List the datasets there are."""
    _list(session, as_json=as_json)


def _list(session: CliSession, *, as_json: bool) -> None:
    from gym_gui.services.datasets import DatasetRegistry

    found = DatasetRegistry(session.paths).list()
    if as_json:
        fmt.echo_json({"datasets": [_object(entry) for entry in found]})
        return
    if not found:
        click.echo(f"There are no datasets yet: `{program()} datasets from-run RUN NAME` makes one.")
        return
    headers = ["NAME", "ENVIRONMENT", "EPISODES", "STEPS", "ACTORS", "SIZE", "MADE"]
    click.echo(fmt.table(headers, [_row(entry) for entry in found], right=frozenset({"EPISODES", "STEPS", "SIZE"})))


def _row(entry: DatasetEntry) -> list[str]:
    if entry.problem:
        return [fmt.one_line(entry.name), fmt.one_line(entry.problem), *([fmt.MISSING] * 5)]
    told = entry.manifest
    counts = [f"{told['episodes']:,}", f"{told['steps']:,}"]
    made = [fmt.size(told["bytes"]), fmt.moment(told["created_at"])]
    return [entry.name, fmt.one_line(str(told.get("env_id") or fmt.MISSING)), *counts, _actors(told), *made]


@datasets.command()
@_dataset_argument
@json_option
@click.pass_obj
def show(session: CliSession, name: str, as_json: bool) -> int:
    """Show where a dataset came from, with every byte checked.

    Exit code 1: it was changed since it was written.
    """
    from gym_gui.services.datasets import DatasetRegistry

    entry = DatasetRegistry(session.paths).find(name)
    entry.require_readable()
    problem = entry.integrity()
    if as_json:
        fmt.echo_json({**_object(entry), "damaged": problem or None})
    else:
        _tell(entry, problem)
    return ExitCode.FAILED if problem else ExitCode.OK


def _tell(entry: DatasetEntry, problem: str) -> None:
    told, source = entry.manifest, entry.manifest["source"]
    played = source.get("checkpoint")
    mean, least, most = (_number(told["returns"].get(name)) for name in ("mean", "min", "max"))
    facts = [
        ("environment", str(told.get("env_id") or fmt.MISSING)),
        ("episodes", f"{told['episodes']:,}, {fmt.counted(told['steps'], 'step')}"),
        ("return", f"mean {mean}, {least} to {most}"),
        ("actors", _actors(told)),
        *((word, str(source[key])) for key, word in _SOURCE_WORDS if source.get(key)),
        *([("checkpoint", str(played["path"]))] if isinstance(played, dict) and "path" in played else []),
        ("left out", _left_out(told) or "none"),
        ("spaces", _spaces(told)),
        ("sha256", f"{told['sha256']}, {problem or 'matches'}"),
        ("file", shortest_path(entry.data)),
    ]
    click.echo(entry.name)
    click.echo(fmt.pairs([(name, fmt.one_line(value)) for name, value in facts]))


@datasets.command("from-run")
@run_argument
@click.argument("name", metavar="NAME")
@click.option(
    "--only", metavar="actor=NAME", help="Episodes in which this actor made every step; or agent=ID, episode=N."
)
@json_option
@click.pass_obj
def from_run(session: CliSession, run: str, name: str, only: str | None, as_json: bool) -> None:
    """Make a dataset of a run's whole episodes.

    Episodes that were not played to their end are left out and counted. RUN may also be the folder that `mosaic eval
    --record` names. Needs h5py.
    """
    from gym_gui.services.datasets.from_steps import Only, make, require_h5py

    require_h5py()
    wanted = Only.parse(only) if only is not None else None
    with step_source(session, run) as source:
        try:
            entry = make(source, name, session.paths, wanted, _progress(quiet=as_json))
        finally:
            if _shows(quiet=as_json):
                click.echo("\r\x1b[K", nl=False, err=True)
    if as_json:
        fmt.echo_json(_object(entry))
        return
    told = entry.manifest
    size = f"{fmt.counted(told['episodes'], 'episode')}, {fmt.counted(told['steps'], 'step')}"
    click.echo(f"{entry.name}: {size} ({_actors(told)})")
    if told["left_out"]:
        click.echo(fmt.hanging(f"Left out: {_left_out(told)}."))
    if told["spaces_note"]:
        click.echo(fmt.hanging(fmt.one_line(f"The spaces are those that the data shows: {told['spaces_note']}.")))
    click.echo(fmt.dimmed(shortest_path(entry.data)))


@datasets.command("export")
@_dataset_argument
@click.option("--minari", metavar="ID", required=True, help="What Minari is to call it: NAMESPACE/NAME-vN.")
@json_option
@click.pass_obj
def export(session: CliSession, name: str, minari: str, as_json: bool) -> None:
    """Put a dataset where Minari looks for its own.

    That is MINARI_DATASETS_PATH, or ~/.minari/datasets. Then `minari.load_dataset(ID)` reads it.
    """
    from gym_gui.services.datasets import DatasetRegistry
    from gym_gui.services.datasets.minari_export import export as exported

    folder = exported(DatasetRegistry(session.paths).find(name), minari)
    if as_json:
        fmt.echo_json({"id": minari, "path": str(folder)})
    else:
        click.echo(f"{shortest_path(folder)}: minari.load_dataset({minari!r}) reads it")


def _shows(*, quiet: bool) -> bool:
    return not quiet and sys.stderr.isatty()


def _progress(*, quiet: bool) -> Any:
    if not _shows(quiet=quiet):
        return lambda episodes, steps: None
    return lambda episodes, steps: click.echo(f"\r{episodes:,} episodes, {steps:,} steps\x1b[K", nl=False, err=True)


def _object(entry: DatasetEntry) -> dict[str, Any]:
    if entry.problem:
        return {"name": entry.name, "path": str(entry.folder), "problem": entry.problem}
    kept = {key: value for key, value in entry.manifest.items() if key not in ("v", "name")}
    return {"name": entry.name, "path": str(entry.folder), "problem": None, **kept}


def _number(value: float | None) -> str:
    return fmt.MISSING if value is None else fmt.quantity(value)


def _actors(told: dict[str, Any]) -> str:
    return ", ".join(f"{fmt.one_line(actor or 'nobody named')} {count:,}" for actor, count in told["actors"].items())


def _left_out(told: dict[str, Any]) -> str:
    return ", ".join(f"{fmt.counted(count, 'episode')} ({why})" for why, count in told["left_out"].items())


def _spaces(told: dict[str, Any]) -> str:
    origins = {told.get("observation_space_from"), told.get("action_space_from")}
    return "of the environment" if origins == {"environment"} else "as the data shows them"
