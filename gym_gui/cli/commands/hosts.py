"""``mosaic hosts``: other machines that runs can go to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import candidates
from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, PlainGroup, json_option
from gym_gui.cli.session import CliSession, program
from gym_gui.services.hosts.book import DEFAULT_FOLDER, SLURM, SSH, Host, HostBook

if TYPE_CHECKING:
    from gym_gui.services.hosts.reach import HostReport
    from mosaic_protocol.proto import trainer_pb2 as pb

_LEAST_BYTES = 1_000_000_000
_CLOCK_SECONDS = 60.0


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
    from gym_gui.services.hosts.code import pack
    from gym_gui.services.hosts.reach import AwayError, ask

    host = HostBook(session.paths).get(name)
    try:
        report = ask(host, pack(), may_ask=sys.stdin.isatty() and not as_json, thorough=True)
    except AwayError as error:
        checks = [("ssh", "fail", str(error))]
    else:
        checks = [*_checks(host, report), *(_slurm_checks(host) if host.is_batch_system else ())]
    is_fine = all(status != "fail" for _, status, _ in checks)
    if as_json:
        told = [{"check": what, "status": status, "finding": finding} for what, status, finding in checks]
        fmt.echo_json({"name": name, "ok": is_fine, "checks": told})
    else:
        rows = [[what, status, fmt.one_line(finding)] for what, status, finding in checks]
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


def _require_unused(session: CliSession, name: str) -> None:
    client = session.impatient_client()
    if client is None:
        return
    with client:
        live = next((one.live for one in client.health().hosts if one.name == name), 0)
    if live:
        sentence = f"{fmt.counted(live, 'run')} on {name} would be out of reach: `{program()} hosts drain {name}` first"
        raise CliError(f"{sentence}, and remove it when they are over", ExitCode.REFUSED)


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
    click.echo(fmt.table(["HOST", "SSH", "STATUS", "RUNS", "CPUS", "GPUS"], rows, give_way="STATUS"))


def _told_by_daemon(session: CliSession) -> dict[str, pb.Host]:
    client = session.impatient_client()
    if client is None:
        return {}
    with client:
        return {one.name: one for one in client.health().hosts}


def _row(host: Host, told: pb.Host | None) -> list[str]:
    held, there = (told.reserved, told.capacity) if told is not None else (None, None)
    is_known = there is not None and there.cpus > 0
    return [
        host.name,
        fmt.one_line(f"{host.ssh or 'here'} (Slurm)" if host.is_batch_system else host.ssh),
        fmt.one_line(_status(host, told)),
        str(told.live) if told is not None else fmt.MISSING,
        f"{held.cpus}/{there.cpus}" if held is not None and there is not None and is_known else fmt.MISSING,
        f"{held.gpus}/{there.gpus}" if held is not None and there is not None and is_known else fmt.MISSING,
    ]


def _status(host: Host, told: pb.Host | None) -> str:
    if told is not None and told.away:
        return told.away
    state = "idle" if told is None or not told.connected else "connected"
    return f"drained, {state}" if host.drained else state


def _object(host: Host, told: pb.Host | None) -> dict[str, Any]:
    from gym_gui.cli.run_view import resources_object

    is_known = told is not None and told.capacity.cpus > 0
    return {
        **asdict(host),
        "connected": told.connected if told is not None else False,
        "away": told.away or None if told is not None else None,
        "live": told.live if told is not None else 0,
        "capacity": resources_object(told.capacity) if told is not None and is_known else None,
        "reserved": resources_object(told.reserved) if told is not None and is_known else None,
    }


# ---- checking ----------------------------------------------------------------------------------------------------


def _checks(host: Host, found: HostReport) -> Iterator[tuple[str, str, str]]:
    yield "ssh", "ok", f"{host.ssh or 'this machine'} answered in {fmt.duration(found.seconds)}"
    yield _python_check(host, found)
    free = f"{fmt.size(found.free_bytes)} free in {found.home}"
    yield "disk", *(("ok", free) if found.free_bytes > _LEAST_BYTES else ("warn", f"only {free}"))
    yield _clock_check(found)
    yield "cpus", "ok", f"{fmt.counted(found.cpus, 'CPU')}, {fmt.size(found.memory_mb * 2**20)} of memory"
    yield "gpus", "ok", "; ".join(found.gpus) or "none"
    yield "code", "ok", "the same as here"
    if found.bundles:
        yield "bundles", "ok", ", ".join(found.bundles)


def _python_check(host: Host, found: HostReport) -> tuple[str, str, str]:
    if found.problem:
        hint = f"name one that has what workers need: `{program()} hosts add … --python PATH`"
        return "python", "fail", f"{found.python} cannot be used: {found.problem}; {hint}"
    return "python", "ok", f"{_dotted(found.version)} at {found.python}"


def _slurm_checks(host: Host) -> Iterator[tuple[str, str, str]]:
    """Whether Slurm answers, and would take a job of a run."""
    from gym_gui.services.hosts.way import way_to
    from gym_gui.services.trainer.execution.hosts.slurm_jobs import Needs, submission
    from mosaic_protocol.ssh_command import SshError, posix_command, said

    words = submission(host, "test", "/tmp", "/dev/null", Needs(1, 0, 0))
    try:
        done = way_to(host).run(posix_command(*words, "--test-only"), given=b"#!/bin/sh\n")
    except (SshError, OSError) as error:
        yield "slurm", "fail", str(error)
        return
    told = said(done.stderr) or f"sbatch ended with status {done.returncode}"
    yield "slurm", "ok" if done.returncode == 0 else "fail", told.removeprefix("sbatch: ")


def _clock_check(found: HostReport) -> tuple[str, str, str]:
    """Nothing depends on it but what people read."""
    ahead = found.clock_ahead
    if abs(ahead) < _CLOCK_SECONDS + found.seconds:
        return "clock", "ok", "as here"
    way = "ahead of" if ahead > 0 else "behind"
    return "clock", "warn", f"{fmt.duration(abs(ahead))} {way} this one: times in its files differ by that"


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
