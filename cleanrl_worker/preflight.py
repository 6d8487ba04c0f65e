"""Whether an environment exists and suits an algorithm, asked before a run starts. Imports gymnasium, not torch."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any, NamedTuple

from cleanrl_worker.config import PACKAGE, ConfigError
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import load_manifest

_KINDS = {"Discrete": "discrete", "Box": "continuous", "MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary"}
_EXTRA_OF = {
    "ale_py": "atari",
    "cv2": "atari",
    "envpool": "envpool",
    "mujoco": "mujoco",
    "Box2D": "box2d",
}
"""Module that may be missing → the set of extras that brings it."""
_EXTRA_OF_ENTRY_POINT = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d", "ale_py": "atari"}


class Spaces(NamedTuple):
    observation: Any
    action: Any


class MissingExtraError(ConfigError):
    """Something optional that the environment needs is not installed."""


def describe_environment(env_id: str, algo: str = "") -> dict[str, str]:
    """The spaces of an environment, looked for where the algorithm gets its environments from.

    Without an algorithm of the manifest that is Gymnasium. Raises :class:`ConfigError` when it cannot be made.
    """
    spaces = _spaces(env_id, algo)
    return {
        "observation_space": str(spaces.observation),
        "action_space": str(spaces.action),
        "action_kind": _KINDS.get(type(spaces.action).__name__, type(spaces.action).__name__),
    }


def check_action_space(algo: str, accepted: tuple[str, ...], env_id: str, found: dict[str, str]) -> None:
    """Refuse an environment whose actions the algorithm cannot choose."""
    kind = found["action_kind"]
    if not accepted or kind in accepted:
        return
    offered = load_manifest(PACKAGE).algorithms.items()
    others = [name for name, other in offered if kind in other.action_spaces and "gymnasium" in other.environments]
    advice = f" Try {_listed(others)}." if others else ""
    wanted = " or ".join(accepted)
    raise ConfigError(f"{algo} needs a {wanted} action space; {env_id} has {found['action_space']}.{advice}")


def _spaces(env_id: str, algo: str) -> Spaces:
    """From the first source that has it. When none does, a missing package explains more than an unknown name."""
    from cleanrl_worker.atari import is_atari_name

    offered = load_manifest(PACKAGE).algorithms
    sources = offered[algo].environments if algo in offered else ("gymnasium",)
    refusals: list[ConfigError] = []
    for source in sources:
        try:
            return _SOURCES[source](env_id)
        except ConfigError as error:
            refusals.append(error)
    if missing := [error for error in refusals if isinstance(error, MissingExtraError)]:
        raise missing[0]
    # An algorithm may play Atari's games and others: the refusal of the source that the name belongs to explains more.
    raise refusals[0] if is_atari_name(env_id) else refusals[-1]


def _from_gymnasium(env_id: str) -> Spaces:
    from cleanrl_worker.atari import is_atari_name

    if is_atari_name(env_id):
        players = [name for name, other in load_manifest(PACKAGE).algorithms.items() if "atari" in other.environments]
        raise ConfigError(f"{env_id} is an Atari game, which this algorithm does not play. Try {_listed(players)}.")
    env = _made(env_id)
    try:
        return Spaces(env.observation_space, env.action_space)
    finally:
        env.close()


def _from_ale(env_id: str) -> Spaces:
    from cleanrl_worker.atari import AtariEvaluation, UnknownGameError

    try:
        import cv2  # noqa: F401 - needed with the first picture

        game = AtariEvaluation(env_id)
    except ImportError as error:
        raise _missing(env_id, "atari", error) from error
    except UnknownGameError as error:
        raise ConfigError(_about(env_id, error)) from error
    return Spaces(game.observation_space, game.action_space)


def _from_envpool(env_id: str) -> Spaces:
    from cleanrl_worker.envpool_games import envpool_name

    return _game_of_envpool(env_id, envpool_name, "envpool")


def _from_procgen(env_id: str) -> Spaces:
    from cleanrl_worker.envpool_games import procgen_name

    return _game_of_envpool(env_id, procgen_name, "procgen")


def _game_of_envpool(env_id: str, name_of: Callable[[str], str], extra: str) -> Spaces:
    from cleanrl_worker.atari import UnknownGameError

    try:
        return _in_envpool(name_of(env_id))
    except ImportError as error:
        raise _missing(env_id, extra, error) from error
    except UnknownGameError as error:
        raise ConfigError(_about(env_id, error)) from error


_SOURCES: dict[str, Callable[[str], Spaces]] = {
    "gymnasium": _from_gymnasium,
    "atari": _from_ale,
    "envpool": _from_envpool,
    "procgen": _from_procgen,
}


def _in_envpool(name: str) -> Spaces:
    """The spaces of one of EnvPool's environments, which is not made for that."""
    import envpool

    found = envpool.make_spec(name)
    return Spaces(found.gymnasium_observation_space, found.gymnasium_action_space)


def _made(env_id: str) -> Any:
    import gymnasium
    from gymnasium.error import DependencyNotInstalled, Error

    try:
        # What packages print or warn of while they are imported would stand between the caller and the one answer.
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
            return gymnasium.make(env_id)
    except (DependencyNotInstalled, ImportError) as error:
        if extra := _extra_for(env_id, error):
            raise _missing(env_id, extra, error) from error
        if isinstance(error, DependencyNotInstalled):
            raise ConfigError(f"{env_id} needs a package that is not installed: {_first_line(error)}") from error
        raise _refused(env_id, error) from error
    except Error as error:
        raise _refused(env_id, error) from error
    except Exception as error:  # an environment's constructor is foreign code
        raise ConfigError(f"{env_id} cannot be made here: {type(error).__name__}: {_first_line(error)}") from error


def _refused(env_id: str, error: Exception) -> ConfigError:
    import gymnasium

    if env_id in gymnasium.registry:
        return ConfigError(f"{env_id} cannot be made here: {_first_line(error)}")
    return ConfigError(f"there is no environment {env_id!r}{did_you_mean(env_id, gymnasium.registry)}")


def _extra_for(env_id: str, error: BaseException | None) -> str | None:
    """The set of extras that was missing: by the module that could not be imported, or by where the environment is."""
    import gymnasium

    while error is not None:
        module = str(getattr(error, "name", None) or "").partition(".")[0]
        if module in _EXTRA_OF:
            return _EXTRA_OF[module]
        error = error.__cause__ or error.__context__
    registered = gymnasium.registry.get(env_id)
    where = str(registered.entry_point) if registered is not None else ""
    return next((extra for start, extra in _EXTRA_OF_ENTRY_POINT.items() if where.startswith(start)), None)


def _missing(env_id: str, extra: str, error: BaseException) -> MissingExtraError:
    command = f"python -m cleanrl_worker.tools.install_extras --set {extra}"
    # A package that is there and does not load (a system library may be missing) explains more than a missing one.
    broken = isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError)
    reason = f" ({_first_line(error)})" if broken else ", which is not installed"
    return MissingExtraError(f"{env_id} needs the {extra} extra{reason}. Install it with: {command}")


def _about(env_id: str, error: Exception) -> str:
    text = str(error)
    return f"an Atari game is needed, and {text}" if text.startswith(f"{env_id} is none") else text


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
