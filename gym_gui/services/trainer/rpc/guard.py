"""What surrounds every RPC: who may call it, and how our errors become status codes with a sentence."""

from __future__ import annotations

import functools
import logging
import string
import time
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import grpc

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import (
    AuthenticationError,
    LeavingError,
    RefusedError,
    RegistryCorruptError,
    StorageFullError,
    UnknownRunError,
    UnknownTokenError,
    WorldError,
    WrongStateError,
)
from gym_gui.services.trainer.rpc.tokens import ClientToken

logger = logging.getLogger(__name__)

WORKER_METHODS = frozenset(
    {
        "RegisterWorker",
        "Heartbeat",
        "PublishRecords",
        "PublishRunSteps",
        "PublishRunEpisodes",
        "PublishLifecycle",
        "ControlStream",
    }
)
"""These carry a token of their run, all others the daemon's."""

_STATUS: list[tuple[type[Exception], grpc.StatusCode]] = [
    (AuthenticationError, grpc.StatusCode.PERMISSION_DENIED),
    (UnknownRunError, grpc.StatusCode.NOT_FOUND),
    (WrongStateError, grpc.StatusCode.FAILED_PRECONDITION),
    (RefusedError, grpc.StatusCode.INVALID_ARGUMENT),
    (ValueError, grpc.StatusCode.INVALID_ARGUMENT),
    (OverflowError, grpc.StatusCode.INVALID_ARGUMENT),  # a number that no database column holds
    (StorageFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (RegistryCorruptError, grpc.StatusCode.DATA_LOSS),
    (LeavingError, grpc.StatusCode.UNAVAILABLE),  # what gRPC itself says of a daemon that is gone: clients wait
    (WorldError, grpc.StatusCode.ABORTED),
]

_MOST_STATUS_BYTES = 6000
_SILENT_SECONDS = 10.0
_NO_CLIENT_TOKEN = (
    "no valid token: clients send the one in trainer/token below MOSAIC_HOME, which only its owner can read and which "
    "changes with every start of the daemon"
)
_NO_WORKER_TOKEN = "no valid token: a worker sends the one that its run was launched or registered with"

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


def bearer_token(context: Context) -> str:
    """The token a caller shows, "" when it shows none."""
    return token_shown(context.invocation_metadata() or ())


def token_shown(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    for name, value in metadata:
        if name == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value.removeprefix("Bearer ")
    return ""


class DoorKeeper(grpc.aio.ServerInterceptor):
    """Turns calls away before their message is read: clients without the daemon's token, workers without a token of
    their run. So strangers cost neither memory nor a look at the runs, and learn of no run whether it exists."""

    def __init__(self, client_token: ClientToken, judge_worker: Callable[[str, str], None]) -> None:
        """``judge_worker(run_id, token)`` raises :class:`AuthenticationError` for a worker whose run is over, and
        :class:`UnknownTokenError` for everybody it does not know; the run id may be missing."""
        self._client_token, self._judge_worker = client_token, judge_worker
        self._refused = _Throttled()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method.rpartition("/")[2]
        refusal = self._refusal(method, handler_call_details.invocation_metadata or ())
        if handler is None or refusal is None:
            return handler
        self._refused.tell(method)
        return _refusing_like(handler, *refusal)

    def _refusal(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> tuple[grpc.StatusCode, str] | None:
        token = token_shown(metadata)
        if method not in WORKER_METHODS:
            return None if self._client_token.opens(token) else (grpc.StatusCode.UNAUTHENTICATED, _NO_CLIENT_TOKEN)
        try:
            self._judge_worker(str(dict(metadata).get("mosaic-run-id", "")), token)
        except UnknownTokenError:
            return grpc.StatusCode.UNAUTHENTICATED, _NO_WORKER_TOKEN
        except AuthenticationError as error:
            return grpc.StatusCode.PERMISSION_DENIED, _fitting(str(error))
        except WorldError as error:
            return grpc.StatusCode.ABORTED, _fitting(str(error))
        return None


class _Throttled:
    """Tells of strangers, but a stranger cannot fill the log: one line in ten seconds, with their number."""

    def __init__(self) -> None:
        self._silent_until, self._untold = 0.0, 0

    def tell(self, method: str) -> None:
        self._untold += 1
        now = time.monotonic()
        if now >= self._silent_until:
            log_event(logger, codes.LOG_RPC_UNAUTHENTICATED, method=method[:60], calls=self._untold)
            self._silent_until, self._untold = now + _SILENT_SECONDS, 0


def _refusing_like(
    handler: grpc.RpcMethodHandler[Any, Any], status: grpc.StatusCode, sentence: str
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that only refuses. It claims to take a stream whatever the call is: gRPC reads the message of every
    other kind before it asks the handler."""

    async def refuse(_: AsyncIterator[Any], context: Context) -> None:
        await context.abort(status, sentence)

    async def refuse_with_stream(_: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        await context.abort(status, sentence)
        yield

    if handler.response_streaming:
        return grpc.stream_stream_rpc_method_handler(refuse_with_stream)
    return grpc.stream_unary_rpc_method_handler(refuse)


def guarded_unary(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Tell our errors to the caller as a status with a sentence."""

    @functools.wraps(method)
    async def wrapper(self: object, request: Any, context: Context) -> Any:
        try:
            return await method(self, request, context)
        except Exception as error:  # noqa: BLE001 - a bug, too, must be answered and logged
            await _abort(context, error, method.__name__)

    return wrapper


def guarded_stream(method: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """The same for methods that answer with a stream."""

    @functools.wraps(method)
    async def wrapper(self: object, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async for item in method(self, request, context):
                yield item
        except Exception as error:  # noqa: BLE001 - a bug, too, must be answered and logged
            await _abort(context, error, method.__name__)

    return wrapper


async def _abort(context: Context, error: Exception, method: str) -> None:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
    if status is grpc.StatusCode.INTERNAL:
        constant = codes.LOG_TRAINER_INTERNAL_ERROR
        logger.error(constant.message, exc_info=error, extra={"code": constant.code, "fields": {"method": method}})
        await context.abort(status, f"unexpected {type(error).__name__} in the trainer daemon; its log tells more")
    log_event(logger, codes.LOG_RPC_REFUSED, method=method, status=status.name, reason=str(error)[:500])
    await context.abort(status, _fitting(str(error)))


def _fitting(sentence: str) -> str:
    """As much of a sentence as a status carries: it travels in a header, where a byte that is not ASCII takes three."""
    while len(urllib.parse.quote(sentence, safe=string.printable)) > _MOST_STATUS_BYTES:
        sentence = sentence[: len(sentence) * 3 // 4]
    return sentence
