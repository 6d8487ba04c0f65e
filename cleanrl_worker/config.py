"""What a CleanRL run is to do: the worker config, merged with the command line and checked against the script.

Everything that can be known before the run starts is checked here, and each refusal is one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any

from cleanrl_worker.flags import Flag, FlagError, checked, command_line, read_flags
from mosaic_protocol.suggest import did_you_mean, shown
from mosaic_protocol.worker_manifest import load_manifest

PACKAGE = Path(__file__).resolve().parent

KNOWN_EXTRAS = (
    "algo_params",
    "notes",
    "requirements",
    "tensorboard_dir",
    "track_wandb",
)


OWN_SETTINGS = ("env_id", "seed", "total_timesteps")
"""Flags of every script that the config has fields for; the manifest and the listings tell those."""


class ConfigError(ValueError):
    """A config that cannot be run; the message is one sentence for the person who wrote it."""


@dataclass(frozen=True)
class WorkerConfig:
    """One run as the worker understands it."""

    algo: str = ""
    env_id: str = ""
    seed: int = 1
    total_timesteps: int | None = None
    script: str = ""
    """A script of the user's own instead of an algorithm."""
    run_id: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None, overrides: Mapping[str, Any]) -> WorkerConfig:
        """Read a config file (a worker config or a whole run config) and put the command line's words over it."""
        content = _worker_part(_read(path)) if path is not None else {}
        known = {one.name for one in fields(cls)}
        for name in content:
            if name not in known:
                raise ConfigError(f"the worker config has an unknown field {name!r}{did_you_mean(name, known)}")
        given = {name: value for name, value in overrides.items() if value is not None}
        params = given.pop("algo_params", {})
        return replace(cls(), **{**content, **given}).checked().with_params(params)

    @property
    def params(self) -> dict[str, Any]:
        """The script's own flags."""
        return dict(self.extras.get("algo_params") or {})

    @property
    def checkpoint_every(self) -> Any:
        return (self.artifacts.get("checkpoints") or {}).get("every_steps")

    def with_params(self, params: Mapping[str, Any]) -> WorkerConfig:
        merged = {**self.params, **params}
        for name in OWN_SETTINGS:
            _require(name not in merged, f"{name} is a setting of the run itself: give it outside the script's flags")
        return replace(self, extras={**self.extras, "algo_params": merged})

    def checked(self) -> WorkerConfig:
        self._check_types()
        _require(0 <= self.seed < 2**32, f"seed must be 0 to 4294967295, got {shown(self.seed)}")
        steps = self.total_timesteps
        _require(
            steps is None or 1 <= steps <= 10**12, f"total_timesteps must be between 1 and 10^12, got {shown(steps)}"
        )
        _require(bool(self.algo or self.script), "the config names neither an algo nor a script")
        for name in self.extras:
            _require(name in KNOWN_EXTRAS, f"extras has an unknown field {name!r}{did_you_mean(name, KNOWN_EXTRAS)}")
        _require(not self.extras.get("track_wandb"), "track_wandb is not available in this version: turn it off")
        return self

    def _check_types(self) -> None:
        for name in ("algo", "env_id", "script", "run_id"):
            _require_type(name, getattr(self, name), str, "a text")
        _require_type("seed", self.seed, int, "a whole number")
        _require_type("total_timesteps", self.total_timesteps, int | None, "a whole number")
        _require_type("extras", self.extras, dict, "an object")
        _require_type("extras.algo_params", self.extras.get("algo_params"), dict | None, "an object")
        _require_type("artifacts", self.artifacts, dict, "an object")
        _require_type("artifacts.checkpoints", self.artifacts.get("checkpoints"), dict | None, "an object")


@dataclass(frozen=True)
class ScriptPlan:
    """The script that runs, with its whole command line."""

    name: str
    path: Path
    arguments: tuple[str, ...]
    action_spaces: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: WorkerConfig) -> ScriptPlan:
        """Find the script and check every flag against it. Raises :class:`ConfigError`."""
        path, spaces = _script_of(config)
        try:
            flags = read_flags(path)
        except (OSError, SyntaxError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise ConfigError(f"{path} cannot be read as a Python script: {error}") from error
        name = config.algo or path.stem
        return cls(name, path, tuple(_arguments(config, flags, name)), spaces)


def _arguments(config: WorkerConfig, flags: dict[str, Flag], name: str) -> list[str]:
    """Own settings go first, extras after them, so that what the user wrote last wins."""
    own: dict[str, Any] = {"env_id": config.env_id or None, "seed": config.seed}
    own |= {"total_timesteps": config.total_timesteps, "checkpoint_every": config.checkpoint_every}
    wanted = {key: value for key, value in own.items() if value is not None and (not flags or key in flags)}
    wanted |= {key.replace("-", "_"): value for key, value in config.params.items()}
    if not flags:
        return command_line({key: value for key, value in wanted.items() if value is not None})
    try:
        return command_line({key: checked(flags, key, value, name) for key, value in wanted.items()})
    except FlagError as error:
        raise ConfigError(str(error)) from None


def _script_of(config: WorkerConfig) -> tuple[Path, tuple[str, ...]]:
    if config.script:
        path = Path(config.script).expanduser()
        _require(path.is_absolute() and path.is_file(), f"there is no script {config.script!r} (give its full path)")
        return path, ()
    algorithms = load_manifest(PACKAGE).algorithms
    found = algorithms.get(config.algo)
    if found is None or found.script is None:
        raise ConfigError(f"there is no algorithm {config.algo!r}{did_you_mean(config.algo, algorithms)}")
    return PACKAGE / found.script, tuple(found.action_spaces)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as a JSON config: {error}") from error
    _require(isinstance(content, dict), f"{path} must hold a JSON object")
    return dict(content)


def _worker_part(content: dict[str, Any]) -> dict[str, Any]:
    """A whole run config carries the worker's part in ``metadata.worker.config``."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return content
    worker = metadata.get("worker")
    part = worker.get("config") if isinstance(worker, dict) else None
    if not isinstance(part, dict):
        raise ConfigError("metadata.worker.config is missing from the run config")
    return {**part, "artifacts": content.get("artifacts") or {}}


def _require_type(name: str, value: object, kind: type | UnionType, spoken: str) -> None:
    right = isinstance(value, kind) and not isinstance(value, bool)  # Python takes True for the number 1
    _require(right, f"{name} must be {spoken}, got {shown(value)}")


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ConfigError(sentence)
