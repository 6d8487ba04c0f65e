"""Any other environment: its numbers, its names, its picture."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from llm_worker.describing.describer import PlainDescriber, Seen, shown_number
from llm_worker.describing.pictures import as_characters, as_picture
from mosaic_protocol.plain_text import visible

_MOST_NUMBERS = 200
_WORDS: dict[str, tuple[tuple[str, ...], int]] = {
    "LunarLander": (("do nothing", "left engine", "main engine", "right engine"), 0),
}


class Generic(PlainDescriber):
    def __init__(self, env: Any) -> None:
        name = str(env.spec.id if env.spec is not None else type(env.unwrapped).__name__)
        count = int(env.action_space.n)
        words, self.idle = _WORDS.get(name.partition("-")[0], (tuple(f"action {one}" for one in range(count)), 0))
        self.actions = words if len(words) == count else tuple(f"action {one}" for one in range(count))
        about = " ".join((type(env.unwrapped).__doc__ or "").split())[:600]
        self.rules = f"You act in the environment {name}. {about}".strip()
        self._space: gym.Space[Any] = env.observation_space

    def describe(self, observation: Any) -> Seen:
        picture = as_picture(observation) if isinstance(observation, np.ndarray) else None
        if picture is not None:
            return Seen(f"You see, bright parts as denser characters:\n{as_characters(picture)}", picture)
        return Seen(_told(observation))


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{visible(str(name))}: {_told(one)}" for name, one in value.items())
    if isinstance(value, tuple | list):
        return "; ".join(_told(one) for one in value)
    if isinstance(value, str):
        return visible(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        return visible(str(value))[:2000]
    numbers = [shown_number(one) for one in array.reshape(-1)[:_MOST_NUMBERS]]
    more = f" and {array.size - _MOST_NUMBERS} more" if array.size > _MOST_NUMBERS else ""
    return numbers[0] if array.ndim == 0 else f"[{', '.join(numbers)}{more}]"
