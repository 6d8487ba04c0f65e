"""``mosaic submit``: a run config from a file, to start again what was once written down."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.launch import LaunchOptions, launch, launch_options
from gym_gui.cli.run_plan import RunPlan
from gym_gui.cli.session import CliSession

_STDIN = Path("-")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@launch_options
@click.pass_obj
def submit(
    session: CliSession,
    file: Path,
    detach: bool,
    dry_run: bool,
    no_preflight: bool,
    summary: bool,
    as_json: bool,
    yes: bool,
) -> int:
    """Submit a run config and follow the run.

    FILE holds the JSON that `mosaic show RUN --config` prints; - reads it from standard input. It is checked before
    anything starts, and the exit code is the outcome of the run, as of `mosaic train`.
    """
    plan = _plan_in(file)
    return launch(session, plan, LaunchOptions(detach, dry_run, no_preflight, summary, as_json, yes))


def _plan_in(file: Path) -> RunPlan:
    from gym_gui.services.trainer.validation.train_config import validate_train_run_config
    from mosaic_protocol.run_config import RunConfigError, to_json
    from mosaic_protocol.worker_manifest import discover

    text, workers = content_of(file), discover().workers
    try:
        config = validate_train_run_config(text, known_workers=workers)
    except RunConfigError as error:
        problems = _what_it_is_instead(text) or "; ".join(str(error).splitlines())
        raise CliError(f"{_called(file)}: {problems}", ExitCode.REFUSED) from error
    return RunPlan(workers[config.worker.type], json.loads(to_json(config)))


def _called(file: Path) -> str:
    return "standard input" if file == _STDIN else str(file)


def content_of(file: Path) -> bytes:
    """What the file holds, and no more than a config may have: a file that was confused with one may be endless."""
    from mosaic_protocol.run_config import MAX_CONFIG_BYTES

    text = _beginning(file, MAX_CONFIG_BYTES + 1)
    if len(text) > MAX_CONFIG_BYTES:
        sentence = f"{_called(file)} is too long for a run config: at most {MAX_CONFIG_BYTES} bytes are allowed"
        raise CliError(sentence, ExitCode.REFUSED)
    return text


def _beginning(file: Path, size: int) -> bytes:
    if file == _STDIN:
        return sys.stdin.buffer.read(size)
    try:
        if file.is_dir():
            raise CliError(f"{file} is a folder, not a file", ExitCode.REFUSED)
        with file.open("rb") as stream:
            return stream.read(size)
    except FileNotFoundError:
        raise CliError(f"there is no file {file}", ExitCode.REFUSED) from None
    except OSError as error:
        raise CliError(f"{str(file)[:200]} cannot be read: {error.strerror}", ExitCode.REFUSED) from error


def _what_it_is_instead(text: bytes) -> str:
    """Whether somebody took the run for its config."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(content, dict) or not {"run_id", "config"} <= content.keys():
        return ""
    return "this is what `mosaic show --json` prints; `mosaic show RUN --config` prints what can be submitted"
