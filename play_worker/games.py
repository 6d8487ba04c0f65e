"""Which family an environment belongs to, and how the settings of a game reach its constructor.

The settings have one name for all games (``gravity``); the constructors have their own (``g``). A setting is handed on
under the first of its names that the constructor takes, so it serves environments that nobody listed here as well.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker.errors import UsageError
from mosaic_worker.training.environments import wrong_setting
from play_worker.fresh_worlds import FreshWorld

OTHER = "other"
FAMILIES = {
    "gymnasium.envs.toy_text": "toy_text",
    "gymnasium.envs.classic_control": "classic_control",
    "gymnasium.envs.box2d": "box2d",
    "gymnasium.envs.mujoco": "mujoco",
    "ale_py": "atari",
    "minigrid": "minigrid",
    "mo_gymnasium": OTHER,
}
WAITING_FAMILIES = frozenset({"toy_text", "minigrid", OTHER})
"""They wait for the person: nothing moves between two moves. Of an unknown one nobody knows; it can be set."""

GAME_SETTINGS: dict[str, tuple[str, ...]] = {
    "map": ("map_name",),
    "slippery": ("is_slippery",),
    "rainy": ("is_rainy",),
    "fickle_passenger": ("fickle_passenger",),
    "gravity": ("gravity", "g"),
    "wind": ("enable_wind",),
    "wind_power": ("wind_power",),
    "turbulence": ("turbulence_power",),
    "continuous": ("continuous",),
    "hardcore": ("hardcore",),
    "other_colours": ("domain_randomize",),
    "size": ("size",),
    "difficulty": ("difficulty",),
    "mode": ("mode",),
    "sticky_actions": ("repeat_action_probability",),
}
"""Each setting, and what constructors call it."""

_PACKAGES = {
    "gymnasium.envs.box2d": ("Box2D", "box2d"),
    "gymnasium.envs.mujoco": ("mujoco", "mujoco"),
    "ale_py": ("ale_py", "atari"),
    "minigrid": ("minigrid", "minigrid"),
}
"""Where games are defined, the package that they need besides, and the set of extras that brings it."""
_OLD_ATARI = ("NoFrameskip-v0", "NoFrameskip-v4", "Deterministic-v0", "Deterministic-v4")
"""How Atari games were called before they were ALE's; policies are trained on them."""
_FOREIGN_SETTINGS = frozenset({"id", "render_mode", "max_episode_steps", "vector_kwargs"})


def family_of(env: gym.Env[Any, Any]) -> str:
    module = type(env.unwrapped).__module__
    return next((family for prefix, family in FAMILIES.items() if f"{module}.".startswith(f"{prefix}.")), OTHER)


