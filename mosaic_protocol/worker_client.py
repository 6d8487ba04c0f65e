"""A worker's side of the conversation with the daemon.

:class:`WorkerSession` is all that a worker needs: it claims the launch, shakes hands, keeps the outbox published and
acknowledged across daemon restarts, sends heartbeats, and knows what the daemon wants. One background thread with one
asyncio loop does the talking; every public method may be called from any thread and none of them waits for the network
unless its name says so. When the daemon is away the worker goes on and the outbox keeps what it says.

The smallest worker::

    with WorkerSession.from_environment({"algo": "mine"}) as session:
        session.started(total_steps=1000)
        step = 0
        while session.safe_point(step) and step < 1000:
            step += 1
            session.metric(step, {"charts/episodic_return": train_a_little()})
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc

from mosaic_protocol import claims, events
from mosaic_protocol.endpoint import Endpoint, quiet_grpc_logs, worker_pass
from mosaic_protocol.full_disk import print_past_a_full_disk, until_it_works
from mosaic_protocol.outbox import WAITS, OutboxWriter
from mosaic_protocol.outbox_publisher import OutboxPublisher
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub
from mosaic_protocol.states import Desired
from mosaic_protocol.unix_socket import listener

if TYPE_CHECKING:
    from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceAsyncStub

PROTOCOL_VERSION = "1"
EXIT_REVOKED = 75
"""Exit status of a worker whose launch was revoked before it began; the daemon ignores such a process."""

_CALL_TIMEOUT = 5.0
_MAX_BACKOFF = 1.0
_NAP = 0.05
_FINISH_TIMEOUT = 10.0


class LaunchRevokedError(Exception):
    """Another launch of this run took its place: leave without touching anything."""


@dataclass(frozen=True)
class WorkerContext:
    """What the daemon hands to the worker process through its environment."""

    run_id: str
    run_dir: Path
    attempt: int
    launch_token: str = field(repr=False)
    home: Path
    target: str = ""
    """The address of the daemon, the socket of its data root unless somebody named another."""
    agent: Path | None = None
    """The socket of the host agent, for a worker on another machine than its daemon."""
    leave_seconds: float = 0.0
    """How long such a worker goes on when neither the daemon nor the agent can be reached."""

    @classmethod
    def from_environment(cls, target: str | None = None) -> WorkerContext:
        """Read the environment, taking the launch token out of it so that no child inherits it. ``target`` is the
        address from the command line (``--grpc-target``), if there was one."""
        try:
            return cls(
                run_id=os.environ["MOSAIC_RUN_ID"],
                run_dir=Path(os.environ["MOSAIC_RUN_DIR"]),
                attempt=int(os.environ.get("MOSAIC_ATTEMPT", "1")),
                launch_token=os.environ.pop("MOSAIC_LAUNCH_TOKEN"),
                home=Path(os.environ["MOSAIC_HOME"]),
                target=target or os.environ.get("MOSAIC_GRPC_TARGET", ""),
                **_left_alone(os.environ),
            )
        except KeyError as error:
            raise RuntimeError(
                f"{error.args[0]} is not set: a worker is started by the trainer daemon (mosaic train …), not by hand"
            ) from None

    def endpoint(self) -> Endpoint:
        """Where the daemon listens."""
        paths = MosaicPaths(self.home)
        return Endpoint.at(self.target, paths) if self.target else Endpoint.of(paths)


class WorkerSession:
    """One run's conversation with the daemon. Use as a context manager, or :meth:`open` and :meth:`finish`."""

    def __init__(self, context: WorkerContext, capabilities: Mapping[str, Any] | None = None) -> None:
        self.context = context
        self.run = RunPaths(context.run_dir)
        self._capabilities = dict(capabilities or {})
        self._changed = threading.Condition()
        self._desired = Desired.RUN
        self._reason = ""
        self._grace = 3.0
        self._registered = False
        self._step, self._total, self._phase = 0, 0, "starting"
        self._heartbeat_seconds = 1.0
        self._session_token = ""
        self._numbered: dict[str, int] = {}
        """How far other processes of this worker have numbered their journals."""
        self._throttled = ""
        self._beat_now: Callable[[], None] = lambda: None
        self._closed_word = False
        self._refusal_told: str | None = ""
        self.on_change: Callable[[], None] | None = None
        """Called, in any thread, after :attr:`desired` changed or the handshake was made. Must be quick."""
        self._thread: threading.Thread | None = None
        self._stop_talking = threading.Event()
        self._stop_wanted_at: float | None = None
        self._heard_at = time.monotonic()
        """When the daemon, or the agent in its place, was there last."""

    @classmethod
    def from_environment(
        cls, capabilities: Mapping[str, Any] | None = None, *, target: str | None = None
    ) -> WorkerSession:
        return cls(WorkerContext.from_environment(target), capabilities)

    # ---- life ----------------------------------------------------------------------------------------------------

    def open(self, *, claim: bool = True) -> None:
        """Claim the launch and begin to talk. Raises :class:`LaunchRevokedError`; never waits for the daemon, but for
        disk space. From here on a full disk costs lines of the log, and no run."""
        if claim:
            self.claim()
        quiet_grpc_logs()
        self._owner = os.getpid()
        self._journal = until_it_works(lambda: OutboxWriter(self.run.outbox, "worker"), "open the journal")
        self._publisher = OutboxPublisher(self.run.outbox, self.context.run_id, self._note_progress)
        self._thread = threading.Thread(target=self._talk, name="mosaic-worker-session", daemon=True)
        self._thread.start()

    def claim(self) -> None:
        """Take the launch attempt for this process. Separate from :meth:`open` for workers that fork before they
        talk."""
        print_past_a_full_disk()
        if not claims.claim(self.run.claims, self.context.attempt):
            raise LaunchRevokedError(f"run {self.context.run_id}: launch {self.context.attempt} was revoked")

    def finish(self, timeout: float = _FINISH_TIMEOUT) -> bool:
        """Wait until the daemon acknowledged everything, at most ``timeout`` seconds; True when it did.

        What is not acknowledged stays in the outbox, where the daemon reads it once the process is gone. On a full disk
        it is not in the outbox yet; that is waited for without limit, or a few seconds when a stop is wanted.
        """
        self._journal.wait_for_space(give_up=self._stop_presses)
        self._journal.close()
        delivered = self._publisher.wait_until_delivered(timeout)
        self._stop_talking.set()
        self._publisher.nudge()
        if self._thread is not None:
            self._thread.join(_CALL_TIMEOUT)
        return delivered

    def _stop_presses(self) -> bool:
        if self._desired is Desired.STOP and self._stop_wanted_at is None:
            self._stop_wanted_at = time.monotonic()
        return self._stop_wanted_at is not None and time.monotonic() - self._stop_wanted_at > self._grace

    def __enter__(self) -> WorkerSession:
        try:
            self.open()
        except LaunchRevokedError:
            os._exit(EXIT_REVOKED)
        with contextlib.suppress(ValueError):  # signal handlers belong to the main thread
            signal.signal(signal.SIGTERM, lambda *_: self.request(Desired.STOP, "SIGTERM"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._owner:
            return  # a fork that leaves the block: the run is its parent's
        if not self._closed_word:
            self._say_how_it_ended(error)
        self.finish()

    def _say_how_it_ended(self, error: BaseException | None) -> None:
        if error is not None:
            self.lifecycle(events.RUN_FAILED, f"{type(error).__name__}: {error}")
        elif self.desired is Desired.STOP:
            self.lifecycle(events.RUN_STOPPED, f"stopped at step {self._step}")
        else:
            self.lifecycle(events.RUN_COMPLETED, f"finished at step {self._step}")

    # ---- saying --------------------------------------------------------------------------------------------------

    def lifecycle(self, event: str, sentence: str = "", **detail: Any) -> None:
        """Journal a word about the run; ``stdout_tail`` may be among the details."""
        tail = str(detail.pop("stdout_tail", ""))
        self._closed_word = self._closed_word or event in events.CLOSING_EVENTS
        self.publish(
            events.RunLifecycleEvent(event=event, sentence=sentence, step=self._step, stdout_tail=tail, detail=detail)
        )
        if self._journal.held:
            self._beat_now()  # which says how many records there are, in case they are never written

    def started(self, total_steps: int = 0) -> None:
        self.progress(0, total_steps, "training")
        self.lifecycle(events.RUN_STARTED)

    def metric(self, step: int, values: Mapping[str, float | None]) -> None:
        """Journal scalars. Number types of other libraries are taken; what is no number is refused here, because in the
        journal it would keep the daemon from reading on."""
        row = {tag: None if value is None else float(value) for tag, value in values.items()}
        self.progress(step)
        self.publish(events.MetricRow(step=self._step, values=row))

    def log(self, code: str, message: str, level: str = "INFO", **fields: Any) -> None:
        self.publish(events.LogRecord(code=code, message=message, level=level, fields=fields))

    def publish(self, record: events.Record) -> None:
        """Append any record to the journal and let it travel."""
        self._journal.append(record)
        self._publisher.nudge()

    def progress(self, step: int, total: int | None = None, phase: str | None = None) -> None:
        """What the next heartbeat says. Cheap."""
        self._step = _as_step(step)
        self._total = self._total if total is None else total
        self._phase = self._phase if phase is None else phase

    def numbered(self, stream: str, seq: int) -> None:
        """Another process of this worker has numbered its records up to here, and cannot write them now. The daemon
        hears it with the next heartbeat: if they die with the process, the run can say how many they were."""
        self._numbered[stream] = seq
        self._beat_now()

    def throttled(self, sentence: str) -> None:
        """What this worker records waits for something, and the worker with it; "" when it goes on. The daemon hears it
        at once, by the heartbeat: where the disk is full no journal takes the word."""
        self._throttled = sentence
        self._beat_now()

    def _note_progress(self, stream: str, line: bytes) -> None:
        """Another process of this worker journals for itself: its newest metric shows how far the run is."""
        if stream == self._journal.stream:
            return
        with contextlib.suppress(events.RecordError):
            record = events.decode(line)
            if isinstance(record, events.MetricRow):
                self._step = max(self._step, record.step)

    # ---- hearing -------------------------------------------------------------------------------------------------

    @property
    def desired(self) -> Desired:
        """What the daemon wants now."""
        return self._desired

    @property
    def stop_reason(self) -> str:
        return self._reason

    @property
    def grace_seconds(self) -> float:
        """How long the daemon waits after a stop before it kills."""
        return self._grace

    @property
    def registered(self) -> bool:
        """Whether the handshake was made."""
        return self._registered

    def wait_registered(self, timeout: float) -> bool:
        """Wait for the handshake; False when it did not happen in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._registered or self._desired is Desired.STOP, timeout) and (
                self._registered
            )

    def wait_desired_change(self, seen: Desired, timeout: float) -> Desired:
        """Wait until something else than ``seen`` is wanted, at most ``timeout`` seconds; what is wanted now."""
        with self._changed:
            self._changed.wait_for(lambda: self._desired is not seen, timeout)
            return self._desired

    def safe_point(self, step: int) -> bool:
        """Call where it is safe to hold: blocks while paused, False when the worker should stop and return."""
        self._step = _as_step(step)
        if self._desired is Desired.PAUSE:
            self._hold()
        return self._desired is not Desired.STOP

    def _hold(self) -> None:
        self.progress(self._step, phase="paused")
        self.lifecycle(events.RUN_PAUSED)
        while self.wait_desired_change(Desired.PAUSE, timeout=3600.0) is Desired.PAUSE:
            pass
        self.progress(self._step, phase="training")
        if self._desired is Desired.RUN:
            self.lifecycle(events.RUN_RESUMED)

    def request(self, desired: Desired, reason: str = "", grace: float | None = None) -> None:
        """Take a request over, the daemon's or a signal's. A stop is final: nothing that comes later takes it back."""
        with self._changed:
            if self._desired is Desired.STOP:
                return
            self._desired, self._reason = desired, reason
            self._grace = self._grace if grace is None else grace
            self._changed.notify_all()
        self._tell_owner()

    def _tell_owner(self) -> None:
        if self.on_change is not None:
            self.on_change()

    # ---- talking (background thread) -----------------------------------------------------------------------------

    def _talk(self) -> None:
        asyncio.run(self._keep_conversing())

    async def _keep_conversing(self) -> None:
        backoff = 0.05
        while not self._stop_talking.is_set():
            began = time.monotonic()
            try:
                await self._converse()
            except grpc.aio.AioRpcError as error:
                self._note_refusal(error)
            except (OSError, asyncio.InvalidStateError, asyncio.CancelledError):
                pass  # the daemon went away in the middle of a call, or its certificate is not readable yet
            except Exception:  # noqa: BLE001 - silence would cost a healthy run its life
                traceback.print_exc()
            backoff = 0.05 if time.monotonic() - began > 5 else min(_MAX_BACKOFF, backoff * 2)
            self._write_held()
            self._leave_if_alone()
            await self._pause(backoff * random.uniform(0.5, 1.0))

    def _leave_if_alone(self) -> None:
        """On another machine nobody may ever come back for it. A worker beside its daemon goes on."""
        agent, now = self.context.agent, time.monotonic()
        if agent is None or listener(agent) is not None:
            self._heard_at = now
        elif now - self._heard_at > self.context.leave_seconds:
            waited = f"{self.context.leave_seconds:g} s"
            self.request(Desired.STOP, f"neither the trainer daemon nor the host agent could be reached for {waited}")

    async def _pause(self, seconds: float) -> None:
        """In short naps and not in another thread: where no thread can be had, a healthy run must not fall silent."""
        until = time.monotonic() + seconds
        while not self._stop_talking.is_set() and (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 - a thread's
            await asyncio.sleep(min(left, _NAP))

    def _write_held(self) -> None:
        """Words that a full disk held back are not to wait for the next word."""
        if self._journal.held and self._journal.flush():
            self._publisher.nudge()

    def _note_refusal(self, error: grpc.aio.AioRpcError) -> None:
        """The daemon is away, or does not know this worker, because its registry is: go on. The run is over: stop. It
        refuses a record: that cannot be helped while the run goes on, but its log has to say why no numbers come."""
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            self.request(Desired.STOP, error.details() or "the trainer daemon refused this worker")
        elif error.code() is grpc.StatusCode.INVALID_ARGUMENT and error.details() != self._refusal_told:
            self._refusal_told = error.details()
            waits = "what was said since waits in the outbox and is read when the run ends"
            print(
                f"mosaic: the trainer daemon refuses what this worker says ({error.details()}); {waits}",
                file=sys.stderr,
            )

    async def _converse(self) -> None:
        async with self.context.endpoint().aio_channel() as channel:
            stub = TrainerServiceStub(channel)
            if not self._session_token:
                await self._register(stub)
            await self._talk_in_parallel(stub)

    async def _talk_in_parallel(self, stub: TrainerServiceAsyncStub) -> None:
        """Publish, beat and listen until one of them fails or the session ends."""
        meta = worker_pass(self._session_token, self.context.run_id)
        await self._beat_once(stub, meta)  # first, so that a worker that cannot publish is not taken for hung
        tasks = [
            asyncio.ensure_future(self._publisher.run(stub, meta, self._stop_talking)),
            asyncio.ensure_future(self._beat(stub, meta)),
            asyncio.ensure_future(self._listen(stub, meta)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _register(self, stub: TrainerServiceAsyncStub) -> None:
        me = ProcessIdentity.current()
        request = pb.RegisterWorkerRequest(
            run_id=self.context.run_id,
            worker_id=os.environ.get("MOSAIC_WORKER_ID", ""),
            pid=me.pid,
            start_ticks=me.start_ticks,
            capabilities_json=json.dumps(self._capabilities, default=str),
            protocol_version=PROTOCOL_VERSION,
        )
        meta = worker_pass(self.context.launch_token, self.context.run_id)
        answer = await stub.RegisterWorker(request, metadata=meta, timeout=_CALL_TIMEOUT)
        self._session_token = answer.session_token
        self._heartbeat_seconds = answer.heartbeat_seconds or self._heartbeat_seconds
        with self._changed:
            self._registered = True
            self._changed.notify_all()
        self._tell_owner()
        self.request(Desired(answer.desired or Desired.RUN))

    async def _beat(self, stub: TrainerServiceAsyncStub, meta: tuple[tuple[str, str], ...]) -> None:
        soon, loop = asyncio.Event(), asyncio.get_running_loop()
        self._beat_now = lambda: _unless_closed(loop, soon.set)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_seconds):
                    await soon.wait()
            soon.clear()
            self._write_held()
            await self._beat_once(stub, meta)

    async def _beat_once(self, stub: TrainerServiceAsyncStub, meta: tuple[tuple[str, str], ...]) -> None:
        request = pb.HeartbeatRequest(
            run_id=self.context.run_id,
            step=self._step,
            total_steps=self._total,
            phase=self._phase,
            journalled={**self._numbered, self._journal.stream: self._journal.last_seq},
            throttled=self._throttled or (WAITS if self._journal.held else ""),
        )
        answer = await stub.Heartbeat(request, metadata=meta, timeout=_CALL_TIMEOUT)
        self._heard_at = time.monotonic()
        if answer.desired == Desired.STOP:
            self.request(Desired.STOP)

    async def _listen(self, stub: TrainerServiceAsyncStub, meta: tuple[tuple[str, str], ...]) -> None:
        async for message in stub.ControlStream(pb.ControlHello(run_id=self.context.run_id), metadata=meta):
            self.request(Desired(message.desired), message.reason, message.grace_seconds or None)


def _left_alone(environ: Mapping[str, str]) -> dict[str, Any]:
    """What a worker on another machine is told of being left alone; nothing on the daemon's own."""
    agent = environ.get("MOSAIC_HOST_AGENT")
    return {"agent": Path(agent), "leave_seconds": float(environ["MOSAIC_LEAVE_SECONDS"])} if agent else {}


def _unless_closed(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call something in the talking thread, which may have stopped talking."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _as_step(number: int) -> int:
    """A step as records and messages can carry it, from any kind of integer."""
    return min(max(int(number), 0), 2**63 - 1)
