"""From a ``mosaic train`` command line to a run config: which worker, which settings. Starts nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from gym_gui.cli.errors import CliError, ExitCode
from gym_gui.cli.script_choice import ScriptChoice
from gym_gui.cli.script_flags import as_option, parse_script_flags
from gym_gui.services.run_request import RunRequest, default_name

if TYPE_CHECKING:
    from gym_gui.services.script_choice import ChosenScript
    from mosaic_protocol.run_config import RunConfigError
    from mosaic_protocol.worker_manifest import Algorithm, Discovery, WorkerManifest

OWN_SETTINGS = frozenset({"algo", "dataset", "env_id", "seed", "total_timesteps"})

# Which option put a value where a run config was refused.
_OPTIONS = {
    "run_name": "--run-name",
    "resources.cpus.requested": "--cpus",
    "resources.gpus.requested": "--gpus",
    "resources.gpus.mandatory": "--gpus",
    "resources.memory_mb.requested": "--memory-mb",
    "schedule.max_wallclock_minutes": "--max-wallclock-minutes",
    "artifacts.checkpoints.every_steps": "--checkpoint-every",
    "artifacts.checkpoints.keep_last": "--checkpoint-keep",
    "artifacts.steps.keep_last": "--keep-steps",
    "metadata.notes": "--notes",
    "metadata.group": "--group",
    "metadata.worker.bundle": "--bundle",
    "metadata.worker.agent_id": "--agent-id",
    "metadata.worker.worker_id": "--worker-id",
    "metadata.worker.config.dataset": "--dataset",
    "metadata.worker.config.env_id": "--env-id",
    "metadata.worker.config.seed": "--seed",
    "metadata.worker.config.total_timesteps": "--total-timesteps",
}
_FLAG_PATH = re.compile(r"metadata\.worker\.config\.params\.([^.\[]+)")
_NO_PARAMETER = "is not a parameter of the worker"


@dataclass(frozen=True)
class TrainRequest:
    """What was asked for on the command line."""

    algo: str = ""
    env_id: str | None = None
    dataset: str | None = None
    seed: int = 1
    total_timesteps: int | None = None
    worker: str | None = None
    choices: Mapping[str, str | bool] = field(default_factory=dict)
    """What was chosen of what manifests declare, by name."""
    resume: str | None = None
    warm_start: str | None = None
    agent_id: str = ""
    worker_id: str = ""
    run_name: str | None = None
    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0
    host: str = ""
    labels: tuple[str, ...] = ()
    max_wallclock_minutes: float | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()
    group: str = ""
    extras: tuple[str, ...] = ()
    tensorboard: bool = True
    checkpoints: bool = True
    checkpoint_every: int | None = None
    checkpoint_keep: int | None = None
    keep_steps: int | None = None
    script_flags: tuple[str, ...] = ()
    preset: str | None = None
    of_command: str = "train"
    """What the person typed, for advice."""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> TrainRequest:
        """From the parameters of ``mosaic train``; the others are choices of workers."""
        own = {one.name for one in fields(cls)}
        known = {name: value for name, value in params.items() if name in own}
        given = {name: value for name, value in params.items() if name not in own and value}
        switches = {"no_tensorboard": "tensorboard", "no_checkpoints": "checkpoints"}
        known |= {name: not given.pop(switch, False) for switch, name in switches.items()}
        return cls(**known, choices=given)

    @property
    def choice(self) -> ScriptChoice:
        return ScriptChoice(self.algo, self.worker, self.choices)

    @property
    def start(self) -> dict[str, str] | None:
        """What the run begins from. Raises :class:`CliError` for two things."""
        named = {mode: text for mode in ("resume", "warm_start") if (text := getattr(self, mode)) is not None}
        if len(named) > 1:
            raise CliError("give --resume or --warm-start, not both", ExitCode.REFUSED)
        return next(({"mode": mode, "checkpoint": text} for mode, text in named.items()), None)

    @property
    def artifacts(self) -> dict[str, Any]:
        """What the run config says of artifacts besides TensorBoard. Raises :class:`CliError` for a contradiction."""
        asked = {"every_steps": self.checkpoint_every, "keep_last": self.checkpoint_keep}
        given = {name: value for name, value in asked.items() if value is not None}
        if given and not self.checkpoints:
            raise CliError(
                "--no-checkpoints contradicts --checkpoint-every and --checkpoint-keep: give one or the other",
                ExitCode.REFUSED,
            )
        said = given if self.checkpoints else {"enabled": False}
        steps = {} if self.keep_steps is None else {"steps": {"keep_last": self.keep_steps}}
        return {**({"checkpoints": said} if said else {}), **steps}

    def settled(self, found: Discovery) -> TrainRequest:
        """Without an algorithm the first flag of the script stands where the algorithm would."""
        declared = [manifest.choices for manifest in found.workers.values()]
        replaced = any(one[name].replaces_algorithm for one in declared for name in self.choices if name in one)
        if replaced and self.algo.startswith("--"):
            return replace(self, algo="", script_flags=(self.algo, *self.script_flags))
        return self


@dataclass(frozen=True)
class RunPlan:
    """A run that could be submitted."""

    manifest: WorkerManifest
    config: dict[str, Any]
    is_named: bool = True
    """Whether somebody chose the run's name; any other gets a number where runs have it already."""

    @property
    def name(self) -> str:
        return str(self.config["run_name"])

    def called(self, name: str) -> RunPlan:
        return replace(self, config={**self.config, "run_name": name})

    @property
    def worker_config(self) -> dict[str, Any]:
        part: dict[str, Any] = self.config["metadata"]["worker"]["config"]
        return part

    @property
    def is_foreign(self) -> bool:
        """Whether the script is not the worker's own."""
        return any(choice.is_foreign for choice in self.manifest.chosen(self.worker_config).values())

    @property
    def algorithm(self) -> str:
        """What checkpoints of the run call its algorithm."""
        return self.manifest.algorithm_of(self.worker_config)


