"""Presets that ship with a worker: settings that a sweep found for one algorithm and environment, with the evidence.

They are TOML files in the folder ``presets`` of the worker's package, read without importing it. Which settings a
script takes is checked where every launch is checked; here a file is checked for its form and for what it claims.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, Field, JsonValue, model_validator

from mosaic_protocol import suggest
from mosaic_protocol.run_config import Label, PlainName, StrictModel
from mosaic_protocol.suggest import Problem, did_you_mean, shown
from mosaic_protocol.worker_manifest import ManifestError, WorkerManifest, read_toml
from mosaic_protocol.worker_settings import LARGEST_SEED, MOST_STEPS
from mosaic_protocol.worker_tables import Sentence, SettingName

FOLDER = "presets"
MOST_FILES = 500


def _checked_date(text: str) -> str:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a date such as 2026-11-18") from None
    return text


Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Number = Annotated[float, Field(strict=False, allow_inf_nan=False)]
Date = Annotated[str, AfterValidator(_checked_date)]


class Estimate(StrictModel):
    """A figure over seeds with its 95 % interval."""

    value: Number
    low: Number
    high: Number

    @model_validator(mode="after")
    def _holds_its_value(self) -> Estimate:
        if not self.low <= self.value <= self.high:
            raise ValueError("must be an interval with the value in it: low, value, high")
        return self

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Evidence(StrictModel):
    """The sweep that found a preset, and what the preset and the default were worth on seeds it never saw."""

    objective: Sentence
    space: dict[SettingName, JsonValue] = Field(min_length=1)
    trials: int = Field(ge=1)
    seeds: int = Field(ge=1)
    sampler: PlainName
    sampler_seed: Seed
    pruner: PlainName
    fresh_seeds: tuple[Seed, ...] = Field(strict=False, min_length=3, max_length=1000)
    preset: Estimate
    default: Estimate
    version: Label
    date: Date

    @model_validator(mode="after")
    def _beats_the_default(self) -> Evidence:
        if self.preset.low <= self.default.high:
            raise ValueError("shows no gain: the preset's interval must lie above that of the default")
        return self

    def __str__(self) -> str:
        return (
            f"{self.preset} with it, {self.default} with the default settings: {self.objective}, 95 % intervals over "
            f"{len(self.fresh_seeds)} fresh seeds. Found by a sweep of {self.trials} trials ({self.sampler}, pruner "
            f"{self.pruner}) with version {self.version} on {self.date}."
        )


class Preset(StrictModel):
    """Settings for one algorithm on one environment."""

    name: PlainName
    algo: PlainName
    env_id: Label
    total_timesteps: int = Field(ge=1, le=MOST_STEPS)
    settings: dict[SettingName, JsonValue] = Field(min_length=1)
    evidence: Evidence

    def worker_config(self) -> dict[str, JsonValue]:
        """The worker's part of a run config with these settings."""
        named: dict[str, JsonValue] = {"algo": self.algo, "env_id": self.env_id}
        return {**named, "total_timesteps": self.total_timesteps, "params": self.settings}


class PresetError(LookupError):
    """There is no such preset; the message is one sentence."""


def load_preset(file: Path, manifest: WorkerManifest) -> Preset:
    """Read and check one file; raises only :class:`ManifestError`, whose message names the file."""
    try:
        preset = Preset.model_validate(read_toml(file))
    except pydantic.ValidationError as error:
        raise ManifestError(file, suggest.problems_of(error, Preset)) from None
    if preset.algo not in manifest.algorithms:
        hint = did_you_mean(preset.algo, manifest.algorithms)
        raise ManifestError(file, [Problem("algo", f"is not offered by the worker{hint}", shown(preset.algo))])
    return preset


def presets_of(manifest: WorkerManifest) -> tuple[list[Preset], list[str]]:
    """The presets in a worker's folder, by algorithm and environment, and a sentence for each file that is wrong."""
    found: list[Preset] = []
    problems: list[str] = []
    for file in sorted((manifest.package_dir / FOLDER).glob("*.toml"))[:MOST_FILES]:
        try:
            found.append(load_preset(file, manifest))
        except ManifestError as error:
            problems += str(error).splitlines()
    return sorted(found, key=lambda one: (one.algo, one.env_id, one.name)), problems


def with_preset(config: Mapping[str, Any], manifest: WorkerManifest) -> dict[str, Any]:
    """A run config that names the preset whose settings it has, or none. It goes by the settings and not by how
    somebody came to them: the name is true however they were chosen, and gone when one was changed afterwards."""
    metadata = {name: value for name, value in config["metadata"].items() if name != "preset"}
    settings = metadata["worker"]["config"]
    params = settings.get("params") or {}
    is_foreign = any(choice.is_foreign for choice in manifest.chosen(settings).values())
    fitting = (
        one.name
        for one in (() if is_foreign else presets_of(manifest)[0])
        if (one.algo, one.env_id) == (settings.get("algo"), settings.get("env_id"))
        and all(params.get(name) == value for name, value in one.settings.items())
    )
    name = next(fitting, None)
    return {**config, "metadata": {**metadata, **({"preset": name} if name else {})}}


def chosen_preset(presets: Iterable[Preset], name: str, algo: str, env_id: str) -> Preset:
    """The preset of that name for an algorithm and environment. Raises :class:`PresetError`."""
    of_algorithm = [one for one in presets if one.algo == algo]
    here = {one.name: one for one in of_algorithm if one.env_id == env_id}
    if name in here:
        return here[name]
    if here:
        raise PresetError(f"{algo} has no preset {name!r} for {env_id}{did_you_mean(name, here)}")
    hint = did_you_mean(env_id, {one.env_id for one in of_algorithm})
    raise PresetError(f"{algo} has no presets for {env_id}{hint or '; `mosaic presets` lists all'}")
