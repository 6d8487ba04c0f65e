"""The CleanRL worker's presenter; it lives in ``gym_gui/ui/workers/cleanrl``."""

from gym_gui.ui.workers.cleanrl.presenter import LIVE_BANNER, CleanRlWorkerPresenter

__all__ = ["LIVE_BANNER", "CleanRlWorkerPresenter"]
