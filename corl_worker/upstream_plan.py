"""The plan of a run of CORL's own scripts: the same as of any script, with the doors, and flags under their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from corl_worker.config import WorkerConfig
from corl_worker.upstream import (
    CONFIG_FLAGS,
    DECIDED,
    DOORS,
    JAX_BUNDLE,
    UPSTREAM_BUNDLE,
    Given,
    fit_length,
    fit_machine,
    fit_names,
    read_yaml,
    steps_of,
    upstream_script,
)
from mosaic_worker import run_extras
from mosaic_worker.errors import UsageError
from mosaic_worker.harness.capabilities import Capabilities, of_source
from mosaic_worker.harness.source import ScriptSource
from mosaic_worker.script_worker.config import ConfigError, ScriptConfig, require
from mosaic_worker.script_worker.plan import FoundScript, ScriptPlan, python_with_jax
from mosaic_worker.scripts.flags import Flag, FlagError, checked, read_flags

DATASET_VARIABLE, ENV_VARIABLE = "MOSAIC_OFFLINE_DATASET", "MOSAIC_OFFLINE_ENV"
"""What the doors read: the folder of the dataset, and the environment where it is not the dataset's own."""
_TRACKING_WORDS = ("wandb_project_name", "wandb_entity")


@dataclass(frozen=True)
class CorlPlan(ScriptPlan):
    """Of MOSAIC's scripts, or of CORL's."""

    normalised: Mapping[str, str] = field(default_factory=dict)
    """Of each flag of CORL's script that nobody typed: its value, and why."""

    def told(self) -> dict[str, Any]:
        """For a dry run."""
        if self.order is None or self.order.doors is None:
            return {}
        return {"total_timesteps": self.order.total, "normalised": dict(self.normalised)}

    @classmethod
    def find(cls, config: ScriptConfig) -> FoundScript:
        if not (config.is_upstream and isinstance(config, WorkerConfig)):
            return super().find(config)
        checkout = checkout_of(config)
        path = upstream_script(config.algo, checkout)
        python = python_with_jax(path, config.bundle, UPSTREAM_BUNDLE, JAX_BUNDLE)
        return FoundScript(path, f"corl/{config.algo}", ("continuous",), python, (str(checkout),))

    @classmethod
    def to_describe(cls, config: ScriptConfig) -> Self:
        """No dataset needs to be chosen for it. Of flags that a run gives itself the help says what they get."""
        if not (config.is_upstream and isinstance(config, WorkerConfig)):
            return super().to_describe(config)
        plan = super().of(replace(config, params={}, start=None, extras=_plain(config.extras), artifacts={}))
        decided = {name: why for name, why in DECIDED.items() if name in plan.flags}
        said = {name: replace(plan.flags[name], default=None, help=why) for name, why in decided.items()}
        return replace(plan, flags={**plan.flags, **said}, capabilities=_capabilities(plan.path))

    @classmethod
    def of(cls, config: ScriptConfig) -> Self:
        if not (config.is_upstream and isinstance(config, WorkerConfig)):
            return super().of(config)
        path = cls.find(config).path
        params, tracked = _tracking(config)
        given = _given(config, _flags(path), params)
        data = _dataset(config)
        fit_names(given, data["name"], config.seed)
        fit_length(given, config.total_timesteps)
        fit_machine(given, data["rows"], gpu=bool(os.environ.get("CUDA_VISIBLE_DEVICES")))
        total, per_turn = steps_of(given)
        plan = super().of(replace(config, params=given.values, extras=_plain(config.extras), artifacts=_quiet(config)))
        assert plan.order is not None, "CORL's scripts know nothing of MOSAIC"
        origin = {"env_id": config.env_id or data["env_id"], "dataset": data["name"], **tracked}
        order = replace(plan.order, doors=str(DOORS), total=total, per_turn=per_turn, track=bool(tracked))
        return replace(
            plan,
            order=replace(order, origin=origin, dataset={"name": data["name"], "sha256": data["sha256"]}),
            environment={**plan.environment, **_around(config, data), **_tracking_environment(config, tracked)},
            capabilities=_capabilities(path),
            normalised=given.why,
        )


