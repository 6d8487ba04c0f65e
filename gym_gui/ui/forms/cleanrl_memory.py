"""From a CleanRL run's config back to what would have been typed for it. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gym_gui.ui.forms.field_spec import Entry

_START = ("warm_start", "resume")
_ARTIFACTS = ("capture_video", "checkpoint_every", "checkpoint_keep")


@dataclass(frozen=True)
class FormEntries:
    """What stands in the form, by part."""

    env_id: str
    params: dict[str, Entry]
    start: dict[str, str]
    groups: dict[str, dict[str, Entry]] = field(default_factory=dict)


def from_run_config(config: Mapping[str, Any], usual_name: str) -> FormEntries:
    """What to type to get this run config again. A name that the form would give by itself is left out."""
    metadata = mapping(config.get("metadata"))
    worker = mapping(mapping(metadata.get("worker")).get("config"))
    extras = mapping(worker.get("extras"))
    params = {name: entry(value) for name, value in mapping(extras.get("algo_params")).items()}
    start = next((kind for kind in _START if kind in params), "")
    checkpoint = str(params.get(start, ""))
    wandb = {name: params[name] for name in params if name == "track" or name.startswith("wandb_")}
    placed = {*wandb, *_ARTIFACTS, *_START, "cuda"}
    wandb |= {name: entry(value) for name, value in extras.items() if name.startswith("wandb_")}
    kept = {name: params[name] for name in _ARTIFACTS if name in params}
    name = str(config.get("run_name") or "")
    return FormEntries(
        env_id=str(worker.get("env_id") or ""),
        params={key: value for key, value in params.items() if key not in placed},
        start={"kind": start or "scratch", "checkpoint": checkpoint},
        groups={
            "run": {
                "seed": entry(worker.get("seed", 1)),
                "total_timesteps": entry(worker.get("total_timesteps")),
                "run_name": "" if name == usual_name else name,
            },
            "artifacts": {**_artifacts(mapping(config.get("artifacts"))), **kept},
            "hardware": _hardware(config),
            "wandb": wandb,
            "remarks": {"tags": ", ".join(metadata.get("tags") or ()), "notes": str(metadata.get("notes") or "")},
        },
    )


def _artifacts(artifacts: Mapping[str, Any]) -> dict[str, Entry]:
    return {
        "tensorboard": mapping(artifacts.get("tensorboard")).get("enabled") is not False,
        "checkpoints": mapping(artifacts.get("checkpoints")).get("enabled") is not False,
    }


def _hardware(config: Mapping[str, Any]) -> dict[str, Entry]:
    resources = mapping(config.get("resources"))
    asked = {name: mapping(resources.get(name)).get("requested") for name in ("cpus", "gpus", "memory_mb")}
    limit = mapping(config.get("schedule")).get("max_wallclock_minutes")
    return {
        "cuda": bool(asked["gpus"]),
        "cpus": entry(asked["cpus"] or 1),
        "memory_mb": entry(asked["memory_mb"] or None),
        "max_wallclock_minutes": entry(limit),
    }


def entry(value: Any) -> Entry:
    """A value as it is typed."""
    if isinstance(value, bool):
        return value
    return "" if value is None else str(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """A value that should be an object; one that is not is taken for an empty one."""
    return value if isinstance(value, Mapping) else {}
