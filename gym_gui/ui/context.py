"""What every part of the cockpit is given: one object instead of globals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.commands import Commands
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.run_book import RunBook, RunSelection
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.snackbar import Notice


@dataclass(frozen=True)
class Cockpit:
    """The parts share these. ``notify`` shows a notice that goes by itself, ``withdraw`` puts it away before."""

    bridge: TrainerBridge
    runs: RunBook
    selection: RunSelection
    themes: Themes
    preferences: Preferences
    commands: Commands
    notify: Callable[[Notice], None]
    withdraw: Callable[[Notice], None]
