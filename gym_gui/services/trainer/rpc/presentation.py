"""From what the daemon knows to what the wire carries."""

from __future__ import annotations

import time

from gym_gui.services.trainer.runs.deletion import restorable_until
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.run_queue import Reservation
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.storage.run_registry import HistoryRow
from mosaic_host.capacity import HostCapacity
from mosaic_protocol.process_identity import boot_id
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import LIVE_STATES


def run_message(run: RunRecord, orchestrator: TrainerOrchestrator) -> pb.Run:
    """A run with what is known of it beyond its record: progress, place in the queue, headline numbers."""
    live = orchestrator.tracked.get(run.run_id)
    message = pb.Run(
        run_id=run.run_id,
        name=run.name,
        state=run.state,
        outcome=run.outcome or "",
        reason=_reason(run, orchestrator),
        desired=run.desired,
        worker_type=run.worker_type,
        algo=run.algo,
        env_id=run.env_id,
        config_json=run.config_json,
        created_at=run.created_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        active_seconds=run.active.total(time.monotonic(), boot_id()),
        queue_position=orchestrator.queue.position(run.run_id) if run.is_queued else 0,
        queue_key=run.queue_key if run.is_queued else "",
        last_step=run.last_step,
        total_steps=run.total_steps,
        pid=run.pid if run.state in LIVE_STATES else 0,
        attempt=run.attempt,
        revision=run.revision,
        reserved=reservation_message(run.reservation),
        run_dir=str(orchestrator.paths.run(run.run_id).directory),
        log_dir=str(orchestrator.paths.run_logs(run.run_id)),
        capabilities_json=run.capabilities_json,
        agent_id=run.agent_id,
        worker_id=run.worker_id,
        deleted=run.deleted_at > 0,
        restorable_until=restorable_until(run.deleted_at, orchestrator.settings.trash_hours),
        start_mode=run.start_mode,
        headline=orchestrator.hub.headline(run.run_id),
        tags=run.labels.tags,
        seed=run.labels.seed,
        group=run.labels.group,
        sweep=run.labels.sweep,
        dataset=run.labels.dataset,
        parent=run.labels.parent,
        throttled=_throttled(run, orchestrator),
        journal_unread=bool(run.journal_unread),
        host=run.host,
        host_away=run.away if run.state in LIVE_STATES else "",
        interactive=run.interactive and orchestrator.queue.interactive_cpus > 0,
    )
    if live is not None:
        message.last_step = max(run.last_step, live.step)
        message.total_steps = live.total_steps or run.total_steps
        message.seconds_since_progress = time.monotonic() - live.progress_at
    return message


def _throttled(run: RunRecord, orchestrator: TrainerOrchestrator) -> str:
    """What its output waits for, stored or not."""
    live = orchestrator.tracked.get(run.run_id)
    if live is None or run.state not in LIVE_STATES:
        return ""
    return live.throttle_marks[-1] if live.throttle_marks else run.throttled


def _reason(run: RunRecord, orchestrator: TrainerOrchestrator) -> str:
    """Why it is as it is, and for as long as that lasts, what is missing of it."""
    reason = run.reason or (orchestrator.disk.waits_for(run.state) if run.state in LIVE_STATES else "")
    reason = reason or (orchestrator.why_it_waits(run) if run.is_queued else "")
    return f"{reason}; {run.journal_unread}" if run.journal_unread else reason


def reservation_message(held: Reservation | None) -> pb.Resources:
    if held is None:
        return pb.Resources()
    return pb.Resources(
        cpus=held.cpus, gpus=len(held.gpu_indices), memory_mb=held.memory_mb, gpu_indices=held.gpu_indices
    )


def capacity_message(capacity: HostCapacity) -> pb.Resources:
    return pb.Resources(
        cpus=capacity.cpus,
        gpus=len(capacity.gpus),
        memory_mb=capacity.memory_mb,
        gpu_indices=[gpu.index for gpu in capacity.gpus],
    )


def transition_message(row: HistoryRow) -> pb.RunTransition:
    return pb.RunTransition(
        revision=row.revision,
        wall_time=row.wall_time,
        from_state=row.transition.origin,
        to_state=row.transition.target,
        cause=row.transition.cause,
        detail=row.transition.detail,
        reserved=reservation_message(row.reservation),
    )
