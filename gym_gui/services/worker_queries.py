"""Questions to workers, each answered by a process of the worker's: what a config would do, which flags a script has,
which environments there are. Nothing of a worker is imported here."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_gui.services import environment_probe
from gym_gui.services.worker_tools import (
    ToolError,
    ToolFailedError,
    ToolMissingError,
    ToolRefusedError,
    environment,
    interpreter,
)
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.suggest import did_you_mean
from mosaic_protocol.worker_manifest import WorkerManifest, discover

PATIENCE_SECONDS = 120.0
SCHEMA_FILE = "config.schema.json"
"""A worker offers the JSON schema of its config in a file of this name beside its manifest."""
_SCRIPT_PYTHON = "MOSAIC_SCRIPT_PYTHON"
"""Where the dispatcher, too, tells a worker which Python its script runs in."""
_DESCRIBE = "--describe-flags"
_REFUSED_STATUS = 2
_MOST_SCHEMA_BYTES = 256 * 1024


@dataclass(frozen=True)
class EnvironmentFamily:
    """Environments that belong together. ``sources``: where algorithms that can use them get them from."""

    name: str
    sources: tuple[str, ...]
    installed: bool
    extra: str
    environments: tuple[str, ...]

    @property
    def advice(self) -> str:
        """How to get what is missing, "" when nothing is."""
        if self.installed:
            return ""
        command = f"python -m cleanrl_worker.tools.install_extras --set {self.extra}" if self.extra else ""
        return f"not installed. Install it with: {command}" if command else "not installed"


class WorkerQueries:
    """Asks the workers that are installed here. Blocking: use it in a thread. :meth:`stop` ends what is being asked.

    Every method raises :class:`ToolRefusedError` with the worker's own sentence when it refuses, and
    :class:`ToolFailedError` when it cannot be asked.
    """

    def __init__(self, paths: MosaicPaths, patience: float = PATIENCE_SECONDS) -> None:
        self.paths = paths
        self._patience = patience
        self._asked: set[subprocess.Popen[str]] = set()
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
        """What a run config would start, in the worker's words; None for a worker that cannot tell."""
        manifest = self.manifest(worker_type)
        if not manifest.capabilities.dry_run:
            return None
        return self._ask_about(manifest, _worker_part(config), ["--dry-run", "--emit-summary"], _bundle(config))

    def describe_flags(self, worker_type: str, settings: Mapping[str, Any], bundle: str | None) -> dict[str, Any]:
        """``{algo, script, flags: […], capabilities: {…}}`` of the script that the settings name."""
        try:
            told = self._ask_about(self.manifest(worker_type), settings, [_DESCRIBE], bundle)
        except ToolRefusedError as error:
            if _DESCRIBE in str(error):  # it does not know the question
                raise _cannot_describe(worker_type) from error
            raise
        if not {"script", "flags", "capabilities"} <= told.keys():
            raise _cannot_describe(worker_type)
        return told

    def environments(self, worker_type: str) -> list[EnvironmentFamily]:
        """What can be trained on where the worker runs, and what could be."""
        manifest = self.manifest(worker_type)
        command = [str(interpreter(manifest, self.paths)), str(Path(environment_probe.__file__).resolve())]
        told = self._run(command, environment(manifest, self.paths), manifest)
        return [
            EnvironmentFamily(
                one["name"], tuple(one["sources"]), one["installed"], one["extra"], tuple(one["environments"])
            )
            for one in told["families"]
        ]

    def config_schema(self, worker_type: str) -> dict[str, Any] | None:
        """The JSON schema of the worker's config, None when it offers none."""
        file = self.manifest(worker_type).package_dir / SCHEMA_FILE
        try:
            with file.open("rb") as stream:
                schema = json.loads(stream.read(_MOST_SCHEMA_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise ToolFailedError(f"{file.name} of the worker {worker_type!r} cannot be read: {error}") from error
        return schema if isinstance(schema, dict) else None

    def ask(self, manifest: WorkerManifest, words: Sequence[str], bundle: str | None = None) -> dict[str, Any]:
        """What the worker's module answers to a question, in JSON. ``bundle``: where its script would run."""
        surroundings = environment(manifest, self.paths)
        if bundle is not None:
            surroundings[_SCRIPT_PYTHON] = str(self._script_python(bundle))
        command = [str(interpreter(manifest, self.paths)), "-m", manifest.module, *words]
        return self._run(command, surroundings, manifest)

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
        with tempfile.TemporaryDirectory(prefix="mosaic-ask-") as folder:
            file = Path(folder) / "worker.json"
            file.write_text(json.dumps(settings))
            return self.ask(manifest, ["--config", str(file), *words], bundle)

    def _script_python(self, bundle: str) -> Path:
        from gym_gui.services.trainer.bundles import BundleManager, requirement_dirs

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
        try:
            said, errors = process.communicate(timeout=self._patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise ToolFailedError(f"the worker {manifest.type!r} did not answer within {self._patience:g} s") from None
        except BaseException:  # Ctrl-C above all: nobody waits for the answer any more
            process.kill()
            process.communicate()
            raise
        finally:
            with self._lock:
                self._asked.discard(process)
        return _understood(process.returncode, said, errors, manifest)

    def _started(self, command: list[str], surroundings: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise ToolFailedError("the question was withdrawn")
            try:
                process = subprocess.Popen(
                    command,
                    env=surroundings,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                )
            except OSError as error:
                raise ToolFailedError(f"cannot start {command[0]}: {error.strerror}") from error
            self._asked.add(process)
            return process


def _cannot_describe(worker_type: str) -> ToolRefusedError:
    return ToolRefusedError(f"the worker {worker_type!r} does not tell the flags of its scripts")


def _worker_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the daemon would hand to the worker."""
    return {**config["metadata"]["worker"]["config"], "artifacts": config.get("artifacts") or {}}


def _bundle(config: Mapping[str, Any]) -> str | None:
    bundle: str | None = config["metadata"]["worker"].get("bundle")
    return bundle


def _understood(status: int, said: str, errors: str, manifest: WorkerManifest) -> dict[str, Any]:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = lines[-1].removeprefix(f"{manifest.package}: ") if lines else "it said nothing"
    if status == _REFUSED_STATUS:
        raise ToolRefusedError(last)
    if status != 0:
        ended = f"killed by signal {-status}" if status < 0 else f"status {status}"
        raise ToolFailedError(f"the worker {manifest.type!r} could not answer ({ended}): {last}")
    try:
        answer = json.loads(said)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise ToolFailedError(f"the worker {manifest.type!r} did not answer with a JSON object")
    return answer


__all__ = ["EnvironmentFamily", "ToolError", "WorkerQueries"]