def _capabilities(path: Path) -> Capabilities:
    return of_source(ScriptSource.read(path), ("gym", "d4rl", "wandb"))


def checkout_of(config: WorkerConfig) -> Path:
    """Raises ConfigError."""
    require(
        bool(config.corl_path),
        "CORL is no package: clone https://github.com/corl-team/CORL and name the folder with --corl-path",
    )
    root = Path(config.corl_path).expanduser()
    require(root.is_absolute() and root.is_dir(), f"there is no folder {config.corl_path!r} (give its full path)")
    return root


def _flags(path: Path) -> dict[str, Flag]:
    try:
        flags = read_flags(path)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as a Python script: {error}") from error
    require(bool(flags), f"the flags of {path} cannot be read: it has no function wrapped by pyrallis")
    return flags


def _given(config: WorkerConfig, flags: dict[str, Flag], params: dict[str, Any]) -> Given:
    """What the user gave, with the YAML file that was named beneath. Raises ConfigError."""
    name = next((params.pop(flag) for flag in CONFIG_FLAGS if flag in params), None)
    harness = {"checkpoint_every", "checkpoint_keep", "resume", "warm_start"} - flags.keys()
    try:
        own = {key: checked(flags, key, value, config.algo) for key, value in params.items() if key not in harness}
    except FlagError as error:
        raise ConfigError(str(error)) from None
    given = Given(flags, {**own, **{key: params[key] for key in harness & params.keys()}})
    if name is not None:
        path, given.beneath = read_yaml(str(name), checkout_of(config), flags, config.algo)
        given.values["config_path"] = str(path)
    return given


def _dataset(config: WorkerConfig) -> dict[str, Any]:
    """What is told of it; its data is hashed where it is looked at, and again by the script's process."""
    require(bool(config.dataset), f"--dataset is missing: {config.algo} learns from a dataset")
    from mosaic_worker.offline import open_dataset

    try:
        with open_dataset(config.dataset, verify=False) as data:
            folder = str(data.entry.folder.absolute())
            return {
                "name": data.name, "sha256": data.sha256, "rows": data.rows, "env_id": data.env_id, "folder": folder
            }  # fmt: skip
    except UsageError as error:
        raise ConfigError(str(error)) from None


def _around(config: WorkerConfig, data: Mapping[str, Any]) -> dict[str, str]:
    other = {ENV_VARIABLE: config.env_id} if config.env_id else {}
    return {DATASET_VARIABLE: data["folder"], **other}


# ---- Weights & Biases ------------------------------------------------------------------------------------------------


def _tracking(config: WorkerConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """The script's flags without those that ask for W&B or decline it, and what the tracker is told; {} for no
    tracking, which is the default: CORL's scripts log in any case, and their rows are the run's."""
    params = {name.replace("-", "_"): value for name, value in config.params.items()}
    declined = _switched(params.pop("disable_wandb", False))
    wanted = _switched(params.pop("track", False)) or config.tracks
    named = {name: params.pop(name, None) or config.extras.get(name) for name in _TRACKING_WORDS}
    if declined or not wanted:
        return params, {}
    return params, {"track": True, **{name: value for name, value in named.items() if value}}


def _switched(value: Any) -> bool:
    return value is True or str(value).lower() == "true"


def _tracking_environment(config: WorkerConfig, tracked: Mapping[str, Any]) -> dict[str, str]:
    return run_extras.tracking_environment(config.extras, speaks=True) if tracked else {}


def _plain(extras: Mapping[str, Any]) -> dict[str, Any]:
    """Without what would become flags of the script: its rows are tracked by the run itself."""
    return {name: value for name, value in extras.items() if name not in ("track_wandb", *_TRACKING_WORDS)}


def _quiet(config: WorkerConfig) -> dict[str, Any]:
    return {name: value for name, value in config.artifacts.items() if name != "wandb"}
