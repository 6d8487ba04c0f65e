"""How the CleanRL worker is presented: its own form, its demo, and the analytics lane."""

from __future__ import annotations

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import Demo, WorkerPresenter
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.cleanrl.demo import DEMO
from gym_gui.ui.workers.cleanrl.form import CleanRlTrainForm

LIVE_BANNER = "CleanRL worker streams metrics via TensorBoard/W&B; live telemetry not available."


class CleanRlWorkerPresenter(WorkerPresenter):
    """Analytics only: everything about a run is in its metrics and artifacts."""

    model_files = (".cleanrl_model",)

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        return CleanRlTrainForm(cockpit, entry, queries)

    def demo(self) -> Demo:
        return DEMO

    def live_banner(self, cockpit: Cockpit, run_id: str) -> str:
        return LIVE_BANNER
