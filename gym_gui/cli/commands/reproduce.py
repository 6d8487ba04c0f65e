"""``mosaic reproduce``: start a run again as it was, and say whether the same comes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.commands.follow import Follower, display_for
from gym_gui.cli.consent import require_consent
from gym_gui.cli.errors import CliError, ExitCode, code_for_outcome
from gym_gui.cli.launch import checked, named_without_starting, submit_plan, tell_submitted
from gym_gui.cli.options import json_option, run_argument
from gym_gui.cli.run_plan import RunPlan, refusal
from gym_gui.cli.session import CliSession, passing_notice, program, run_id_for
from gym_gui.cli.summary import outcome_line
from mosaic_protocol.states import Outcome

if TYPE_CHECKING:
    from gym_gui.services.reproduce.then_and_now import Changed
    from gym_gui.services.reproduce.verdict import Verdict
    from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_SHOWN = 12
_SHOWN_TAGS = 6


@dataclass(frozen=True)
class _How:
    dry_run: bool
    no_wait: bool
    with_changes: bool
    yes: bool
    as_json: bool


@click.command()
@run_argument
@click.option("--dry-run", is_flag=True, help="Say what differs and what would run, start nothing.")
@click.option("--no-wait", is_flag=True, help="Return once the new run is accepted; --check judges it later.")
@click.option("--check", is_flag=True, help="Start nothing: RUN is a reproduction, judge it.")
@click.option("--with-changes", is_flag=True, help="Start it although its script was changed since.")
@click.option("--yes", is_flag=True, help="Run a script of your own that was changed without being asked.")
@json_option
@click.pass_obj
def reproduce(
    session: CliSession,
    run: str,
    dry_run: bool,
    no_wait: bool,
    check: bool,
    with_changes: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Start a run again as it was and compare the curves.

    First it says what differs from then: code, packages, machine, defaults. The exit code is the verdict: 0 the same to
    the bit, 8 within noise, 9 different; a new run that ends too early has the code of its outcome.
    """
    how = _How(dry_run, no_wait, with_changes, yes, as_json)
    if check:
        if dry_run or no_wait or with_changes:
            raise click.UsageError("--check starts nothing: leave out --dry-run, --no-wait and --with-changes")
        return _check(session, run, as_json=as_json)
    if dry_run and no_wait:
        raise click.UsageError("choose one of --dry-run and --no-wait")
    with session.client() as client:
        then = client.run(run_id_for(client, run))
    return _again(session, then, how)


def _again(session: CliSession, then: pb.Run, how: _How) -> int:
    from gym_gui.services.reproduce.then_and_now import changed_since
    from gym_gui.services.worker_queries import WorkerQueries

    plan, told = checked(session, _plan(then))
    with passing_notice("looking at what has changed since…"):
        changed = changed_since(then, plan.manifest, told, WorkerQueries(session.paths))
    if not how.as_json:
        _tell_changed(then, changed)
    if changed.script and not how.with_changes:
        sentence = f"{changed.script}: --with-changes starts the run all the same"
        raise CliError(sentence, ExitCode.REFUSED, differences=changed.as_object())
    if how.dry_run:
        return _tell_dry_run(named_without_starting(session, plan), changed, as_json=how.as_json)
    if plan.is_foreign:
        may_ask = not how.as_json
        require_consent(told, plan.worker_config, plan.manifest, session.paths, yes=how.yes, may_ask=may_ask)
    started = submit_plan(session, plan)
    if how.no_wait:
        tell_submitted(started, as_json=how.as_json)
        if not how.as_json:
            short = run_view.short_id(started.run_id)
            click.echo(f"When it is over, `{program()} reproduce {short} --check` judges it.")
        return ExitCode.OK
    if not how.as_json:
        click.echo(f"{run_view.called(started)} submitted to {started.worker_type}")
    enough = None if then.outcome == Outcome.COMPLETED else int(then.last_step)
    now = Follower(session, started.run_id, display_for(as_json=how.as_json), enough=enough).until_over()
    return _conclude(session, then, now, changed, as_json=how.as_json)


def _plan(then: pb.Run) -> RunPlan:
    from gym_gui.services.reproduce.again import CannotReproduceError, again
    from gym_gui.services.trainer.validation.train_config import validate_train_run_config
    from mosaic_protocol.run_config import RunConfigError, to_json
    from mosaic_protocol.worker_manifest import discover

    workers = discover().workers
    try:
        config = validate_train_run_config(again(then, workers.get(then.worker_type)), known_workers=workers)
    except CannotReproduceError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    except RunConfigError as error:
        sentence = f"{run_view.called(then)} cannot be started as it was: {refusal(error, then.algo)}"
        raise CliError(sentence, ExitCode.REFUSED) from error
    return RunPlan(workers[config.worker.type], json.loads(to_json(config)), is_named=False)


