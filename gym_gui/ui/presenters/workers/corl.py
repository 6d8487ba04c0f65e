"""The CORL worker's presenter; it lives in ``gym_gui/ui/workers/corl``."""

from gym_gui.ui.workers.corl.presenter import LIVE_BANNER, CorlWorkerPresenter

__all__ = ["LIVE_BANNER", "CorlWorkerPresenter"]
