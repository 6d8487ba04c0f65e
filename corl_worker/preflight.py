"""What is known of a dataset and its environment before a run starts. Imports h5py and gymnasium, not torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corl_worker.config import WorkerConfig
from corl_worker.fit import misfit
from mosaic_protocol.checkpoint_manifest import CheckpointError, other_data, read_manifest
from mosaic_protocol.worker_settings import Start
from mosaic_worker.errors import UsageError
from mosaic_worker.offline import OfflineDataset, open_dataset
from mosaic_worker.offline.rows_file import fits_into_memory
from mosaic_worker.offline.transitions import fraction_of
from mosaic_worker.script_worker.config import ConfigError
from mosaic_worker.script_worker.environments import Spaces, check_action_space, gymnasium_spaces
from mosaic_worker.script_worker.plan import ScriptPlan

_MB = 2**20
_BASE_MB, _KEPT_MB = 500, 200
"""Python with PyTorch; a few checkpoints."""
_COPIES = 4
_PARTS_MB = 200
"""While rows are read in parts."""
_ROW_BYTES = 300
"""Of a logged row, in the journal and in TensorBoard files together; measured with CORL's iql."""


def look_at(name: str, env_id: str, plan: ScriptPlan) -> dict[str, Any]:
    """What a dry run tells of the data. Raises ConfigError where the run would be refused."""
    try:
        with open_dataset(name) as dataset:
            found = Spaces(dataset.observation_space, dataset.action_space).described()
            about = {**dataset.describe(), "rows": dataset.rows, "episodes": dataset.episodes}
            own, needs = dataset.env_id, needs_of(dataset, plan)
            fraction_of(dataset.episodes, float(plan.values.get("best_fraction", 1)))
            problem = _problem_with(env_id or own, dataset)
    except UsageError as error:
        raise ConfigError(str(error)) from None
    check_action_space(plan.name, plan.action_spaces, f"the dataset {name!r}", found, WorkerConfig.manifest())
    told = {**found, "dataset": name, "offline_dataset": about, "env_id": env_id or own, "needs": needs}
    if problem:
        # CORL's own scripts make it first of all; ours train without one, and say so.
        if env_id or plan.order is not None or plan.values.get("online_steps"):
            raise ConfigError(problem)
        told["environment_problem"] = problem
    return told


def check_start(start: Start | None, given: dict[str, Any]) -> None:
    """Refuse to go on with other data than the checkpoint's. Raises ConfigError. `given`: the dataset, as checkpoints
    describe it."""
    if start is None or start.mode != "resume":
        return
    try:
        learned = read_manifest(Path(start.checkpoint)).offline_dataset
    except CheckpointError:
        return  # the script, which reads all of it, says what is wrong with it
    if why := other_data(learned, given):
        raise ConfigError(f"{start.checkpoint} cannot be used: {why}")


def needs_of(dataset: OfflineDataset, plan: ScriptPlan) -> dict[str, Any]:
    """What the run is going to take of this machine, for a client that knows what there is. Scripts of CORL hold the
    columns, what they make of them and a buffer at the same time, and log every update; ours hold the rows once, in
    memory or else in a file."""
    data = dataset.rows * dataset.row_bytes
    steps = (plan.order.total or 0) if plan.order is not None else 0
    memory, disk = _COPIES * data // _MB, steps * _ROW_BYTES // _MB
    if not steps:
        in_memory = fits_into_memory(data)
        memory, disk = (_PARTS_MB + data // _MB, 0) if in_memory else (_PARTS_MB, data // _MB)
    needs = {
        "memory_mb": _BASE_MB + memory,
        "disk_mb": _KEPT_MB + disk,
        "because": f"{dataset.rows:,} rows of the dataset",
    }
    return {**needs, "gpu_memory_mb": _BASE_MB + data // _MB} if plan.values.get("device") == "cuda" else needs


def _problem_with(env_id: str, dataset: OfflineDataset) -> str:
    """Why nothing can be played in the environment; "" where it can."""
    if not env_id:
        return f"the dataset {dataset.name!r} does not say which environment it is of: give --env-id"
    try:
        there = gymnasium_spaces(env_id, WorkerConfig.manifest())
    except ConfigError as error:
        return str(error)
    return misfit(env_id, there.observation, there.action, dataset)
