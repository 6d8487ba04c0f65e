"""``mosaic doctor``: what an operator checks first when something does not work."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.commands.bundles import bundle_manager
from gym_gui.cli.errors import ExitCode
from gym_gui.cli.options import json_option
from gym_gui.cli.session import CliSession

if TYPE_CHECKING:
    from gym_gui.services.doctor import Check

_ANSWER_SECONDS = 5.0


@click.command()
@json_option
@click.pass_obj
def doctor(session: CliSession, as_json: bool) -> int:
    """Check this machine.

    Says how to fix what is wrong. Starts and changes nothing; the exit code is 1 when a check failed.
    """
    from gym_gui.services.doctor import run_checks

    found = run_checks(session.paths, bundle_manager(session.paths), lambda: _daemon_answer(session))
    failed = sum(check.status == "fail" for check in found)
    if as_json:
        fmt.echo_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    else:
        _tell(found, failed)
    return ExitCode.FAILED if failed else ExitCode.OK


def _daemon_answer(session: CliSession) -> str:
    """A sentence about the daemon; raises when one holds the lock and does not answer."""
    client = session.impatient_client(_ANSWER_SECONDS)
    if client is None:
        return "None runs; the next command that needs one starts it"
    with client:
        health = client.health()
    answer = f"Version {health.version} answers on {health.target}, up {fmt.duration(health.uptime_seconds)}"
    return "; ".join([answer, *health.warnings])


def _tell(found: list[Check], failed: int) -> None:
    room = max(len(check.title) for check in found)
    for check in found:
        mark = fmt.painted(check.status.ljust(4), check.status)
        detail = fmt.hanging(fmt.one_line(check.detail), room + 8)
        click.echo(f"{mark}  {check.title.ljust(room)}  {detail}")
        if check.fix:
            click.echo(f"{' ' * (room + 8)}{fmt.dimmed('try: ')}{check.fix}")
    warned = sum(check.status == "warn" for check in found)
    if failed or warned:
        parts = [fmt.counted(failed, "problem")] if failed else []
        parts += [fmt.counted(warned, "warning")] if warned else []
        click.echo(f"\n{' and '.join(parts)}.")
    else:
        click.echo("\nEverything is in order.")
