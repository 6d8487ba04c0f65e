"""What a worker reads about its run: one shape for every worker, one builder for everybody who hands it over.

A client writes it as ``metadata.worker.config``; :func:`accepted` puts it into the contract's own words and checks it
against the worker's manifest, :func:`settings_for` makes the file that the worker is started with. The dispatcher, the
dry run and every question to a worker go through these two, so a dry run judges exactly what would be run.

Other spellings of the same thing are understood and written in the contract's words, as
:mod:`mosaic_protocol.settings_spelling` says; and a parameter beside the fields is one in ``params`` where the worker's
schema names it, or where neither a schema nor a script names the worker's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field, JsonValue

from mosaic_protocol import settings_schema, suggest
from mosaic_protocol.run_config import CheckpointArtifacts, RunConfig, RunConfigError, StrictModel
from mosaic_protocol.settings_spelling import START_MODES, params_of, respelt, start_of
from mosaic_protocol.suggest import Problem, did_you_mean, shown
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_protocol.worker_tables import CONTRACT_FIELDS

PLACE = "metadata.worker.config"
LARGEST_SEED = 2**32 - 1
"""What every random generator takes."""
MOST_STEPS = 10**12
TENSORBOARD_PLACE = "${VAR_TENSORBOARD_DIR}/${RUN_ID}"
"""How a config names the run's TensorBoard folder before there is a run."""

Text = Annotated[str, Field(min_length=1, max_length=4096)]


class SettingsError(suggest.InputError):
    """Settings that no worker can be given; see ``problems``."""


class Start(StrictModel):
    """What a run begins from, when it is not the beginning."""

    mode: Literal["resume", "warm_start"] = Field(description="Go on exactly (resume), or take the weights alone.")
    checkpoint: Text = Field(description="The checkpoint: its path, or as listings call it.")


class WorkerSettings(StrictModel):
    """The settings of one run, in the contract's words. Make one with :func:`read_settings`."""

    algo: Text | None = Field(default=None, description="The algorithm, as the manifest calls it.")
    env_id: Text | None = Field(default=None, description="The environment to train on.")
    dataset: Text | None = Field(default=None, description="The dataset to learn from.")
    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED, description="Seed of everything random.")
    total_timesteps: int | None = Field(
        default=None, ge=1, le=MOST_STEPS, description="How long to train, in steps of the environment."
    )
    params: dict[str, JsonValue] = Field(default={}, description="The algorithm's own parameters.")
    start: Start | None = Field(default=None, description="The checkpoint to begin from.")
    extras: dict[str, JsonValue] = Field(default={}, description="The worker's own switches.")
    run_id: Annotated[str, Field(max_length=200)] = Field(default="", description="Filled in by the trainer.")
    artifacts: dict[str, JsonValue] = Field(default={}, description="Filled in from the run config.")
    choices: dict[str, JsonValue] = Field(
        default={}, description="What the manifest lets one choose besides; each stands beside the fields by its name."
    )

    def to_content(self) -> dict[str, Any]:
        """As a client writes it: what was given, and nothing that the trainer fills in."""
        told = self.model_dump(exclude={"choices", "run_id", "artifacts"}, exclude_none=True)
        return {**{name: value for name, value in told.items() if value != {}}, **self.choices}


# ---- reading -----------------------------------------------------------------------------------------------------


def read_settings(
    content: Mapping[str, Any], manifest: WorkerManifest | None = None, *, place: str = ""
) -> WorkerSettings:
    """Settings in any spelling, checked for their form. Raises :class:`SettingsError`, whose problems are named below
    ``place``. Without a manifest every other name counts as a choice of the worker."""
    told = respelt(content)
    problems = list(_contradictions(told))
    choices = {name: told.pop(name) for name in list(told) if name not in CONTRACT_FIELDS}
    if manifest is not None:
        problems += _sort_out(told, choices, manifest)
    try:
        settings = WorkerSettings.model_validate({**told, "choices": choices})
    except pydantic.ValidationError as error:
        problems += suggest.problems_of(error, WorkerSettings)
    if problems:
        raise SettingsError([replace(one, path=".".join(filter(None, (place, one.path)))) for one in problems])
    return settings


