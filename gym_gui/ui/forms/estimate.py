"""How long a run would take, from the speed of earlier ones. No Qt here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import median
from typing import Any

from gym_gui.services.run_pace import own_speed, own_steps
from gym_gui.ui.forms.settings_of import parts_of
from mosaic_protocol.proto import trainer_pb2 as pb

_NEWEST = 10
_LEAST_SECONDS = 1.0
"""Shorter runs say more about starting up than about training."""


@dataclass(frozen=True)
class Estimate:
    """A guess in seconds and what it rests on."""

    seconds: float
    steps_per_second: float
    runs: int
    same_environment: bool

    def sentence(self) -> str:
        where = "on this environment" if self.same_environment else "on other environments"
        runs = "1 earlier run" if self.runs == 1 else f"{self.runs} earlier runs"
        return f"about {spoken_time(self.seconds)} at {self.steps_per_second:,.0f} steps/s ({runs} {where})"


def program(settings: Mapping[str, Any]) -> str:
    """What of a worker's settings says which program runs: a script of the worker's, of a checkout, or a file.

    Scripts of one name from different places differ in speed by a factor of several.
    """
    return json.dumps(dict(parts_of(settings).program), sort_keys=True)


@lru_cache(maxsize=4096)
def _program_of(config_json: str) -> str | None:
    """The same of a run, None where its config cannot be read."""
    try:
        return program(json.loads(config_json)["metadata"]["worker"]["config"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def estimate(
    runs: Iterable[pb.Run], settings: Mapping[str, Any], total_steps: int | None, worker_type: str
) -> Estimate | None:
    """None when nothing is known of the speed of this script here, or of the number of steps."""
    algo, env_id = str(settings.get("algo") or ""), str(settings.get("env_id") or "")
    if not total_steps or not algo:
        return None
    wanted = program(settings)
    usable = [
        run
        for run in runs
        if (run.algo, run.worker_type) == (algo, worker_type)
        and own_steps(run)
        and run.active_seconds >= _LEAST_SECONDS
        and _program_of(run.config_json) == wanted
    ]
    same = [run for run in usable if run.env_id == env_id]
    chosen = sorted(same or usable, key=lambda run: run.created_at, reverse=True)[:_NEWEST]
    if not chosen:
        return None
    speed = median(own_speed(run) for run in chosen)
    return Estimate(total_steps / speed, speed, len(chosen), bool(same))


def spoken_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
