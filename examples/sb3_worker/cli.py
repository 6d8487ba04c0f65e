"""``python -m sb3_worker.cli``: one Stable-Baselines3 run. Started by the trainer daemon, or by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_worker.settings import Settings
from mosaic_worker.worker_main import run_worker

if TYPE_CHECKING:
    from mosaic_worker.training.session import TrainingSession

DEFAULT_STEPS = 50_000


def check(settings: Settings) -> None:
    """Refuse what cannot work before the run starts; a dry run asks the same."""
    from mosaic_worker.training.environments import make_env

    make_env(settings.env_id).close()


def train(session: TrainingSession, settings: Settings) -> None:
    """Stable-Baselines3 owns the loop, so its callback talks to the session."""
    # Imported here: the session is talking to the daemon already, so nobody waits for torch.
    from sb3_worker.agents import description_of_spaces, make_model, training_state
    from sb3_worker.bridge import Bridge

    model = make_model(settings.algo, settings.env_id, settings.seed, settings.params)
    state = training_state(model)
    session.restore(state, settings.resume, settings.warm_start)

    def save(*, required: bool) -> None:
        session.save_checkpoint(model.num_timesteps, *state.capture(), description_of_spaces(model), required=required)

    steps = settings.total_timesteps or DEFAULT_STEPS
    session.begin(steps)
    bridge: Any = Bridge(session, save)
    if not session.stop_requested and model.num_timesteps < steps:
        model.learn(steps - model.num_timesteps, callback=bridge, reset_num_timesteps=False)
    if not bridge.saved_at_stop:
        save(required=True)


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train, check)
