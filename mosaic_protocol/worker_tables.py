"""The tables of a ``worker.toml``: every key that a manifest may have, with its bounds and its meaning."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import pydantic
from pydantic import AfterValidator, Field, JsonValue

from mosaic_protocol.run_config import Label, ModulePath, PlainName, StrictModel, checked_label

SCHEMA_VERSION = 1
CONTRACT_FIELDS = (
    "algo",
    "artifacts",
    "dataset",
    "env_id",
    "extras",
    "params",
    "run_id",
    "seed",
    "start",
    "total_timesteps",
)
"""What every worker reads; a choice has another name."""
_SCRIPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_SETTING = re.compile(r"[a-z][a-z0-9_]*")
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")

Lane: TypeAlias = Literal["telemetry", "analytics", "hybrid"]
ActionSpace: TypeAlias = Literal["discrete", "continuous", "multi_discrete", "multi_binary"]
KNOWN_SOURCES = ("gymnasium", "atari", "envpool", "procgen", "compiled")
"""Where environments come from, unless a manifest's own families name other sources."""
Need: TypeAlias = Literal["env", "dataset"]
ChoiceKind: TypeAlias = Literal["switch", "file", "folder", "text", "bundle"]


def _checked_schema(version: int) -> int:
    if version != SCHEMA_VERSION:
        raise ValueError(f"must be {SCHEMA_VERSION}; if the worker is for a newer MOSAIC, update this one")
    return version


def _checked_script(script: str) -> str:
    if not _SCRIPT.fullmatch(script):
        raise ValueError("must be a path such as cleanrl/ppo.py, relative to the package and inside it")
    return script


def _checked_setting(name: str) -> str:
    if not _SETTING.fullmatch(name):
        raise ValueError("must be a name of lower-case letters, digits and '_', such as data_path")
    if name in CONTRACT_FIELDS:
        raise ValueError("has a meaning for every worker: choose another name")
    return name


def _checked_pattern(pattern: str) -> str:
    plain = pattern.replace("{algo}", "a").replace("{path}", "a")
    if plain == pattern or not _SCRIPT.fullmatch(plain.replace("*", "a")):
        raise ValueError("must be a path in the folder with {algo} in it, such as cleanrl/{algo}.py or */{algo}.py")
    if "**" in pattern:
        raise ValueError("may not look into folders of any depth: name how deep the scripts lie")
    return pattern


def _checked_option(option: str) -> str:
    if not _OPTION.fullmatch(option):
        raise ValueError("must be an option such as --data-path")
    return option


def _checked_variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError("must be the name of an environment variable, such as MOSAIC_CORL_PATH")
    return text


def _checked_algorithm_name(text: str) -> str:
    if re.search(r"[{}]", re.sub(r"\{(algo|stem)\}", "", text)):
        raise ValueError("may hold {algo} and {stem}, and no other braces")
    return text


Sentence = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(checked_label)]
PackagePath = Annotated[str, Field(max_length=200), AfterValidator(_checked_script)]
ScriptPattern = Annotated[str, Field(max_length=200), AfterValidator(_checked_pattern)]
SettingName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_checked_setting)]
Needs = Annotated[tuple[Need, ...], Field(strict=False, max_length=2)]


class RunnerCapabilities(StrictModel):
    """What a worker's runs can do. A capability that the manifest does not name is not offered to anyone."""

    pause: bool = Field(default=False, description="Runs can be paused and resumed while they live.")
    checkpoint: bool = Field(default=False, description="Runs write checkpoints.")
    warm_start: bool = Field(default=False, description="A run can begin with the weights of a checkpoint.")
    resume: bool = Field(default=False, description="A run can go on exactly where a checkpoint left off.")
    offline_inference: bool = Field(default=False, description="Checkpoints can act while no run lives.")
    gpu_required: bool = Field(default=False, description="Runs need a GPU.")
    interactive: bool = Field(
        default=False, description="A person sits before its runs: they have CPUs of their own beside training."
    )
    live_beliefs: bool = Field(default=False, description="Steps carry beliefs and intentions.")
    external_services: tuple[Label, ...] = Field(
        default=(), strict=False, max_length=20, description="Services that runs need, NAME or NAME@HOST:PORT."
    )
    dry_run: bool = Field(default=False, description="The module can check a config: --dry-run.")
    foreign_scripts: bool = Field(
        default=False, description="Runs training scripts that are not its own: a user's, or another project's."
    )


