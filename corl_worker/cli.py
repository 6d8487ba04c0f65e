"""``python -m corl_worker.cli``: check a config, or run one script under supervision.

The program is :mod:`mosaic_worker.script_worker.cli`; what is looked at before a run is the dataset.
"""

from __future__ import annotations

from typing import Any

from corl_worker.config import ConfigError, WorkerConfig
from corl_worker.upstream_plan import CorlPlan
from mosaic_worker.script_worker.cli import ScriptWorkerCli


def _look(config: WorkerConfig, plan: CorlPlan) -> dict[str, Any]:
    """The dataset, hashed, and whether the algorithm and the environment fit it. Raises ConfigError."""
    from corl_worker.preflight import check_start, look_at

    name = config.dataset or plan.values.get("dataset") or ""
    if not name:
        if config.start is not None and config.start.mode == "resume":
            return {}  # the checkpoint names it
        raise ConfigError(f"--dataset is missing: {plan.name} learns from a dataset")
    found = look_at(name, config.env_id, plan)
    check_start(config.start, found["offline_dataset"])
    return {**found, **plan.told()}


CLI = ScriptWorkerCli(WorkerConfig, CorlPlan, _look)
main = CLI.main

if __name__ == "__main__":
    CLI.run_as_program()
