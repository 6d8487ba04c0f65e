"""What can be done with a live session, for the menus and the palette. On the stage single keys do the same."""

from __future__ import annotations

from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.play.play_panel import PlayPanel

_MENU = "Run/Session"


def add_session_commands(cockpit: Cockpit, dock: TrainDock, panel: PlayPanel) -> None:
    """Offer them once for a window; each says why it cannot be used now."""
    add, tr, desk = cockpit.commands.add, panel.tr, panel.desk

    def start() -> None:
        if dock.mode.choice == "agent":
            dock.mode.choose("human")
        panel.start_session()

    about = tr("Play what stands on the left in Human and Hybrid mode")
    add(Command("session-start", tr("Start a session"), _MENU, "", about, "play human game begin"), start)
    about = tr("Give the seat to the policy, or take it back; Tab on the stage")
    add(
        Command("session-hand-over", tr("Hand the seat over"), _MENU, "", about, "take over policy turn"),
        desk.hand_over,
    )
    about = tr("End the session; everything that was recorded is kept")
    add(Command("session-end", tr("End and keep the session"), _MENU, "", about, "stop finish quit"), desk.end)
    about = tr("End the session and move it to the trash, from where it can be restored")
    also = "delete trash throw away"
    add(Command("session-discard", tr("Discard the session"), _MENU, "", about, also), desk.discard)

    def offer() -> None:
        none = tr("There is no live session on the stage.")
        cockpit.commands.enable("session-hand-over", desk.status == "live", none)
        cockpit.commands.enable("session-end", desk.status not in ("idle", "ending"), none)
        cockpit.commands.enable("session-discard", desk.status in ("live", "joining"), none)

    desk.status_changed.connect(offer)
    offer()
