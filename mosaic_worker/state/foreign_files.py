"""Tensors out of files that others wrote, without running anything that is in them and without trusting their sizes.

A file is read once, as a whole, up to a bound. What PyTorch gets to see is a copy of its archive that holds only
entries which were checked: stored and not compressed, each name once, together no more than the file has room for. So
the memory that an import takes is a small multiple of the file's size, whatever the file says about itself;
:func:`limit_memory` is the second line for what nobody thought of.
"""

from __future__ import annotations

import io
import re
import resource
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors
import safetensors.torch
import torch

from mosaic_protocol.checkpoint_manifest import MOST_IMPORT_BYTES
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.regular_files import read_regular
from mosaic_worker.errors import UsageError

_MOST_PICKLE = 4 * 2**20
"""Names and shapes, not values: enough for tens of thousands of tensors."""
_MOST_HEADER = 4 * 2**20
_MOST_PARTS = 100_000
_MOST_ENTRIES = 10_000
_DEEPEST = 32
_LONGEST_NAME = 200
_MEMORY = 2 * 2**30
"""Beside what the process has when it begins and four times the file: environments, networks, threads."""

_WRAPPERS = ("model_weights", "state_dict", "model_state_dict", "model", "module", "_orig_mod")
"""What people put a state dict into; the name says nothing about the network."""

_FORBIDDEN = re.compile(r"(?:GLOBAL|Unsupported class|Unsupported global:.*?GLOBAL) ([\w.]+)")
_USABLE = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)


@dataclass
class ForeignFile:
    """Tensors under dotted names, and the plain settings that were saved with them."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def limit_memory(file: Path) -> None:
    """Let this process allocate what the import of a file may take and then fail, before the machine does.

    The limit is on data (RLIMIT_DATA), not on address space, of which threads and accelerators reserve far more than
    they use.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    size = file.stat().st_size if file.is_file() else 0
    wanted = _data_bytes() + _MEMORY + 4 * min(size, MOST_IMPORT_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def read_content(path: Path) -> bytes:
    """The bytes of a file that a person named. Raises UsageError in one sentence."""
    try:
        content = read_regular(path, MOST_IMPORT_BYTES, follow=True)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise UsageError(f"{path} is empty")
    return content


def read_foreign(path: Path, content: bytes) -> ForeignFile:
    """The state dict in a file's bytes, or several in a dict, list or tuple. Raises UsageError in one sentence.

    ``actor.fc1.weight`` is what ``{"actor": {"fc1.weight": …}}`` becomes, ``0.fc1.weight`` the first of a tuple.
    """
    try:
        loaded = _from_safetensors(content) if path.suffix == ".safetensors" else _from_archive(content)
        found = _Collector().collected(loaded)
        _check_values(found.tensors)
    except UsageError as error:
        raise UsageError(f"{path} {error}") from error.__cause__
    except MemoryError as error:
        raise UsageError(f"{path} is refused: it asks for more memory than an import may take") from error
    return found


def _from_safetensors(content: bytes) -> Any:
    if len(content) < 8:
        raise UsageError("is not a safetensors file: it is too short")
    (header,) = struct.unpack_from("<Q", content)
    if header > min(_MOST_HEADER, len(content) - 8):
        raise UsageError(f"is refused: its header claims {header:,} bytes, which is more than a policy needs or it has")
    try:
        return safetensors.torch.load(content)
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        said = _brief(error).removeprefix("Error while deserializing: ")
        raise UsageError(f"is not a safetensors file: {said}") from error


# ---- files of torch.save -----------------------------------------------------------------------------------------


def _from_archive(content: bytes) -> Any:
    try:
        checked = _checked_archive(content)
    except UsageError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, struct.error, OverflowError) as error:
        raise UsageError(
            "is not a file that torch.save writes, or it is damaged; one from before PyTorch 1.6 has to be loaded and "
            "saved again with a newer one"
        ) from error
    try:
        # Refuses whatever is not tensors and plain values, so nothing of the file is run.
        return torch.load(checked, map_location="cpu", weights_only=True)  # noqa: TID251 - foreign file, weights only
    except MemoryError:
        raise
    except Exception as error:
        raise UsageError(_refusal(error)) from error


def _checked_archive(content: bytes) -> io.BytesIO:
    """A copy of an archive with every entry checked. Raises UsageError, or what zipfile raises."""
    copy, left = io.BytesIO(), len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as target:
        names: set[str] = set()
        if len(archive.infolist()) > _MOST_ENTRIES:
            raise UsageError(f"is refused: it holds more than {_MOST_ENTRIES:,} files")
        for entry in archive.infolist():
            left -= entry.file_size
            _check_entry(entry, names, left)
            names.add(entry.filename)
            target.writestr(entry.filename, archive.read(entry))
    copy.seek(0)
    return copy


