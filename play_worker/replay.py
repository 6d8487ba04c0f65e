"""The game of a session made again, for ``mosaic replay``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from play_worker.games import make_game


def make_env(settings: Mapping[str, Any], render_mode: str | None = None) -> gym.Env[Any, Any]:
    """As the session made it; it draws pictures in any case, where it can. Raises UsageError."""
    return make_game(str(settings.get("env_id") or ""), settings.get("params") or {})
