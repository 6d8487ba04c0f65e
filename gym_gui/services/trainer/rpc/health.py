"""How the daemon is doing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from gym_gui.services.storage.disk import disk_warning
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.execution.hosts.fleet import Fleet, HostState, allowed
from gym_gui.services.trainer.rpc.front_door import FrontDoor
from gym_gui.services.trainer.rpc.presentation import capacity_message, reservation_message
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from mosaic_host.capacity import disk_room
from mosaic_protocol.host_labels import GPU
from mosaic_protocol.proto import trainer_pb2 as pb

_SHOWN_RUNS = 5


class HealthReporter:
    """Cheap enough to be asked every second."""

    def __init__(self, orchestrator: TrainerOrchestrator, door: FrontDoor, fleet: Fleet) -> None:
        self._orchestrator, self._door, self._fleet = orchestrator, door, fleet
        self._started = time.monotonic()

    async def report(self) -> pb.Health:
        queue, root = self._orchestrator.queue, self._orchestrator.paths.root
        room = disk_room(root)
        low_disk = disk_warning(room, self._orchestrator.settings.disk_warn_percent)
        return pb.Health(
            version=VERSION,
            pid=os.getpid(),
            uptime_seconds=time.monotonic() - self._started,
            target=self._door.target,
            tcp_target=self._door.tcp_target,
            home=str(root),
            capacity=capacity_message(queue.capacity),
            reserved=reservation_message(queue.reserved),
            queued=len(queue.queued),
            live=len(queue.live),
            disk_free_bytes=room.free,
            disk_total_bytes=room.total,
            disk_warning=low_disk,
            warnings=[*filter(None, [low_disk]), *self._unread_journals()],
            warm_servers=await self._orchestrator.executor.warm_servers(),
            gpu_names=[gpu.name for gpu in queue.capacity.gpus],
            interactive_cpus=queue.interactive_cpus,
            interactive_reserved=queue.reserved_interactive,
            interactive_queued=queue.queued_interactive,
            hosts=map(self._host, self._fleet.states()),
        )

    def _host(self, state: HostState) -> pb.Host:
        queue, host = self._orchestrator.queue, state.host
        return pb.Host(
            name=host.name,
            connected=state.is_wanted,
            away=state.why_away,
            capacity=capacity_message(allowed(host, state.facts.capacity)) if state.facts else None,
            reserved=reservation_message(queue.reserved_on(host.name)),
            live=queue.live_on(host.name),
            drained=host.drained,
            labels=sorted({*host.labels, *([GPU] if state.facts and state.facts.capacity.gpus else [])}),
        )

    def _unread_journals(self) -> Iterator[str]:
        if unread := self._orchestrator.unread_journals:
            shown = ", ".join(sorted(unread.values())[:_SHOWN_RUNS])
            more = ", …" if len(unread) > _SHOWN_RUNS else ""
            yield (
                f"what {len(unread)} of the runs said last is not read yet, because their folder is away: "
                f"{shown}{more}. Bring it back, or purge what is not needed"
            )
