"""What a compiled program carries from one call to the next, as a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mosaic_worker.compiled.xla import jax, jnp
from mosaic_worker.state.tensor_kinds import as_array


class Carried:
    """A value of arrays (a NamedTuple of them, of mappings, of such again) whose field ``learned`` is what was learned.

    Register it with a training state::

        state.arrays("agent", carried, "learned")
        state.attributes("program", carried, "rest")

    Reading either property copies the arrays out; assigning puts arrays in. Nobody else holds the value, so a program
    may be given its memory to write the next one into.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def learned(self) -> dict[str, np.ndarray]:
        return {name: np.array(one) for name, one in self.value.learned.items()}

    @learned.setter
    def learned(self, arrays: Mapping[str, Any]) -> None:
        before = self.value.learned
        fresh = {name: jnp.array(as_array(arrays[name]), one.dtype) for name, one in before.items()}
        self.value = self.value._replace(learned=fresh)

    def require_finite(self, what: str, advice: str) -> None:
        """Raise FloatingPointError when what was learned is lost: no checkpoint is written of that."""
        if not all(np.isfinite(np.asarray(one)).all() for one in self.value.learned.values()):
            raise FloatingPointError(f"The {what} no longer finite; a lower {advice} may help.")

    @property
    def rest(self) -> dict[str, np.ndarray]:
        """All else, by the path to it."""
        return {name: np.array(one) for name, one in self._rest()[0].items()}

    @rest.setter
    def rest(self, arrays: Mapping[str, Any]) -> None:
        before, shape = self._rest()
        fresh = [jnp.array(as_array(arrays[name]), one.dtype) for name, one in before.items()]
        self.value = jax.tree.unflatten(shape, fresh)._replace(learned=self.value.learned)

    def _rest(self) -> tuple[dict[str, Any], Any]:
        found, shape = jax.tree_util.tree_flatten_with_path(self.value._replace(learned={}))
        return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in found}, shape


class CarriedPart(Carried):
    """One of several values that one program carries side by side, along the first axis of every array."""

    def __init__(self, together: Carried, number: int) -> None:
        self._together, self._number = together, number

    @property
    def value(self) -> Any:
        return jax.tree.map(lambda one: one[self._number], self._together.value)

    @value.setter
    def value(self, fresh: Any) -> None:
        put = lambda one, new: one.at[self._number].set(new)  # noqa: E731
        self._together.value = jax.tree.map(put, self._together.value, fresh)


def side_by_side(values: Sequence[Any]) -> Any:
    """Values of one shape as one, along a first axis of every array."""
    return jax.device_put(jax.tree.map(lambda *parts: np.stack(parts), *values))
