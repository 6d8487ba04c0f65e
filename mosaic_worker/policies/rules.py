"""What makes two environments the same game: their id, what they are made with, and how many steps an episode may have.

Wrappers are no part of it: one policy sees pictures, another one numbers, and both play the same game.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError

_NO_RULE = frozenset({"render_mode", "max_episode_steps"})


def rules_of(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """As JSON: ``env_id``, ``kwargs``, ``max_episode_steps`` (None for no limit)."""
    spec = env.unwrapped.spec or env.spec
    if spec is None:
        return {"env_id": "", "kwargs": {}, "max_episode_steps": None}
    kwargs = {name: value for name, value in spec.kwargs.items() if name not in _NO_RULE}
    whole = env.spec.max_episode_steps if env.spec is not None else None
    return {
        "env_id": spec.id,
        "kwargs": json.loads(json.dumps(kwargs, default=str)),
        "max_episode_steps": whole or spec.max_episode_steps,
    }


def require_rules(env: gym.Env[Any, Any], rules: Mapping[str, Any]) -> None:
    """Raise UsageError when an environment is another game. How long an episode may be is for the reader to weigh."""
    here, there = rules_of(env), rules
    if here["env_id"] != there["env_id"]:
        raise UsageError(f"it plays {here['env_id']}, the others play {there['env_id']}")
    names = sorted(
        name for name in here["kwargs"] | there["kwargs"] if here["kwargs"].get(name) != there["kwargs"].get(name)
    )
    if names:
        own = ", ".join(f"{name}={_shown(here['kwargs'].get(name))}" for name in names)
        others = ", ".join(f"{name}={_shown(there['kwargs'].get(name))}" for name in names)
        raise UsageError(
            f"it plays {here['env_id']} with {own}, the others with {others}: an arena of its own with "
            f"--env-kwargs '{json.dumps({name: here['kwargs'].get(name) for name in names})}' takes it"
        )


def _shown(value: Any) -> str:
    return "the default" if value is None else one_line(json.dumps(value))[:60]
