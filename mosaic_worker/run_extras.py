"""The ``extras`` of a run, which mean the same to every worker: Weights & Biases, sets of requirements, notes."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from mosaic_protocol.suggest import did_you_mean, shown
from mosaic_protocol.wandb_proxies import PROXY_SWITCH, find_proxies, proxy_settings
from mosaic_protocol.worker_manifest import WorkerManifest
from mosaic_worker.errors import UsageError

KNOWN_EXTRAS = (
    "notes",
    "requirements",
    "tensorboard_dir",
    "track_wandb",
    "wandb_email",
    "wandb_entity",
    "wandb_http_proxy",
    "wandb_https_proxy",
    "wandb_project_name",
    "wandb_run_name",
    "wandb_use_vpn_proxy",
)
_SWITCHES = ("track_wandb", "wandb_use_vpn_proxy")


def require_known(extras: Mapping[str, Any]) -> None:
    """Refuse a name that nobody reads: what it asks for would not happen. Raises UsageError."""
    for name in extras:
        if name not in KNOWN_EXTRAS:
            raise UsageError(f"extras has an unknown field {name!r}{did_you_mean(name, KNOWN_EXTRAS)}")
    for name in _SWITCHES:
        if not isinstance(extras.get(name, False), bool):
            raise UsageError(f"extras.{name} must be true or false, got {shown(extras[name])}")


def tracks(extras: Mapping[str, Any], artifacts: Mapping[str, Any]) -> bool:
    """Whether Weights & Biases was asked for, in either place that people know."""
    return bool(extras.get("track_wandb") or (artifacts.get("wandb") or {}).get("enabled"))


def tracking_environment(extras: Mapping[str, Any], *, speaks: bool) -> dict[str, str]:
    """What a tracked run finds in its environment. A :class:`TrainingSession` (``speaks``) looks for the proxy itself;
    elsewhere W&B reads the usual names. Raises UsageError for a proxy that is asked for and nowhere named."""
    named = {"WANDB_NAME": extras.get("wandb_run_name"), "WANDB_USER_EMAIL": extras.get("wandb_email")}
    found = {name: str(value) for name, value in named.items() if value}
    wanted = proxy_settings(extras)
    found |= wanted
    if speaks or not wanted:
        return found
    proxies = find_proxies({**os.environ, **found})
    if proxies is None:
        raise UsageError("a proxy for W&B was asked for, but neither the config nor a .env file names one")
    found.pop(PROXY_SWITCH)
    return {**found, **proxies.environment()}


def require_sets(names: Any, manifest: WorkerManifest) -> None:
    """Refuse a run whose sets of extras are not installed, with the command that installs them. Raises UsageError."""
    if not isinstance(names, list | tuple):
        raise UsageError("extras.requirements must be a list of names")
    wanted = [name for name in names if name != "base"]
    if not wanted:
        return
    from mosaic_worker.extras.kit_sets import KIT_EXTRAS

    module = manifest.extras_module
    offered = getattr(importlib.import_module(module), "EXTRAS", KIT_EXTRAS) if module else KIT_EXTRAS
    for name in wanted:
        if name not in offered.sets:
            raise UsageError(f"there is no set of extras {name!r}{did_you_mean(str(name), offered.sets)}")
        if not offered.sets[name].is_there:
            raise UsageError(f"the extras {name!r} are not installed: `python -m {offered.module} --set {name}`")
