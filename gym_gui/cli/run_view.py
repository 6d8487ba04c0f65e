"""A run as people and programs see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gym_gui.cli import format as fmt
from mosaic_protocol.states import Desired, Outcome, RunState

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

RETURN_TAG = "charts/episodic_return"
SPS_TAG = "charts/SPS"

STATE_WORDS: dict[str, tuple[RunState, ...]] = {
    "queued": (RunState.INIT,),
    "starting": (RunState.HSHK, RunState.RDY),
    "training": (RunState.EXEC,),
    "paused": (RunState.PAUSE,),
    "ending": (RunState.FAULT,),
    "over": (RunState.TERM,),
}
"""What people call the states. Several states share a word where the difference does not matter to them."""

OUTCOME_WORDS = {outcome.value: outcome.value.replace("_", " ") for outcome in Outcome}

_WORDS: dict[str, str] = {state: word for word, states in STATE_WORDS.items() for state in states}


def short_id(run_id: str) -> str:
    """The end of an id, which tells runs apart best: the beginning of all ids of a day is the same."""
    return run_id[-6:]


def called(run: pb.Run) -> str:
    """How a sentence names a run."""
    return f"{short_id(run.run_id)} ({run.name})"


def is_over(run: pb.Run) -> bool:
    return run.state == RunState.TERM


def state_word(run: pb.Run) -> str:
    """Where a run is in its life, in a word; what was asked of it and has not happened yet included."""
    if is_over(run):
        return OUTCOME_WORDS.get(run.outcome, run.outcome)
    if run.state != RunState.INIT and run.desired == Desired.STOP:
        return "stopping"
    if run.state == RunState.EXEC and run.desired == Desired.PAUSE:
        return "pausing"
    if run.state == RunState.PAUSE and run.desired == Desired.RUN:
        return "resuming"
    return _WORDS.get(run.state, run.state)


def steps_text(run: pb.Run) -> str:
    """``12,800/50,000 (25%)``; without the total where nobody knows it or it is reached."""
    if not run.last_step and not run.total_steps:
        return fmt.MISSING
    if not run.total_steps or run.last_step >= run.total_steps:
        return f"{run.last_step:,}"
    return f"{run.last_step:,}/{run.total_steps:,} ({percent(run)}%)"


def percent(run: pb.Run) -> int:
    return min(100, int(100 * run.last_step / run.total_steps)) if run.total_steps else 0


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
        "last_step": run.last_step,
        "total_steps": run.total_steps or None,
        "headline": dict(run.headline),
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