def make_plan(request: TrainRequest, found: Discovery) -> RunPlan:
    """Everything that can be checked without the worker. Raises :class:`CliError` with one sentence."""
    request = request.settled(found)
    script = request.choice.chosen(found)
    flags = flags_for(script.manifest, request.script_flags)
    _require_what_it_needs(request, script, flags)
    if request.preset is not None:
        request, flags = _with_preset(request, script, flags)
    plan = RunPlan(script.manifest, _config(request, script, flags), is_named=request.run_name is not None)
    _check(plan)
    return plan


def _with_preset(
    request: TrainRequest, script: ChosenScript, flags: dict[str, Any]
) -> tuple[TrainRequest, dict[str, Any]]:
    """What was asked for over what the preset says. Raises :class:`CliError`."""
    from mosaic_protocol.worker_presets import PresetError, chosen_preset, presets_of

    if script.is_foreign:
        raise CliError("--preset is for the worker's own scripts: presets were measured with those", ExitCode.REFUSED)
    if request.resume is not None:
        why = "a run that goes on keeps its settings, and the preset was measured from the beginning"
        raise CliError(f"give --preset or --resume, not both: {why}", ExitCode.REFUSED)
    found, problems = presets_of(script.manifest)
    try:
        preset = chosen_preset(found, str(request.preset), script.algo, request.env_id or "")
    except PresetError as error:
        raise CliError("; ".join([str(error), *problems]), ExitCode.REFUSED) from None
    steps = preset.total_timesteps if request.total_timesteps is None else request.total_timesteps
    return replace(request, total_timesteps=steps), {**preset.settings, **flags}


def plan_of(manifest: WorkerManifest, request: RunRequest, *, is_named: bool) -> RunPlan:
    """The same for a request that somebody else made. Raises :class:`CliError`."""
    plan = RunPlan(manifest, request.config(), is_named=is_named)
    _check(plan)
    return plan


def flags_for(manifest: WorkerManifest, words: Iterable[str]) -> dict[str, Any]:
    """Words that were typed as parameters of a worker; objects and lists are typed as JSON, and files are named from
    the folder in which they were typed. Raises :class:`CliError`."""
    from mosaic_protocol.settings_schema import from_json_text, is_structured, parameters, with_absolute_files
    from mosaic_protocol.worker_settings import schema_of

    known = parameters(schema_of(manifest) or {})
    structured = {name for name, one in known.items() if is_structured(one)}
    texts = structured | {name for name, one in known.items() if one.get("type") == "string"}
    found: dict[str, Any] = {**parse_script_flags(tuple(words), OWN_SETTINGS, texts)}
    for name in structured & found.keys():
        if isinstance(found[name], str):
            found[name] = from_json_text(found[name])
            if isinstance(found[name], str):
                example = "[1, 2]" if known[name].get("type") == "array" else '{"name": 1}'
                raise CliError(f"{as_option(name)} takes JSON, such as '{example}'", ExitCode.REFUSED)
    return with_absolute_files(found, known)


