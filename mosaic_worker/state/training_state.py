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

What was learned is a network of PyTorch's (``module``) or a table, an array of numpy (``table``); PyTorch itself is
imported by those who have networks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic_worker.state import env_state
from mosaic_worker.state.plain_state import NotPlainError, assign, decode, encode
from mosaic_worker.state.tensor_kinds import (
    Tensors,
    as_torch,
    copied,
    fill,
    is_tensor,
    is_torch,
    misfit,
    torch_if_imported,
)

if TYPE_CHECKING:
    import torch

_TORCH_RANDOM = "random.torch"


class StateMismatchError(ValueError):
    """A checkpoint that does not fit the run; the message lists what differs."""


@dataclass(frozen=True)
class _Part:
    capture: Callable[[Tensors], Any]
    restore: Callable[[Any, Tensors], None]
    check: Callable[[], object] = lambda: None
    """Raises :class:`NotPlainError` for what could not be captured; copies nothing."""


class TrainingState:
    """The parts of one run. Belongs to the training thread."""

    def __init__(self) -> None:
        self._modules: dict[str, torch.nn.Module] = {}
        self._tables: dict[str, tuple[Any, str]] = {}
        self._arrays: dict[str, tuple[Any, str]] = {}
        self._afterwards: list[Callable[[], None]] = []
        self._parts: dict[str, _Part] = {"random": _Part(_capture_random, _restore_random)}

    def module(self, name: str, module: torch.nn.Module) -> None:
        """Parameters and buffers; these and tables are what a warm start takes over."""
        self._modules[name] = module

    def table(self, name: str, owner: Any, attribute: str) -> None:
        """An array of numpy that was learned, kept under `name`: a warm start takes it over. It has the same shape in
        every run that goes on from this one; what grows belongs to :meth:`attributes`. Raises NotPlainError."""
        if not isinstance(found := getattr(owner, attribute, None), np.ndarray):
            raise NotPlainError(f"{name} is a {type(found).__name__}: a table is an array of numpy")
        self._tables[name] = owner, attribute

    def arrays(self, name: str, owner: Any, attribute: str) -> None:
        """A mapping of names to arrays of numpy that were learned: copies of what lies elsewhere, such as in a compiled
        program. A warm start takes them over; what comes back is assigned as a whole, since it cannot be written
        into. With a name of "" they are kept under the names that they have."""
        self._arrays[name] = owner, attribute

    def optimizer(self, name: str, optimizer: torch.optim.Optimizer) -> None:
        def restore(content: Any, tensors: Tensors) -> None:
            optimizer.load_state_dict(decode(content, tensors))

        self._parts[name] = _Part(
            lambda tensors: encode(optimizer.state_dict(), name, tensors),
            restore,
            lambda: encode(optimizer.state_dict(), name, None),
        )

    def attributes(self, name: str, owner: Any, *attributes: str) -> None:
        """Named attributes of an object: counters, arrays, tensors, generators."""

        def capture(tensors: Tensors) -> Any:
            return {one: encode(getattr(owner, one), f"{name}.{one}", tensors) for one in attributes}

        def restore(content: Any, tensors: Tensors) -> None:
            for one in attributes:
                _put_back(owner, one, decode(content[one], tensors))

        def check() -> None:
            for one in attributes:
                if not hasattr(owner, one):
                    kind = type(owner).__name__
                    raise NotPlainError(f"{name}.{one} is missing: {kind} has no {one!r} before its first step")
                encode(getattr(owner, one), f"{name}.{one}", None)

        self._parts[name] = _Part(capture, restore, check)

    def envs(self, name: str, envs: Any, restart: Callable[[], None] | None = None) -> None:
        """The environments, down to the running episodes where they can be kept.

        Where they cannot, `restart` is called after everything else was put back: it has to begin new episodes.
        """

        def restore(content: Any, tensors: Tensors) -> None:
            env_state.restore(envs, content, tensors)
            if not content["complete"] and restart is not None:
                missing = ", ".join(dict.fromkeys(content["missing"]))
                print(f"Episodes start from the beginning: a checkpoint cannot hold {missing}.", flush=True)
                self._afterwards.append(restart)

        self._parts[name] = _Part(lambda tensors: env_state.capture(envs, tensors), restore)

    def check(self) -> None:
        """Raise :class:`NotPlainError` with the name of the first entry that could not be captured as it is now.

        Copies nothing, so it costs little however large a buffer is.
        """
        for name, value in self._learned().items():
            if not is_tensor(value):  # a module may have an extra state of any kind
                raise NotPlainError(f"{name} is a {type(value).__name__}, which a checkpoint does not keep")
            encode(value, name, None)
        for part in self._parts.values():
            part.check()

    def capture(self) -> tuple[Tensors, dict[str, Any]]:
        """(tensors, JSON) of everything, as copies: training may go on while they are written."""
        tensors = self.module_tensors()
        return tensors, {name: part.capture(tensors) for name, part in self._parts.items()}

    def module_tensors(self) -> Tensors:
        """Copies of parameters, buffers and tables alone, under the names that a warm start looks for."""
        return {name: copied(value) for name, value in self._learned().items()}

    def _learned(self) -> Tensors:
        """What a warm start takes over, as it is now: not copies."""
        modules = [parameters_of(name, module) for name, module in self._modules.items()]
        tables = {name: getattr(owner, attribute, None) for name, (owner, attribute) in self._tables.items()}
        arrays = [
            {_dotted(name, key): value for key, value in getattr(owner, attribute).items()}
            for name, (owner, attribute) in self._arrays.items()
        ]
        return {key: value for found in (*modules, tables, *arrays) for key, value in found.items()}

    def _take_over(self, tensors: Tensors) -> None:
        """Put what was learned elsewhere in the place of what is here, which it fits."""
        learned = self._learned()
        put_into(learned, tensors)
        for name, (owner, attribute) in self._arrays.items():
            setattr(owner, attribute, {key: learned[_dotted(name, key)] for key in getattr(owner, attribute)})

    def restore(self, tensors: Tensors, state: dict[str, Any]) -> None:
        """Put everything back. Raises :class:`StateMismatchError` before anything was changed."""
        self.check_fit(tensors)
        if missing := sorted(set(self._parts) - set(state)):
            raise StateMismatchError(
                f"the checkpoint has no {', '.join(missing)}: it can warm-start a run, not resume one"
            )
        self._take_over(tensors)
        for name, part in self._parts.items():
            part.restore(state[name], tensors)
        while self._afterwards:
            self._afterwards.pop()()

    def warm_start(self, tensors: Tensors) -> None:
        """Take over parameters and tables only. Raises :class:`StateMismatchError` before anything was changed."""
        if not (self._modules or self._tables or self._arrays):
            raise StateMismatchError(
                "this run has no networks and no tables to take over: it can be resumed, not warm-started"
            )
        self.check_fit(tensors)
        self._take_over(tensors)

    def check_fit(self, tensors: Tensors) -> None:
        """Raise :class:`StateMismatchError` with the differences when parameters or tables do not fit."""
        if differences := misfits(self._learned(), tensors):
            raise StateMismatchError("the checkpoint does not fit: " + "; ".join(differences[:6]))


