"""``mosaic import-logs``: the event files of others, made into runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates, run_view
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option
from gym_gui.cli.session import CliSession, passing_notice, program, shortest_path

if TYPE_CHECKING:
    from gym_gui.services.scalars.log_import import LogFolder, Plan, Wishes


@click.command("import-logs")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path), shell_complete=candidates.folders)
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and import nothing.")
@click.option("--name", metavar="NAME", default="", help="What to call the run, or to begin the names of several with.")
@click.option("--tag", "tags", metavar="T", multiple=True, help="A short text to find the runs by; may be repeated.")
@click.option("--group", metavar="G", default="", help="The experiment that the runs are of.")
@click.option("--algo", metavar="A", default="", help="What trained, where the logs do not say.")
@click.option("--env-id", metavar="E", default="", help="What it trained on, where the logs do not say.")
@click.option("--return", "returns_from", metavar="TAG", default="", help="The metric that is the return of episodes.")
@json_option
@click.pass_obj
def import_logs(
    session: CliSession,
    folder: Path,
    dry_run: bool,
    name: str,
    tags: Sequence[str],
    group: str,
    algo: str,
    env_id: str,
    returns_from: str,
    as_json: bool,
) -> int:
    """Make runs of event files that others wrote.

    Each folder at and below DIR that holds event files of TensorBoard becomes a run, with every scalar in it and with
    the settings that the hparams plugin or a CleanRL script left there. A folder that was imported before gets what is
    new since. Imported runs are listed, shown and compared like any other; they cannot be resumed.
    """
    from gym_gui.services.scalars.log_import import Wishes

    wishes = Wishes(name, tuple(tags), group, algo, env_id, returns_from)
    plans = _imported(session, folder, wishes, dry_run=dry_run)
    nothing = all(plan.why_not for plan in plans)
    if as_json:
        fmt.echo_json({"runs": [_object(plan) for plan in plans], "dry_run": dry_run})
        return ExitCode.REFUSED if nothing else ExitCode.OK
    if not (nothing and len(plans) == 1):  # of a single folder the refusal below says all there is to say
        _tell(plans, dry_run=dry_run)
        if wishes != Wishes() and any(plan.imported for plan in plans):
            click.echo("mosaic: runs that were imported before keep their names, tags and settings", err=True)
    if nothing:
        raise CliError(f"nothing in {folder} can be imported: {fmt.one_line(_notes(plans[0])[0])}", ExitCode.REFUSED)
    return ExitCode.OK


def _imported(session: CliSession, folder: Path, wishes: Wishes, *, dry_run: bool) -> list[Plan]:
    try:
        from gym_gui.services.scalars.log_import import ImportRefusedError, LogImport, survey
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        sentence = "reading event files needs numpy, which is not installed here: `pip install numpy==2.4.6` does that"
        raise CliError(sentence, ExitCode.FAILED) from error
    try:
        with passing_notice("reading the event files…"):
            found: list[LogFolder] = survey(folder, session.paths.root)
        with session.client() as client:
            work = LogImport(client, wishes)
            plans = work.plans(found)
            if dry_run:
                return plans
            with passing_notice("importing…"):
                return [work.bring(plan) for plan in plans]
    except ImportRefusedError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error


def _status(plan: Plan) -> str:
    """What becomes of a folder, in a word."""
    if plan.why_not:
        return "skipped"
    if not plan.imported:
        return "new"
    return "more" if plan.new_points else "unchanged"


def _object(plan: Plan) -> dict[str, Any]:
    found, run = plan.found, plan.run
    return {
        "folder": found.source,
        "status": _status(plan),
        "name": run.name if run is not None else plan.config.get("run_name", found.name),
        "run_id": run.run_id if run is not None else None,
        "points": found.total,
        "new_points": plan.new_points,
        "last_step": found.last_step,
        "metrics": sorted(found.tags),
        "others": dict(found.others),
        "settings": dict(found.settings),
        "files": [str(file) for file in found.files],
        "why_not": plan.why_not or None,
        "notes": list(found.notes),
    }


def _tell(plans: Sequence[Plan], *, dry_run: bool) -> None:
    headers = ["ID", "NAME", "", "ALGO", "ENVIRONMENT", "METRICS", "NEW POINTS", "STEPS", "FOLDER"]
    rows = [_row(plan) for plan in plans]
    if all(row[0] == fmt.MISSING for row in rows):
        headers, rows = headers[1:], [row[1:] for row in rows]
    right = frozenset({"METRICS", "NEW POINTS", "STEPS"})
    shorter: list[fmt.Shorter] = [("METRICS", None), ("ENVIRONMENT", None), ("ALGO", None)]
    click.echo(fmt.table(headers, rows, right=right, shorter=shorter, give_way="FOLDER", in_the_middle=True))
    for plan in plans:
        for note in _notes(plan):
            click.echo(f"{fmt.one_line(plan.found.name)}: {fmt.one_line(note)}")
    click.echo(_ending(plans, dry_run=dry_run))


def _row(plan: Plan) -> list[str]:
    found, run = plan.found, plan.run
    settings = found.settings
    return [
        run_view.short_id(run.run_id) if run is not None else fmt.MISSING,
        fmt.one_line(run.name if run is not None else str(plan.config.get("run_name", found.name))),
        _status(plan),
        fmt.one_line(run.algo if run is not None else str(settings.get("algo", ""))) or fmt.MISSING,
        fmt.one_line(run.env_id if run is not None else str(settings.get("env_id", ""))) or fmt.MISSING,
        f"{len(found.tags):,}",
        f"{plan.new_points:,}",
        f"{found.last_step:,}",
        fmt.one_line(shortest_path(found.folder)),
    ]


def _ending(plans: Sequence[Plan], *, dry_run: bool) -> str:
    new = [plan for plan in plans if plan.new_points]
    points = sum(plan.new_points for plan in new)
    if not new:
        return "Nothing is new." if any(plan.imported for plan in plans) else "Nothing was imported."
    what = f"{fmt.counted(points, 'point')} in {fmt.counted(len(new), 'run')}"
    if dry_run:
        return f"{what} would be imported. Leave out --dry-run to do it."
    return f"{what} imported. `{program()} runs --where worker=imported` lists them."


def _notes(plan: Plan) -> Sequence[str]:
    """What is to be said of a folder. That it has no scalars follows from what is wrong with its files."""
    troubles = plan.found.notes
    return troubles if troubles and not plan.found.total else [*troubles, *([plan.why_not] if plan.why_not else [])]
