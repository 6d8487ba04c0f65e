"""The tabs of a run that show what it left on disk. Each is made when it is first looked at.

A further one is a widget of its own, and a row in :class:`AnalyticsTabManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PyQt6.QtWidgets import QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.optuna_tab import OptunaTab
from gym_gui.ui.panels.tensorboard_tab import TensorBoardTab
from gym_gui.ui.panels.wandb_tab import WandbTab


@dataclass(frozen=True)
class AnalyticsTab:
    """A tab that a run may have."""

    name: str
    title: str
    make: Callable[[Cockpit, str, Path], QWidget]


class AnalyticsTabManager:
    """Which analytics tabs a run has: one for each kind of artifact. Each reads from the manifest what there is."""

    def tabs(self) -> list[AnalyticsTab]:
        return [
            AnalyticsTab("tensorboard", "TensorBoard", TensorBoardTab),
            AnalyticsTab("wandb", "W&&B", WandbTab),  # a single & would be a shortcut
            AnalyticsTab("optuna", "Optuna", OptunaTab),
        ]
