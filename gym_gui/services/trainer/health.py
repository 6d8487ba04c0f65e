"""How the daemon is doing."""

from __future__ import annotations

import os
import time

from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.host import disk_free
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.presentation import capacity_message, reservation_message
from gym_gui.services.trainer.warm_pool import WarmPool
from mosaic_protocol.proto import trainer_pb2 as pb

_LOW_DISK_BYTES = 1 << 30


class HealthReporter:
    """Cheap enough to be asked every second."""

    def __init__(self, orchestrator: TrainerOrchestrator, warm_pool: WarmPool, target: str) -> None:
        self._orchestrator, self._warm_pool, self._target = orchestrator, warm_pool, target
        self._started = time.monotonic()

    def report(self) -> pb.Health:
        queue, root = self._orchestrator.queue, self._orchestrator.paths.root
        free = disk_free(root)
        return pb.Health(
            version=VERSION,
            pid=os.getpid(),
            uptime_seconds=time.monotonic() - self._started,
            target=self._target,
            home=str(root),
            capacity=capacity_message(queue.capacity),
            reserved=reservation_message(queue.reserved),
            queued=len(queue.queued),
            live=len(queue.live),
            disk_free_bytes=free,
            warnings=[f"only {free >> 20} MB of disk space left in {root}"] if free < _LOW_DISK_BYTES else [],
            warm_servers=self._warm_pool.states(),
            gpu_names=[gpu.name for gpu in queue.capacity.gpus],
        )
