"""Whether Gymnasium has an environment and an algorithm can use it, asked before a run starts. Imports gymnasium, not
torch."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from typing import Any, NamedTuple

from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_worker.script_worker.config import ConfigError

_KINDS = {"Discrete": "discrete", "Box": "continuous", "MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary"}
_EXTRA_OF = {
    "ale_py": "atari",
    "cv2": "atari",
    "envpool": "envpool",
    "mujoco": "mujoco",
    "dm_control": "dm-control",
    "Box2D": "box2d",
}
"""Module that may be missing → the set of extras that brings it."""
_EXTRA_OF_ENTRY_POINT = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "box2d", "ale_py": "atari"}


class Spaces(NamedTuple):
    observation: Any
    action: Any

    def described(self) -> dict[str, str]:
        """For a person, and what kind of actions there are in a manifest's words."""
        return {
            "observation_space": str(self.observation),
            "action_space": str(self.action),
            "action_kind": _KINDS.get(type(self.action).__name__, type(self.action).__name__),
        }


class MissingExtraError(ConfigError):
    """Something optional that the environment needs is not installed."""


def check_action_space(
    algo: str, accepted: tuple[str, ...], env_id: str, found: dict[str, str], manifest: WorkerManifest
) -> None:
    """Refuse an environment whose actions the algorithm cannot choose."""
    kind = found["action_kind"]
    if not accepted or kind in accepted:
        return
    offered = manifest.algorithms.items()
    others = [name for name, other in offered if kind in other.action_spaces and "gymnasium" in other.environments]
    advice = f" Try {listed(others)}." if others else ""
    wanted = " or ".join(accepted)
    raise ConfigError(f"{algo} needs a {wanted} action space; {env_id} has {found['action_space']}.{advice}")


def gymnasium_spaces(env_id: str, manifest: WorkerManifest) -> Spaces:
    """The spaces of one of Gymnasium's environments, made for a moment. Raises :class:`ConfigError`."""
    env = _made(env_id, manifest)
    try:
        return Spaces(env.observation_space, env.action_space)
    finally:
        env.close()


def _made(env_id: str, manifest: WorkerManifest) -> Any:
    import gymnasium
    from gymnasium.error import DependencyNotInstalled, Error

    from mosaic_worker.training.environments import DM_CONTROL, make_known

    try:
        # What packages print or warn of while they are imported would stand between the caller and the one answer.
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
            make_known(env_id)
            return gymnasium.make(env_id)
    except (DependencyNotInstalled, ImportError) as error:
        if extra := _extra_for(env_id, error):
            raise missing_extra(env_id, extra, error, manifest) from error
        if isinstance(error, DependencyNotInstalled):
            raise ConfigError(f"{env_id} needs a package that is not installed: {_first_line(error)}") from error
        raise _refused(env_id, error) from error
    except Error as error:
        if env_id.startswith(DM_CONTROL) and not any(name.startswith(DM_CONTROL) for name in gymnasium.registry):
            raise missing_extra(env_id, "dm-control", error, manifest) from error
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


def missing_extra(env_id: str, extra: str, error: BaseException, manifest: WorkerManifest) -> MissingExtraError:
    """The sentence with the command that installs it."""
    command = f"python -m {manifest.extras_module} --set {extra}"
    # A package that is there and does not load (a system library may be missing) explains more than a missing one.
    broken = isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError)
    reason = f" ({_first_line(error)})" if broken else ", which is not installed"
    return MissingExtraError(f"{env_id} needs the {extra} extra{reason}. Install it with: {command}")


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


def listed(names: list[str]) -> str:
    """Names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
