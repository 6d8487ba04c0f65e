"""The extras of the CleanRL worker: what some of its algorithms and environments need besides the core."""

from __future__ import annotations

from mosaic_worker.extras.kit_sets import JAX, JAX_SIZE, KIT_SETS, KIT_SIZES
from mosaic_worker.extras.sets import DebianPackage, ExtraSet, WorkerExtras

SETS = {
    "atari": ExtraSet("Atari games, with their ROMs", module="ale_py"),
    "box2d": ExtraSet("LunarLander, BipedalWalker, CarRacing", module="Box2D"),
    "dm-control": ExtraSet("dm_control/… environments", (DebianPackage("libegl1", "EGL"),), "dm_control"),
    "envpool": ExtraSet("fast vector environments in C++", module="envpool"),
    "jax": JAX,
    "minigrid": ExtraSet("MiniGrid and BabyAI", module="minigrid"),
    "mujoco": ExtraSet("MuJoCo locomotion and control", (DebianPackage("libegl1", "EGL"),), "mujoco"),
    "procgen": ExtraSet("Procgen games, through EnvPool", (DebianPackage("libqt5gui5", "Qt5Gui"),), "envpool"),
    **KIT_SETS,
}

# Megabytes on disk and to download, of a package with what it brings along; measured on x86-64 with Python 3.11.
_SIZES = {
    "ale-py": (11, 4),
    "box2d": (12, 4),
    "dm-control": (160, 55),
    "envpool": (850, 325),
    "imageio": (25, 8),
    "jax": JAX_SIZE,
    "minigrid": (3, 1),
    "mujoco": (75, 27),
    "opencv-python-headless": (160, 62),
    "shimmy": (1, 1),
    **KIT_SIZES,
}

EXTRAS = WorkerExtras("cleanrl_worker.tools.install_extras", SETS, core="cleanrl", sizes=_SIZES)
