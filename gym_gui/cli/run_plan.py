"""From a ``mosaic train`` command line to a run config: which worker, which settings. Starts nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.script_choice import ScriptChoice, choose_worker
from gym_gui.cli.script_flags import Value, as_option, parse_script_flags
from gym_gui.services.run_request import RunRequest, default_name

if TYPE_CHECKING:
    from mosaic_protocol.run_config import RunConfigError
    from mosaic_protocol.worker_manifest import Algorithm, Discovery, WorkerManifest

OWN_SETTINGS = frozenset({"algo", "env_id", "seed", "total_timesteps"})

# Which option put a value where a run config was refused.
_OPTIONS = {
    "run_name": "--run-name",
    "resources.cpus.requested": "--cpus",
    "resources.gpus.requested": "--gpus",
    "resources.gpus.mandatory": "--gpus",
    "resources.memory_mb.requested": "--memory-mb",
    "schedule.max_wallclock_minutes": "--max-wallclock-minutes",
    "metadata.notes": "--notes",
    "metadata.worker.bundle": "--bundle",
    "metadata.worker.config.env_id": "--env-id",
    "metadata.worker.config.seed": "--seed",
    "metadata.worker.config.total_timesteps": "--total-timesteps",
}
_FLAG_PATH = re.compile(r"metadata\.worker\.config\.extras\.algo_params\.([^.\[]+)")


@dataclass(frozen=True)
class TrainRequest:
    """What was asked for on the command line."""

    algo: str = ""
    env_id: str | None = None
    seed: int = 1
    total_timesteps: int | None = None
    worker: str | None = None
    upstream: bool = False
    cleanrl_path: str | None = None
    script: str | None = None
    bundle: str | None = None
    run_name: str | None = None
    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0
    max_wallclock_minutes: float | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    tensorboard: bool = True
    checkpoints: bool = True
    script_flags: tuple[str, ...] = ()

    @property
    def choice(self) -> ScriptChoice:
        return ScriptChoice(self.algo, self.worker, self.upstream, self.cleanrl_path, self.script, self.bundle)

    def settled(self) -> TrainRequest:
        """Without an algorithm the first flag of the script stands where the algorithm would."""
        if self.script and self.algo.startswith("--"):
            return replace(self, algo="", script_flags=(self.algo, *self.script_flags))
        return self


@dataclass(frozen=True)
class RunPlan:
    """A run that could be submitted."""

    manifest: WorkerManifest
    config: dict[str, Any]
    flags: dict[str, Value] = field(default_factory=dict)

    @property
    def worker_config(self) -> dict[str, Any]:
        part: dict[str, Any] = self.config["metadata"]["worker"]["config"]
        return part

    @property
    def is_foreign(self) -> bool:
        """Whether the script is not the worker's own."""
        return "script" in self.worker_config or self.worker_config.get("source") == "cleanrl"

    @property
    def algorithm(self) -> str:
        """What checkpoints of the run call its algorithm."""
        if "script" in self.worker_config:
            return Path(self.worker_config["script"]).stem
        return f"cleanrl/{self.worker_config['algo']}" if self.is_foreign else str(self.worker_config["algo"])


def make_plan(request: TrainRequest, found: Discovery) -> RunPlan:
    """Everything that can be checked without the worker. Raises :class:`CliError` with one sentence."""
    request = request.settled()
    manifest = choose_worker(found, request.choice)
    flags = parse_script_flags(request.script_flags, OWN_SETTINGS)
    if not request.env_id and not request.script:
        raise _missing_environment(request.algo, manifest.algorithms.get(request.algo), flags)
    plan = RunPlan(manifest, _config(request, manifest, flags), flags)
    _check(plan.config)
    return plan


def _missing_environment(algo: str, offered: Algorithm | None, flags: dict[str, Value]) -> CliError:
    meant = next((name for name in ("env", "environment", "env_name", "envid") if name in flags), None)
    if meant is not None:
        return CliError(f"{as_option(meant)} is not known here; did you mean '--env-id'?", ExitCode.REFUSED)
    example = (offered.example_env if offered else None) or "CartPole-v1"
    return CliError(f"--env-id is missing: try `mosaic train {algo} --env-id {example}`", ExitCode.REFUSED)


# ---- the config --------------------------------------------------------------------------------------------------


def _config(request: TrainRequest, manifest: WorkerManifest, flags: dict[str, Value]) -> dict[str, Any]:
    settings = {
        **request.choice.settings(),
        "env_id": request.env_id,
        "seed": request.seed,
        "total_timesteps": request.total_timesteps,
        "extras": {**_extras(request.extras), "algo_params": flags},
    }
    asked = RunRequest(
        worker_type=manifest.type,
        module=manifest.module,
        run_name=_default_name(request) if request.run_name is None else request.run_name,
        settings=settings,
        bundle=request.choice.environment,
        cpus=request.cpus,
        gpus=request.gpus,
        memory_mb=request.memory_mb,
        max_wallclock_minutes=request.max_wallclock_minutes,
        notes=request.notes,
        tags=tuple(request.tags),
        tensorboard=request.tensorboard,
        artifacts={} if request.checkpoints else {"checkpoints": {"enabled": False}},
    )
    return asked.config()


def _extras(words: Iterable[str]) -> dict[str, Any]:
    """Settings of the worker's beside the script's flags, each NAME=VALUE; a value is JSON where it can be read so."""
    found: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not name or not separator or name == "algo_params":
            raise CliError(f"--extra is given as NAME=VALUE (got {word!r})", ExitCode.REFUSED)
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _default_name(request: TrainRequest) -> str:
    return default_name(request.choice.name, request.env_id, request.seed)


def _check(config: dict[str, Any]) -> None:
    from mosaic_protocol.run_config import RunConfigError, parse_run_config

    try:
        parse_run_config(config)
    except RunConfigError as error:
        raise CliError(refusal(error), ExitCode.REFUSED) from error


def refusal(error: RunConfigError) -> str:
    """A refused run config in terms of the options that were typed."""
    sentences = []
    for problem in error.problems:
        where = _option_at(problem.path)
        got = f" (got {problem.value_repr})" if problem.value_repr else ""
        sentences.append(f"{where} {problem.message}{got}")
    return "; ".join(dict.fromkeys(sentences))


def _option_at(path: str) -> str:
    if path.startswith("metadata.tags"):
        return "--tag"
    flag = _FLAG_PATH.match(path)
    return as_option(flag[1]) if flag else _OPTIONS.get(path, path)
