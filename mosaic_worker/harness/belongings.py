"""Everything of a script that a checkpoint keeps, found among its variables.

Networks, optimisers and bare tensors that are trained are found by their kind. Of all else only what the training loop
carries from one turn to the next is kept: counters, the last observations, replay buffers, running statistics,
environments, random generators. What cannot be kept is named.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from mosaic_worker.harness import worlds
from mosaic_worker.harness.carried import LoopNames
from mosaic_worker.harness.namespaces import Namespace
from mosaic_worker.state.checkpoints import describe_space
from mosaic_worker.state.plain_state import NotPlainError, assign, decode, encode
from mosaic_worker.state.tensor_kinds import Tensors
from mosaic_worker.state.training_state import StateMismatchError, TrainingState

MAX_OBJECT_BYTES = 1024**3
"""A replay buffer that holds more is left out: a checkpoint should be written in seconds."""
_SECONDS_PER_YEAR = 3.2e7


class Belongings(TrainingState):
    """The state of one script. Belongs to the training thread."""

    def __init__(self, variables: Namespace, names: LoopNames, made: Marks | None = None) -> None:
        """``made``: what :func:`marks_of` said of the variables before the first turn."""
        super().__init__()
        self._variables, self._names = variables, names
        self._made = made or {}
        self._owned: dict[int, set[str]] = {}
        """Attributes of an object that are kept by their kind, by the object's id."""
        self._carried = sorted(names.carried & set(variables))
        self.left_out: dict[str, str] = {}
        """What the newest checkpoint does not hold, with the reason."""
        self.turn = 0
        self.counters: dict[str, Any] = {}
        """Values as they were at the top of the turn, when a state is captured within it."""
        self._find_trained()

    def check(self) -> None:
        """Nothing is refused: what cannot be kept is left out, and told."""

    @property
    def trains(self) -> bool:
        """Whether there is anything worth a checkpoint."""
        return bool(self._modules)

    def _find_trained(self) -> None:
        seen: set[int] = set()
        owners: dict[str, Any] = {}
        for name, value in list(self._variables.items()):
            if name.startswith("__") or id(value) in seen:
                continue
            if is_trainer(value):
                owners[name] = value
                seen.add(id(value))
            elif self._is_kept(name, value):
                seen.add(id(value))
        for name, owner in owners.items():
            for attribute, value in vars(owner).items():
                if id(value) in seen or self._is_kept(f"{name}.{attribute}", value):
                    seen.add(id(value))
                    self._owned.setdefault(id(owner), set()).add(attribute)

    def _is_kept(self, name: str, value: Any) -> bool:
        """Registers what is trained, or trains, by its kind."""
        if isinstance(value, torch.nn.Module):
            self.module(name, value)
        elif isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
            self.module(name, _Bare(value))
        elif isinstance(value, torch.optim.Optimizer) or _keeps_its_state(value):
            self.optimizer(name, value)
        else:
            return False
        return True

    def first_not_finite(self) -> str:
        """The name of a parameter that is not a number any more, "" when all are."""
        for name, module in self._modules.items():
            for key, value in module.state_dict().items():
                if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                    return f"{name}.{key}"
        return ""

    def spaces(self) -> dict[str, Any]:
        """Of the first environment among the variables, as an algorithm sees them."""
        for _, world in self._of_kind(worlds.is_world):
            if (found := worlds.spaces(world)) is not None:
                return dict(zip(("observation", "action"), map(describe_space, found), strict=True))
        return {}

    def capture(self) -> tuple[Tensors, dict[str, Any]]:
        self.left_out = {}
        tensors, state = super().capture()
        state["loop"] = {"turn": self.turn, "time": time.time(), "whole": not self.counters}
        state["worlds"] = {name: self._world(name, one, tensors) for name, one in self._of_kind(worlds.is_world)}
        state["objects"] = {name: self._object(name, one, tensors) for name, one in self._of_kind(_is_object)}
        state["variables"] = dict(self._plain(tensors))
        return tensors, state

    def restore(self, tensors: Tensors, state: dict[str, Any]) -> None:
        if "loop" not in state:
            raise StateMismatchError("the checkpoint knows of no loop: it can warm-start a run, not resume one")
        super().restore(tensors, state)
        self.turn = int(state["loop"]["turn"])
        if not state["loop"]["whole"]:
            self.left_out["the turn of the loop it was stopped in"] = "which is made again from its beginning"
        restarted = self._restore_worlds(tensors, state["worlds"])
        for name, content in state["objects"].items():
            if content is None:
                self.left_out[name] = "which was too large to keep"
            elif name in self._variables:
                _restore_object(self._variables[name], content, tensors)
        away = time.time() - float(state["loop"]["time"])
        for name, content in state["variables"].items():
            if not (restarted and name in self._names.fresh):
                self._put_back(name, _shifted(name, decode(content, tensors), away))

    def _restore_worlds(self, tensors: Tensors, kept: dict[str, Any]) -> bool:
        """True when episodes start from the beginning because their state could not be kept."""
        restarted = False
        for name, content in kept.items():
            if name in self._variables:
                worlds.restore(self._variables[name], content, tensors)
                if content["missing"]:
                    restarted = True
                    self.left_out[name] = (
                        f"whose episodes start from the beginning: {', '.join(content['missing'][:3])} is not kept"
                    )
        return restarted

    def _put_back(self, name: str, value: Any) -> None:
        current = self._variables.get(name)
        if isinstance(current, torch.Tensor) and isinstance(value, torch.Tensor) and current.shape == value.shape:
            with torch.no_grad():
                current.copy_(value)
        else:
            self._variables[name] = value

    def _of_kind(self, wanted: Any) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for name in self._carried:
            value = self._variables.get(name)
            if name not in self._modules and name not in self._parts and wanted(value) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def _world(self, name: str, world: Any, tensors: Tensors) -> dict[str, Any]:
        found = worlds.capture(world, f"worlds.{name}", tensors)
        if found["missing"]:
            self.left_out[name] = f"the state of {', '.join(found['missing'][:3])}; a resumed run begins new episodes"
        return found

    def _object(self, name: str, value: Any, tensors: Tensors) -> dict[str, Any] | None:
        made = self._made.get(name, {})
        untouched = {one for one, mark in _marks(value).items() if made.get(one) == mark}
        leave = self._owned.get(id(value), set()) | untouched
        size = sum(one.nbytes for key, one in _rows_in_use(value).items() if key not in leave)
        if size > MAX_OBJECT_BYTES:
            self.left_out[name] = f"{size / 1e9:.1f} GB, too much for a checkpoint; a resumed run fills it from empty"
            return None
        return _capture_object(value, f"objects.{name}", tensors, leave)

    def _plain(self, tensors: Tensors) -> Iterator[tuple[str, Any]]:
        for name in self._carried:
            value = self.counters.get(name, self._variables.get(name))
            if name in self._modules or name in self._parts or _is_fixed(value) or self._is_constant(name, value):
                continue
            try:
                yield name, encode(value, f"variables.{name}", tensors)
            except NotPlainError:
                if not (worlds.is_world(value) or _is_object(value)):
                    self.left_out[name] = f"a {type(value).__name__}, which a checkpoint does not keep"

    def _is_constant(self, name: str, value: Any) -> bool:
        """Numbers and texts that no turn sets, such as a number of updates, are right as the script computed them, and
        containers of parameters refer to what the networks hold. A moment in time is moved, though."""
        if name in self._names.assigned or "time" in name:
            return False
        if isinstance(value, list | set):
            return any(isinstance(one, torch.nn.Parameter) for one in value)
        return isinstance(value, int | float | str | tuple)


