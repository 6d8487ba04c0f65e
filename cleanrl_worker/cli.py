"""``python -m cleanrl_worker.cli``: check a config, or run one script under supervision.

The program is :mod:`mosaic_worker.script_worker.cli`; CleanRL's own is where environments come from.
"""

from __future__ import annotations

from typing import Any

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.foreign_environment import environment_for
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_worker.script_worker.cli import ScriptWorkerCli


def _look(config: WorkerConfig, plan: ScriptPlan) -> dict[str, Any]:
    from cleanrl_worker.preflight import check_action_space

    if not config.env_id or not (found := environment_for(plan, config.env_id)):
        return {}
    check_action_space(plan.name, plan.action_spaces, config.env_id, found)
    return dict(found)


CLI = ScriptWorkerCli(WorkerConfig, ScriptPlan, _look)
main = CLI.main

if __name__ == "__main__":
    CLI.run_as_program()
