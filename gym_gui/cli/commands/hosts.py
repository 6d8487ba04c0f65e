"""``mosaic hosts``: other machines that runs can go to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, PlainGroup, json_option
from gym_gui.cli.session import CliSession, program
from gym_gui.services.hosts.book import DEFAULT_FOLDER, SLURM, SSH, Host, HostBook
from gym_gui.services.hosts.standing import is_known, labels_of, reached_by, standing, why_needed

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


def _host_argument(function: Any) -> Any:
    return click.argument("name", metavar="NAME", shell_complete=candidates.hosts)(function)


@click.group(cls=PlainGroup, invoke_without_command=True)
@json_option
@click.pass_context
def hosts(ctx: click.Context, as_json: bool) -> None:
    """List, add or check machines that runs can go to.

    `mosaic train … --host NAME` runs on one, over SSH, `--host any` where there is room first. A host needs an SSH
    server and a Python with what workers need; MOSAIC's code is sent there.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)
    elif as_json:
        raise click.UsageError("--json goes behind the name of the command")


@hosts.command("list")
@json_option
@click.pass_obj
def list_hosts(session: CliSession, as_json: bool) -> None:
    """List the hosts, and how they are doing."""
    _list(session, as_json=as_json)


@hosts.command()
@click.argument("name", metavar="NAME")
@click.argument("destination", metavar="[USER@HOST]", default="")
@click.option("--slurm", is_flag=True, help="A cluster under Slurm, by its login node; without USER@HOST this one.")
@click.option("--partition", default="", metavar="NAME", help="Slurm's partition for the jobs of runs.")
@click.option("--account", default="", metavar="NAME", help="Slurm's account that they are counted on.")
@click.option("--time", "time", default="", metavar="TIME", help="Their time limit, such as 12:00:00 or 2-00.")
@click.option("--gpus", type=Count(0), default=0, help="GPUs that runs may have under Slurm together.  [default: none]")
@click.option("--python", default="", metavar="PATH", help="An interpreter there that has all that workers need.")
@click.option(
    "--folder", default=DEFAULT_FOLDER, metavar="DIR", show_default=True, help="Where MOSAIC's files go there."
)
@click.option("--cpus", type=Count(0), default=0, help="CPUs that runs may have there.  [default: all]")
@click.option("--memory-mb", type=Count(0), default=0, help="Memory that runs may have there.  [default: all]")
@click.option(
    "--label", "labels", metavar="LABEL", multiple=True, help="What runs may ask for with --label. Repeatable."
)
@json_option
@click.pass_obj
def add(session: CliSession, /, name: str, destination: str, slurm: bool, as_json: bool, **fields: Any) -> None:
    """Add a host by what `ssh` calls it, or a cluster under Slurm by its login node.

    Nothing is sent there yet: `mosaic hosts check NAME` does that, and says what is missing.
    """
    if not destination and not slurm:
        raise click.UsageError("say how the host is reached, USER@HOST, or that it is a cluster, --slurm")
    host = Host(name, destination, kind=SLURM if slurm else SSH, **fields)
    HostBook(session.paths).add(host)
    if as_json:
        fmt.echo_json(_object(host, None))
    else:
        click.echo(f"{name} is a host now. `{program()} hosts check {name}` looks whether runs can go there.")


@hosts.command()
@_host_argument
@json_option
@click.pass_obj
def check(session: CliSession, name: str, as_json: bool) -> int:
    """Look whether runs can go to a host: SSH, Python, disk, clock, GPUs, code, Slurm."""
    from gym_gui.services.hosts.checks import examine

    host = HostBook(session.paths).get(name)
    found = examine(host, may_ask=sys.stdin.isatty() and not as_json)
    is_fine = all(one.status != "fail" for one in found)
    if as_json:
        told = [{"check": one.what, "status": one.status, "finding": one.sentence} for one in found]
        fmt.echo_json({"name": name, "ok": is_fine, "checks": told})
    else:
        rows = [[one.what, one.status, fmt.one_line(one.sentence)] for one in found]
        click.echo(fmt.table(["CHECK", "STATUS", "FINDING"], rows, give_way="FINDING"))
    return ExitCode.OK if is_fine else ExitCode.FAILED


@hosts.command()
@_host_argument
@json_option
@click.pass_obj
def remove(session: CliSession, name: str, as_json: bool) -> None:
    """Remove a host that no run needs. Its files stay there."""
    book = HostBook(session.paths)
    book.get(name)
    _require_unused(session, name)
    book.remove(name)
    if as_json:
        fmt.echo_json({"name": name, "removed": True})
    else:
        click.echo(f"{name} is no host any more.")


