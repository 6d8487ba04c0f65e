"""What a planned run would take, from what the daemon knows of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.run_plan import RunPlan
from gym_gui.services.run_estimate import caution
from gym_gui.services.run_needs import shortages
from gym_gui.services.run_outlook import Outlook
from gym_gui.services.run_outlook import outlook as outlook_of

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_LOOKED_AT = 200
_PATIENCE_SECONDS = 5.0


def outlook(
    client: TrainerClient | None, plan: RunPlan, told: Mapping[str, Any] | None, root: Path | None = None
) -> Outlook:
    """Of a planned run. ``told``: the worker's summary of it, which knows the budget that the script takes by default;
    ``client``: None where no daemon runs, and nothing is known of earlier runs then; ``root``: where runs are kept.
    What fails here keeps no run from starting."""
    lacking = shortages(told, root, gpu_memory_mb=_cards(told)) if root is not None else ()
    return replace(_expected(client, plan, told), shortages=lacking)


def _cards(told: Mapping[str, Any] | None) -> list[int]:
    """Memory of the cards here; they are looked for only where a run says what it needs of one."""
    needs = (told or {}).get("needs")
    if not isinstance(needs, Mapping) or not needs.get("gpu_memory_mb"):
        return []
    from mosaic_host.gpu import detect_gpus

    return [card.memory_mb for card in detect_gpus()]


def _expected(client: TrainerClient | None, plan: RunPlan, told: Mapping[str, Any] | None) -> Outlook:
    steps = plan.worker_config.get("total_timesteps") or (told or {}).get("total_timesteps")
    if not isinstance(steps, int) or isinstance(steps, bool) or plan.manifest.capabilities.interactive:
        return Outlook()
    gpus = plan.config["resources"]["gpus"]["requested"]
    if client is None:
        return Outlook(None, caution(None, steps, gpus=gpus))
    from gym_gui.services.trainer.client import ClientError

    try:
        runs, free = _similar(client, plan), len(client.health(_PATIENCE_SECONDS).capacity.gpu_indices)
    except ClientError:
        return Outlook()
    return outlook_of(runs, plan.worker_config, plan.manifest.type, steps, gpus=gpus, free_gpus=free)


def _similar(client: TrainerClient, plan: RunPlan) -> list[pb.Run]:
    algo = plan.worker_config.get("algo")
    plain = isinstance(algo, str) and algo.replace("_", "").replace("-", "").isalnum()
    return list(client.runs(size=_LOOKED_AT, where=f'algo="{algo}"' if plain else "").runs)
