"""The Spade BDI form; it lives with everything else of that worker in ``gym_gui/ui/workers/spade_bdi``."""

from gym_gui.ui.workers.spade_bdi.form import SpadeBdiTrainForm

__all__ = ["SpadeBdiTrainForm"]
