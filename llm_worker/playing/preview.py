"""What a run would ask first, without asking anybody."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from llm_worker.describing.describer import Describer
from llm_worker.playing.player import Player
from llm_worker.settings import LLMSettings

_USUAL = {True: "grammar", False: "schema"}
"""In which form answers come most likely, before the server was tried out: by whether it is the local model."""


def first_prompt(
    settings: LLMSettings, env: gym.Env[Any, Any], describer: Describer, env_id: str, examples: str
) -> list[dict[str, str]]:
    """The messages of the first step, as roles and texts."""
    player = Player(settings, describer, None, env_id, examples)
    player.rung = settings.form if settings.form != "auto" else _USUAL[settings.is_local]
    player.find_form()
    observation, _ = env.reset(seed=settings.seed)
    return [{"role": one.role, "text": one.text} for one in player.asks(observation, 0)]
