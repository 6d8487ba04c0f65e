"""The state of environments of any library, found by looking: gym, gymnasium, their vector environments and wrappers.

Every layer keeps its state in attributes, and plain ones are kept. A layer with state elsewhere (a simulator in C,
another process) is reported, and the episodes of a resumed run start from the beginning; running statistics of
normalising wrappers are put back in either case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from mosaic_worker.state.plain_state import NotPlainError, assign, decode, encode
from mosaic_worker.state.tensor_kinds import Tensors

_KINDS = ("single_{}_space", "{}_space", "_{}_space")
_SPACES = tuple(kind.format(what) for kind in _KINDS for what in ("action", "observation"))
_IGNORED = frozenset(
    {"env_fns", "spec", "metadata", "_metadata", "_saved_kwargs", "_cached_spec", "actions", "_actions"}
)
_PICTURES = ("screen", "clock", "surface", "window", "img", "render", "viewer")
_STATISTICS = {"mean", "var", "count"}


def is_world(value: Any) -> bool:
    """Whether an object is an environment, of whatever library."""
    if isinstance(value, type) or not hasattr(value, "action_space"):
        return False
    return all(callable(getattr(value, name, None)) for name in ("step", "reset"))


def spaces(world: Any) -> tuple[Any, Any] | None:
    """(observation space, action space) of one environment, also of several that are stepped together."""
    for kind in _KINDS:
        for _, layer in _layers(world, "0"):
            # Not getattr: wrappers look further down, some of them with a warning.
            pair = [_own(layer).get(kind.format(what)) for what in ("observation", "action")]
            if all(hasattr(space, "sample") for space in pair):
                return pair[0], pair[1]
    return None


def capture(world: Any, name: str, tensors: Tensors) -> dict[str, Any]:
    """JSON and tensors; ``missing`` names what could not be kept."""
    missing: list[str] = []
    found: dict[str, Any] = {}
    for label, layer in _layers(world, "0"):
        prefix = f"{name}.{label}"
        found[label] = {
            "type": type(layer).__name__,
            "state": _plain_part(layer, prefix, tensors, missing),
            "statistics": {
                one: {key: encode(item, f"{prefix}.{one}.{key}", tensors) for key, item in vars(value).items()}
                for one, value in _statistics(layer)
            },
            "spaces": _space_generators(layer, prefix, tensors),
        }
    return {"layers": found, "missing": sorted(set(missing))[:10]}


def restore(world: Any, content: dict[str, Any], tensors: Tensors) -> None:
    """Put a captured state back. Raises ValueError for environments that are made differently."""
    present, kept = dict(_layers(world, "0")), content["layers"]
    if {label: type(layer).__name__ for label, layer in present.items()} != {n: k["type"] for n, k in kept.items()}:
        raise ValueError("it was written with other environments or wrappers, or another number of them")
    for label, layer in present.items():
        for one, value in _statistics(layer):
            for key, item in kept[label]["statistics"].get(one, {}).items():
                assign(value, key, decode(item, tensors))
        if content["missing"]:
            continue
        for attribute, value in kept[label]["state"].items():
            assign(layer, attribute, decode(value, tensors))
        for one, state in kept[label]["spaces"].items():
            space = getattr(layer, one)
            _ = space.np_random  # made when it is first asked for
            assign(space, "_np_random", decode(state, tensors))


def _layers(layer: Any, label: str) -> Iterator[tuple[str, Any]]:
    """(label, object) of an environment and of every one within it, by whatever name it is held."""
    yield label, layer
    own = _own(layer)
    if isinstance(several := own.get("envs"), list | tuple):
        for number, one in enumerate(several):
            yield from _layers(one, f"{label}.{number}")
    for attribute, inner in own.items():
        if is_world(inner) and inner is not layer and attribute not in ("spec", "unwrapped"):
            yield from _layers(inner, f"{label}.{attribute}")


def _own(layer: Any) -> dict[str, Any]:
    return vars(layer) if hasattr(layer, "__dict__") else {}


def _plain_part(layer: Any, prefix: str, tensors: Tensors, missing: list[str]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    if not hasattr(layer, "__dict__") or _is_native(layer):
        missing.append(type(layer).__name__)
        return state
    for attribute, value in vars(layer).items():
        if not _is_state(attribute, value):
            continue
        try:
            state[attribute] = encode(value, f"{prefix}.{attribute}", tensors)
        except NotPlainError:
            missing.append(f"{type(layer).__name__}.{attribute}")
    return state


def _is_native(layer: Any) -> bool:
    """Whether part of an environment is compiled code, whose state no attribute shows."""
    modules = (sys.modules.get(kind.__module__) for kind in type(layer).__mro__)
    return any(str(getattr(module, "__file__", None) or "").endswith((".so", ".pyd")) for module in modules)


def _is_state(attribute: str, value: Any) -> bool:
    if attribute in _IGNORED or any(word in attribute for word in _PICTURES):
        return False
    if isinstance(value, list | tuple) and value and all(map(is_world, value)):
        return False  # layers of their own
    return not (_is_constant(value) or _is_statistics(value))


def _is_constant(value: Any) -> bool:
    """What says how a layer was made: spaces, specifications, types, functions, other environments."""
    if isinstance(value, type) or callable(value) or is_world(value):
        return True
    names = {kind.__name__ for kind in type(value).__mro__}
    return bool(names & {"Space", "EnvSpec", "Enum", "device", "dtype", "module"})


def _is_statistics(value: Any) -> bool:
    return hasattr(value, "__dict__") and set(vars(value)) >= _STATISTICS


def _statistics(layer: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in _own(layer).items() if _is_statistics(value))


def _space_generators(layer: Any, prefix: str, tensors: Tensors) -> dict[str, Any]:
    """Spaces draw random actions from generators of their own."""
    found = {}
    for one in _SPACES:
        generator = getattr(_own(layer).get(one), "_np_random", None)
        if isinstance(generator, np.random.Generator):
            found[one] = encode(generator, f"{prefix}.{one}", tensors)
    return found
