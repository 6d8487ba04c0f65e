"""What one run of a worker is to do, read from its config file and checked against its manifest.

A worker lists its own parameters in ``config.schema.json`` beside its manifest; the cockpit's form, the command line
and the check here all read that file. A worker without one takes any parameter.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mosaic_protocol import settings_schema, worker_settings
from mosaic_protocol.asked_process import AskedProcess, LongAnswerError
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_worker import run_extras
from mosaic_worker.errors import UsageError
from mosaic_worker.scripts.flags import Flag, FlagError, checked

_TYPES = {"integer": "int", "number": "float", "boolean": "bool", "string": "str"}
_PRINT_SECONDS = 60
_TRACKING = ("wandb_project_name", "wandb_entity", "wandb_run_name")


@dataclass(frozen=True)
class Settings:
    """One run as the worker understands it."""

    algo: str
    worker: str = ""
    """The worker's type."""
    env_id: str = ""
    dataset: str = ""
    seed: int = 1
    total_timesteps: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    """The worker's own parameters: as given, else as the schema's defaults say."""
    resume: str | None = None
    """A checkpoint to go on from."""
    warm_start: str | None = None
    """A checkpoint to take the parameters from."""
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    """What the run config says of checkpoints: ``enabled``, ``every_steps``, ``keep_last``."""
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Everything the config file holds."""

    @property
    def extras(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.config.get("extras") or {}
        return found

    @property
    def tracks(self) -> bool:
        return run_extras.tracks(self.extras, self.artifacts)

    def environment(self) -> dict[str, str]:
        """What the run's process finds in its environment about Weights & Biases."""
        return run_extras.tracking_environment(self.extras, speaks=True) if self.tracks else {}

    def arguments(self) -> dict[str, Any]:
        """For the session and its checkpoints: plain JSON values."""
        project = os.environ.get("WANDB_PROJECT") or self.worker
        tracking = {"wandb_project_name": project, "track": True}
        tracking |= {name: self.extras[name] for name in _TRACKING if self.extras.get(name)}
        return {
            **self.params,
            **(tracking if self.tracks else {}),
            **({"dataset": self.dataset} if self.dataset else {}),
            "capture_video": bool((self.artifacts.get("video") or {}).get("enabled")),
            "env_id": self.env_id,
            "seed": self.seed,
            "total_timesteps": self.total_timesteps,
            "checkpoint_every": self.checkpoints.get("every_steps"),
            "checkpoint_keep": self.checkpoints.get("keep_last"),
        }


def read_flags(manifest: WorkerManifest) -> dict[str, Flag]:
    """A worker's parameters as flags, from its schema; {} when it has none. Raises UsageError."""
    schema = _schema(manifest)
    required = schema.get("required") or ()
    return {name: _flag(name, one, name in required) for name, one in settings_schema.parameters(schema).items()}


def read_settings(manifest: WorkerManifest, config: Mapping[str, Any]) -> Settings:
    """Check a worker config, in any spelling of the contract. Raises UsageError with one sentence."""
    try:
        told = worker_settings.read_settings(config, manifest)
    except worker_settings.SettingsError as error:
        raise UsageError("; ".join(str(error).splitlines())) from None
    algo = told.algo or next(iter(manifest.algorithms), "")
    if manifest.algorithms and algo not in manifest.algorithms:
        raise UsageError(f"there is no algorithm {algo!r}{did_you_mean(algo, manifest.algorithms)}")
    _require_what_it_needs(manifest, told, algo)
    start = {told.start.mode: told.start.checkpoint} if told.start is not None else {}
    checkpoints = told.artifacts.get("checkpoints")
    run_extras.require_known(told.extras)
    run_extras.require_sets(told.extras.get("requirements") or (), manifest)
    return Settings(
        algo=algo,
        worker=manifest.type,
        env_id=told.env_id or "",
        dataset=told.dataset or "",
        seed=1 if told.seed is None else told.seed,
        total_timesteps=told.total_timesteps,
        params=_checked_params(manifest, algo, told.params),
        resume=start.get("resume"),
        warm_start=start.get("warm_start"),
        checkpoints=checkpoints if isinstance(checkpoints, dict) else {},
        artifacts=told.artifacts,
        config=config,
    )


