"""How the Spade BDI worker is presented: its form, the telemetry lane with a tab for the mind, and the mind on the
stage."""

from __future__ import annotations

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.tab_spec import StageView, TabSpec
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.spade_bdi.form import SpadeBdiTrainForm
from gym_gui.ui.workers.spade_bdi.mind_stage import MindStage
from gym_gui.ui.workers.spade_bdi.mind_tab import MindTab
from mosaic_protocol.proto import trainer_pb2 as pb


class SpadeBdiWorkerPresenter(WorkerPresenter):
    """Telemetry: every step and every mind is there as it happens."""

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        return SpadeBdiTrainForm(cockpit, entry, queries)

    def bootstrap_live_tabs(self) -> list[TabSpec]:
        return [TabSpec("mind", "Mind", MindTab, "live"), *super().bootstrap_live_tabs()]

    def stage_view(self, run: pb.Run) -> StageView:
        help_text = "Look into the agent: what it learned, what it is about to do, which plans decided"
        return StageView("Mind", help_text, MindStage)
