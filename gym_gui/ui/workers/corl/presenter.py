"""How the CORL worker is presented: its form, and the analytics lane with a tab that compares offline with online."""

from __future__ import annotations

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.tab_spec import TabSpec
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.corl.form import CorlTrainForm
from gym_gui.ui.workers.corl.offline_tab import OfflineTab

LIVE_BANNER = "CORL runs learn from data: follow them by their curves; there is nothing to watch step by step."


class CorlWorkerPresenter(WorkerPresenter):
    """Analytics only: everything about a run is in its metrics and artifacts."""

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        return CorlTrainForm(cockpit, entry, queries)

    def bootstrap_analytics_tabs(self) -> list[TabSpec]:
        return [TabSpec("offline", "Offline", OfflineTab, "analytics"), *super().bootstrap_analytics_tabs()]

    def live_banner(self, cockpit: Cockpit, run_id: str) -> str:
        return LIVE_BANNER
