"""The Arena screen as a whole: the open arena on the stage, the list of them below, and its commands."""

from __future__ import annotations

from PyQt6.QtCore import QObject

from gym_gui.ui.arena.arenas_panel import ArenasPanel
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.arena.page import ArenaPage
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.dock_arrangement import AREAS, DockArrangement
from gym_gui.ui.panels.stage import Stage


class ArenaScreen(QObject):
    """One for a window."""

    def __init__(self, cockpit: Cockpit, stage: Stage) -> None:
        super().__init__(stage)
        self._cockpit, self._stage = cockpit, stage
        self.desk = ArenaDesk(cockpit, self)
        self._add_commands()
        self.page = ArenaPage(cockpit, self.desk)
        self.page.setParent(stage)  # until it is shown
        self.page.hide()
        self.page.left.connect(self.close)
        self.panel: ArenasPanel | None = None
        stage.displaced.connect(self._displaced)
        stage.closing.connect(self._end)
        for changed in (self.desk.changed, self.desk.progressed):
            changed.connect(self._offer)
        self.desk.progressed.connect(self._follow_play)
        self._offer()

    def make_panel(self) -> ArenasPanel:
        panel = self.panel = ArenasPanel(self.desk)
        panel.wanted.connect(self.open)
        return panel

    def open(self, name: str) -> None:
        """Show an arena on the stage, which has the whole window meanwhile: pictures side by side need it."""
        self.desk.open(name)
        self._make_room()
        self._stage.show_over(self.page)
        self.page.table.setFocus()

    def close(self) -> None:
        """Give the stage and the room back; what is being played goes on."""
        self._stage.end_over(self.page)
        self.desk.open("")
        self._give_room_back()
        if self.panel is not None and self.panel.isVisible():
            self.panel.setFocus()

    def _make_room(self) -> None:
        if (arrangement := self._arrangement) is not None:
            arrangement.make_room(self, tuple(AREAS))

    def _give_room_back(self) -> None:
        if (arrangement := self._arrangement) is not None:
            arrangement.give_room_back(self)

    @property
    def _arrangement(self) -> DockArrangement | None:
        found = getattr(self._stage.window(), "arrangement", None)
        return found if isinstance(found, DockArrangement) else None

    def _displaced(self) -> None:
        """Something else came in front: the docks belong to it."""
        if self._stage.over is not self.page:
            self._give_room_back()

    def _follow_play(self) -> None:
        """Who begins an arena wants to see it."""
        if self.desk.playing and not self.desk.progress and self._stage.over is not self.page:
            self.open(self.desk.playing)

    def _end(self) -> None:
        self._give_room_back()  # the window remembers its docks, and not those of an arena
        self.page.side_by_side.close_replays()
        self.desk.close_panel()

    # ---- commands ------------------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr, add, menu = self.tr, self._cockpit.commands.add, "View/Arena"
        on = tr("Let those go on in the open arena that were interrupted; nobody plays an episode twice")
        add(Command("arena-resume", tr("Go on in the arena"), menu, "", on, "continue play"), lambda: self.desk.add([]))
        stop = tr("End the episodes that are being played; what was played stays")
        add(Command("arena-stop", tr("Interrupt the arena"), menu, "", stop, "stop cancel end"), self.desk.stop)
        more = tr("Look at the next seed of the open arena")
        add(Command("arena-next-seed", tr("Next seed"), menu, "", more), lambda: self.desk.step_seed(1))
        before = tr("Look at the seed before")
        add(Command("arena-previous-seed", tr("Previous seed"), menu, "", before), lambda: self.desk.step_seed(-1))
        leave = tr("Show the runs on the stage again; an arena that is being played goes on")
        add(Command("arena-close", tr("Close the arena"), menu, "", leave, "back list"), self.close)

    def _offer(self) -> None:
        enable, desk = self._cockpit.commands.enable, self.desk
        none = self.tr("Open an arena first.")
        busy = self.tr("An arena is being played.") if desk.playing or desk.is_preparing else ""
        enable("arena-resume", bool(desk.name) and not busy, busy or none)
        enable("arena-stop", bool(desk.playing), self.tr("No arena is being played in this window."))
        for name in ("arena-next-seed", "arena-previous-seed", "arena-close"):
            enable(name, bool(desk.name), none)
