"""The script that a config asks for: :mod:`mosaic_worker.script_worker.plan`, and upstream CleanRL's scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.upstream import JAX_BUNDLE, UPSTREAM_BUNDLE, implied_bundle, upstream_folder, upstream_script
from mosaic_worker.script_worker import plan
from mosaic_worker.script_worker.config import ScriptConfig
from mosaic_worker.script_worker.plan import FoundScript


@dataclass(frozen=True)
class ScriptPlan(plan.ScriptPlan):
    """The script that runs, and what is known of it."""

    @classmethod
    def find(cls, config: ScriptConfig) -> FoundScript:
        if not (config.is_upstream and isinstance(config, WorkerConfig)):
            return super().find(config)
        python = plan.script_python(config.bundle or implied_bundle(config.algo))
        folder = upstream_folder(config.cleanrl_path, python)
        search = (str(Path(config.cleanrl_path).expanduser()),) if config.cleanrl_path else ()
        found = upstream_script(config.algo, folder)
        python = plan.python_with_jax(found, config.bundle, UPSTREAM_BUNDLE, JAX_BUNDLE)
        return FoundScript(found, f"cleanrl/{config.algo}", python=python, search=search)
