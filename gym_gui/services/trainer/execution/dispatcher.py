"""From an accepted run to the command that starts its worker: folders, config files, interpreter, command,
environment."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services.script_consent import ScriptConsents, foreign_script
from gym_gui.services.trainer import VERSION
from gym_gui.services.trainer.bundles.manager import BundleManager
from gym_gui.services.trainer.bundles.requirements import BundleError
from gym_gui.services.trainer.errors import LaunchError, NotReadyError, WorldError, launch_problem
from gym_gui.services.trainer.execution.executor import LaunchSpec
from gym_gui.services.trainer.execution.hosts.fleet import Site
from gym_gui.services.trainer.runs.run_record import RunRecord
from mosaic_host.errors import start_error
from mosaic_host.gpu import Gpu, cuda_environment
from mosaic_host.hosted import inputs_of
from mosaic_host.threads import thread_environment
from mosaic_protocol.datasets import DATA, MANIFEST
from mosaic_protocol.datasets.registry import BROUGHT, BROUGHT_VARIABLE
from mosaic_protocol.endpoint import Endpoint
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.provenance import code_record, settings_hash, surroundings
from mosaic_protocol.run_config import RunConfig, parse_run_config
from mosaic_protocol.run_manifest import refresh_manifest
from mosaic_protocol.settings_spelling import respelt
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_protocol.worker_packages import PACKAGE_VARIABLE, worker_environment
from mosaic_protocol.worker_settings import SettingsError, settings_for

_LONGEST_PATH = 4096
_PREFLIGHT_SECONDS = 30.0
"""How long a passed pre-flight is believed; looking at every installed package costs more than a warm start."""

WorkerLookup = Callable[[], Mapping[str, WorkerManifest]]
SiteLookup = Callable[[str, str], Site]
Inputs = tuple[tuple[Path, Path], ...]


@dataclass(frozen=True)
class _Readiness:
    """A passed pre-flight: the Python that has what a worker needs, and what run manifests say of its packages."""

    python: Path
    requirements: dict[str, Any] | None = None
    checked_at: float = 0.0

    def is_believed(self) -> bool:
        return time.monotonic() - self.checked_at < _PREFLIGHT_SECONDS and self.python.exists()


@dataclass(frozen=True)
class _Surroundings:
    """What a command and an environment are built from."""

    run: RunRecord
    config: RunConfig
    manifest: WorkerManifest
    ready: _Readiness
    folders: RunPaths
    """Where the worker runs."""
    launch_token: str
    settings: dict[str, Any]
    """What the worker reads from its config file."""
    script: _Readiness | None = None
    """The environment of the run's script, where it has one of its own."""
    script_sha256: str = ""
    """Of a script that is not the worker's own: what was looked at is what may run."""
    site: Site | None = None
    """The other machine that it goes to."""
    inputs: Inputs = ()

    @property
    def tensorboard_dir(self) -> str:
        return str(self.settings["extras"].get("tensorboard_dir") or self.folders.tensorboard)


