"""Worker manifests (``worker.toml``): what a worker is and can do, read without importing it.

Workers are found through the entry-point group ``mosaic.workers`` (the value is the worker's top-level
package) and, so that one can be added by dropping a folder, below the folders of ``MOSAIC_WORKER_PATH``. What
is wrong with one worker becomes a sentence and never hides the others.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pydantic
from pydantic import AfterValidator, Field

from mosaic_protocol import suggest
from mosaic_protocol.run_config import Label, ModulePath, PlainName, StrictModel, checked_label
from mosaic_protocol.suggest import Problem

ENTRY_POINT_GROUP = "mosaic.workers"
SEARCH_PATH_VARIABLE = "MOSAIC_WORKER_PATH"
FILE_NAME = "worker.toml"
SCHEMA_VERSION = 1
MAX_MANIFEST_BYTES = 256 * 1024
_SCRIPT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")

Lane: TypeAlias = Literal["telemetry", "analytics", "hybrid"]
ActionSpace: TypeAlias = Literal["discrete", "continuous", "multi_discrete", "multi_binary"]
EnvironmentSource: TypeAlias = Literal["gymnasium", "atari", "envpool", "procgen"]


class ManifestError(suggest.InputError):
    """A manifest that was refused; see ``problems``. The message names the file in every line."""

    def __init__(self, file: Path, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.file = file

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {line}" for line in super().__str__().splitlines())


def _checked_schema(version: int) -> int:
    if version != SCHEMA_VERSION:
        raise ValueError(f"must be {SCHEMA_VERSION}; if the worker is for a newer MOSAIC, update this one")
    return version


def _checked_script(script: str) -> str:
    if not _SCRIPT.fullmatch(script):
        raise ValueError("must be a path such as cleanrl/ppo.py, relative to the package and inside it")
    return script


Sentence = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(checked_label)]
ScriptPath = Annotated[str, Field(max_length=200), AfterValidator(_checked_script)]


class RunnerCapabilities(StrictModel):
    """What a worker's runs can do. A capability that the manifest does not name is not offered to anyone."""

    pause: bool = Field(default=False, description="Runs can be paused and resumed while they live.")
    checkpoint: bool = Field(default=False, description="Runs write checkpoints.")
    warm_start: bool = Field(default=False, description="A run can begin with the weights of a checkpoint.")
    resume: bool = Field(default=False, description="A run can go on exactly where a checkpoint left off.")
    offline_inference: bool = Field(default=False, description="Checkpoints can act while no run lives.")
    gpu_required: bool = Field(default=False, description="Runs need a GPU.")
    live_telemetry: bool = Field(default=False, description="Runs stream every step and episode.")
    live_beliefs: bool = Field(default=False, description="Steps carry beliefs and intentions.")
    external_services: tuple[Label, ...] = Field(
        default=(), strict=False, max_length=20, description="Services that must be reachable, such as xmpp."
    )
    dry_run: bool = Field(default=False, description="The module can check a config: --dry-run.")
    foreign_scripts: bool = Field(
        default=False, description="Runs training scripts that are not its own: a user's, or upstream CleanRL's."
    )


class Algorithm(StrictModel):
    """One algorithm that a worker offers."""

    summary: Sentence = Field(description="One sentence for people who choose.")
    script: ScriptPath | None = Field(default=None, description="The file it runs, relative to the package.")
    action_spaces: tuple[ActionSpace, ...] = Field(
        default=(), strict=False, max_length=10, description="Action spaces it can learn on."
    )
    environments: tuple[EnvironmentSource, ...] = Field(
        default=("gymnasium",), strict=False, min_length=1, max_length=10, description="Where environments come from."
    )
    example_env: Label | None = Field(default=None, description="An environment to try it on.")


class _WorkerTable(StrictModel):
    type: PlainName = Field(description="The name that run configs use; unique among the installed workers.")
    name: Label = Field(description="The name that people read.")
    version: Label = Field(description="The worker's version.")
    summary: Sentence = Field(description="One sentence for people who choose.")
    lane: Lane = Field(description="telemetry (live steps), analytics (artifacts) or hybrid (both).")
    module: ModulePath = Field(description="Started as python -m MODULE.")
    bundle: PlainName | None = Field(default=None, description="Its needs are in requirements/BUNDLE.txt.")


