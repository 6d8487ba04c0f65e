"""``mosaic storage``: what takes how much of the disk, what a profile would do about it, and doing it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli import run_view
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.options import Count, PlainGroup, help_when_alone, json_option
from gym_gui.cli.session import CliSession, passing_progress, program, require_files_here, shortest_path
from gym_gui.services.run_words import time_in_trash

if TYPE_CHECKING:
    from gym_gui.services.storage.applying import Done
    from gym_gui.services.storage.planning import Action
    from gym_gui.services.storage.profile import Profile
    from gym_gui.services.storage.usage import Usage
    from gym_gui.services.trainer.client import TrainerClient

_profile_option = click.option(
    "--profile", "profile_name", metavar="NAME", default="", help="A profile of the file.  [default: the one in use]"
)
_VERBS = {"archive": "archive", "trash": "to the trash", "purge": "purge from the trash"}
_NICER = 10
"""How much an automatic process steps back behind runs that train."""
_DONE = {"trash": "is in the trash", "purge": "is gone"}


@click.group(cls=PlainGroup, invoke_without_command=True)
@click.pass_context
def storage(ctx: click.Context) -> None:
    """See what runs take of the disk, and keep it in order.

    `storage_profiles.yaml` in the data root says how long what is kept. Nothing is done by itself unless it says so.
    """
    help_when_alone(ctx)


@storage.command()
@click.option("--runs", "most", type=Count(), default=10, show_default=True, help="How many of the largest runs.")
@json_option
@click.pass_obj
def show(session: CliSession, most: int, as_json: bool) -> None:
    """Show what takes how much of the disk.

    By kind, by run (the largest first), and what else is in the data root.
    """
    with session.client() as client:
        _, profile = _profile(session, "")
        usage = _usage(client, session, profile)
    if as_json:
        fmt.echo_json(_usage_object(usage))
    else:
        click.echo(_usage_text(usage, most))


@storage.command()
@_profile_option
@json_option
@click.pass_obj
def plan(session: CliSession, profile_name: str, as_json: bool) -> None:
    """Show what a profile would do now, and do nothing."""
    with session.client() as client:
        name, profile = _profile(session, profile_name)
        usage, actions = _planned(client, session, profile)
    if as_json:
        fmt.echo_json({"profile": name, "actions": list(map(asdict, actions)), "protected": _kept(profile, usage)})
        return
    click.echo(_plan_text(name, profile, usage, actions))
    if actions:
        click.echo(f"Nothing was changed. `{program()} storage apply` does it.")


@storage.command()
@_profile_option
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--dry-run", is_flag=True, help="The same as `mosaic storage plan`.")
@click.option("--automatic", is_flag=True, help="Do nothing unless the profile says `automatic: true`; asks nobody.")
@json_option
@click.pass_context
def apply(ctx: click.Context, profile_name: str, yes: bool, dry_run: bool, automatic: bool, as_json: bool) -> int:
    """Do what `mosaic storage plan` shows, after a question.

    A run is archived, its archive is read again and compared by hash, and only then the run goes to the trash. May be
    interrupted at any moment: what was not done is done the next time.
    """
    session: CliSession = ctx.obj
    if dry_run:
        ctx.invoke(plan, profile_name=profile_name, as_json=as_json)
        return ExitCode.OK
    name, profile = _profile(session, profile_name)
    if automatic:
        if not profile.automatic:
            return ExitCode.OK
        os.nice(_NICER)
    with _connected(session, start=not automatic) as client, _alone(session):
        usage, actions = _planned(client, session, profile)
        if not actions:
            _tell_nothing(name, as_json=as_json)
            return ExitCode.OK
        if not (yes or automatic):
            _confirm(_plan_text(name, profile, usage, actions), as_json=as_json)
        return _applied(client, session, profile, actions, as_json=as_json)


@storage.command("profile")
@click.pass_obj
def show_profile(session: CliSession) -> None:
    """Print the profiles, or the default where there is no file.

    To begin with a file of your own: mosaic storage profile > storage_profiles.yaml, in the data root.
    """
    from gym_gui.services.storage.profile import ProfileError, profile_text, read_profile

    try:
        text = profile_text(session.paths)
        read_profile(text, "", str(session.paths.storage_profiles))
    except ProfileError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    click.echo(text, nl=False)


@contextmanager
def _connected(session: CliSession, *, start: bool) -> Iterator[TrainerClient]:
    """What the daemon started by itself starts no daemon when that one is gone."""
    if start:
        with session.client() as client:
            yield client
        return
    found = session.impatient_client()
    if found is None:
        raise CliError("no trainer daemon runs here: nothing was done", ExitCode.DAEMON_AWAY)
    with found:
        yield found


# ---- doing -------------------------------------------------------------------------------------------------------


def _profile(session: CliSession, name: str) -> tuple[str, Profile]:
    from gym_gui.services.storage.profile import ProfileError, loaded

    try:
        return loaded(session.paths, name)
    except ProfileError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error


def _usage(client: TrainerClient, session: CliSession, profile: Profile) -> Usage:
    from gym_gui.services.storage.usage import measured

    require_files_here(client, session)
    with passing_progress() as progress:
        return measured(client, session.paths, profile, progress)


def _planned(client: TrainerClient, session: CliSession, profile: Profile) -> tuple[Usage, list[Action]]:
    from gym_gui.services.storage.planning import plan as decide
    from gym_gui.services.storage.profile import ProfileError
    from gym_gui.services.storage.usage import require_understood

    usage = _usage(client, session, profile)
    try:
        require_understood(profile, usage.runs)
    except ProfileError as error:
        raise CliError(f"{session.paths.storage_profiles}: {error}", ExitCode.REFUSED) from error
    return usage, decide(profile, usage.runs, time.time(), usage.sizes, usage.around)


@contextmanager
def _alone(session: CliSession) -> Iterator[None]:
    from gym_gui.services.storage.applying import BusyError, one_at_a_time

    try:
        with one_at_a_time(session.paths):
            yield
    except BusyError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error


def _confirm(text: str, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise CliError("this changes runs: add --yes to do it without being asked", ExitCode.REFUSED)
    click.echo(text)
    if not click.confirm("Do it?"):
        raise CliError("nothing was changed", ExitCode.REFUSED)


def _applied(
    client: TrainerClient, session: CliSession, profile: Profile, actions: Sequence[Action], *, as_json: bool
) -> int:
    from gym_gui.services.storage.applying import Applying

    results: list[Done] = []
    with passing_progress() as progress:
        for done in Applying(client, session.paths, profile, progress).each(actions):
            results.append(done)
            progress.clear()
            if not as_json:
                _tell_done(done)
    failed = [done for done in results if done.problem]
    if as_json:
        fmt.echo_json({"done": [_done_object(done) for done in results]})
    else:
        freed = sum(done.action.bytes - done.archive_bytes for done in results if not done.problem)
        what = f"{len(results) - len(failed)} of {fmt.counted(len(results), 'action')} done"
        click.echo(f"{what}, {fmt.size(max(0, freed))} {_when_freed(profile, results)}.")
    return ExitCode.FAILED if failed else ExitCode.OK


def _when_freed(profile: Profile, results: Sequence[Done]) -> str:
    to_trash = any(
        done.action.kind == "trash" or (done.action.kind == "archive" and profile.after_archive == "trash")
        for done in results
        if not done.problem
    )
    return "less when the trash is emptied" if to_trash else "less"


def _tell_done(done: Done) -> None:
    named = f"{run_view.short_id(done.action.run_id)} ({fmt.one_line(done.action.name)})"
    if done.problem:
        click.echo(f"mosaic: {named}: {fmt.one_line(done.problem)}", err=True)
    elif done.archive is not None:
        click.echo(f"{named} archived: {shortest_path(done.archive)}, {fmt.size(done.archive_bytes)}, checked")
    else:
        click.echo(f"{named} {_was_done(done.action)}")


def _was_done(action: Action) -> str:
    if action.checkpoints:
        return f"{fmt.counted(len(action.checkpoints), 'checkpoint')} removed"
    return f"{', '.join(action.parts)} removed" if action.parts else _DONE[action.kind]


def _done_object(done: Done) -> dict[str, Any]:
    return {
        **asdict(done.action),
        "problem": done.problem or None,
        "archive": str(done.archive) if done.archive else None,
        "archive_bytes": done.archive_bytes or None,
    }


# ---- telling -----------------------------------------------------------------------------------------------------


def _tell_nothing(name: str, *, as_json: bool) -> None:
    if as_json:
        fmt.echo_json({"done": []})
    else:
        click.echo(f"There is nothing to do by the profile {name!r}.")


def _kept(profile: Profile, usage: Usage) -> dict[str, int]:
    """How many runs nothing touches, by the reason."""
    from gym_gui.services.storage.planning import protected

    found: dict[str, int] = {}
    for why in protected(profile, usage.runs, usage.around).values():
        found[why] = found.get(why, 0) + 1
    return found


def _plan_text(name: str, profile: Profile, usage: Usage, actions: Sequence[Action]) -> str:
    if not actions:
        lines = [f"There is nothing to do by the profile {name!r}."]
    else:
        rows = [
            [
                run_view.short_id(action.run_id),
                fmt.one_line(action.name),
                _what(action),
                fmt.size(action.bytes),
                action.reason,
            ]
            for action in actions
        ]
        right = frozenset({"SIZE"})
        lines = [
            fmt.table(["ID", "NAME", "WHAT", "SIZE", "WHY"], rows, right=right, give_way="NAME", in_the_middle=True)
        ]
        lines.append(f"{fmt.counted(len(actions), 'action')}, {fmt.size(sum(one.bytes for one in actions))} in all.")
    if kept := _kept(profile, usage):
        told = "; ".join(f"{fmt.counted(count, 'run')}: {why}" for why, count in sorted(kept.items()))
        lines.append(fmt.dimmed(f"Never touched: {told}."))
    return "\n".join(lines)


def _what(action: Action) -> str:
    if action.checkpoints:
        return f"remove {fmt.counted(len(action.checkpoints), 'checkpoint')}"
    return f"remove {', '.join(action.parts)}" if action.parts else _VERBS[action.kind]


def _usage_text(usage: Usage, most: int) -> str:
    disk = usage.disk
    by_part = [(part, fmt.size(taken)) for part, taken in usage.by_part().items() if taken]
    beside = [(name, fmt.size(taken)) for name, taken in usage.beside.items() if taken]
    total = sum(one.total for one in usage.sizes.values())
    lines = [
        f"Disk of {disk.path}: {disk.percent:.0f} % full, {fmt.size(disk.free)} of {fmt.size(disk.total)} free.",
        f"{_runs_take(len(usage.runs))} {fmt.size(total)}, {fmt.size(usage.of_trash())} of it in the trash.",
    ]
    if by_part:
        lines += ["", fmt.pairs(by_part), "", _largest(usage, most)]
    if beside:
        lines += ["", "Beside the runs:", fmt.pairs(beside)]
    return "\n".join(lines)


def _runs_take(count: int) -> str:
    return "1 run takes" if count == 1 else f"{fmt.counted(count, 'run')} take"


def _largest(usage: Usage, most: int) -> str:
    from gym_gui.services.storage.sizes import PARTS

    largest = sorted(usage.runs, key=lambda run: usage.sizes[run.run_id].total, reverse=True)[:most]
    rows = []
    for run in largest:
        found = usage.sizes[run.run_id]
        main = sorted(PARTS, key=lambda part: found.parts.get(part, 0), reverse=True)[:2]
        mostly = ", ".join(f"{part} {fmt.size(found.parts[part])}" for part in main if found.parts.get(part))
        word = run_view.state_word(run)
        state = f"{word} (deleted, {time_in_trash(run)})" if run.deleted else word
        rows.append([run_view.short_id(run.run_id), fmt.one_line(run.name), state, fmt.size(found.total), mostly])
    text = fmt.table(
        ["ID", "NAME", "STATE", "SIZE", "MOSTLY"], rows, right=frozenset({"SIZE"}), give_way="NAME", in_the_middle=True
    )
    left = len(usage.runs) - len(largest)
    return text + (f"\n{fmt.dimmed(f'and {left:,} more; --runs {len(usage.runs)} shows all')}" if left else "")


def _usage_object(usage: Usage) -> dict[str, Any]:
    disk = usage.disk
    return {
        "disk": {"path": str(disk.path), "used": disk.used, "free": disk.free, "percent": round(disk.percent, 1)},
        "parts": usage.by_part(),
        "trash_bytes": usage.of_trash(),
        "beside": dict(usage.beside),
        "runs": [
            {
                "run_id": run.run_id,
                "name": run.name,
                "deleted": run.deleted,
                "bytes": usage.sizes[run.run_id].total,
                "parts": dict(usage.sizes[run.run_id].parts),
            }
            for run in usage.runs
        ],
    }
