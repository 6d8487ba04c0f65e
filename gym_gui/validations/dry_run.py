"""Asking a worker what a run config would start, and putting its answer into words for a notes panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gym_gui.services.room import why_no_room
from gym_gui.services.run_words import summary_value
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolError, ToolFailedError

_SAID_ELSEWHERE = frozenset({"status", "seed"})


@dataclass(frozen=True)
class DryRun:
    """What came of it. ``text`` is for people, in one or more lines.

    ``asked`` is False when nobody could be asked: then it is no verdict on the settings. ``told`` is the worker's own
    summary, {} where there is none.
    """

    ok: bool
    text: str
    asked: bool = True
    told: Mapping[str, Any] = field(default_factory=dict)


def dry_run(queries: WorkerQueries, worker_type: str, config: Mapping[str, Any]) -> DryRun:
    """Have the worker check a run config, and look whether there could ever be room for it, as the command line does.
    Blocking; nothing is raised."""
    try:
        found = queries.dry_run(worker_type, config)
    except ToolFailedError as error:
        return DryRun(False, str(error), asked=False)
    except ToolError as error:
        return DryRun(False, str(error))
    interactive = queries.manifest(worker_type).capabilities.interactive
    if sentence := why_no_room(queries.paths, config.get("resources") or {}, interactive=interactive):
        return DryRun(False, sentence)
    if found is None:
        return DryRun(True, "This worker cannot check settings before a run; the config itself is well-formed.")
    return DryRun(True, summary_text(found), told=found)


def summary_text(summary: Mapping[str, Any]) -> str:
    """A worker's summary, a line for each thing it tells."""
    told = {name: value for name, value in summary.items() if name not in _SAID_ELSEWHERE and value is not None}
    return "\n".join(["All settings can be run.", *(f"{_title(name)}: {summary_value(told[name])}" for name in told)])


def _title(name: str) -> str:
    return name.replace("_", " ")
