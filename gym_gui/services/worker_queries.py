"""Questions to workers, each answered by a process of the worker's: what a config would do, which flags a script has,
which environments there are. Nothing of a worker is imported here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gym_gui.services import environment_probe, start_point
from gym_gui.services.checkpoints.errors import CheckpointsError
from gym_gui.services.kept_answers import KEPT, KeptAnswers, question
from gym_gui.services.passing_folder import passing_folder
from gym_gui.services.trainer.validation.train_config import validate_train_run_config
from gym_gui.services.worker_tools import (
    ToolError,
    ToolFailedError,
    ToolMissingError,
    ToolRefusedError,
    environment,
    interpreter,
)
from mosaic_protocol import settings_schema
from mosaic_protocol.asked_process import MOST_BYTES, Answer, AskedProcess, LongAnswerError
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.plain_text import clean_line, last_line
from mosaic_protocol.run_config import RunConfigError
from mosaic_protocol.settings_spelling import respelt
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest, discover
from mosaic_protocol.worker_settings import settings_for

PATIENCE_SECONDS = 120.0
_SCRIPT_PYTHON = "MOSAIC_SCRIPT_PYTHON"
"""Where the dispatcher, too, tells a worker which Python its script runs in."""
_DESCRIBE = "--describe-flags"
_PROBE = Path(environment_probe.__file__).resolve()
_REFUSED_STATUS = 2
_NO_RUN = "dry-run"
_MOST_EXCERPT = 20
"""Stands for the run's id while there is no run."""


@dataclass(frozen=True)
class EnvironmentFamily:
    """Environments that belong together. ``sources``: where algorithms that can use them get them from."""

    name: str
    sources: tuple[str, ...]
    installed: bool
    extra: str
    environments: tuple[str, ...]
    installer: str = ""
    """The module of the worker that installs sets of extras."""

    @property
    def advice(self) -> str:
        """How to get what is missing, "" when nothing is."""
        if self.installed:
            return ""
        command = f"python -m {self.installer} --set {self.extra}" if self.extra and self.installer else ""
        return f"not installed. Install it with: {command}" if command else "not installed"


