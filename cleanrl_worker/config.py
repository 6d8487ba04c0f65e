"""What a CleanRL run is to do: the worker config, merged with the command line and checked against the script.

Everything that can be known before the run starts is checked here, and each refusal is one sentence.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any

from cleanrl_worker.control import CHECKPOINTS_VARIABLE
from cleanrl_worker.flags import Flag, FlagError, checked, command_line, read_flags
from cleanrl_worker.harness import capabilities
from cleanrl_worker.harness.capabilities import Capabilities
from cleanrl_worker.harness.run import HarnessOrder
from cleanrl_worker.harness.source import ScriptSource
from cleanrl_worker.tracking.plan import PROXY_SWITCH
from cleanrl_worker.upstream import (
    UPSTREAM_BUNDLE,
    UpstreamError,
    script_python,
    upstream_folder,
    upstream_script,
)
from mosaic_protocol.suggest import did_you_mean, shown
from mosaic_protocol.worker_manifest import load_manifest

PACKAGE = Path(__file__).resolve().parent

KNOWN_EXTRAS = (
    "algo_params",
    "notes",
    "requirements",
    "track_wandb",
    "wandb_entity",
    "wandb_project_name",
    "wandb_run_name",
    "wandb_use_vpn_proxy",
)


OWN_SETTINGS = ("env_id", "seed", "total_timesteps")
"""Flags of every script that the config has fields for; the manifest and the listings tell those."""


_MODULE_OF_SET = {
    "atari": "ale_py",
    "box2d": "Box2D",
    "envpool": "envpool",
    "jax": "jax",
    "mujoco": "mujoco",
    "procgen": "envpool",
    "video": "av",
    "wandb": "wandb",
}
"""A module by which a set of extras is known to be there."""
SOURCES = ("mosaic", "cleanrl")
"""Whose scripts: ours, or upstream CleanRL's."""
_HARNESS_SETTINGS = ("checkpoint_every", "checkpoint_keep", "resume", "warm_start")
"""What the harness does for scripts that have no flags for it."""
_READS_A_COMMAND_LINE = frozenset({"argparse", "click", "fire", "getopt", "optparse", "tyro", "typer", "absl"})


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
        _require(self.source in SOURCES, f"source must be mosaic or cleanrl, got {shown(self.source)}")
        _require(not (self.script and self.is_upstream), "give a script or source=cleanrl, not both")
        for name in self.extras:
            _require(name != "tensorboard_dir", "extras.tensorboard_dir is not needed: the files lie with the run")
            _require(name in KNOWN_EXTRAS, f"extras has an unknown field {name!r}{did_you_mean(name, KNOWN_EXTRAS)}")
        return self

    def _check_types(self) -> None:
        for name in ("algo", "env_id", "script", "run_id", "source", "cleanrl_path", "bundle"):
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
    order: HarnessOrder | None = None
    """How the harness runs it; None for scripts that speak to their supervisor themselves."""
    python: Path | None = None
    """The interpreter of its managed environment; None for the worker's own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What its process finds in its environment besides."""
    flags: Mapping[str, Flag] = field(default_factory=dict)
    capabilities: Capabilities = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    """What it imports."""

    @classmethod
    def of(cls, config: WorkerConfig) -> ScriptPlan:
        """Find the script and check every flag against it. Raises :class:`ConfigError`."""
        found = _find(config)
        try:
            source = ScriptSource.read(found.path)
            flags = read_flags(found.path)
        except (OSError, SyntaxError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise ConfigError(f"{found.path} cannot be read as a Python script: {error}") from error
        name = config.algo or found.path.stem
        can = capabilities.of_source(source)
        if source.speaks:
            order, arguments = None, _arguments(config, flags, name, _own_checkpoint_flags(config))
        else:
            order, rest = _order(config, flags, found)
            _require_ability(name, can, order)
            arguments = _arguments(rest, flags, name, {}) if _has_command_line(source, flags, rest) else []
        require_sets(config.extras.get("requirements") or ())
        return cls(
            name,
            found.path,
            tuple(arguments),
            found.action_spaces or (() if source.speaks else source.action_spaces),
            order,
            found.python,
            analytics_environment(config),
            flags,
            can,
            source.imports,
        )


@dataclass(frozen=True)
class _Found:
    """A script and what it needs around it."""

    path: Path
    algo: str
    action_spaces: tuple[str, ...] = ()
    python: Path | None = None
    search: tuple[str, ...] = ()


def _find(config: WorkerConfig) -> _Found:
    try:
        if config.script:
            return _own_script(config)
        return _upstream_script(config) if config.is_upstream else _offered_script(config)
    except UpstreamError as error:
        raise ConfigError(str(error)) from error


def _own_script(config: WorkerConfig) -> _Found:
    path = Path(config.script).expanduser()
    _require(path.is_absolute() and path.is_file(), f"there is no script {config.script!r} (give its full path)")
    return _Found(path, path.stem, python=_foreign_python(config.bundle))


def _upstream_script(config: WorkerConfig) -> _Found:
    python = script_python(config.bundle or UPSTREAM_BUNDLE)
    folder = upstream_folder(config.cleanrl_path, python)
    search = (str(Path(config.cleanrl_path).expanduser()),) if config.cleanrl_path else ()
    return _Found(upstream_script(config.algo, folder), f"cleanrl/{config.algo}", python=python, search=search)


def _offered_script(config: WorkerConfig) -> _Found:
    algorithms = load_manifest(PACKAGE).algorithms
    found = algorithms.get(config.algo)
    if found is None or found.script is None:
        raise ConfigError(f"there is no algorithm {config.algo!r}{did_you_mean(config.algo, algorithms)}")
    return _Found(PACKAGE / found.script, config.algo, tuple(found.action_spaces))


def _foreign_python(bundle: str) -> Path | None:
    """None for this process's own interpreter."""
    python = script_python(bundle)
    return None if python == Path(sys.executable) else python


def _order(config: WorkerConfig, flags: dict[str, Flag], found: _Found) -> tuple[HarnessOrder, WorkerConfig]:
    """What the harness is to do, and the config without it."""
    params = {name.replace("-", "_"): value for name, value in config.params.items()}
    wanted: dict[str, Any] = {
        "checkpoint_every": config.checkpoints.get("every_steps"),
        "checkpoint_keep": config.checkpoints.get("keep_last"),
    }
    wanted |= {name: params.pop(name) for name in _HARNESS_SETTINGS if name in params and name not in flags}
    for name in ("checkpoint_every", "checkpoint_keep"):
        if isinstance(wanted[name], str) and wanted[name].isdecimal():
            wanted[name] = int(wanted[name])
        _require_type(name, wanted[name], int | None, "a whole number")
    order = HarnessOrder(found.algo, **wanted, search=found.search)
    return order, replace(config, extras={**config.extras, "algo_params": params})


def _require_ability(name: str, can: Capabilities, order: HarnessOrder) -> None:
    for wanted in ("resume", "warm_start"):
        if getattr(order, wanted) is not None and not can[wanted].offered:
            raise ConfigError(f"{name} cannot {wanted.replace('_', '-')} from a checkpoint: {can[wanted].why}")


def _has_command_line(source: ScriptSource, flags: dict[str, Flag], config: WorkerConfig) -> bool:
    """A script that reads no command line is given none: it might take one for something else."""
    return bool(flags or config.params or source.imports & _READS_A_COMMAND_LINE)


def _own_checkpoint_flags(config: WorkerConfig) -> dict[str, Any]:
    return {
        "checkpoint_every": config.checkpoints.get("every_steps"),
        "checkpoint_keep": config.checkpoints.get("keep_last"),
    }


def _analytics_flags(config: WorkerConfig) -> dict[str, Any]:
    """What the config says of W&B and videos, as flags: a script that has none of them is refused, not run without."""
    asked: dict[str, Any] = {}
    if config.tracks:
        asked["track"] = True
        named = {name: config.extras.get(name) for name in ("wandb_project_name", "wandb_entity")}
        asked |= {name: value for name, value in named.items() if value}
    if (config.artifacts.get("video") or {}).get("enabled"):
        asked["capture_video"] = True
    return asked


def analytics_environment(config: WorkerConfig) -> dict[str, str]:
    """What a script's process finds in its environment."""
    found = {CHECKPOINTS_VARIABLE: "0"} if config.checkpoints.get("enabled") is False else {}
    if config.tracks and (name := config.extras.get("wandb_run_name")):
        found["WANDB_NAME"] = str(name)
    if config.tracks and config.extras.get("wandb_use_vpn_proxy"):
        found[PROXY_SWITCH] = "1"
    return found


def require_sets(names: Any) -> None:
    """Refuse a run whose sets of extras are not installed, with the command that installs them."""
    _require(isinstance(names, list | tuple), "extras.requirements must be a list of names")
    for name in names:
        if name == "base":
            continue
        marker = _MODULE_OF_SET.get(name)
        _require(marker is not None, f"there is no set of extras {name!r}{did_you_mean(str(name), _MODULE_OF_SET)}")
        missing = marker is not None and importlib.util.find_spec(marker) is None
        command = f"python -m cleanrl_worker.tools.install_extras --set {name}"
        _require(not missing, f"the extras {name!r} are not installed: `{command}`")


def _arguments(config: WorkerConfig, flags: dict[str, Flag], name: str, more: dict[str, Any]) -> list[str]:
    """Own settings go first, extras after them, so that what the user wrote last wins."""
    own: dict[str, Any] = {"env_id": config.env_id or None, "seed": config.seed}
    own |= {"total_timesteps": config.total_timesteps, **more}
    wanted = {key: value for key, value in own.items() if value is not None and (not flags or key in flags)}
    wanted |= _analytics_flags(config)
    wanted |= {key.replace("-", "_"): value for key, value in config.params.items()}
    if not flags:
        return command_line({key: value for key, value in wanted.items() if value is not None})
    try:
        return command_line({key: checked(flags, key, value, name) for key, value in wanted.items()}, flags)
    except FlagError as error:
        raise ConfigError(str(error)) from None


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