class Algorithm(StrictModel):
    """One algorithm that a worker offers."""

    summary: Sentence = Field(description="One sentence for people who choose.")
    script: PackagePath | None = Field(default=None, description="The file it runs, relative to the package.")
    action_spaces: tuple[ActionSpace, ...] = Field(
        default=(), strict=False, max_length=10, description="Action spaces it can learn on."
    )
    environments: tuple[PlainName, ...] = Field(
        default=("gymnasium",), strict=False, min_length=1, max_length=10, description="Where environments come from."
    )
    example_env: Label | None = Field(default=None, description="An environment to try it on.")
    twin: PlainName | None = Field(
        default=None, description="The algorithm with the same networks, whose script acts with its checkpoints."
    )
    needs: Needs | None = Field(default=None, description="What a run of it must name, where the worker's do not.")
    checkpoint_params: tuple[Label, ...] = Field(
        default=(), strict=False, max_length=20, description="Parameters that name a checkpoint or a file of one."
    )
    changeable_params: tuple[Label, ...] = Field(
        default=(), strict=False, max_length=100, description="Parameters that a run may change as it goes on."
    )
    recording_params: tuple[Label, ...] = Field(
        default=(), strict=False, max_length=20, description="Parameters that name a run whose recorded steps are read."
    )


class Choice(StrictModel):
    """Something that one chooses for a run besides the algorithm: another script, a checkout, an environment for it."""

    help: Sentence = Field(description="One sentence for people who choose.")
    kind: ChoiceKind = Field(description="What is given: nothing (switch), a file, a folder, a text or a bundle.")
    option: Annotated[str, AfterValidator(_checked_option)] | None = Field(
        default=None, description="Its option of mosaic train; --NAME unless it is given."
    )
    metavar: Label | None = Field(default=None, description="What help calls its value.")
    sets: dict[SettingName, JsonValue] = Field(default={}, description="Settings that it implies, with their values.")
    bundle: PlainName | None = Field(default=None, description="The bundle that its scripts run in.")
    bundles: dict[Annotated[str, Field(pattern=r"^[a-z0-9_.*]{1,64}$")], PlainName] = Field(
        default={}, description="Bundles for algorithms with such names, * for anything, in place of that one."
    )
    any_algorithm: bool = Field(default=False, description="The algorithm need not be one of the manifest's.")
    replaces_algorithm: bool = Field(default=False, description="It names what trains: no algorithm is given.")
    scripts: tuple[ScriptPattern, ...] = Field(
        default=(), strict=False, max_length=10, description="Where the script of {algo} lies in the folder."
    )
    algorithm: Annotated[str, Field(max_length=120), AfterValidator(_checked_algorithm_name)] = Field(
        default="", description="What checkpoints call the algorithm; {algo} and {stem} are filled in."
    )
    needs: Needs | None = Field(default=None, description="What a run must name, where the algorithm's do not.")
    variable: Annotated[str, Field(max_length=64), AfterValidator(_checked_variable)] | None = Field(
        default=None,
        description="Names it in a client's environment, where another choice with the same settings was made.",
    )

    @property
    def is_foreign(self) -> bool:
        """Whether what trains is not the worker's own."""
        return self.any_algorithm or self.replaces_algorithm

    def bundle_for(self, algo: str) -> str | None:
        """The bundle that the script of an algorithm runs in unless another one is chosen."""
        named = (bundle for pattern, bundle in self.bundles.items() if fnmatchcase(algo, pattern))
        return next(named, self.bundle)

    def script_in(self, folder: Path, algo: str) -> Path | None:
        """The script of an algorithm in a folder that somebody chose: the first that one of the patterns finds."""
        if not _NAME.fullmatch(algo):
            return None
        place = algo.replace(".", "/") if _DOTTED.fullmatch(algo) else algo
        patterns = [pattern.replace("{algo}", algo).replace("{path}", place) for pattern in self.scripts]
        found = (sorted(folder.glob(pattern)) for pattern in patterns)
        return next((path for paths in found for path in paths), None)


