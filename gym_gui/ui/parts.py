"""What a screen of the cockpit is. A new one is a module with a widget that takes the :class:`Cockpit`, and a row in
:mod:`gym_gui.ui.composition`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from PyQt6.QtWidgets import QWidget

from gym_gui.ui.context import Cockpit


class Place(Enum):
    """Where a part has its place when the cockpit is first opened; docks may be moved afterwards."""

    LEFT = "left"
    STAGE = "stage"
    RIGHT = "right"
    BOTTOM = "bottom"


@dataclass(frozen=True)
class Part:
    """One screen. Of several in one place the first is in front."""

    name: str
    title: str
    place: Place
    make: Callable[[Cockpit], QWidget]
    shortcut: str = ""
    help: str = ""
    menu: str = "View/Panels"
    """Where the command is that shows it."""
    is_closed: bool = False
    """Not shown at first: another part opens it when there is something in it."""
