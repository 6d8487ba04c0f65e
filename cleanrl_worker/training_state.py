"""Everything a run needs to go on as if it had never stopped, gathered under names.

A script registers its parts once; capturing and restoring are then the same list read in two directions::

    state = TrainingState()
    state.module("agent", agent)
    state.optimizer("optimizer", optimizer)
    state.attributes("collector", collector, "global_step", "returns", "random")
    state.envs("envs", envs)
    ...
    session.save_checkpoint(step, *state.capture())
    ...
    state.restore(checkpoint)
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cleanrl_worker import env_state
from cleanrl_worker.plain_state import Tensors, assign, decode, encode


class StateMismatchError(ValueError):
    """A checkpoint that does not fit the run; the message lists what differs."""


@dataclass(frozen=True)
class _Part:
    capture: Callable[[Tensors], Any]
    restore: Callable[[Any, Tensors], None]


class TrainingState:
    """The parts of one run. Belongs to the training thread."""

    def __init__(self) -> None:
        self._modules: dict[str, torch.nn.Module] = {}
        self._afterwards: list[Callable[[], None]] = []
        self._parts: dict[str, _Part] = {"random": _Part(_capture_random, _restore_random)}

    def module(self, name: str, module: torch.nn.Module) -> None:
        """Parameters and buffers; these alone are what a warm start takes over."""
        self._modules[name] = module

    def optimizer(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        def restore(content: Any, tensors: Tensors) -> None:
            optimizer.load_state_dict(decode(content, tensors))

        self._parts[name] = _Part(lambda tensors: encode(optimizer.state_dict(), name, tensors), restore)

    def attributes(self, name: str, owner: Any, *attributes: str) -> None:
        """Named attributes of an object: counters, arrays, tensors, generators."""

        def capture(tensors: Tensors) -> Any:
            return {one: encode(getattr(owner, one), f"{name}.{one}", tensors) for one in attributes}

        def restore(content: Any, tensors: Tensors) -> None:
            for one in attributes:
                _put_back(owner, one, decode(content[one], tensors))

        self._parts[name] = _Part(capture, restore)

    def envs(self, name: str, envs: Any, restart: Callable[[], None] | None = None) -> None:
        """The environments, down to the running episodes where they can be kept.

        Where they cannot, `restart` is called after everything else was put back: it has to begin new episodes.
        """

        def restore(content: Any, tensors: Tensors) -> None:
            env_state.restore(envs, content, tensors)
            if not content["complete"] and restart is not None:
                print(
                    f"Episodes begin anew: a checkpoint cannot hold {', '.join(dict.fromkeys(content['missing']))}.",
                    flush=True,
                )
                self._afterwards.append(restart)

        self._parts[name] = _Part(lambda tensors: env_state.capture(envs, tensors), restore)

    def capture(self) -> tuple[Tensors, dict[str, Any]]:
        """(tensors, JSON) of everything, as copies: training may go on while they are written."""
        tensors = self.module_tensors()
        return tensors, {name: part.capture(tensors) for name, part in self._parts.items()}

    def module_tensors(self) -> Tensors:
        """Copies of parameters and buffers alone, under the names that a warm start looks for."""
        return {
            f"{name}.{key}": value.detach().clone()
            for name, module in self._modules.items()
            for key, value in module.state_dict().items()
        }

    def restore(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Put everything back. Raises :class:`StateMismatchError` before anything was changed."""
        self.check_fit(tensors)
        if missing := sorted(set(self._parts) - set(state)):
            raise StateMismatchError(
                f"the checkpoint has no {', '.join(missing)}: it can warm-start a run, not resume one"
            )
        self._load_modules(tensors)
        for name, part in self._parts.items():
            part.restore(state[name], tensors)
        while self._afterwards:
            self._afterwards.pop()()

    def warm_start(self, tensors: Tensors) -> None:
        """Take over parameters only. Raises :class:`StateMismatchError` before anything was changed."""
        self.check_fit(tensors)
        self._load_modules(tensors)

    def check_fit(self, tensors: Tensors) -> None:
        """Raise :class:`StateMismatchError` with the differences when parameters do not fit."""
        differences = [line for name, module in self._modules.items() for line in misfits(name, module, tensors)]
        if differences:
            raise StateMismatchError("the checkpoint does not fit: " + "; ".join(differences[:6]))

    def _load_modules(self, tensors: Tensors) -> None:
        for name, module in self._modules.items():
            fill_module(name, module, tensors)


@torch.no_grad()
def fill_module(name: str, module: torch.nn.Module, tensors: Tensors) -> None:
    """Into the memory that is there: optimisers and numpy views share it."""
    for key, value in module.state_dict().items():
        value.copy_(tensors[f"{name}.{key}"])


def misfits(name: str, module: torch.nn.Module, tensors: Tensors) -> list[str]:
    """Why the tensors kept under a name cannot be put into a module, one line for each that cannot."""
    found = []
    for key, value in module.state_dict().items():
        kept = tensors.get(f"{name}.{key}")
        if kept is None:
            found.append(f"{name}.{key} is missing")
        elif kept.shape != value.shape:
            found.append(f"{name}.{key} is {list(kept.shape)} there and {list(value.shape)} here")
    return found


def _put_back(owner: Any, attribute: str, value: Any) -> None:
    current = getattr(owner, attribute, None)
    if isinstance(current, torch.Tensor) and isinstance(value, torch.Tensor) and current.shape == value.shape:
        with torch.no_grad():
            current.copy_(value)
    else:
        assign(owner, attribute, value)


def _capture_random(tensors: Tensors) -> Any:
    tensors["random.torch"] = torch.get_rng_state()
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": encode(np.random.get_state(legacy=False), "random.numpy", tensors),
    }


def _restore_random(content: Any, tensors: Tensors) -> None:
    torch.set_rng_state(tensors["random.torch"])
    version, internal, gauss = content["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(decode(content["numpy"], tensors))
