"""What a CleanRL run is to do: the worker config, merged with the command line. Each refusal is one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any

from mosaic_protocol.suggest import did_you_mean, shown

PACKAGE = Path(__file__).resolve().parent

KNOWN_EXTRAS = (
    "algo_params",
    "notes",
    "requirements",
    "track_wandb",
    "wandb_entity",
    "wandb_http_proxy",
    "wandb_https_proxy",
    "wandb_project_name",
    "wandb_run_name",
    "wandb_use_vpn_proxy",
)


OWN_SETTINGS = ("env_id", "seed", "total_timesteps")
"""Flags of every script that the config has fields for; the manifest and the listings tell those."""


SOURCES = ("mosaic", "cleanrl")
"""Whose scripts: ours, or upstream CleanRL's."""


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
    source: str = "mosaic"
    """Whose script of the algorithm: ``mosaic`` or ``cleanrl``."""
    cleanrl_path: str = ""
    """The folder of a CleanRL checkout; without one the package in the managed environment is used."""
    bundle: str = ""
    """The managed environment that the script runs in, where it is not chosen by the daemon."""
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
    def checkpoints(self) -> dict[str, Any]:
        """What the run config says of checkpoints."""
        return dict(self.artifacts.get("checkpoints") or {})

    @property
    def tracks(self) -> bool:
        """Whether Weights & Biases was asked for, in either place that people know."""
        return bool(self.extras.get("track_wandb") or (self.artifacts.get("wandb") or {}).get("enabled"))

    @property
    def is_upstream(self) -> bool:
        return self.source == "cleanrl" or bool(self.cleanrl_path)

    def with_params(self, params: Mapping[str, Any]) -> WorkerConfig:
        merged = {**self.params, **params}
        for name in OWN_SETTINGS:
            require(name not in merged, f"{name} is a setting of the run itself: give it outside the script's flags")
        return replace(self, extras={**self.extras, "algo_params": merged})

    def checked(self) -> WorkerConfig:
        self._check_types()
        require(0 <= self.seed < 2**32, f"seed must be 0 to 4294967295, got {shown(self.seed)}")
        steps = self.total_timesteps
        require(
            steps is None or 1 <= steps <= 10**12, f"total_timesteps must be between 1 and 10^12, got {shown(steps)}"
        )
        require(bool(self.algo or self.script), "the config names neither an algo nor a script")
        require(self.source in SOURCES, f"source must be mosaic or cleanrl, got {shown(self.source)}")
        require(not (self.script and self.is_upstream), "give a script or source=cleanrl, not both")
        for name in self.extras:
            require(name != "tensorboard_dir", "extras.tensorboard_dir is not needed: the files lie with the run")
            require(name in KNOWN_EXTRAS, f"extras has an unknown field {name!r}{did_you_mean(name, KNOWN_EXTRAS)}")
        return self

    def _check_types(self) -> None:
        for name in ("algo", "env_id", "script", "run_id", "source", "cleanrl_path", "bundle"):
            require_type(name, getattr(self, name), str, "a text")
        require_type("seed", self.seed, int, "a whole number")
        require_type("total_timesteps", self.total_timesteps, int | None, "a whole number")
        require_type("extras", self.extras, dict, "an object")
        require_type("extras.algo_params", self.extras.get("algo_params"), dict | None, "an object")
        require_type("artifacts", self.artifacts, dict, "an object")
        require_type("artifacts.checkpoints", self.artifacts.get("checkpoints"), dict | None, "an object")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read as a JSON config: {error}") from error
    require(isinstance(content, dict), f"{path} must hold a JSON object")
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


def require_type(name: str, value: object, kind: type | UnionType, spoken: str) -> None:
    """Refuse a value of another type."""
    right = isinstance(value, kind) and not isinstance(value, bool)  # Python takes True for the number 1
    require(right, f"{name} must be {spoken}, got {shown(value)}")


def require(condition: bool, sentence: str) -> None:
    """Refuse with a sentence unless it holds."""
    if not condition:
        raise ConfigError(sentence)