class WorkerTable(StrictModel):
    type: PlainName = Field(description="The name that run configs use; unique among the installed workers.")
    name: Label = Field(description="The name that people read.")
    version: Label = Field(description="The worker's version.")
    summary: Sentence = Field(description="One sentence for people who choose.")
    lane: Lane = Field(description="telemetry (live steps), analytics (artifacts) or hybrid (both).")
    module: ModulePath = Field(description="Started as python -m MODULE.")
    bundle: PlainName | None = Field(default=None, description="Its needs are in requirements/BUNDLE.txt.")
    needs: Needs = Field(default=(), description="What every run must name: env, dataset.")


class WarmTable(StrictModel):
    module: ModulePath = Field(description="Imported once in the fork server.")


class PolicyModules(StrictModel):
    """How what a worker has learned is put to use without a run. Each is started as ``python -m MODULE``."""

    evaluate: ModulePath | None = Field(default=None, description="Plays episodes with a checkpoint: mosaic eval.")
    estimate: ModulePath | None = Field(default=None, description="Estimates from a dataset: mosaic eval --offline.")
    act: ModulePath | None = Field(default=None, description="Answers observations with actions: mosaic policy.")
    import_file: ModulePath | None = Field(default=None, description="Converts files: mosaic import-checkpoint.")


class SettingsSources(StrictModel):
    """Where clients learn what a worker's runs can be given."""

    schema_: PackagePath | None = Field(
        default=None, alias="schema", description="A JSON schema of params, in a file of the package."
    )
    schema_module: ModulePath | None = Field(default=None, description="Prints that schema.")
    environments_module: ModulePath | None = Field(default=None, description="Prints the environments.")

    model_config = pydantic.ConfigDict(populate_by_name=True)


class EnvironmentGroup(StrictModel):
    """Environments that belong together."""

    name: Label = Field(description="What the family is called.")
    ids: tuple[Label, ...] = Field(strict=False, min_length=1, max_length=2000, description="Its environments.")
    sources: tuple[PlainName, ...] = Field(
        default=("gymnasium",), strict=False, min_length=1, max_length=10, description="Where algorithms get them from."
    )
    module: Annotated[str, Field(max_length=200)] = Field(
        default="", description="A Python module by which it is known whether they are installed."
    )
    extra: Annotated[str, Field(max_length=64)] = Field(default="", description="The set of extras that brings them.")


class ExtrasTable(StrictModel):
    module: ModulePath = Field(description="Lists and installs sets of requirements.")


class ManifestFile(StrictModel):
    """The tables of a ``worker.toml``."""

    schema_: Annotated[int, AfterValidator(_checked_schema)] = Field(
        alias="schema", description="Version of this format."
    )
    worker: WorkerTable = Field(description="Who the worker is and how it is started.")
    warm: WarmTable | None = Field(default=None, description="How its runs start faster.")
    policies: PolicyModules = Field(default=PolicyModules(), description="How checkpoints are put to use.")
    capabilities: RunnerCapabilities = Field(default=RunnerCapabilities(), description="What runs can do.")
    algorithms: dict[PlainName, Algorithm] = Field(default={}, description="What it offers, by name.")
    choices: dict[SettingName, Choice] = Field(default={}, description="What one chooses besides the algorithm.")
    settings: SettingsSources = Field(default=SettingsSources(), description="What its runs can be given.")
    environments: tuple[EnvironmentGroup, ...] = Field(
        default=(), strict=False, max_length=100, description="What it can train on, by family."
    )
    extras: ExtrasTable | None = Field(default=None, description="How what some runs need besides is installed.")
