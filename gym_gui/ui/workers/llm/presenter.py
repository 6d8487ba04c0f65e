"""The hybrid lane of a language model: its prompts live, its steps, and the analytics tabs. Its form is drawn from its
schema."""

from __future__ import annotations

from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.tab_spec import TabSpec
from gym_gui.ui.workers.llm.prompt_tab import PromptTab


class LLMWorkerPresenter(WorkerPresenter):
    """What the model is asked comes first: everything else follows from it."""

    def bootstrap_live_tabs(self) -> list[TabSpec]:
        return [TabSpec("prompts", "Prompts", PromptTab, "live"), *super().bootstrap_live_tabs()]