def _check_entry(entry: zipfile.ZipInfo, names: set[str], left: int) -> None:
    if entry.compress_type != zipfile.ZIP_STORED:
        raise UsageError("is refused: it is compressed, which torch.save never does; unpacked it may be of any size")
    if left < 0:
        raise UsageError("is refused: its entries claim more than the file has room for")
    if entry.filename in names:
        raise UsageError(f"is refused: it holds {_shown(entry.filename)} twice")
    if ".." in PurePosixPath(entry.filename).parts or entry.filename.startswith("/") or "\\" in entry.filename:
        raise UsageError(f"is refused: it names a file outside itself, {_shown(entry.filename)}")
    if entry.filename.endswith("/data.pkl") and entry.file_size > _MOST_PICKLE:
        raise UsageError(f"is refused: its list of tensors is larger than {_MOST_PICKLE // 2**20} MiB")


def _refusal(error: Exception) -> str:
    said = str(error)
    if needed := _FORBIDDEN.search(said):
        return (
            f"is refused: reading it would run code that it names ({needed[1][:_LONGEST_NAME]}); "
            "save the parameters alone with torch.save(model.state_dict(), FILE)"
        )
    if isinstance(error, RuntimeError) and "allocate memory" in said:
        return "is refused: it asks for more memory than an import may take"
    return f"cannot be read as parameters alone: {_brief(error)}"


# ---- what is in them ---------------------------------------------------------------------------------------------


class _Collector:
    """Walks through what a file holds, which may lead in circles or to the same place a million times."""

    def __init__(self) -> None:
        self.found = ForeignFile()
        self._parts = 0

    def collected(self, content: Any) -> ForeignFile:
        self._take(content, "", 0)
        if not self.found.tensors:
            raise UsageError("holds no tensors: a state dict is wanted, as torch.save(model.state_dict(), …) writes")
        return self.found

    def _take(self, content: Any, prefix: str, depth: int) -> None:
        self._parts += 1
        if depth > _DEEPEST:
            raise UsageError(f"is refused: it is nested more than {_DEEPEST} deep, or in a circle")
        if self._parts > _MOST_PARTS:
            raise UsageError(f"is refused: it holds more than {_MOST_PARTS:,} values")
        name = prefix.removesuffix(".")
        match content:
            case torch.Tensor():
                self.found.tensors[name] = content
            case dict():
                for key, value in content.items():
                    named = _key(key)
                    inner = prefix if named in _WRAPPERS and isinstance(value, dict) else f"{prefix}{named}."
                    self._take(value, inner, depth + 1)
            case list() | tuple():
                for number, value in enumerate(content):
                    self._take(value, f"{prefix}{number}.", depth + 1)
            case None | bool() | int() | float() | str():
                self.found.settings[name.removeprefix("args.")] = content


def _key(key: Any) -> str:
    """A key as part of a name. One that no name can be made of makes a name that fits no network."""
    if isinstance(key, str):
        return key[:_LONGEST_NAME]
    return str(key) if isinstance(key, int) and abs(key) < 2**63 else type(key).__name__


def _check_values(tensors: dict[str, torch.Tensor]) -> None:
    total = 0
    for name, tensor in tensors.items():
        if problem := _unusable(tensor):
            raise UsageError(f"is refused: {_shown(name)} {problem}")
        total += tensor.nbytes
        if total > 2 * MOST_IMPORT_BYTES:
            raise UsageError("is refused: its tensors share their values so often that they take more than 2 GiB")
        if not bool(tensor.isfinite().all()):
            raise UsageError(f"holds values that are no numbers (NaN or infinity), the first in {_shown(name)}")


def _unusable(tensor: torch.Tensor) -> str:
    """Why a policy cannot be made of a tensor, "" when it can. The order matters: not every kind answers everything."""
    if tensor.is_quantized:
        return "is quantised: save it after tensor.dequantize()"
    if tensor.layout is not torch.strided:
        return "is sparse: save it after tensor.to_dense()"
    if tensor.is_nested or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"is a {type(tensor).__name__}, not a plain tensor"
    if tensor.device.type != "cpu":
        return "has no values: it was saved from the device meta"
    if tensor.dtype not in _USABLE:
        return f"holds {str(tensor.dtype).removeprefix('torch.')}: save it after tensor.float()"
    if tensor.nbytes > tensor.untyped_storage().nbytes():
        return "is larger than what the file holds of it: save it after tensor.contiguous()"
    return ""


def _shown(name: str) -> str:
    """A name out of a file, fit for a sentence."""
    text = one_line(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _brief(error: Exception) -> str:
    return one_line(str(error))[:_LONGEST_NAME] or type(error).__name__


def _data_bytes() -> int:
    """What RLIMIT_DATA counts of this process now."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
