"""``dm_control/…`` environments: Shimmy gives them to gymnasium, once dm_control fits the MuJoCo that is here."""

from __future__ import annotations

import importlib
import warnings
from typing import Any


def register() -> None:
    """Make the names known to gymnasium. Raises ImportError where a part of the extra is missing."""
    mujoco = importlib.import_module("mujoco")
    with warnings.catch_warnings(action="ignore"):  # without a display its windows warn; nobody asked for one
        sizes = importlib.import_module("dm_control.mujoco.wrapper.mjbindings.sizes")
        leave_out_missing(sizes.array_sizes, {"mjmodel": mujoco.MjModel, "mjdata": mujoco.MjData})
        shimmy = importlib.import_module("shimmy")
    importlib.import_module("gymnasium").register_envs(shimmy)


def leave_out_missing(sizes: dict[str, dict[str, Any]], kinds: dict[str, type]) -> None:
    """dm_control lists the fields of the MuJoCo that it was made with, and looks at each of them. A newer one lacks
    some of deformable bodies, which none of its environments has."""
    for name, kind in kinds.items():
        fields = sizes.get(name, {})
        for field in [field for field in fields if not hasattr(kind, field)]:
            del fields[field]
