"""The run config: what a client submits, the daemon stores and a worker reads a part of.

:func:`parse_run_config` is the only way in. It takes JSON text or a mapping, refuses whatever is not plain,
bounded JSON, refuses credentials, and says for each problem where it is and why. A :class:`RunConfig` is
therefore always safe to store and to send; nothing in it is ever used as a path.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from mosaic_protocol import paths, suggest
from mosaic_protocol.host_labels import HOST_LABEL, MAX_HOST_LABELS
from mosaic_protocol.suggest import FieldPath, Problem

SCHEMA_VERSION = 1
MAX_CONFIG_BYTES = 256 * 1024
MAX_DEPTH = 20
MAX_CPUS = 4096
MAX_GPUS = 1024
MAX_MEMORY_MB = 2**20
MAX_MINUTES = 10 * 365 * 24 * 60
MAX_INTEGER = 2**63 - 1
MAX_NOTES = 20_000
MAX_TAGS = 50
ANY_HOST = "any"
"""Stands where the name of a host may: the first that fits."""
_MAX_VALUES = MAX_CONFIG_BYTES // 2  # a JSON value and its comma take two bytes at least
_SECRET = "looks like a secret: pass it through the environment (e.g. WANDB_API_KEY) or the keyring; configs are stored"
_MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"


class RunConfigError(suggest.InputError):
    """A run config that was refused; see ``problems``."""


def checked_label(text: str) -> str:
    """Return ``text`` if it is one printable line not framed by blanks, raise ValueError otherwise."""
    if not text.isprintable():
        raise ValueError("must be printable text on one line, without control characters")
    if text != text.strip():
        raise ValueError("must not begin or end with a blank")
    return text


def _checked_name(name: str) -> str:
    try:
        return paths.checked_name(name)
    except ValueError:
        raise ValueError("must be a plain name: lower-case letters, digits, '_', '-', '.'") from None


def _checked_module(module: str) -> str:
    if not re.fullmatch(_MODULE, module):
        raise ValueError("must be the dotted name of a Python module, such as cleanrl_worker.cli")
    return module


def _checked_gpu_share(mandatory: int, info: pydantic.ValidationInfo) -> int:
    requested = info.data.get("requested", mandatory)
    if mandatory > requested:
        raise ValueError(f"must not exceed the {requested} requested")
    return mandatory


def _checked_version(version: int) -> int:
    if version != SCHEMA_VERSION:
        raise ValueError(f"must be {SCHEMA_VERSION}; if a newer MOSAIC made the config, update this one")
    return version


Label = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(checked_label)]
PlainName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_checked_name)]
ModulePath = Annotated[
    str, Field(max_length=200, json_schema_extra={"pattern": f"^{_MODULE}$"}), AfterValidator(_checked_module)
]
HostName = Annotated[str, Field(max_length=32, pattern=r"^([a-z0-9][a-z0-9_-]*)?$")]
HostLabel = Annotated[str, Field(pattern=HOST_LABEL)]
HostLabels = Annotated[tuple[HostLabel, ...], Field(max_length=MAX_HOST_LABELS, strict=False)]
Minutes = Annotated[float, Field(gt=0, le=MAX_MINUTES, allow_inf_nan=False)]
Labels = Annotated[tuple[Label, ...], Field(max_length=MAX_TAGS, strict=False)]  # strict refuses JSON's lists


class StrictModel(BaseModel):
    """Refuses unknown fields and look-alike types; cannot be changed; its errors never repeat input."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Cpus(StrictModel):
    requested: int = Field(default=1, ge=1, le=MAX_CPUS, description="CPU cores to reserve.")


class Gpus(StrictModel):
    requested: int = Field(default=0, ge=0, le=MAX_GPUS, description="GPUs to reserve where there are any.")
    mandatory: Annotated[int, AfterValidator(_checked_gpu_share)] = Field(
        default=0, ge=0, le=MAX_GPUS, description="How many of these the run cannot start without."
    )


class Memory(StrictModel):
    requested: int = Field(default=0, ge=0, le=MAX_MEMORY_MB, description="Megabytes to reserve, 0 for none.")


class Resources(StrictModel):
    cpus: Cpus = Field(default=Cpus(), description="Processor cores.")
    gpus: Gpus = Field(default=Gpus(), description="Graphics processors.")
    memory_mb: Memory = Field(default=Memory(), description="Main memory.")
    host: HostName = Field(
        default="", description="The host to run on: a name of hosts.toml, any for the first that fits; empty: here."
    )
    labels: HostLabels = Field(default=(), description="What the host must be labelled with; without a host: any.")

    @model_validator(mode="before")
    @classmethod
    def _labels_choose_among_all(cls, given: object) -> object:
        if isinstance(given, Mapping) and given.get("labels") and not given.get("host"):
            return {**given, "host": ANY_HOST}
        return given


class TensorboardArtifacts(StrictModel):
    enabled: bool = Field(default=True, description="Write TensorBoard event files.")


class WandbArtifacts(StrictModel):
    enabled: bool = Field(default=False, description="Track the run with Weights & Biases.")


