"""The CleanRL form; it lives with everything else of that worker in ``gym_gui/ui/workers/cleanrl``."""

from gym_gui.ui.workers.cleanrl.form import CleanRlTrainForm

__all__ = ["CleanRlTrainForm"]
