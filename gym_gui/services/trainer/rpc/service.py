"""The RPCs: each turns a message into a call and the answer back into a message. No decision is taken here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Hashable, Iterable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from gym_gui.services.hosts.book import HERE
from gym_gui.services.sweeps.model import Sweep, encode_sweep
from gym_gui.services.trainer.errors import AuthenticationError, RefusedError
from gym_gui.services.trainer.execution.roster import WorkerRoster
from gym_gui.services.trainer.live.relay import LiveRelay
from gym_gui.services.trainer.rpc.guard import Context, bearer_token, guarded_stream, guarded_unary
from gym_gui.services.trainer.rpc.health import HealthReporter
from gym_gui.services.trainer.rpc.presentation import run_message, transition_message
from gym_gui.services.trainer.runs.arrivals import Arrivals
from gym_gui.services.trainer.runs.deletion import RunDeletion
from gym_gui.services.trainer.runs.imports import RunImports
from gym_gui.services.trainer.runs.orchestrator import TrainerOrchestrator
from gym_gui.services.trainer.runs.reordering import Place, Where
from gym_gui.services.trainer.runs.run_parts import RunParts
from gym_gui.services.trainer.runs.run_record import RunRecord
from gym_gui.services.trainer.runs.run_search import NarrowedWatch, RunSearch, understood
from gym_gui.services.trainer.storage.run_query import Query
from gym_gui.services.trainer.sweeps.keeper import SweepKeeper
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.credits import CreditGate, Watches
from gym_gui.services.trainer.telemetry.hub import LivePage
from gym_gui.services.trainer.telemetry.watching import Pace, SharedLooks, SharedReads, until_next, until_set
from mosaic_host.executor import LogPart
from mosaic_host.log_files import SOURCES, LogPlace
from mosaic_protocol import events as ev
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceServicer
from mosaic_protocol.run_config import parse_label_change
from mosaic_protocol.states import Outcome, RunState
from mosaic_protocol.suggest import did_you_mean

T = TypeVar("T")

_MOST_RUNS_PER_PAGE = 1000
_LONGEST_REQUEST_ID = 200
_PROGRESS_SECONDS = 1.0
_NO_END = 2**63 - 1
_THINNED_SECONDS = 0.5
_LOG_SECONDS = 0.2
_MOST_POINTS = 1_000_000


class TrainerService(TrainerServiceServicer):
    """See ``trainer.proto`` for the contract of each method."""

    def __init__(
        self,
        orchestrator: TrainerOrchestrator,
        roster: WorkerRoster,
        deletion: RunDeletion,
        arrivals: Arrivals,
        health: HealthReporter,
        sweeps: SweepKeeper,
        shutdown: asyncio.Event,
    ) -> None:
        self._orchestrator, self._roster, self._sweeps = orchestrator, roster, sweeps
        self._deletion, self._arrivals, self._health, self._shutdown = deletion, arrivals, health, shutdown
        self._registry, self._hub = orchestrator.registry, orchestrator.hub
        self._reads, self._looks, self._pace = SharedReads(), SharedLooks(), Pace()
        self._search = RunSearch(orchestrator)
        self._watches = Watches()
        self._live = LiveRelay(shutdown)
        self._imports = RunImports(orchestrator, deletion)
        self._parts = RunParts(orchestrator, deletion)
        self._relabelling = asyncio.Lock()

    def _message(self, run: RunRecord) -> pb.Run:
        return run_message(run, self._orchestrator)

    def _find(self, reference: str) -> RunRecord:
        return self._orchestrator.current(self._registry.find(reference).run_id)

    # ---- clients -------------------------------------------------------------------------------------------------

    @guarded_unary
    async def SubmitRun(self, request: pb.SubmitRunRequest, context: Context) -> pb.SubmitRunResponse:
        _require_short(request.client_request_id)
        workers = await self._roster.manifests()
        run, known = await self._orchestrator.submit(
            request.config_json, request.client_request_id, workers, name_is_default=request.name_is_default
        )
        return pb.SubmitRunResponse(run=self._message(run), already_known=known)

    @guarded_unary
    async def ImportRun(self, request: pb.ImportRunRequest, context: Context) -> pb.SubmitRunResponse:
        if request.arrival:
            return pb.SubmitRunResponse(run=self._message(await self._arrivals.take(request.arrival)))
        _require_short(request.client_request_id)
        run, known = await self._imports.accept(
            request.config_json, request.client_request_id, name_is_default=request.name_is_default
        )
        return pb.SubmitRunResponse(run=self._message(run), already_known=known)

    @guarded_stream
    async def ImportRecords(
        self, request: AsyncIterator[pb.RecordBatch], context: Context
    ) -> AsyncIterator[pb.RecordAck]:
        batches = aiter(request)
        first = await anext(batches, pb.RecordBatch())
        run = self._find(first.run_id)
        async with aclosing(self._imports.take(run, _again(first, batches))) as acks:
            async for ack in acks:
                yield ack

    @guarded_stream
    async def ExportRun(self, request: pb.RunRef, context: Context) -> AsyncIterator[pb.RunPart]:
        async with aclosing(self._arrivals.parts(self._find(request.run_id))) as parts:
            async for part in parts:
                yield part

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
        freed = await self._deletion.purge(run, only_from_trash=request.only_from_trash)
        return pb.DeleteRunResponse(run_id=run.run_id, purged=True, bytes_freed=freed)

    @guarded_unary
    async def RestoreRun(self, request: pb.RunRef, context: Context) -> pb.Run:
        return self._message(await self._deletion.restore(self._find(request.run_id)))

    @guarded_unary
    async def GetStorage(self, request: pb.StorageRequest, context: Context) -> pb.StorageReport:
        steps = await self._hub.read(self._hub.steps.bytes_by_run)
        records = await self._hub.read(self._hub.store.bytes_by_run)
        runs = [
            pb.RunStorage(run_id=run_id, step_bytes=steps.get(run_id, 0), record_bytes=records.get(run_id, 0))
            for run_id in sorted(steps.keys() | records.keys())
        ]
        return pb.StorageReport(runs=runs)

    @guarded_unary
    async def RemoveRunParts(self, request: pb.RemoveRunPartsRequest, context: Context) -> pb.RemoveRunPartsResponse:
        freed = await self._parts.remove(self._find(request.run_id), request.parts, request.checkpoints)
        return pb.RemoveRunPartsResponse(bytes_freed=freed)

    @guarded_unary
    async def UpdateRun(self, request: pb.UpdateRunRequest, context: Context) -> pb.Run:
        run = self._find(request.run_id)
        change = parse_label_change(
            {
                "name": request.name if request.HasField("name") else None,
                "notes": request.notes if request.HasField("notes") else None,
                "add_tags": list(request.add_tags),
                "remove_tags": list(request.remove_tags),
            }
        )
        async with self._relabelling:  # one after the other: none of them is refused because of another
            if not run.is_over:
                return self._message(await self._orchestrator.relabel(run.run_id, change))
            with self._deletion.held(run, "changed"):
                return self._message(await self._orchestrator.relabel(run.run_id, change))

    @guarded_unary
    async def MoveRun(self, request: pb.MoveRunRequest, context: Context) -> pb.Run:
        _require_short(request.client_request_id)
        run, where = self._find(request.run_id), request.WhichOneof("place")
        if where is None or getattr(request, where) is False:
            raise RefusedError(f"no place was named for run {run.short}: first, last, before a run or after one")
        if where == "host":
            host = "" if request.host == HERE else request.host
            place = Place(Where.HOST, host=host)
            return self._message(await self._orchestrator.move(run.run_id, place, request.client_request_id))
        anchor = self._find(getattr(request, where)) if where in (Where.BEFORE, Where.AFTER) else None
        moved = await self._orchestrator.move(run.run_id, Place(Where(where), anchor), request.client_request_id)
        return self._message(moved)

    @guarded_unary
    async def ListRuns(self, request: pb.ListRunsRequest, context: Context) -> pb.ListRunsResponse:
        _require_known("state", request.states, RunState)
        _require_known("outcome", request.outcomes, Outcome)
        states, outcomes, wanted = list(request.states), list(request.outcomes), understood(request.where)
        query = Query(states, outcomes, request.search, request.include_deleted, wanted)
        size = min(request.page_size or 50, _MOST_RUNS_PER_PAGE)
        page = await self._search.page(query, size, request.page_token)
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
        purged = len(self._deletion.purged)
        wanted = understood(request.where)
        await asyncio.to_thread(self._search.require_real_settings, wanted)
        watch = NarrowedWatch(wanted, taken_up=revision > 0)
        while not self._shutdown.is_set():
            change = self._orchestrator.change
            changed = self._changed_after(revision)
            while purged < len(self._deletion.purged):  # one may come while another is sent
                gone = pb.Run(run_id=self._deletion.purged[purged], deleted=True)
                purged += 1
                yield pb.RunUpdate(revision=revision, run=gone, deleted=True)
            for update in changed:
                revision = max(revision, update.revision)
                if shown := watch.narrowed(update):
                    yield shown
            for message in self._progressed(steps):
                if shown := watch.narrowed(pb.RunUpdate(revision=revision, run=message)):
                    yield shown
            if not changed:
                await until_set(change, until_next(_PROGRESS_SECONDS))

    def _changed_after(self, revision: int) -> list[pb.RunUpdate]:
        def read() -> list[pb.RunUpdate]:
            return [
                pb.RunUpdate(revision=run.revision, run=self._message(run), deleted=run.deleted_at > 0)
                for run in self._registry.changed_after(revision)
            ]

        return self._looks.get(self._moment(), revision, read)

    def _progressed(self, steps: dict[str, int]) -> list[pb.Run]:
        """Live runs whose step moved since the last look; moves of the step have no revision of their own."""
        moved = [t for t in self._orchestrator.tracked.values() if t.step != steps.get(t.run.run_id, 0)]
        steps.update({tracked.run.run_id: tracked.step for tracked in moved})
        moment = self._moment()
        return [
            self._looks.get(moment, (t.run.run_id, t.run.revision, t.step), partial(self._message, t.run))
            for t in moved
        ]

    def _moment(self) -> Hashable:
        """Changes with every change of a run, and every second."""
        return self._orchestrator.change, time.monotonic() // _PROGRESS_SECONDS

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
        run_id, row, before = self._find(request.run_id).run_id, int(request.after_row), _NO_END
        if request.HasField("episode"):
            row, before = await self._hub.read(self._hub.steps.episode_span, run_id, request.episode)
        elif request.tail:
            row = await self._hub.read(self._hub.row_before_last, run_id, kind, request.tail)
        if request.credits and kind != "metric":
            with self._watches.entered(request.watch_id, request.credits) as gate:
                async for page in self._live_pages(run_id, kind, row, gate):
                    yield page
            return
        with self._pace.joined():
            while not self._shutdown.is_set():
                over, news = self._orchestrator.current(run_id).is_over, self._hub.news(run_id)
                read = partial(self._page, run_id, kind, row, before)
                page = await self._reads.get((run_id, kind, row, before, news), read)
                if page.records:
                    row = page.last_row
                    yield page
                elif over or not request.follow:
                    return
                else:
                    await until_set(news, _PROGRESS_SECONDS)
                    await self._pace.rest()

    async def _live_pages(self, run_id: str, kind: str, row: int, gate: CreditGate) -> AsyncIterator[pb.RecordPage]:
        """Everything from a cursor on while there are credits. Without them: STARVED, then the newest records now and
        then, which cost none, each time with the number that was left out before them, and RESUMED when credits come.
        All that there were are the records sent and those that pages say were missed."""
        starved = False
        while not self._shutdown.is_set():
            over, news = self._orchestrator.current(run_id).is_over, self._hub.news(run_id)
            if gate.is_open:
                if starved:
                    yield pb.RecordPage(control="RESUMED", first_row=row, last_row=row)
                    starved = False
                page = await self._hub.read(self._hub.next_records, run_id, kind, row, gate.left)
                if page.count:
                    gate.spend(page.count)
                    row = page.last_row
                    yield _as_message(page)
                elif over:
                    break
                else:
                    await until_set(news, _PROGRESS_SECONDS)
                continue
            await gate.wait_for_grant(_THINNED_SECONDS)  # who is only a moment late misses nothing
            if gate.is_open:
                continue
            page = await self._hub.read(self._hub.newest_records, run_id, kind, row)
            if page.count:
                if not starved:
                    starved = True
                    yield pb.RecordPage(control="STARVED", first_row=row, last_row=row)
                row = page.last_row
                yield _as_message(page)
            elif over:
                break
        else:
            return  # the next daemon goes on
        end = await self._hub.read(self._hub.missing_end, run_id, kind, row)
        if end.missed:
            yield _as_message(end)

    async def _page(self, run_id: str, kind: str, after_row: int, before: int) -> pb.RecordPage:
        rows = await self._hub.read(self._hub.records, run_id, kind, after_row, before)
        last_row = rows[-1][0] if rows else after_row
        return pb.RecordPage(records=[line for _, line in rows], last_row=last_row, first_row=after_row)

    @guarded_unary
    async def GetStepTotals(self, request: pb.RunRef, context: Context) -> pb.StepTotals:
        run = self._find(request.run_id)
        found = self._hub.steps.totals(run.run_id)
        kept = self._orchestrator.kept_steps(run)
        return pb.StepTotals(steps=found.steps, damaged=found.damaged, trimmed=found.trimmed, kept_last=kept)

    @guarded_unary
    async def GrantCredits(self, request: pb.CreditGrant, context: Context) -> pb.CreditGranted:
        return pb.CreditGranted(known=self._watches.grant(request.watch_id, request.credits))

    @guarded_stream
    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Context) -> AsyncIterator[pb.LogChunk]:
        run = self._find(request.run_id)
        places = await self._log_places(run, request)
        if not request.follow:
            for source, place in places.items():
                part = await self._read_log(place)
                while part.chunks:
                    for data in part.chunks:
                        yield pb.LogChunk(source=source, data=data)
                    part = await self._read_log(part.place)
            return
        with self._pace.joined():
            async for chunk in self._new_chunks(run.run_id, places):
                yield chunk

    async def _new_chunks(self, run_id: str, places: dict[str, LogPlace]) -> AsyncIterator[pb.LogChunk]:
        """What comes to the logs until the run is over and everything was sent."""
        while not self._shutdown.is_set():
            over, more = self._orchestrator.current(run_id).is_over, False
            for source, place in places.items():
                part = await self._reads.get(place, partial(self._read_log, place))
                places[source] = part.place
                for data in part.chunks:
                    more = True
                    yield pb.LogChunk(source=source, data=data)
            if over and not more:
                return
            if not more:
                await self._pace.rest(_LOG_SECONDS)

    async def _log_places(self, run: RunRecord, request: pb.StreamLogsRequest) -> dict[str, LogPlace]:
        if request.source and request.source not in SOURCES:
            raise RefusedError(f"{request.source[:60]!r} is no log: choose {' or '.join(SOURCES)}, or leave it out")
        wanted = [request.source] if request.source else list(SOURCES)
        look = self._orchestrator.executor.log_place
        return {source: await look(run.run_id, source, request.tail_lines, follow=request.follow) for source in wanted}

    async def _read_log(self, place: LogPlace) -> LogPart:
        return await self._orchestrator.executor.read_log(place)

    @guarded_stream
    async def LiveSession(self, request: AsyncIterator[pb.LiveInput], context: Context) -> AsyncIterator[pb.LiveOutput]:
        inputs = aiter(request)
        first = await anext(inputs, pb.LiveInput())
        run = self._find(first.run_id)
        folder = self._orchestrator.paths.run(run.run_id).directory
        async with aclosing(self._live.serve(run, folder, first, inputs)) as outputs:
            async for output in outputs:
                yield output

    # ---- sweeps --------------------------------------------------------------------------------------------------

    def _sweep_message(self, sweep: Sweep) -> pb.Sweep:
        rows = self._registry.sweeps
        return pb.Sweep(
            document=encode_sweep(sweep),
            trials=rows.counts(sweep.sweep_id),
            study_file=str(self._sweeps.study_file(sweep)),
            best=rows.best(sweep),
        )

    @guarded_unary
    async def SubmitSweep(self, request: pb.SubmitSweepRequest, context: Context) -> pb.Sweep:
        if len(request.client_request_id) > _LONGEST_REQUEST_ID:
            raise RefusedError(f"client_request_id is longer than {_LONGEST_REQUEST_ID} characters: a ULID has 26")
        sweep = await self._sweeps.submit(
            request.name, request.spec_json, request.client_request_id, name_is_default=request.name_is_default
        )
        return self._sweep_message(sweep)

    @guarded_unary
    async def ListSweeps(self, request: pb.ListSweepsRequest, context: Context) -> pb.ListSweepsResponse:
        return pb.ListSweepsResponse(sweeps=[self._sweep_message(sweep) for sweep in self._registry.sweeps.all()])

    @guarded_unary
    async def GetSweep(self, request: pb.SweepRef, context: Context) -> pb.Sweep:
        return self._sweep_message(self._registry.sweeps.find(request.sweep_id))

    @guarded_unary
    async def GetTrials(self, request: pb.SweepRef, context: Context) -> pb.TrialList:
        sweep = self._registry.sweeps.find(request.sweep_id)
        documents = await asyncio.to_thread(self._registry.sweeps.documents, sweep.sweep_id)
        return pb.TrialList(sweep=self._sweep_message(sweep), trials=documents)

    @guarded_unary
    async def PauseSweep(self, request: pb.SweepRef, context: Context) -> pb.Sweep:
        return self._sweep_message(await self._sweeps.pause(request.sweep_id))

    @guarded_unary
    async def ResumeSweep(self, request: pb.ResumeSweepRequest, context: Context) -> pb.Sweep:
        more, percent = request.more_trials, request.more_percent
        return self._sweep_message(await self._sweeps.resume(request.sweep_id, more, percent))

    @guarded_unary
    async def StopSweep(self, request: pb.SweepRef, context: Context) -> pb.Sweep:
        return self._sweep_message(await self._sweeps.stop(request.sweep_id))

    @guarded_unary
    async def ListWorkers(self, request: pb.ListWorkersRequest, context: Context) -> pb.ListWorkersResponse:
        return await self._roster.describe()

    @guarded_unary
    async def GetHealth(self, request: pb.HealthRequest, context: Context) -> pb.Health:
        return await self._health.report()

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
        tracked.numbered(request.journalled)
        self._orchestrator.note_throttled(tracked, request.throttled)
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
        async for ack in self._take_records(request, context, ev.StepChunk):
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


async def _again(first: T, rest: AsyncIterator[T]) -> AsyncIterator[T]:
    """A stream whose first message was looked at."""
    yield first
    async for one in rest:
        yield one


def _require_short(request_id: str) -> None:
    if len(request_id) > _LONGEST_REQUEST_ID:
        raise RefusedError(f"client_request_id is longer than {_LONGEST_REQUEST_ID} characters: a ULID has 26")


def _as_message(page: LivePage) -> pb.RecordPage:
    return pb.RecordPage(records=page.lines, first_row=page.first_row, last_row=page.last_row, missed=page.missed)


def _require_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    choices = list(known)
    for name in given:
        if name not in choices:
            raise RefusedError(f"{name[:60]!r} is no {what} of a run{did_you_mean(name, choices)}")


def _require_kind(lines: list[bytes], only: type[ev.Record]) -> None:
    for line in lines:
        if not isinstance(ev.decode(line), only):
            raise RefusedError(f"this method takes records of kind {only.__struct_config__.tag!r} only")