def _contradictions(told: Mapping[str, Any]) -> Iterator[Problem]:
    extras, params = told.get("extras"), told.get("params")
    if isinstance(extras, Mapping) and "algo_params" in extras:
        if isinstance(extras["algo_params"], Mapping):
            yield Problem("extras.algo_params", "differs from params, which is the same thing: give one of them")
        else:
            yield Problem.at(("extras", "algo_params"), "must be an object with fields", extras["algo_params"])
    named = [name for name in START_MODES if isinstance(params, Mapping) and isinstance(params.get(name), str)]
    if len(named) == len(START_MODES):
        yield Problem("params", "names two checkpoints to begin from: give resume or warm_start, not both")
    elif named:
        yield Problem(f"params.{named[0]}", "differs from start, which is the same thing: give one of them")


def _sort_out(told: dict[str, Any], choices: dict[str, Any], manifest: WorkerManifest) -> Iterator[Problem]:
    """Separate parameters that stand beside the fields from choices, and both from what is neither."""
    declared = manifest.choice_settings
    schema = schema_of(manifest)
    described = settings_schema.parameters(schema) if schema is not None else {}
    for number, name in enumerate([name for name in choices if name not in declared]):
        value = choices.pop(name)
        # What a module prints is known to those who can run it: the worker itself, and clients that ask it.
        is_told = manifest.takes_any_params or manifest.settings.schema_module is not None
        if name not in described and not is_told:
            known = {*CONTRACT_FIELDS, *declared, *described} - {"run_id", "artifacts"}
            hint = did_you_mean(name, known) if number < settings_schema.MOST_HINTS else ""
            yield Problem.at((name,), f"is not a setting of the worker{hint}", value)
            continue
        params = told.setdefault("params", {})
        if not isinstance(params, Mapping):
            continue  # refused for what it is
        if params.get(name, value) != value:
            yield Problem(name, "differs from what params says: give one of them", shown(value))
        told["params"] = {**params, name: value}
    for name, value in choices.items():
        if name in manifest.choices and not isinstance(value, str):
            yield Problem.at((name,), "must be text", value)


def schema_of(manifest: WorkerManifest) -> dict[str, Any] | None:
    """The schema in a worker's folder; None when it has none, or one that cannot be read (clients say so)."""
    if manifest.schema_file is None:
        return None
    try:
        return settings_schema.read_schema(manifest.schema_file)
    except settings_schema.SchemaError:
        return None


# ---- checking ----------------------------------------------------------------------------------------------------


def accepted(config: RunConfig, manifest: WorkerManifest) -> RunConfig:
    """The run config with its worker's settings in the contract's words. Raises :class:`RunConfigError` for settings
    that the worker does not take, as far as its manifest says."""
    try:
        settings = read_settings(config.worker.config, manifest, place=PLACE)
    except SettingsError as error:
        raise RunConfigError(error.problems) from None
    if problems := [
        *_problems_with(settings, manifest),
        *_resource_problems(config, manifest),
        *_checkpoint_problems(config.artifacts.checkpoints, manifest),
    ]:
        raise RunConfigError(problems)
    worker = config.worker.model_copy(update={"config": settings.to_content()})
    return config.model_copy(update={"metadata": config.metadata.model_copy(update={"worker": worker})})


def _problems_with(settings: WorkerSettings, manifest: WorkerManifest) -> Iterator[Problem]:
    content = settings.to_content()
    if settings.artifacts:
        yield Problem(f"{PLACE}.artifacts", "belongs to the run config itself: give it at the top level")
    yield from _algorithm_problems(settings, content, manifest)
    needs = manifest.needs_of(content)
    if "env" in needs and settings.env_id is None:
        yield Problem(f"{PLACE}.env_id", f"is required: {_who(settings, manifest)} needs an environment")
    if "dataset" in needs and settings.dataset is None:
        yield Problem(f"{PLACE}.dataset", f"is required: {_who(settings, manifest)} needs a dataset")
    elif "dataset" not in needs and settings.dataset is not None:
        yield Problem(f"{PLACE}.dataset", f"is not taken: {_who(settings, manifest)} learns from no dataset")
    if settings.start is not None and not getattr(manifest.capabilities, settings.start.mode):
        spoken = settings.start.mode.replace("_", "-")
        yield Problem(f"{PLACE}.start.mode", f"is not offered: the worker {manifest.type!r} cannot {spoken} runs")
    if (schema := schema_of(manifest)) is not None:
        yield from settings_schema.problems_with(settings.params, schema, f"{PLACE}.params")
    try:
        tensorboard_folder(settings.extras, Path("/RUN/tensorboard"), "RUN")
    except SettingsError as error:
        yield from error.problems


