"""Making a Gymnasium environment for a script, and saying in one sentence why it cannot be made."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError
from mosaic_worker.training import dm_control_worlds

_OF_THE_MAKER = ("self", "render_mode")


DM_CONTROL = "dm_control/"


def make_known(env_id: str) -> None:
    """Register where an environment's name comes from, if that is installed: gymnasium itself looks for no package."""
    if env_id.startswith(DM_CONTROL) and env_id not in gym.registry:
        with suppress(ImportError):
            dm_control_worlds.register()


def make_env(env_id: str, *, record: bool = False, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """The environment, ready to be recorded when that is asked for. Raises UsageError."""
    render_mode = "rgb_array" if record else render_mode
    make_known(env_id)
    try:
        # An environment that cannot render need not know the word.
        env = gym.make(env_id) if render_mode is None else gym.make(env_id, render_mode=render_mode)
    except gym.error.UnregisteredEnv as error:
        raise UsageError(f"There is no environment {env_id!r}{did_you_mean(env_id, gym.registry)}") from error
    except (gym.error.Error, ImportError) as error:
        raise UsageError(f"{env_id} cannot be made here: {' '.join(str(error).split())}") from error
    if not record:
        return env
    from mosaic_worker.recording.video import clips

    return clips(env)


def wrong_setting(spec: EnvSpec, settings: Mapping[str, Any]) -> str:
    """Which of the settings that an environment was not made with is to blame, in a sentence that lists what there is;
    "" where nothing is known against them."""
    try:
        creator: Any = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        parameters = inspect.signature(creator).parameters
    except Exception:  # noqa: BLE001 - foreign code is imported; then it is to blame
        return ""
    taken = [name for name in parameters if name not in _OF_THE_MAKER]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for name in settings:
        if name not in (*parameters, *_OF_THE_MAKER) and not takes_any:
            return f"{spec.id} has no setting {name!r}{did_you_mean(name, taken)}"
    maps = getattr(sys.modules.get(getattr(creator, "__module__", "")), "MAPS", None)
    known = sorted(map(str, maps)) if isinstance(maps, dict) and not settings.get("desc") else []
    wanted = settings.get("map_name")
    if known and wanted is not None and wanted not in known:
        return f"{spec.id} has no map {str(wanted)[:60]!r}: its maps are {', '.join(known)}"
    return ""
