"""Making a Gymnasium environment for a script, and saying in one sentence why it cannot be made."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from mosaic_worker.errors import UsageError


def make_env(env_id: str, *, record: bool = False, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """The environment, ready to be recorded when that is asked for. Raises UsageError."""
    render_mode = "rgb_array" if record else render_mode
    try:
        # An environment that cannot render need not know the word.
        env = gym.make(env_id) if render_mode is None else gym.make(env_id, render_mode=render_mode)
    except gym.error.UnregisteredEnv as error:
        from mosaic_protocol.suggest import did_you_mean

        raise UsageError(f"There is no environment {env_id!r}{did_you_mean(env_id, gym.registry)}") from error
    except (gym.error.Error, ImportError) as error:
        raise UsageError(f"{env_id} cannot be made here: {' '.join(str(error).split())}") from error
    if not record:
        return env
    from mosaic_worker.recording.video import clips

    return clips(env)
