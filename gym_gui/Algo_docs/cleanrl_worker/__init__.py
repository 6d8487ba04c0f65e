"""Where the pages about the CleanRL worker's algorithms are: ``gym_gui/ui/workers/cleanrl/documentation``."""

from gym_gui.ui.workers.cleanrl.documentation import PAGES

__all__ = ["PAGES"]
