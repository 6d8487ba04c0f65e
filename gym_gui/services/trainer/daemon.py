"""Wiring and life of the daemon: lock, databases, token, socket, recovery, serving, leaving."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tempfile
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event, write_structured_log
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs
from gym_gui.services.trainer.errors import WorldError
from gym_gui.services.trainer.execution.dispatcher import TrainerDispatcher
from gym_gui.services.trainer.execution.executor import tell_of_host
from gym_gui.services.trainer.execution.hosts.fleet import Fleet
from gym_gui.services.trainer.execution.roster import WorkerRoster
from gym_gui.services.trainer.instance_lock import InstanceLock
from gym_gui.services.trainer.presence import Presence
from gym_gui.services.trainer.rpc.front_door import FrontDoor
from gym_gui.services.trainer.rpc.guard import DoorKeeper
from gym_gui.services.trainer.rpc.health import HealthReporter
from gym_gui.services.trainer.rpc.service import TrainerService
from gym_gui.services.trainer.rpc.tokens import ClientToken
from gym_gui.services.trainer.runs.arrivals import Arrivals
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.host_keeper import HostKeeper
from gym_gui.services.trainer.runs.housekeeping import Housekeeping
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.recovery import Recovery
from gym_gui.services.trainer.runs.run_queue import RunQueue
from gym_gui.services.trainer.runs.storage_chore import StorageChore
from gym_gui.services.trainer.runs.timekeeper import Timekeeper
from gym_gui.services.trainer.runs.unread_journals import UnreadJournals
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.stop_note import leave_stop_note, take_stop_note_away
from gym_gui.services.trainer.storage.keep_aside import opened_or_kept_aside
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.sweeps.keeper import SweepKeeper
from gym_gui.services.trainer.telemetry.conversion import StoreConversion
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from gym_gui.services.trainer.telemetry.step_store import StepStore
from gym_gui.services.trainer.telemetry.store import TelemetryStore
from mosaic_host.agent import HostAgent
from mosaic_host.warm_pool import WarmPool
from mosaic_protocol.outbox import MOST_MESSAGE_BYTES
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto.trainer_pb2_grpc import add_TrainerServiceServicer_to_server
from mosaic_protocol.worker_manifest import discover

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Storage:
    registry: RunRegistry
    store: TelemetryStore
    steps: StepStore
    hub: TelemetryHub

    def files(self) -> list[Path]:
        """The databases that there are now."""
        return [self.registry.path, self.store.path, *self.steps.files]

    def close(self) -> None:
        self.hub.close()
        self.store.close()
        self.steps.close()
        self.registry.close()


class TrainerDaemon:
    """One daemon for one data root. :meth:`serve` returns after SIGTERM, SIGINT or the Shutdown call."""

    def __init__(self, paths: MosaicPaths, settings: TrainerSettings) -> None:
        self._paths, self._settings = paths, settings
        self._shutdown = asyncio.Event()
        self._again = False
        """Whether to begin again after leaving: what is open has to be written down first."""

    async def serve(self) -> None:
        """Raises :class:`WorldError` with a sentence when it cannot start; what was begun is undone then."""
        self._again = True
        while self._again:
            self._again, self._shutdown = False, asyncio.Event()
            await self._serve_once()

    async def _serve_once(self) -> None:
        async with AsyncExitStack() as stack:
            _make_folders(self._paths)
            lock = InstanceLock(self._paths)
            stack.callback(lock.release)
            handler = write_structured_log(self._paths.daemon_log)
            stack.callback(_close_log, handler)
            storage = self._open_storage()
            stack.callback(storage.close)
            await self._serve_on(stack, lock, storage)

    async def _serve_on(self, stack: AsyncExitStack, lock: InstanceLock, storage: _Storage) -> None:
        token = ClientToken(self._paths.token_file)
        roster, orchestrator, fleet = await self._wire(storage)
        hosts = HostKeeper(orchestrator, fleet)
        keeper = DoorKeeper(token, orchestrator.judge_worker)
        door = FrontDoor(self._paths, self._settings, lambda: _server(keeper, service, self._settings.most_calls))
        stack.push_async_callback(door.close)  # hung up before the lock is released, after the runs were let go
        stack.push_async_callback(orchestrator.executor.close)
        stack.push_async_callback(orchestrator.close)
        deletion = RunDeletion(self._paths, storage.registry, (storage.store, storage.steps))
        stack.push_async_callback(deletion.close)
        arrivals = Arrivals(orchestrator, deletion)
        stack.push_async_callback(arrivals.close)
        health = HealthReporter(orchestrator, door, fleet)
        sweeps = SweepKeeper(orchestrator, roster)
        stack.push_async_callback(sweeps.close)
        service = TrainerService(orchestrator, roster, deletion, arrivals, health, sweeps, self._shutdown)
        door.bind()
        await arrivals.clean()
        hosts.look()  # a run that waits for a host is refused when nobody knows the host
        await Recovery(orchestrator).run()
        await door.open()
        lock.describe(target=door.target)
        orchestrator.open()
        sweeps.open()
        orchestrator.spawn(hosts.run())
        orchestrator.spawn(Timekeeper(orchestrator, door.is_found).run())
        orchestrator.spawn(Housekeeping(orchestrator, deletion).run())
        orchestrator.spawn(StorageChore(self._paths).run())
        orchestrator.spawn(UnreadJournals(orchestrator, deletion).run())
        orchestrator.spawn(StoreConversion(storage.store).run())
        orchestrator.spawn(orchestrator.upkeep.run())
        orchestrator.spawn(Presence(lock, token, door, storage.files, self._leave).run())
        self._prewarm(orchestrator)
        await self._until_told_to_leave(door.target)
        if not self._again and not lock.replaced():  # what stands there then belongs to another daemon
            leave_stop_note(self._paths)

    def _leave(self, *, again: bool = False) -> None:
        self._again = again
        self._shutdown.set()

    async def _until_told_to_leave(self, target: str) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leave)
        log_event(logger, codes.LOG_TRAINER_STARTED, target=target, pid=os.getpid(), version=VERSION)
        with suppress(OSError):  # nobody may be reading, or the disk is full
            print(f"mosaic trainer {VERSION} listens on {target}, data in {self._paths.root}", flush=True)
        take_stop_note_away(self._paths)
        await self._shutdown.wait()
        log_event(logger, codes.LOG_TRAINER_STOPPED, pid=os.getpid())

    def _open_storage(self) -> _Storage:
        registry = opened_or_kept_aside(self._paths.registry_db, RunRegistry)
        try:
            store = opened_or_kept_aside(self._paths.telemetry_db, TelemetryStore)
        except BaseException:
            registry.close()
            raise
        try:
            steps = opened_or_kept_aside(self._paths.steps_db, StepStore)
        except BaseException:
            registry.close()
            store.close()
            raise
        return _Storage(registry, store, steps, TelemetryHub(store, steps))

    async def _wire(self, storage: _Storage) -> tuple[WorkerRoster, TrainerOrchestrator, Fleet]:
        settings, paths = self._settings, self._paths
        found = await asyncio.to_thread(discover)
        bundles = BundleManager(paths, requirement_dirs(found.workers.values()))
        roster = WorkerRoster(bundles)
        warm_pool = WarmPool(
            paths.logs / "fork_server.log",
            idle_seconds=settings.warm_idle_seconds,
            enabled=settings.warm_starts,
            tell=tell_of_host,
        )
        executor = Fleet(paths, HostAgent(paths, warm_pool, tell_of_host), settings.host_hours * 3600)
        capacity = await executor.capacity(settings.cpus or None, settings.memory_mb or None)
        orchestrator = TrainerOrchestrator(
            paths,
            settings,
            storage.registry,
            storage.hub,
            RunQueue(capacity, settings.interactive_cpus),
            TrainerDispatcher(paths, bundles, roster.registered_runners, capacity.gpus, executor.site),
            executor,
        )
        return roster, orchestrator, executor

    def _prewarm(self, orchestrator: TrainerOrchestrator) -> None:
        for worker_type in filter(None, self._settings.prewarm.split(",")):
            orchestrator.spawn(orchestrator.warm_up(worker_type.strip()))


def _server(keeper: DoorKeeper, service: TrainerService, most_calls: int) -> grpc.aio.Server:
    options = [
        ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
        ("grpc.max_send_message_length", -1),  # the client knows how much it takes
        ("grpc.so_reuseport", 0),  # a port that another program has is refused, not shared
    ]
    server = grpc.aio.server(interceptors=[keeper], options=options, maximum_concurrent_rpcs=most_calls)
    add_TrainerServiceServicer_to_server(service, server)
    return server


def _make_folders(paths: MosaicPaths) -> None:
    """Create what the daemon writes to; only its owner may look into the trainer's folder."""
    try:
        for folder in (paths.trainer, paths.configs, paths.runs, paths.logs, paths.telemetry_db.parent):
            folder.mkdir(parents=True, exist_ok=True)
        paths.trainer.chmod(0o700)
        with tempfile.TemporaryFile(dir=paths.trainer):  # without a name: another daemon may be trying the same now
            pass
    except OSError as error:
        raise WorldError(
            f"cannot use {paths.root} for data: {error.strerror} ({error.filename}). "
            "Set MOSAIC_HOME to a folder you can write to, or mend its permissions."
        ) from error


def _close_log(handler: logging.Handler) -> None:
    logging.getLogger("gym_gui").removeHandler(handler)
    handler.close()
