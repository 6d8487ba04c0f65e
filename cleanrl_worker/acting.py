"""A checkpoint that acts again: read, checked, given to the script that wrote it."""

from __future__ import annotations

import dataclasses
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym

from cleanrl_worker.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointManifest,
    describe_space,
    load,
    read_manifest,
)
from cleanrl_worker.config import PACKAGE
from cleanrl_worker.policies import Policy
from cleanrl_worker.session import UsageError
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import load_manifest

UPSTREAM_PREFIX = "cleanrl/"
_NEVER_INHERITED = {"resume": None, "warm_start": None, "track": False, "capture_video": False, "cuda": False}
_TOLD_OF_A_SPACE = ("type", "shape", "dtype", "n", "start")


@dataclass(frozen=True)
class LoadedPolicy:
    """A checkpoint that can act."""

    checkpoint: Checkpoint
    policy: Policy
    script: ModuleType
    args: Any

    @property
    def manifest(self) -> CheckpointManifest:
        return self.checkpoint.manifest

    def make_env(self, env_id: str | None = None, render_mode: str | None = None) -> gym.Env[Any, Any]:
        """The environment of its training, or another one with the same spaces. Raises UsageError."""
        args = self.args if env_id is None else dataclasses.replace(self.args, env_id=env_id)
        env = made(self.script, args, render_mode)
        try:
            self._check_spaces(env, args.env_id)
        except UsageError:
            env.close()
            raise
        return env

    def _check_spaces(self, env: gym.Env[Any, Any], env_id: str) -> None:
        here = {"observation": describe_space(env.observation_space), "action": describe_space(env.action_space)}
        differing = [what for what, space in here.items() if _told(space) != _told(self.manifest.spaces.get(what, {}))]
        if differing:
            needs = _listed(self.manifest.spaces, differing)
            raise UsageError(
                f"this policy of {self.manifest.env_id} does not fit {env_id}: it needs {needs}, "
                f"{env_id} has {_listed(here, differing)}"
            )


def load_acting(path: Path) -> LoadedPolicy:
    """Read a checkpoint, byte for byte checked, and make it act.

    Raises CheckpointError for one that is damaged or incomplete, UsageError for one that nobody here can use.
    """
    script = script_for(read_manifest(path).algo)  # before gigabytes are read in vain
    checkpoint = load(path)
    args = arguments_of(script, checkpoint.manifest.args | {"env_id": checkpoint.manifest.env_id})
    try:
        policy: Policy = script.load_policy(checkpoint, args)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot act: {type(error).__name__}: {_one_line(error)}.") from error
    return LoadedPolicy(checkpoint, policy, script, args)


def script_for(algo: str) -> ModuleType:
    """The script that wrote a checkpoint, as a module. Raises UsageError when its policies cannot act here."""
    if algo.startswith(UPSTREAM_PREFIX):
        raise UsageError(f"{algo} is a script of CleanRL's own: its checkpoints can be resumed, not evaluated yet")
    offered = load_manifest(PACKAGE).algorithms
    if algo not in offered or offered[algo].script is None:
        raise UsageError(f"there is no algorithm {algo!r} here{did_you_mean(algo, offered)}")
    try:
        script = importlib.import_module(f"{PACKAGE.name}.{_dotted(str(offered[algo].script))}")
    except ImportError as error:
        raise UsageError(f"{algo} cannot be used here: {_one_line(error)}") from error
    if not hasattr(script, "load_policy") or not hasattr(script, "make_evaluation_env"):
        raise UsageError(f"checkpoints of {algo} cannot act outside their training yet")
    return script


def arguments_of(script: ModuleType, saved: dict[str, Any]) -> Any:
    """A script's ``Args`` as a run had them, apart from what would start something."""
    known = {field.name for field in dataclasses.fields(script.Args)}
    return script.Args(**{name: value for name, value in {**saved, **_NEVER_INHERITED}.items() if name in known})


def made(script: ModuleType, args: Any, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """A script's environment for evaluation. Raises UsageError in one sentence, whatever the environment raises."""
    try:
        env: gym.Env[Any, Any] = script.make_evaluation_env(args, render_mode)
    except UsageError:
        raise
    except Exception as error:  # an environment's constructor is foreign code
        raise UsageError(f"{args.env_id} cannot be made here: {type(error).__name__}: {_one_line(error)}") from error
    return env


def _told(space: dict[str, Any]) -> dict[str, Any]:
    return {key: space[key] for key in _TOLD_OF_A_SPACE if key in space}


def _listed(spaces: dict[str, Any], parts: list[str]) -> str:
    return " and ".join(f"{what}s in {brief_space(spaces.get(what, {}))}" for what in parts)


def brief_space(space: dict[str, Any]) -> str:
    """A described space in a few characters: Box(4,) of float32, Discrete(2)."""
    if space.get("type") == "Box":
        shape = ", ".join(map(str, space.get("shape", ())))
        return f"Box({shape}{',' if len(space.get('shape', ())) == 1 else ''})"
    return str(space.get("text") or "an unknown space")


def _dotted(script: str) -> str:
    return script.removesuffix(".py").replace("/", ".")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
