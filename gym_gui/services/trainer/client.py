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
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
from ulid import ULID

from gym_gui.services.trainer.daemon_control import ensure_daemon
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.services.trainer.tokens import read_daemon_token
from mosaic_protocol.endpoint import Endpoint, bearer, quiet_grpc_logs
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.proto.trainer_pb2_grpc import TrainerServiceStub

T = TypeVar("T")

_TIMEOUT = 30.0
_RETRY_SECONDS = 10.0


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


_KINDS: dict[grpc.StatusCode, type[ClientError]] = {
    grpc.StatusCode.UNAVAILABLE: DaemonAwayError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DaemonAwayError,
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
        self, endpoint: Endpoint, token: str, *, patience: float = _RETRY_SECONDS, timeout: float = _TIMEOUT
    ) -> None:
        quiet_grpc_logs()
        self.endpoint = endpoint
        self._patience, self._timeout = patience, timeout
        self._channel = endpoint.channel()
        self._stub = TrainerServiceStub(self._channel)
        self._meta = bearer(token)

    @classmethod
    def connect(
        cls,
        paths: MosaicPaths | None = None,
        *,
        start: bool = True,
        patience: float = _RETRY_SECONDS,
        timeout: float = _TIMEOUT,
    ) -> TrainerClient:
        """Connect to the daemon of a data root, starting it when ``start`` and none runs."""
        paths = paths or MosaicPaths.from_environment()
        endpoint = ensure_daemon(paths) if start else Endpoint.read(paths.endpoint_file)
        if endpoint is None or not paths.token_file.exists():
            raise DaemonAwayError("no trainer daemon runs here: start one with `mosaic daemon start`", "UNAVAILABLE")
        return cls(endpoint, read_daemon_token(paths.token_file), patience=patience, timeout=timeout)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> TrainerClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- runs ----------------------------------------------------------------------------------------------------

    def submit(self, config: Mapping[str, Any] | str, request_id: str = "") -> pb.SubmitRunResponse:
        """Submit a run. Safe to retry: the request id, made here when not given, names the run for good."""
        text = config if isinstance(config, str) else json.dumps(config)
        request = pb.SubmitRunRequest(config_json=text, client_request_id=request_id or str(ULID()))
        return self._patiently(lambda: self._stub.SubmitRun(request, metadata=self._meta, timeout=self._timeout))

    def run(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(lambda: self._stub.GetRun(request, metadata=self._meta, timeout=self._timeout))

    def runs(
        self,
        *,
        size: int = 50,
        token: str = "",
        states: Sequence[str] = (),
        outcomes: Sequence[str] = (),
        search: str = "",
        include_deleted: bool = False,
    ) -> pb.ListRunsResponse:
        """One page, newest first; ``next_page_token`` of the answer leads to the next."""
        request = pb.ListRunsRequest(
            page_size=size,
            page_token=token,
            states=states,
            outcomes=outcomes,
            search=search,
            include_deleted=include_deleted,
        )
        return self._patiently(lambda: self._stub.ListRuns(request, metadata=self._meta, timeout=self._timeout))

    def history(self, reference: str) -> list[pb.RunTransition]:
        request = pb.RunRef(run_id=reference)
        answer = self._patiently(lambda: self._stub.GetRunHistory(request, metadata=self._meta, timeout=self._timeout))
        return list(answer.transitions)

    def cancel(self, reference: str, reason: str = "") -> pb.Run:
        request = pb.CancelRunRequest(run_id=reference, reason=reason)
        return self._patiently(lambda: self._stub.CancelRun(request, metadata=self._meta, timeout=self._timeout))

    def pause(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(lambda: self._stub.PauseRun(request, metadata=self._meta, timeout=self._timeout))

    def resume(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._patiently(lambda: self._stub.ResumeRun(request, metadata=self._meta, timeout=self._timeout))

    def delete(self, reference: str, *, purge: bool = False) -> pb.DeleteRunResponse:
        request = pb.DeleteRunRequest(run_id=reference, purge=purge)
        return self._once(lambda: self._stub.DeleteRun(request, metadata=self._meta, timeout=self._timeout))

    def restore(self, reference: str) -> pb.Run:
        request = pb.RunRef(run_id=reference)
        return self._once(lambda: self._stub.RestoreRun(request, metadata=self._meta, timeout=self._timeout))

    def watch(self, after_revision: int = 0) -> Iterator[pb.RunUpdate]:
        """Every run, then every change, until the daemon leaves."""
        request = pb.WatchRunsRequest(after_revision=after_revision)
        return self._stream(self._stub.WatchRuns(request, metadata=self._meta))

    # ---- what runs say -------------------------------------------------------------------------------------------

    def metrics(
        self, reference: str, tags: Sequence[str] = (), *, max_points: int = 1000, after_step: int = 0
    ) -> list[pb.MetricSeries]:
        request = pb.GetMetricsRequest(run_id=reference, tags=tags, max_points=max_points, after_step=after_step)
        answer = self._patiently(lambda: self._stub.GetMetrics(request, metadata=self._meta, timeout=self._timeout))
        return list(answer.series)

    def stream(self, kind: str, reference: str, *, after_row: int = 0, follow: bool = False) -> Iterator[pb.RecordPage]:
        """Stored records of ``kind`` "metrics", "steps" or "episodes" from a cursor on."""
        request = pb.StreamRecordsRequest(run_id=reference, after_row=after_row, follow=follow)
        method = {
            "metrics": self._stub.StreamMetrics,
            "steps": self._stub.StreamRunSteps,
            "episodes": self._stub.StreamRunEpisodes,
        }[kind]
        return self._stream(method(request, metadata=self._meta))

    def logs(
        self, reference: str, *, follow: bool = False, tail_lines: int = 0, source: str = ""
    ) -> Iterator[pb.LogChunk]:
        request = pb.StreamLogsRequest(run_id=reference, follow=follow, tail_lines=tail_lines, source=source)
        return self._stream(self._stub.StreamLogs(request, metadata=self._meta))

    # ---- the daemon ----------------------------------------------------------------------------------------------

    def workers(self) -> pb.ListWorkersResponse:
        return self._patiently(
            lambda: self._stub.ListWorkers(pb.ListWorkersRequest(), metadata=self._meta, timeout=self._timeout)
        )

    def health(self, timeout: float | None = None) -> pb.Health:
        return self._once(
            lambda: self._stub.GetHealth(pb.HealthRequest(), metadata=self._meta, timeout=timeout or self._timeout)
        )

    def shutdown(self) -> int:
        """Ask the daemon to leave; how many runs go on without it."""
        answer = self._once(
            lambda: self._stub.Shutdown(pb.ShutdownRequest(), metadata=self._meta, timeout=self._timeout)
        )
        return int(answer.live_runs)

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _once(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except grpc.RpcError as error:
            raise _translate(error) from None

    def _patiently(self, call: Callable[[], T]) -> T:
        """Repeat a call that is safe to repeat while the daemon is away for a moment."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._once(call)
            except DaemonAwayError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.2)

    def _stream(self, call: Any) -> Iterator[Any]:
        try:
            yield from call
        except grpc.RpcError as error:
            raise _translate(error) from None
        finally:
            call.cancel()


def _translate(error: grpc.RpcError) -> ClientError:
    status: grpc.StatusCode = error.code()
    sentence = error.details() or status.name
    if status is grpc.StatusCode.UNAVAILABLE:
        # gRPC wraps the reason in its own words, the outermost first: "failed to connect to all addresses; …: refused".
        reason = sentence.rsplit(": ", 1)[-1]
        sentence = f"the trainer daemon cannot be reached ({reason}): see `mosaic daemon status`"
    return _KINDS.get(status, ClientError)(sentence, status.name)
