"""The world of a run made again, for ``mosaic replay``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from llm_worker.environments import make_env as make_world


def make_env(settings: Mapping[str, Any], render_mode: str | None = None) -> gym.Env[Any, Any]:
    """As the run made it. Raises UsageError."""
    return make_world(str(settings.get("env_id") or ""), settings.get("params") or {}, render_mode)
