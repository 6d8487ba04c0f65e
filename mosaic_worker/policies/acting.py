"""A checkpoint that acts again: read, checked, given to the code that wrote it.

What an algorithm learned is put to use by the module of its script, or, where a worker has no scripts, by the module
``policies`` of its package. Either has the two functions that :mod:`mosaic_worker.policies.policy` describes. Arguments
come as the module's dataclass ``Args`` where it has one, else as an object with the checkpoint's arguments.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import gymnasium as gym

from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import load_manifest
from mosaic_worker.errors import UsageError
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import (
    Checkpoint,
    CheckpointError,
    CheckpointManifest,
    describe_space,
    load,
    read_manifest,
)
from mosaic_worker.supervision.launcher import use_threads_of_this_run

_WITHOUT_SCRIPTS = "policies"
"""The module that puts checkpoints to use where algorithms have no scripts."""
_FOREIGN = "foreign_checkpoints"
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
        args = self.args if env_id is None else _with_environment(self.args, env_id)
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


def load_acting(path: Path, worker: Path) -> LoadedPolicy:
    """Read a checkpoint, byte for byte checked, and make it act. `worker`: the folder of the package that wrote it.

    Raises CheckpointError for one that is damaged or incomplete, UsageError for one that cannot be used here.
    """
    script = script_for(read_manifest(path).algo, worker)  # before gigabytes are read in vain
    use_threads_of_this_run()
    checkpoint = load(path)
    if (foreign := _foreign(checkpoint.manifest.algo, worker)) is not None:
        checkpoint = foreign.translated(checkpoint, script)
    args = arguments_of(script, checkpoint.manifest.args | {"env_id": checkpoint.manifest.env_id})
    try:
        policy: Policy = script.load_policy(checkpoint, args)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path} cannot act: {type(error).__name__}: {_one_line(error)}.") from error
    return LoadedPolicy(checkpoint, policy, script, args)


def script_for(algo: str, worker: Path) -> ModuleType:
    """The code that acts with what an algorithm learned, its own or its twin's, as a module. Raises UsageError when its
    policies cannot act here."""
    if "/" in algo:  # as the harness names upstream's scripts: no algorithm of a manifest has one
        foreign = _foreign(algo, worker)
        if foreign is None:
            known = "is a script that does not know MOSAIC: its checkpoints can be resumed, not evaluated"
            raise UsageError(f"{algo} {known}")
        algo = str(foreign.algorithm_of(algo))
    offered = load_manifest(worker).algorithms
    if algo not in offered:
        raise UsageError(f"there is no algorithm {algo!r} here{did_you_mean(algo, offered)}")
    acting = offered[algo].twin or algo
    module = (offered[acting].script or _WITHOUT_SCRIPTS).removesuffix(".py").replace("/", ".")
    try:
        script = importlib.import_module(f"{worker.name}.{module}")
    except ImportError as error:
        raise UsageError(f"{algo} cannot be used here: {_one_line(error)}") from error
    if not hasattr(script, "load_policy") or not hasattr(script, "make_evaluation_env"):
        raise UsageError(f"checkpoints of {algo} cannot act outside their training yet")
    return script


def _foreign(algo: str, worker: Path) -> ModuleType | None:
    """The worker's module that gives checkpoints of this foreign script the form of an algorithm of its own, if it
    can: ``algorithm_of(algo)`` names that one, ``translated(checkpoint, script)`` does it."""
    name = f"{worker.name}.{_FOREIGN}"
    if "/" not in algo or importlib.util.find_spec(name) is None:
        return None
    module = importlib.import_module(name)
    return module if module.algorithm_of(algo) is not None else None


def arguments_of(script: ModuleType, saved: dict[str, Any]) -> Any:
    """A script's ``Args`` as a run had them, apart from what would start something."""
    inherited = {**saved, **_NEVER_INHERITED}
    if not hasattr(script, "Args"):
        return SimpleNamespace(**inherited)
    known = {field.name for field in dataclasses.fields(script.Args)}
    return script.Args(**{name: value for name, value in inherited.items() if name in known})


def _with_environment(args: Any, env_id: str) -> Any:
    if isinstance(args, SimpleNamespace):
        return SimpleNamespace(**{**vars(args), "env_id": env_id})
    return dataclasses.replace(args, env_id=env_id)


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


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