class CheckpointArtifacts(StrictModel):
    enabled: bool = Field(default=True, description="Write checkpoints.")
    every_steps: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = Field(
        default=None,
        description="Environment steps between checkpoints; 0 writes only the last one, null leaves it to the worker.",
    )
    keep_last: int = Field(default=3, ge=0, le=10_000, description="How many of the newest are kept; 0 keeps all.")


class VideoArtifacts(StrictModel):
    enabled: bool = Field(default=False, description="Record clips of the agent.")


class StepArtifacts(StrictModel):
    keep_last: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = Field(
        default=None,
        description="How many of the newest recorded steps are kept; 0 keeps all, null leaves it to the daemon.",
    )


class Artifacts(StrictModel):
    tensorboard: TensorboardArtifacts = Field(default=TensorboardArtifacts(), description="TensorBoard.")
    wandb: WandbArtifacts = Field(default=WandbArtifacts(), description="Weights & Biases.")
    checkpoints: CheckpointArtifacts = Field(default=CheckpointArtifacts(), description="Checkpoints.")
    video: VideoArtifacts = Field(default=VideoArtifacts(), description="Recorded clips.")
    steps: StepArtifacts = Field(default=StepArtifacts(), description="Recorded steps.")


class Worker(StrictModel):
    type: PlainName = Field(description="The worker's type, as its manifest names it.")
    module: ModulePath = Field(description="The module that is started; must be the one the manifest names.")
    config: dict[str, JsonValue] = Field(description="The worker's own settings, handed to it as they are.")
    bundle: PlainName | None = Field(
        default=None, description="The managed environment that the script of the run is executed in."
    )
    agent_id: Label | None = Field(default=None, description="Who learns; travels with the run.")
    worker_id: Label | None = Field(default=None, description="Which worker this is; travels with the run.")


class Parent(StrictModel):
    run_id: Label = Field(description="The run that this one goes on from.")
    checkpoint: Label = Field(description="Its checkpoint, as its manifest names it.")


class Metadata(StrictModel):
    worker: Worker = Field(description="Who does the work, and with which settings.")
    notes: str = Field(default="", max_length=MAX_NOTES, description="Free text for people.")
    tags: Labels = Field(default=(), description="Short texts to find the run by.")
    group: Label | None = Field(default=None, description="The experiment that the run is one of.")
    sweep: Label | None = Field(default=None, description="The sweep that made the run, when one did.")
    preset: Label | None = Field(
        default=None, description="The preset of its worker whose settings it was submitted with, all of them."
    )
    parent: Parent | None = Field(default=None, description="Where the run comes from, when it goes on from another.")
    reproduces: Label | None = Field(default=None, description="The id of the run that this one repeats.")


class Schedule(StrictModel):
    max_wallclock_minutes: Minutes | None = Field(
        default=None, description="The run ends as timed out when it takes longer; null: no limit."
    )
    max_stall_minutes: Minutes | None = Field(
        default=None, description="The run ends as timed out after so long without a step; null: no limit."
    )


class RunConfig(StrictModel):
    """An accepted run config. Make one with :func:`parse_run_config` only."""

    schema_version: Annotated[int, AfterValidator(_checked_version)] = Field(
        default=SCHEMA_VERSION, description="Version of this format."
    )
    run_name: Label = Field(description="What people call the run; need not be unique.")
    resources: Resources = Field(description="What to reserve for the run.")
    artifacts: Artifacts = Field(description="What the run shall leave behind.")
    metadata: Metadata = Field(description="The worker, and what people want to remember.")
    schedule: Schedule = Field(default=Schedule(), description="Limits in time.")

    @property
    def worker(self) -> Worker:
        return self.metadata.worker

    @property
    def algo(self) -> str | None:
        return self._text_setting("algo")

    @property
    def env_id(self) -> str | None:
        return self._text_setting("env_id")

    @property
    def total_timesteps(self) -> int | None:
        steps = self._integer_setting("total_timesteps")
        return steps if steps is None or steps >= 0 else None

    @property
    def seed(self) -> int | None:
        return self._integer_setting("seed")

    def _text_setting(self, key: str) -> str | None:
        value = self.worker.config.get(key)
        return value if isinstance(value, str) else None

    def _integer_setting(self, key: str) -> int | None:
        value = self.worker.config.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


class LabelChange(StrictModel):
    """What may be changed of a config at any time; null leaves a thing as it is. Made by :func:`parse_label_change`."""

    name: Label | None = Field(default=None, description="What people call the run.")
    notes: Annotated[str, Field(max_length=MAX_NOTES)] | None = Field(default=None, description="Free text for people.")
    add_tags: Labels = Field(default=(), description="Tags that it gets, unless it has them.")
    remove_tags: Labels = Field(default=(), description="Tags that it has no more.")


