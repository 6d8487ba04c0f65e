"""Whether a run could ever start here, asked by every dry run. A submitted run is refused by the daemon itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mosaic_protocol.run_config import Resources
from mosaic_protocol.unix_socket import listener

if TYPE_CHECKING:
    from mosaic_host.capacity import HostCapacity
    from mosaic_protocol.paths import MosaicPaths

_PATIENCE_SECONDS = 5.0


def why_no_room(paths: MosaicPaths, resources: Mapping[str, Any], *, interactive: bool = False) -> str:
    """A sentence about a run that asks for more than there is, "" for one that fits. Blocking.

    What there is: what the running daemon has to give, or, since a dry run starts none, what one that is started now
    would have. ``resources`` are those of an accepted run config; ``interactive`` is what its worker says of its runs.
    """
    from gym_gui.services.trainer.runs.run_queue import Demand, RunQueue

    asked = Resources.model_validate(resources)
    if asked.host:
        return ""  # only the daemon knows its hosts, and it refuses what does not fit
    wanted = asked.cpus.requested, asked.gpus.requested, asked.memory_mb.requested
    demand = Demand(*wanted, asked.gpus.mandatory, interactive)
    capacity, apart = _of_running_daemon(paths) or _of_this_machine(needs_gpus=demand.mandatory_gpus > 0)
    return RunQueue(capacity, apart).refusal(demand) or ""


def _of_running_daemon(paths: MosaicPaths) -> tuple[HostCapacity, int] | None:
    """What it has, and the CPUs that interactive runs have of their own."""
    from gym_gui.services.trainer.client import ClientError, TrainerClient
    from mosaic_host.capacity import HostCapacity
    from mosaic_host.gpu import Gpu

    if listener(paths.socket) is None:
        return None
    try:
        with TrainerClient.connect(paths, start=False, patience=0.0, timeout=_PATIENCE_SECONDS) as client:
            health = client.health()
    except (ClientError, OSError):
        return None
    told = health.capacity
    gpus = tuple(Gpu(index, "", "", 0) for index in told.gpu_indices)
    return HostCapacity(told.cpus, told.memory_mb, gpus), health.interactive_cpus


def _of_this_machine(*, needs_gpus: bool) -> tuple[HostCapacity, int]:
    from gym_gui.services.trainer.settings import TrainerSettings
    from mosaic_host.capacity import HostCapacity

    settings = TrainerSettings.from_environment()
    capacity = HostCapacity.detect(
        cpus=settings.cpus or None, memory_mb=settings.memory_mb or None, gpus=None if needs_gpus else ()
    )
    return capacity, settings.interactive_cpus
