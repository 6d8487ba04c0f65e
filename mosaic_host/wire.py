"""The executor's interface as JSON lines: a call by its name, an answer by its number, events in between.

``{"id": 7, "call": "wait", "args": [...]}`` is answered once by ``{"id": 7, "result": ...}`` or ``{"id": 7, "error":
{...}}``; ``{"cancel": 7}`` takes the call back. Types are those of :class:`mosaic_host.executor.Executor` and
:class:`mosaic_host.hosting.Hosting`; bytes travel as base64.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from mosaic_host.errors import Refusal, StartError
from mosaic_host.executor import Executor
from mosaic_host.hosting import Hosting
from mosaic_protocol.outbox import MOST_MESSAGE_BYTES

LINE_BYTES = 2 * MOST_MESSAGE_BYTES
"""The longest line that is read: a part of a journal, in base64."""
_OF_THE_CALLER = frozenset({"close", "why_away", "why_ended", "give_up"})
_INTERFACES = (Executor, Hosting)
CALLS = (
    frozenset(name for interface in _INTERFACES for name in vars(interface) if not name.startswith("_"))
    - _OF_THE_CALLER
)


class PipeError(ConnectionError):
    """The agent at the other end is gone, or broke off."""


class AgentBug(RuntimeError):
    """A call failed at the other end for a reason that nobody foresaw."""


def encode(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message, enc_hook=_from_path) + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


def arguments(call: str, args: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a call, by name and with the types that the interface gives them."""
    types = _types_of(call)[:-1]
    if len(args) != len(types):
        raise ValueError(f"{call} takes {len(types)} arguments, not {len(args)}")
    return {name: msgspec.convert(arg, kind, dec_hook=_to_path) for (name, kind), arg in zip(types, args, strict=True)}


def result(call: str, value: Any) -> Any:
    """What a call returned, with the type that the interface gives it."""
    return msgspec.convert(value, _types_of(call)[-1][1], dec_hook=_to_path)


def error_fields(error: Exception) -> dict[str, Any]:
    """An error as it travels."""
    match error:
        case StartError():
            return {"refusal": error.refusal, "sentence": str(error)}
        case OSError():
            return {"errno": error.errno, "sentence": error.strerror or str(error), "filename": error.filename}
        case _:
            return {"bug": type(error).__name__, "sentence": str(error)}


def error_from(fields: dict[str, Any]) -> Exception:
    """The error that travelled, to be raised here."""
    match fields:
        case {"refusal": refusal, "sentence": sentence}:
            return StartError(Refusal(refusal), sentence)
        case {"errno": number, "sentence": sentence, "filename": filename}:
            return OSError(number, sentence, filename) if number is not None else OSError(sentence)
        case _:
            return AgentBug(f"{fields.get('bug')}: {fields.get('sentence')}")


@cache
def _types_of(call: str) -> list[tuple[str, Any]]:
    """Names and types of the parameters in their order, those of the result last."""
    method = next(getattr(interface, call) for interface in _INTERFACES if call in vars(interface))
    hints = get_type_hints(method)
    names = [name for name in inspect.signature(method).parameters if name != "self"]
    return [*((name, hints[name]) for name in names), ("return", hints["return"])]


def _from_path(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} does not travel")


def _to_path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(f"{kind} does not travel")
