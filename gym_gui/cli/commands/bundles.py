"""``mosaic bundles``: the requirement bundles of workers and the environments built from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import PlainGroup, json_option
from gym_gui.cli.session import CliSession, program, shortest_path
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from gym_gui.services.trainer.bundles.manager import BundleInfo, BundleManager

_STATUSES = {
    "current": "this interpreter has all of it",
    "ready": "its environment is built",
    "stale": "its environment is out of date",
    "missing": "not installed",
}


def bundle_manager(paths: MosaicPaths) -> BundleManager:
    from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
    from mosaic_protocol.worker_manifest import discover

    return BundleManager(paths, requirement_dirs(discover().workers.values()))


@click.group(cls=PlainGroup, invoke_without_command=True)
@json_option
@click.pass_context
def bundles(ctx: click.Context, as_json: bool) -> None:
    """List or install what workers need.

    A bundle is a list of requirements. Where this interpreter lacks some of it, `mosaic bundles install` builds an
    environment of its own for the workers that name the bundle.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


@bundles.command("list")
@json_option
@click.pass_obj
def list_bundles(session: CliSession, as_json: bool) -> None:
    """List the bundles and whether runs can use them."""
    _list(session, as_json=as_json)


def _list(session: CliSession, *, as_json: bool) -> None:
    found = bundle_manager(session.paths).list()
    if as_json:
        fmt.echo_json({"bundles": [_bundle_object(info) for info in found]})
        return
    if not found:
        click.echo("There are no bundles: no worker names one, and the project's requirements folder is not here.")
        return
    click.echo(fmt.table(["BUNDLE", "STATUS", "MEANING"], [_row(info) for info in found], give_way="MEANING"))
    if any(info.status in ("stale", "missing") and not info.problem for info in found):
        click.echo(fmt.dimmed(f"`{program()} bundles install NAME` builds an environment."))


def _row(info: BundleInfo) -> list[str]:
    if info.problem:
        return [info.name, "fail", fmt.one_line(info.problem)]
    outdated = info.missing if info.status == "stale" else ()
    lacking = f": {', '.join(outdated[:2])}{', …' if len(outdated) > 2 else ''}" if outdated else ""
    return [info.name, info.status, f"{_STATUSES[info.status]}{lacking}"]


def _bundle_object(info: BundleInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "status": info.status,
        "file": str(info.file),
        "python": str(info.python) if info.python else None,
        "missing": list(info.missing),
        "problem": info.problem,
    }


@bundles.command("install")
@click.argument("name", shell_complete=candidates.bundles)
@click.option("--force", is_flag=True, help="Also when this interpreter has all of it.")
@json_option
@click.pass_obj
def install(session: CliSession, name: str, force: bool, as_json: bool) -> None:
    """Build the environment of a bundle, unless it is there already."""
    manager = bundle_manager(session.paths)
    known = {info.name: info for info in manager.list()}
    if name not in known:
        from mosaic_protocol.suggest import did_you_mean

        raise CliError(f"there is no bundle {name[:60]!r}{did_you_mean(name, known)}", ExitCode.REFUSED)
    if known[name].status == "current" and not force:
        if as_json:
            fmt.echo_json({"name": name, "directory": None})
        else:
            click.echo(
                f"{name} needs no environment of its own: {_STATUSES['current']}. --force builds one all the same."
            )
        return
    directory = manager.install(name, lambda line: click.echo(fmt.one_line(line), err=as_json))
    if as_json:
        fmt.echo_json({"name": name, "directory": str(directory)})
    else:
        click.echo(f"{name} is ready in {shortest_path(directory)}")
