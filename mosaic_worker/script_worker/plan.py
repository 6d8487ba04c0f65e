"""The script that a config asks for, with its whole command line and environment, checked against the script itself.

Everything that can be known before the run starts is checked here, and each refusal is one sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mosaic_protocol.paths import MosaicPaths, checked_name
from mosaic_protocol.suggest import did_you_mean
from mosaic_worker import run_extras
from mosaic_worker.harness import capabilities
from mosaic_worker.harness.capabilities import Capabilities
from mosaic_worker.harness.run import HarnessOrder
from mosaic_worker.harness.source import ScriptSource
from mosaic_worker.script_worker.config import ConfigError, ScriptConfig, require, require_type
from mosaic_worker.scripts.flags import Flag, FlagError, checked, command_line, read_flags
from mosaic_worker.supervision.control import CHECKPOINTS_VARIABLE, SCRIPT_PYTHON_VARIABLE
from mosaic_worker.supervision.planned_script import PlannedScript

_HARNESS_SETTINGS = ("checkpoint_every", "checkpoint_keep", "resume", "warm_start")
"""What the harness does for scripts that have no flags for it."""
_READS_A_COMMAND_LINE = frozenset({"argparse", "click", "fire", "getopt", "optparse", "tyro", "typer", "absl"})


@dataclass(frozen=True)
class FoundScript:
    """A script and what it needs around it."""

    path: Path
    algo: str
    action_spaces: tuple[str, ...] = ()
    python: Path | None = None
    search: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScriptPlan(PlannedScript):
    """The script that runs, and what is known of it."""

    action_spaces: tuple[str, ...] = ()
    flags: Mapping[str, Flag] = field(default_factory=dict)
    capabilities: Capabilities = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()
    """What it imports."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the arguments say, by the names of their flags; {} where the flags cannot be read."""

    @classmethod
    def find(cls, config: ScriptConfig) -> FoundScript:
        """The script: the user's own, or the worker's of the algorithm. Raises :class:`ConfigError`."""
        return _own_script(config) if config.script else _offered_script(config)

    @classmethod
    def to_describe(cls, config: ScriptConfig) -> Self:
        """The plan of a script of which only flags and capabilities are asked. Raises :class:`ConfigError`."""
        return cls.of(config)

    @classmethod
    def of(cls, config: ScriptConfig) -> Self:
        """Find the script and check every flag against it. Raises :class:`ConfigError`."""
        found = cls.find(config)
        try:
            source = ScriptSource.read(found.path)
            flags = read_flags(found.path)
        except (OSError, SyntaxError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise ConfigError(f"{found.path} cannot be read as a Python script: {error}") from error
        name = config.algo or found.path.stem
        can = capabilities.of_source(source)
        if source.speaks:
            order, values = None, _values(config, flags, name, _checkpoint_flags(config))
        else:
            order, rest = _order(config, flags, found)
            _require_ability(name, can, order)
            values = _values(rest, flags, name, {}) if _has_command_line(source, flags, rest) else {}
        run_extras.require_sets(config.extras.get("requirements") or (), config.manifest())
        return cls(
            name=name,
            path=found.path,
            arguments=tuple(command_line(values, flags)),
            order=order,
            python=found.python,
            environment={**checkpoint_environment(config), **tracking_environment(config, speaks=source.speaks)},
            action_spaces=found.action_spaces or (() if source.speaks else source.action_spaces),
            flags=flags,
            capabilities=can,
            libraries=source.imports,
            values=values if flags else {},
        )


def script_python(bundle: str, environ: Mapping[str, str] = os.environ) -> Path:
    """The interpreter for a script that is not MOSAIC's: the one the daemon chose, or that of the bundle's managed
    environment. Raises :class:`ConfigError`."""
    if chosen := environ.get(SCRIPT_PYTHON_VARIABLE):
        return Path(chosen)
    if not bundle:
        return Path(sys.executable)
    try:
        python = MosaicPaths.from_environment().venvs / checked_name(bundle) / "bin" / "python"
    except ValueError as error:
        raise ConfigError(f"bundle {error}") from None
    if not os.access(python, os.X_OK):
        raise ConfigError(f"the bundle {bundle} is not installed: run `mosaic bundles install {bundle}`")
    return python


def python_with_jax(path: Path, bundle: str, plain: str, for_jax: str) -> Path:
    """That of the bundle, else of the one that a script of this kind needs. Raises :class:`ConfigError` where that has
    no JAX and the script needs it."""
    try:
        needs_jax = "jax" in ScriptSource.read(path).imports
    except (OSError, SyntaxError, ValueError):
        needs_jax = False  # the plan says what is wrong with it
    python = script_python(bundle or (for_jax if needs_jax else plain))
    if needs_jax and not [*python.parent.parent.glob("lib/python3*/site-packages/jax")]:
        raise ConfigError(
            f"{path.stem} is written for JAX, which {python} has not: run `mosaic bundles install {for_jax}` and "
            f"give --bundle {for_jax}"
        )
    return python


def _own_script(config: ScriptConfig) -> FoundScript:
    path = Path(config.script).expanduser()
    require(path.is_absolute() and path.is_file(), f"there is no script {config.script!r} (give its full path)")
    python = script_python(config.bundle)
    return FoundScript(path, path.stem, python=None if python == Path(sys.executable) else python)


def _offered_script(config: ScriptConfig) -> FoundScript:
    algorithms = config.manifest().algorithms
    found = algorithms.get(config.algo)
    if found is None or found.script is None:
        raise ConfigError(f"there is no algorithm {config.algo!r}{did_you_mean(config.algo, algorithms)}")
    return FoundScript(config.PACKAGE / found.script, config.algo, tuple(found.action_spaces))


def _order(config: ScriptConfig, flags: dict[str, Flag], found: FoundScript) -> tuple[HarnessOrder, ScriptConfig]:
    """What the harness is to do, and the config without it."""
    params = {name.replace("-", "_"): value for name, value in {**config.params, **_start_flags(config)}.items()}
    wanted = _checkpoint_flags(config)
    wanted |= {name: params.pop(name) for name in _HARNESS_SETTINGS if name in params and name not in flags}
    for name in ("checkpoint_every", "checkpoint_keep"):
        if isinstance(wanted[name], str) and wanted[name].isdecimal():
            wanted[name] = int(wanted[name])
        require_type(name, wanted[name], int | None, "a whole number")
    order = HarnessOrder(found.algo, **wanted, search=found.search)
    return order, replace(config, params=params, start=None)


def _require_ability(name: str, can: Capabilities, order: HarnessOrder) -> None:
    for wanted in ("resume", "warm_start"):
        if getattr(order, wanted) is not None and not can[wanted].offered:
            raise ConfigError(f"{name} cannot {wanted.replace('_', '-')} from a checkpoint: {can[wanted].why}")


def _has_command_line(source: ScriptSource, flags: dict[str, Flag], config: ScriptConfig) -> bool:
    """A script that reads no command line is given none: it might take one for something else."""
    return bool(flags or config.params or source.imports & _READS_A_COMMAND_LINE)


def _checkpoint_flags(config: ScriptConfig) -> dict[str, Any]:
    return {
        "checkpoint_every": config.checkpoints.get("every_steps"),
        "checkpoint_keep": config.checkpoints.get("keep_last"),
    }


def _start_flags(config: ScriptConfig) -> dict[str, Any]:
    """The checkpoint that the run begins from, as flags: of the script where it has them, else of the harness."""
    return {} if config.start is None else {config.start.mode: config.start.checkpoint}


def _analytics_flags(config: ScriptConfig) -> dict[str, Any]:
    """What the config says of W&B and videos, as flags: a script that has none of them is refused, not run without."""
    asked: dict[str, Any] = {}
    if config.tracks:
        asked["track"] = True
        named = {name: config.extras.get(name) for name in ("wandb_project_name", "wandb_entity")}
        asked |= {name: value for name, value in named.items() if value}
    if (config.artifacts.get("video") or {}).get("enabled"):
        asked["capture_video"] = True
    return asked


def checkpoint_environment(config: ScriptConfig) -> dict[str, str]:
    """What a script's process finds in its environment about checkpoints."""
    return {CHECKPOINTS_VARIABLE: "0"} if config.checkpoints.get("enabled") is False else {}


def tracking_environment(config: ScriptConfig, *, speaks: bool) -> dict[str, str]:
    """What it finds about W&B."""
    return run_extras.tracking_environment(config.extras, speaks=speaks) if config.tracks else {}


def _values(config: ScriptConfig, flags: dict[str, Flag], name: str, more: dict[str, Any]) -> dict[str, Any]:
    """Own settings go first, extras after them, so that what the user wrote last wins."""
    own = {**config.own_values, **more}
    if not flags and config.seed == ScriptConfig.seed:
        del own["seed"]  # nobody asked for it, and nobody knows whether the script could take it
    wanted = {key: value for key, value in own.items() if value is not None and (not flags or key in flags)}
    wanted |= _analytics_flags(config)
    wanted |= {key.replace("-", "_"): value for key, value in {**config.params, **_start_flags(config)}.items()}
    if not flags:
        return {key: value for key, value in wanted.items() if value is not None}
    try:
        return {key: checked(flags, key, value, name) for key, value in wanted.items()}
    except FlagError as error:
        raise ConfigError(str(error)) from None
