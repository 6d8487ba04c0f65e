"""What is known of a run before it starts, for ``analytics.json``."""

from __future__ import annotations

import sys
from typing import Any

from mosaic_protocol.provenance import code_record, plain_settings
from mosaic_worker.harness.capabilities import as_json
from mosaic_worker.script_worker.config import ScriptConfig
from mosaic_worker.script_worker.plan import ScriptPlan


def facts_of(config: ScriptConfig, plan: ScriptPlan) -> dict[str, Any]:
    """By the names that the run's manifest has for them."""
    facts: dict[str, Any] = {
        "worker": config.manifest().type,
        "algo": plan.name,
        **{name: getattr(config, name) for name in config.OWN_SETTINGS},
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
