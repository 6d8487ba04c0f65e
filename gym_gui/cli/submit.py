"""``mosaic submit``: a run config from a file, to start again what was once written down."""

from __future__ import annotations

import json
from typing import IO

import click

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.launch import LaunchOptions, launch, launch_options
from gym_gui.cli.run_plan import RunPlan
from gym_gui.cli.session import CliSession


@click.command()
@click.argument("file", metavar="FILE", type=click.File("rb"))
@launch_options
@click.pass_obj
def submit(
    session: CliSession, file: IO[bytes], detach: bool, dry_run: bool, no_preflight: bool, summary: bool, as_json: bool
) -> int:
    """Submit a run config and follow the run.

    FILE holds the JSON that `mosaic show RUN --config` prints; - reads it from standard input. It is checked before
    anything starts, and the exit code is the outcome of the run, as of `mosaic train`.
    """
    plan = _plan_in(file)
    return launch(session, plan, LaunchOptions(detach, dry_run, no_preflight, summary, as_json))


def _plan_in(file: IO[bytes]) -> RunPlan:
    from gym_gui.services.trainer.validation.train_config import validate_train_run_config
    from mosaic_protocol.run_config import RunConfigError, to_json
    from mosaic_protocol.worker_manifest import discover

    workers = discover().workers
    try:
        config = validate_train_run_config(file.read(), known_workers=workers)
    except RunConfigError as error:
        raise CliError(f"{file.name}: {error}", ExitCode.REFUSED) from error
    return RunPlan(workers[config.worker.type], json.loads(to_json(config)))