def _check(session: CliSession, reference: str, *, as_json: bool) -> int:
    from gym_gui.services.reproduce.again import reproduced_run
    from gym_gui.services.trainer.client import NoSuchRunError

    with session.client() as client:
        now = client.run(run_id_for(client, reference))
        then_id = reproduced_run(now)
        if not then_id:
            advice = f"`{program()} reproduce {run_view.short_id(now.run_id)}` starts a reproduction of it"
            raise CliError(f"{run_view.called(now)} reproduces no run: {advice}", ExitCode.REFUSED)
        if not run_view.is_over(now):
            advice = f"`{program()} follow {run_view.short_id(now.run_id)}` waits for its end"
            raise CliError(f"{run_view.called(now)} is not over yet: {advice}", ExitCode.REFUSED)
        try:
            then = client.run(then_id)
        except NoSuchRunError:
            sentence = f"the run {run_view.short_id(then_id)} that {run_view.called(now)} reproduces is gone"
            raise CliError(sentence, ExitCode.NO_SUCH_RUN) from None
    return _conclude(session, then, now, None, as_json=as_json)


def _conclude(session: CliSession, then: pb.Run, now: pb.Run, changed: Changed | None, *, as_json: bool) -> int:
    from gym_gui.services.reproduce.verdict import verdict_of

    if now.outcome != Outcome.COMPLETED and now.last_step < then.last_step:
        if as_json:
            fmt.echo_json(_object(then, now, changed, None))
        else:
            click.echo(outcome_line(now))
            click.echo("It ended before the run that it reproduces: there is no verdict.")
        return code_for_outcome(now.outcome) or ExitCode.FAILED
    with session.client() as client, passing_notice("comparing…"):
        found = verdict_of(client, then, now)
    if as_json:
        fmt.echo_json(_object(then, now, changed, found))
    else:
        click.echo(outcome_line(now))
        click.echo(_verdict_text(found))
    return _code(found)


def _code(found: Verdict) -> ExitCode:
    from gym_gui.services.reproduce.verdict import Kind

    codes = {Kind.SAME: ExitCode.OK, Kind.NOISE: ExitCode.WITHIN_NOISE, Kind.DIFFERENT: ExitCode.DIFFERENT}
    return codes.get(found.kind, ExitCode.FAILED)


# ---- words -------------------------------------------------------------------------------------------------------


def _tell_changed(then: pb.Run, changed: Changed) -> None:
    if not changed.is_recorded:
        click.echo(
            f"{run_view.called(then)} has no record of its code and machine: what differs from then is not known."
        )
        return
    if not changed.rows:
        click.echo(f"Code, packages, machine and defaults are as they were for {run_view.called(then)}.")
        return
    click.echo(f"Different from when {run_view.called(then)} started:")
    entries = [(row.name, f"{row.values[0].text} → {row.values[1].text}") for row in changed.rows[:_MOST_SHOWN]]
    click.echo(fmt.pairs(entries))
    if len(changed.rows) > _MOST_SHOWN:
        click.echo(fmt.dimmed(f"  … and {len(changed.rows) - _MOST_SHOWN} more; --json lists them"))


def _tell_dry_run(plan: RunPlan, changed: Changed, *, as_json: bool) -> int:
    if as_json:
        fmt.echo_json({"config": plan.config, "recorded": changed.is_recorded, "differences": changed.as_object()})
    else:
        click.echo(f"{plan.name} would start on {plan.manifest.type}. Nothing was started.")
    return ExitCode.OK


def _verdict_text(found: Verdict) -> str:
    lines = [found.sentence[0].upper() + found.sentence[1:] + "."]
    if found.first is not None:
        lines.append(f"  {fmt.one_line(found.first.sentence())}")
    if found.left_out:
        lines.append(f"  not compared, since it depends on the machine's speed: {_named(found.left_out)}")
    if found.by_clock:
        lines.append(f"  not compared, since it is written by the clock: {_named(found.by_clock)}")
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])


def _named(tags: Sequence[str]) -> str:
    shown = ", ".join(map(fmt.one_line, tags[:_SHOWN_TAGS]))
    return f"{shown} and {len(tags) - _SHOWN_TAGS} more" if len(tags) > _SHOWN_TAGS else shown


def _object(then: pb.Run, now: pb.Run, changed: Changed | None, found: Verdict | None) -> dict[str, Any]:
    return {
        "reproduces": run_view.run_object(then),
        "run": run_view.run_object(now),
        "differences": None if changed is None else changed.as_object(),
        "verdict": None,
        **({} if found is None else found.as_object()),
    }
