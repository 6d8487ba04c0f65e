"""What a presenter offers for a run: tabs by name, with the lane each belongs to, and a page for the stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtWidgets import QWidget

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit

TabLane = Literal["live", "analytics"]


@dataclass(frozen=True)
class TabSpec:
    """One tab. ``make`` is called in the GUI's thread when the tab is first looked at, with the run's id; a widget that
    holds something has ``close_tab()``."""

    name: str
    title: str
    make: Callable[[Cockpit, str], QWidget]
    lane: TabLane
    applies: Callable[[TrainerClient, str], bool] | None = None
    """Asked in a thread whether the run has what the tab shows; the tab is there once the answer is yes. None: always.
    """


@dataclass(frozen=True)
class StageView:
    """A page for the stage while a run goes on, in the place of its curves; ``title`` and ``help`` are those of the
    button that brings it back. ``make`` is called in the GUI's thread. The widget has a signal ``curves_wanted``,
    ``fit(QSize)`` for the room there is, and ``close_page()``."""

    title: str
    help: str
    make: Callable[[Cockpit, str], QWidget]
