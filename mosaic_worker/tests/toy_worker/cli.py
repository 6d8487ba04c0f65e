"""A loop that counts: what a worker has to write when the kit does the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mosaic_worker.errors import UsageError
from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession

STEPS = 20


def check(settings: Settings) -> dict[str, str]:
    if settings.env_id == "Nowhere-v0":
        raise UsageError("there is no environment 'Nowhere-v0'")
    return {"checked": "yes"}


def train(session: TrainingSession, settings: Settings) -> None:
    import torch

    from mosaic_worker.state.training_state import TrainingState

    layer, state = torch.nn.Linear(1, 1, bias=False), TrainingState()
    torch.nn.init.zeros_(layer.weight)
    state.module("layer", layer)
    session.restore(state, settings.resume, settings.warm_start)
    steps = settings.total_timesteps or STEPS
    session.begin(steps)
    step = session.step
    while step < steps and not session.stop_requested:
        step += 1
        with torch.no_grad():
            layer.weight += settings.params["speed"]
        session.scalars(step, {"charts/episodic_return": float(layer.weight)})
        session.safe_point(step)
        if settings.params["fail"]:
            raise ZeroDivisionError("by zero")
        if session.is_checkpoint_due(step):
            session.save_checkpoint(step, *state.capture(), required=False)
    session.save_checkpoint(step, *state.capture())


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
