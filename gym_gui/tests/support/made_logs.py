"""Log folders as the programs of others leave them, made with TensorBoard's own messages."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2
from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

from gym_gui.services.scalars.crc32c import crc32c, masked

NAME = "events.out.tfevents.1"


def framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    sums = [struct.pack("<I", masked(crc32c(data))) for data in (length, record)]
    return length + sums[0] + record + sums[1]


def event(step: int, wall_time: float, *values: Any) -> bytes:
    made = event_pb2.Event(step=step, wall_time=wall_time, summary=summary_pb2.Summary(value=values))
    return framed(made.SerializeToString())


def simple(tag: str, number: float) -> Any:
    return summary_pb2.Summary.Value(tag=tag, simple_value=number)


def tensor(tag: str, plugin: str | None, **content: Any) -> Any:
    value = summary_pb2.Summary.Value(tag=tag, tensor=tensor_pb2.TensorProto(**content))
    if plugin is not None:
        value.metadata.CopyFrom(SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin)))
    return value


def written(folder: Path, *parts: bytes, name: str = NAME) -> Path:
    """A file of events, whatever they are."""
    folder.mkdir(parents=True, exist_ok=True)
    head = event_pb2.Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString()
    file = folder / name
    file.write_bytes(framed(head) + b"".join(parts))
    return file


def curve(tag: str, steps: Iterable[int], began: float = 1000.0) -> list[bytes]:
    """A point for each step, whose value is the step; one a second."""
    return [event(step, began + number, simple(tag, step)) for number, step in enumerate(steps)]


def table(settings: Mapping[str, Any]) -> bytes:
    """Settings as CleanRL's scripts write them."""
    text = "|param|value|\n|-|-|\n" + "\n".join(f"|{name}|{value}|" for name, value in settings.items())
    return event(0, 1.0, tensor("hyperparameters/text_summary", "text", dtype=7, string_val=[text.encode()]))
