"""Files that somebody made to harm who imports them, or that merely hold what a policy cannot be made of."""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# The operations of a pickle that are needed here; the module of that name writes none of what follows.
_PICKLE, _END = b"\x80\x02", b"."
_EMPTY_DICT, _EMPTY_LIST, _APPEND = b"}", b"]", b"a"
_MARK, _TUPLE, _TUPLE1, _REDUCE, _LONG = b"(", b"t", b"\x85", b"R", b"\x8a"

OSC_52 = "\x1b]52;c;ZXZpbA==\x07"
NAME = "actor.0.weight"
Maker = Callable[[Path], None]


def pickled(content: Callable[[], Any]) -> Maker:
    return lambda file: torch.save(content(), file)


def _cyclic() -> Any:
    content: dict[str, Any] = {NAME: torch.zeros(64, 4)}
    content["again"] = content
    return content


def _laughs() -> Any:
    """Ten references to ten references to …: little in the file, without end for who walks through it."""
    content: Any = [torch.zeros(2)]
    for _ in range(30):
        content = [content] * 10
    return content


def _deep() -> bytes:
    """A list in a list in a list, two hundred thousand times; written by hand, because pickle itself gives up."""
    depth = 200_000
    return _PICKLE + _EMPTY_LIST * depth + _APPEND * (depth - 1) + _END


def _wide() -> bytes:
    count = 60_000_000
    return _PICKLE + _MARK + _EMPTY_LIST * count + _TUPLE + _END


def _bytearray() -> bytes:
    """``bytearray(10**13)``: what may be called without danger may still ask for everything."""
    asked = b"cbuiltins\nbytearray\n" + _LONG + b"\x08" + struct.pack("<q", 10**13) + _TUPLE1 + _REDUCE
    return _PICKLE + asked + _END


def _archive(entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return made.getvalue()


def written(content: Callable[[], bytes]) -> Maker:
    """A PyTorch file around a hand-made pickle."""

    def make(file: Path) -> None:
        file.write_bytes(_archive([("archive/data.pkl", content()), ("archive/version", b"3\n")]))

    return make


def bomb(file: Path) -> None:
    """A file that becomes a thousand times as large."""
    plain = io.BytesIO()
    torch.save({NAME: torch.zeros(64, 4)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            with archive.open(name, "w") as target:
                if not name.endswith("/data/0"):
                    target.write(source.read(name))
                    continue
                for _ in range(32):
                    target.write(bytes(2**20))


def overlapping(file: Path) -> None:
    """Two thousand entries of an archive that are all the same bytes of the file."""
    data = bytes(2**20)
    made = bytearray(_archive([("archive/data.pkl", _deep()[:10]), ("archive/data/0", data)]))
    end = made.rindex(b"PK\x05\x06")
    (directory,) = struct.unpack_from("<I", made, end + 16)
    first = bytes(made[directory:end])
    entry = first[first.index(b"PK\x01\x02", 4) :]
    many = b"".join(entry.replace(b"archive/data/0", b"archive/x/%04d" % number) for number in range(2000))
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2002, 2002, len(first + many), directory, 0)
    file.write_bytes(bytes(made[:directory]) + first + many + tail)


def twice(file: Path) -> None:
    """Two entries of one name: what was checked need not be what is read."""
    one = _archive([("archive/data.pkl", b"1"), ("archive/data.pkX", b"2")])
    file.write_bytes(one.replace(b"data.pkX", b"data.pkl"))


def outside(file: Path) -> None:
    file.write_bytes(
        _archive([("archive/data.pkl", _PICKLE + _EMPTY_DICT + _END), ("archive/../../../etc/passwd", b"")])
    )


def safetensors_header(document: dict[str, Any] | bytes, declared: int | None = None, tail: bytes = b"") -> Maker:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    size = struct.pack("<Q", len(text) if declared is None else declared)

    def make(file: Path) -> None:
        file.write_bytes(size + text + tail)

    return make


def holding(tensor: Callable[[], torch.Tensor]) -> Maker:
    """A state dict with one tensor. PyTorch warns of some kinds that they will not stay."""

    def make(file: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.save({NAME: tensor()}, file)

    return make


def _nothing(file: Path) -> None:
    file.touch()


def _bare_pickle(file: Path) -> None:
    file.write_bytes(_PICKLE + b"K\x01" + _END)


BAD_TENSORS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "expanded": (lambda: torch.zeros(1).expand(10**12), "is larger than what the file holds of it"),
    "sparse": (lambda: torch.eye(4).to_sparse(), "is sparse"),
    "sparse rows": (lambda: torch.eye(4).to_sparse_csr(), "is sparse"),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(64, 4), 0.1, 0, torch.qint8), "is quantised"),
    "float8": (lambda: torch.zeros(4).to(torch.float8_e4m3fn), "holds float8_e4m3fn"),
    "complex": (lambda: torch.zeros(4, dtype=torch.complex64), "holds complex64"),
    "meta": (lambda: torch.zeros(4, device="meta"), "has no values"),
}

HOSTILE_PICKLES: dict[str, tuple[Maker, str]] = {
    "zip bomb": (bomb, "is compressed"),
    "overlapping entries": (overlapping, "more than the file has room for"),
    "one name twice": (twice, "twice"),
    "names outside": (outside, "outside"),
    "cyclic": (pickled(_cyclic), "nested"),
    "laughs": (pickled(_laughs), "more than"),
    "deep": (written(_deep), "nested"),
    "wide": (written(_wide), "larger than"),
    "asks for everything": (written(_bytearray), "memory"),
    "empty": (_nothing, "is empty"),
    "no archive": (_bare_pickle, "is not a file that torch.save writes"),
    **{name: (holding(tensor), words) for name, (tensor, words) in BAD_TENSORS.items()},
}
HOSTILE_SAFETENSORS: dict[str, tuple[Maker, str]] = {
    "declares a huge header": (safetensors_header({}, declared=2**62), "header"),
    "a long header": (safetensors_header(b"{" + b" " * 5_000_000 + b"}"), "header"),
    "declares a huge tensor": (
        safetensors_header({NAME: {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}),
        "is not a safetensors file",
    ),
    "a nested header": (safetensors_header(b'{"a":' * 100_000), "is not a safetensors file"),
    "float8": (
        safetensors_header({NAME: {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}, tail=bytes(4)),
        "holds float8_e4m3fn",
    ),
    "empty": (_nothing, "is empty"),
}
