"""``mosaic export`` and ``mosaic import``: runs as one file, to be moved or kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates, out_file, run_view
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option
from gym_gui.cli.session import CliSession, named_run, passing_progress, program, require_files_here, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.archive.arriving import Plan
    from gym_gui.services.archive.packing import Packed
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb
    from mosaic_protocol.run_archive import Manifest


@click.command()
@click.argument("words", metavar="RUN|EXPR... FILE", nargs=-1, required=True, shell_complete=candidates.runs)
@click.option("--force", is_flag=True, help="Also over a file that is there.")
@json_option
@click.pass_obj
def export(session: CliSession, words: Sequence[str], force: bool, as_json: bool) -> None:
    """Pack runs into one file.

    FILE ends in .tar.zst, .tar.gz or .tar, which says how it is compressed. It holds everything that the runs own:
    settings, history, metrics, recorded steps, checkpoints, videos, logs, W&B folders, and a hash of every file.
    An expression stands for every run that it finds: mosaic export 'group=paper' paper.tar.zst. Runs that are not over
    are refused. `mosaic import` unpacks it on another machine.
    """
    from gym_gui.services.archive.compression import SUFFIXES
    from gym_gui.services.archive.packing import PackingError, pack

    if len(words) < 2:
        raise click.UsageError("name runs and then the file to write, as in: mosaic export last run.tar.zst")
    out = Path(words[-1])
    out_file.require_place(out, SUFFIXES, force=force, option="FILE")
    with session.client() as client:
        runs = _chosen(client, words[:-1])
        require_files_here(client, session)
        try:
            with passing_progress() as progress:
                packed = pack(client, session.paths, runs, out, progress)
        except PackingError as error:
            raise CliError(str(error), ExitCode.REFUSED) from error
        except OSError as error:
            raise CliError(f"{out} cannot be written: {_reason(error)}", ExitCode.FAILED) from error
    if as_json:
        fmt.echo_json(_exported(packed, out))
    else:
        _tell_exported(packed, out)


def _chosen(client: TrainerClient, words: Sequence[str]) -> list[pb.Run]:
    """Every run once, in the order in which they were named."""
    from gym_gui.services.compare.groups import CompareError, matching_runs
    from gym_gui.services.run_filter import FilterError, parse

    found: dict[str, pb.Run] = {}
    for word in words:
        run = named_run(client, word)
        try:
            if run is None:
                parse(word)
            fitting = [run] if run is not None else list(matching_runs(client.runs, word))
        except (CompareError, FilterError) as error:
            raise CliError(str(error), ExitCode.REFUSED) from error
        if not fitting:
            raise CliError(f"no run matches {word!r}: `{program()} runs --where …` shows what does", ExitCode.REFUSED)
        found.update({one.run_id: one for one in fitting})
    unfinished = [run for run in found.values() if not run_view.is_over(run)]
    if unfinished:
        sentence = f"{run_view.called(unfinished[0])} is not over ({run_view.state_word(unfinished[0])})"
        raise CliError(f"{sentence}: wait for it, cancel it, or leave it out with 'state=over'", ExitCode.REFUSED)
    return list(found.values())


def _exported(packed: Packed, out: Path) -> dict[str, Any]:
    manifest = packed.manifest
    return {
        "file": str(out.absolute()),
        "bytes": packed.size,
        "unpacked_bytes": manifest.total,
        "files": len(manifest.files),
        "seconds": packed.seconds,
        "runs": [{"run_id": run.run_id, "name": run.name, "notes": run.notes} for run in manifest.runs],
    }


def _tell_exported(packed: Packed, out: Path) -> None:
    manifest = packed.manifest
    for note in [note for run in manifest.runs for note in run.notes]:
        click.echo(f"Note: {fmt.one_line(note)}")
    what = f"{fmt.counted(len(manifest.runs), 'run')}, {fmt.counted(len(manifest.files), 'file')}"
    click.echo(f"{what}, {fmt.size(manifest.total)} packed into {fmt.size(packed.size)}.")
    click.echo(f"Written to {shortest_path(out)}")


@click.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), shell_complete=candidates.files)
@click.option("--as-new", is_flag=True, help="Import copies under new ids, also of runs that are here.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and import nothing.")
@json_option
@click.pass_obj
def import_archive(session: CliSession, file: Path, as_new: bool, dry_run: bool, as_json: bool) -> None:
    """Unpack runs that `mosaic export` packed.

    They keep their ids and are like runs of this machine: listed, compared, evaluated, replayed and resumed. A run that
    is here already stays as it is; one that differs is refused. Nothing of an archive is believed: it is checked to its
    end before the first run comes in, and refused whole for the first thing that is wrong.
    """
    from gym_gui.services.archive.arriving import Arriving
    from gym_gui.services.trainer.client import DaemonAwayError
    from mosaic_protocol.run_archive import ArchiveError

    with session.client() as client:
        require_files_here(client, session)
        arriving = Arriving(client, session.paths, as_new=as_new)
        try:
            manifest, plans = arriving.plans(file)
            if not dry_run:
                with passing_progress() as progress:
                    plans = arriving.bring(file, plans, lambda done, total: progress("unpacking", done, total))
        except ArchiveError as error:
            raise CliError(f"{file} cannot be imported: {fmt.one_line(str(error))}", ExitCode.REFUSED) from error
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not file.exists():
                raise CliError(f"there is no file {file}", ExitCode.REFUSED) from error
            raise CliError(f"{file} cannot be imported: {_reason(error)}", ExitCode.FAILED) from error
        except DaemonAwayError as error:
            sentence = f"{error}. A run comes in whole or not at all: give the same command again"
            raise CliError(sentence, ExitCode.DAEMON_AWAY) from error
    if as_json:
        fmt.echo_json(_imported(manifest, plans, dry_run=dry_run))
    else:
        _tell_imported(manifest, plans, dry_run=dry_run)


def _imported(manifest: Manifest, plans: Sequence[Plan], *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "mosaic": manifest.mosaic,
        "created_at": manifest.created_at,
        "unpacked_bytes": manifest.total,
        "runs": [
            {
                "run_id": plan.run_id,
                "name": plan.name,
                "status": str(plan.status),
                "was": plan.archived.run_id,
                "notes": plan.archived.notes,
            }
            for plan in plans
        ],
    }


def _tell_imported(manifest: Manifest, plans: Sequence[Plan], *, dry_run: bool) -> None:
    rows = [[run_view.short_id(plan.run_id), fmt.one_line(plan.name), _word(plan)] for plan in plans]
    click.echo(fmt.table(["ID", "NAME", ""], rows))
    for note in [note for plan in plans for note in plan.archived.notes]:
        click.echo(f"Note: {fmt.one_line(note)}")
    new = [plan for plan in plans if plan.status != "unchanged"]
    if not new:
        click.echo("Nothing is new.")
        return
    what = f"{len(new)} of {fmt.counted(len(plans), 'run')}"
    if dry_run:
        click.echo(f"{what} would be imported, {fmt.size(manifest.total)} unpacked. Leave out --dry-run to do it.")
    else:
        click.echo(f"{what} imported. `{program()} show {run_view.short_id(new[0].run_id)}` shows the first.")


def _word(plan: Plan) -> str:
    return "here already, the same" if plan.status == "unchanged" else str(plan.status)


def _reason(error: OSError) -> str:
    named = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{named}"
