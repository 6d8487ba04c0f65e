"""What surrounds every RPC: who may call it, and how our errors become status codes with a sentence."""

from __future__ import annotations

import functools
import hmac
import logging
import string
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from gym_gui.logging_config import log_constants as codes
from gym_gui.logging_config.structured import log_event
from gym_gui.services.trainer.errors import (
    AuthenticationError,
    RefusedError,
    RegistryCorruptError,
    StorageFullError,
    UnknownRunError,
    WorldError,
    WrongStateError,
)

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
"""These carry a worker's token, which the service checks against the run; all others carry the daemon's."""

_STATUS: list[tuple[type[Exception], grpc.StatusCode]] = [
    (AuthenticationError, grpc.StatusCode.PERMISSION_DENIED),
    (UnknownRunError, grpc.StatusCode.NOT_FOUND),
    (WrongStateError, grpc.StatusCode.FAILED_PRECONDITION),
    (RefusedError, grpc.StatusCode.INVALID_ARGUMENT),
    (ValueError, grpc.StatusCode.INVALID_ARGUMENT),
    (OverflowError, grpc.StatusCode.INVALID_ARGUMENT),  # a number that no database column holds
    (StorageFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (RegistryCorruptError, grpc.StatusCode.DATA_LOSS),
    (WorldError, grpc.StatusCode.UNAVAILABLE),
]

_MOST_STATUS_BYTES = 6000

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


def bearer_token(context: Context) -> str:
    """The token a caller shows, "" when it shows none."""
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str) and value.startswith("Bearer "):
            return value.removeprefix("Bearer ")
    return ""


class ClientTokenInterceptor(grpc.aio.ServerInterceptor):
    """Turns away every client call that does not carry the daemon's token, before it is looked at."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = handler_call_details.method.rpartition("/")[2]
        shown = dict(handler_call_details.invocation_metadata or ()).get("authorization", "")
        shown_bytes = shown.encode() if isinstance(shown, str) else shown
        if method in WORKER_METHODS or hmac.compare_digest(shown_bytes, self._expected):
            return await continuation(handler_call_details)
        log_event(logger, codes.LOG_RPC_UNAUTHENTICATED, method=method)
        handler = await continuation(handler_call_details)
        return None if handler is None else _refusing_like(handler)


async def _refuse(_: Any, context: Context) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "no valid token: clients send the one in trainer/token below MOSAIC_HOME, which only its owner can read",
    )


async def _refuse_stream(_: Any, context: Context) -> AsyncIterator[Any]:
    await _refuse(_, context)
    yield


def _refusing_like(handler: grpc.RpcMethodHandler[Any, Any]) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler of the same shape that only refuses."""
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(_refuse_stream)
    return grpc.unary_unary_rpc_method_handler(_refuse)


def guarded_unary(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Tell our errors to the caller as a status with a sentence."""

    @functools.wraps(method)
    async def wrapper(self: object, request: Any, context: Context) -> Any:
        try:
            return await method(self, request, context)
        except Exception as error:  # noqa: BLE001 - a bug of ours, too, must be told and logged
            await _abort(context, error, method.__name__)

    return wrapper


def guarded_stream(method: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """The same for methods that answer with a stream."""

    @functools.wraps(method)
    async def wrapper(self: object, request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async for item in method(self, request, context):
                yield item
        except Exception as error:  # noqa: BLE001 - a bug of ours, too, must be told and logged
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