class TrainerDispatcher:
    """Builds launches. Its methods touch the disk and may be slow: call them in a thread."""

    def __init__(
        self,
        paths: MosaicPaths,
        bundles: BundleManager,
        workers: WorkerLookup,
        gpus: Sequence[Gpu],
        sites: SiteLookup | None = None,
    ) -> None:
        self._paths, self._bundles, self._workers, self._sites = paths, bundles, workers, sites
        self._target = Endpoint.of(paths).target
        self._gpus = tuple(gpus)
        self._passed: dict[str, _Readiness] = {}

    def dispatch(self, run: RunRecord, launch_token: str) -> LaunchSpec:
        """Prepare everything for one launch. Raises :class:`NotReadyError` or :class:`StorageFullError`
        for what may be another time, :class:`LaunchError` for what cannot, each with a sentence."""
        config = parse_run_config(run.config_json)
        manifest = self.manifest(run.worker_type)
        folders = self._make_folders(run)
        if run.host:
            around = self._on_a_host(run, config, manifest, launch_token)
            self._write_configs(around)
            return self._spec(around)
        bundle = config.worker.bundle
        script = self._ready_bundle(bundle) if bundle else None
        settings = _worker_settings(run, config, manifest, folders)
        foreign = self._consented_script(run, settings, manifest)
        ready = self._readiness(manifest)
        around = _Surroundings(run, config, manifest, ready, folders, launch_token, settings, script, foreign)
        self._write_configs(around)
        return self._spec(around)

    def _on_a_host(
        self, run: RunRecord, config: RunConfig, manifest: WorkerManifest, launch_token: str
    ) -> _Surroundings:
        """What is prepared here names what is there: folders, interpreter, code, and what the run begins from."""
        assert self._sites is not None
        site = self._sites(run.host, run.run_id)
        folders = site.paths.run(run.run_id)
        here = _worker_settings(run, config, manifest, folders)
        foreign = self._consented_script(run, here, manifest)
        script_file = manifest.foreign_file(here) if foreign else None
        settings, inputs = _relocated(here, self._paths, site, run.run_id, script_file)
        inputs += self._dataset_inputs(here, inputs_of(site.paths, run.run_id))
        ready = _Readiness(site.python(manifest.bundle))
        script = _Readiness(site.python(config.worker.bundle)) if config.worker.bundle else None
        return _Surroundings(
            run, config, manifest, ready, folders, launch_token, settings, script, foreign, site=site, inputs=inputs
        )

    def _dataset_inputs(self, settings: Mapping[str, Any], places: Path) -> Inputs:
        """The files of the dataset that a run learns from; over there it is found by its name, as here."""
        name = settings.get("dataset")
        if not isinstance(name, str) or not name:
            return ()
        try:
            folder = self._paths.dataset(name)
        except ValueError as error:
            raise LaunchError(f"never started: {error}") from error
        files = [folder / file for file in (DATA, MANIFEST)]
        if missing := next((file for file in files if not file.is_file()), None):
            raise LaunchError(f"never started: the dataset {name[:60]!r} is not here any more: there is no {missing}")
        return tuple((file, places / BROUGHT / name / file.name) for file in files)

    def spec_for_warming(self, worker_type: str) -> LaunchSpec | None:
        """What a launch of this worker would look like, for preparing a fork server; None when it has no warm-up."""
        manifest = self._workers().get(worker_type)
        if manifest is None or not manifest.warm_module:
            return None
        log = self._paths.logs / "fork_server.log"
        env = self._base_env(manifest)
        python = self._readiness(manifest).python
        return LaunchSpec("", 0, python, manifest.module, (), env, self._paths.runs, log, log, manifest.warm_module)

    def manifest(self, worker_type: str) -> WorkerManifest:
        manifest = self._workers().get(worker_type)
        if manifest is None:
            raise NotReadyError(f"the worker {worker_type!r} is not installed any more: install it again, or cancel")
        return manifest

    def _consented_script(self, run: RunRecord, settings: Mapping[str, Any], manifest: WorkerManifest) -> str:
        """The sha256 of the foreign script that would run now, "" when there is none.

        A run may wait for days, and its script may be another by then, also behind a link: what somebody allowed is the
        content when the run was submitted. A script that is not there is the worker's to tell of.
        """
        if not manifest.capabilities.foreign_scripts:
            return ""
        try:
            script = foreign_script({}, settings, manifest, self._paths)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise LaunchError(f"never started: the script {error.filename} cannot be read: {error.strerror}") from error
        if script is None:
            return ""
        if script.sha256 != run.script_sha256 and not ScriptConsents(self._paths).allows(script):
            raise LaunchError(
                f"never started: {script.file} was changed after the run was submitted, and nobody has allowed it "
                f"as it is now: look at it, then `mosaic show {run.run_id[-6:]} --config | mosaic submit - --yes` "
                "allows it and starts the run again"
            )
        return script.sha256

    def _readiness(self, manifest: WorkerManifest) -> _Readiness:
        """The outcome of a pre-flight that was passed a moment ago, or of one made now."""
        return self._ready_bundle(manifest.bundle) if manifest.bundle else _Readiness(Path(sys.executable))

    def _ready_bundle(self, bundle: str) -> _Readiness:
        passed = self._passed.get(bundle)
        if passed is None or not passed.is_believed():
            passed = self._passed[bundle] = self._fresh_preflight(bundle)
        return passed

    def _fresh_preflight(self, bundle: str) -> _Readiness:
        try:
            found = self._bundles.preflight(bundle)
            if found.python is None:
                raise NotReadyError(found.advice)
            return _Readiness(found.python, self._bundles.bundle_record(bundle), time.monotonic())
        except BundleError as error:
            raise LaunchError(f"never started: {error}") from error

    def _make_folders(self, run: RunRecord) -> RunPaths:
        """Only below the folders that were there when the daemon started: one that is missing was moved away or is not
        mounted, and comes back with what is in it."""
        folders = self._paths.run(run.run_id)
        try:
            for folder in (folders.directory, folders.outbox, folders.claims, self._paths.run_logs(run.run_id)):
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise _cannot("create", error) from error
        return folders

    def _write_configs(self, around: _Surroundings) -> None:
        run_id = around.run.run_id
        try:
            self._paths.run_config(run_id).write_text(around.run.config_json + "\n")
            self._paths.worker_config(run_id).write_text(json.dumps(around.settings, indent=2) + "\n")
            script = {"script_requirements": around.script.requirements} if around.script else {}
            requirements = around.ready.requirements
            refresh_manifest(
                self._paths.run(run_id),
                worker=around.manifest.type,
                requirements=requirements,
                environment=self._environment_record(around),
                worker_code=_worker_code(around.manifest),
                command=self._build_worker_command(around),
                settings_sha256=settings_hash(respelt(around.config.worker.config)),
                **script,
            )
        except OSError as error:
            raise _cannot("write", error) from error

    def _environment_record(self, around: _Surroundings) -> dict[str, Any]:
        """What the run is started on: afterwards packages are updated and nobody could tell."""
        held = around.run.reservation.gpu_indices if around.run.reservation else ()
        site = around.site
        machine = {"host": site.host.name} if site else surroundings((around.script or around.ready).python)
        return {
            **machine,
            "gpus": [gpu.name for gpu in self._gpus_of(around) if gpu.index in held],
            "threads": _threads(around.run, _environ_of(around))["OMP_NUM_THREADS"],
            "mosaic": VERSION,
            "worker_version": around.manifest.version,
        }

    def _gpus_of(self, around: _Surroundings) -> tuple[Gpu, ...]:
        return around.site.facts.capacity.gpus if around.site else self._gpus

    def _paths_of(self, around: _Surroundings) -> MosaicPaths:
        """The layout where the worker runs."""
        return around.site.paths if around.site else self._paths

    def _spec(self, around: _Surroundings) -> LaunchSpec:
        command = self._build_worker_command(around)
        logs = self._paths_of(around).run_logs(around.run.run_id)
        return LaunchSpec(
            run_id=around.run.run_id,
            attempt=around.run.attempt,
            python=around.ready.python,
            module=around.manifest.module,
            argv=tuple(command[3:]),
            env=self._build_worker_env(around),
            run_dir=around.folders.directory,
            stdout=logs / "stdout.log",
            stderr=logs / "stderr.log",
            warm_module=around.manifest.warm_module or "",
            inputs=around.inputs,
            **_needs(around.run),
        )

    def _build_worker_command(self, around: _Surroundings) -> list[str]:
        config = self._paths_of(around).worker_config(around.run.run_id)
        return [
            str(around.ready.python),
            "-m",
            around.manifest.module,
            "--config",
            str(config),
            "--grpc",
            "--grpc-target",
            around.site.target if around.site else self._target,
        ]

    def _build_worker_env(self, around: _Surroundings) -> dict[str, str]:
        """The daemon's environment with what the run adds. The launch token is the only secret in it, and the worker
        takes it out before it starts anything."""
        run, folders = around.run, around.folders
        artifacts = around.config.artifacts
        return {
            **(_env_on(around.site, around.manifest, run.run_id) if around.site else self._base_env(around.manifest)),
            "MOSAIC_RUN_ID": run.run_id,
            "MOSAIC_RUN_NAME": run.name,
            "MOSAIC_RUN_DIR": str(folders.directory),
            "MOSAIC_ATTEMPT": str(run.attempt),
            "MOSAIC_LAUNCH_TOKEN": around.launch_token,
            "MOSAIC_AGENT_ID": run.agent_id,
            "MOSAIC_WORKER_ID": run.worker_id,
            "MOSAIC_TENSORBOARD": "1" if artifacts.tensorboard.enabled else "0",
            "MOSAIC_TENSORBOARD_DIR": around.tensorboard_dir,
            f"{run.worker_type.upper()}_RUN_DIR": str(folders.directory),
            "WANDB_RUN_ID": run.run_id,
            "WANDB_DIR": str(folders.directory),
            **({"MOSAIC_SCRIPT_PYTHON": str(around.script.python)} if around.script else {}),
            **({"MOSAIC_SCRIPT_SHA256": around.script_sha256} if around.script_sha256 else {}),
            **_threads(run, _environ_of(around)),
            **cuda_environment(self._gpus_of(around), run.reservation.gpu_indices if run.reservation else ()),
        }

    def _base_env(self, manifest: WorkerManifest) -> dict[str, str]:
        return {
            "GRPC_ENABLE_FORK_SUPPORT": "0",  # a data loader forks while the session talks; gRPC's handlers crash it
            **worker_environment(manifest, os.environ, self._paths.root),
            "MOSAIC_GRPC_TARGET": self._target,
            "PYTHONUNBUFFERED": "1",
        }


