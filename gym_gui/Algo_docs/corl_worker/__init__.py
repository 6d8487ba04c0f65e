"""Where the pages about the CORL worker's algorithms are: ``gym_gui/ui/workers/corl/documentation``."""

from gym_gui.ui.workers.corl.documentation import PAGES

__all__ = ["PAGES"]
