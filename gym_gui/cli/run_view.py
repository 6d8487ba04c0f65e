"""A run as people and programs see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gym_gui.cli import format as fmt
from gym_gui.services.run_words import (
    OUTCOME_WORDS,
    STATE_WORDS,
    called,
    is_over,
    percent,
    short_id,
    state_word,
)

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

# Shared with the cockpit; here they are where the command line looks for them.
__all__ = [
    "OUTCOME_WORDS",
    "STATE_WORDS",
    "called",
    "is_over",
    "percent",
    "short_id",
    "state_word",
]


def steps_text(run: pb.Run) -> str:
    """``12,800/50,000 (25%)``; without the total where nobody knows it or it is reached."""
    if not run.last_step and not run.total_steps:
        return fmt.MISSING
    if not run.total_steps or run.last_step >= run.total_steps:
        return f"{run.last_step:,}"
    return f"{run.last_step:,}/{run.total_steps:,} ({percent(run)}%)"


def short_steps_text(run: pb.Run) -> str:
    """``12.8k/50k (25%)``."""
    if not run.total_steps or run.last_step >= run.total_steps:
        return fmt.compact(run.last_step) if run.last_step else steps_text(run)
    return f"{fmt.compact(run.last_step)}/{fmt.compact(run.total_steps)} ({percent(run)}%)"


def share_text(run: pb.Run) -> str:
    """``25%``, or the steps where nobody knows of how many."""
    return f"{percent(run)}%" if run.total_steps else short_steps_text(run)


def resources_text(held: pb.Resources) -> str:
    parts = [fmt.counted(held.cpus, "CPU"), fmt.counted(held.gpus, "GPU")]
    if held.memory_mb:
        parts.append(fmt.size(held.memory_mb * 1_000_000))
    return ", ".join(parts)


def run_object(run: pb.Run) -> dict[str, Any]:
    """The JSON object of a run, the same wherever one is printed. Moments are Unix seconds, null when they never
    were."""
    return {
        "run_id": run.run_id,
        "short_id": short_id(run.run_id),
        "name": run.name,
        "state": run.state,
        "outcome": run.outcome or None,
        "reason": run.reason,
        "desired": run.desired,
        "worker": run.worker_type,
        "algo": run.algo,
        "env_id": run.env_id,
        "seed": run.seed if run.HasField("seed") else None,
        "dataset": run.dataset or None,
        "tags": list(run.tags),
        "group": run.group or None,
        "sweep": run.sweep or None,
        "parent": run.parent or None,
        "last_step": run.last_step,
        "total_steps": run.total_steps or None,
        "headline": dict(run.headline),
        "interactive": run.interactive,
        "throttled": run.throttled or None,
        "host": run.host or None,
        "host_away": run.host_away or None,
        "queue_position": run.queue_position or None,
        "created_at": run.created_at,
        "started_at": run.started_at or None,
        "ended_at": run.ended_at or None,
        "active_seconds": run.active_seconds,
        "seconds_since_progress": run.seconds_since_progress,
        "pid": run.pid or None,
        "attempt": run.attempt,
        "start_mode": run.start_mode or None,
        "reserved": resources_object(run.reserved),
        "run_dir": run.run_dir,
        "log_dir": run.log_dir,
        "deleted": run.deleted,
        "restorable_until": run.restorable_until or None,
        "agent_id": run.agent_id or None,
        "worker_id": run.worker_id or None,
        "capabilities": _parsed(run.capabilities_json),
        "config": _parsed(run.config_json),
    }


def resources_object(held: pb.Resources) -> dict[str, Any]:
    return {
        "cpus": held.cpus,
        "gpus": held.gpus,
        "memory_mb": held.memory_mb,
        "gpu_indices": list(held.gpu_indices),
    }


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
