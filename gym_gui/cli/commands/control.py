"""``mosaic cancel``, ``pause``, ``resume``, ``delete`` and ``restore``: what one can do to runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.continuation import continued
from gym_gui.cli.errors import CliError, ExitCode, translated
from gym_gui.cli.options import json_option, run_argument, runs_argument
from gym_gui.cli.session import CliSession, program, run_id_for
from gym_gui.cli.summary import outcome_line
from gym_gui.services.run_names import taken_names
from gym_gui.services.run_request import RESUMED, derived_name
from gym_gui.services.run_words import time_in_trash
from gym_gui.services.trainer.errors import TrainerError
from mosaic_protocol.states import RunState

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_STOP_SECONDS = 90.0
_PAUSE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_HOLDS_AT_FIRST = "it holds at its first safe point, once it has started"


@dataclass
class _Results:
    """What became of each run that was named. One that fails does not keep the others from being served."""

    as_json: bool
    done: list[dict[str, Any]] = field(default_factory=list)
    errors: list[CliError] = field(default_factory=list)

    def attempt(self, reference: str, action: Callable[[], dict[str, Any]]) -> None:
        """Do something to one run; a failure is printed and remembered."""
        try:
            self.done.append(action())
        except (TrainerError, CliError) as error:
            known = translated(error)
            assert known is not None, "errors of the trainer are all known"
            known.facts["run"] = reference
            self.errors.append(known)
            click.echo(f"mosaic: {fmt.one_line(str(known))}", err=True)

    def finish(self) -> int:
        """Print the JSON; the code of the first failure."""
        if self.as_json:
            fmt.echo_json({"runs": self.done, "errors": [error.as_json() for error in self.errors]})
        return self.errors[0].code if self.errors else ExitCode.OK

    def say(self, sentence: str) -> None:
        if not self.as_json:
            click.echo(sentence)


def _wait(client: TrainerClient, run_id: str, reached: Callable[[pb.Run], bool], seconds: float) -> pb.Run:
    """The run once it got there, or as it is when the time is up."""
    deadline = time.monotonic() + seconds
    while True:
        run = client.run(run_id)
        if reached(run) or time.monotonic() > deadline:
            return run
        time.sleep(_POLL_SECONDS)


# ---- cancel ------------------------------------------------------------------------------------------------------


@click.command()
@runs_argument
@click.option("--reason", metavar="TEXT", default="", help="Why; kept in the run's sentence.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the runs are over.")
@json_option
@click.pass_obj
def cancel(session: CliSession, runs: Sequence[str], reason: str, no_wait: bool, as_json: bool) -> int:
    """End runs, politely first.

    They may write a checkpoint; after that they are ended for certain. Returns when they are over.
    """
    results = _Results(as_json)
    with session.client() as client:
        asked = {reference: _asked_to_stop(client, reference, reason) for reference in dict.fromkeys(runs)}
        for reference, answer in asked.items():
            results.attempt(reference, partial(_stopped, client, answer, results, wait=not no_wait))
    return results.finish()


def _asked_to_stop(client: TrainerClient, reference: str, reason: str) -> pb.Run | Exception:
    """All runs are asked before any is waited for."""
    try:
        return client.cancel(run_id_for(client, reference), reason)
    except (TrainerError, CliError) as error:
        return error


def _stopped(client: TrainerClient, asked: pb.Run | Exception, results: _Results, *, wait: bool) -> dict[str, Any]:
    if isinstance(asked, Exception):
        raise asked
    run = _wait(client, asked.run_id, run_view.is_over, _STOP_SECONDS if wait else 0.0)
    if run_view.is_over(run):
        results.say(outcome_line(run))
    else:
        results.say(f"{run_view.called(run)} is stopping")
    return run_view.run_object(run)


# ---- pause and resume --------------------------------------------------------------------------------------------


@click.command()
@run_argument
@json_option
@click.pass_obj
def pause(session: CliSession, run: str, as_json: bool) -> None:
    """Hold a run at its next safe point.

    It keeps its resources while it is paused.
    """
    with session.client() as client:
        asked = client.pause(run_id_for(client, run))
        found = _wait(client, asked.run_id, _holds_or_is_over, _PAUSE_SECONDS)
    if found.state == RunState.PAUSE:
        short = run_view.short_id(found.run_id)
        sentence = f"at step {found.last_step:,}; `{program()} resume {short}` lets it go on"
    else:
        sentence = "it holds at its next safe point" if found.state == RunState.EXEC else _HOLDS_AT_FIRST
    _tell(found, sentence, as_json=as_json)


def _holds_or_is_over(run: pb.Run) -> bool:
    return run.state == RunState.PAUSE or run_view.is_over(run)


@click.command()
@run_argument
@click.option("--yes", is_flag=True, help="Allow a script of your own that changed without being asked.")
@json_option
@click.pass_obj
def resume(session: CliSession, run: str, yes: bool, as_json: bool) -> None:
    """Let a run go on.

    A paused run goes on at once. One that is over (canceled, failed, timed out, lost) goes on from its newest
    checkpoint as a new run, exactly as if it had never stopped.
    """
    with session.client() as client:
        found = client.run(run_id_for(client, run))
        if run_view.is_over(found):
            config = continued(found)
            config["run_name"] = derived_name(found.name, RESUMED, taken_names(client, found.name))
            _require_consent(session, config["metadata"]["worker"], yes=yes, may_ask=not as_json)
            _tell(
                client.submit(config, name_is_default=True).run,
                f"goes on from {run_view.called(found)}",
                as_json=as_json,
            )
            return
        asked = client.resume(found.run_id)
        found = _wait(client, asked.run_id, lambda one: one.state != RunState.PAUSE, _PAUSE_SECONDS)
    _tell(found, f"from step {found.last_step:,}", as_json=as_json)


def _tell(run: pb.Run, sentence: str, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json(run_view.run_object(run))
    elif run_view.is_over(run):
        click.echo(outcome_line(run))
    else:
        click.echo(f"{run_view.called(run)} {fmt.painted(run_view.state_word(run))}: {sentence}")


def _require_consent(session: CliSession, worker: Mapping[str, Any], *, yes: bool, may_ask: bool) -> None:
    """The script of a run may have changed since it was allowed."""
    from gym_gui.cli.consent import require_consent
    from mosaic_protocol.worker_manifest import discover

    manifest = discover().workers[worker["type"]]
    if manifest.capabilities.foreign_scripts:
        require_consent(None, worker["config"], manifest, session.paths, yes=yes, may_ask=may_ask)


# ---- delete and restore ------------------------------------------------------------------------------------------


@click.command()
@runs_argument
@click.option("--purge", is_flag=True, help="Remove the files and records for good, not to the trash.")
@click.option("--yes", is_flag=True, help="Purge without asking.")
@json_option
@click.pass_obj
def delete(session: CliSession, runs: Sequence[str], purge: bool, yes: bool, as_json: bool) -> int:
    """Move finished runs to the trash.

    From there `mosaic restore` brings them back for a week, unless the daemon is set to keep them longer or shorter.
    """
    results = _Results(as_json)
    with session.client() as client:
        if purge and not yes:
            _confirm(client, runs, as_json=as_json)
        for reference in dict.fromkeys(runs):
            results.attempt(reference, partial(_deleted, client, reference, results, purge=purge))
    return results.finish()


def _confirm(client: TrainerClient, references: Sequence[str], *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise CliError("purging cannot be undone: add --yes to do it without being asked", ExitCode.REFUSED)
    names = ", ".join(run_view.called(client.run(run_id_for(client, one))) for one in references)
    if not click.confirm(f"Remove {names} with all files for good?"):
        raise CliError("nothing was deleted", ExitCode.REFUSED)


def _deleted(client: TrainerClient, reference: str, results: _Results, *, purge: bool) -> dict[str, Any]:
    run = client.run(run_id_for(client, reference))
    answer = client.delete(run.run_id, purge=purge)
    if answer.purged:
        results.say(f"{run_view.called(run)} is gone; {fmt.size(answer.bytes_freed)} freed")
    else:
        undo = f"`{program()} restore {run_view.short_id(run.run_id)}`"
        left = time_in_trash(client.run(run.run_id))
        results.say(f"{run_view.called(run)} is in the trash, {left}; {undo} brings it back")
    return {"run_id": run.run_id, "name": run.name, "purged": answer.purged, "bytes_freed": answer.bytes_freed}


@click.command()
@run_argument
@json_option
@click.pass_obj
def restore(session: CliSession, run: str, as_json: bool) -> None:
    """Bring a deleted run back from the trash."""
    with session.client() as client:
        found = client.restore(run_id_for(client, run, deleted=True))
    if as_json:
        fmt.echo_json(run_view.run_object(found))
    else:
        click.echo(f"{run_view.called(found)} is back")
