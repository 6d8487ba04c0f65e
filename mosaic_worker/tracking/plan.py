"""What a tracked run is to be called, and whether it goes through a proxy: decided from arguments and environment.

The key is no part of a plan: it stays in the environment or the keyring until the process that needs it takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mosaic_protocol.suggest import holds_password, looks_secret
from mosaic_protocol.wandb_proxies import switched_on

DEFAULT_PROJECT = "cleanRL"
"""The default of the scripts' flag. A flag with this value counts as not given, so that ``WANDB_PROJECT`` applies."""

_HIDDEN = "(hidden)"


@dataclass(frozen=True)
class TrackingPlan:
    """All that the tracking process receives at its start. Holds no key and no password."""

    directory: str
    project: str
    name: str
    run_id: str | None = None
    """None lets W&B choose one."""
    entity: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    mode: str = ""
    """``offline`` when the environment says so; empty means: online if there is a key."""
    offline_because: str = ""
    """Why it must be offline although nobody asked for that."""


def make_plan(args: Mapping[str, Any], run_dir: Path, environ: Mapping[str, str]) -> TrackingPlan:
    """The plan for a run. What a script's flag says comes before the environment; an empty text says nothing."""
    return TrackingPlan(
        directory=str(run_dir),
        project=_project(args, environ),
        entity=args.get("wandb_entity") or environ.get("WANDB_ENTITY") or None,
        name=str(args.get("wandb_run_name") or environ.get("WANDB_NAME") or _run_name(args, environ)),
        run_id=environ.get("WANDB_RUN_ID") or environ.get("MOSAIC_RUN_ID") or None,
        config=_publishable(args),
        mode="offline" if environ.get("WANDB_MODE", "").lower() in ("offline", "dryrun") else "",
    )


def proxy_wanted(args: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    return bool(args.get("wandb_use_proxy")) or switched_on(environ)


def _project(args: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    flag = args.get("wandb_project_name")
    chosen = flag if flag != DEFAULT_PROJECT else None
    return str(chosen or environ.get("WANDB_PROJECT") or DEFAULT_PROJECT)


def _run_name(args: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    if name := environ.get("MOSAIC_RUN_NAME"):
        return name
    return "__".join(str(args[key]) for key in ("env_id", "exp_name", "seed") if args.get(key) is not None) or "run"


def _publishable(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, without what must not leave the machine."""
    return {
        name: _HIDDEN if isinstance(value, str) and holds_password(value) else value
        for name, value in args.items()
        if not looks_secret(name)
    }
