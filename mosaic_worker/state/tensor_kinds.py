"""The tensors of a run, of either kind: arrays of numpy and tensors of PyTorch.

Most of the kit need not know which it holds; what differs is here. PyTorch takes more than a second to import and is
not in the environment of every worker, so it is imported only for what cannot be had without it: a process that holds
a tensor of PyTorch's has imported it before.

A file is the same whichever library wrote it, and either reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import safe_open

Tensors = dict[str, Any]
"""Arrays of numpy and tensors of PyTorch under flat names; one mapping may hold both."""

_NUMPY_HAS = frozenset({"F64", "F32", "F16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64"})


class NeedsTorchError(ValueError):
    """Something that only PyTorch can hold, in an environment without it; the message is a clause."""


def torch_if_imported() -> Any | None:
    """The module, where something in this process needs it already."""
    return sys.modules.get("torch")


def is_torch(value: Any) -> bool:
    torch = torch_if_imported()
    return torch is not None and isinstance(value, torch.Tensor)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of either kind."""
    return isinstance(value, np.ndarray) or is_torch(value)


def copied(value: Any) -> Any:
    """A copy of the same kind that nobody else changes."""
    return value.detach().clone() if is_torch(value) else np.array(value)


def as_array(value: Any) -> np.ndarray:
    """As an array, which shares the memory where that is possible. Raises TypeError for a type that numpy lacks."""
    return value.detach().cpu().numpy() if is_torch(value) else value


def as_torch(value: Any) -> Any:
    """As a tensor of PyTorch's, which shares the memory where that is possible. Raises NeedsTorchError."""
    if is_torch(value):
        return value
    try:
        import torch
    except ImportError as error:
        raise NeedsTorchError("it holds a tensor of PyTorch, which is not installed here") from error
    return torch.from_numpy(_plain(value))


def fill(target: Any, value: Any) -> None:
    """Into the memory that is there: optimisers and views share it."""
    if not is_torch(target):
        target[...] = as_array(value)
        return
    import torch

    with torch.no_grad():
        target.copy_(as_torch(value))


def misfit(name: str, kept: Any | None, here: Any) -> str:
    """Why what a checkpoint keeps cannot be put into a tensor that is here; "" when it can."""
    if kept is None:
        return f"{name} is missing"
    if kept.shape != here.shape:
        return f"{name} is {list(kept.shape)} there and {list(here.shape)} here"
    if isinstance(here, np.ndarray) and not _goes_into(kept, here.dtype):
        there = str(kept.dtype).removeprefix("torch.")
        return f"{name} is {there} there and {here.dtype} here"
    return ""


def _goes_into(kept: Any, dtype: np.dtype) -> bool:
    """Whether numbers keep their meaning: fractions do not become whole."""
    try:
        return bool(np.can_cast(as_array(kept).dtype, dtype, "same_kind"))
    except TypeError:  # numpy has no such numbers
        return False


def of_this_process(tensors: Tensors) -> Tensors:
    """The same mapping with tensors of the kind that this process works with: PyTorch's once it was imported."""
    if torch_if_imported() is not None:
        tensors.update({name: as_torch(value) for name, value in tensors.items() if not is_torch(value)})
    return tensors


# ---- files -------------------------------------------------------------------------------------------------------


def write_file(tensors: Mapping[str, Any], file: Path) -> None:
    """Raises OSError, TypeError, ValueError or SafetensorError."""
    for name, value in tensors.items():
        if not is_tensor(value):
            raise TypeError(f"{name} is a {type(value).__name__}, neither an array of numpy nor a tensor of PyTorch")
    if any(is_torch(value) for value in tensors.values()):
        from safetensors.torch import save_file

        save_file(_owned(tensors), file)
    else:
        safetensors.numpy.save_file({name: _plain(value) for name, value in tensors.items()}, file)


def read_file(file: Path) -> Tensors:
    """Tensors of the kind that this process works with. Raises OSError or SafetensorError, and NeedsTorchError for
    numbers of a type that numpy does not have."""
    if torch_if_imported() is None:
        with safe_open(file, framework="np") as opened:
            found = {opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118 - no mapping
            if not (strange := found - _NUMPY_HAS):
                return dict(opened.get_tensors())
        try:
            import torch  # noqa: F401
        except ImportError as error:
            what = f"numbers of a type that numpy does not have ({', '.join(sorted(strange))})"
            raise NeedsTorchError(f"holds {what}: reading it takes PyTorch, which is not installed here") from error
    from safetensors.torch import load_file

    return dict(load_file(file))


def _plain(array: np.ndarray) -> np.ndarray:
    """Row by row and in the machine's own order of bytes: writers take the memory as it lies."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")


def _owned(tensors: Mapping[str, Any]) -> Tensors:
    """Contiguous CPU tensors of PyTorch's that share no memory, which is what its writer asks for."""
    seen: set[int] = set()
    owned = {}
    for name, tensor in tensors.items():
        plain = as_torch(tensor).detach().cpu().contiguous()
        storage = plain.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != plain.nbytes:
            plain = plain.clone()
        seen.add(plain.untyped_storage().data_ptr())
        owned[name] = plain
    return owned
