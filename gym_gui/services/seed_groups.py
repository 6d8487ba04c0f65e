"""Which runs differ in nothing but their seed: they are put together, and their spread is the noise of training."""

from __future__ import annotations

import json
from typing import Any


def seed_group(run_name: str, config_json: str) -> str:
    """A text that runs share when they differ in nothing but their seed (and in what people wrote about them)."""
    try:
        config = json.loads(config_json)
        worker = config["metadata"]["worker"]
        parent = config["metadata"].get("parent")
    except (ValueError, KeyError, TypeError, AttributeError):
        return run_name
    shared = {name: worker.get(name) for name in ("type", "module", "bundle")}
    return json.dumps([shared, _without_seed(worker.get("config")), parent], sort_keys=True)


def _without_seed(settings: Any) -> Any:
    if isinstance(settings, dict):
        return {name: _without_seed(value) for name, value in settings.items() if name not in ("seed", "exp_name")}
    return settings
