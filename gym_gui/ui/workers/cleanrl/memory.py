"""From a CleanRL run's config back to what would have been typed for it. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gym_gui.services.run_request import default_name, is_numbered
from gym_gui.ui.forms.config_entries import checkpoints_in, hardware_in, remarks_in, typed
from gym_gui.ui.forms.field_spec import Entry
from gym_gui.ui.forms.settings_of import START_MODES, mapping, parts_of

_ARTIFACTS = ("capture_video", "checkpoint_every", "checkpoint_keep")


@dataclass(frozen=True)
class FormEntries:
    """What stands in the form, by part."""

    env_id: str
    params: dict[str, Entry]
    start: dict[str, str]
    sets: list[str]
    groups: dict[str, dict[str, Entry]] = field(default_factory=dict)


def from_run_config(config: Mapping[str, Any], script: str) -> FormEntries:
    """What to type to get this run config again. A name that the form would give by itself is left out."""
    worker = mapping(mapping(mapping(config.get("metadata")).get("worker")).get("config"))
    parts = parts_of(worker)
    params = {name: typed(value) for name, value in parts.params.items()}
    start = parts.start
    wandb = {name: params[name] for name in params if name == "track" or name.startswith("wandb_")}
    placed = {*wandb, *_ARTIFACTS, *START_MODES, "cuda"}
    wandb |= {name: typed(value) for name, value in parts.extras.items() if name.startswith("wandb_")}
    kept = {name: params[name] for name in _ARTIFACTS if name in params}
    sets = parts.extras.get("requirements")
    name = str(config.get("run_name") or "")
    usual = default_name(script, worker)
    return FormEntries(
        env_id=str(worker.get("env_id") or ""),
        params={key: value for key, value in params.items() if key not in placed},
        start={"kind": start.mode, "checkpoint": start.checkpoint} if start is not None else {},
        sets=[name for name in sets if isinstance(name, str) and name != "base"] if isinstance(sets, list) else [],
        groups={
            "run": {
                "seed": typed(worker.get("seed", 1)),
                "total_timesteps": typed(worker.get("total_timesteps")),
                "run_name": "" if is_numbered(name, usual) else name,
            },
            "artifacts": {**_tensorboard(config), **checkpoints_in(config), **kept},
            "hardware": hardware_in(config),
            "wandb": wandb,
            "remarks": dict(remarks_in(config)),
        },
    )


def _tensorboard(config: Mapping[str, Any]) -> dict[str, Entry]:
    asked = mapping(mapping(config.get("artifacts")).get("tensorboard"))
    return {"tensorboard": asked.get("enabled") is not False}
