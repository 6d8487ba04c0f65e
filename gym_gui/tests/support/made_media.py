"""Histograms, pictures and texts as writers put them into event files, and as nobody should."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from tensorboard.compat.proto import histogram_pb2, summary_pb2

from gym_gui.tests.support.made_logs import event, tensor

PNG_HEAD = b"\x89PNG\r\n\x1a\n"


def old_histogram(tag: str, step: int, limits: list[float], counts: list[float], least: float, most: float) -> bytes:
    made = histogram_pb2.HistogramProto(min=least, max=most, num=sum(counts), bucket_limit=limits, bucket=counts)
    return event(step, float(step), summary_pb2.Summary.Value(tag=tag, histo=made))


def new_histogram(tag: str, step: int, *buckets: tuple[float, float, float]) -> bytes:
    content = b"".join(struct.pack("<3d", *bucket) for bucket in buckets)
    return event(step, float(step), tensor(tag, "histograms", dtype=2, tensor_content=content))


def normal(tag: str, step: int, middle: float, width: float = 1.0, buckets: int = 30) -> bytes:
    """A bell around ``middle``."""
    edges = [middle + width * (number / buckets * 6 - 3) for number in range(buckets + 1)]
    counts = [1000 * 2.718 ** (-(((number + 0.5) / buckets * 6 - 3) ** 2) / 2) for number in range(buckets)]
    return new_histogram(tag, step, *zip(edges, edges[1:], counts, strict=False))


def image(tag: str, step: int, data: bytes, width: int = 1, height: int = 1) -> bytes:
    """``width`` and ``height`` are what the event claims, which nobody believes."""
    made: Any = summary_pb2.Summary.Image(height=height, width=width, encoded_image_string=data)
    return event(step, float(step), summary_pb2.Summary.Value(tag=tag, image=made))


def text(tag: str, step: int, words: str) -> bytes:
    return event(step, float(step), tensor(f"{tag}/text_summary", "text", dtype=7, string_val=[words.encode()]))


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(width: int, height: int, rows: bytes | None = None, *extra: bytes) -> bytes:
    """Grey from left to right, red from top to bottom; or with ``rows`` whatever they are, each after its filter."""
    if rows is None:
        line = [bytes((255 * x // width, 60, 255 * y // height)) for y in range(height) for x in range(width)]
        rows = b"".join(b"\0" + b"".join(line[y * width : (y + 1) * width]) for y in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return PNG_HEAD + head + b"".join(extra) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, scans: int = 1) -> bytes:
    """The segments of one, without a picture in them."""
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\x01\x11\x00"
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + b"\x01\x00\x00\x3f\x00" + b"\x12\xff\x00\x34"
    return b"\xff\xd8" + frame + scan * scans + b"\xff\xd9"
