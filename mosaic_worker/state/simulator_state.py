"""The state of simulators written in C that an environment holds: MuJoCo's and the Arcade Learning Environment's.

Both give their whole state as a row of bytes or numbers, from which they go on to the bit. Neither package is imported
unless an environment brought it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def holds_simulator(layer: Any) -> bool:
    return _is_mujoco(layer) or _is_atari(layer)


def names(layer: Any) -> frozenset[str]:
    """The attributes of a layer that the simulator's state stands for, or that follow from how it was made."""
    if _is_mujoco(layer):
        return frozenset({"model", "data"})
    return frozenset({"ale", "_action_set"}) if _is_atari(layer) else frozenset()


def capture(layer: Any) -> np.ndarray:
    """The state of a layer's simulator."""
    if _is_atari(layer):
        return np.frombuffer(layer.ale.cloneState(include_rng=True).serialize(), dtype=np.uint8)
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(layer.model, kind))
    mujoco.mj_getState(layer.model, layer.data, state, kind)
    return state


def restore(layer: Any, state: np.ndarray) -> None:
    """Put a captured state back into a simulator made the same way."""
    if _is_atari(layer):
        from ale_py import ALEState

        layer.ale.restoreState(ALEState(state.tobytes()))
        return
    import mujoco

    mujoco.mj_setState(layer.model, layer.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_forward(layer.model, layer.data)


def _is_mujoco(layer: Any) -> bool:
    return type(vars(layer).get("data")).__name__ == "MjData"


def _is_atari(layer: Any) -> bool:
    return type(vars(layer).get("ale")).__name__ == "ALEInterface"
