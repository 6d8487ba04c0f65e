"""The CORL form; it lives with everything else of that worker in ``gym_gui/ui/workers/corl``."""

from gym_gui.ui.workers.corl.form import CorlTrainForm

__all__ = ["CorlTrainForm"]
