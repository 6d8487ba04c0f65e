"""How the CleanRL worker is presented: its own form, and the analytics lane."""

from __future__ import annotations

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm
from gym_gui.ui.workers.catalog import WorkerEntry

LIVE_BANNER = "CleanRL worker streams metrics via TensorBoard/W&B; live telemetry not available."


class CleanRlWorkerPresenter(WorkerPresenter):
    """Analytics only: what a run has to tell is in its metrics and artifacts."""

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        return CleanRlTrainForm(cockpit, entry, queries)

    def live_banner(self, cockpit: Cockpit, run_id: str) -> str:
        return LIVE_BANNER
