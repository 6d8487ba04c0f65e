"""Keeps ``analytics.json`` of a run current: at the start, at every checkpoint, now and then, and at the end."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.script_plan import ScriptPlan
from cleanrl_worker.tools.extras import applied_sets
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import refresh_manifest

REFRESH_SECONDS = 30.0


class AnalyticsManifest:
    """Belongs to the supervisor's thread. A full disk costs freshness, never the run."""

    def __init__(self, run: RunPaths, config: WorkerConfig, plan: ScriptPlan) -> None:
        self._run = run
        self._facts: dict[str, Any] = {
            "worker": "cleanrl",
            "algo": plan.name,
            "env_id": config.env_id,
            "seed": config.seed,
            "total_timesteps": config.total_timesteps,
            "script_arguments": list(plan.arguments),
            "extras": applied_sets(Path(sys.prefix)),
        }
        self._next_at = 0.0

    def refresh(self, **facts: Any) -> None:
        self._facts.update(facts)
        self._next_at = time.monotonic() + REFRESH_SECONDS
        try:
            refresh_manifest(self._run, **self._facts)
        except OSError as error:
            print(f"analytics.json could not be written: {error}", flush=True)

    def refresh_if_due(self) -> None:
        if time.monotonic() >= self._next_at:
            self.refresh()