class _WarmTable(StrictModel):
    module: ModulePath = Field(description="Imported once in the fork server.")


class PolicyModules(StrictModel):
    """How what a worker has learned is put to use without a run. Each is started as ``python -m MODULE``."""

    evaluate: ModulePath | None = Field(default=None, description="Plays episodes with a checkpoint: mosaic eval.")
    act: ModulePath | None = Field(default=None, description="Answers observations with actions: mosaic policy.")
    import_file: ModulePath | None = Field(default=None, description="Converts files: mosaic import-checkpoint.")


class _ManifestFile(StrictModel):
    """The tables of a ``worker.toml``."""

    schema_: Annotated[int, AfterValidator(_checked_schema)] = Field(
        alias="schema", description="Version of this format."
    )
    worker: _WorkerTable = Field(description="Who the worker is and how it is started.")
    warm: _WarmTable | None = Field(default=None, description="How its runs start faster.")
    policies: PolicyModules = Field(default=PolicyModules(), description="How checkpoints are put to use.")
    capabilities: RunnerCapabilities = Field(default=RunnerCapabilities(), description="What runs can do.")
    algorithms: dict[PlainName, Algorithm] = Field(default={}, description="What it offers, by name.")


class WorkerManifest(_WorkerTable):
    """A worker as its manifest describes it, and where it lies. Make one with :func:`load_manifest` only."""

    warm_module: str | None
    policies: PolicyModules
    capabilities: RunnerCapabilities
    algorithms: dict[str, Algorithm]
    package_dir: Path
    """The folder of the worker's package, which holds the manifest."""

    @property
    def package(self) -> str:
        """The worker's top-level package."""
        return self.package_dir.name

    @property
    def python_path(self) -> Path:
        """The folder that must be on the module search path of the worker's processes."""
        return self.package_dir.parent

    def to_json(self) -> str:
        """What clients need to know of the worker."""
        return self.model_dump_json(exclude={"package_dir"})


@dataclass(frozen=True)
class Discovery:
    """The workers that were found, by type, and a sentence for each thing that is wrong."""

    workers: dict[str, WorkerManifest]
    problems: list[str]


def load_manifest(package_dir: Path) -> WorkerManifest:
    """Read and check the manifest in a worker's package folder; raises only :class:`ManifestError`."""
    file = package_dir.absolute() / FILE_NAME
    try:
        tables = _ManifestFile.model_validate(_read_toml(file))
    except pydantic.ValidationError as error:
        raise ManifestError(file, suggest.problems_of(error, _ManifestFile)) from None
    if problems := [*_misplaced_modules(tables, file.parent), *_missing_scripts(tables, file.parent)]:
        raise ManifestError(file, problems)
    return WorkerManifest(
        **tables.worker.model_dump(),
        warm_module=tables.warm.module if tables.warm else None,
        policies=tables.policies,
        capabilities=tables.capabilities,
        algorithms=tables.algorithms,
        package_dir=file.parent,
    )


def discover(environ: Mapping[str, str] = os.environ) -> Discovery:
    """Find every worker that is installed or lies below a folder of ``MOSAIC_WORKER_PATH``. Raises nothing.

    Of two workers with the same type the one found first is kept, installed ones before dropped-in ones.
    """
    importlib.invalidate_caches()  # a worker may have been installed while this process lived
    found = Discovery({}, [])
    for package_dir in [*_installed_packages(found.problems), *_dropped_in_packages(environ, found.problems)]:
        _add(found, package_dir)
    return found


def _add(found: Discovery, package_dir: Path) -> None:
    try:
        manifest = load_manifest(package_dir)
    except ManifestError as error:
        found.problems.extend(str(error).splitlines())
        return
    first = found.workers.setdefault(manifest.type, manifest).package_dir
    if os.path.realpath(first) != os.path.realpath(package_dir):
        ignored = f"is ignored, because {first} already provides the worker type {manifest.type!r}"
        found.problems.append(f"{package_dir / FILE_NAME}: {ignored}")


