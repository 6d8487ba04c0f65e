"""From a plan to a run: have the worker check it, submit it, follow it. What every command that starts a run does."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.follow import follow_and_tell
from gym_gui.cli.options import json_option
from gym_gui.cli.preflight import check_with_worker
from gym_gui.cli.run_plan import RunPlan
from gym_gui.cli.session import CliSession, passing_notice, program

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class LaunchOptions:
    """How a run is to be started; the fields are the options of :func:`launch_options`."""

    detach: bool
    dry_run: bool
    no_preflight: bool
    summary: bool
    as_json: bool


def launch_options(function: F) -> F:
    """The options of every command that starts a run."""
    for option in (
        json_option,
        click.option("--summary", is_flag=True, help="End with the long summary."),
        click.option("--no-preflight", is_flag=True, help="Do not ask the worker to check the settings first."),
        click.option("--dry-run", is_flag=True, help="Check everything, tell what would run, start nothing."),
        click.option("--detach", is_flag=True, help="Return once the run is accepted."),
    ):
        function = option(function)
    return function


def launch(session: CliSession, plan: RunPlan, how: LaunchOptions) -> int:
    """Start what was planned, or tell what would start; the exit code."""
    found = None if how.no_preflight else _checked(plan, session)
    if how.dry_run:
        _tell_plan(plan, found, as_json=how.as_json)
        if not how.as_json and found is not None and _has_unread_flags(plan, session):
            click.echo("The flags of the script could not be read: it is given what was typed, and nothing is checked.")
        return ExitCode.OK
    run = _submit(session, plan)
    if how.detach:
        _tell_submitted(run, as_json=how.as_json)
        return ExitCode.OK
    if not how.as_json:
        click.echo(f"{run_view.called(run)} submitted to {run.worker_type}")
    return follow_and_tell(session, run.run_id, as_json=how.as_json, full=how.summary)


def _checked(plan: RunPlan, session: CliSession) -> dict[str, Any] | None:
    with passing_notice("checking the settings…"):
        return check_with_worker(plan, session.paths)


def _has_unread_flags(plan: RunPlan, session: CliSession) -> bool:
    """Whether a script of the user's own takes its flags in a manner that the worker does not know."""
    if "script" not in plan.worker_config:
        return False
    from gym_gui.services.worker_queries import WorkerQueries

    settings, bundle = {"script": plan.worker_config["script"]}, plan.config["metadata"]["worker"].get("bundle")
    return not WorkerQueries(session.paths).describe_flags(plan.manifest.type, settings, bundle)["flags"]


def _submit(session: CliSession, plan: RunPlan) -> pb.Run:
    from gym_gui.services.trainer.client import RequestRefusedError

    with session.client() as client:
        try:
            return client.submit(plan.config).run
        except RequestRefusedError as error:
            if not str(error).startswith("metadata.worker.type"):
                raise
            sentence = (
                f"the running trainer daemon does not know the worker {plan.manifest.type!r}: "
                "restart it from here with `mosaic daemon stop` and `mosaic daemon start` (runs go on meanwhile)"
            )
            raise CliError(sentence, ExitCode.REFUSED) from error


def _tell_submitted(run: pb.Run, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json(run_view.run_object(run))
        return
    short = run_view.short_id(run.run_id)
    click.echo(f"{run_view.called(run)} submitted to {run.worker_type}. Follow it with `{program()} follow {short}`.")


def _tell_plan(plan: RunPlan, found: dict[str, Any] | None, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json({"config": plan.config, "summary": found})
        return
    told = {name: value for name, value in (found or {}).items() if name != "status" and value is not None}
    entries = [
        ("name", plan.config["run_name"]),
        ("worker", f"{plan.manifest.type} {plan.manifest.version}"),
        ("resources", _asked(plan.config["resources"])),
        *((name.replace("_", " "), _spoken(value)) for name, value in told.items()),
    ]
    click.echo("This run would start:")
    click.echo(fmt.pairs(entries))
    unchecked = "" if found is not None else " The worker did not check the settings."
    click.echo(f"Nothing was started.{unchecked}")


def _asked(resources: dict[str, Any]) -> str:
    parts = [fmt.counted(resources["cpus"]["requested"], "CPU")]
    if gpus := resources["gpus"]["requested"]:
        parts.append(fmt.counted(gpus, "GPU"))
    if memory := resources["memory_mb"]["requested"]:
        parts.append(f"{memory:,} MB of memory")
    return ", ".join(parts)


def _spoken(value: Any) -> str:
    if isinstance(value, dict):  # capabilities
        return ", ".join(name.replace("_", " ") for name, one in value.items() if one["offered"]) or "none"
    return shlex.join(map(str, value)) if isinstance(value, list) else fmt.one_line(str(value))
