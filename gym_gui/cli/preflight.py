"""Asking a worker whether it could run a config, before anything is submitted: its own ``--dry-run``."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.bundles import bundle_manager
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import RunPlan
from gym_gui.services.worker_tools import ToolError, environment, interpreter
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest

_PATIENCE = 120.0
_REFUSED_STATUS = 2
_SCRIPT_PYTHON = "MOSAIC_SCRIPT_PYTHON"
"""Where the dispatcher, too, tells a worker which Python its script runs in."""


def check_with_worker(plan: RunPlan, paths: MosaicPaths) -> dict[str, Any] | None:
    """The worker's summary of what would run; None for a worker that cannot tell.

    Raises :class:`CliError`: REFUSED with the worker's own sentence, FAILED when it could not be asked.
    """
    if not plan.manifest.capabilities.dry_run:
        return None
    with tempfile.TemporaryDirectory(prefix="mosaic-check-") as folder:
        file = Path(folder) / "worker.json"
        file.write_text(json.dumps(plan.worker_config))
        words = ["--config", str(file), "--dry-run", "--emit-summary"]
        return ask_worker(plan.manifest, paths, words, plan.config["metadata"]["worker"].get("bundle"))


def ask_worker(manifest: WorkerManifest, paths: MosaicPaths, words: list[str], bundle: str | None) -> dict[str, Any]:
    """What the worker's module answers to a question, in JSON. ``bundle``: where its script would run.

    Raises :class:`CliError`: REFUSED with the worker's own sentence, FAILED when it could not be asked.
    """
    surroundings = environment(manifest, paths)
    if bundle is not None:
        surroundings[_SCRIPT_PYTHON] = str(_script_python(bundle, paths))
    return _understood(
        _ask([str(_interpreter(manifest, paths)), "-m", manifest.module, *words], surroundings), manifest
    )


def _script_python(bundle: str, paths: MosaicPaths) -> Path:
    known = bundle_manager(paths)
    if bundle not in (names := [info.name for info in known.list()]):
        from mosaic_protocol.suggest import did_you_mean

        raise CliError(f"there is no bundle {bundle[:60]!r}{did_you_mean(bundle, names)}", ExitCode.REFUSED)
    found = known.preflight(bundle)
    if found.python is None:
        raise CliError(found.advice, ExitCode.FAILED)
    return found.python


def _interpreter(manifest: WorkerManifest, paths: MosaicPaths) -> Path:
    try:
        return interpreter(manifest, paths)
    except ToolError as error:
        raise CliError(str(error), ExitCode.FAILED) from error


def _ask(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        sentence = f"the worker did not check the settings within {_PATIENCE:g} s; --no-preflight skips this check"
        raise CliError(sentence, ExitCode.FAILED) from None
    except OSError as error:
        raise CliError(f"cannot start {command[0]} to check the settings: {error.strerror}", ExitCode.FAILED) from error


def _understood(answer: subprocess.CompletedProcess[str], manifest: WorkerManifest) -> dict[str, Any]:
    said = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
    last = said[-1].removeprefix(f"{manifest.package}: ") if said else "it said nothing"
    if answer.returncode == _REFUSED_STATUS:
        raise CliError(last, ExitCode.REFUSED)
    if answer.returncode != 0:
        sentence = f"the worker {manifest.type!r} could not check the settings (status {answer.returncode}): {last}"
        raise CliError(f"{sentence}. --no-preflight skips this check.", ExitCode.FAILED)
    try:
        summary = json.loads(answer.stdout)
    except ValueError:
        summary = None
    if not isinstance(summary, dict):
        sentence = f"the worker {manifest.type!r} did not answer its check with a JSON object"
        raise CliError(f"{sentence}; --no-preflight skips this check", ExitCode.FAILED)
    return summary