def _installed_packages(problems: list[str]) -> Iterator[Path]:
    try:
        entries = sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
    except Exception as error:  # noqa: BLE001 - any installed distribution may have broken metadata
        problems.append(f"the installed packages' entry points cannot be read: {error}")
        return
    for entry in entries:
        try:
            yield _package_dir(entry.value)
        except Exception as error:  # noqa: BLE001 - import finders are foreign code
            problems.append(f"the entry point {entry.name!r} of {ENTRY_POINT_GROUP} is ignored: {error}")


def _package_dir(package: str) -> Path:
    """The folder of a top-level package with a manifest, without importing it; LookupError says why not."""
    if not package.isidentifier():
        raise LookupError(f"its value must be a top-level package, not {suggest.shown(package)}")
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise LookupError(f"there is no package {package!r}: install the worker again")
    for location in spec.submodule_search_locations or ():
        if _is_file(Path(location, FILE_NAME)):
            return Path(location)
    raise LookupError(f"the package {package!r} holds no {FILE_NAME}")


def _dropped_in_packages(environ: Mapping[str, str], problems: list[str]) -> Iterator[Path]:
    for folder in filter(None, environ.get(SEARCH_PATH_VARIABLE, "").split(os.pathsep)):
        try:
            entries = sorted(Path(folder).expanduser().absolute().iterdir())
        except OSError as error:
            problems.append(f"{folder} of {SEARCH_PATH_VARIABLE} cannot be read: {error.strerror}")
        except RuntimeError as error:  # "~name" of nobody
            problems.append(f"{folder} of {SEARCH_PATH_VARIABLE} cannot be read: {error}")
        else:
            yield from _packages_among(entries, problems)


def _packages_among(entries: list[Path], problems: list[str]) -> Iterator[Path]:
    for entry in entries:
        if entry.name == FILE_NAME:
            problems.append(f"{entry.parent} of {SEARCH_PATH_VARIABLE} is a worker itself: name the folder above it")
        elif _is_file(entry / FILE_NAME) and entry.name.isidentifier():
            yield entry
        elif _is_file(entry / FILE_NAME):
            problems.append(f"{entry} is ignored: its name cannot be a Python package's")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be entered
        return False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise ManifestError(file, [Problem("", f"is longer than {MAX_MANIFEST_BYTES} bytes")])
        return tomllib.loads(text.decode())
    except OSError as error:
        raise ManifestError(file, [Problem("", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ManifestError(file, [Problem("", f"is not UTF-8 text: see byte {error.start}")]) from None
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(file, [Problem("", f"is not TOML: {error}")]) from None
    except RecursionError:
        raise ManifestError(file, [Problem("", "is nested too deep")]) from None


def _misplaced_modules(tables: _ManifestFile, package_dir: Path) -> Iterator[Problem]:
    """Modules outside the worker's package: they would make the daemon start foreign code."""
    named = {"worker.module": tables.worker.module, "warm.module": tables.warm.module if tables.warm else None}
    named |= {f"policies.{use}": module for use, module in tables.policies.model_dump().items()}
    for path, module in named.items():
        if module and module.split(".")[0] != package_dir.name:
            message = f"must be a module of the package {package_dir.name!r}"
            yield Problem(path, message, suggest.shown(module))


def _missing_scripts(tables: _ManifestFile, package_dir: Path) -> Iterator[Problem]:
    inside = os.path.realpath(package_dir) + os.sep
    for name, algorithm in tables.algorithms.items():
        if algorithm.script is None:
            continue
        script = os.path.realpath(package_dir / algorithm.script)
        if not (script.startswith(inside) and _is_file(Path(script))):
            path = suggest.dotted(("algorithms", name, "script"))
            yield Problem(path, "must be a file in the package", suggest.shown(algorithm.script))
