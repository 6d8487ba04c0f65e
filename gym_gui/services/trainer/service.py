"""The RPCs: each turns a message into a call and the answer back into a message. No decision is taken here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from gym_gui.services.trainer.deletion import RunDeletion
from gym_gui.services.trainer.errors import AuthenticationError, RefusedError
from gym_gui.services.trainer.health import HealthReporter
from gym_gui.services.trainer.log_files import SOURCES, LogFollower
from gym_gui.services.trainer.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.presentation import run_message, transition_message
from gym_gui.services.trainer.roster import WorkerRoster
from gym_gui.services.trainer.rpc_guard import Context, bearer_token, guarded_stream, guarded_unary
from gym_gui.services.trainer.run_record import RunRecord
from gym_gui.services.trainer.run_registry import Query
from gym_gui.services.trainer.store import Batch
from mosaic_protocol import events as ev
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceServicer
from mosaic_protocol.states import Outcome, RunState
from mosaic_protocol.suggest import did_you_mean

_MOST_RUNS_PER_PAGE = 1000
_LONGEST_REQUEST_ID = 200
_PROGRESS_SECONDS = 1.0
_LOG_SECONDS = 0.2
_MOST_POINTS = 1_000_000


class TrainerService(TrainerServiceServicer):
    """See ``trainer.proto`` for the contract of each method."""

    def __init__(
        self,
        orchestrator: TrainerOrchestrator,
        roster: WorkerRoster,
        deletion: RunDeletion,
        health: HealthReporter,
        shutdown: asyncio.Event,
    ) -> None:
        self._orchestrator, self._roster = orchestrator, roster
        self._deletion, self._health, self._shutdown = deletion, health, shutdown
        self._registry, self._hub = orchestrator.registry, orchestrator.hub
        self._purged: list[str] = []
        """Runs of which the registry has no row any more that could tell those who watch."""

    def _message(self, run: RunRecord) -> pb.Run:
        return run_message(run, self._orchestrator)

    def _find(self, reference: str) -> RunRecord:
        return self._orchestrator.current(self._registry.find(reference).run_id)

    # ---- clients -------------------------------------------------------------------------------------------------

    @guarded_unary
    async def SubmitRun(self, request: pb.SubmitRunRequest, context: Context) -> pb.SubmitRunResponse:
        if len(request.client_request_id) > _LONGEST_REQUEST_ID:
            raise RefusedError(f"client_request_id is longer than {_LONGEST_REQUEST_ID} characters: a ULID has 26")
        workers = await self._roster.manifests()
        run, known = await self._orchestrator.submit(request.config_json, request.client_request_id, workers)
        return pb.SubmitRunResponse(run=self._message(run), already_known=known)

    @guarded_unary
    async def CancelRun(self, request: pb.CancelRunRequest, context: Context) -> pb.Run:
        return self._message(await self._orchestrator.cancel(self._find(request.run_id).run_id, request.reason))

    @guarded_unary
    async def PauseRun(self, request: pb.RunRef, context: Context) -> pb.Run:
        return self._message(await self._orchestrator.pause(self._find(request.run_id).run_id))

    @guarded_unary
    async def ResumeRun(self, request: pb.RunRef, context: Context) -> pb.Run:
        return self._message(await self._orchestrator.resume(self._find(request.run_id).run_id))

    @guarded_unary
    async def DeleteRun(self, request: pb.DeleteRunRequest, context: Context) -> pb.DeleteRunResponse:
        run = self._find(request.run_id)
        if not request.purge:
            await self._deletion.trash(run)
            return pb.DeleteRunResponse(run_id=run.run_id)
        freed = await self._deletion.purge(run, self._purged.append)
        return pb.DeleteRunResponse(run_id=run.run_id, purged=True, bytes_freed=freed)

    @guarded_unary
    async def RestoreRun(self, request: pb.RunRef, context: Context) -> pb.Run:
        return self._message(await self._deletion.restore(self._find(request.run_id)))

    @guarded_unary
    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        _require_known("state", request.states, RunState)
        _require_known("outcome", request.outcomes, Outcome)
        query = Query(list(request.states), list(request.outcomes), request.search, request.include_deleted)
        size = min(request.page_size or 50, _MOST_RUNS_PER_PAGE)
        page = self._registry.page(query, size, request.page_token)
        runs = [self._message(self._newest(run)) for run in page.runs]
        return pb.ListRunsResponse(runs=runs, next_page_token=page.next_token, total=page.total)

    def _newest(self, run: RunRecord) -> RunRecord:
        tracked = self._orchestrator.tracked.get(run.run_id)
        return tracked.run if tracked else run

    @guarded_unary
    async def GetRun(self, request: pb.RunRef, context: Context) -> pb.Run:
        return self._message(self._find(request.run_id))

    @guarded_unary
    async def GetRunHistory(self, request: pb.RunRef, context: Context) -> pb.RunHistory:
        rows = self._registry.history(self._find(request.run_id).run_id)
        return pb.RunHistory(transitions=[transition_message(row) for row in rows])

    @guarded_stream
    async def WatchRuns(self, request: pb.WatchRunsRequest, context: Context) -> AsyncIterator[pb.RunUpdate]:
        revision, steps = int(request.after_revision), dict[str, int]()
        purged = len(self._purged)
        while not self._shutdown.is_set():
            changed = self._registry.changed_after(revision)
            for run_id in self._purged[purged:]:
                yield pb.RunUpdate(revision=revision, run=pb.Run(run_id=run_id, deleted=True), deleted=True)
            purged = len(self._purged)
            for run in changed:
                revision = max(revision, run.revision)
                yield pb.RunUpdate(revision=run.revision, run=self._message(run), deleted=run.deleted_at > 0)
            for message in self._progressed(steps):
                yield pb.RunUpdate(revision=revision, run=message)
            if not changed:
                await self._orchestrator.change(_PROGRESS_SECONDS)

    def _progressed(self, steps: dict[str, int]) -> list[pb.Run]:
        """Live runs whose step moved since the last look; moves of the step have no revision of their own."""
        moved = [t for t in self._orchestrator.tracked.values() if t.step != steps.get(t.run.run_id, 0)]
        steps.update({tracked.run.run_id: tracked.step for tracked in moved})
        return [self._message(tracked.run) for tracked in moved]

    @guarded_unary
    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:
        run_id = self._find(request.run_id).run_id
        store, most = self._hub.store, min(request.max_points or 1000, _MOST_POINTS)
        after = request.after_step or -1
        tags = list(request.tags) or await self._hub.read(store.tags, run_id)
        answer = pb.GetMetricsResponse()
        for tag in tags:
            series = await self._hub.read(store.series, run_id, tag, after_step=after, max_points=most)
            answer.series.add(
                tag=tag,
                steps=series.steps,
                values=series.values,
                wall_times=series.wall_times,
                total_points=series.total,
            )
        return answer

    @guarded_stream
    async def StreamMetrics(self, request: pb.StreamRecordsRequest, context: Context) -> AsyncIterator[pb.RecordPage]:
        async for page in self._record_pages(request, "metric"):
            yield page

    @guarded_stream
    async def StreamRunSteps(self, request: pb.StreamRecordsRequest, context: Context) -> AsyncIterator[pb.RecordPage]:
        async for page in self._record_pages(request, "step"):
            yield page

    @guarded_stream
    async def StreamRunEpisodes(
        self, request: pb.StreamRecordsRequest, context: Context
    ) -> AsyncIterator[pb.RecordPage]:
        async for page in self._record_pages(request, "episode"):
            yield page

    async def _record_pages(self, request: pb.StreamRecordsRequest, kind: str) -> AsyncIterator[pb.RecordPage]:
        """Pages from the cursor on; while following, until the run is over and everything was sent."""
        run_id, row = self._find(request.run_id).run_id, int(request.after_row)
        while not self._shutdown.is_set():
            over = self._orchestrator.current(run_id).is_over
            rows = await self._hub.read(self._hub.store.records, run_id, kind, row)
            if rows:
                row = rows[-1][0]
                yield pb.RecordPage(records=[line for _, line in rows], last_row=row)
            elif over or not request.follow:
                return
            else:
                await self._hub.news(run_id, _PROGRESS_SECONDS)

    @guarded_stream
    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Context) -> AsyncIterator[pb.LogChunk]:
        run = self._find(request.run_id)
        followers = await asyncio.to_thread(self._log_followers, run, request)
        while not self._shutdown.is_set():
            over, more = self._orchestrator.current(run.run_id).is_over, False
            for source, follower in followers.items():
                for data in await asyncio.to_thread(follower.read_new):
                    more = True
                    yield pb.LogChunk(source=source, data=data)
            if more:
                continue
            if over or not request.follow:
                return
            await asyncio.sleep(_LOG_SECONDS)

    def _log_followers(self, run: RunRecord, request: pb.StreamLogsRequest) -> dict[str, LogFollower]:
        if request.source and request.source not in SOURCES:
            raise RefusedError(f"{request.source[:60]!r} is no log: choose {' or '.join(SOURCES)}, or leave it out")
        folder = self._orchestrator.paths.run_logs(run.run_id)
        wanted = [request.source] if request.source else list(SOURCES)
        followers = {source: LogFollower(folder / f"{source}.log") for source in wanted}
        for follower in followers.values():
            follower.start_at_tail(request.tail_lines)
            if not request.follow:
                follower.stop_at_end()
        return followers

    @guarded_unary
    async def ListWorkers(self, request: pb.ListWorkersRequest, context: Context) -> pb.ListWorkersResponse:
        return await self._roster.describe()

    @guarded_unary
    async def GetHealth(self, request: pb.HealthRequest, context: Context) -> pb.Health:
        return self._health.report()

    @guarded_unary
    async def Shutdown(self, request: pb.ShutdownRequest, context: Context) -> pb.ShutdownResponse:
        self._shutdown.set()
        return pb.ShutdownResponse(live_runs=len(self._orchestrator.queue.live))

    # ---- workers -------------------------------------------------------------------------------------------------

    @guarded_unary
    async def RegisterWorker(self, request: pb.RegisterWorkerRequest, context: Context) -> pb.RegisterWorkerResponse:
        session, run = await self._orchestrator.register(
            request.run_id, bearer_token(context), request.capabilities_json[:65536], request.worker_id[:200]
        )
        return pb.RegisterWorkerResponse(
            session_token=session,
            heartbeat_seconds=self._orchestrator.settings.heartbeat_seconds,
            desired=run.desired,
        )

    @guarded_unary
    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Context) -> pb.HeartbeatResponse:
        tracked = self._orchestrator.authenticate(request.run_id, bearer_token(context))
        tracked.beat(request.step, request.total_steps, request.phase[:60])
        return pb.HeartbeatResponse(desired=tracked.run.desired)

    @guarded_stream
    async def ControlStream(self, request: pb.ControlHello, context: Context) -> AsyncIterator[pb.ControlMessage]:
        tracked = self._orchestrator.authenticate(request.run_id, bearer_token(context))
        grace = self._orchestrator.settings.stop_seconds
        async for run in self._orchestrator.wishes(tracked):
            yield pb.ControlMessage(desired=run.desired, reason=run.reason, grace_seconds=grace)

    @guarded_stream
    async def PublishRecords(
        self, request: AsyncIterator[pb.RecordBatch], context: Context
    ) -> AsyncIterator[pb.RecordAck]:
        async for ack in self._take_records(request, context, None):
            yield ack

    @guarded_stream
    async def PublishRunSteps(
        self, request: AsyncIterator[pb.RecordBatch], context: Context
    ) -> AsyncIterator[pb.RecordAck]:
        async for ack in self._take_records(request, context, ev.TrainingStep):
            yield ack

    @guarded_stream
    async def PublishRunEpisodes(
        self, request: AsyncIterator[pb.RecordBatch], context: Context
    ) -> AsyncIterator[pb.RecordAck]:
        async for ack in self._take_records(request, context, ev.EpisodeSummary):
            yield ack

    @guarded_stream
    async def PublishLifecycle(
        self, request: AsyncIterator[pb.RecordBatch], context: Context
    ) -> AsyncIterator[pb.RecordAck]:
        async for ack in self._take_records(request, context, ev.RunLifecycleEvent):
            yield ack

    async def _take_records(
        self, batches: AsyncIterator[pb.RecordBatch], context: Context, only: type[ev.Record] | None
    ) -> AsyncIterator[pb.RecordAck]:
        """The one path of records. The token is checked for every batch: a run may end while its worker talks."""
        token = bearer_token(context)
        async for batch in batches:
            if not token:
                raise AuthenticationError("no session token")
            self._orchestrator.authenticate(batch.run_id, token).seen()
            lines = list(batch.lines)
            if only is not None:
                _require_kind(lines, only)
            acked = await self._hub.publish(
                Batch(batch.run_id, batch.stream, int(batch.first_seq), lines, max(1, int(batch.oldest_seq)))
            )
            yield pb.RecordAck(stream=batch.stream, acked_seq=acked)


def _require_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    choices = list(known)
    for name in given:
        if name not in choices:
            raise RefusedError(f"{name[:60]!r} is no {what} of a run{did_you_mean(name, choices)}")


def _require_kind(lines: list[bytes], only: type[ev.Record]) -> None:
    for line in lines:
        if not isinstance(ev.decode(line), only):
            raise RefusedError(f"this method takes records of kind {only.__struct_config__.tag!r} only")
