"""One training with stable-baselines-jax, in an interpreter that has it: ``python sbx_script.py sac Pendulum-v1 2500``.

The hyper-parameters are those of `sac_jax` and `td3_jax`. Prints as JSON how many steps were made once its programs
were compiled, and the CPU time and the time that passed for them. Imports nothing of MOSAIC's.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

LEARNING_STARTS = 1000
COMPILED_AFTER = 100
"""Steps with updates before the clock starts."""
SHARED: dict[str, Any] = {
    "buffer_size": 1_000_000,
    "batch_size": 256,
    "gamma": 0.99,
    "tau": 0.005,
    "learning_starts": LEARNING_STARTS,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_kwargs": {"net_arch": [256, 256]},
}
"""As CleanRL has them. Its SAC makes two steps of the actor with each second one of the critics, this one makes one
with each: as many."""


def main(algorithm: str, env_id: str, steps: int, seed: int = 1) -> None:
    import sbx
    from stable_baselines3.common.callbacks import BaseCallback

    class Clock(BaseCallback):
        """Reads both clocks once the programs are compiled."""

        began: tuple[float, float] | None = None

        def _on_step(self) -> bool:
            if self.num_timesteps == LEARNING_STARTS + COMPILED_AFTER:
                self.began = time.monotonic(), time.process_time()
            return True

    own: dict[str, dict[str, Any]] = {
        "sac": {"learning_rate": 3e-4, "qf_learning_rate": 1e-3},
        "td3": {"learning_rate": 3e-4, "policy_delay": 2, "target_policy_noise": 0.2, "target_noise_clip": 0.5},
    }
    kind = {"sac": sbx.SAC, "td3": sbx.TD3}[algorithm]
    clock = Clock()
    kind("MlpPolicy", env_id, seed=seed, **SHARED, **own[algorithm]).learn(steps, callback=clock)
    assert clock.began is not None, "the run ended before its clock started"
    seconds, cpu = time.monotonic() - clock.began[0], time.process_time() - clock.began[1]
    print(json.dumps({"steps": steps - LEARNING_STARTS - COMPILED_AFTER, "seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