def _require_what_it_needs(request: TrainRequest, script: ChosenScript, flags: Mapping[str, Any]) -> None:
    needs = script.manifest.needs_of(script.settings())
    if "env" in needs and not request.env_id:
        raise _missing_environment(request, script.manifest.algorithms.get(request.algo), flags)
    if "dataset" in needs and not request.dataset:
        raise CliError(f"--dataset is missing: {script.name} learns from a dataset", ExitCode.REFUSED)


def _missing_environment(request: TrainRequest, offered: Algorithm | None, flags: Mapping[str, Any]) -> CliError:
    meant = next((name for name in ("env", "environment", "env_name", "envid") if name in flags), None)
    if meant is not None:
        return CliError(f"{as_option(meant)} is not known here; did you mean '--env-id'?", ExitCode.REFUSED)
    example = (offered.example_env if offered else None) or "CartPole-v1"
    advice = f"try `mosaic {request.of_command} {request.algo} --env-id {example}`"
    return CliError(f"--env-id is missing: {advice}", ExitCode.REFUSED)


# ---- the config --------------------------------------------------------------------------------------------------


def _config(request: TrainRequest, script: ChosenScript, flags: Mapping[str, Any]) -> dict[str, Any]:
    manifest = script.manifest
    settings = {
        **script.settings(),
        "env_id": request.env_id,
        "dataset": request.dataset,
        "seed": request.seed,
        "total_timesteps": request.total_timesteps,
        "params": dict(flags),
        "start": request.start,
        "extras": _extras(request.extras),
    }
    usual = default_name(script.name, settings)
    asked = RunRequest(
        worker_type=manifest.type,
        module=manifest.module,
        run_name=usual if request.run_name is None else request.run_name,
        settings=settings,
        bundle=script.bundle,
        cpus=request.cpus,
        gpus=max(request.gpus, 1) if manifest.capabilities.gpu_required else request.gpus,
        memory_mb=request.memory_mb,
        host=request.host,
        labels=tuple(request.labels),
        max_wallclock_minutes=request.max_wallclock_minutes,
        notes=request.notes,
        tags=tuple(request.tags),
        group=request.group,
        tensorboard=request.tensorboard,
        artifacts=request.artifacts,
        agent_id=request.agent_id,
        worker_id=request.worker_id,
    )
    return asked.config()


def _extras(words: Iterable[str]) -> dict[str, Any]:
    """Settings of the worker's beside the script's flags, each NAME=VALUE; a value is JSON where it can be read so."""
    found: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not name or not separator or name == "algo_params":
            raise CliError(f"--extra is given as NAME=VALUE (got {word!r})", ExitCode.REFUSED)
        if name in found:
            raise CliError(f"--extra {name} is given twice", ExitCode.REFUSED)
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _check(plan: RunPlan) -> None:
    from gym_gui.services.trainer.validation.train_config import validate_train_run_config
    from mosaic_protocol.run_config import RunConfigError

    try:
        validate_train_run_config(plan.config, known_workers={plan.manifest.type: plan.manifest})
    except RunConfigError as error:
        raise CliError(refusal(error, plan.algorithm), ExitCode.REFUSED) from error


def refusal(error: RunConfigError, algorithm: str = "") -> str:
    """A refused run config in terms of the options that were typed."""
    sentences = []
    for problem in error.problems:
        where = _option_at(problem.path)
        if problem.message.startswith(_NO_PARAMETER):
            hint = re.sub(r"'([a-z0-9_]+)'", lambda near: repr(as_option(near[1])), problem.message)
            sentences.append(f"{algorithm or 'the worker'} has no flag {where}{hint.removeprefix(_NO_PARAMETER)}")
            continue
        got = f" (got {problem.value_repr})" if problem.value_repr else ""
        sentences.append(f"{where} {problem.message}{got}")
    return "; ".join(dict.fromkeys(sentences))


def _option_at(path: str) -> str:
    if path.startswith("metadata.tags"):
        return "--tag"
    if path.startswith("metadata.worker.config.start"):
        return "--resume or --warm-start"
    flag = _FLAG_PATH.match(path)
    return as_option(flag[1]) if flag else _OPTIONS.get(path, path)
