"""Asking a worker whether it could run a config, before anything is submitted: its own ``--dry-run``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.run_plan import RunPlan
from gym_gui.services.worker_tools import ToolFailedError, ToolMissingError, ToolRefusedError
from mosaic_protocol.paths import MosaicPaths

if TYPE_CHECKING:
    from mosaic_protocol.worker_manifest import WorkerManifest


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
        return _ask(plan.manifest, paths, words, plan.config["metadata"]["worker"].get("bundle"))


def _ask(manifest: WorkerManifest, paths: MosaicPaths, words: list[str], bundle: str | None) -> dict[str, Any]:
    from gym_gui.services.worker_queries import WorkerQueries

    try:
        return WorkerQueries(paths).ask(manifest, words, bundle)
    except ToolRefusedError as error:
        raise CliError(str(error), ExitCode.REFUSED) from error
    except ToolMissingError as error:  # the run would lack it as well
        raise CliError(str(error), ExitCode.FAILED) from error
    except ToolFailedError as error:
        raise CliError(f"{error}; --no-preflight skips this check", ExitCode.FAILED) from error
