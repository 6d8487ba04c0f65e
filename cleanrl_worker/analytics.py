"""What ``analytics.json`` says of a CleanRL run; :mod:`mosaic_worker.supervision.analytics` keeps it current."""

from __future__ import annotations

from cleanrl_worker.config import WorkerConfig
from cleanrl_worker.script_plan import ScriptPlan
from mosaic_protocol.paths import RunPaths
from mosaic_worker.script_worker.facts import facts_of
from mosaic_worker.supervision import analytics

__all__ = ["AnalyticsManifest", "facts_of"]


class AnalyticsManifest(analytics.AnalyticsManifest):
    def __init__(self, run: RunPaths, config: WorkerConfig, plan: ScriptPlan) -> None:
        super().__init__(run, facts_of(config, plan))
