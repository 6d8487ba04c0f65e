"""The orchestrator: applies lifecycle decisions to runs, durably first, then for real.

Every change of a run goes through :meth:`TrainerOrchestrator.apply`: decide purely, commit, then act. Requests of
people fail when they cannot be stored; events of the world (an exit, a deadline) are retried until they can. Ending the
processes of a run comes first where nothing can be stored: stop means stopped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ulid import ULID

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_bug, log_event
from gym_gui.services.run_labels import config_of, labels_in
from gym_gui.services.script_consent import ForeignScript, foreign_script
from gym_gui.services.trainer.errors import (
    AuthenticationError,
    IllegalMoveError,
    LaunchError,
    NotReadyError,
    RefusedError,
    StorageFullError,
    UnknownRunError,
    UnknownTokenError,
    WorldError,
    WrongStateError,
    launch_problem,
)
from gym_gui.services.trainer.execution.dispatcher import TrainerDispatcher
from gym_gui.services.trainer.execution.executor import Executor, LaunchSpec, StartedWorker, WorkerHandle
from gym_gui.services.trainer.rpc import tokens
from gym_gui.services.trainer.runs import introduction
from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs.background import BackgroundWork
from gym_gui.services.trainer.runs.clearing import RunClearing
from gym_gui.services.trainer.runs.disk_watch import DiskWatch
from gym_gui.services.trainer.runs.queue_keys import QueueKeys
from gym_gui.services.trainer.runs.reordering import (
    Place,
    Where,
    new_key,
    rehosted,
    require_movable,
    require_queued,
    require_same_line,
)
from gym_gui.services.trainer.runs.run_queue import Demand, Reservation, RunQueue
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.runs.seed_runs import SeedRuns
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.services.trainer.runs.watchdog import Moment
from gym_gui.services.trainer.settings import TrainerSettings
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.services.trainer.telemetry.hub import TelemetryHub
from gym_gui.services.trainer.telemetry.step_upkeep import StepUpkeep
from gym_gui.services.trainer.validation.train_config import validate_train_run_config
from mosaic_host.errors import StartError
from mosaic_host.executor import Claimant
from mosaic_protocol import events as ev
from mosaic_protocol.imported_runs import IMPORTED
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.run_config import LabelChange, RunConfig, RunConfigError, Schedule, parse_run_config, to_json
from mosaic_protocol.seed_runs import seeds_of
from mosaic_protocol.states import LIVE_STATES, Desired, RunState
from mosaic_protocol.whole_files import write_whole
from mosaic_protocol.worker_manifest import WorkerManifest

logger = logging.getLogger(__name__)
T = TypeVar("T")

_LAUNCH_AGAIN_SECONDS = 2.0
_LONGEST_PAUSE = 5.0
_LONGEST_REASON = 500


class TrainerOrchestrator:
    """Belongs to the daemon's event loop. Start with :meth:`open` after recovery, end with :meth:`close`."""

    def __init__(
        self,
        paths: MosaicPaths,
        settings: TrainerSettings,
        registry: RunRegistry,
        hub: TelemetryHub,
        queue: RunQueue,
        dispatcher: TrainerDispatcher,
        executor: Executor,
    ) -> None:
        self.paths, self.settings = paths, settings
        self.registry, self.hub, self.queue = registry, hub, queue
        self.dispatcher, self.executor = dispatcher, executor
        self.tracked: dict[str, TrackedRun] = {}
        """Every run that is not over, queued or live."""
        self.unread_journals: dict[str, str] = {}
        """Runs that ended while their folder was away, by id, and how a person calls them."""
        self.disk = DiskWatch(paths.root)
        self.upkeep = StepUpkeep(hub.steps, self._kept_of_ended)
        self._work = BackgroundWork()
        self._clearing = RunClearing(hub, executor)
        self._seed_runs = SeedRuns(paths, registry, hub, self._clearing)
        self.queue_keys = QueueKeys()
        self.before_submit: Callable[[], None] = lambda: None
        """Called before a run is judged: the keeper of the list of hosts looks at it."""
        self.why_it_waits: Callable[[RunRecord], str] = lambda _: ""
        """What keeps the host of a queued run from taking it, "" for nothing."""
        self._pumping = asyncio.Lock()
        """Held by those who take a run out of the queue and by those who move one in it: while it is decided where a
        run stands, it does not start."""
        self._changed = asyncio.Event()
        self._configs: dict[str, RunConfig] = {}
        self._over: WeakValueDictionary[str, TrackedRun] = WeakValueDictionary()
        """Runs that are over while something is decided about them: one lock for all who do."""
        hub.listen(self._on_worker_word, self._on_progress)

    # ---- requests ------------------------------------------------------------------------------------------------

    async def submit(
        self, config_json: str, request_id: str, workers: Mapping[str, WorkerManifest], *, name_is_default: bool = False
    ) -> tuple[RunRecord, bool]:
        """Accept a run: validated, certain to fit this machine one day, durable. True when it was accepted before."""
        # In a thread: what a client sends may take long to judge, and nobody else is to wait for it.
        config = await asyncio.to_thread(validate_train_run_config, config_json, known_workers=workers)
        manifest = workers[config.worker.type]
        interactive = manifest.capabilities.interactive
        self.before_submit()
        if sentence := self.queue.refusal(demand_of(config, interactive=interactive)):
            raise RefusedError(sentence)
        script = await asyncio.to_thread(_script_in, config, manifest, self.paths)
        _require_here_or_able(config, manifest, interactive=interactive, script=script)
        record = replace(_new_record(config, script), interactive=interactive)
        return await self._work.to_the_end(self._accept(record, request_id, name_is_default))

    async def _accept(self, record: RunRecord, request_id: str, name_is_default: bool) -> tuple[RunRecord, bool]:
        """Tracked, and locked, before it is stored: a client that names it the moment it can be found waits until it
        stands in the line."""
        live = TrackedRun(replace(record, queue_key=self.queue_keys.next()))
        async with live.lock:
            self.tracked[live.run.run_id] = live
            try:
                inserted = self.registry.insert(live.run, request_id, name_is_default=name_is_default)
                run, known = await asyncio.wrap_future(inserted)
            except BaseException:
                del self.tracked[live.run.run_id]
                raise
            if known:
                del self.tracked[live.run.run_id]
                return run, True
            live.run = run
            log_event(logger, codes.LOG_RUN_SUBMITTED, run_id=run.run_id, name=run.name, worker=run.worker_type)
            self.enqueue(live, self.config_of(run))
        return run, False

    async def cancel(self, run_id: str, reason: str) -> RunRecord:
        return await self.apply(run_id, lc.CancelRequested(one_line(reason)[:_LONGEST_REASON]))

    async def pause(self, run_id: str) -> RunRecord:
        self._require_pause(self.current(run_id))
        return await self.apply(run_id, lc.PauseRequested())

    async def resume(self, run_id: str) -> RunRecord:
        return await self.apply(run_id, lc.ResumeRequested())

    async def relabel(self, run_id: str, change: LabelChange) -> RunRecord:
        run = await self.apply(run_id, lc.Relabelled(change))
        await asyncio.to_thread(self._write_config_again, run)
        return run

    async def move(self, run_id: str, place: Place, request_id: str) -> RunRecord:
        """Let a queued run stand elsewhere in its line; the run as it is then. A known request changes nothing."""
        return await self._work.to_the_end(self._move(run_id, place, request_id))

    async def _move(self, run_id: str, place: Place, request_id: str) -> RunRecord:
        async with self._pumping:
            if self.registry.knows_request(request_id, run_id, place.digest):
                return self.current(run_id)
            run = self.current(run_id)
            if place.where is Where.HOST:
                require_queued(run)
                return await self._move_to_host(run, place, request_id)
            require_movable(run)
            if place.anchor is not None:
                anchor = self.current(place.anchor.run_id)
                require_same_line(run, anchor, sessions_apart=self.queue.interactive_cpus > 0)
                place = replace(place, anchor=anchor)
            waiting = (live.run for live in self.tracked.values() if live.run.is_queued and live.run.run_id != run_id)
            key = new_key(place, [one.queue_key for one in waiting], self.queue_keys.next)
            return await self._apply(run_id, lc.Moved(key, place.story, request_id, place.digest))

    async def _move_to_host(self, run: RunRecord, place: Place, request_id: str) -> RunRecord:
        """It is judged as if it were submitted for that host, and keeps its place in the line."""
        changed = rehosted(run, place.host)
        config = parse_run_config(changed.config_json)
        self.before_submit()
        if sentence := self.queue.refusal(demand_of(config, interactive=run.interactive)):
            raise RefusedError(sentence)
        manifest = self.dispatcher.manifest(run.worker_type)
        script = await asyncio.to_thread(_script_in, config, manifest, self.paths)
        _require_here_or_able(config, manifest, interactive=run.interactive, script=script)
        event = lc.Moved(run.queue_key, place.story, request_id, place.digest, changed.config_json)
        return await self._apply(run.run_id, event)

    def _write_config_again(self, run: RunRecord) -> None:
        """Those who look at checkpoints without a daemon find the name of a run in its file, as it was at the launch.
        The registry has the word: where the file cannot be written it stays as it is."""
        file = self.paths.run_config(run.run_id)
        with suppress(OSError):
            if file.exists():
                write_whole(file, run.config_json + "\n", mode=0o600)

    def host_of(self, run_id: str) -> str:
        """The machine of a run, "" for this one and for a run that is not known."""
        with suppress(UnknownRunError):
            return self.current(run_id).host
        return ""

    def current(self, run_id: str) -> RunRecord:
        """The run as it is now."""
        live = self.tracked.get(run_id)
        return live.run if live is not None else self.registry.get(run_id)

    def _require_pause(self, run: RunRecord) -> None:
        if run.worker_type == IMPORTED:
            raise WrongStateError(f"run {run.short} cannot pause: it was imported, and nothing of it runs here")
        if not self.dispatcher.manifest(run.worker_type).capabilities.pause:
            raise WrongStateError(f"run {run.short} cannot pause: its worker {run.worker_type!r} does not offer it")
        if introduction.said_of(run).get("pause") is False:
            raise WrongStateError(f"run {run.short} cannot pause: what it runs has no place where it could hold")

    # ---- workers -------------------------------------------------------------------------------------------------

    async def register(self, run_id: str, token: str, capabilities_json: str, worker_id: str) -> tuple[str, RunRecord]:
        """The handshake: a launch token for a session token."""
        live = self._live_or_fence(run_id, token)
        if not tokens.matches(token, live.run.launch_token_hash):
            raise AuthenticationError("the launch token does not belong to this run")
        session = tokens.new_token()
        live.seen()  # first: once the run has moved, silence is measured against liveness, which launching may exceed
        told = introduction.completed(capabilities_json, live.run)
        run = await self.apply(run_id, lc.Registered(tokens.digest(session), told, worker_id))
        log_event(logger, codes.LOG_WORKER_REGISTERED, run_id=run_id, worker_id=worker_id)
        return session, run

    def authenticate(self, run_id: str, token: str) -> TrackedRun:
        """The live run whose session token this is. Raises for every other token, also for another run's."""
        live = self._live_or_fence(run_id, token)
        if not tokens.matches(token, live.run.session_token_hash):
            raise AuthenticationError("the session token does not belong to this run")
        return live

    def judge_worker(self, run_id: str, token: str) -> None:
        """Whether a caller may speak as a worker at all, by its token alone; its run id may be missing. Raises like
        :meth:`_live_or_fence`."""
        if not token:
            raise UnknownTokenError("no token")
        live = self.tracked.get(run_id)
        known = [live] if live is not None else self.tracked.values()
        if not any(live.run.state in LIVE_STATES and _knows(live.run, token) for live in known):
            raise self._fenced(run_id, token)

    def _live_or_fence(self, run_id: str, token: str) -> TrackedRun:
        live = self.tracked.get(run_id)
        if live is not None and live.run.state in LIVE_STATES:
            return live
        raise self._fenced(run_id, token)

    def _fenced(self, run_id: str, token: str) -> AuthenticationError:
        """What to tell a worker of no live run. It stops when its run is over; one that is not known goes on, because
        the registry of its run may come back."""
        with suppress(UnknownRunError):
            run = self.registry.get(run_id)
            if _knows(run, token):
                return AuthenticationError(f"run {run.short} is not live: {run.state}")
        return UnknownTokenError("the token belongs to no run")

    async def wishes(self, live: TrackedRun) -> AsyncIterator[RunRecord]:
        """The run now and after each change of what is desired, until it is over."""
        while not live.run.is_over:
            changed = live.wish_changed
            yield live.run
            await changed.wait()

    async def _on_worker_word(self, run_id: str, stream: str, record: ev.RunLifecycleEvent) -> None:
        if run_id not in self.tracked:
            return
        said = lc.WorkerSaid(record.event, record.sentence, record.step, stream, record.seq)
        run = await self.apply_surely(run_id, said)
        if record.event == ev.RUN_STARTED:
            self.spawn(self.warm_up(run.worker_type))

    def note_throttled(self, live: TrackedRun, sentence: str) -> None:
        """Keep what a heartbeat says of waiting output, when it changed; on a full disk as soon as there is space."""
        if live.mark_throttled(one_line(sentence)[:_LONGEST_REASON]):
            self.spawn(self._store_marks(live))

    async def _store_marks(self, live: TrackedRun) -> None:
        while live.throttle_marks and not live.run.is_over:
            await self.apply_surely(live.run.run_id, lc.Throttled(live.throttle_marks[0]))
            live.throttle_marks.pop(0)

    async def hear_again(self, run_id: str) -> None:
        """Act on lifecycle records that were stored but perhaps not acted on; one acted on before changes nothing."""
        for stream, record in await asyncio.to_thread(self.hub.stored_lifecycle, run_id):
            said = lc.WorkerSaid(record.event, record.sentence, record.step, stream, record.seq)
            await self.apply_surely(run_id, said)

    def _on_progress(self, run_id: str, step: int) -> None:
        if (tracked := self.tracked.get(run_id)) is not None:
            tracked.reached(step)

    async def warm_up(self, worker_type: str) -> None:
        """Let the next run of this worker start faster. Called once a run has started, to leave that one the CPU."""
        spec = await asyncio.to_thread(self.dispatcher.spec_for_warming, worker_type)
        if spec is not None:
            await self.executor.prepare(spec)

    # ---- deciding and acting -------------------------------------------------------------------------------------

    async def apply(self, run_id: str, event: lc.LifecycleEvent) -> RunRecord:
        """Decide, commit, act; the run as it is then."""
        return await self._work.to_the_end(self._apply(run_id, event))

    async def _apply(self, run_id: str, event: lc.LifecycleEvent) -> RunRecord:
        live = self.tracked.get(run_id) or self._untracked(run_id)
        async with live.lock:
            if live.run.is_over:  # the one that had the lock before may have changed it
                live.run = self.registry.get(run_id)
            decision = self._decide(live.run, event)
            if not decision.changes:
                live.run = decision.run
            else:
                await self._store(live, decision, event)
                self._tell_of(live.run, decision)
            for instruction in decision.instructions:
                self._follow(live, instruction)
        return live.run

    async def _store(self, live: TrackedRun, decision: lc.Decision, event: lc.LifecycleEvent) -> None:
        """Commit a decision with what is owed from before. One that ends processes is only owed when it cannot be
        stored; one that ends the run itself has to be stored."""
        stamped, moves = self._stamp(live, decision), (*live.owed, *decision.transitions)
        try:
            request = (event.request_id, event.digest) if isinstance(event, lc.Moved) else ("", "")
            live.run = await asyncio.wrap_future(self.registry.save(stamped, moves, *request))
            live.owed = ()
        except WorldError as error:
            if stamped.is_over or not lc.must_act_unstored(event):
                raise
            log_event(logger, codes.LOG_STORE_FULL, run_id=stamped.run_id, reason=str(error))
            if not live.owed:
                self.spawn(self._store_what_is_owed(live))
            live.run, live.owed = stamped, moves

    async def _store_what_is_owed(self, live: TrackedRun) -> None:
        while live.owed:
            await asyncio.sleep(1.0)
            async with live.lock:
                with suppress(WorldError):
                    live.run = await asyncio.wrap_future(self.registry.save(live.run, live.owed))
                    live.owed = ()
                    self.announce()

    def _untracked(self, run_id: str) -> TrackedRun:
        run = self.registry.get(run_id)
        assert run.is_over, f"run {run_id} is in {run.state} and nobody tracks it"
        return self._over.setdefault(run_id, TrackedRun(run))

    async def apply_surely(self, run_id: str, event: lc.LifecycleEvent) -> RunRecord:
        """Like :meth:`apply` for events of the world, which happened whether or not there is disk space."""
        while True:
            try:
                return await self.apply(run_id, event)
            except WorldError as error:
                log_event(logger, codes.LOG_STORE_FULL, run_id=run_id, reason=str(error))
                if self._work.closing:
                    raise  # the next daemon finds the world as it is
                await asyncio.sleep(1.0)

    def _decide(self, run: RunRecord, event: lc.LifecycleEvent) -> lc.Decision:
        try:
            return lc.decide(run, event)
        except IllegalMoveError as error:
            rows = self.registry.history(run.run_id)[-5:]
            story = [f"{row.transition.origin}→{row.transition.target} {row.transition.cause}" for row in rows]
            raise IllegalMoveError(error.run_id, error.origin, error.target, error.cause, story) from None

    def _stamp(self, live: TrackedRun, decision: lc.Decision) -> RunRecord:
        """Add what needs a clock: when it started and ended, how long it trained, how far it got."""
        run, before = decision.run, live.run
        now = Moment.now()
        step = max(run.last_step, live.step)
        run = replace(run, last_step=step, total_steps=live.total_steps or run.total_steps)
        if run.state is RunState.EXEC and before.state is not RunState.EXEC:
            run = replace(
                run, active=run.active.started(now.monotonic, now.boot), started_at=run.started_at or time.time()
            )
            live.progress_at = now.monotonic
        if before.state is RunState.EXEC and run.state is not RunState.EXEC:
            run = replace(run, active=run.active.stopped(now.monotonic, now.boot))
        if run.is_over and not before.is_over:
            run = replace(run, ended_at=time.time())
        return run

    def _tell_of(self, run: RunRecord, decision: lc.Decision) -> None:
        for move in decision.transitions:
            ended = move.target is RunState.TERM and move.origin is not RunState.TERM
            code = codes.LOG_RUN_ENDED if ended else codes.LOG_RUN_TRANSITION
            log_event(
                logger,
                code,
                run_id=run.run_id,
                origin=move.origin,
                target=move.target,
                cause=move.cause,
                detail=move.detail,
                outcome=run.outcome,
            )
        self.announce()

    def announce(self) -> None:
        """Wake those who watch runs: one changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def change(self) -> asyncio.Event:
        """Is set when the next run changes. Take it before looking, and no change is missed."""
        return self._changed

    def _follow(self, live: TrackedRun, instruction: lc.Instruction) -> None:
        match instruction:
            case lc.TellWorker():
                live.announce_wish()
            case lc.ArmKill(patience):
                self._arm_kill(live, patience)
            case lc.KillNow():
                live.kill_at = float("inf")
                self.spawn(self._surely(lambda: self._kill(live)))
            case lc.ClearAway():
                self._begin_clearing(live)
            case lc.Withdraw():
                self.queue.withdraw(live.run.run_id)
            case lc.Reorder():
                self._stand_again(live)
                self.spawn(self._pump())  # the new head may fit where the old one did not
            case lc.Release():
                self._release(live)

    def _stand_again(self, live: TrackedRun) -> None:
        """In the line, as its record says now: another key, another host."""
        self._configs.pop(live.run.run_id, None)
        config = self.config_of(live.run)
        demand = demand_of(config, interactive=live.run.interactive)
        if not self.queue.move(live.run.run_id, live.run.queue_key, demand):
            self.enqueue(live, config)  # it stood beside the line

    def _release(self, live: TrackedRun) -> None:
        run_id = live.run.run_id
        self.queue.release(run_id)
        self.tracked.pop(run_id, None)
        self._configs.pop(run_id, None)
        live.announce_wish()
        self.spawn(self._pump())

    # ---- launching -----------------------------------------------------------------------------------------------

    def enqueue(self, live: TrackedRun, config: RunConfig) -> None:
        """Let a run that is durable wait for its turn."""
        run_id = live.run.run_id
        self.tracked[run_id] = live
        self._configs[run_id] = config
        self.queue.enqueue(run_id, demand_of(config, interactive=live.run.interactive), live.run.queue_key)
        self.spawn(self._pump())

    def start_what_can(self) -> None:
        """Look at the queue again: there may be room where there was none."""
        self.spawn(self._pump())

    async def _pump(self) -> None:
        """Start what can start, strictly in order: a launch is recorded before the next one is considered."""
        async with self._pumping:
            while not self._work.closing and (taken := self.queue.take_next()) is not None:
                run_id, reservation = taken
                if run_id in self.tracked:
                    await self.begin_launch(self.tracked[run_id], reservation)
                else:  # it was cancelled in the same moment
                    self.queue.release(run_id)

    async def begin_launch(self, live: TrackedRun, reservation: Reservation) -> None:
        """Record the next attempt, then make it in the background."""
        token = tokens.new_token()
        launching = lc.Launching(live.run.attempt + 1, reservation, tokens.digest(token))
        run = await self.apply_surely(live.run.run_id, launching)
        if run.is_over:
            self.queue.release(run.run_id)
        else:
            self.spawn(self._launch(live, token))

    async def _launch(self, live: TrackedRun, token: str) -> None:
        """Start the worker of a run whose launch is recorded."""
        try:
            started = await self._start_when_ready(live, token)
        except (WorldError, RefusedError, OSError) as error:
            log_event(logger, codes.LOG_RUN_LAUNCH_FAILED, run_id=live.run.run_id, reason=str(error))
            await self.apply_surely(live.run.run_id, lc.LaunchFailed(str(error)))
            return
        except Exception as error:  # noqa: BLE001 - a bug in the daemon must not leave a run that waits for ever
            log_bug(error)
            await self.apply_surely(live.run.run_id, lc.LaunchFailed(f"never started: {type(error).__name__}: {error}"))
            return
        live.seen()
        await self.apply_surely(live.run.run_id, lc.Launched(started.locator, started.pid, started.mode))
        self.follow_process(live)

    async def _start_when_ready(self, live: TrackedRun, token: str) -> StartedWorker:
        """A full disk passes, and what is missing can be installed; neither is a reason to fail a run that has not
        begun, and after it the whole line."""
        while live.run.desired is not Desired.STOP:
            try:
                if waits_for := self.disk.waits_for(live.run.state):
                    raise StorageFullError(waits_for)  # before a worker is started that could not write a word
                spec = await asyncio.to_thread(self.dispatcher.dispatch, live.run, token)
                return await self._start(spec)
            except (StorageFullError, NotReadyError) as error:
                log_event(logger, codes.LOG_RUN_WAITS, run_id=live.run.run_id, reason=str(error))
                await self._tell_what_it_waits_for(live, str(error))
                await asyncio.sleep(_LAUNCH_AGAIN_SECONDS)
        raise LaunchError("stopped before the worker was started")

    async def _start(self, spec: LaunchSpec) -> StartedWorker:
        try:
            return await self.executor.start(spec)
        except StartError as error:
            raise launch_problem(error) from error

    async def _tell_what_it_waits_for(self, live: TrackedRun, sentence: str) -> None:
        try:
            await self.apply(live.run.run_id, lc.Waiting(sentence))
        except WorldError as error:  # there may be no space for the sentence either
            log_event(logger, codes.LOG_STORE_FULL, run_id=live.run.run_id, reason=str(error))

    def follow_process(self, live: TrackedRun) -> None:
        """Watch a worker that was started or found again. One that is gone already is reported at once."""
        self.spawn(self._surely(lambda: self.watch(live)))

    async def watch(self, live: TrackedRun) -> None:
        """Wait for the end of the worker's leading process. When two processes were started for one launch (a fork
        that was given up for lost, and a spawn), the one that got the claim is the worker. When the only one died
        without it on a full disk, the launch is made again."""
        status = await self.executor.wait(handle_of(live.run))
        winner = await self._claimant(live.run)
        if winner is not None and winner.locator != live.run.locator and winner.alive:
            await self.apply_surely(live.run.run_id, lc.Launched(winner.locator, winner.pid, "adopted"))
            await self.watch(live)
        elif winner is not None or not await self._launched_again(live):
            await self.apply_surely(live.run.run_id, lc.ProcessEnded(status))

    async def _claimant(self, run: RunRecord) -> Claimant | None:
        """Looked at until it can be: how the process ended is known now, and nobody will say it again."""
        told = ""
        while True:
            try:
                return await self.executor.claimant(handle_of(run))
            except OSError as error:
                sentence = f"the folder of the run cannot be read ({error.strerror or error}); its worker is gone"
                if sentence != told:
                    told = sentence
                    log_event(logger, codes.LOG_RUN_CANNOT_CLOSE, run_id=run.run_id, reason=sentence)
                await asyncio.sleep(_LONGEST_PAUSE)

    async def _launched_again(self, live: TrackedRun) -> bool:
        """Make a launch again that was hindered; False when it was not, or when it is not wanted any more."""
        run = live.run
        if run.state is not RunState.HSHK or not run.locator:
            return False
        reason = "the disk was full" if live.hindered else await self.executor.hindrance(run.run_id)
        if not reason:
            return False
        await self.executor.kill_all(handle_of(run))
        if await self.executor.revoke(handle_of(run)) is not None:
            return False  # its end decides what becomes of it
        sentence = f"the worker could not begin ({reason}); it is started again"
        undone = await self.apply_surely(run.run_id, lc.LaunchUndone(sentence))
        if undone.locator or undone.reservation is None:
            return False
        log_event(logger, codes.LOG_RUN_RELAUNCHED, run_id=run.run_id, attempt=run.attempt + 1)
        live.hindered = False
        await self.begin_launch(live, undone.reservation)
        return True

    # ---- ending --------------------------------------------------------------------------------------------------

    def _arm_kill(self, live: TrackedRun, patience: lc.Patience) -> None:
        """Set or move the deadline. A worker that cannot hear us yet gets a signal instead of a wish."""
        now, grace = time.monotonic(), self._grace(patience)
        if patience is lc.Patience.STOP:
            live.kill_at = now + grace
            unheard = live.run.state is RunState.HSHK
            live.nudge_at = now if unheard else now + grace / 2
        elif live.kill_at != float("inf") and not (patience is lc.Patience.CHECKPOINT and live.checkpoint_granted):
            live.checkpoint_granted = live.checkpoint_granted or patience is lc.Patience.CHECKPOINT
            live.kill_at = max(live.kill_at or 0.0, now + grace)

    def resume_stop(self, live: TrackedRun) -> None:
        """A stop that an earlier daemon began is gone through again from its beginning."""
        if live.run.desired is Desired.STOP or live.run.last_word is not None:
            self._arm_kill(live, lc.Patience.STOP if live.run.last_word is None else lc.Patience.EXIT)

    def _grace(self, patience: lc.Patience) -> float:
        return {
            lc.Patience.STOP: self.settings.stop_seconds,
            lc.Patience.CHECKPOINT: self.settings.checkpoint_seconds,
            lc.Patience.EXIT: self.settings.exit_seconds,
        }[patience]

    async def _kill(self, live: TrackedRun) -> None:
        """A launch whose start has not been reported yet may have a worker all the same: the one with the claim."""
        handle = handle_of(live.run)
        if not handle.locator and (claimant := await self.executor.claimant(handle)) is not None:
            handle = replace(handle, locator=claimant.locator)
        await self.executor.kill_all(handle)

    def _begin_clearing(self, live: TrackedRun) -> None:
        if not live.clearing:
            live.clearing = True
            self.spawn(self._surely(lambda: self._clear_away(live)))

    async def _surely(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat what must be done in the end. The machine may be out of descriptors or memory for a while; a run that
        is given up for that would keep its processes, or its CPUs, until the next restart."""
        pause = 1.0
        while not self._work.closing:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it was, giving up is worse
                log_bug(error)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
            else:
                return

    async def _clear_away(self, live: TrackedRun) -> None:
        """After the leader is gone: end what it left behind, read its outbox to the end, close the books. May be
        repeated."""
        run = live.run
        if run.locator:
            patience = 0.0 if run.desired is Desired.STOP else self.settings.stop_seconds
            await self._clearing.end_survivors(handle_of(run), patience)
        unread = await self._clearing.take_over_outbox(
            run.run_id, begun=bool(run.locator), patience=self.settings.journal_seconds
        )
        await self.hear_again(run.run_id)
        await self._clearing.bound_logs(run.run_id, self.settings.log_bytes)
        tail = await self._clearing.last_error_line(run.run_id)
        lost = 0 if unread else await asyncio.to_thread(self.hub.missing, run.run_id, dict(live.journalled))
        place = await self.executor.why_ended(run.run_id)
        how = (place.sentence, place.was_time) if place else ()
        await self.bring_seeds(live.run, tail)  # before the books are closed: afterwards nobody would do it
        closed = await self.apply_surely(run.run_id, lc.Gone(tail, unread, lost, *how))
        await self._clearing.close_manifest(closed)
        if closed.journal_unread:
            self.unread_journals[run.run_id] = run.short
        self.upkeep.run_ended(run.run_id)

    async def bring_seeds(self, run: RunRecord, stderr_tail: str = "") -> None:
        """Make runs of the seeds that a program trained, if it did. May be repeated."""
        for brought in await self._seed_runs.bring(run, stderr_tail):
            self.upkeep.run_ended(brought.run_id)

    def kept_steps(self, run: RunRecord) -> int:
        """How many of its newest recorded steps a run keeps; 0 for all."""
        try:
            config = parse_run_config(run.config_json) if run.is_over else self.config_of(run)
            asked = config.artifacts.steps.keep_last
        except RunConfigError:  # accepted by an older version
            asked = None
        return self.settings.keep_steps if asked is None else asked

    def _kept_of_ended(self, run_id: str) -> int | None:
        with suppress(UnknownRunError):
            run = self.current(run_id)
            return self.kept_steps(run) if run.is_over else None
        return None

    def schedule_of(self, run: RunRecord) -> Schedule:
        """A run's limits in time. A config that an older version accepted and this one does not has none."""
        try:
            return self.config_of(run).schedule
        except RunConfigError:
            return Schedule()

    def config_of(self, run: RunRecord) -> RunConfig:
        config = self._configs.get(run.run_id)
        if config is None:
            config = self._configs[run.run_id] = parse_run_config(run.config_json)
        return config

    # ---- life ----------------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the orchestrator closes."""
        self._work.spawn(work)

    def open(self) -> None:
        self.spawn(self._pump())

    async def close(self) -> None:
        """Stop deciding. Workers go on; what they say waits in their outboxes."""
        self._work.closing = True
        async with self._pumping:
            pass
        await self._work.close()


