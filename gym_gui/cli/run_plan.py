"""From a ``mosaic train`` command line to a run config: which worker, which settings. Starts nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.script_flags import Value, as_option, parse_script_flags

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
    "metadata.worker.config.env_id": "--env-id",
    "metadata.worker.config.seed": "--seed",
    "metadata.worker.config.total_timesteps": "--total-timesteps",
}
_FLAG_PATH = re.compile(r"metadata\.worker\.config\.extras\.algo_params\.([^.\[]+)")


@dataclass(frozen=True)
class TrainRequest:
    """What was asked for on the command line."""

    algo: str
    env_id: str | None = None
    seed: int = 1
    total_timesteps: int | None = None
    worker: str | None = None
    run_name: str | None = None
    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0
    max_wallclock_minutes: float | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()
    tensorboard: bool = True
    script_flags: tuple[str, ...] = ()


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


def make_plan(request: TrainRequest, found: Discovery) -> RunPlan:
    """Everything that can be checked without the worker. Raises :class:`CliError` with one sentence."""
    manifest = choose_worker(found, request.algo, request.worker)
    flags = parse_script_flags(request.script_flags, OWN_SETTINGS)
    if not request.env_id:
        raise _missing_environment(request.algo, manifest.algorithms[request.algo], flags)
    plan = RunPlan(manifest, _config(request, manifest, flags), flags)
    _check(plan.config)
    return plan


# ---- the worker --------------------------------------------------------------------------------------------------


def choose_worker(found: Discovery, algo: str, worker: str | None) -> WorkerManifest:
    """The one worker that offers an algorithm. Raises :class:`CliError` when none or several do."""
    from mosaic_protocol.suggest import did_you_mean

    if algo.startswith("-"):
        raise CliError("name the algorithm first, as in `mosaic train ppo --env-id CartPole-v1`", ExitCode.REFUSED)
    if not found.workers:
        raise CliError(_no_workers(found), ExitCode.FAILED)
    if worker is not None and worker not in found.workers:
        raise CliError(f"there is no worker {worker!r}{did_you_mean(worker, found.workers)}", ExitCode.REFUSED)
    asked = [found.workers[worker]] if worker is not None else list(found.workers.values())
    offering = [manifest for manifest in asked if algo in manifest.algorithms]
    if not offering:
        raise CliError(_unknown_algorithm(algo, asked, worker), ExitCode.REFUSED)
    if len(offering) > 1:
        choices = " and ".join(f"--worker {manifest.type}" for manifest in offering)
        raise CliError(f"several workers offer {algo!r}: choose between {choices}", ExitCode.REFUSED)
    return offering[0]


def _no_workers(found: Discovery) -> str:
    why = f" ({'; '.join(found.problems)})" if found.problems else ""
    return f"no worker is installed{why}: install one, or name its folder in MOSAIC_WORKER_PATH"


def _unknown_algorithm(algo: str, asked: list[WorkerManifest], worker: str | None) -> str:
    from mosaic_protocol.suggest import nearest

    known = sorted({name for manifest in asked for name in manifest.algorithms})
    where = f" in the worker {worker!r}" if worker is not None else ""
    near = nearest(algo, known)
    hint = f"; did you mean {near!r}?" if near else ";"
    if not known:
        return f"there is no algorithm {algo[:60]!r}{where}; it offers none"
    return f"there is no algorithm {algo[:60]!r}{where}{hint} Choose from: {', '.join(known)}."


def _missing_environment(algo: str, offered: Algorithm, flags: dict[str, Value]) -> CliError:
    meant = next((name for name in ("env", "environment", "env_name", "envid") if name in flags), None)
    if meant is not None:
        return CliError(f"{as_option(meant)} is not known here; did you mean '--env-id'?", ExitCode.REFUSED)
    example = offered.example_env or "CartPole-v1"
    return CliError(f"--env-id is missing: try `mosaic train {algo} --env-id {example}`", ExitCode.REFUSED)


# ---- the config --------------------------------------------------------------------------------------------------


def _config(request: TrainRequest, manifest: WorkerManifest, flags: dict[str, Value]) -> dict[str, Any]:
    settings = {
        "algo": request.algo,
        "env_id": request.env_id,
        "seed": request.seed,
        "total_timesteps": request.total_timesteps,
        "extras": {"algo_params": flags},
    }
    worker = {
        "type": manifest.type,
        "module": manifest.module,
        "config": {name: value for name, value in settings.items() if value is not None},
    }
    return {
        "run_name": _default_name(request) if request.run_name is None else request.run_name,
        "resources": {
            "cpus": {"requested": request.cpus},
            # Mandatory: a run that asked for a GPU must not train on the CPU without a word.
            "gpus": {"requested": request.gpus, "mandatory": request.gpus},
            "memory_mb": {"requested": request.memory_mb},
        },
        "artifacts": {"tensorboard": {"enabled": request.tensorboard}},
        "metadata": {"worker": worker, "notes": request.notes, "tags": list(request.tags)},
        "schedule": {"max_wallclock_minutes": request.max_wallclock_minutes},
    }


def _default_name(request: TrainRequest) -> str:
    return f"{request.algo}-{str(request.env_id).lower()}-s{request.seed}"


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