def parse_label_change(fields: Mapping[str, Any]) -> LabelChange:
    """Check a change as a config is checked; raises :class:`RunConfigError` and nothing else."""
    copy = _PlainCopy()
    plain = copy.of(fields)
    problems = copy.problems
    try:
        change = LabelChange.model_validate(plain)
    except pydantic.ValidationError as error:
        problems += suggest.problems_of(error, LabelChange)
    if problems:
        raise RunConfigError(problems)
    return change


def parse_run_config(source: str | bytes | Mapping[str, Any]) -> RunConfig:
    """Check JSON text or a mapping and return the config; raises :class:`RunConfigError` and nothing else.

    A mapping is copied, so later changes to it do not reach the config.
    """
    copy = _PlainCopy()
    plain = copy.of(_loaded(source) if isinstance(source, str | bytes) else source)
    problems = copy.problems
    try:
        config = RunConfig.model_validate(plain)
    except pydantic.ValidationError as error:
        known = {problem.path for problem in problems}
        problems += [found for found in suggest.problems_of(error, RunConfig) if found.path not in known]
    if problems:
        raise RunConfigError(problems)
    size = len(to_json(config).encode())
    if size > MAX_CONFIG_BYTES:
        raise _refused(f"takes {size} bytes as JSON; at most {MAX_CONFIG_BYTES} are allowed")
    return config


def to_json(config: RunConfig) -> str:
    """The canonical text: every field, sorted keys, no blanks. Parsing it gives an equal config."""
    data = config.model_dump(mode="json")
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def run_config_schema() -> dict[str, Any]:
    """The JSON schema of the run config, for forms and editors."""
    return RunConfig.model_json_schema()


def _refused(message: str) -> RunConfigError:
    return RunConfigError([Problem("", message)])


def require_bounded(text: str | bytes) -> None:
    """Refuse a text that is too long to be a config, before anybody parses it or sends it anywhere."""
    if len(text) > MAX_CONFIG_BYTES:
        raise _refused(f"is too long ({len(text)}): at most {MAX_CONFIG_BYTES} bytes are allowed")


def _loaded(text: str | bytes) -> object:
    """JSON text as Python data; numbers and strings are checked later, where their path is known."""
    require_bounded(text)
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded.removeprefix("\ufeff"), object_pairs_hook=_without_twins)
    except UnicodeDecodeError as error:
        raise _refused(f"is not UTF-8 text: see byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _refused(f"is not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _refused(f"is nested more than {MAX_DEPTH} levels deep") from None
    except RunConfigError:
        raise
    except ValueError:  # Python's own limit on the digits of an integer
        raise _refused("holds an integer with thousands of digits") from None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        if key in fields:
            raise _refused(f"gives the field {suggest.shown(key)} twice in one object")
        fields[key] = value
    return fields


class _PlainCopy:
    """Copies outside data into plain dicts and lists, and notes whatever in it must not be stored."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._values_left = _MAX_VALUES

    def of(self, value: object, path: FieldPath = ()) -> Any:
        """The copy of a value; None in place of one that is a problem."""
        self._values_left -= 1
        if self._values_left < 0:
            raise _refused(f"holds more than {_MAX_VALUES} values")
        match value:
            case None | bool():
                return value
            case str():
                return self._text(str.__str__(value), path)
            case int():
                in_range = abs(value) <= MAX_INTEGER
                return int(value) if in_range else self._note(path, "must lie within ±(2^63 - 1)", value)
            case float():
                finite = math.isfinite(value)
                return float(value) if finite else self._note(path, "must be a finite number", value)
            case Mapping() | list() | tuple() if len(path) >= MAX_DEPTH:
                return self._note(path, f"is nested more than {MAX_DEPTH} levels deep", value)
            case Mapping():
                return self._fields(value, path)
            case list() | tuple():
                return [self.of(item, (*path, index)) for index, item in enumerate(value)]
        return self._note(path, "is not JSON data", value)

    def _fields(self, mapping: Mapping[Any, Any], path: FieldPath) -> dict[str, Any]:
        fields = {}
        for key, value in mapping.items():
            if not isinstance(key, str):
                self._note(path, "must have field names that are text", key)
            elif suggest.looks_secret(key) and _holds_text(value):
                self._note((*path, key), _SECRET, value)
            elif self._text(key, (*path, key)) is not None:
                fields[str.__str__(key)] = self.of(value, (*path, key))
        return fields

    def _text(self, text: str, path: FieldPath) -> Any:
        if "\0" in text:
            return self._note(path, "must not hold a NUL character", text)
        if any("\ud800" <= character <= "\udfff" for character in text):
            return self._note(path, "must not hold half of a surrogate pair", text)
        return self._note(path, _SECRET, text) if suggest.holds_password(text) else text

    def _note(self, path: FieldPath, message: str, value: object) -> Any:
        """Note a problem and return what stands in the copy for its value."""
        self.problems.append(Problem.at(path, message, value))
        return None


def _holds_text(value: object) -> bool:
    """Whether a value is text, or a list or object with text directly in it; blank text aside."""
    values = value.values() if isinstance(value, Mapping) else value
    items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else values
    return any(isinstance(item, str) and item.strip() for item in items)