def _require_what_it_needs(manifest: WorkerManifest, told: worker_settings.WorkerSettings, algo: str) -> None:
    """As the daemon does; a run by hand has nobody else to say so."""
    needs = manifest.needs_of({**told.to_content(), "algo": algo})
    who = algo or f"the worker {manifest.type!r}"
    if "env" in needs and told.env_id is None:
        example = manifest.algorithms[algo].example_env if algo in manifest.algorithms else None
        raise UsageError(f"--env-id is missing: {who} needs an environment, such as {example or 'CartPole-v1'}")
    if "dataset" in needs and told.dataset is None:
        raise UsageError(f"--dataset is missing: {who} learns from a dataset")
    if "dataset" not in needs and told.dataset is not None:
        raise UsageError(f"--dataset is not taken: {who} learns from no dataset")


def _checked_params(manifest: WorkerManifest, algo: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given over the schema's defaults. A value from a command line is text, and read as the schema says."""
    flags, schema = read_flags(manifest), _schema(manifest)
    if not flags:
        return dict(given)
    described = settings_schema.parameters(schema)
    structured = {name for name, one in described.items() if settings_schema.is_structured(one)}
    try:
        values = {name.replace("-", "_"): checked(flags, name, value, algo) for name, value in given.items()}
    except FlagError as error:
        raise UsageError(str(error)) from None
    for name in structured & values.keys():
        if isinstance(values[name], str):
            values[name] = settings_schema.from_json_text(values[name])
    for problem in settings_schema.problems_with(values, schema, "params"):
        name = problem.path.rpartition(".")[2]
        option = flags[name].option if name in flags else name
        got = f", got {problem.value_repr}" if problem.value_repr else ""
        raise UsageError(f"{option} {problem.message}{got}")
    defaults = {name: one["default"] for name, one in described.items() if "default" in one}  # null is one, too
    return {**defaults, **values}


def _schema(manifest: WorkerManifest) -> dict[str, Any]:
    try:
        if manifest.schema_file is not None:
            return settings_schema.read_schema(manifest.schema_file)
        if module := manifest.settings.schema_module:
            return settings_schema.checked_schema(_printed_by(module), module)
    except settings_schema.SchemaError as error:
        raise UsageError(str(error)) from None
    return {}


@cache
def _printed_by(module: str) -> Any:
    """The JSON that a module of the worker prints. Raises UsageError."""
    try:
        answer = AskedProcess([sys.executable, "-m", module], os.environ).answer(_PRINT_SECONDS)
        if answer.status:
            raise ValueError(answer.errors.strip().rpartition("\n")[2] or f"it ended with status {answer.status}")
        return json.loads(answer.said)
    except (OSError, TimeoutError, LongAnswerError, ValueError, RecursionError) as error:
        why = one_line(str(error)) or f"no answer within {_PRINT_SECONDS} s, or too long a one"
        raise UsageError(f"{module} does not print the worker's parameters: {why}") from None


def _flag(name: str, schema: Mapping[str, Any], required: bool) -> Flag:
    return Flag(
        name,
        _type(schema.get("type")),
        schema.get("default"),
        str(schema.get("description", "")),
        choices=tuple(schema.get("enum", ())),
        required=required,
    )


def _type(said: Any) -> str:
    """The type of a flag for what a schema says: a name, or a name and "null"."""
    if not isinstance(said, list):
        return _TYPES.get(str(said), "")
    names = [name for name in said if name != "null"]
    plain = _TYPES.get(names[0], "") if len(names) == 1 else ""
    return f"{plain} | None" if plain and len(said) > 1 else plain
