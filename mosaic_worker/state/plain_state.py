"""Python state as JSON plus named tensors, and back: the form in which checkpoints keep what is not a parameter.

Plain values are None, bool, int, float, str, numpy scalars and arrays, numpy generators, torch tensors, and lists,
tuples, dicts and deques of them. Nothing else is kept: a checkpoint never holds code, so it cannot run any when it is
read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from mosaic_worker.state.tensor_kinds import Tensors, as_array, as_torch, copied, is_torch

_WIDEST = 8
"""Bytes of the widest number that a file has a type for."""


class NotPlainError(TypeError):
    """A value that cannot be kept."""


def encode(value: Any, name: str, tensors: Tensors | None) -> Any:
    """JSON for a value; its arrays go into ``tensors`` under names that begin with ``name``.

    Without ``tensors`` nothing is copied: a trial of whether the value can be kept. Raises :class:`NotPlainError`.
    """
    match value:
        case np.generic():
            return {"$scalar": [value.dtype.str, encode(value.item(), name, tensors)]}
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray():
            return _encode_array(value, name, tensors)
        case _ if is_torch(value):
            if tensors is not None:
                tensors[name] = copied(value)
            return {"$tensor": name}
        case np.random.Generator():
            state = encode(value.bit_generator.state, name, tensors)
            return {"$generator": [type(value.bit_generator).__name__, state]}
        case list() | tuple() | deque():
            return _encode_sequence(value, name, tensors)
        case dict():
            return _encode_mapping(value, name, tensors)
    raise NotPlainError(f"{name} is a {type(value).__name__}, which a checkpoint does not keep")


def _encode_array(value: np.ndarray, name: str, tensors: Tensors | None) -> Any:
    if value.dtype.kind == "S":
        return {"$bytes_array": [value.dtype.str, value.astype(str).tolist()]}
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > _WIDEST:
        raise NotPlainError(f"{name} is an array of {value.dtype}, which a checkpoint does not keep")
    if tensors is not None:
        tensors[name] = copied(value)
    return {"$array": name}


def _encode_sequence(value: Any, name: str, tensors: Tensors | None) -> Any:
    items = [encode(item, f"{name}.{number}", tensors) for number, item in enumerate(value)]
    if isinstance(value, deque):
        return {"$deque": [items, value.maxlen]}
    return {"$tuple": items} if isinstance(value, tuple) else items


def _encode_mapping(value: Mapping[Any, Any], name: str, tensors: Tensors | None) -> Any:
    if not all(isinstance(key, str) and not key.startswith("$") for key in value):
        pairs = [[key, item] for key, item in value.items()]
        return {"$pairs": encode(pairs, name, tensors)}
    return {key: encode(item, f"{name}.{key}", tensors) for key, item in value.items()}


def decode(content: Any, tensors: Mapping[str, Any]) -> Any:
    """The value that :func:`encode` was given. Raises NeedsTorchError for a tensor of PyTorch's where that is not
    installed."""
    match content:
        case {"$float": text}:
            return float(text)
        case {"$scalar": [kind, item]}:
            return np.dtype(kind).type(decode(item, tensors))
        case {"$array": name}:
            return as_array(tensors[name]).copy()
        case {"$bytes_array": [kind, items]}:
            return np.array(items).astype(kind)
        case {"$tensor": name}:
            return as_torch(tensors[name]).clone()
        case {"$generator": [kind, state]}:
            return _generator(kind, decode(state, tensors))
        case {"$deque": [items, maxlen]}:
            return deque((decode(item, tensors) for item in items), maxlen=maxlen)
        case {"$tuple": items}:
            return tuple(decode(item, tensors) for item in items)
        case {"$pairs": pairs}:
            return dict(decode(pairs, tensors))
        case dict():
            return {key: decode(item, tensors) for key, item in content.items()}
        case list():
            return [decode(item, tensors) for item in content]
    return content


def _generator(kind: str, state: Any) -> np.random.Generator:
    kinds = {
        "PCG64": np.random.PCG64,
        "MT19937": np.random.MT19937,
        "Philox": np.random.Philox,
        "SFC64": np.random.SFC64,
    }
    bits = kinds[kind]()
    bits.state = state
    return np.random.Generator(bits)


def assign(target: Any, attribute: str, value: Any) -> None:
    """Put a value back where it was: into an existing array of the same kind, which others may view, or a new one."""
    current = getattr(target, attribute, None)
    if (
        isinstance(current, np.ndarray)
        and isinstance(value, np.ndarray)
        and (current.shape, current.dtype) == (value.shape, value.dtype)
    ):
        current[...] = value
    elif isinstance(current, np.random.Generator) and isinstance(value, np.random.Generator):
        current.bit_generator.state = value.bit_generator.state
    else:
        setattr(target, attribute, value)