def _threads(run: RunRecord, inherited: Mapping[str, str]) -> dict[str, str]:
    return thread_environment(run.reservation.cpus if run.reservation else 1, inherited)


def _needs(run: RunRecord) -> dict[str, int]:
    held = run.reservation
    return {"cpus": held.cpus, "memory_mb": held.memory_mb, "gpus": len(held.gpu_indices)} if held else {}


def _environ_of(around: _Surroundings) -> Mapping[str, str]:
    """What a worker inherits where it runs."""
    return around.site.facts.environ if around.site else os.environ


def _env_on(site: Site, manifest: WorkerManifest, run_id: str) -> dict[str, str]:
    """The beginning of a worker's environment on another host, as :meth:`TrainerDispatcher._base_env` makes it here."""
    return {
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        **site.facts.environ,
        "MOSAIC_HOME": site.facts.home,
        PACKAGE_VARIABLE: str(site.code / manifest.package_dir.name),
        "PYTHONPATH": str(site.code),
        "MOSAIC_GRPC_TARGET": site.target,
        "MOSAIC_HOST_AGENT": str(site.agent),
        BROUGHT_VARIABLE: str(inputs_of(site.paths, run_id) / BROUGHT),
        "MOSAIC_LEAVE_SECONDS": f"{site.leave_seconds:g}",
        "PYTHONUNBUFFERED": "1",
    }


