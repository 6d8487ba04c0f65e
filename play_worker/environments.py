"""``python -m play_worker.environments``: what can be played here, as one JSON object.

Without words the families of environments, each with the newest version of its environments. With ``--describe ENV``
one environment: its settings with their defaults, its keys, and whether it waits for the person.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from typing import Any

import msgspec

from mosaic_worker.errors import UsageError
from mosaic_worker.recording.video import choose_display_drivers

_FAMILIES = (
    # Name, where its environments are defined, the package they need, the set of extras that brings it.
    ("Toy text", "gymnasium.envs.toy_text", "", ""),
    ("Classic control", "gymnasium.envs.classic_control", "", ""),
    ("Box2D", "gymnasium.envs.box2d", "Box2D", "box2d"),
    ("MuJoCo", "gymnasium.envs.mujoco", "mujoco", "mujoco"),
    ("Atari", "ale_py", "ale_py", "atari"),
    ("MiniGrid", "minigrid", "minigrid", "minigrid"),
)
_FAMOUS = {
    "Atari": ("ALE/Pong-v5", "ALE/Breakout-v5", "ALE/SpaceInvaders-v5"),
    "MiniGrid": ("MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-8x8-v0"),
}
"""What there is to install, for families that register nothing before."""
_VERSION = re.compile(r"(.+)-v(\d+)")


def families() -> list[dict[str, Any]]:
    """Each with whether what it needs is installed."""
    import gymnasium as gym

    for package in ("ale_py", "minigrid"):
        if importlib.util.find_spec(package) is not None:
            gym.register_envs(importlib.import_module(package))
    defined = [(spec.id, str(spec.entry_point)) for spec in gym.registry.values() if isinstance(spec.entry_point, str)]
    found = []
    for name, module, package, extra in _FAMILIES:
        installed = not package or importlib.util.find_spec(package) is not None
        ids = newest(env_id for env_id, where in defined if where.startswith((f"{module}.", f"{module}:")))
        found.append(
            {
                "name": name,
                "sources": ["gymnasium"],
                "installed": installed,
                "extra": "" if installed else extra,
                "environments": ids or list(_FAMOUS.get(name, ())),
            }
        )
    return found


def newest(env_ids: Iterable[str]) -> list[str]:
    """Without older versions, and without Atari games that show their memory instead of their screen."""
    latest: dict[str, int] = {}
    for env_id in env_ids:
        versioned = _VERSION.fullmatch(env_id)
        if versioned and "-ram" not in env_id and "Deterministic" not in env_id and "NoFrameskip" not in env_id:
            latest[versioned[1]] = max(latest.get(versioned[1], 0), int(versioned[2]))
    preferred = {name for name in latest if name.startswith("ALE/")}
    shown = {name: version for name, version in latest.items() if f"ALE/{name}" not in preferred}
    return sorted(f"{name}-v{version}" for name, version in shown.items())


def described(env_id: str, params: dict[str, Any]) -> dict[str, Any]:
    """One environment with these settings. Raises UsageError for one that cannot be made."""
    from play_worker.games import settings_of
    from play_worker.stage import Stage

    settings = settings_of(env_id)
    stage = Stage(env_id, params)
    try:
        return {
            "env_id": env_id,
            "family": stage.family,
            "waits": stage.waits,
            "fps": stage.fps,
            "settings": settings,
            "key_map": msgspec.to_builtins(stage.key_map),
        }
    finally:
        stage.close()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--describe", metavar="ENV", help="tell about one environment")
    parser.add_argument("--params", type=json.loads, default={}, help="JSON: the settings it is made with")
    options = parser.parse_args(words)
    choose_display_drivers(windows=False)
    try:
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
            found = described(options.describe, options.params) if options.describe else {"families": families()}
    except UsageError as error:
        print(f"play_worker: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
