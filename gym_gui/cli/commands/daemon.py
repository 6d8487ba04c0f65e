"""``mosaic daemon start|stop|status``: the daemon of the data root."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, PlainGroup, help_when_alone, json_option
from gym_gui.cli.run_view import resources_object, resources_text
from gym_gui.cli.session import CliSession, notice_when_slow, program

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

_ANSWER_SECONDS = 5.0
_FILE = click.Path(exists=True, dir_okay=False, readable=True, resolve_path=True)  # the daemon starts elsewhere


@click.group(cls=PlainGroup, invoke_without_command=True)
@click.pass_context
def daemon(ctx: click.Context) -> None:
    """Start, stop or look at the trainer daemon.

    Commands that need a daemon start it themselves; runs go on while none is there.
    """
    help_when_alone(ctx)


# ---- start -------------------------------------------------------------------------------------------------------


@daemon.command()
@click.option("--tcp", is_flag=True, default=None, help="Listen on TCP with TLS too; the options below say so as well.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on with TCP.  [default: 127.0.0.1]")
@click.option("--port", type=Count(0), help="Port to listen on with TCP.  [default: a free one]")
@click.option("--tls-cert", metavar="FILE", type=_FILE, help="PEM certificate chain.  [default: one of its own]")
@click.option("--tls-key", metavar="FILE", type=_FILE, help="PEM private key of that certificate.")
@click.option("--cpus", type=Count(), help="CPUs to give to runs.  [default: all]")
@click.option("--memory-mb", type=Count(), help="Memory to give to runs.  [default: all]")
@click.option("--foreground", is_flag=True, help="Stay here and serve until Ctrl-C or SIGTERM.")
@json_option
@click.pass_obj
def start(session: CliSession, /, foreground: bool, as_json: bool, **options: Any) -> int:
    """Start the daemon, unless it runs already."""
    given = {name: value for name, value in options.items() if value is not None}
    _check_settings(given)
    if session.daemon_runs() and not foreground:
        if given:
            sentence = "a trainer daemon runs already: stop it with `mosaic daemon stop` to start it with other options"
            raise CliError(sentence, ExitCode.REFUSED)
        return _tell_status(session, as_json=as_json)
    if foreground:
        return _serve_here(session, given)
    from gym_gui.services.trainer.daemon_control import start_daemon

    with session.reaching_daemon(), notice_when_slow("starting the trainer daemon…"):
        start_daemon(session.paths, _as_arguments(given))
    return _tell_status(session, as_json=as_json)


def _check_settings(given: dict[str, Any]) -> None:
    """Refuse here what the daemon would refuse, so that it need not be started to find out."""
    from gym_gui.services.trainer.settings import TrainerSettings

    TrainerSettings.from_environment(**given)


def _as_arguments(given: dict[str, Any]) -> list[str]:
    return [word for name, value in given.items() for word in _as_words(f"--{name.replace('_', '-')}", value)]


def _as_words(flag: str, value: Any) -> list[str]:
    return [flag] if value is True else [flag, str(value)]


def _serve_here(session: CliSession, given: dict[str, Any]) -> int:
    import asyncio

    from gym_gui.services.trainer.daemon import TrainerDaemon
    from gym_gui.services.trainer.settings import TrainerSettings
    from mosaic_protocol.endpoint import quiet_grpc_logs

    quiet_grpc_logs()
    with session.reaching_daemon():
        asyncio.run(TrainerDaemon(session.paths, TrainerSettings.from_environment(**given)).serve())
    return ExitCode.OK


# ---- stop --------------------------------------------------------------------------------------------------------


@daemon.command()
@json_option
@click.pass_obj
def stop(session: CliSession, as_json: bool) -> None:
    """Stop the daemon. Runs go on, and the next daemon takes them up."""
    from gym_gui.services.trainer.daemon_control import stop_daemon

    health = _health(session)
    with session.reaching_daemon(), notice_when_slow("stopping the trainer daemon…"):
        stopped = stop_daemon(session.paths)
    live = health.live if health is not None else 0
    if as_json:
        fmt.echo_json({"stopped": stopped, "live_runs": live})
    elif not stopped:
        click.echo("No trainer daemon was running.")
    else:
        goes_on = f" {fmt.counted(live, 'run')} {'goes' if live == 1 else 'go'} on without it." if live else ""
        click.echo(f"The trainer daemon has stopped.{goes_on}")


# ---- answer ------------------------------------------------------------------------------------------------------


@daemon.command()
@click.pass_obj
def answer(session: CliSession) -> None:
    """Tell a `mosaic --on` of another machine how to reach the daemon.

    It is started over there through SSH, and answers on stdin and stdout until these are closed. Never run it yourself:
    it prints the clients' token.
    """
    if sys.stdin.isatty() or sys.stdout.isatty():
        sentence = "this is what `mosaic --on` of another machine runs here: `mosaic daemon status` is for people"
        raise CliError(sentence, ExitCode.REFUSED)
    from gym_gui.services.remote.answering import answer_all

    answer_all(session.paths, sys.stdin, sys.stdout)


# ---- status ------------------------------------------------------------------------------------------------------


@daemon.command()
@json_option
@click.pass_obj
def status(session: CliSession, as_json: bool) -> int:
    """Tell whether the daemon runs, and how it is doing.

    The exit code is 4 when it does not run.
    """
    return _tell_status(session, as_json=as_json)


def _tell_status(session: CliSession, *, as_json: bool) -> int:
    health = _health(session)
    if health is not None:
        _tell_health(health, as_json=as_json)
        return ExitCode.OK
    hangs = session.daemon_runs()
    if as_json:
        fmt.echo_json({"running": hangs, "answers": False, "home": str(session.paths.root)})
    elif hangs:
        log = session.paths.daemon_log
        click.echo(f"A trainer daemon holds {session.paths.root} but does not answer. Its log is {log}.")
    else:
        click.echo(f"No trainer daemon runs for {session.paths.root}. `{program()} daemon start` starts one.")
    return ExitCode.DAEMON_AWAY


def _health(session: CliSession) -> pb.Health | None:
    from gym_gui.services.trainer.client import ClientError

    client = session.impatient_client(_ANSWER_SECONDS)
    if client is None:
        return None
    with client:
        try:
            return client.health()
        except ClientError:
            return None


def _tell_health(health: pb.Health, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json(_health_object(health))
        return
    click.echo(f"Trainer daemon {health.version} listens on {health.target}, up {fmt.duration(health.uptime_seconds)}")
    warm = ", ".join(f"{name} {state}" for name, state in sorted(health.warm_servers.items()))
    entries = [
        ("process", str(health.pid)),
        ("TCP", health.tcp_target and f"{health.tcp_target} with TLS"),
        ("data", health.home),
        ("runs", f"{health.live} live, {health.queued} queued"),
        ("capacity", resources_text(health.capacity)),
        ("reserved", resources_text(health.reserved)),
        ("for sessions", _apart(health)),
        ("GPUs", ", ".join(health.gpu_names)),
        ("disk free", fmt.size(health.disk_free_bytes)),
        ("warm starts", warm),
    ]
    click.echo(fmt.pairs([entry for entry in entries if entry[1]]))
    for warning in health.warnings:
        click.echo(f"mosaic: {fmt.one_line(warning)}", err=True)


def _apart(health: pb.Health) -> str:
    """What interactive runs have beside the rest, and how much of it is taken."""
    if not health.interactive_cpus:
        return ""
    waiting = f", {health.interactive_queued} queued" if health.interactive_queued else ""
    return f"{health.interactive_reserved} of {fmt.counted(health.interactive_cpus, 'CPU')} reserved{waiting}"


def _health_object(health: pb.Health) -> dict[str, Any]:
    return {
        "running": True,
        "answers": True,
        "version": health.version,
        "pid": health.pid,
        "target": health.target,
        "tcp_target": health.tcp_target,
        "home": health.home,
        "uptime_seconds": health.uptime_seconds,
        "live": health.live,
        "queued": health.queued,
        "capacity": resources_object(health.capacity),
        "reserved": resources_object(health.reserved),
        "interactive": {
            "cpus": health.interactive_cpus,
            "reserved_cpus": health.interactive_reserved,
            "queued": health.interactive_queued,
        },
        "gpu_names": list(health.gpu_names),
        "disk_free_bytes": health.disk_free_bytes,
        "warm_servers": dict(health.warm_servers),
        "warnings": list(health.warnings),
    }
