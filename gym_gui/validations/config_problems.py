"""Which field of a form a refused run config is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mosaic_protocol.run_config import RunConfigError, parse_run_config

_FIELDS = {
    "run_name": "run_name",
    "resources.cpus.requested": "cpus",
    "resources.gpus.requested": "cuda",
    "resources.gpus.mandatory": "cuda",
    "resources.memory_mb.requested": "memory_mb",
    "schedule.max_wallclock_minutes": "max_wallclock_minutes",
    "artifacts.checkpoints.every_steps": "checkpoint_every",
    "artifacts.checkpoints.keep_last": "checkpoint_keep",
    "metadata.notes": "notes",
    "metadata.group": "group",
    "metadata.worker.agent_id": "agent_id",
    "metadata.worker.worker_id": "worker_id",
    "metadata.worker.bundle": "bundle",
    "metadata.worker.config.env_id": "env_id",
    "metadata.worker.config.start": "checkpoint",
    "metadata.worker.config.start.checkpoint": "checkpoint",
    "metadata.worker.config.start.mode": "checkpoint",
    "metadata.worker.config.seed": "seed",
    "metadata.worker.config.total_timesteps": "total_timesteps",
}
_INSIDE = re.compile(r"metadata\.worker\.config(?:\.extras\.algo_params|\.params)?\.([^.\[]+)")
_LINE = re.compile(r"([a-z_]+(?:[.\[][^:]*)?): (.+)")


def field_of(path: str) -> str:
    """The form's name for a place in a run config; the place itself where it has none."""
    if path.startswith("metadata.tags"):
        return "tags"
    inside = _INSIDE.match(path)
    return _FIELDS.get(path) or (inside[1] if inside else path)


def config_problems(config: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with a run config, by field."""
    try:
        parse_run_config(config)
    except RunConfigError as error:
        return {field_of(problem.path): _sentence(problem.message, problem.value_repr) for problem in error.problems}
    return {}


def refusal_by_field(sentence: str) -> dict[str, str]:
    """The daemon's refusal, by field; what names no field is under ""."""
    found: dict[str, str] = {}
    for line in sentence.splitlines():
        match = _LINE.fullmatch(line.strip())
        where, what = (field_of(match[1]), match[2]) if match else ("", line.strip())
        found.setdefault(where, what)
    return found


def told(problems: Mapping[str, str], titles: Mapping[str, str], also: Iterable[str] = ()) -> str:
    """One sentence about the first of several problems, and how many more there are."""
    sentences = [f"{titles.get(name, name)} {sentence}".strip() for name, sentence in problems.items()] + list(also)
    if not sentences:
        return ""
    more = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
    return f"{sentences[0]}{more}"


def _sentence(message: str, value: str) -> str:
    return f"{message} (got {value})" if value else message
