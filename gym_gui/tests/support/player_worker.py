"""A worker that plays an environment and records every step, put into a folder as somebody's own worker would be."""

from __future__ import annotations

from pathlib import Path

_MANIFEST = """
schema = 1

[worker]
type = "player"
name = "Player"
version = "1"
summary = "Plays and records."
lane = "telemetry"
module = "player_worker.cli"
needs = ["env"]

[algorithms.play]
summary = "Draws actions from the seed."
example_env = "CartPole-v1"
"""

_CLI = """
from pathlib import Path

from mosaic_worker.worker_main import run_worker


def train(session, settings):
    import numpy as np

    from player_worker.replay import make_env

    env, hand = make_env({"env_id": settings.env_id, "params": settings.params}), np.random.default_rng(settings.seed)
    session.begin(settings.total_timesteps)
    lane, step, episode = session.steps.lane("seat", actor="policy"), 0, 0
    while step < settings.total_timesteps and not session.stop_requested:
        seed = None if settings.params.get("seedless") else settings.seed + episode
        observation, _ = env.reset(seed=seed)
        lane.begin_episode(seed)
        over = False
        while not over and step < settings.total_timesteps:
            discrete = hasattr(env.action_space, "n")
            action = int(hand.integers(env.action_space.n)) if discrete else hand.uniform(-1, 1, env.action_space.shape)
            action = action if discrete else action.astype(np.float32)
            before, step = observation, step + 1
            observation, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            lane.append(
                before, action, reward, terminated, truncated,
                actor="human" if episode % 2 else None, value=0.5, extras={"drawn": [1, 2]} if step == 1 else None,
                final_observation=observation if over else None,
            )
        episode += 1
    env.close()


if __name__ == "__main__":
    run_worker(Path(__file__).parent, train)
"""

_REPLAY = """
import gymnasium as gym


def make_env(settings, render_mode=None):
    arguments = {} if render_mode is None else {"render_mode": render_mode}
    if "slippery" in settings["params"]:
        arguments["is_slippery"] = settings["params"]["slippery"]
    return gym.make(settings["env_id"], **arguments)
"""


def player_worker(folder: Path) -> Path:
    """The folder, to be named in MOSAIC_WORKER_PATH."""
    package = folder / "player_worker"
    package.mkdir(parents=True)
    for name, text in (("worker.toml", _MANIFEST), ("cli.py", _CLI), ("replay.py", _REPLAY), ("__init__.py", "")):
        (package / name).write_text(text)
    return folder
