"""Run in a worker's interpreter, as a file and without MOSAIC's packages: which environments can be trained on there.

Prints one JSON object: families of environments, whether what they need is installed, and the set of extras that
brings it. With names of modules as arguments it only tells which of those are installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import sys
import warnings
from contextlib import redirect_stdout
from typing import Any

_KNOWN = {
    "gymnasium.envs.classic_control": ("Classic control", "", ""),
    "gymnasium.envs.toy_text": ("Toy text", "", ""),
    "gymnasium.envs.box2d": ("Box2D", "Box2D", "box2d"),
    "gymnasium.envs.mujoco": ("MuJoCo", "mujoco", "mujoco"),
    "gymnasium.envs.phys2d": ("JAX", "jax", "jax"),
    "gymnasium.envs.tabular": ("JAX", "jax", "jax"),
}
"""Where an environment is defined → its family, the module it needs, the set of extras that brings that."""
_COMPILED = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")
"""Those with discrete actions that ``mosaic_worker.compiled`` has in JAX; a test compares."""
_FAMOUS_GAMES = ("Pong", "Breakout", "SpaceInvaders", "Qbert", "MontezumaRevenge")
_PROCGEN_GAMES = [
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
]


def _has(module: str) -> bool:
    return not module or importlib.util.find_spec(module) is not None


def _family(name: str, sources: list[str], module: str, extra: str, environments: list[str]) -> dict[str, Any]:
    installed = _has(module)
    return {
        "name": name,
        "sources": sources,
        "installed": installed,
        "extra": "" if installed else extra,
        "environments": environments,
    }


def _gymnasium_families() -> list[dict[str, Any]]:
    # By name, so that tools which look at imports know that MOSAIC does not need it.
    registry = importlib.import_module("gymnasium").registry
    found: dict[tuple[str, str, str], list[str]] = {}
    for env_id, spec in registry.items():
        if not isinstance(spec.entry_point, str):
            continue  # a function that only says where the environment went
        module = spec.entry_point.partition(":")[0]
        start = next((start for start in _KNOWN if module.startswith(start)), "")
        top = module.partition(".")[0]
        found.setdefault(_KNOWN[start] if start else (top, top, ""), []).append(env_id)
    return [_family(name, ["gymnasium"], module, extra, ids) for (name, module, extra), ids in found.items()]


def _atari_family() -> dict[str, Any]:
    games = list(_FAMOUS_GAMES)
    if _has("ale_py"):
        gymnasium, ale = importlib.import_module("gymnasium"), importlib.import_module("ale_py")
        gymnasium.register_envs(ale)
        registered = (env_id for env_id in gymnasium.registry if env_id.startswith("ALE/"))
        games = sorted({env_id[4:].partition("-")[0] for env_id in registered if "-ram" not in env_id}) or games
    return _family("Atari", ["atari", "envpool"], "ale_py", "atari", [f"{game}NoFrameskip-v4" for game in games])


def main() -> None:
    if modules := sys.argv[1:]:
        json.dump({"installed": {module: _has(module) for module in modules}}, sys.stdout)
        return
    with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        families = [*_gymnasium_families(), _atari_family()]
        families.append(_family("Procgen", ["procgen"], "envpool", "envpool", list(_PROCGEN_GAMES)))
        families.append(_family("Compiled", ["compiled"], "jax", "jax", list(_COMPILED)))
    json.dump({"families": families}, sys.stdout)


if __name__ == "__main__":
    main()
