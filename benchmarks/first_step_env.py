"""CartPole that notes when it was first stepped. Its id, ``benchmarks.first_step_env:FirstStepCartPole-v1``, makes
gymnasium import this module, so any script can use it without knowing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

ENV_ID = "benchmarks.first_step_env:FirstStepCartPole-v1"
FOLDER_VARIABLE = "MOSAIC_BENCH_FIRST_STEP"


class FirstStepCartPole(CartPoleEnv):
    """The first step of the process leaves a file named after its pid, holding the monotonic time before the step."""

    noted = False

    def step(self, action: Any) -> Any:
        if not FirstStepCartPole.noted:
            FirstStepCartPole.noted = True
            _note(time.monotonic())
        return super().step(action)


def _note(moment: float) -> None:
    path = Path(os.environ[FOLDER_VARIABLE]) / str(os.getpid())
    draft = path.with_suffix(".draft")
    draft.write_text(repr(moment))
    draft.replace(path)


gymnasium.register(
    id="FirstStepCartPole-v1",
    entry_point="benchmarks.first_step_env:FirstStepCartPole",
    max_episode_steps=500,
    reward_threshold=475.0,
)
