"""What an environment promises, asked of a worker's process: services make no environments themselves."""

from __future__ import annotations

import json
from typing import Any

from gym_gui.services.recorded_steps import StepSource, described
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.steps.recordings import RUN
from mosaic_protocol.worker_manifest import discover


def promised_by(env_id: str, paths: MosaicPaths) -> tuple[dict[str, Any], str]:
    """Spaces, specification and versions of an environment; and why not, where no worker here can make it. Blocking."""
    why = "no worker is installed"
    for worker in sorted(discover().workers, key=lambda name: name != "cleanrl"):
        about = {"kind": RUN, "worker": worker, "env_id": env_id, "settings": {"env_id": env_id}}
        found, why = described(StepSource(env_id, about, lambda episode: iter(())), paths)
        if found:
            return {**found, "max_episode_steps": steps_limit(found.get("env_spec"))}, ""
        if "there is no environment" in why:
            break
    return {}, why


def steps_limit(env_spec: str | None) -> int | None:
    """After how many steps a specification ends episodes."""
    try:
        limit = json.loads(env_spec or "{}").get("max_episode_steps")
    except (ValueError, AttributeError):
        return None
    return limit if isinstance(limit, int) and limit > 0 else None
