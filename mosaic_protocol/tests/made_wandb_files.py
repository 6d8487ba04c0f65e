"""W&B files made by hand, in the framing that the format describes, so that tests need no wandb."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

BLOCK = 32768
HEADER = b":W&B\xe1\xbe\x00"


def varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def item(key: str, value: Any, *, nested: bool = False) -> bytes:
    return field(2 if nested else 1, key) + field(16, json.dumps(value))


def history(**values: Any) -> bytes:
    return field(2, b"".join(field(1, item(key, value, nested=True)) for key, value in values.items()))


def log(records: list[bytes]) -> bytes:
    """Records in LevelDB's framing, as the format's description has it."""
    content = bytearray(HEADER)
    for record in records:
        rest, first = record, True
        while True:
            room = BLOCK - len(content) % BLOCK
            if room < 7:
                content += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest]
            checksum = zlib.crc32(bytes([kind]) + part)
            content += struct.pack("<IHB", checksum, len(part), kind) + part
            first = False
            if not rest:
                break
    return bytes(content)


def stats(seconds: int, **values: Any) -> bytes:
    items = b"".join(field(3, field(1, key) + field(16, json.dumps(value))) for key, value in values.items())
    return field(7, field(2, field(1, seconds)) + items)


def identity(run_id: str = "x", project: str = "walks", name: str = "a name", **config: Any) -> bytes:
    settings = b"".join(field(1, item(key, value)) for key, value in config.items())
    return field(17, field(1, run_id) + field(3, project) + field(4, settings) + field(8, name))


def ended(code: int = 0) -> bytes:
    return field(18, field(1, code) if code else b"")


def summary(**values: Any) -> bytes:
    return field(3, b"".join(field(1, item(key, value)) for key, value in values.items()))


def tracked_run(run_dir: Path, records: list[bytes], folder: str = "offline-run-20260101_000000-x") -> Path:
    """A run's directory as W&B leaves it; the file."""
    place = run_dir / "wandb" / folder
    place.mkdir(parents=True)
    file = place / f"run-{folder.rpartition('-')[2]}.wandb"
    file.write_bytes(log(records))
    return file


def curve_records(points: int = 50) -> list[bytes]:
    """A run with two curves, as a tracked script leaves it."""
    rows = [
        history(**{"charts/episodic_return": 2.0 * n, "losses/value": 1 / (n + 1), "global_step": 10 * n, "_step": n})
        for n in range(points)
    ]
    last = {"charts/episodic_return": 2.0 * (points - 1), "best": "yes"}
    return [identity(seed=3, learning_rate=0.001), *rows, summary(**last), ended()]