def _relocated(
    settings: dict[str, Any], here: MosaicPaths, site: Site, run_id: str, script: Path | None
) -> tuple[dict[str, Any], Inputs]:
    """The settings with paths of the other machine, and what has to be taken there: whatever lies in the data root here
    and is named by its path, and the script of the user's own, which keeps its name."""
    found: dict[Path, Path] = {}
    places = inputs_of(site.paths, run_id)

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: moved(one) for name, one in value.items()}
        if isinstance(value, list):
            return [moved(one) for one in value]
        if not isinstance(value, str) or len(value) > _LONGEST_PATH:
            return value
        if script is not None and Path(value).expanduser() == script:
            return str(found.setdefault(script, places / "script" / script.name))
        if not value.startswith("/"):
            return value
        path = Path(value)
        if not path.is_relative_to(here.root) or not path.exists():
            return value
        return str(found.setdefault(path, places / f"{len(found)}-{path.name}"))

    changed = {name: moved(value) for name, value in settings.items()}
    return changed, tuple(found.items())


def _cannot(what: str, error: OSError) -> WorldError:
    return launch_problem(start_error(error, f"cannot {what} {error.filename}: {error.strerror}"))


def _worker_settings(run: RunRecord, config: RunConfig, manifest: WorkerManifest, folders: RunPaths) -> dict[str, Any]:
    """A run that was accepted may meet a manifest that was changed since; then the error says what does not fit."""
    try:
        return settings_for(config, manifest, run_id=run.run_id, tensorboard_dir=folders.tensorboard)
    except SettingsError as error:
        raise LaunchError(f"never started: {'; '.join(str(error).splitlines())}") from error


def _worker_code(manifest: WorkerManifest) -> dict[str, Any] | None:
    """The module that is started; None for a package, which is no file."""
    file = manifest.python_path.joinpath(*manifest.module.split(".")).with_suffix(".py")
    return code_record(file) if file.is_file() else None
