"""Wiring and life of the daemon: lock, token, databases, port, recovery, serving, leaving."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event, write_structured_log
from gym_gui.services.trainer import VERSION, tokens
from gym_gui.services.trainer.bundles import BundleManager, requirement_dirs
from gym_gui.services.trainer.deletion import RunDeletion
from gym_gui.services.trainer.dispatcher import TrainerDispatcher
from gym_gui.services.trainer.errors import CannotListenError, WorldError
from gym_gui.services.trainer.health import HealthReporter
from gym_gui.services.trainer.host import HostCapacity
from gym_gui.services.trainer.housekeeping import Housekeeping
from gym_gui.services.trainer.hub import TelemetryHub
from gym_gui.services.trainer.instance_lock import InstanceLock
from gym_gui.services.trainer.keep_aside import opened_or_kept_aside
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.process import LocalExecutor
from gym_gui.services.trainer.recovery import Recovery
from gym_gui.services.trainer.roster import WorkerRoster
from gym_gui.services.trainer.rpc_guard import ClientTokenInterceptor
from gym_gui.services.trainer.run_queue import RunQueue
from gym_gui.services.trainer.run_registry import RunRegistry
from gym_gui.services.trainer.service import TrainerService
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.store import TelemetryStore
from gym_gui.services.trainer.timekeeper import Timekeeper
from gym_gui.services.trainer.warm_pool import WarmPool
from mosaic_protocol.endpoint import CHANNEL_OPTIONS, Endpoint
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto.trainer_pb2_grpc import add_TrainerServiceServicer_to_server
from mosaic_protocol.worker_manifest import discover

logger = logging.getLogger(__name__)

_LEAVE_SECONDS = 1.0


@dataclass(frozen=True)
class _Storage:
    registry: RunRegistry
    store: TelemetryStore
    hub: TelemetryHub

    def close(self) -> None:
        self.hub.close()
        self.store.close()
        self.registry.close()


class TrainerDaemon:
    """One daemon for one data root. :meth:`serve` returns after SIGTERM, SIGINT or the Shutdown call."""

    def __init__(self, paths: MosaicPaths, settings: TrainerSettings) -> None:
        self._paths, self._settings = paths, settings
        self._shutdown = asyncio.Event()

    async def serve(self) -> None:
        """Raises :class:`WorldError` with a sentence when it cannot start; what was begun is undone then."""
        async with AsyncExitStack() as stack:
            _make_folders(self._paths)
            lock = InstanceLock(self._paths.lock_file)
            stack.callback(lock.release)
            handler = write_structured_log(self._paths.daemon_log)
            stack.callback(_close_log, handler)
            storage = self._open_storage()
            stack.callback(storage.close)
            server, target = self._bind()
            stack.push_async_callback(server.stop, _LEAVE_SECONDS)
            await self._serve_on(stack, lock, storage, server, target)

    async def _serve_on(
        self, stack: AsyncExitStack, lock: InstanceLock, storage: _Storage, server: grpc.aio.Server, target: str
    ) -> None:
        roster, orchestrator, warm_pool = await self._wire(storage, target)
        stack.push_async_callback(orchestrator.executor.close)
        stack.push_async_callback(orchestrator.close)
        deletion = RunDeletion(self._paths, storage.registry, storage.store)
        stack.push_async_callback(deletion.close)
        health = HealthReporter(orchestrator, warm_pool, target)
        service = TrainerService(orchestrator, roster, deletion, health, self._shutdown)
        add_TrainerServiceServicer_to_server(service, server)
        await Recovery(orchestrator).run()
        Endpoint(target, os.getpid(), _absolute(self._settings.tls_cert)).write(self._paths.endpoint_file)
        lock.describe(target=target)
        await server.start()
        orchestrator.open()
        orchestrator.spawn(Timekeeper(orchestrator).run())
        orchestrator.spawn(Housekeeping(orchestrator, deletion, warm_pool).run())
        self._prewarm(orchestrator)
        await self._until_told_to_leave(target)

    async def _until_told_to_leave(self, target: str) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._shutdown.set)
        log_event(logger, codes.LOG_TRAINER_STARTED, target=target, pid=os.getpid(), version=VERSION)
        with suppress(OSError):  # nobody may be reading, or the disk is full
            print(f"mosaic trainer {VERSION} listens on {target}, data in {self._paths.root}", flush=True)
        await self._shutdown.wait()
        log_event(logger, codes.LOG_TRAINER_STOPPED, pid=os.getpid())

    def _open_storage(self) -> _Storage:
        tokens.daemon_token(self._paths.token_file)
        registry = opened_or_kept_aside(self._paths.registry_db, RunRegistry)
        try:
            store = opened_or_kept_aside(self._paths.telemetry_db, TelemetryStore)
            return _Storage(registry, store, TelemetryHub(store))
        except BaseException:
            registry.close()
            raise

    async def _wire(self, storage: _Storage, target: str) -> tuple[WorkerRoster, TrainerOrchestrator, WarmPool]:
        settings, paths = self._settings, self._paths
        found = await asyncio.to_thread(discover)
        bundles = BundleManager(paths, requirement_dirs(found.workers.values()))
        roster = WorkerRoster(bundles)
        capacity = await asyncio.to_thread(
            lambda: HostCapacity.detect(cpus=settings.cpus or None, memory_mb=settings.memory_mb or None)
        )
        warm_pool = WarmPool(
            paths.logs / "fork_server.log", idle_seconds=settings.warm_idle_seconds, enabled=settings.warm_starts
        )
        orchestrator = TrainerOrchestrator(
            paths,
            settings,
            storage.registry,
            storage.hub,
            RunQueue(capacity),
            TrainerDispatcher(paths, bundles, roster.registered_runners, capacity.gpus, target),
            LocalExecutor(warm_pool),
        )
        return roster, orchestrator, warm_pool

    def _prewarm(self, orchestrator: TrainerOrchestrator) -> None:
        for worker_type in filter(None, self._settings.prewarm.split(",")):
            orchestrator.spawn(orchestrator.warm_up(worker_type.strip()))

    def _bind(self) -> tuple[grpc.aio.Server, str]:
        """A server that owns its port but does not answer yet."""
        token = tokens.read_daemon_token(self._paths.token_file)
        options = [*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(interceptors=[ClientTokenInterceptor(token)], options=options)
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        wanted = f"{host}:{self._settings.port}"
        try:
            port = self._add_port(server, wanted)
        except (RuntimeError, OSError) as error:
            raise CannotListenError(
                f"cannot listen on {wanted}: {_why(error)}. Another program may use the port: "
                "choose one with --port (0 takes a free one) or MOSAIC_TRAINER_PORT."
            ) from error
        return server, f"{_dialled(host)}:{port}"

    def _add_port(self, server: grpc.aio.Server, wanted: str) -> int:
        if not self._settings.tls_cert:
            return server.add_insecure_port(wanted)
        return server.add_secure_port(wanted, _credentials(self._settings.tls_cert, self._settings.tls_key))


def _credentials(cert: str, key: str) -> grpc.ServerCredentials:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)  # gRPC would not say what is wrong with them
        pair = (Path(key).read_bytes(), Path(cert).read_bytes())
    except OSError as error:
        raise CannotListenError(
            f"cannot use the certificate {cert} with the key {key}: {error.strerror or error}. Give a PEM certificate "
            "chain as --tls-cert and the PEM private key that belongs to it as --tls-key."
        ) from error
    return grpc.ssl_server_credentials([pair])


def _absolute(path: str) -> str:
    """Clients read it from folders of their own."""
    return str(Path(path).absolute()) if path else ""


def _dialled(host: str) -> str:
    """Where clients of this machine reach a daemon that listens on all its addresses."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)


def _why(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else "the address is in use or not ours"


def _make_folders(paths: MosaicPaths) -> None:
    """Create what the daemon writes to; only its owner may look into the trainer's folder."""
    try:
        for folder in (paths.trainer, paths.configs, paths.runs, paths.logs, paths.telemetry_db.parent):
            folder.mkdir(parents=True, exist_ok=True)
        paths.trainer.chmod(0o700)
        probe = paths.trainer / ".writable"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise WorldError(
            f"cannot use {paths.root} for data: {error.strerror} ({error.filename}). "
            "Set MOSAIC_HOME to a folder you can write to, or mend its permissions."
        ) from error


def _close_log(handler: logging.Handler) -> None:
    logging.getLogger("gym_gui").removeHandler(handler)
    handler.close()
