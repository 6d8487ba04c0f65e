"""The Python client of the trainer daemon. Blocking and thread-safe; the command line and scripts use it.

    with TrainerClient.connect() as client:          # starts the daemon when none runs
        run = client.submit(config).run
        for update in client.watch():
            ...

Every failure is a :class:`ClientError` whose text is a sentence for a person.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from ulid import ULID

from gym_gui.services.remote.paths import PathsElsewhere
from gym_gui.services.trainer.daemon_control import ensure_daemon, running_endpoint
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.rpc.tokens import read_client_token
from mosaic_protocol import events as ev
from mosaic_protocol.endpoint import Endpoint, bearer, quiet_grpc_logs
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub
from mosaic_protocol.steps.chunk import OpenedChunk

if TYPE_CHECKING:
    from gym_gui.services.sweeps.model import Sweep, SweepSpec
    from mosaic_protocol.live.client import LiveClient

T = TypeVar("T")

_TIMEOUT = 30.0
_RETRY_SECONDS = 10.0
_LINK_PAUSE = 0.5
_ARRIVAL_TIMEOUT = 24 * 3600.0


class ClientError(TrainerError):
    """A call failed; the text says why. ``status`` is the gRPC status name."""

    def __init__(self, sentence: str, status: str) -> None:
        super().__init__(sentence)
        self.status = status


class DaemonAwayError(ClientError):
    """The daemon cannot be reached."""


class NoSuchRunError(ClientError):
    """No run, or more than one, answers to the name."""


class RequestRefusedError(ClientError):
    """The daemon refused, and nothing changed."""


class MachineFailedError(ClientError):
    """The daemon answered, and its machine failed it: a busy file, a broken disk. The sentence is the daemon's own."""


_KINDS: dict[grpc.StatusCode, type[ClientError]] = {
    grpc.StatusCode.UNAVAILABLE: DaemonAwayError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DaemonAwayError,
    grpc.StatusCode.ABORTED: MachineFailedError,
    grpc.StatusCode.NOT_FOUND: NoSuchRunError,
    grpc.StatusCode.INVALID_ARGUMENT: RequestRefusedError,
    grpc.StatusCode.FAILED_PRECONDITION: RequestRefusedError,
}


