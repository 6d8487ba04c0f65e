"""Asking a worker what a run config would start, and putting its answer into words for a notes panel."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gym_gui.services.worker_queries import ToolError, WorkerQueries

_SAID_ELSEWHERE = frozenset({"status", "seed"})


@dataclass(frozen=True)
class DryRun:
    """What came of it. ``text`` is for people, in one or more lines."""

    ok: bool
    text: str


def dry_run(queries: WorkerQueries, worker_type: str, config: Mapping[str, Any]) -> DryRun:
    """Have the worker check a run config. Blocking; nothing is raised."""
    try:
        found = queries.dry_run(worker_type, config)
    except ToolError as error:
        return DryRun(False, str(error))
    if found is None:
        return DryRun(True, "This worker cannot check settings before a run; the config itself is well-formed.")
    return DryRun(True, summary_text(found))


def summary_text(summary: Mapping[str, Any]) -> str:
    """A worker's summary, a line for each thing it tells."""
    told = {name: value for name, value in summary.items() if name not in _SAID_ELSEWHERE and value is not None}
    return "\n".join(["All settings can be run.", *(f"{_title(name)}: {_spoken(told[name])}" for name in told)])


def _title(name: str) -> str:
    return name.replace("_", " ")


def _spoken(value: Any) -> str:
    if isinstance(value, dict):  # capabilities
        return ", ".join(_title(name) for name, one in value.items() if _offered(one)) or "none"
    if isinstance(value, list):
        return shlex.join(map(str, value))
    return " ".join(value.split()) if isinstance(value, str) else json.dumps(value)


def _offered(capability: Any) -> bool:
    return bool(capability.get("offered")) if isinstance(capability, dict) else bool(capability)