class _Bare(torch.nn.Module):
    """Lets a tensor that is trained by itself be handled like the parameters of a network."""

    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)


Marks = Mapping[str, Mapping[str, tuple[Any, Any]]]
"""For each variable that is an object: its tensors and numbers, each with what tells whether it was changed since."""


def marks_of(variables: Namespace, names: LoopNames) -> Marks:
    """Of the variables as a script made them, before the first turn. What no turn changes, such as a dataset in a
    replay buffer or a setting, is there again when the script is started again: no checkpoint needs it, and a resumed
    run may be given another setting."""
    found = {name: variables[name] for name in names.carried if name in variables}
    return {name: _marks(value) for name, value in found.items() if _is_object(value)}


def _marks(value: Any) -> dict[str, tuple[Any, Any]]:
    marks: dict[str, tuple[Any, Any]] = {}
    for name, one in vars(value).items():
        if isinstance(one, torch.Tensor):
            marks[name] = id(one), one._version
        elif isinstance(one, int | float | str | None):
            marks[name] = type(one), one
    return marks


def is_trainer(value: Any) -> bool:
    """An object of the script's own class that holds networks or optimisers: what it holds is kept piece by piece,
    since its own ``state_dict``, if it has one, may leave things out (target networks, counters)."""
    if type(value).__module__ != "__main__" or isinstance(value, type | torch.nn.Module | torch.optim.Optimizer):
        return False
    held = vars(value).values() if hasattr(value, "__dict__") else ()
    return any(isinstance(one, torch.nn.Module | torch.optim.Optimizer) for one in held)


