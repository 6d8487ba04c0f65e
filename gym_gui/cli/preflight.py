"""Asking a worker whether it could run a config, before anything is submitted: its own ``--dry-run``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.bundles import bundle_manager
from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import RunPlan
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest

_CODE_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0
_REFUSED_STATUS = 2


def check_with_worker(plan: RunPlan, paths: MosaicPaths) -> dict[str, Any] | None:
    """The worker's summary of what would run; None for a worker that cannot tell.

    Raises :class:`CliError`: REFUSED with the worker's own sentence, FAILED when it could not be asked.
    """
    if not plan.manifest.capabilities.dry_run:
        return None
    python = interpreter(plan.manifest, paths)
    with tempfile.TemporaryDirectory(prefix="mosaic-check-") as folder:
        file = Path(folder) / "worker.json"
        file.write_text(json.dumps(plan.worker_config))
        command = [str(python), "-m", plan.manifest.module, "--config", str(file), "--dry-run", "--emit-summary"]
        answer = _ask(command, _environment(plan.manifest, paths))
    return _understood(answer, plan.manifest)


def interpreter(manifest: WorkerManifest, paths: MosaicPaths) -> Path:
    """The Python that has what the worker needs, as the dispatcher will choose it."""
    if not manifest.bundle:
        return Path(sys.executable)
    found = bundle_manager(paths).preflight(manifest.bundle)
    if found.python is None:
        raise CliError(found.advice, ExitCode.FAILED)
    return found.python


def _environment(manifest: WorkerManifest, paths: MosaicPaths) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_TRAINER_")}
    search = [str(manifest.python_path), str(_CODE_ROOT), inherited.get("PYTHONPATH", "")]
    return {
        **inherited,
        "MOSAIC_HOME": str(paths.root),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, search))),
    }


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
