"""From what somebody asked for to a run config, the same for the command line and the cockpit. Starts nothing."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mosaic_protocol.settings_spelling import respelt, start_of

RESUMED, COPY = "resumed", "copy"
"""What the name of a run says that goes on from another one, or repeats it."""
LONGEST_STEM = 112
"""A name has at most 120 characters, of which a number and its hyphen take some."""


class Script(Protocol):
    """What trains, as :class:`~gym_gui.services.script_choice.ChosenScript` tells it."""

    @property
    def name(self) -> str:
        """What to call it."""

    def words(self) -> list[str]:
        """The words of ``mosaic train`` that choose it."""


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
    host: str = ""
    labels: tuple[str, ...] = ()
    """What the host must be labelled with."""
    max_wallclock_minutes: float | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()
    tensorboard: bool = True
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    agent_id: str = ""
    worker_id: str = ""
    group: str = ""

    def config(self) -> dict[str, Any]:
        """The run config, unchecked: :func:`mosaic_protocol.run_config.parse_run_config` checks it."""
        worker: dict[str, Any] = {
            "type": self.worker_type,
            "module": self.module,
            "config": respelt(self.settings),
        }
        named = {"bundle": self.bundle, "agent_id": self.agent_id or None, "worker_id": self.worker_id or None}
        worker |= {name: value for name, value in named.items() if value is not None}
        return {
            "run_name": self.run_name,
            "resources": {
                "cpus": {"requested": self.cpus},
                # Mandatory: a run that asked for a GPU must not train on the CPU without a word.
                "gpus": {"requested": self.gpus, "mandatory": self.gpus},
                "memory_mb": {"requested": self.memory_mb},
                **({"host": self.host} if self.host else {}),
                **({"labels": list(self.labels)} if self.labels else {}),
            },
            "artifacts": {"tensorboard": {"enabled": self.tensorboard}, **self.artifacts},
            "metadata": {"worker": worker, "notes": self.notes, "tags": list(self.tags), **self._group()},
            "schedule": {"max_wallclock_minutes": self.max_wallclock_minutes},
        }

    def _group(self) -> dict[str, str]:
        return {"group": self.group} if self.group else {}


def default_name(script: str, settings: Mapping[str, Any]) -> str:
    """What a run is called that nobody gave a name: after what trains, what it learns from, its seed, and whether it
    goes on from another one. ``settings`` are the worker's, in any spelling."""
    source = settings.get("env_id") or settings.get("dataset")
    start = start_of(settings)
    resumed = start is not None and start[0] == "resume"
    named = [str(source).lower().replace("/", "-")] if source else []  # a word with a slash is taken for a path
    return "-".join([script, *named, f"s{settings.get('seed') or 0}", *([RESUMED] if resumed else [])])


def is_numbered(name: str, usual: str) -> bool:
    """Whether a name is the usual one, as it is or with a number behind it."""
    return name == usual or re.fullmatch(rf"{re.escape(usual)}-\d+", name) is not None


def fresh_name(wanted: str, is_taken: Callable[[str], bool]) -> str:
    """The name itself, or where a run has it already the first of name-2, name-3, … that none has."""
    if not is_taken(wanted):
        return wanted
    numbered = re.fullmatch(r"(.+)-(\d{1,6})", wanted)
    stem, number = (numbered[1], int(numbered[2])) if numbered and is_taken(numbered[1]) else (wanted, 1)
    while is_taken(f"{stem}-{(number := number + 1)}"):
        pass
    return f"{stem}-{number}"


def derived_name(parent: str, word: str, is_taken: Callable[[str], bool]) -> str:
    """What a run is called that comes of another one: ``baseline-resumed``, then ``baseline-resumed-2`` and so on."""
    stem = re.sub(rf"-{word}(-\d{{1,6}})?$", "", parent)
    return fresh_name(f"{stem[: LONGEST_STEM - len(word)]}-{word}", is_taken)


def train_command(script: Script, request: RunRequest, worker: str = "") -> str:
    """The ``mosaic train`` command line of a request, for people to copy."""
    words = ["mosaic", "train", *script.words()]
    words += ["--worker", worker] if worker else []
    settings = respelt(request.settings)
    for name in ("env_id", "dataset", "seed", "total_timesteps"):
        if name in settings:
            words += [_option(name), str(settings[name])]
    if (start := start_of(settings)) is not None:
        words += [_option(start[0]), start[1]]
    words += _run_options(request, default_name(script.name, settings))
    for name, value in (settings.get("extras") or {}).items():
        words += ["--extra", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    flags = settings.get("params") or {}
    return shlex.join([*words, *(["--", *flag_words(flags)] if flags else [])])


def _run_options(request: RunRequest, plain_name: str) -> list[str]:
    words = ["--run-name", request.run_name] if request.run_name != plain_name else []
    for option, value, usual in (
        ("--cpus", request.cpus, 1),
        ("--gpus", request.gpus, 0),
        ("--memory-mb", request.memory_mb, 0),
        ("--host", request.host, ""),
        ("--max-wallclock-minutes", request.max_wallclock_minutes, None),
        ("--notes", request.notes, ""),
        ("--agent-id", request.agent_id, ""),
        ("--worker-id", request.worker_id, ""),
        ("--group", request.group, ""),
    ):
        words += [option, str(value)] if value != usual else []
    words += [word for label in request.labels for word in ("--label", label)]
    words += [word for tag in request.tags for word in ("--tag", tag)]
    words += [] if request.tensorboard else ["--no-tensorboard"]
    kept = (request.artifacts.get("steps") or {}).get("keep_last")
    words += [] if kept is None else ["--keep-steps", str(kept)]
    return [*words, *_checkpoint_options(request.artifacts.get("checkpoints") or {})]


def _checkpoint_options(asked: Mapping[str, Any]) -> list[str]:
    if not asked.get("enabled", True):
        return ["--no-checkpoints"]
    options = (("--checkpoint-every", asked.get("every_steps")), ("--checkpoint-keep", asked.get("keep_last")))
    return [word for option, value in options if value is not None for word in (option, str(value))]


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
