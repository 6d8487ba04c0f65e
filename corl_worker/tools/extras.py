"""The extras of the CORL worker: environments that datasets are commonly of, and what any worker's runs may use."""

from __future__ import annotations

from mosaic_worker.extras.kit_sets import KIT_SETS, KIT_SIZES
from mosaic_worker.extras.sets import DebianPackage, ExtraSet, WorkerExtras

SETS = {
    "box2d": ExtraSet("LunarLander, BipedalWalker, CarRacing", module="Box2D"),
    "mujoco": ExtraSet("MuJoCo locomotion and control", (DebianPackage("libegl1", "EGL"),), "mujoco"),
    **KIT_SETS,
}

# Megabytes on disk and to download; measured on x86-64 with Python 3.11.
_SIZES = {"box2d": (12, 4), "imageio": (25, 8), "mujoco": (75, 27), **KIT_SIZES}

EXTRAS = WorkerExtras("corl_worker.tools.install_extras", SETS, core="corl", sizes=_SIZES)
