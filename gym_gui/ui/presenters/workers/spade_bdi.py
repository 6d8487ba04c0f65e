"""The Spade BDI worker's presenter; it lives in ``gym_gui/ui/workers/spade_bdi``."""

from gym_gui.ui.workers.spade_bdi.presenter import SpadeBdiWorkerPresenter

__all__ = ["SpadeBdiWorkerPresenter"]
