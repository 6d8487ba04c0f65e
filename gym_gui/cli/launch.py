"""From a plan to a run: have the worker check it, submit it, follow it. What every command that starts a run does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.commands.follow import follow_and_tell
from gym_gui.cli.consent import require_consent
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import json_option
from gym_gui.cli.preflight import check_with_worker
from gym_gui.cli.run_plan import RunPlan
from gym_gui.cli.session import CliSession, passing_notice, program, warn_of_disk
from gym_gui.services.run_words import summary_value
from mosaic_protocol.plain_text import visible

if TYPE_CHECKING:
    from gym_gui.services.run_outlook import Outlook
    from gym_gui.services.trainer.client import TrainerClient
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
    yes: bool = False


def launch_options(function: F) -> F:
    """The options of every command that starts a run."""
    for option in (
        json_option,
        click.option("--yes", is_flag=True, help="Run a script of your own for the first time without being asked."),
        click.option("--summary", is_flag=True, help="End with the long summary."),
        click.option("--no-preflight", is_flag=True, help="Do not ask the worker to check the settings first."),
        click.option("--dry-run", is_flag=True, help="Check everything, tell what would run, start nothing."),
        click.option("--detach", is_flag=True, help="Return once the run is accepted."),
    ):
        function = option(function)
    return function


def launch(session: CliSession, plan: RunPlan, how: LaunchOptions) -> int:
    """Start what was planned, or tell what would start; the exit code."""
    plan = _placed(plan, session)
    found = None if how.no_preflight else _checked(plan, session)
    if how.dry_run:
        require_room(session, plan)
        named, expected = named_without_starting(session, plan), _outlook_without_starting(session, plan, found)
        _tell_plan(named, found, expected, as_json=how.as_json)
        if not how.as_json and found is not None and _has_unread_flags(plan, session):
            click.echo("The flags of the script could not be read: it is given what was typed, and nothing is checked.")
        return ExitCode.OK
    _require_consent(plan, session, found, how)
    if not how.as_json:
        _tell_outlook(session, plan, found)
    run = submit_plan(session, plan)
    if how.detach:
        tell_submitted(run, as_json=how.as_json)
        return ExitCode.OK
    if not how.as_json:
        click.echo(f"{run_view.called(run)} submitted to {run.worker_type}")
    return follow_and_tell(session, run.run_id, as_json=how.as_json, full=how.summary)


def submitted(session: CliSession, plan: RunPlan) -> tuple[pb.Run, RunPlan]:
    """Have the worker check a plan and submit it: the run, and the plan with the paths of its checkpoints."""
    plan = _placed(plan, session)
    _checked(plan, session)
    return submit_plan(session, plan), plan


def checked(session: CliSession, plan: RunPlan) -> tuple[RunPlan, dict[str, Any] | None]:
    """The plan with the paths of its checkpoints, and the worker's summary of it; nothing is started."""
    plan = _placed(plan, session)
    found = _checked(plan, session)
    require_room(session, plan)
    return plan, found


def require_room(session: CliSession, plan: RunPlan) -> None:
    from gym_gui.services.room import why_no_room

    interactive = plan.manifest.capabilities.interactive
    if sentence := why_no_room(session.paths, plan.config["resources"], interactive=interactive):
        raise CliError(sentence, ExitCode.REFUSED)


def _placed(plan: RunPlan, session: CliSession) -> RunPlan:
    """The plan with the path of each checkpoint that was named by its run, or by a path that holds only here."""
    from gym_gui.services.start_point import placed

    return replace(plan, config=placed(plan.config, plan.manifest, session.paths))


def _checked(plan: RunPlan, session: CliSession) -> dict[str, Any] | None:
    with passing_notice("checking the settings…"):
        return check_with_worker(plan, session.paths)


def _require_consent(plan: RunPlan, session: CliSession, told: dict[str, Any] | None, how: LaunchOptions) -> None:
    """A script that is not the worker's own runs only when a person allowed it."""
    if not plan.is_foreign:
        return
    require_consent(told, plan.worker_config, plan.manifest, session.paths, yes=how.yes, may_ask=not how.as_json)


def _has_unread_flags(plan: RunPlan, session: CliSession) -> bool:
    """Whether a script of the user's own takes its flags in a manner that the worker does not know."""
    chosen = plan.manifest.chosen(plan.worker_config)
    own = next((name for name, choice in chosen.items() if choice.replaces_algorithm), None)
    if own is None:
        return False
    from gym_gui.services.worker_queries import WorkerQueries

    settings, bundle = {own: plan.worker_config[own]}, plan.config["metadata"]["worker"].get("bundle")
    return not WorkerQueries(session.paths).describe_flags(plan.manifest.type, settings, bundle)["flags"]


