"""What a run would take, said before it starts: time and disk from earlier runs, and a warning before it takes days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym_gui.cli.run_plan import RunPlan
from gym_gui.services.run_estimate import Estimate, estimate, warning, with_space
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.provenance import cpu_model
from mosaic_protocol.run_manifest import read_manifest

if TYPE_CHECKING:
    from gym_gui.services.trainer.client import TrainerClient
    from mosaic_protocol.proto import trainer_pb2 as pb

_LOOKED_AT = 200
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Outlook:
    """``sentence`` and ``warning`` are "" where there is nothing to say."""

    found: Estimate | None = None
    warning: str = ""

    @property
    def sentence(self) -> str:
        return "" if self.found is None else self.found.sentence()

    def as_object(self) -> dict[str, Any]:
        found = None if self.found is None else self.found.as_object()
        return {"estimate": found, "warning": self.warning or None}


def outlook(client: TrainerClient | None, plan: RunPlan, told: Mapping[str, Any] | None) -> Outlook:
    """Of a planned run. ``told``: the worker's summary of it, which knows the budget that the script takes by default;
    ``client``: None where no daemon runs, and nothing is known of earlier runs then. What fails here keeps no run from
    starting."""
    steps = plan.worker_config.get("total_timesteps") or (told or {}).get("total_timesteps")
    if not isinstance(steps, int) or isinstance(steps, bool) or plan.manifest.capabilities.interactive:
        return Outlook()
    gpus = plan.config["resources"]["gpus"]["requested"]
    if client is None:
        return Outlook(None, warning(None, steps, gpus=gpus))
    from gym_gui.services.trainer.client import ClientError

    try:
        runs, free = _similar(client, plan), len(client.health(_PATIENCE_SECONDS).capacity.gpu_indices)
    except ClientError:
        return Outlook()
    settings, worker = plan.worker_config, plan.manifest.type
    begun = _begun_at(settings)
    found = estimate(runs, settings, max(1, steps - begun), worker, _is_of_this_machine)
    if found is not None:
        found = with_space(found, runs, settings, worker)
    return Outlook(found, warning(found, steps - begun, gpus=gpus, free_gpus=free))


def _similar(client: TrainerClient, plan: RunPlan) -> list[pb.Run]:
    algo = plan.worker_config.get("algo")
    plain = isinstance(algo, str) and algo.replace("_", "").replace("-", "").isalnum()
    return list(client.runs(size=_LOOKED_AT, where=f'algo="{algo}"' if plain else "").runs)


def _begun_at(settings: Mapping[str, Any]) -> int:
    """The step that a resumed run goes on from: what lies before it takes no time."""
    from mosaic_protocol.checkpoint_manifest import step_of
    from mosaic_protocol.settings_spelling import start_of

    start = start_of(settings)
    return (step_of(Path(start[1])) or 0) if start is not None and start[0] == "resume" else 0


def _is_of_this_machine(run: pb.Run) -> bool:
    """A data root may have come from another machine, or be shared by several. Runs that do not say count."""
    around = read_manifest(RunPaths(Path(run.run_dir))).get("environment") if run.run_dir else None
    there = around.get("cpu_model") if isinstance(around, dict) else None
    return there is None or there == cpu_model()