def handle_of(run: RunRecord) -> WorkerHandle:
    return WorkerHandle(run.run_id, run.attempt, run.locator)


def _knows(run: RunRecord, token: str) -> bool:
    return tokens.matches(token, run.session_token_hash) or tokens.matches(token, run.launch_token_hash)


def demand_of(config: RunConfig, *, interactive: bool) -> Demand:
    asked = config.resources
    cpus, gpus, memory_mb = asked.cpus.requested, asked.gpus.requested, asked.memory_mb.requested
    return Demand(cpus, gpus, memory_mb, asked.gpus.mandatory, interactive, asked.host, frozenset(asked.labels))


def _require_here_or_able(
    config: RunConfig, manifest: WorkerManifest, *, interactive: bool, script: ForeignScript | None
) -> None:
    """What cannot go to another host yet is refused, not started here without a word."""
    if not config.resources.host:
        return
    if interactive:
        raise RefusedError("a session is played here: leave --host out (its pictures go through this machine's memory)")
    if seeds_of(config.worker.config):
        raise RefusedError("a run of several seeds cannot go to another host yet: leave --host out")
    chosen = manifest.chosen(config.worker.config).values()
    if script is not None and not any(choice.kind == "file" and choice.is_foreign for choice in chosen):
        raise RefusedError(
            f"{script.file} is one of several files of a folder, and only a single script goes to another host: "
            "name the file itself, or leave --host out"
        )


def _script_in(config: RunConfig, manifest: WorkerManifest, paths: MosaicPaths) -> ForeignScript | None:
    """The script of the user's own that a run names. One that cannot be read is the worker's to tell of."""
    with suppress(OSError):
        if manifest.capabilities.foreign_scripts:
            return foreign_script({}, config.worker.config, manifest, paths)
    return None


def _new_record(config: RunConfig, script: ForeignScript | None) -> RunRecord:
    text = to_json(config)
    return RunRecord(
        run_id=str(ULID()),
        name=config.run_name,
        worker_type=config.worker.type,
        config_json=text,
        labels=labels_in(config_of(text)),
        created_at=time.time(),
        algo=config.algo or "",
        env_id=config.env_id or "",
        agent_id=config.worker.agent_id or "",
        worker_id=config.worker.worker_id or "",
        script_file=str(script.file) if script else "",
        script_sha256=script.sha256 if script else "",
        total_steps=max(0, config.total_timesteps or 0),
    )
