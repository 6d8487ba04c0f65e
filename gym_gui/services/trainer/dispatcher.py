"""From an accepted run to the command that starts its worker: folders, config files, interpreter, command,
environment."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services.trainer.bundle_requirements import BundleError
from gym_gui.services.trainer.bundles import BundleManager
from gym_gui.services.trainer.errors import LaunchError, NotReadyError, StorageFullError, WorldError, is_shortage
from gym_gui.services.trainer.executor import LaunchSpec
from gym_gui.services.trainer.gpu import Gpu, cuda_environment
from gym_gui.services.trainer.run_record import RunRecord
from mosaic_protocol.paths import MosaicPaths, RunPaths
from mosaic_protocol.run_config import RunConfig, parse_run_config
from mosaic_protocol.run_manifest import refresh_manifest
from mosaic_protocol.worker_manifest import WorkerManifest

_PROTOCOL_ROOT = Path(__file__).resolve().parents[3]
_PREFLIGHT_SECONDS = 30.0
"""How long a passed pre-flight is believed; looking at every installed package costs more than a warm start."""

WorkerLookup = Callable[[], Mapping[str, WorkerManifest]]


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
    launch_token: str
    script: _Readiness | None = None
    """The environment of the run's script, where it has one of its own."""


class TrainerDispatcher:
    """Builds launches. Its methods touch the disk and may be slow: call them in a thread."""

    def __init__(
        self, paths: MosaicPaths, bundles: BundleManager, workers: WorkerLookup, gpus: Sequence[Gpu], target: str
    ) -> None:
        self._paths, self._bundles, self._workers, self._target = paths, bundles, workers, target
        self._gpus = tuple(gpus)
        self._passed: dict[str, _Readiness] = {}

    def dispatch(self, run: RunRecord, launch_token: str) -> LaunchSpec:
        """Prepare everything for one launch. Raises :class:`NotReadyError` or :class:`StorageFullError`
        for what may be another time, :class:`LaunchError` for what cannot, each with a sentence."""
        config = parse_run_config(run.config_json)
        manifest = self.manifest(run.worker_type)
        folders = self._make_folders(run)
        bundle = config.worker.bundle
        script = self._ready_bundle(bundle) if bundle else None
        around = _Surroundings(run, config, manifest, self._readiness(manifest), folders, launch_token, script)
        self._write_configs(around)
        return self._spec(around)

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
        folders = self._paths.run(run.run_id)
        try:
            for folder in (folders.outbox, folders.claims, self._paths.run_logs(run.run_id), self._paths.configs):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot("create", error) from error
        return folders

    def _write_configs(self, around: _Surroundings) -> None:
        run_id = around.run.run_id
        try:
            self._paths.run_config(run_id).write_text(around.run.config_json + "\n")
            self._paths.worker_config(run_id).write_text(json.dumps(_worker_config(around), indent=2) + "\n")
            script = {"script_requirements": around.script.requirements} if around.script else {}
            requirements = around.ready.requirements
            refresh_manifest(around.folders, worker=around.manifest.type, requirements=requirements, **script)
        except OSError as error:
            raise _cannot("write", error) from error

    def _spec(self, around: _Surroundings) -> LaunchSpec:
        command = self._build_worker_command(around)
        logs = self._paths.run_logs(around.run.run_id)
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
        )

    def _build_worker_command(self, around: _Surroundings) -> list[str]:
        config = self._paths.worker_config(around.run.run_id)
        return [
            str(around.ready.python),
            "-m",
            around.manifest.module,
            "--config",
            str(config),
            "--grpc",
            "--grpc-target",
            self._target,
        ]

    def _build_worker_env(self, around: _Surroundings) -> dict[str, str]:
        """The daemon's environment with what the run adds. The launch token is the only secret in it, and the worker
        takes it out before it starts anything."""
        run, folders = around.run, around.folders
        artifacts = around.config.artifacts
        return {
            **self._base_env(around.manifest),
            "MOSAIC_RUN_ID": run.run_id,
            "MOSAIC_RUN_NAME": run.name,
            "MOSAIC_RUN_DIR": str(folders.directory),
            "MOSAIC_ATTEMPT": str(run.attempt),
            "MOSAIC_LAUNCH_TOKEN": around.launch_token,
            "MOSAIC_AGENT_ID": run.agent_id,
            "MOSAIC_WORKER_ID": run.worker_id,
            "MOSAIC_TENSORBOARD": "1" if artifacts.tensorboard.enabled else "0",
            "MOSAIC_TENSORBOARD_DIR": str(folders.tensorboard),
            f"{run.worker_type.upper()}_RUN_DIR": str(folders.directory),
            "WANDB_RUN_ID": run.run_id,
            "WANDB_DIR": str(folders.directory),
            **({"MOSAIC_SCRIPT_PYTHON": str(around.script.python)} if around.script else {}),
            **cuda_environment(self._gpus, run.reservation.gpu_indices if run.reservation else ()),
        }

    def _base_env(self, manifest: WorkerManifest) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MOSAIC_TRAINER_")}
        search = [str(manifest.python_path), str(_PROTOCOL_ROOT), inherited.get("PYTHONPATH", "")]
        return {
            "GRPC_ENABLE_FORK_SUPPORT": "0",  # a data loader forks while the session talks; gRPC's handlers crash it
            **inherited,
            "MOSAIC_HOME": str(self._paths.root),
            "MOSAIC_GRPC_TARGET": self._target,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, search))),
            "PYTHONUNBUFFERED": "1",
        }


def _cannot(what: str, error: OSError) -> WorldError:
    sentence = f"cannot {what} {error.filename}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(sentence)
    if is_shortage(error):
        return NotReadyError(sentence)
    return LaunchError(f"never started: {sentence}")


def _worker_config(around: _Surroundings) -> dict[str, Any]:
    """The worker's own part of the config, with ``${RUN_ID}`` and ``${VAR_TENSORBOARD_DIR}`` filled in."""
    values = {"${RUN_ID}": around.run.run_id, "${VAR_TENSORBOARD_DIR}": str(around.folders.tensorboard.parent)}
    filled: dict[str, Any] = _filled(around.config.worker.config, values)
    filled["run_id"] = around.run.run_id
    filled["artifacts"] = around.config.artifacts.model_dump()
    return filled


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, values) for item in value]
    return value
