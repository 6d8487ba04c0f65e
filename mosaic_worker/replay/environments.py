"""The environment of a recording, made again as the worker made it.

An evaluation's is the one that :mod:`mosaic_worker.policies.policy` describes. A run's is made by the module ``replay``
of the worker's package where there is one::

    def make_env(settings: Mapping[str, Any], render_mode: str | None = None) -> gym.Env

``settings`` are those that the worker read. Without such a module it is ``gymnasium.make`` with the environment's id,
and the arguments that ``params.env_kwargs`` or ``extras.env_kwargs`` hold.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from mosaic_protocol.steps.recordings import EVALUATION
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError

_HOOK = "replay"
_TOLD = ("gymnasium", "numpy", "ale-py", "mujoco", "box2d", "minigrid", "envpool")
_PICTURES = "rgb_array"


def make_env(about: Mapping[str, Any], worker: Path, *, pictures: bool = False) -> gym.Env[Any, Any]:
    """Make it; with ``pictures`` it can be drawn. Raises UsageError in one sentence."""
    render_mode = _PICTURES if pictures else None
    if about.get("kind") == EVALUATION:
        from mosaic_worker.policies.acting import arguments_of, made, script_for

        script = script_for(str(about.get("algo", "")), worker)
        saved = about["args"] if isinstance(about.get("args"), dict) else {}
        return made(script, arguments_of(script, saved | {"env_id": about.get("env_id")}), render_mode)
    settings = about["settings"] if isinstance(about.get("settings"), dict) else {}
    env_id = about.get("env_id") or settings.get("env_id")
    if not env_id:
        raise UsageError("the settings of the run name no environment (env_id), so nothing can be simulated")
    try:
        return _by_hook(settings, worker, render_mode) or _by_id(str(env_id), settings, render_mode)
    except UsageError:
        raise
    except gym.error.UnregisteredEnv as error:
        known = did_you_mean(str(env_id), gym.registry)
        raise UsageError(f"there is no environment {env_id!r} here{known}") from error
    except Exception as error:  # an environment's constructor is foreign code
        reason = " ".join(str(error).split())[:300]
        raise UsageError(f"{env_id} cannot be made here: {type(error).__name__}: {reason}") from error


def _by_hook(settings: Mapping[str, Any], worker: Path, render_mode: str | None) -> gym.Env[Any, Any] | None:
    name = f"{worker.name}.{_HOOK}"
    if importlib.util.find_spec(worker.name) is None or importlib.util.find_spec(name) is None:
        return None
    env: gym.Env[Any, Any] = importlib.import_module(name).make_env(settings, render_mode)
    return env


def _by_id(env_id: str, settings: Mapping[str, Any], render_mode: str | None) -> gym.Env[Any, Any]:
    if env_id.startswith("ALE/") and importlib.util.find_spec("ale_py") is not None:
        gym.register_envs(importlib.import_module("ale_py"))
    places = (settings.get(name) for name in ("params", "extras"))
    arguments: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}
    arguments |= next((one["env_kwargs"] for one in places if isinstance(one, dict) and one.get("env_kwargs")), {})
    return gym.make(env_id, **arguments)


def versions() -> dict[str, str]:
    """Of everything that may decide how an environment behaves, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in _TOLD:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


# ---- spaces, as Minari writes them -----------------------------------------------------------------------------------


def describe(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Spaces and specification of an environment as texts of JSON, which know infinities; None for what has no form."""
    return {
        "observation_space": _text(env.observation_space),
        "action_space": _text(env.action_space),
        "env_spec": _spec(env),
        "versions": versions(),
    }


def _text(space: gym.Space[Any]) -> str | None:
    try:
        return json.dumps(_plain(space))
    except TypeError:
        return None


def _plain(space: gym.Space[Any]) -> dict[str, Any]:
    """Raises TypeError for a space that has no such form."""
    match space:
        case gym.spaces.Box():
            bounds = {"low": space.low.tolist(), "high": space.high.tolist()}
            return {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
        case gym.spaces.Discrete():
            return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
        case gym.spaces.MultiDiscrete():
            counts = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", "dtype": str(space.dtype), **counts}
        case gym.spaces.MultiBinary():
            size = space.n if isinstance(space.n, int) else list(map(int, space.n))
            return {"type": "MultiBinary", "n": size}
        case gym.spaces.Dict():
            return {"type": "Dict", "subspaces": {key: _plain(one) for key, one in space.spaces.items()}}
        case gym.spaces.Tuple():
            return {"type": "Tuple", "subspaces": [_plain(one) for one in space.spaces]}
        case gym.spaces.Text():
            lengths = {"max_length": space.max_length, "min_length": space.min_length}
            return {"type": "Text", **lengths, "charset": space.characters}
    raise TypeError(f"{type(space).__name__} has no form in a dataset")


def _spec(env: gym.Env[Any, Any]) -> str | None:
    if env.spec is None:
        return None
    try:
        return env.spec.to_json()
    except (TypeError, ValueError, AttributeError):  # made with functions or objects, which JSON does not hold
        return None
