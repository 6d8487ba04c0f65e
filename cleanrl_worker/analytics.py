"""What ``analytics.json`` says of a CleanRL run; :mod:`mosaic_worker.supervision.analytics` keeps it current."""

from __future__ import annotations

import sys
from typing import Any

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.provenance import code_record, plain_settings
from mosaic_worker.harness.capabilities import as_json
from mosaic_worker.supervision import analytics


def facts_of(config: WorkerConfig, plan: ScriptPlan) -> dict[str, Any]:
    """What is known of a run before it starts."""
    facts: dict[str, Any] = {
        "worker": "cleanrl",
        "algo": plan.name,
        "env_id": config.env_id,
        "seed": config.seed,
        "total_timesteps": config.total_timesteps,
        "script_arguments": list(plan.arguments),
        "code": code_record(plan.path),
        "defaults": plain_settings({name: flag.default for name, flag in plan.flags.items()}),
        "resolved": plain_settings({name: plan.values.get(name, flag.default) for name, flag in plan.flags.items()}),
    }
    if plan.order is not None:
        facts["script"] = str(plan.path)
        facts["script_python"] = str(plan.python or sys.executable)
        facts["capabilities"] = as_json(plan.capabilities)
    return facts


class AnalyticsManifest(analytics.AnalyticsManifest):
    def __init__(self, run: RunPaths, config: WorkerConfig, plan: ScriptPlan) -> None:
        super().__init__(run, facts_of(config, plan))
