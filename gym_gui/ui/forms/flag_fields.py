"""Flags of training scripts that have a place of their own in a form: artifacts, hardware, tracking. What a script does
not have is shown all the same, disabled, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from PyQt6.QtCore import QCoreApplication

from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec

ARTIFACT_FLAGS = ("capture_video", "checkpoint_every", "checkpoint_keep")
WANDB_FLAGS = ("track", "wandb_project_name", "wandb_entity")
WANDB_EXTRAS = ("wandb_run_name", "wandb_email", "wandb_use_vpn_proxy", "wandb_http_proxy", "wandb_https_proxy")
"""What the worker does for any script that can be tracked; no script has flags for it."""
PLACED_FLAGS = frozenset(
    {*ARTIFACT_FLAGS, *WANDB_FLAGS, *WANDB_EXTRAS, "cuda", "env_id", "seed", "total_timesteps", "resume", "warm_start"}
)
"""All that are not asked for among the algorithm's parameters."""

SpecOf = Callable[[str], FieldSpec | None]


def _tr(text: str) -> str:
    return QCoreApplication.translate("flag_fields", text)


def artifact_fields() -> list[FieldSpec]:
    return [
        FieldSpec("tensorboard", "TensorBoard", "bool", True, _tr("Write TensorBoard files, for the TensorBoard tab")),
        FieldSpec("capture_video", _tr("Video"), "bool", False, _tr("Record short clips of the agent as it learns")),
        *checkpoint_fields(),
    ]


def checkpoint_fields() -> list[FieldSpec]:
    return [
        FieldSpec("checkpoints", _tr("Checkpoints"), "bool", True, _tr("Write checkpoints to resume or start from")),
        FieldSpec(
            "checkpoint_every",
            _tr("Every"),
            "int",
            None,
            _tr("Steps between checkpoints; 0 writes only the one at the end"),
            unit=_tr("steps"),
            least=0,
        ),
        FieldSpec(
            "checkpoint_keep",
            _tr("Keep"),
            "int",
            None,
            _tr("Newest checkpoints to keep besides the best one; 0 keeps all"),
            unit=_tr("newest"),
            least=0,
        ),
    ]


def wandb_fields() -> list[FieldSpec]:
    return [
        FieldSpec("track", _tr("Track"), "bool", False, _tr("Send the run to Weights & Biases")),
        FieldSpec("wandb_project_name", _tr("Project"), help=_tr("The W&B project that the run belongs to")),
        FieldSpec("wandb_entity", _tr("Entity"), help=_tr("The team or user that owns the project"), optional=True),
        FieldSpec("wandb_run_name", _tr("W&B run name"), help=_tr("What W&B calls the run; empty: its run name")),
        FieldSpec("wandb_email", _tr("E-mail"), help=_tr("The account that the run belongs to; kept with the run")),
        FieldSpec("wandb_use_vpn_proxy", _tr("Use proxy"), "bool", False, _tr("Reach W&B through a proxy (VPN)")),
        FieldSpec("wandb_http_proxy", _tr("HTTP proxy"), help=_tr("Empty: as in .env"), placeholder="http://host:port"),
        FieldSpec(
            "wandb_https_proxy", _tr("HTTPS proxy"), help=_tr("Empty: as in .env"), placeholder="http://host:port"
        ),
    ]


def with_script_defaults(fields: list[FieldSpec], spec_of: SpecOf) -> list[FieldSpec]:
    """The fields with what the script says of their flags."""
    found = []
    for one in fields:
        script = spec_of(one.name)
        found.append(one if script is None else replace(one, default=script.default, help=script.help or one.help))
    return found


def missing_reason(name: str, script: str) -> str:
    """Why a field whose flag a script does not have cannot be set."""
    return _tr("{script} has no flag {option}.").format(script=script, option="--" + name.replace("_", "-"))


def given_flags(group: FieldGroup, names: tuple[str, ...]) -> dict[str, Any]:
    """The flags among a group's fields that were changed and can be given."""
    usable = (name for name in names if name in group and not group[name].why_not and group[name].is_changed)
    values = group.values()
    return {name: values[name] for name in usable if values[name] is not None}


def why_not_able(capabilities: Mapping[str, Any], name: str) -> str:
    """Why the runs of a script cannot do this, as its worker told; "" when they can."""
    told = capabilities.get(name)
    known = told if isinstance(told, Mapping) else {}
    return "" if known.get("offered", True) else str(known.get("why") or "")