def _dotted(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def parameters_of(name: str, module: torch.nn.Module) -> Tensors:
    """Parameters and buffers under the names that a checkpoint keeps them by; they share the module's memory."""
    return {f"{name}.{key}": value for key, value in module.state_dict().items()}


def misfits(learned: Tensors, tensors: Tensors) -> list[str]:
    """Why what a checkpoint keeps cannot be put in the place of what is here, one line for each that cannot."""
    found = (misfit(name, tensors.get(name), here) for name, here in learned.items())
    return [line for line in found if line]


def put_into(learned: Tensors, tensors: Tensors) -> None:
    """Into the memory that is there: optimisers and numpy views share it."""
    for name, here in learned.items():
        fill(here, tensors[name])


def _put_back(owner: Any, attribute: str, value: Any) -> None:
    current: Any = getattr(owner, attribute, None)
    if is_torch(current) and is_torch(value) and current.shape == value.shape:
        fill(current, value)
    else:
        assign(owner, attribute, value)


def _capture_random(tensors: Tensors) -> Any:
    if (torch := torch_if_imported()) is not None:
        tensors[_TORCH_RANDOM] = torch.get_rng_state()
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": encode(np.random.get_state(legacy=False), "random.numpy", tensors),
    }


def _restore_random(content: Any, tensors: Tensors) -> None:
    if _TORCH_RANDOM in tensors:
        with suppress(ImportError):  # nobody draws from it where it is not installed
            import torch

            torch.set_rng_state(as_torch(tensors[_TORCH_RANDOM]))
    version, internal, gauss = content["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(decode(content["numpy"], tensors))
