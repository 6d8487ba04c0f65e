"""``mosaic datasets``: data to learn from, listed, looked into, checked, handed on and removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.commands import dataset_view as view
from gym_gui.cli.commands.datasets_making import COMMANDS
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, PlainGroup, json_option
from gym_gui.cli.session import CliSession, program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.datasets import DatasetEntry

_dataset_argument = click.argument("name", metavar="NAME", shell_complete=candidates.datasets)


@click.group(cls=PlainGroup, invoke_without_command=True)
@json_option
@click.pass_context
def datasets(ctx: click.Context, as_json: bool) -> None:
    """List, make, check or export datasets to learn from.

    A dataset holds whole episodes: of a run, of policies that played, or of a file of D4RL's or Minari's.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


for _command in COMMANDS:
    datasets.add_command(_command)


@datasets.command("list")
@json_option
@click.pass_obj
def list_datasets(session: CliSession, as_json: bool) -> None:
    """List the datasets there are.

    DATA says whether the file is as it was written: verified, unverified, corrupt or absent.
    """
    _list(session, as_json=as_json)


def _list(session: CliSession, *, as_json: bool) -> None:
    from gym_gui.services.datasets import DatasetRegistry

    found = DatasetRegistry(session.paths).list()
    if as_json:
        fmt.echo_json({"datasets": [view.as_object(entry) for entry in found]})
        return
    if not found:
        click.echo(f"There are no datasets yet: `{program()} datasets from-run RUN NAME` makes one.")
        return
    click.echo(fmt.table(view.HEADERS, [view.row(entry) for entry in found], right=view.RIGHT))


@datasets.command()
@_dataset_argument
@json_option
@click.pass_obj
def show(session: CliSession, name: str, as_json: bool) -> int:
    """Show what is in a dataset and where it came from, with every byte checked.

    Exit code 1: it was changed since it was written.
    """
    entry, problem = _checked(session, name, quiet=as_json)
    if as_json:
        fmt.echo_json({**view.as_object(entry), "damaged": problem or None})
    else:
        view.tell_all(entry, problem)
    return ExitCode.FAILED if problem else ExitCode.OK


@datasets.command()
@_dataset_argument
@click.option("--episode", type=Count(0, 10**12), help="Whose rows to print.  [default: the best one]")
@click.option("--rows", type=Count(1, 200), default=20, show_default=True, help="How many rows at most.")
@json_option
@click.pass_obj
def look(session: CliSession, name: str, episode: int | None, rows: int, as_json: bool) -> None:
    """Look inside a dataset.

    Prints how returns and lengths are spread, ranges against the bounds of the environment, some episodes, and the
    first rows of one. Needs h5py.
    """
    from gym_gui.services.datasets import DatasetRegistry
    from gym_gui.services.datasets.making import require_h5py

    require_h5py()
    from gym_gui.services.datasets.looking import look_inside

    found = look_inside(DatasetRegistry(session.paths).find(name), episode, rows)
    if as_json:
        fmt.echo_json(found.as_json())
    else:
        view.tell_inside(found)


@datasets.command()
@_dataset_argument
@json_option
@click.pass_obj
def verify(session: CliSession, name: str, as_json: bool) -> int:
    """Check every byte of a dataset against its hash.

    Exit code 1: it was changed since it was written.
    """
    entry, problem = _checked(session, name, quiet=as_json)
    if as_json:
        fmt.echo_json(
            {"name": name, "integrity": str(entry.badge), "sha256": entry.manifest.sha256, "why": problem or None}
        )
    else:
        click.echo(f"{name}: {entry.badge}{f', {problem}' if problem else ''}")
    return ExitCode.FAILED if problem else ExitCode.OK


def _checked(session: CliSession, name: str, *, quiet: bool) -> tuple[DatasetEntry, str]:
    from gym_gui.services.datasets import DatasetRegistry

    registry = DatasetRegistry(session.paths)
    entry = registry.find(name)
    progress = view.Progress(quiet=quiet)
    try:
        problem = entry.integrity(lambda read: progress.hashed(read, entry.manifest.bytes))
    finally:
        progress.clear()
    return registry.find(name), problem  # with what the check found


