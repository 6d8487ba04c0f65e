"""What can be done to the selected runs, as commands: in the menu, by shortcut, in the palette, on a right click."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PyQt6.QtCore import QObject, QUrl, pyqtSignal
from PyQt6.QtGui import QDesktopServices, QGuiApplication

from gym_gui.services.continuation import CannotContinueError, anew, continued
from gym_gui.services.run_words import is_over
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.models.run_rules import ACTIONS, applicable, why_not
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

_OF_THE_DAEMON = frozenset({"cancel", "pause", "resume", "delete"})
_ICONS = {
    "open": "metrics",
    "pause": "pause",
    "resume": "resume",
    "cancel": "stop",
    "duplicate": "duplicate",
    "delete": "delete",
    "copy-id": "copy",
    "folder": "folder",
}
MENU_ORDER = ("open", "pause", "resume", "cancel", "", "duplicate", "copy-id", "folder", "", "delete")
"""As in a context menu; "" is a line between."""


@dataclass
class _Outcome:
    """What became of each run of several."""

    done: list[pb.Run] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class RunActions(QObject):
    """Acts on ``cockpit.selection``. One for a cockpit: it adds the commands.

    ``open_requested(run_id)``: show this run. ``duplicate_requested(config)``: fill the train form with a run's config.
    ``cancel_asked(run_ids)``: ask for the reason, then call :meth:`cancel`.
    """

    open_requested = pyqtSignal(str)
    duplicate_requested = pyqtSignal(dict)
    cancel_asked = pyqtSignal(list)

    def __init__(self, cockpit: Cockpit, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._add_commands()
        self._paint_icons()
        cockpit.themes.changed.connect(self._paint_icons)
        cockpit.selection.changed.connect(self.refresh)
        cockpit.runs.changed.connect(self._refresh_for)
        cockpit.bridge.connection_changed.connect(self.refresh)
        self.refresh()

    @staticmethod
    def command(action: str) -> str:
        """The name of an action's command."""
        return f"run-{action}"

    # ---- offering ------------------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr = self.tr
        offers: list[tuple[str, str, str, str, Callable[[], object]]] = [
            ("open", tr("Open"), "Alt+Return", tr("Show the selected run"), self.open),
            ("pause", tr("Pause"), "Ctrl+Shift+P", tr("Hold the run at its next safe point"), self.pause),
            (
                "resume",
                tr("Resume"),
                "Ctrl+Shift+R",
                tr("Let the run go on; one that ended early goes on from its newest checkpoint as a new run"),
                self.resume,
            ),
            (
                "cancel",
                tr("Cancel…"),
                "Ctrl+Shift+X",
                tr("End the run, with a reason; it may write a last checkpoint"),
                self.ask_cancel,
            ),
            (
                "duplicate",
                tr("Duplicate as new…"),
                "Ctrl+D",
                tr("Fill the train form with the settings of this run"),
                self.duplicate,
            ),
            ("copy-id", tr("Copy the id"), "Ctrl+Shift+I", tr("Put the id of the run on the clipboard"), self.copy_id),
            (
                "folder",
                tr("Open the run's folder"),
                "Ctrl+Shift+O",
                tr("Show checkpoints, TensorBoard files and videos of the run"),
                self.open_folder,
            ),
            ("delete", tr("Delete"), "Ctrl+Del", tr("Move the finished run to the trash; can be undone"), self.delete),
        ]
        for name, title, shortcut, text, act in offers:
            self._cockpit.commands.add(Command(self.command(name), title, "Run", shortcut, text), act)

    def _paint_icons(self) -> None:
        theme = self._cockpit.themes.theme
        for name, sign in _ICONS.items():
            colour = theme.colour("bad" if name in ("cancel", "delete") else "text")
            self._cockpit.commands.action(self.command(name)).setIcon(icon(sign, colour))

    def refresh(self) -> None:
        """Offer what applies to the selection, and say of the rest why it does not."""
        runs = self.selected()
        connected = self._cockpit.bridge.connection.connected
        for name in ACTIONS:
            reason = why_not(name, runs)
            if not reason and name in _OF_THE_DAEMON and not connected:
                reason = self.tr("The trainer daemon is away.")
            self._cockpit.commands.enable(self.command(name), not reason, reason)

    def _refresh_for(self, run_ids: Sequence[str]) -> None:
        if not set(self._cockpit.selection.ids).isdisjoint(run_ids):
            self.refresh()

    def selected(self) -> list[pb.Run]:
        found = map(self._cockpit.runs.get, self._cockpit.selection.ids)
        return [run for run in found if run is not None]

    def applicable(self, action: str) -> list[pb.Run]:
        return applicable(action, self.selected())

    # ---- looking -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        for run in self.applicable("open"):
            self.open_requested.emit(run.run_id)

    def copy_id(self) -> None:
        clipboard = QGuiApplication.clipboard()
        ids = [run.run_id for run in self.selected()]
        if clipboard is not None and ids:
            clipboard.setText("\n".join(ids))
            self._cockpit.notify(Notice(self.tr("Copied {ids}").format(ids=", ".join(ids[:3]))))

    def open_folder(self) -> None:
        for run in self.applicable("folder"):
            folder = Path(run.run_dir)
            if not folder.is_dir():
                text = self.tr("{name} has no folder yet; it gets one when it starts.").format(name=run.name)
                self._cockpit.notify(Notice(text, "warning"))
            elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
                text = self.tr("No file manager could be opened. The folder is {path}").format(path=folder)
                self._cockpit.notify(Notice(text, "warning"))

    def duplicate(self) -> None:
        for run in self.applicable("duplicate"):
            try:
                self.duplicate_requested.emit(anew(run))
            except ValueError:
                text = self.tr("The settings of {name} cannot be read.").format(name=run.name)
                self._cockpit.notify(Notice(text, "error"))

    # ---- asking the daemon ---------------------------------------------------------------------------------------

    def ask_cancel(self) -> None:
        self.cancel_asked.emit([run.run_id for run in self.applicable("cancel")])

    def cancel(self, run_ids: Sequence[str], reason: str = "") -> None:
        """End runs, politely first; the reason is kept with them."""
        found = [run for run in map(self._cockpit.runs.get, run_ids) if run is not None]
        self._each(found, lambda client, run: client.cancel(run.run_id, reason), self._tell_refusals)

    def pause(self) -> None:
        self._each(self.applicable("pause"), lambda client, run: client.pause(run.run_id), self._tell_refusals)

    def resume(self) -> None:
        self._each(self.applicable("resume"), _resumed, self._tell_resumed)

    def delete(self) -> None:
        def deleted(client: TrainerClient, run: pb.Run) -> pb.Run:
            client.delete(run.run_id)
            return run

        self._each(self.applicable("delete"), deleted, self._tell_deleted)

    def restore(self, runs: Sequence[pb.Run]) -> None:
        """Bring deleted runs back from the trash, and select them."""

        def back(outcome: _Outcome) -> None:
            self._tell_refusals(outcome)
            self._cockpit.runs.take(outcome.done)
            self._cockpit.selection.select([run.run_id for run in outcome.done])

        self._each(runs, lambda client, run: client.restore(run.run_id), back)

    def _each(
        self,
        runs: Sequence[pb.Run],
        act: Callable[[TrainerClient, pb.Run], pb.Run],
        tell: Callable[[_Outcome], None],
    ) -> None:
        """One that is refused does not keep the others from being served."""

        def work(client: TrainerClient) -> _Outcome:
            outcome = _Outcome()
            for run in runs:
                try:
                    outcome.done.append(act(client, run))
                except (TrainerError, CannotContinueError) as error:
                    outcome.refused.append(str(error))
            return outcome

        def failed(sentence: str) -> None:
            self._cockpit.notify(Notice(sentence, "error"))

        if runs:
            self._cockpit.bridge.call(work, tell, failed, owner=self)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell_refusals(self, outcome: _Outcome) -> None:
        for sentence in dict.fromkeys(outcome.refused):
            self._cockpit.notify(Notice(sentence, "error"))

    def _tell_resumed(self, outcome: _Outcome) -> None:
        self._tell_refusals(outcome)
        fresh = [run for run in outcome.done if run.run_id not in self._cockpit.selection.ids]
        if fresh:
            self._cockpit.runs.take(fresh)
            self._cockpit.selection.select([run.run_id for run in fresh])
            text = self.tr("{name} goes on as a new run from its newest checkpoint.").format(name=fresh[0].name)
            self._cockpit.notify(Notice(text, "good"))

    def _tell_deleted(self, outcome: _Outcome) -> None:
        self._tell_refusals(outcome)
        if not outcome.done:
            return
        if len(outcome.done) == 1:
            text = self.tr("{name} was deleted.").format(name=outcome.done[0].name)
        else:
            text = self.tr("{count} runs were deleted.").format(count=len(outcome.done))
        runs = tuple(outcome.done)
        self._cockpit.notify(Notice(text, action=self.tr("Undo"), act=lambda: self.restore(runs)))


def _resumed(client: TrainerClient, run: pb.Run) -> pb.Run:
    """A paused run goes on; one that is over goes on as a new one."""
    return client.submit(continued(run)).run if is_over(run) else client.resume(run.run_id)
