"""Whether an environment exists and suits an algorithm, asked before a run starts. Imports gymnasium, not torch."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from typing import Any

from cleanrl_worker.config import PACKAGE, ConfigError
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import load_manifest

_KINDS = {"Discrete": "discrete", "Box": "continuous", "MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary"}


def describe_environment(env_id: str) -> dict[str, str]:
    """Make the environment once and tell its spaces. Raises :class:`ConfigError` when it cannot be made."""
    env = _made(env_id)
    try:
        return {
            "observation_space": str(env.observation_space),
            "action_space": str(env.action_space),
            "action_kind": _KINDS.get(type(env.action_space).__name__, type(env.action_space).__name__),
        }
    finally:
        env.close()


def check_action_space(algo: str, accepted: tuple[str, ...], env_id: str, found: dict[str, str]) -> None:
    """Refuse an environment whose actions the algorithm cannot choose."""
    kind = found["action_kind"]
    if not accepted or kind in accepted:
        return
    offered = load_manifest(PACKAGE).algorithms.items()
    others = [name for name, other in offered if kind in other.action_spaces]
    advice = f" Try {_listed(others)}." if others else ""
    wanted = " or ".join(accepted)
    raise ConfigError(f"{algo} needs a {wanted} action space; {env_id} has {found['action_space']}.{advice}")


def _made(env_id: str) -> Any:
    import gymnasium
    from gymnasium.error import DependencyNotInstalled, Error

    try:
        # What packages print or warn of while they are imported would stand between the caller and our one answer.
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
            return gymnasium.make(env_id)
    except DependencyNotInstalled as error:
        raise ConfigError(f"{env_id} needs a package that is not installed: {_first_line(error)}") from error
    except (Error, ImportError) as error:
        if env_id in gymnasium.registry:
            raise ConfigError(f"{env_id} cannot be made here: {_first_line(error)}") from error
        raise ConfigError(f"there is no environment {env_id!r}{did_you_mean(env_id, gymnasium.registry)}") from error
    except Exception as error:  # an environment's constructor is foreign code
        raise ConfigError(f"{env_id} cannot be made here: {type(error).__name__}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
