"""Tensors out of files that others wrote, without running anything that is in them."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from cleanrl_worker.session import UsageError

_WRAPPERS = ("model_weights", "state_dict", "model_state_dict", "model", "module", "_orig_mod")
"""What people put a state dict into; the name says nothing about the network."""

_FORBIDDEN = re.compile(r"(?:GLOBAL|Unsupported class|Unsupported global:.*?GLOBAL) ([\w.]+)")


@dataclass
class ForeignFile:
    """Tensors under dotted names, and the plain settings that were saved with them."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def read_foreign(path: Path) -> ForeignFile:
    """Read a state dict, or several in a dict, list or tuple. Raises UsageError in one sentence.

    ``actor.fc1.weight`` is what ``{"actor": {"fc1.weight": …}}`` becomes, ``0.fc1.weight`` the first of a tuple.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    found = ForeignFile()
    _collect(_content(path), "", found)
    if not found.tensors:
        raise UsageError(
            f"{path} holds no tensors: a state dict is wanted, as torch.save(model.state_dict(), …) writes"
        )
    broken = [name for name, tensor in found.tensors.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise UsageError(f"{path} holds values that are no numbers (NaN or infinity), the first in {broken[0]}")
    return found


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except (OSError, safetensors.SafetensorError) as error:
            raise UsageError(f"{path} is no safetensors file: {_one_line(error)}") from error
    try:
        # Refuses whatever is not tensors and plain values, so nothing of the file is run.
        return torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 - foreign file, weights only
    except Exception as error:
        raise UsageError(_refusal(path, error)) from error


def _refusal(path: Path, error: Exception) -> str:
    said = str(error)
    if needed := _FORBIDDEN.search(said):
        return (
            f"{path} is refused: reading it would run code that it names ({needed[1]}); "
            "save the parameters alone with torch.save(model.state_dict(), FILE)"
        )
    if isinstance(error, OSError):
        return f"{path} cannot be read: {error.strerror or said}"
    if not zipfile.is_zipfile(path):
        return f"{path} is no file of PyTorch's, or it is damaged"
    return f"{path} cannot be read as parameters alone: {_one_line(error)}"


def _collect(content: Any, prefix: str, found: ForeignFile) -> None:
    match content:
        case torch.Tensor():
            found.tensors[prefix.removesuffix(".")] = content
        case dict():
            for name, value in content.items():
                inner = prefix if str(name) in _WRAPPERS and isinstance(value, dict) else f"{prefix}{name}."
                _collect(value, inner, found)
        case list() | tuple():
            for number, value in enumerate(content):
                _collect(value, f"{prefix}{number}.", found)
        case None | bool() | int() | float() | str():
            found.settings[prefix.removesuffix(".").removeprefix("args.")] = content


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
