"""How the LLM worker is presented: its form, and the hybrid lane with its prompts live and the analytics tabs."""

from __future__ import annotations

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.tab_spec import TabSpec
from gym_gui.ui.workers.catalog import WorkerEntry
from gym_gui.ui.workers.llm.form import LlmTrainForm
from gym_gui.ui.workers.llm.prompt_tab import PromptTab


class LLMWorkerPresenter(WorkerPresenter):
    """What the model is asked comes first: everything else follows from it."""

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        return LlmTrainForm(cockpit, entry, queries)

    def bootstrap_live_tabs(self) -> list[TabSpec]:
        return [TabSpec("prompts", "Prompts", PromptTab, "live"), *super().bootstrap_live_tabs()]