def _algorithm_problems(
    settings: WorkerSettings, content: Mapping[str, Any], manifest: WorkerManifest
) -> Iterator[Problem]:
    chosen = manifest.chosen(content).values()
    if any(choice.is_foreign for choice in chosen) or not manifest.algorithms:
        return
    if settings.algo is None:
        yield Problem(f"{PLACE}.algo", f"is required{did_you_mean('', manifest.algorithms)}")
    elif settings.algo not in manifest.algorithms:
        hint = did_you_mean(settings.algo, manifest.algorithms)
        yield Problem(f"{PLACE}.algo", f"is not offered by the worker {manifest.type!r}{hint}", shown(settings.algo))


def _resource_problems(config: RunConfig, manifest: WorkerManifest) -> Iterator[Problem]:
    if manifest.capabilities.gpu_required and not config.resources.gpus.mandatory:
        message = f"must be at least 1: the worker {manifest.type!r} cannot run without a GPU"
        yield Problem("resources.gpus.mandatory", message, "0")


def _checkpoint_problems(asked: CheckpointArtifacts, manifest: WorkerManifest) -> Iterator[Problem]:
    """Somebody who says how often to save must not learn at the end of the run that nothing was saved."""
    if manifest.capabilities.checkpoint:
        return
    usual, message = CheckpointArtifacts(), f"is not offered: the worker {manifest.type!r} writes no checkpoints"
    for name in ("every_steps", "keep_last"):
        if (value := getattr(asked, name)) != getattr(usual, name):
            yield Problem(f"artifacts.checkpoints.{name}", message, shown(value))


def _who(settings: WorkerSettings, manifest: WorkerManifest) -> str:
    return settings.algo if settings.algo in manifest.algorithms else f"the worker {manifest.type!r}"


# ---- building ----------------------------------------------------------------------------------------------------


def settings_for(config: RunConfig, manifest: WorkerManifest, *, run_id: str, tensorboard_dir: Path) -> dict[str, Any]:
    """What the worker of a run reads from its config file. ``tensorboard_dir`` is the run's TensorBoard folder.

    ``params`` and ``extras`` are always there; whatever else was not given is left out. Raises :class:`SettingsError`.
    """
    settings = read_settings(config.worker.config, manifest, place=PLACE)
    values = {
        TENSORBOARD_PLACE: str(tensorboard_dir),
        "${VAR_TENSORBOARD_DIR}": str(tensorboard_dir),
        "${RUN_ID}": run_id,
    }
    told: dict[str, Any] = {"params": {}, "extras": {}, **_filled(settings.to_content(), values)}
    if "tensorboard_dir" in told["extras"]:
        folder = tensorboard_folder(settings.extras, tensorboard_dir, run_id)
        told["extras"] = {**told["extras"], "tensorboard_dir": str(folder)}
    return {"run_id": run_id, **told, "artifacts": config.artifacts.model_dump()}


def tensorboard_folder(extras: Mapping[str, Any], tensorboard_dir: Path, run_id: str) -> Path:
    """Where the event files of a run go: its TensorBoard folder, or one below it that ``extras.tensorboard_dir`` names.
    Raises :class:`SettingsError` for a place outside the run, where nobody would look for them."""
    asked = extras.get("tensorboard_dir")
    if asked in (None, ""):
        return tensorboard_dir
    text = str(asked).replace(TENSORBOARD_PLACE, str(tensorboard_dir))
    text = text.replace("${VAR_TENSORBOARD_DIR}", str(tensorboard_dir)).replace("${RUN_ID}", run_id)
    folder = tensorboard_dir / text  # an absolute path stands for itself
    if folder == tensorboard_dir.parent:
        return tensorboard_dir
    if ".." in PurePath(text).parts or not folder.is_relative_to(tensorboard_dir):
        message = f"must lie with the run: give {TENSORBOARD_PLACE}, a folder below it, or nothing"
        raise SettingsError([Problem(f"{PLACE}.extras.tensorboard_dir", message, shown(asked))])
    return folder


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Plain JSON with the placeholders in its texts replaced, longest first as ``values`` gives them."""
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, values) for item in value]
    return value


__all__ = [
    "LARGEST_SEED",
    "SettingsError",
    "Start",
    "WorkerSettings",
    "accepted",
    "params_of",
    "read_settings",
    "respelt",
    "settings_for",
    "start_of",
    "tensorboard_folder",
]
