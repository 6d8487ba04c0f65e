"""Worker manifests (``worker.toml``): what a worker is and can do, read without importing it.

Workers are found through the entry-point group ``mosaic.workers`` (the value is the worker's top-level
package) and, so that one can be added by dropping a folder, below the folders of ``MOSAIC_WORKER_PATH``. What
is wrong with one worker becomes a sentence and never hides the others.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
from pydantic import Field

from mosaic_protocol import settings_schema, suggest
from mosaic_protocol.suggest import Problem
from mosaic_protocol.worker_tables import (
    KNOWN_SOURCES,
    Algorithm,
    Choice,
    EnvironmentGroup,
    Lane,
    ManifestFile,
    Need,
    PolicyModules,
    RunnerCapabilities,
    SettingsSources,
    WorkerTable,
)

__all__ = [
    "Algorithm",
    "Choice",
    "Discovery",
    "Lane",
    "ManifestError",
    "PolicyModules",
    "RunnerCapabilities",
    "WorkerManifest",
    "discover",
    "load_manifest",
    "read_toml",
]

DISTRIBUTION = "mosaic-rl"
ENTRY_POINT_GROUP = "mosaic.workers"
SEARCH_PATH_VARIABLE = "MOSAIC_WORKER_PATH"
FILE_NAME = "worker.toml"
SCHEMA_FILE = "config.schema.json"
"""A worker offers the JSON schema of its parameters in a file of this name unless its manifest names another one."""
MAX_MANIFEST_BYTES = 256 * 1024
MAX_LINE_BYTES = 8 * 1024
"""A dotted key costs the square of its length to read."""
_CODE_ROOT = Path(__file__).resolve().parent.parent
_POLICY_PROGRAMS = tuple(f"mosaic_worker.policies.{one}" for one in ("evaluate", "estimate", "act"))


class ManifestError(suggest.InputError):
    """A manifest that was refused; see ``problems``. The message names the file in every line."""

    def __init__(self, file: Path, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.file = file

    def __str__(self) -> str:
        return "\n".join(f"{self.file}: {line}" for line in super().__str__().splitlines())


class WorkerManifest(WorkerTable):
    """A worker as its manifest describes it, and where it lies. Make one with :func:`load_manifest` only."""

    warm_module: str | None
    policies: PolicyModules
    capabilities: RunnerCapabilities
    algorithms: dict[str, Algorithm]
    choices: dict[str, Choice] = Field(default={})
    settings: SettingsSources = SettingsSources()
    environments: tuple[EnvironmentGroup, ...] = ()
    extras_module: str | None = None
    package_dir: Path
    """The folder of the worker's package, which holds the manifest."""
    schema_file: Path | None = None
    """Where the JSON schema of its parameters is; None when it has none in a file."""

    @property
    def package(self) -> str:
        """The worker's top-level package."""
        return self.package_dir.name

    @property
    def python_path(self) -> Path:
        """The folder that must be on the module search path of the worker's processes."""
        return self.package_dir.parent

    @property
    def choice_settings(self) -> frozenset[str]:
        """The settings that express its choices, beside those of the contract."""
        named = {name for name, choice in self.choices.items() if choice.kind != "switch"}
        return frozenset(named.union(*(choice.sets for choice in self.choices.values())))

    @property
    def takes_any_params(self) -> bool:
        """Whether its parameters are unknown: neither a schema nor the flags of a script name them."""
        has_scripts = bool(self.choices) or any(one.script for one in self.algorithms.values())
        return not (has_scripts or self.schema_file or self.settings.schema_module)

    def chosen(self, settings: Mapping[str, Any]) -> dict[str, Choice]:
        """The choices that a run's settings express: those with a value, and switches whose settings are all there."""

        def is_made(name: str, choice: Choice) -> bool:
            if choice.kind != "switch":
                return bool(settings.get(name))
            return bool(choice.sets) and all(settings.get(key) == value for key, value in choice.sets.items())

        return {name: choice for name, choice in self.choices.items() if is_made(name, choice)}

    def foreign_file(self, settings: Mapping[str, Any]) -> Path | None:
        """The file that the choices of a run's settings name as what trains; None when they name none, or it is not
        there. Files of bundles are not looked for: MOSAIC installed those."""
        for name, choice in self.chosen(settings).items():
            given = Path(str(settings.get(name) or "")).expanduser()
            if choice.kind == "file" and choice.is_foreign:
                return given
            if choice.kind == "folder" and choice.scripts and given.is_absolute():
                return choice.script_in(given, str(settings.get("algo") or ""))
        return None

    def needs_of(self, settings: Mapping[str, Any]) -> tuple[Need, ...]:
        """What a run with these settings must name: as its choices say, else its algorithm, else the worker."""
        algorithm = self.algorithms.get(str(settings.get("algo") or ""))
        said = [choice.needs for choice in self.chosen(settings).values()] + [algorithm.needs if algorithm else None]
        return next((needs for needs in said if needs is not None), self.needs)

    def algorithm_of(self, settings: Mapping[str, Any]) -> str:
        """What checkpoints of a run with these settings call its algorithm."""
        algo = str(settings.get("algo") or "")
        for name, choice in self.chosen(settings).items():
            if choice.algorithm:
                stem = Path(str(settings.get(name) or "")).stem
                return choice.algorithm.replace("{algo}", algo).replace("{stem}", stem)
        return algo

    def to_json(self) -> str:
        """What clients need to know of the worker."""
        return self.model_dump_json(exclude={"package_dir", "schema_file"})


