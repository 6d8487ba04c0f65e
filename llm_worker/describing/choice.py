"""Which describer puts an environment into words."""

from __future__ import annotations

from typing import Any

from gymnasium.spaces import Discrete

from llm_worker.describing import classic_control, toy_text
from llm_worker.describing.atari import Atari
from llm_worker.describing.describer import Describer
from llm_worker.describing.generic import Generic
from llm_worker.describing.minigrid import MiniGrid
from mosaic_protocol.plain_text import one_line
from mosaic_worker.errors import UsageError

_WITH_ENV: dict[str, Any] = {
    "FrozenLakeEnv": toy_text.FrozenLake,
    "CliffWalkingEnv": toy_text.CliffWalking,
    "TaxiEnv": toy_text.Taxi,
    "AtariEnv": Atari,
    "MiniGridEnv": MiniGrid,
}
_ALONE: dict[str, Any] = {
    "BlackjackEnv": toy_text.Blackjack,
    "CartPoleEnv": classic_control.CartPole,
    "MountainCarEnv": classic_control.MountainCar,
    "AcrobotEnv": classic_control.Acrobot,
}


def describer_for(env: Any) -> Describer:
    """By the environment's class or one that it is derived from. Raises UsageError for actions that have no words."""
    if not isinstance(env.action_space, Discrete):
        raise UsageError(
            f"a language model chooses among actions that can be counted; {_name(env)} has "
            f"{one_line(str(env.action_space))}. Choose an environment such as FrozenLake-v1 or CartPole-v1"
        )
    for kind in type(env.unwrapped).__mro__:
        described: Describer | None = None
        if (found := _WITH_ENV.get(kind.__name__)) is not None:
            described = found(env)
        elif (alone := _ALONE.get(kind.__name__)) is not None:
            described = alone()
        if described is not None:
            return described
    return Generic(env)


def require_pictures(env: Any, describer: Describer, seed: int) -> None:
    """Raises UsageError for an environment whose observations have none: a model would be sent words alone, unsaid."""
    observation, _ = env.reset(seed=seed)
    if describer.describe(observation).picture is None:
        raise UsageError(f"--pictures: what {_name(env)} shows has no picture, only words; leave --pictures out")


def _name(env: Any) -> str:
    return str(env.spec.id) if env.spec is not None else type(env.unwrapped).__name__