@datasets.command("export")
@_dataset_argument
@click.option("--minari", metavar="ID", help="What Minari is to call it: NAMESPACE/NAME-vN.")
@click.option("--d4rl", metavar="FILE", type=click.Path(path_type=Path), help="The HDF5 file to write, in D4RL's form.")
@json_option
@click.pass_obj
def export(session: CliSession, name: str, minari: str | None, d4rl: Path | None, as_json: bool) -> None:
    """Hand a dataset to other programs.

    Minari looks for its own in MINARI_DATASETS_PATH, or ~/.minari/datasets: then `minari.load_dataset(ID)` reads it.
    """
    from gym_gui.services.datasets import DatasetRegistry

    if (minari is None) == (d4rl is None):
        raise click.UsageError("give one of --minari ID and --d4rl FILE")
    entry = DatasetRegistry(session.paths).find(name)
    if d4rl is not None:
        _export_d4rl(entry, d4rl.expanduser().absolute(), as_json=as_json)
        return
    from gym_gui.services.datasets.minari_export import export as exported

    folder = exported(entry, str(minari))
    if as_json:
        fmt.echo_json({"id": minari, "path": str(folder)})
    else:
        click.echo(f"{shortest_path(folder)}: minari.load_dataset({minari!r}) reads it")


def _export_d4rl(entry: DatasetEntry, file: Path, *, as_json: bool) -> None:
    from gym_gui.services.datasets.d4rl_export import export as exported

    progress = view.Progress(quiet=as_json)
    try:
        rows = exported(entry, file, progress.rows)
    finally:
        progress.clear()
    if as_json:
        fmt.echo_json({"path": str(file), "rows": rows})
    else:
        click.echo(f"{shortest_path(file)}: {fmt.counted(rows, 'step')}")


@datasets.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.datasets)
@click.option("--force", is_flag=True, help="Also what a run or a checkpoint still needs.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
@click.pass_obj
def prune(session: CliSession, names: tuple[str, ...], force: bool, dry_run: bool, as_json: bool) -> None:
    """Remove datasets.

    One that a queued or running run, or a checkpoint, learns from is kept unless --force is given; then nothing of the
    others is removed either.
    """
    from gym_gui.services.datasets import DatasetRegistry
    from gym_gui.services.datasets.pruning import remove, uses

    registry = DatasetRegistry(session.paths)
    entries = [registry.find(name) for name in dict.fromkeys(names)]
    client = session.impatient_client()
    if client is None and session.paths.registry_db.exists():
        with session.client() as started:
            needed = {entry.name: uses(entry, started, session.paths) for entry in entries}
    else:
        needed = {entry.name: uses(entry, client, session.paths) for entry in entries}
        if client is not None:
            client.close()
    kept = {name: use for name, use in needed.items() if use}
    if kept and not force and not dry_run:
        name, use = next(iter(kept.items()))
        raise CliError(f"the dataset {name!r} is needed by {use}: --force removes it all the same", ExitCode.REFUSED)
    for entry in entries if not dry_run else ():
        remove(entry)
    _tell_pruned(entries, {name: str(use) for name, use in needed.items()}, dry_run=dry_run, as_json=as_json)


def _tell_pruned(entries: list[DatasetEntry], needed: dict[str, str], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        told = [
            {"name": entry.name, "bytes": _size(entry), "needed_by": needed[entry.name] or None} for entry in entries
        ]
        fmt.echo_json({"removed": not dry_run, "datasets": told})
        return
    word = "would be removed" if dry_run else "removed"
    for entry in entries:
        why = f"; needed by {needed[entry.name]}" if needed[entry.name] else ""
        click.echo(f"{entry.name}: {word}, {fmt.size(_size(entry))}{why}")


def _size(entry: DatasetEntry) -> int:
    return entry.found.bytes if entry.found is not None else 0