def make_game(env_id: str, params: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The environment with its settings, drawing pictures where it can. Raises UsageError in one sentence."""
    spec = _spec(env_id)
    kwargs = _kwargs(spec, params)
    modes = _render_modes(spec)
    if "rgb_array" in modes:
        kwargs["render_mode"] = "rgb_array"
    try:
        env = gym.make(spec, disable_env_checker=True, **kwargs)
        return FreshWorld(env) if family_of(env) == "box2d" else env
    except Exception as error:  # an environment's constructor is foreign code
        if why := wrong_setting(spec, kwargs):
            raise UsageError(why) from error
        raise _not_made(env_id, spec.entry_point, error) from error


def chosen_settings(params: Mapping[str, Any]) -> dict[str, Any]:
    """What of a session's parameters are settings of the game, for the record."""
    chosen = {name: params[name] for name in GAME_SETTINGS if params.get(name) not in (None, "")}
    return {**chosen, **(params.get("env_kwargs") or {})}


def settings_of(env_id: str) -> dict[str, Any]:
    """The settings that this game has, each with its default. Raises UsageError."""
    spec = _spec(env_id)
    creator = _creator(spec)
    try:
        parameters = inspect.signature(creator).parameters
    except (TypeError, ValueError):
        return {}
    found = {}
    for name, names in GAME_SETTINGS.items():
        if (taken := next((one for one in names if one in parameters), None)) is not None:
            default = spec.kwargs.get(taken, parameters[taken].default)
            found[name] = default if isinstance(default, bool | int | float | str) else None
    return found


def _spec(env_id: str) -> gym.envs.registration.EnvSpec:
    if not env_id:
        raise UsageError("--env-id is missing: name the environment to play, such as FrozenLake-v1")
    _register_others(env_id)
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            __import__(module)  # as gymnasium spells it: the module registers the environment
        return gym.spec(name)
    except gym.error.Error as error:
        hint = did_you_mean(name, gym.registry)
        raise UsageError(f"There is no environment {env_id!r}{hint}") from error
    except Exception as error:  # the module is foreign code
        raise UsageError(f"{env_id} cannot be made here: {type(error).__name__}: {one_line(str(error))}") from error


def _register_others(env_id: str) -> None:
    """Packages that register their environments only when they are imported."""
    is_old_atari = env_id not in gym.registry and env_id.endswith(_OLD_ATARI)
    packages = (("ALE/", "ale_py"), ("MiniGrid-", "minigrid"), ("BabyAI-", "minigrid"))
    for prefix, package in (("", "ale_py"),) if is_old_atari else packages:
        if env_id.startswith(prefix):
            try:
                gym.register_envs(__import__(package))
            except ImportError:
                raise _without_package(env_id, package) from None


def _without_package(env_id: str, package: str) -> UsageError:
    extra = dict(_PACKAGES.values())[package]
    how = f"`python -m cleanrl_worker.tools.install_extras --set {extra}` installs it"
    return UsageError(f"{env_id} needs the package {package}, which is not installed here: {how}")


def _not_made(env_id: str, entry_point: Any, error: Exception) -> UsageError:
    """Why an environment could not be made; where its package is missing, with the command that installs it."""
    for module, (package, _) in _PACKAGES.items():
        if str(entry_point).startswith((f"{module}.", f"{module}:")) and find_spec(package) is None:
            return _without_package(env_id, package)
    return UsageError(f"{env_id} cannot be made here: {type(error).__name__}: {one_line(str(error))}")


def _kwargs(spec: gym.envs.registration.EnvSpec, params: Mapping[str, Any]) -> dict[str, Any]:
    more = dict(params.get("env_kwargs") or {})
    if wrong := sorted(_FOREIGN_SETTINGS & more.keys()):
        raise UsageError(f"--env-kwargs cannot set {wrong[0]!r}: the session decides it")
    taken = _taken_by(spec)
    for name, names in GAME_SETTINGS.items():
        value = params.get(name)
        if value is None or value == "":
            continue
        found = next((one for one in names if one in taken), None)
        if found is None:
            offered = ", ".join(f"--{one.replace('_', '-')}" for one in GAME_SETTINGS if _is_taken(one, taken))
            advice = f"it has {offered}" if offered else "it has none"
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is not a setting of {spec.id}: {advice}")
        more[found] = value
    return more


def _is_taken(setting: str, taken: frozenset[str]) -> bool:
    return any(name in taken for name in GAME_SETTINGS[setting])


def _creator(spec: gym.envs.registration.EnvSpec) -> Any:
    point = spec.entry_point
    try:
        return load_env_creator(point) if isinstance(point, str) else point
    except Exception as error:  # foreign code is imported
        raise _not_made(spec.id, point, error) from error


def _taken_by(spec: gym.envs.registration.EnvSpec) -> frozenset[str]:
    creator = _creator(spec)
    try:
        return frozenset(inspect.signature(creator).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _render_modes(spec: gym.envs.registration.EnvSpec) -> tuple[str, ...]:
    metadata = getattr(_creator(spec), "metadata", None)
    modes = metadata.get("render_modes", ()) if isinstance(metadata, Mapping) else ()
    return tuple(modes)