@dataclass(frozen=True)
class Discovery:
    """The workers that were found, by type, and a sentence for each thing that is wrong."""

    workers: dict[str, WorkerManifest]
    problems: list[str]


def load_manifest(package_dir: Path) -> WorkerManifest:
    """Read and check the manifest in a worker's package folder; raises only :class:`ManifestError`."""
    file = package_dir.absolute() / FILE_NAME
    try:
        tables = ManifestFile.model_validate(read_toml(file))
    except pydantic.ValidationError as error:
        raise ManifestError(file, suggest.problems_of(error, ManifestFile)) from None
    misplaced = [*_misplaced_modules(tables, file.parent), *_missing_files(tables, file.parent)]
    if problems := [*misplaced, *_unkept_promises(tables)]:
        raise ManifestError(file, problems)
    return WorkerManifest(
        **tables.worker.model_dump(),
        warm_module=tables.warm.module if tables.warm else None,
        policies=tables.policies,
        capabilities=tables.capabilities,
        algorithms=tables.algorithms,
        choices=tables.choices,
        settings=tables.settings,
        environments=tables.environments,
        extras_module=tables.extras.module if tables.extras else None,
        package_dir=file.parent,
        schema_file=_schema_file(tables, file.parent),
    )


def _schema_file(tables: ManifestFile, package_dir: Path) -> Path | None:
    if tables.settings.schema_ is not None:
        return package_dir / tables.settings.schema_
    usual = package_dir / SCHEMA_FILE
    return usual if _is_file(usual) else None


