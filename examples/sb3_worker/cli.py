"""``python -m sb3_worker.cli --config F --grpc``: one Stable-Baselines3 run. Started by the trainer daemon."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mosaic_protocol.worker_client import WorkerSession


def _config() -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--grpc-target")
    return dict(json.loads(parser.parse_args().config.read_text()))


def _callback(session: WorkerSession) -> Any:
    """Hands SB3's episodes to the session, and the session's wishes to SB3."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Bridge(BaseCallback):
        def _on_step(self) -> bool:
            for info in self.locals["infos"]:
                if episode := info.get("episode"):
                    values = {"charts/episodic_return": episode["r"], "charts/episodic_length": episode["l"]}
                    session.metric(self.num_timesteps, {tag: float(value) for tag, value in values.items()})
            return session.safe_point(self.num_timesteps)  # waits here while paused; False ends the training

    return Bridge()


def main() -> None:
    config = _config()
    with WorkerSession.from_environment({"algo": config["algo"]}) as session:
        # Imported after the session is open: heartbeats and the handshake do not wait for torch.
        import stable_baselines3

        algorithm = getattr(stable_baselines3, config["algo"].removeprefix("sb3_").upper())
        model = algorithm("MlpPolicy", config["env_id"], seed=config.get("seed", 1), verbose=1)
        steps = config.get("total_timesteps", 50_000)
        session.started(total_steps=steps)
        model.learn(steps, callback=_callback(session))


if __name__ == "__main__":
    main()
