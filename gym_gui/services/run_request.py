"""From what somebody asked for to a run config, the same for the command line and the cockpit. Starts nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UPSTREAM_BUNDLE = "cleanrl_upstream"
"""Upstream's scripts need libraries that are years older than those of any worker."""


@dataclass(frozen=True)
class ScriptSettings:
    """Which script trains: an algorithm of the worker's, upstream CleanRL's of that name, or a file of the user's."""

    algo: str = ""
    upstream: bool = False
    cleanrl_path: str = ""
    script: str = ""
    bundle: str = ""

    @property
    def is_upstream(self) -> bool:
        return not self.script and bool(self.upstream or self.cleanrl_path)

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.script).stem if self.script else self.algo

    @property
    def environment(self) -> str | None:
        """The bundle that the script runs in; None for the worker's own."""
        return self.bundle or (UPSTREAM_BUNDLE if self.is_upstream else None)

    def settings(self) -> dict[str, Any]:
        """Its part of the worker's config. Paths are taken as they are."""
        if self.script:
            return {"script": str(Path(self.script).expanduser())}
        found: dict[str, Any] = {"algo": self.algo}
        if self.cleanrl_path:
            found["cleanrl_path"] = str(Path(self.cleanrl_path).expanduser())
        return {**found, "source": "cleanrl"} if self.is_upstream else found

    def words(self) -> list[str]:
        """The same as words of ``mosaic train``."""
        if self.script:
            words = ["--script", self.script]
        else:
            words = [self.algo, *(["--upstream"] if self.upstream else [])]
            words += ["--cleanrl-path", self.cleanrl_path] if self.cleanrl_path else []
        return [*words, "--bundle", self.bundle] if self.bundle else words


@dataclass(frozen=True)
class RunRequest:
    """One run as it was asked for. ``settings`` are the worker's own; ``artifacts`` go over TensorBoard's switch."""

    worker_type: str
    module: str
    run_name: str
    settings: Mapping[str, Any]
    bundle: str | None = None
    cpus: int = 1
    gpus: int = 0
    memory_mb: int = 0
    max_wallclock_minutes: float | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()
    tensorboard: bool = True
    artifacts: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """The run config, unchecked: :func:`mosaic_protocol.run_config.parse_run_config` checks it."""
        worker: dict[str, Any] = {
            "type": self.worker_type,
            "module": self.module,
            "config": {name: value for name, value in self.settings.items() if value is not None},
        }
        if self.bundle is not None:
            worker["bundle"] = self.bundle
        return {
            "run_name": self.run_name,
            "resources": {
                "cpus": {"requested": self.cpus},
                # Mandatory: a run that asked for a GPU must not train on the CPU without a word.
                "gpus": {"requested": self.gpus, "mandatory": self.gpus},
                "memory_mb": {"requested": self.memory_mb},
            },
            "artifacts": {"tensorboard": {"enabled": self.tensorboard}, **self.artifacts},
            "metadata": {"worker": worker, "notes": self.notes, "tags": list(self.tags)},
            "schedule": {"max_wallclock_minutes": self.max_wallclock_minutes},
        }


def default_name(script: str, env_id: str | None, seed: int) -> str:
    """What a run is called that nobody gave a name."""
    return "-".join([script, *([env_id.lower()] if env_id else []), f"s{seed}"])


def train_command(script: ScriptSettings, request: RunRequest, worker: str = "") -> str:
    """The ``mosaic train`` command line of a request, for people to copy."""
    words = ["mosaic", "train", *script.words()]
    words += ["--worker", worker] if worker else []
    settings = request.settings
    for name in ("env_id", "seed", "total_timesteps"):
        if settings.get(name) not in (None, ""):
            words += [_option(name), str(settings[name])]
    words += _run_options(request, default_name(script.name, settings.get("env_id"), settings.get("seed") or 0))
    extras = dict(settings.get("extras") or {})
    flags = extras.pop("algo_params", None) or {}
    for name, value in extras.items():
        words += ["--extra", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join([*words, *(["--", *flag_words(flags)] if flags else [])])


def _run_options(request: RunRequest, plain_name: str) -> list[str]:
    words = ["--run-name", request.run_name] if request.run_name != plain_name else []
    for option, value, usual in (
        ("--cpus", request.cpus, 1),
        ("--gpus", request.gpus, 0),
        ("--memory-mb", request.memory_mb, 0),
        ("--max-wallclock-minutes", request.max_wallclock_minutes, None),
        ("--notes", request.notes, ""),
    ):
        words += [option, str(value)] if value != usual else []
    words += [word for tag in request.tags for word in ("--tag", tag)]
    words += [] if request.tensorboard else ["--no-tensorboard"]
    keeps = (request.artifacts.get("checkpoints") or {}).get("enabled", True)
    return words if keeps else [*words, "--no-checkpoints"]


def flag_words(flags: Mapping[str, Any]) -> list[str]:
    """Flags of a script as words: a switch by ``--x`` or ``--no-x``, everything else with its value."""
    words = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(_option(name) if value else f"--no-{_option(name)[2:]}")
        else:
            words += [f"{_option(name)}={value}"] if str(value).startswith("-") else [_option(name), str(value)]
    return words


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
