"""What a presenter offers for a run: a tab by name, in which lane it belongs, and how it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PyQt6.QtWidgets import QWidget

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