class WorkerQueries:
    """Asks the workers that are installed here. Blocking: use it in a thread. :meth:`stop` ends what is being asked.

    Every method raises :class:`ToolRefusedError` with the worker's own sentence when it refuses, and
    :class:`ToolFailedError` when it cannot be asked.
    """

    def __init__(self, paths: MosaicPaths, patience: float = PATIENCE_SECONDS, kept: KeptAnswers = KEPT) -> None:
        self.paths, self._kept = paths, kept
        self._patience = patience
        self._asked: set[AskedProcess] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def manifest(self, worker_type: str) -> WorkerManifest:
        """The worker as it is installed here."""
        found = discover().workers
        if worker_type not in found:
            hint = did_you_mean(worker_type, found)
            raise ToolFailedError(f"the worker {worker_type!r} is not installed where this program runs{hint}")
        return found[worker_type]

    def dry_run(self, worker_type: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """What a run config would start, in the worker's words; None for a worker that cannot tell.

        The config is judged as the daemon would judge it, its checkpoint is looked for, and the worker is given the
        very settings that a run would be given.
        """
        manifest = self.manifest(worker_type)
        settings, bundle = self._as_dispatched(manifest, config)
        if not manifest.capabilities.dry_run:
            return None
        return self._ask_about(manifest, settings, ["--dry-run", "--emit-summary"], bundle)

    def _as_dispatched(self, manifest: WorkerManifest, config: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        try:
            accepted = validate_train_run_config(config, known_workers={manifest.type: manifest})
            placed = start_point.placed(accepted.model_dump(mode="json"), manifest, self.paths)
            accepted = validate_train_run_config(placed, known_workers={manifest.type: manifest})
        except RunConfigError as error:
            raise ToolRefusedError("; ".join(str(error).splitlines())) from error
        except CheckpointsError as error:
            raise ToolRefusedError(str(error)) from error
        tensorboard = self.paths.runs / _NO_RUN / "tensorboard"
        settings = settings_for(accepted, manifest, run_id=_NO_RUN, tensorboard_dir=tensorboard)
        return settings, accepted.worker.bundle

    def describe_flags(self, worker_type: str, settings: Mapping[str, Any], bundle: str | None) -> dict[str, Any]:
        """``{algo, script, flags: […], capabilities: {…}}`` of the script that the settings name; of a worker with a
        schema its parameters, and "" for the script."""
        manifest = self.manifest(worker_type)
        if (schema := self.config_schema(worker_type)) is not None:
            return _described(manifest, settings, schema)
        try:
            told = self._flags_of(manifest, respelt(settings), bundle)
        except ToolRefusedError as error:
            if _DESCRIBE in str(error):  # it does not know the question
                raise _cannot_describe(worker_type) from error
            raise
        if not {"script", "flags", "capabilities"} <= told.keys():
            raise _cannot_describe(worker_type)
        return told

    def _flags_of(self, manifest: WorkerManifest, settings: Mapping[str, Any], bundle: str | None) -> dict[str, Any]:
        """Those of a script that belongs to the worker are kept; one of the user's may change, and import anything."""

        def ask() -> dict[str, Any]:
            return self._ask_about(manifest, settings, [_DESCRIBE], bundle)

        def is_the_workers_own(told: Mapping[str, Any]) -> bool:
            return Path(str(told.get("script"))).is_relative_to(manifest.package_dir)

        if bundle is not None:
            return ask()
        command = [str(interpreter(manifest, self.paths)), "-m", manifest.module, _DESCRIBE]
        return self._kept_or_asked(manifest, command, ask, settings, is_the_workers_own)

    def environments(self, worker_type: str) -> list[EnvironmentFamily]:
        """What can be trained on where the worker runs, and what could be: as its manifest lists it, or a module of
        its own prints it; otherwise what Gymnasium has registered there."""
        manifest = self.manifest(worker_type)
        if manifest.environments:
            return self._listed_environments(manifest)
        own = manifest.settings.environments_module
        told = self._run_in_worker(manifest, ["-m", own]) if own is not None else self._probed(manifest)
        try:
            return [_family(one, manifest) for one in told["families"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ToolFailedError(f"the worker {worker_type!r} does not tell its environments") from error

    def describe_environment(self, worker_type: str, env_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One environment as the worker's module for environments describes it, made with these parameters."""
        manifest = self.manifest(worker_type)
        module = manifest.settings.environments_module
        if module is None:
            raise ToolRefusedError(f"the worker {worker_type!r} does not describe environments")
        words = ["--describe", env_id, "--params", json.dumps(dict(params))]
        return self._run_in_worker(manifest, ["-m", module, *words])

    def _listed_environments(self, manifest: WorkerManifest) -> list[EnvironmentFamily]:
        """Those of the manifest; its interpreter is asked only when what they need must be looked for."""
        modules = sorted({one.module for one in manifest.environments if one.module})
        there = self._probed(manifest, *modules)["installed"] if modules else {}
        installer = manifest.extras_module or ""
        return [
            EnvironmentFamily(one.name, one.sources, there.get(one.module, True), one.extra, one.ids, installer)
            for one in manifest.environments
        ]

    def _probed(self, manifest: WorkerManifest, *modules: str) -> dict[str, Any]:
        program = [str(_PROBE), *modules]
        command = [str(interpreter(manifest, self.paths)), *program]
        return self._kept_or_asked(manifest, command, lambda: self._run_in_worker(manifest, program))

    def _kept_or_asked(
        self,
        manifest: WorkerManifest,
        command: list[str],
        ask: Callable[[], dict[str, Any]],
        about: object = None,
        worth_keeping: Callable[[dict[str, Any]], bool] = lambda told: True,
    ) -> dict[str, Any]:
        name = partial(question, manifest, command, environment(manifest, self.paths), about)
        return self._kept.answer(name, ask, worth_keeping)

    def _run_in_worker(self, manifest: WorkerManifest, program: list[str]) -> dict[str, Any]:
        command = [str(interpreter(manifest, self.paths)), *program]
        return self._run(command, environment(manifest, self.paths), manifest)

    def config_schema(self, worker_type: str) -> dict[str, Any] | None:
        """The JSON schema of the worker's parameters, None when it offers none."""
        manifest = self.manifest(worker_type)
        try:
            if manifest.schema_file is not None:
                return settings_schema.read_schema(manifest.schema_file)
            if (module := manifest.settings.schema_module) is None:
                return None
            return settings_schema.checked_schema(self._run_in_worker(manifest, ["-m", module]), module)
        except settings_schema.SchemaError as error:
            raise ToolFailedError(f"the worker {worker_type!r} does not tell its parameters: {error}") from error

    def ask(self, manifest: WorkerManifest, words: Sequence[str], bundle: str | None = None) -> dict[str, Any]:
        """What the worker's module answers to a question, in JSON. ``bundle``: where its script would run."""
        surroundings = environment(manifest, self.paths)
        if bundle is not None:
            surroundings[_SCRIPT_PYTHON] = str(self._script_python(bundle))
        command = [str(interpreter(manifest, self.paths)), "-m", manifest.module, *words]
        return self._run(command, surroundings, manifest)

    def python_of(self, manifest: WorkerManifest, bundle: str | None = None) -> Path:
        """The Python that a run's script is executed in, as the dispatcher would choose it."""
        return interpreter(manifest, self.paths) if bundle is None else self._script_python(bundle)

    def stop(self) -> None:
        """End every process that is being asked, and ask no more. May be called from any thread."""
        with self._lock:
            self._stopped = True
            for process in self._asked:
                process.kill()

    # ---- processes -----------------------------------------------------------------------------------------------

    def _ask_about(
        self, manifest: WorkerManifest, settings: Mapping[str, Any], words: Sequence[str], bundle: str | None
    ) -> dict[str, Any]:
        with passing_folder("ask") as folder:
            file = folder / "worker.json"
            file.write_text(json.dumps(settings))
            return self.ask(manifest, ["--config", str(file), *words], bundle)

    def _script_python(self, bundle: str) -> Path:
        from gym_gui.services.trainer.bundles.manager import BundleManager, requirement_dirs

        known = BundleManager(self.paths, requirement_dirs(discover().workers.values()))
        names = [info.name for info in known.list()]
        if bundle not in names:
            raise ToolRefusedError(f"there is no bundle {bundle[:60]!r}{did_you_mean(bundle, names)}")
        found = known.preflight(bundle)
        if found.python is None:
            raise ToolMissingError(found.advice)
        return found.python

    def _run(self, command: list[str], surroundings: dict[str, str], manifest: WorkerManifest) -> dict[str, Any]:
        process = self._started(command, surroundings)
        who = f"the worker {manifest.type!r}"
        try:
            answer = process.answer(self._patience)
        except TimeoutError:
            raise ToolFailedError(f"{who} did not answer within {self._patience:g} s") from None
        except OSError as error:
            raise ToolFailedError(f"{who} cannot be asked now: {error.strerror}") from error
        except LongAnswerError:
            raise ToolFailedError(f"{who} answered with more than {MOST_BYTES // 2**20} MB") from None
        finally:
            with self._lock:
                self._asked.discard(process)
        return _understood(answer, manifest)

    def _started(self, command: list[str], surroundings: dict[str, str]) -> AskedProcess:
        with self._lock:
            if self._stopped:
                raise ToolFailedError("the question was withdrawn")
            try:
                process = AskedProcess(command, surroundings)
            except OSError as error:
                raise ToolFailedError(f"cannot start {command[0]}: {error.strerror}") from error
            self._asked.add(process)
            return process


def _cannot_describe(worker_type: str) -> ToolRefusedError:
    return ToolRefusedError(f"the worker {worker_type!r} does not tell the flags of its scripts")


def _described(manifest: WorkerManifest, settings: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a worker with a schema, in the shape of a script's flags."""
    can = manifest.capabilities
    offered = {"pause": can.pause, "checkpoint": can.checkpoint, "warm_start": can.warm_start, "resume": can.resume}
    why = {True: "the worker's manifest says so", False: "the worker's manifest does not name it"}
    return {
        "algo": str(settings.get("algo") or manifest.type),
        "script": "",
        "flags": settings_schema.as_flags(schema),
        "capabilities": {name: {"offered": able, "why": why[able]} for name, able in offered.items()},
    }


def _family(one: object, manifest: WorkerManifest) -> EnvironmentFamily:
    """Raises KeyError, TypeError or ValueError for what describes none."""
    if not isinstance(one, dict):
        raise TypeError("no object")
    sources, environments = _words(one.get("sources") or ["gymnasium"]), _words(one["environments"])
    extra, installer = str(one.get("extra") or ""), manifest.extras_module or ""
    return EnvironmentFamily(
        str(one["name"]), sources, one.get("installed") is not False, extra, environments, installer
    )


def _words(listed: object) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(word, str) for word in listed):
        raise ValueError("no list of words")
    return tuple(listed)


def _apart(errors: str, mark: str) -> tuple[str, tuple[str, ...]]:
    """What a worker says, and the lines that it shows below."""
    lines = errors.splitlines()
    excerpt = tuple(clean_line(line[len(mark) :]) for line in lines if line.startswith(mark))
    return "\n".join(line for line in lines if not line.startswith(mark)), excerpt[:_MOST_EXCERPT]


def _understood(told: Answer, manifest: WorkerManifest) -> dict[str, Any]:
    status = told.status
    said, excerpt = _apart(told.errors, f"{manifest.package}| ")
    last = last_line(said, most=len(said)).removeprefix(f"{manifest.package}: ") or "it said nothing"
    if status == _REFUSED_STATUS:
        raise ToolRefusedError(last, excerpt)
    if status != 0:
        ended = f"killed by signal {-status}" if status < 0 else f"status {status}"
        raise ToolFailedError(f"the worker {manifest.type!r} could not answer ({ended}): {last}")
    try:
        answer = json.loads(told.said)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ToolFailedError(f"the worker {manifest.type!r} did not answer with a JSON object")
    return answer


__all__ = ["EnvironmentFamily", "ToolError", "WorkerQueries"]