class TrainerClient:
    """One connection to a daemon. Retries what is safe to retry while the daemon is being restarted.

    ``patience`` is how many seconds it does so (0 reports a daemon that is away at once), ``timeout`` how long one call
    may take.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        read_token: Callable[[], str],
        *,
        patience: float = _RETRY_SECONDS,
        timeout: float = _TIMEOUT,
        why_away: Callable[[], str] | None = None,
    ) -> None:
        """``read_token`` gives the clients' token, now and again when a new daemon has made a new one. ``why_away``
        says why a daemon on another machine cannot be reached."""
        quiet_grpc_logs()
        self._why_away = why_away
        self.endpoint = endpoint
        self._patience, self._timeout = patience, timeout
        self._read_token = read_token
        try:
            self._meta = bearer(read_token().strip())
        except OSError as error:
            raise DaemonAwayError(f"the token of the trainer daemon cannot be read: {error}", "UNAVAILABLE") from error
        self._channel = endpoint.channel()
        self._stub = TrainerServiceStub(self._channel)

    @classmethod
    def connect(
        cls,
        paths: MosaicPaths | None = None,
        *,
        start: bool = True,
        patience: float = _RETRY_SECONDS,
        timeout: float = _TIMEOUT,
    ) -> TrainerClient:
        """Connect to the daemon of a data root, here or elsewhere, starting it when ``start`` and none runs."""
        paths = paths or MosaicPaths.from_environment()
        if isinstance(paths, PathsElsewhere):
            return paths.link.client(start=start, patience=patience, timeout=timeout)
        endpoint = ensure_daemon(paths) if start else running_endpoint(paths)
        if endpoint is None:
            raise DaemonAwayError("no trainer daemon runs here: start one with `mosaic daemon start`", "UNAVAILABLE")
        return cls(endpoint, lambda: read_client_token(paths.token_file), patience=patience, timeout=timeout)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> TrainerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- runs ----------------------------------------------------------------------------------------------------

    def submit(
        self, config: Mapping[str, Any] | str, request_id: str = "", *, name_is_default: bool = False
    ) -> pb.SubmitRunResponse:
        """Submit a run. Safe to retry: the request id, made here when not given, names the run for good. A name that is
        a default, and that a run has already, gets a number; the answer says which."""
        text = _bounded(config if isinstance(config, str) else json.dumps(config))
        request = pb.SubmitRunRequest(
            config_json=text, client_request_id=request_id or str(ULID()), name_is_default=name_is_default
        )
        return self._patiently(self._stub.SubmitRun, request)

    def import_run(
        self, config: Mapping[str, Any], request_id: str, *, name_is_default: bool = False
    ) -> pb.SubmitRunResponse:
        """Store a run that was made elsewhere. Safe to retry: the request id names it for good."""
        request = pb.ImportRunRequest(
            config_json=_bounded(json.dumps(config)), client_request_id=request_id, name_is_default=name_is_default
        )
        return self._patiently(self._stub.ImportRun, request)

    def import_records(self, batches: Iterable[pb.RecordBatch]) -> Iterator[pb.RecordAck]:
        """Numbers of one imported run; an acknowledgement for each batch, in their order."""
        try:
            yield from self._stub.ImportRecords(iter(batches), metadata=self._meta)
        except grpc.RpcError as error:
            raise self._translated(error) from None

    def import_arrival(self, name: str) -> pb.Run:
        """Have an unpacked archive taken in. Takes as long as the run is large. After a :class:`DaemonAwayError` the
        run is there whole or not at all."""
        return self._once(self._stub.ImportRun, pb.ImportRunRequest(arrival=name), _ARRIVAL_TIMEOUT).run

    def export(self, reference: str) -> Iterator[pb.RunPart]:
        """What the databases hold of a run that is over: files of :mod:`mosaic_protocol.run_archive`, each in parts
        that follow each other."""
        return self._stream(self._stub.ExportRun, pb.RunRef(run_id=reference))

    def run(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(self._stub.GetRun, request)

    def runs(
        self,
        *,
        size: int = 50,
        token: str = "",
        states: Sequence[str] = (),
        outcomes: Sequence[str] = (),
        search: str = "",
        include_deleted: bool = False,
        where: str = "",
    ) -> pb.ListRunsResponse:
        """One page, newest first; ``next_page_token`` of the answer leads to the next. ``where`` is an expression such
        as ``algo=ppo lr<1e-3 tag=paper`` (:mod:`gym_gui.services.run_filter`)."""
        request = pb.ListRunsRequest(
            page_size=size,
            page_token=token,
            states=states,
            outcomes=outcomes,
            search=search,
            include_deleted=include_deleted,
            where=where,
        )
        return self._patiently(self._stub.ListRuns, request)

    def history(self, reference: str) -> list[pb.RunTransition]:
        request = pb.RunRef(run_id=reference)
        answer = self._patiently(self._stub.GetRunHistory, request)
        return list(answer.transitions)

    def cancel(self, reference: str, reason: str = "") -> pb.Run:
        request = pb.CancelRunRequest(run_id=reference, reason=reason)
        return self._patiently(self._stub.CancelRun, request)

    def pause(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(self._stub.PauseRun, request)

    def resume(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(self._stub.ResumeRun, request)

    def delete(self, reference: str, *, purge: bool = False, only_from_trash: bool = False) -> pb.DeleteRunResponse:
        request = pb.DeleteRunRequest(run_id=reference, purge=purge, only_from_trash=only_from_trash)
        return self._once(self._stub.DeleteRun, request, _ARRIVAL_TIMEOUT if purge else None)

    def storage(self) -> list[pb.RunStorage]:
        """What the databases hold of each run. Takes as long as they are large."""
        return list(self._once(self._stub.GetStorage, pb.StorageRequest(), _ARRIVAL_TIMEOUT).runs)

    def remove_parts(self, run_id: str, parts: Sequence[str], checkpoints: Sequence[str] = ()) -> int:
        """Remove parts of a finished run for good; how many bytes of files that freed."""
        request = pb.RemoveRunPartsRequest(run_id=run_id, parts=parts, checkpoints=checkpoints)
        return self._once(self._stub.RemoveRunParts, request, _ARRIVAL_TIMEOUT).bytes_freed

    def restore(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._once(self._stub.RestoreRun, request)

    def update(
        self,
        reference: str,
        *,
        name: str | None = None,
        notes: str | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
    ) -> pb.Run:
        """Change what people call a run and remember of it; what is not given stays as it is."""
        request = pb.UpdateRunRequest(
            run_id=reference, name=name, notes=notes, add_tags=add_tags, remove_tags=remove_tags
        )
        return self._patiently(self._stub.UpdateRun, request)

    def move(
        self,
        reference: str,
        *,
        first: bool = False,
        last: bool = False,
        before: str = "",
        after: str = "",
        host: str = "",
        request_id: str = "",
    ) -> pb.Run:
        """Let a queued run stand elsewhere in its line: first, last, or beside another run; or let it run on another
        host: its name, ``any``, or ``here``. Safe to retry: the same request moves it once."""
        place: dict[str, Any] = {"first": first, "last": last, "before": before, "after": after, "host": host}
        named = {name: value for name, value in place.items() if value}
        request = pb.MoveRunRequest(run_id=reference, client_request_id=request_id or str(ULID()), **named)
        return self._patiently(self._stub.MoveRun, request)

    def watch(self, after_revision: int = 0, where: str = "") -> Iterator[pb.RunUpdate]:
        """Every run, or every one that matches an expression, then every change, until the daemon leaves."""
        request = pb.WatchRunsRequest(after_revision=after_revision, where=where)
        return self._stream(self._stub.WatchRuns, request)

    # ---- what runs say -------------------------------------------------------------------------------------------

    def metrics(
        self, reference: str, tags: Sequence[str] = (), *, max_points: int = 1000, after_step: int = 0
    ) -> list[pb.MetricSeries]:
        request = pb.GetMetricsRequest(run_id=reference, tags=tags, max_points=max_points, after_step=after_step)
        answer = self._patiently(self._stub.GetMetrics, request)
        return list(answer.series)

    def stream(self, kind: str, reference: str, *, after_row: int = 0, follow: bool = False) -> Iterator[pb.RecordPage]:
        """Stored records of ``kind`` "metrics", "steps" or "episodes" from a cursor on."""
        request = pb.StreamRecordsRequest(run_id=reference, after_row=after_row, follow=follow)
        method = {
            "metrics": self._stub.StreamMetrics,
            "steps": self._stub.StreamRunSteps,
            "episodes": self._stub.StreamRunEpisodes,
        }[kind]
        return self._stream(method, request)

    def steps(
        self,
        reference: str,
        *,
        first_step: int = 0,
        tail: int = 0,
        episode: int | None = None,
        follow: bool = False,
    ) -> Iterator[ev.TrainingStep]:
        """The recorded steps of a run in order, from one on, or the last so many, or those of one episode. While
        following, also those to come. Raises :class:`~mosaic_protocol.steps.chunk.ChunkError` for damaged ones."""
        request = pb.StreamRecordsRequest(
            run_id=reference, after_row=first_step, tail=tail, episode=episode, follow=follow
        )
        for page in self._followed(self._stub.StreamRunSteps, request):
            for line in page.records:
                yield from steps_of(ev.decode(line), page.first_row, episode)

    def step_chunks(self, reference: str, *, episode: int | None = None) -> Iterator[ev.StepChunk]:
        """The recorded steps of a run as they are stored, all of them or those of one episode among others."""
        request = pb.StreamRecordsRequest(run_id=reference, episode=episode)
        for page in self._stream(self._stub.StreamRunSteps, request):
            for line in page.records:
                record = ev.decode(line)
                if isinstance(record, ev.StepChunk):
                    yield record

    def episodes(self, reference: str, *, tail: int = 0, follow: bool = False) -> Iterator[ev.EpisodeSummary]:
        """The finished episodes of a run in the order in which they ended."""
        request = pb.StreamRecordsRequest(run_id=reference, tail=tail, follow=follow)
        for page in self._followed(self._stub.StreamRunEpisodes, request):
            for line in page.records:
                record = ev.decode(line)
                if isinstance(record, ev.EpisodeSummary):
                    yield record

    def step_totals(self, reference: str) -> pb.StepTotals:
        """How many steps a run has recorded, how many were lost on the way, and how many it did not keep."""
        request = pb.RunRef(run_id=reference)
        return self._patiently(self._stub.GetStepTotals, request)

    def live(
        self, kind: str, reference: str, *, credit: int, watch_id: str, after_row: int = 0, tail: int = 0
    ) -> CancellableStream[pb.RecordPage]:
        """Pages of "steps" or "episodes" of a run that goes on, no more of them than credits were granted. See
        :class:`~gym_gui.services.trainer.streams.RunBus`, which hands them out and grants."""
        request = pb.StreamRecordsRequest(
            run_id=reference, follow=True, credits=credit, watch_id=watch_id, after_row=after_row, tail=tail
        )
        method = {"steps": self._stub.StreamRunSteps, "episodes": self._stub.StreamRunEpisodes}[kind]
        return CancellableStream(self, method, request)

    def grant_credits(self, watch_id: str, credit: int) -> bool:
        """So many more records may be sent to a live watch; False when there is none of the name any more."""
        request = pb.CreditGrant(watch_id=watch_id, credits=credit)
        return bool(self._patiently(self._stub.GrantCredits, request).known)

    def logs(
        self, reference: str, *, follow: bool = False, tail_lines: int = 0, source: str = ""
    ) -> Iterator[pb.LogChunk]:
        request = pb.StreamLogsRequest(run_id=reference, follow=follow, tail_lines=tail_lines, source=source)
        return self._stream(self._stub.StreamLogs, request)

    # ---- live sessions -------------------------------------------------------------------------------------------

    def live_session(self, reference: str, *, on_close: Callable[[], None] | None = None) -> LiveClient:
        """Watch and steer a session through the daemon, as from another machine. Does not wait: whether there is such a
        session is heard with the first :meth:`~mosaic_protocol.live.client.LiveClient.receive`. Close it before this
        client; ``on_close`` is called when it was.

        On the session's machine :func:`gym_gui.services.live_connection.join_session` finds the shorter way.
        """
        from gym_gui.services.trainer.live_channel import DaemonTransport
        from mosaic_protocol.live.client import LiveClient

        def opened(inputs: Callable[[], Iterator[pb.LiveInput]]) -> CancellableStream[pb.LiveOutput]:
            def method(_: Message, metadata: Any) -> Any:
                return self._stub.LiveSession(inputs(), metadata=metadata)

            return CancellableStream(self, method, pb.LiveInput())

        return LiveClient(DaemonTransport(reference, opened, on_close))

    # ---- sweeps --------------------------------------------------------------------------------------------------

    def submit_sweep(self, name: str, spec: SweepSpec, request_id: str = "", *, name_is_default: bool = False) -> Sweep:
        """Submit a sweep. Safe to retry, like :meth:`submit`."""
        from gym_gui.services.sweeps.model import encode_spec

        request = pb.SubmitSweepRequest(
            name=name,
            spec_json=_bounded(encode_spec(spec).decode()),
            client_request_id=request_id or str(ULID()),
            name_is_default=name_is_default,
        )
        return _sweep(self._patiently(self._stub.SubmitSweep, request))

    def sweeps(self) -> list[pb.Sweep]:
        """Newest first."""
        return list(self._patiently(self._stub.ListSweeps, pb.ListSweepsRequest()).sweeps)

    def sweep(self, reference: str) -> Sweep:
        """A sweep with its trials."""
        from msgspec.structs import replace

        from gym_gui.services.sweeps.model import decode_trials

        answer = self._patiently(self._stub.GetTrials, pb.SweepRef(sweep_id=reference))
        return replace(_sweep(answer.sweep), trials=decode_trials(answer.trials))

    def sweep_message(self, reference: str) -> pb.Sweep:
        """A sweep without its trials, as the daemon tells it."""
        return self._patiently(self._stub.GetSweep, pb.SweepRef(sweep_id=reference))

    def pause_sweep(self, reference: str) -> Sweep:
        return _sweep(self._patiently(self._stub.PauseSweep, pb.SweepRef(sweep_id=reference)))

    def resume_sweep(self, reference: str, *, more: int = 0, percent: int = 0) -> Sweep:
        """Let a sweep go on; one that is over needs more trials. Not repeated: each call adds them."""
        request = pb.ResumeSweepRequest(sweep_id=reference, more_trials=more, more_percent=percent)
        return _sweep(self._once(self._stub.ResumeSweep, request))

    def stop_sweep(self, reference: str) -> Sweep:
        return _sweep(self._patiently(self._stub.StopSweep, pb.SweepRef(sweep_id=reference)))

    # ---- the daemon ----------------------------------------------------------------------------------------------

    def workers(self) -> pb.ListWorkersResponse:
        return self._patiently(self._stub.ListWorkers, pb.ListWorkersRequest())

    def health(self, timeout: float | None = None) -> pb.Health:
        return self._once(self._stub.GetHealth, pb.HealthRequest(), timeout)

    def shutdown(self) -> int:
        """Ask the daemon to leave; how many runs go on without it."""
        return int(self._once(self._stub.Shutdown, pb.ShutdownRequest()).live_runs)

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _once(self, method: Callable[..., T], request: Message, timeout: float | None = None) -> T:
        shown = self._meta
        try:
            return method(request, metadata=shown, timeout=timeout or self._timeout)
        except grpc.RpcError as error:
            if not self._has_newer_token(error, shown):
                raise self._translated(error) from None
        try:
            return method(request, metadata=self._meta, timeout=timeout or self._timeout)
        except grpc.RpcError as error:
            raise self._translated(error) from None

    def _has_newer_token(self, error: grpc.RpcError, shown: tuple[tuple[str, str], ...]) -> bool:
        """Whether a call was refused for a token that is no longer: each daemon makes one of its own at its start.
        Compared with the one that was shown, because another thread may have read the new one meanwhile."""
        if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
            return False
        try:
            self._meta = bearer(self._read_token().strip())
        except (OSError, TrainerError):
            return False
        return self._meta != shown

    def _translated(self, error: grpc.RpcError) -> ClientError:
        if self._why_away is not None and error.code() is grpc.StatusCode.UNAVAILABLE:
            return DaemonAwayError(self._why_away(), "UNAVAILABLE")
        return _translate(error)

    def _patiently(self, method: Callable[..., T], request: Message) -> T:
        """Repeat a call that is safe to repeat while the daemon is away for a moment."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._once(method, request)
            except DaemonAwayError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.2)

    def _stream(self, method: Callable[..., Any], request: Message) -> Iterator[Any]:
        """What a stream brings. A token is refused before anything came, so beginning again loses nothing."""
        refused: grpc.RpcError | None = None
        for _ in range(2):
            shown = self._meta
            call = method(request, metadata=shown)
            try:
                yield from call
                return
            except grpc.RpcError as error:
                refused = error
                if not self._has_newer_token(error, shown):
                    break
            finally:
                call.cancel()
        assert refused is not None
        raise self._translated(refused) from None

    def _followed(self, method: Callable[..., Any], request: pb.StreamRecordsRequest) -> Iterator[pb.RecordPage]:
        """Pages of records. Who follows a daemon on another machine is not told of a link that is cut: it is made again
        by itself, and the pages go on after the last one."""
        while True:
            try:
                for page in self._stream(method, request):
                    yield page
                    request.after_row, request.tail = max(request.after_row, page.last_row), 0
            except DaemonAwayError:
                if self._why_away is None or not request.follow:
                    raise
                time.sleep(_LINK_PAUSE)
            else:
                return


