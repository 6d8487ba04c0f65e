"""The inner state of environments, so that a resumed run goes on in the very episode it was stopped in.

Works by looking: every layer of an environment (vector environment, wrappers, the environment itself) keeps its state
in attributes, and those that are plain are kept. So is the state of the simulators that :mod:`simulator_state` knows.
An environment whose state lies elsewhere is recognised, and a run resumed with it starts new episodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import gymnasium as gym

from mosaic_worker.state import simulator_state
from mosaic_worker.state.plain_state import NotPlainError, assign, decode, encode
from mosaic_worker.state.tensor_kinds import Tensors

# What layers hold besides state: how they were made, and how they draw.
_NOT_STATE = (gym.Space, gym.Env, gym.vector.VectorEnv, gym.envs.registration.EnvSpec, Enum)
_IGNORED_NAMES = frozenset({"env", "envs", "env_fns", "spec", "metadata", "_metadata", "_saved_kwargs", "_cached_spec"})
_PICTURE_NAMES = ("screen", "clock", "surf", "window", "img", "render")


class EnvStateError(ValueError):
    """A state that does not belong to these environments."""


def layers(envs: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) of the vector environment, of each environment in it, and of their wrappers."""
    yield "vector", envs
    for number, outermost in enumerate(getattr(envs, "envs", ())):
        layer, depth = outermost, 0
        while layer is not None:
            if not getattr(type(layer), "stateless_layer", False):  # such as the wrapper that records videos
                yield f"{number}.{depth}", layer
                depth += 1
            layer = vars(layer).get("env")


def capture(envs: Any, tensors: Tensors) -> dict[str, Any]:
    """The state of environments as JSON and tensors; ``complete`` is False when part of it could not be kept."""
    found: dict[str, Any] = {}
    missing: list[str] = []
    for name, layer in layers(envs):
        found[name] = {"type": type(layer).__name__, "state": _layer_state(name, layer, tensors, missing)}
        if simulator_state.holds_simulator(layer):
            found[name]["simulator"] = encode(simulator_state.capture(layer), f"envs.{name}.simulator", tensors)
    return {"layers": found, "complete": not missing, "missing": missing[:10]}


def restore(envs: Any, content: dict[str, Any], tensors: Tensors) -> None:
    """Put a captured state into environments made the same way. Raises :class:`EnvStateError` if they were not."""
    present = dict(layers(envs))
    kept = content["layers"]
    if {name: type(layer).__name__ for name, layer in present.items()} != {n: k["type"] for n, k in kept.items()}:
        raise EnvStateError("the checkpoint was written with other environments or wrappers, or another number of them")
    for name, layer in present.items():
        for attribute, value in kept[name]["state"].items():
            assign(layer, attribute, decode(value, tensors))
        if "simulator" in kept[name]:
            simulator_state.restore(layer, decode(kept[name]["simulator"], tensors))


def _layer_state(name: str, layer: Any, tensors: Tensors, missing: list[str]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    in_simulator = simulator_state.names(layer)
    for attribute, value in vars(layer).items():
        if attribute not in in_simulator and _is_state(attribute, value):
            try:
                state[attribute] = encode(value, f"envs.{name}.{attribute}", tensors)
            except NotPlainError:
                missing.append(f"{type(layer).__name__}.{attribute}")
    return state


def _is_state(attribute: str, value: Any) -> bool:
    if attribute in _IGNORED_NAMES or isinstance(value, _NOT_STATE) or callable(value):
        return False
    return not any(word in attribute for word in _PICTURE_NAMES)