def discover(environ: Mapping[str, str] = os.environ) -> Discovery:
    """Find every worker that is installed or lies below a folder of ``MOSAIC_WORKER_PATH``. Raises nothing.

    Of two workers with the same type the one found first is kept: those that come with MOSAIC before other installed
    ones, and these before dropped-in ones. So no package takes the place of a built-in worker, nor of its algorithms.
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
    if manifest.schema_file is not None:
        try:
            settings_schema.read_schema(manifest.schema_file)
        except settings_schema.SchemaError as error:  # the worker stays: it says itself what it can do without
            found.problems.append(f"{package_dir}: the settings of the worker {manifest.type!r} are not known: {error}")
    first = found.workers.setdefault(manifest.type, manifest).package_dir
    if os.path.realpath(first) != os.path.realpath(package_dir):
        ignored = f"is ignored, because {first} already provides the worker type {manifest.type!r}"
        found.problems.append(f"{package_dir / FILE_NAME}: {ignored}")


def _installed_packages(problems: list[str]) -> Iterator[Path]:
    try:
        entries = sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=_precedence)
    except Exception as error:  # noqa: BLE001 - any installed distribution may have broken metadata
        problems.append(f"the installed packages' entry points cannot be read: {error}")
        return
    for entry in entries:
        try:
            yield _package_dir(entry.value)
        except Exception as error:  # noqa: BLE001 - import finders are foreign code
            problems.append(f"the entry point {entry.name!r} of {ENTRY_POINT_GROUP} is ignored: {error}")


def _precedence(entry: importlib.metadata.EntryPoint) -> tuple[bool, str, str]:
    """Built-in workers come first. One is built in when MOSAIC's own distribution names it and it lies beside this
    package: another distribution may have any name."""
    named = entry.dist.name.lower().replace("_", "-") if entry.dist is not None else ""
    is_ours = named == DISTRIBUTION and (_CODE_ROOT / entry.value / FILE_NAME).is_file()
    return not is_ours, entry.name, entry.value


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
        except RuntimeError as error:  # "~name" of an unknown user
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


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a file of a worker's, of bounded size. Raises :class:`ManifestError`."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise ManifestError(file, [Problem("", f"is longer than {MAX_MANIFEST_BYTES} bytes")])
        if max(map(len, text.splitlines()), default=0) > MAX_LINE_BYTES:
            raise ManifestError(file, [Problem("", f"has a line longer than {MAX_LINE_BYTES} bytes")])
        return tomllib.loads(text.decode())
    except OSError as error:
        raise ManifestError(file, [Problem("", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ManifestError(file, [Problem("", f"is not UTF-8 text: see byte {error.start}")]) from None
    except ValueError as error:  # TOMLDecodeError is one; a number of thousands of digits is another
        raise ManifestError(file, [Problem("", f"is not TOML: {str(error)[:200]}")]) from None
    except RecursionError:
        raise ManifestError(file, [Problem("", "is nested too deep")]) from None


def _misplaced_modules(tables: ManifestFile, package_dir: Path) -> Iterator[Problem]:
    """Modules outside the worker's package: they would make the daemon start foreign code. The kit has programs that
    put the checkpoints of any worker to use."""
    named = {
        "worker.module": tables.worker.module,
        "warm.module": tables.warm.module if tables.warm else None,
        "extras.module": tables.extras.module if tables.extras else None,
        "settings.schema_module": tables.settings.schema_module,
        "settings.environments_module": tables.settings.environments_module,
    }
    named |= {f"policies.{use}": module for use, module in tables.policies.model_dump().items()}
    for path, module in named.items():
        if path.startswith("policies.") and module in _POLICY_PROGRAMS:
            continue
        if module and module.split(".")[0] != package_dir.name:
            message = f"must be a module of the package {package_dir.name!r}"
            yield Problem(path, message, suggest.shown(module))


def _missing_files(tables: ManifestFile, package_dir: Path) -> Iterator[Problem]:
    inside = os.path.realpath(package_dir) + os.sep
    named: dict[suggest.FieldPath, str | None] = {("settings", "schema"): tables.settings.schema_}
    named |= {("algorithms", name, "script"): one.script for name, one in tables.algorithms.items()}
    for path, relative in named.items():
        if relative is None:
            continue
        file = os.path.realpath(package_dir / relative)
        if not (file.startswith(inside) and _is_file(Path(file))):
            yield Problem(suggest.dotted(path), "must be a file in the package", suggest.shown(relative))


def _unkept_promises(tables: ManifestFile) -> Iterator[Problem]:
    """Capabilities that contradict the rest of the manifest."""
    policies = tables.policies
    if tables.capabilities.offline_inference and not (policies.evaluate or policies.act):
        yield Problem("capabilities.offline_inference", "needs a module under [policies]: evaluate or act")
    if tables.settings.schema_ and tables.settings.schema_module:
        yield Problem("settings", "names a schema and a module that prints one: give one of them")
    yield from _unknown_sources(tables)
    yield from _unknown_twins(tables)
    for name, choice in tables.choices.items():
        if choice.kind == "switch" and not choice.sets:
            yield Problem(suggest.dotted(("choices", name, "sets")), "is required for a switch")
        if bool(choice.scripts) != (choice.kind == "folder" and choice.is_foreign):
            why = "says where a folder has the scripts that are not the worker's own: needed there, and nowhere else"
            yield Problem(suggest.dotted(("choices", name, "scripts")), why)
        if choice.is_foreign and choice.kind in {"text", "bundle"}:
            why = "must be a switch, a file or a folder where it names what trains: a person has to see that file"
            yield Problem(suggest.dotted(("choices", name, "kind")), why)


def _unknown_twins(tables: ManifestFile) -> Iterator[Problem]:
    """A twin acts with the checkpoints of another algorithm, so it must be offered and act with its own."""
    for name, algorithm in tables.algorithms.items():
        if algorithm.twin is None:
            continue
        other = tables.algorithms.get(algorithm.twin)
        if other is None or other.twin is not None or algorithm.twin == name:
            suitable = [one for one, found in tables.algorithms.items() if found.twin is None and one != name]
            near = suggest.did_you_mean(algorithm.twin, suitable)
            why = f"must be another algorithm of this worker, without a twin{near}"
            yield Problem.at(("algorithms", name, "twin"), why, algorithm.twin)


def _unknown_sources(tables: ManifestFile) -> Iterator[Problem]:
    """A source that no family has is a slip of the pen: the algorithm would be offered no environment."""
    known = {*KNOWN_SOURCES, *(source for family in tables.environments for source in family.sources)}
    for name, algorithm in tables.algorithms.items():
        for source in set(algorithm.environments) - known:
            why = f"is no source of environments: none of [[environments]] has it{suggest.did_you_mean(source, known)}"
            yield Problem.at(("algorithms", name, "environments"), why, source)
