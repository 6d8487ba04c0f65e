"""What a worker says of itself when it registers, kept with the run: algorithm, environment, extras, and what this very
run can do."""

from __future__ import annotations

import json
from typing import Any

from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_protocol.settings_spelling import respelt

_KEPT = ("algo", "env_id", "extras")


def completed(told_json: str, run: RunRecord) -> str:
    """A worker's introduction with what it left out of algorithm, environment and extras, as the run config has them.
    One that is no JSON object stays as it came: nobody relies on it."""
    told = _parsed(told_json)
    if told is None:
        return told_json
    known = {name: value for name, value in _settings_of(run).items() if name in _KEPT}
    return json.dumps({**known, **told})


def _settings_of(run: RunRecord) -> dict[str, Any]:
    """{} for a config that an older version accepted and nobody understands any more."""
    try:
        return respelt(json.loads(run.config_json)["metadata"]["worker"]["config"])
    except (ValueError, KeyError, TypeError):
        return {}


def said_of(run: RunRecord) -> dict[str, Any]:
    """What the worker of a run said of itself, {} before it registered."""
    return _parsed(run.capabilities_json) or {}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        told = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
