"""``python -m skrl_worker.cli``: one run of skrl's PPO. Started by the trainer daemon, or by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession

DEFAULT_STEPS = 50_000


def check(settings: Settings) -> None:
    from gymnasium.spaces import Discrete

    from mosaic_worker.training.environments import make_env

    with make_env(settings.env_id) as env:
        if not isinstance(env.action_space, Discrete):
            raise UsageError(f"{settings.algo} needs discrete actions; {settings.env_id} has {env.action_space}")


def train(session: TrainingSession, settings: Settings) -> None:
    """The loop is ours: one turn is one step of the environment, and every update is a safe place for a checkpoint."""
    from skrl_worker.agents import Training

    total, rollouts = settings.total_timesteps or DEFAULT_STEPS, int(settings.params["rollouts"])
    training = Training(settings, total)
    session.restore(training.state, settings.resume, settings.warm_start)
    steps = training.step + math.ceil((total - training.step) / rollouts) * rollouts  # the last one is whole, too
    session.begin(steps)
    while training.step < steps:
        session.safe_point(training.step)
        if training.is_between_rollouts:  # nothing of the last one is needed any more
            if session.stop_requested:
                break
            if session.is_checkpoint_due(training.step):
                session.save_checkpoint(training.step, *training.state.capture(), training.spaces, required=False)
        if row := training.turn():
            session.scalars(training.step, row)
    session.save_checkpoint(training.step, *training.state.capture(), training.spaces)


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
