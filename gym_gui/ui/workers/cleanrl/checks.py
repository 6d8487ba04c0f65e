"""What the CleanRL form checks before it submits, and the dry run that it offers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gym_gui.services.start_point import placed
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.workers.cleanrl.script_settings import ScriptSettings
from gym_gui.validations.dry_run import DryRun, dry_run
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.wandb_proxies import find_proxies
from mosaic_protocol.worker_manifest import discover

WORKER_TYPE = "cleanrl"
MOST_SEED = 2**32 - 1


def run_cleanrl_dry_run(config: Mapping[str, Any], queries: WorkerQueries) -> DryRun:
    """Have the CleanRL worker check a run config, as it would be submitted, by its own ``--dry-run``.

    Blocking; use it in a thread. Nothing is raised: what went wrong is in the answer's text.
    """
    return dry_run(queries, WORKER_TYPE, config)


def place_checkpoints(config: Mapping[str, Any], paths: MosaicPaths) -> dict[str, Any]:
    """The config with the path of a checkpoint where one was named by its run. Raises CheckpointsError."""
    return placed(config, discover().workers[str(config["metadata"]["worker"]["type"])], paths)


def script_problems(script: ScriptSettings, algorithms: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the choice of a script, by field. Looks at the disk for files that were named."""
    if script.script:
        path = Path(script.script).expanduser()
        wrong = not path.is_absolute() or not path.is_file()
        return {"script": f"is not there: no file {script.script}"} if wrong else {}
    found = {}
    if script.cleanrl_path and not Path(script.cleanrl_path).expanduser().is_dir():
        found["cleanrl_path"] = f"is not there: no folder {script.cleanrl_path}"
    if not script.algo:
        found["algo"] = "must be chosen"
    elif not script.is_upstream and script.algo not in algorithms:
        found["algo"] = f"is not offered: {script.algo!r}{did_you_mean(script.algo, algorithms)}"
    return found


def proxy_fallback(paths: MosaicPaths) -> str:
    """Where the proxy of Weights & Biases would come from when none is typed, without credentials; "" for nowhere."""
    found = find_proxies({**os.environ, "MOSAIC_HOME": str(paths.root)})
    return "" if found is None else str(found)
