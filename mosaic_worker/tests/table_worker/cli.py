"""Q-learning in a table: the whole of a worker without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession

STEPS = 1000
SAID_AT = 100
"""The step at which it says that it learns, so that somebody can stop it on its way."""


def train(session: TrainingSession, settings: Settings) -> None:
    from mosaic_worker.tests.table_worker.learning import Learning

    learning = Learning(settings)
    session.restore(learning.state, settings.resume, settings.warm_start)
    steps = settings.total_timesteps or STEPS
    session.begin(steps)
    while learning.step < steps and not session.stop_requested:
        row: dict[str, Any] = learning.turn()
        if row:
            session.scalars(learning.step, row)
        session.safe_point(learning.step)
        if learning.step == SAID_AT:
            print("learning", flush=True)
        if session.is_checkpoint_due(learning.step):
            session.save_checkpoint(learning.step, *learning.state.capture(), learning.spaces, required=False)
    session.save_checkpoint(learning.step, *learning.state.capture(), learning.spaces)


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train)
