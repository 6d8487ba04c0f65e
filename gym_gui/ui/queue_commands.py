"""Moving the selected runs in the queue, as commands; what was moved can be put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PyQt6.QtCore import QObject
from PyQt6.QtWidgets import QMenu

from gym_gui.services.queue_moves import FIRST, LAST, Moves, Spot, arranged, move_each, move_runs, next_spot, way_back
from gym_gui.services.run_words import is_over, ordinal
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.waiting_line import in_line, places, stands_in_line
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

_MENU = "Run/Queue"
_ALSO = "queue order priority sooner later wait line rearrange reorder"
_NAMES = ("queue-front", "queue-up", "queue-down", "queue-end")


class QueueCommands(QObject):
    """Acts on ``cockpit.selection``. One for a cockpit (:meth:`of`): it adds the commands."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit.bridge)
        self._cockpit = cockpit
        self._under_way = False
        """While a move is answered, a second press would reckon with the old order."""
        tr = self.tr
        for name, title, shortcut, text in (
            ("queue-front", tr("Move to the front of the queue"), "Alt+Shift+Up", tr("It starts next, once it fits")),
            ("queue-up", tr("Move up"), "Alt+Up", tr("Before the run in front of it")),
            ("queue-down", tr("Move down"), "Alt+Down", tr("Behind the run that follows it")),
            ("queue-end", tr("Move to the end"), "Alt+Shift+Down", tr("Behind all runs that wait now")),
        ):
            command = Command(name, title, _MENU, shortcut, tr("Queue: {text}").format(text=text), _ALSO)
            cockpit.commands.add(command, partial(self._move_selected, name))
        cockpit.selection.changed.connect(self.refresh)
        cockpit.runs.changed.connect(self._refresh_for)
        cockpit.bridge.connection_changed.connect(self.refresh)
        self.refresh()

    @classmethod
    def of(cls, cockpit: Cockpit) -> QueueCommands:
        """The ones of a cockpit."""
        found: QueueCommands | None = cockpit.bridge.findChild(cls)
        return cls(cockpit) if found is None else found

    # ---- offering ------------------------------------------------------------------------------------------------

    def _refresh_for(self, run_ids: Sequence[str]) -> None:
        """While a run is selected that waits, any other may have left the line in front of it."""
        if self.waits(self._cockpit.selection.current or "") or self._cockpit.selection.current in run_ids:
            self.refresh()

    def waits(self, run_id: str) -> bool:
        run = self._cockpit.runs.get(run_id)
        return run is not None and stands_in_line(run)

    def refresh(self, *_: object) -> None:
        """Offer what applies to the selection, and say of the rest why it does not."""
        moved = self.selected()
        reason = self._why_not(moved)
        line = [] if reason else self.line_of(moved[0])
        for name in _NAMES:
            why = reason or self._why_there(name, line, moved)
            self._cockpit.commands.enable(name, not why, why)

    def selected(self) -> list[str]:
        """The selected runs that wait, in the order of the queue; of both lines, only those of the current run's."""
        current, chosen = self._cockpit.selection.current or "", set(self._cockpit.selection.ids)
        return [run_id for run_id in self.line_of(current) if run_id in chosen]

    def line_of(self, run_id: str) -> list[str]:
        """The runs that wait in the line of this one, the next one first; none where it does not wait itself."""
        run = self._cockpit.runs.get(run_id)
        if run is None or not stands_in_line(run):
            return []
        apart = run.interactive
        return [one.run_id for one in in_line(self._cockpit.runs) if one.interactive is apart]

    def _why_not(self, moved: Sequence[str]) -> str:
        current = self._cockpit.runs.get(self._cockpit.selection.current or "")
        if current is None:
            return self.tr("Select a queued run first.")
        if not moved:
            return self.tr("Not for {name}: {why}.").format(name=current.name, why=self._why_apart(current))
        return "" if self._cockpit.bridge.connection.connected else self.tr("The trainer daemon is away.")

    def _why_apart(self, run: pb.Run) -> str:
        if is_over(run):
            return self.tr("it is over")
        return run.reason if run.state == RunState.INIT else self.tr("it has started")

    def _why_there(self, name: str, line: Sequence[str], moved: Sequence[str]) -> str:
        if arranged(line, moved, self._spot(name, line, moved)) != list(line):
            return ""
        at_front = name in ("queue-front", "queue-up")
        return self.tr("It is the first in line.") if at_front else self.tr("It is the last in line.")

    def _spot(self, name: str, line: Sequence[str], moved: Sequence[str]) -> Spot:
        ends = {"queue-front": Spot(FIRST), "queue-end": Spot(LAST)}
        return ends[name] if name in ends else next_spot(line, moved, up=name == "queue-up")

    def add_to(self, menu: QMenu) -> None:
        """Among what can be done to the selected runs, where one of them waits."""
        if not self.selected():
            return
        menu.addSeparator()
        inside = menu.addMenu(self.tr("Queue"))
        assert inside is not None
        inside.setToolTipsVisible(True)
        for name in _NAMES:
            inside.addAction(self._cockpit.commands.action(name))

    # ---- moving --------------------------------------------------------------------------------------------------

    def _move_selected(self, name: str) -> None:
        moved = self.selected()
        if moved:
            self.move(moved, self._spot(name, self.line_of(moved[0]), moved))

    def move(self, run_ids: Sequence[str], spot: Spot) -> None:
        """Put runs to a place in the line, and offer the way back."""
        line, moved = self.line_of(run_ids[0]), list(run_ids)
        self._ask(lambda client: move_runs(client, moved, spot), lambda done: self._tell(line, done))

    def _put_back(self, line: Sequence[str], moved: Sequence[str]) -> None:
        waiting = set(filter(self.waits, line))
        self._ask(lambda client: move_each(client, way_back(line, moved, waiting)), lambda done: None)

    def _ask(self, act: Callable[[TrainerClient], Moves], told: Callable[[list[pb.Run]], None]) -> None:
        if self._under_way:
            return
        self._under_way = True

        def done(moves: Moves) -> None:
            self._under_way = False
            self._cockpit.runs.take(moves.done)
            for sentence in dict.fromkeys(map(str, moves.refused)):
                self._cockpit.notify(Notice(sentence, "error"))
            told(moves.done)

        def failed(sentence: str) -> None:
            self._under_way = False
            self._cockpit.notify(Notice(sentence, "error"))

        self._cockpit.bridge.call(act, done, failed, owner=self)

    def _tell(self, line: Sequence[str], moved: Sequence[pb.Run]) -> None:
        if not moved:
            return
        ids = [run.run_id for run in moved]
        place = places(in_line(self._cockpit.runs)).get(ids[0], 0)
        if len(moved) > 1:
            text = self.tr("{count} runs were moved in the queue.").format(count=len(moved))
        elif place:
            text = self.tr("{name} is {place} in line.").format(name=moved[0].name, place=ordinal(place))
        else:
            text = self.tr("{name} starts.").format(name=moved[0].name)
        self._cockpit.notify(Notice(text, action=self.tr("Undo"), act=lambda: self._put_back(line, ids)))