class CancellableStream(Generic[T]):
    """A stream that another thread may cancel: iterating over it then ends."""

    def __init__(self, client: TrainerClient, method: Callable[..., Any], request: Message) -> None:
        self._client, self._method, self._request = client, method, request
        self._call: Any = None
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        if self._call is not None:
            self._call.cancel()

    def __iter__(self) -> Iterator[T]:
        def remembered(request: Message, metadata: Any) -> Any:
            self._call = self._method(request, metadata=metadata)
            if self._cancelled:
                self._call.cancel()
            return self._call

        try:
            yield from self._client._stream(remembered, self._request)
        except ClientError:
            if not self._cancelled:
                raise


def _sweep(message: pb.Sweep) -> Sweep:
    from gym_gui.services.sweeps.model import decode_sweep

    return decode_sweep(message.document)


def _bounded(config: str) -> str:
    """The config, unless it is longer than any daemon takes: a message that large would only hold the daemon up."""
    from mosaic_protocol.run_config import RunConfigError, require_bounded

    try:
        require_bounded(config)
    except RunConfigError as error:
        raise RequestRefusedError(str(error), grpc.StatusCode.INVALID_ARGUMENT.name) from None
    return config


def _translate(error: grpc.RpcError) -> ClientError:
    status: grpc.StatusCode = error.code()
    sentence = error.details() or status.name
    if status is grpc.StatusCode.UNAVAILABLE:
        # gRPC wraps the reason in its own words, the outermost first: "failed to connect to all addresses; …: refused".
        reason = sentence.rsplit(": ", 1)[-1]
        sentence = f"the trainer daemon cannot be reached ({reason}): see `mosaic daemon status`"
    return _KINDS.get(status, ClientError)(sentence, status.name)


def steps_of(
    record: ev.Record, first_step: int, episode: int | None, *, observations: bool = True
) -> Iterator[ev.TrainingStep]:
    """The steps of a chunk that were asked for. Raises :class:`~mosaic_protocol.steps.chunk.ChunkError` for one that is
    damaged."""
    if isinstance(record, ev.StepChunk):
        steps = OpenedChunk(record).steps(observations=observations)
        yield from (step for step in steps if step.step >= first_step and episode in (None, step.episode))