@hosts.command()
@_host_argument
@click.option("--off", is_flag=True, help="Let runs start there again.")
@json_option
@click.pass_obj
def drain(session: CliSession, name: str, off: bool, as_json: bool) -> None:
    """Let no further run start on a host. Those that run there go on."""
    host = HostBook(session.paths).change(name, drained=not off)
    if as_json:
        fmt.echo_json(_object(host, None))
    else:
        click.echo(f"Runs start on {name} again." if off else f"No further run starts on {name}.")


@hosts.command()
@_host_argument
@click.argument("labels", metavar="[LABEL]...", nargs=-1, shell_complete=candidates.host_labels)
@json_option
@click.pass_obj
def label(session: CliSession, name: str, labels: Sequence[str], as_json: bool) -> None:
    """Label a host with these instead of what it had; without any it has none.

    `--label LABEL` of `train` and `sweep` goes to hosts that have it. A host with a GPU is labelled gpu by itself.
    """
    host = HostBook(session.paths).change(name, labels=tuple(labels))
    if as_json:
        fmt.echo_json(_object(host, None))
    else:
        click.echo(f"{name} is labelled {', '.join(host.labels)}." if host.labels else f"{name} has no label.")


@hosts.command()
@_host_argument
@click.argument("bundles", metavar="[BUNDLE]...", nargs=-1, shell_complete=candidates.bundles)
@json_option
@click.pass_obj
def install(session: CliSession, name: str, bundles: Sequence[str], as_json: bool) -> None:
    """Build environments on a host: what every worker needs, and these bundles.

    Without a bundle: what `mosaic hosts check` misses. It is built there by pip, with its settings of that host. Until
    it is whole, what was there before is used; interrupting it leaves nothing running.
    """
    from gym_gui.cli.commands.bundles import bundle_manager
    from gym_gui.services.hosts.environments import build, checked_bundles

    book = HostBook(session.paths)
    host = book.get(name)
    wanted = checked_bundles([info.name for info in bundle_manager(session.paths).list()], bundles)
    may_ask = sys.stdin.isatty() and not as_json
    built = build(host, wanted, lambda line: click.echo(fmt.one_line(line), err=as_json), may_ask=may_ask)
    if built.uses_built_python and host.python:
        book.change(name, python="")
    if as_json:
        fmt.echo_json({"name": name, "built": built.directories})
    elif built.directories:
        click.echo(f"{name} has {', '.join(built.directories)} now.")
    else:
        click.echo(f"{name} has what every worker needs. Name a bundle to build one: `{program()} bundles` lists them.")


def _require_unused(session: CliSession, name: str) -> None:
    if why := why_needed(name, _told_by_daemon(session).get(name)):
        raise CliError(why, ExitCode.REFUSED)


# ---- listing -----------------------------------------------------------------------------------------------------


def _list(session: CliSession, *, as_json: bool) -> None:
    known = HostBook(session.paths).hosts()
    told = _told_by_daemon(session)
    if as_json:
        fmt.echo_json({"hosts": [_object(host, told.get(name)) for name, host in known.items()]})
        return
    if not known:
        click.echo(f"There are no hosts but this machine: `{program()} hosts add NAME USER@HOST` adds one.")
        return
    rows = [_row(host, told.get(name)) for name, host in known.items()]
    click.echo(fmt.table(["HOST", "SSH", "STATUS", "RUNS", "CPUS", "GPUS", "LABELS"], rows, give_way="STATUS"))


def _told_by_daemon(session: CliSession) -> dict[str, pb.Host]:
    client = session.impatient_client()
    if client is None:
        return {}
    with client:
        return {one.name: one for one in client.health().hosts}


def _row(host: Host, told: pb.Host | None) -> list[str]:
    held, there = (told.reserved, told.capacity) if told is not None else (None, None)
    known = is_known(told)
    return [
        host.name,
        fmt.one_line(reached_by(host)),
        fmt.one_line(standing(host, told)),
        str(told.live) if told is not None else fmt.MISSING,
        f"{held.cpus}/{there.cpus}" if held is not None and there is not None and known else fmt.MISSING,
        f"{held.gpus}/{there.gpus}" if held is not None and there is not None and known else fmt.MISSING,
        fmt.one_line(", ".join(labels_of(host, told))) or fmt.MISSING,
    ]


def _object(host: Host, told: pb.Host | None) -> dict[str, Any]:
    from gym_gui.cli.run_view import resources_object

    known = told if is_known(told) else None
    return {
        **asdict(host),
        "labels": labels_of(host, told),
        "connected": told.connected if told is not None else False,
        "away": told.away or None if told is not None else None,
        "live": told.live if told is not None else 0,
        "capacity": resources_object(known.capacity) if known is not None else None,
        "reserved": resources_object(known.reserved) if known is not None else None,
    }