def _keeps_its_state(value: Any) -> bool:
    """Schedules and gradient scalers."""
    return not isinstance(value, type | ModuleType) and all(
        callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict")
    )


def _is_fixed(value: Any) -> bool:
    """What a script has from its code and its command line, the same in every run of it."""
    if value is None or isinstance(value, type | ModuleType | torch.device | torch.dtype) or callable(value):
        return True
    kind = type(value)
    return hasattr(kind, "__dataclass_fields__") or kind.__name__ in ("Namespace", "SummaryWriter")


def _is_object(value: Any) -> bool:
    """An object of the script's own that holds arrays or numbers: a buffer, running statistics, a generator's owner."""
    if not hasattr(value, "__dict__") or _is_fixed(value) or worlds.is_world(value):
        return False
    if isinstance(value, torch.nn.Module | torch.Tensor | np.ndarray | np.random.Generator):
        return False
    if _keeps_its_state(value) and not is_trainer(value):
        return False
    return any(isinstance(one, np.ndarray | torch.Tensor | int | float) for one in vars(value).values())


def _rows_in_use(value: Any) -> dict[str, Any]:
    """Arrays of a buffer, only as far as it has been filled; whole arrays of anything else."""
    arrays = {name: one for name, one in vars(value).items() if isinstance(one, np.ndarray | torch.Tensor)}
    position, full = getattr(value, "pos", None), getattr(value, "full", None)
    if full or not isinstance(position, int) or not isinstance(full, bool | np.bool_):
        return arrays
    length = getattr(value, "buffer_size", None)
    # One row more: a buffer that shares rows between observations writes ahead.
    return {name: one[: position + 1] if len(one.shape) and len(one) == length else one for name, one in arrays.items()}


def _capture_object(value: Any, name: str, tensors: Tensors, leave: set[str]) -> dict[str, Any]:
    """``leave``: attributes that are kept elsewhere, or need not be."""
    arrays = {attribute: one for attribute, one in _rows_in_use(value).items() if attribute not in leave}
    plain = {}
    for attribute, one in vars(value).items():
        if attribute not in arrays and attribute not in leave and not _is_fixed(one):
            try:
                plain[attribute] = encode(one, f"{name}.{attribute}", tensors)
            except NotPlainError:
                continue  # spaces, devices and the like say how it was made
    return {
        "plain": plain,
        "arrays": {attribute: encode(one, f"{name}.{attribute}", tensors) for attribute, one in arrays.items()},
    }


def _restore_object(value: Any, content: dict[str, Any], tensors: Tensors) -> None:
    for attribute, kept in content["plain"].items():
        assign(value, attribute, decode(kept, tensors))
    for attribute, kept in content["arrays"].items():
        rows: Any = decode(kept, tensors)
        current: Any = getattr(value, attribute, None)
        if _has_room(current, rows):
            current[: len(rows)] = rows
        else:
            setattr(value, attribute, rows)


def _has_room(current: Any, rows: Any) -> bool:
    """Whether rows fit into the beginning of what is there, which others may hold too."""
    if not isinstance(current, type(rows)) or not rows.shape or not current.shape:
        return False
    return bool(current.shape[1:] == rows.shape[1:] and len(rows) <= len(current))


def _shifted(name: str, value: Any, away: float) -> Any:
    """Moments in time move on with the clock: a speed counted from them must not include the time in between."""
    if "time" in name and isinstance(value, float) and abs(value - time.time()) < 10 * _SECONDS_PER_YEAR:
        return value + away
    return value