def submit_plan(session: CliSession, plan: RunPlan) -> pb.Run:
    from gym_gui.services.trainer.client import RequestRefusedError

    with session.client() as client:
        try:
            return client.submit(_named(client, plan).config, name_is_default=not plan.is_named).run
        except RequestRefusedError as error:
            if not str(error).startswith("metadata.worker.type"):
                raise
            sentence = (
                f"the running trainer daemon does not know the worker {plan.manifest.type!r}: "
                "restart it from here with `mosaic daemon stop` and `mosaic daemon start` (runs go on meanwhile)"
            )
            raise CliError(sentence, ExitCode.REFUSED) from error


def _named(client: TrainerClient, plan: RunPlan) -> RunPlan:
    """The plan with a name that no run has, unless somebody chose one."""
    if plan.is_named:
        return plan
    from gym_gui.services.run_names import taken_names
    from gym_gui.services.run_request import fresh_name

    return plan.called(fresh_name(plan.name, taken_names(client, plan.name)))


def named_without_starting(session: CliSession, plan: RunPlan) -> RunPlan:
    """The same for a dry run, which starts no daemon to ask."""
    from gym_gui.services.trainer.client import ClientError

    client = session.impatient_client(timeout=5.0)
    if client is None:
        return plan
    try:
        with client:
            return _named(client, plan)
    except ClientError:
        return plan


def _outlook_without_starting(session: CliSession, plan: RunPlan, found: dict[str, Any] | None) -> Outlook:
    from gym_gui.cli.estimates import outlook

    client = session.impatient_client(timeout=5.0)
    if client is None:
        return outlook(None, plan, found, session.paths.root)
    with client:
        return outlook(client, plan, found, session.paths.root)


def _tell_outlook(session: CliSession, plan: RunPlan, found: dict[str, Any] | None) -> None:
    from gym_gui.cli.estimates import outlook

    with session.client() as client:
        expected = outlook(client, plan, found, session.paths.root)
        warn_of_disk(client)
    if expected.sentence:
        click.echo(f"Expected: {expected.sentence}")
    if expected.warning:
        click.echo(f"Warning: {expected.warning}", err=True)


def tell_submitted(run: pb.Run, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json(run_view.run_object(run))
        return
    short = run_view.short_id(run.run_id)
    click.echo(f"{run_view.called(run)} submitted to {run.worker_type}. Follow it with `{program()} follow {short}`.")


def _tell_plan(plan: RunPlan, found: dict[str, Any] | None, expected: Outlook, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json({"config": plan.config, "summary": found, **expected.as_object()})
        return
    told = {name: value for name, value in (found or {}).items() if name != "status" and value is not None}
    spoken = {name: told.pop(name) for name, value in list(told.items()) if _is_conversation(value)}
    entries = [
        ("name", plan.config["run_name"]),
        ("worker", f"{plan.manifest.type} {plan.manifest.version}"),
        ("resources", _asked(plan.config["resources"])),
        *((name.replace("_", " "), fmt.one_line(summary_value(value))) for name, value in told.items()),
        ("expected", expected.sentence or "not known: no earlier run of this script was found"),
    ]
    click.echo("This run would start:")
    click.echo(fmt.pairs(entries))
    for name, messages in spoken.items():
        click.echo(f"It {fmt.one_line(name.replace('_', ' '))}:")
        click.echo("\n\n".join(f"{str(one['role']).upper()}\n{one['text']}" for one in map(_visible, messages)))
        click.echo()
    if expected.warning:
        click.echo(f"Warning: {expected.warning}", err=True)
    unchecked = "" if found is not None else " The worker did not check the settings."
    click.echo(f"Nothing was started.{unchecked}")


def _is_conversation(value: object) -> bool:
    """Messages of a prompt, which fit no line of a summary."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)


def _visible(message: dict[str, Any]) -> dict[str, str]:
    return {name: visible(str(message.get(name, ""))) for name in ("role", "text")}


def _asked(resources: dict[str, Any]) -> str:
    parts = [fmt.counted(resources["cpus"]["requested"], "CPU")]
    if gpus := resources["gpus"]["requested"]:
        parts.append(fmt.counted(gpus, "GPU"))
    if memory := resources["memory_mb"]["requested"]:
        parts.append(f"{memory:,} MB of memory")
    return ", ".join(parts)
