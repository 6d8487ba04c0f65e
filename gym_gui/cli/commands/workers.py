"""``mosaic workers``: who could do the work, and with which algorithms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from gym_gui.cli import format as fmt
from gym_gui.cli.options import json_option
from gym_gui.cli.session import CliSession, program

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb


@click.command()
@json_option
@click.pass_obj
def workers(session: CliSession, as_json: bool) -> None:
    """List the workers and their algorithms.

    Says for each whether it could start now, and what is missing if not.
    """
    with session.client() as client:
        answer = client.workers()
    if as_json:
        listed = [_worker_object(worker) for worker in answer.workers]
        fmt.echo_json({"workers": listed, "problems": list(answer.problems)})
        return
    if not answer.workers:
        click.echo("No worker is installed. Install one, or name its folder in MOSAIC_WORKER_PATH.")
    click.echo("\n\n".join(_described(worker) for worker in answer.workers))
    for problem in answer.problems:
        click.echo(f"mosaic: {fmt.one_line(problem)}", err=True)


def _worker_object(worker: pb.WorkerInfo) -> dict[str, Any]:
    return {
        "type": worker.type,
        "name": worker.name,
        "version": worker.version,
        "summary": worker.summary,
        "lane": worker.lane,
        "ready": worker.ready,
        "readiness": worker.readiness,
        "manifest": json.loads(worker.manifest_json),
    }


def _described(worker: pb.WorkerInfo) -> str:
    manifest = json.loads(worker.manifest_json)
    status = fmt.painted("ready") if worker.ready else fmt.painted("not ready", "warn")
    lines = [fmt.hanging(f"{worker.type} {worker.version}, {status}: {worker.summary}", after="  ")]
    if not worker.ready:
        lines.append(f"  {fmt.hanging(worker.readiness, 2)}")
    can = [name.replace("_", " ") for name, offered in manifest["capabilities"].items() if offered is True]
    if can:
        lines.append("  " + fmt.hanging(f"Can: {', '.join(can)}.", 2))
    if needed := manifest["capabilities"].get("external_services"):
        lines.append("  " + fmt.hanging(f"Needs: {', '.join(map(fmt.one_line, needed))}.", 2))
    return "\n".join([*lines, *(_advertised(name, algorithm) for name, algorithm in manifest["algorithms"].items())])


def _advertised(name: str, algorithm: dict[str, Any]) -> str:
    """A command stays on one line, so that it can be copied from a terminal."""
    lines = [f"  {name}", f"    {fmt.dimmed(fmt.hanging(algorithm['summary'], 4))}"]
    if example := algorithm.get("example_env"):
        lines.append(f"    {program()} train {name} --env-id {example}")
    return "\n".join(lines)
