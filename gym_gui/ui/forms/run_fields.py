"""Fields that every run has, whatever the worker: resources, limits, remarks."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QCoreApplication

from gym_gui.services.waiting_line import ANY_HOST
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from mosaic_protocol.proto import trainer_pb2 as pb

HERE = ""
"""The machine of the daemon, as a run config names it."""


def _tr(text: str) -> str:
    return QCoreApplication.translate("run_fields", text)


def hardware_fields(*, gpu: bool) -> list[FieldSpec]:
    cuda = FieldSpec(
        "cuda", _tr("CUDA"), "bool", False, _tr("Train on a GPU: reserves one, and waits until one is free")
    )
    return [
        *([cuda] if gpu else []),
        FieldSpec("cpus", _tr("CPU cores"), "int", 1, _tr("Cores to reserve for the run"), least=1, required=True),
        FieldSpec(
            "memory_mb", _tr("Memory"), "int", None, _tr("Memory to reserve; empty reserves none"), unit="MB", least=0
        ),
        FieldSpec(
            "max_wallclock_minutes",
            _tr("Time limit"),
            "float",
            None,
            _tr("The run ends as timed out when it takes longer; empty: no limit"),
            unit="min",
        ),
        FieldSpec(
            "host",
            _tr("Host"),
            "choice",
            HERE,
            _tr("Where to run: this machine, one of the hosts below Hosts, or the first that has room"),
            choices=(_tr("here"), _tr("any host")),
            meanings=(HERE, ANY_HOST),
            is_open=True,
        ),
    ]


def note_fields() -> list[FieldSpec]:
    return [
        FieldSpec("tags", _tr("Tags"), help=_tr("Short texts to find the run by"), placeholder=_tr("baseline, paper")),
        FieldSpec("group", _tr("Group"), help=_tr("The experiment it is one of"), placeholder=_tr("lr-study")),
        FieldSpec("notes", _tr("Notes"), help=_tr("Free text that is kept with the run")),
        FieldSpec("agent_id", _tr("Agent id"), help=_tr("Who learns: checkpoints are listed under this name")),
        FieldSpec("worker_id", _tr("Worker id"), help=_tr("Which worker this is; travels with the run")),
    ]


def request_options(hardware: FieldGroup, remarks: FieldGroup) -> dict[str, Any]:
    """Their part of a :class:`RunRequest`."""
    wanted, said = hardware.values(), remarks.values()
    return {
        "cpus": wanted["cpus"] or 1,
        "gpus": 1 if wanted.get("cuda") else 0,
        "memory_mb": wanted["memory_mb"] or 0,
        "host": wanted["host"] or HERE,
        "max_wallclock_minutes": wanted["max_wallclock_minutes"],
        "notes": said["notes"] or "",
        "tags": split_tags(said["tags"] or ""),
        "group": (said["group"] or "").strip(),
        "agent_id": said["agent_id"] or "",
        "worker_id": said["worker_id"] or "",
    }


def gpus_at(health: pb.Health, host: str) -> int:
    """How many GPUs there are where a run would go. Of a host that was not reached yet nobody knows: one may be asked
    for, and the daemon looks when it is there."""
    hosts = [one for one in health.hosts if host in (one.name, ANY_HOST)]
    there = [one.capacity.gpus if one.capacity.cpus else 1 for one in hosts]
    here = [health.capacity.gpus] if host in (HERE, ANY_HOST) else []
    return max([*here, *there], default=1)


def checkpoint_artifacts(group: FieldGroup) -> dict[str, Any]:
    """What the run config says of checkpoints; only what differs from its defaults."""
    if group["checkpoints"].entry is False:
        return {"checkpoints": {"enabled": False}}
    values = group.values()
    given = {"every_steps": values["checkpoint_every"], "keep_last": values["checkpoint_keep"]}
    said = {name: value for name, value in given.items() if value is not None}
    return {"checkpoints": said} if said else {}


def split_tags(text: str) -> tuple[str, ...]:
    """Tags as they are typed, with commas between them."""
    return tuple(dict.fromkeys(tag.strip() for tag in text.split(",") if tag.strip()))
