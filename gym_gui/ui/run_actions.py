"""What can be done to the selected runs, as commands: in the menu, by shortcut, in the palette, on a right click."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PyQt6.QtCore import QObject, QUrl, pyqtSignal
from PyQt6.QtGui import QDesktopServices

from gym_gui.services.continuation import (
    CannotContinueError,
    continued,
    duplicated,
    why_not_continued,
    with_settings_of,
)
from gym_gui.services.run_request import RESUMED, derived_name
from gym_gui.services.run_words import is_over, short_id
from gym_gui.services.script_consent import ConsentNeededError, ScriptConsents, foreign_script
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.models.run_rules import ACTIONS, Known, applicable, why_not
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.workers.catalog import Catalog
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Outcome
from mosaic_protocol.worker_manifest import discover

_MOST_LOOKED_AT = 100
"""With more runs selected, none is asked whether it could go on."""
_OF_THE_DAEMON = frozenset({"cancel", "pause", "resume", "delete"})
_ICONS = {
    "open": "metrics",
    "join": "human",
    "replay": "replay",
    "pause": "pause",
    "resume": "resume",
    "cancel": "stop",
    "duplicate": "duplicate",
    "delete": "delete",
    "copy-id": "copy",
    "folder": "folder",
    "borrow": "duplicate",
    "swap": "hand-over",
}
_ALSO = {
    "open": "show select look view",
    "join": "play session watch take over seat live",
    "replay": "episodes recorded steps verify film video clips scrub",
    "pause": "hold suspend wait freeze",
    "resume": "continue go on unpause restart",
    "cancel": "stop kill abort end terminate quit",
    "duplicate": "copy clone again repeat rerun retry",
    "delete": "remove trash erase",
    "folder": "files directory",
    "borrow": "settings other duplicate merge take compare",
    "swap": "exchange order compare",
}
"""Other words that people look for."""
_MENUS = {
    "join": "Run/Session",
    "replay": "Run/Replay",
    "borrow": "Run/Compare",
    "swap": "Run/Compare",
    "folder": "File",
}
MENU_ORDER = (
    "open",
    "join",
    "replay",
    "pause",
    "resume",
    "cancel",
    "",
    "duplicate",
    "borrow",
    "swap",
    "copy-id",
    "folder",
    "",
    "delete",
)
"""As in a context menu; "" is a line between."""


@dataclass
class _Outcome:
    """What became of each run of several."""

    done: list[pb.Run] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass
class _Deleted:
    """The runs that were deleted last, and the notice that says so; ``seen`` once they are known to be in the trash."""

    notice: Notice
    ids: frozenset[str]
    seen: bool = False


class RunActions(QObject):
    """Acts on ``cockpit.selection``. One for a cockpit: it adds the commands.

    ``open_requested(run_id)``: show this run. ``join_requested(run_id)``: put this live session on the stage.
    ``replay_requested(run_id)``: show what it recorded. ``duplicate_requested(config)``: fill the train form with a
    run's config. ``cancel_asked(run_ids)``: ask for the reason, then call :meth:`cancel`. ``delete_asked(run_ids)``:
    ask whether all of them are meant, then call :meth:`delete`.

    ``is_hidden(run_id)`` is set by a list: whether its filters keep a selected run out of sight.
    """

    open_requested = pyqtSignal(str)
    join_requested = pyqtSignal(str)
    replay_requested = pyqtSignal(str)
    duplicate_requested = pyqtSignal(dict)
    cancel_asked = pyqtSignal(list)
    delete_asked = pyqtSignal(list)

    def __init__(self, cockpit: Cockpit, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._cannot_go_on: dict[str, str] = {}
        self._cannot_pause: frozenset[str] = frozenset()
        self._under_way: set[tuple[str, str]] = set()
        """Actions and the runs on which they are being done: a second press does not do them twice."""
        self._deleted: _Deleted | None = None
        self.is_hidden: Callable[[str], bool] = lambda run_id: False
        self._add_commands()
        self._paint_icons()
        cockpit.themes.changed.connect(self._paint_icons)
        cockpit.selection.changed.connect(self._look_again)
        cockpit.runs.changed.connect(self._refresh_for)
        cockpit.runs.changed.connect(self._withdraw_if_back)
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
            ("join", tr("Join"), "Ctrl+J", tr("Show this live session, and take its seat where you like"), self.join),
            ("replay", tr("Replay"), "Ctrl+R", tr("Look at its recorded episodes, step by step"), self.replay),
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
            (
                "borrow",
                tr("Launch the first with the second's settings…"),
                "",
                tr("Fill the train form: what the first run trains and its seed, every other setting of the second"),
                self.borrow,
            ),
            ("swap", tr("Swap the two runs"), "", tr("Make the second run the first of the comparison"), self.swap),
            ("copy-id", tr("Copy the id"), "Ctrl+Shift+I", tr("Put the id of the run on the clipboard"), self.copy_id),
            (
                "folder",
                tr("Open the run's folder"),
                "Ctrl+Shift+O",
                tr("Show checkpoints, TensorBoard files and videos of the run"),
                self.open_folder,
            ),
            (
                "delete",
                tr("Delete"),
                "Ctrl+Del",
                tr("Move the finished run to the trash, from where it can be restored"),
                self.ask_delete,
            ),
        ]
        for name, title, shortcut, text, act in offers:
            menu = _MENUS.get(name, "Run")
            command = Command(self.command(name), title, menu, shortcut, text, _ALSO.get(name, ""))
            self._cockpit.commands.add(command, act)

    def _paint_icons(self) -> None:
        theme = self._cockpit.themes.theme
        for name, sign in _ICONS.items():
            colour = theme.colour("bad" if name in ("cancel", "delete") else "text")
            self._cockpit.commands.action(self.command(name)).setIcon(icon(sign, colour))

    def use_catalog(self, catalog: Catalog) -> None:
        """Offer what the workers declare; of a worker that is not known nothing is assumed."""
        self._cannot_pause = frozenset(
            entry.type for entry in catalog.entries.values() if not entry.capabilities.pause and not entry.is_human
        )
        self.refresh()

    def refresh(self) -> None:
        """Offer what applies to the selection, and say of the rest why it does not."""
        runs, known = self.selected(), self._known()
        for name in ACTIONS:
            reason = self._why_not(name, runs, known)
            self._cockpit.commands.enable(self.command(name), not reason, reason)

    def _why_not(self, name: str, runs: Sequence[pb.Run], known: Known) -> str:
        connected = self._cockpit.bridge.connection.connected or name not in _OF_THE_DAEMON
        return why_not(name, runs, known) or ("" if connected else self.tr("The trainer daemon is away."))

    def tell_why_not(self, name: str) -> None:
        """Answer a key that was pressed in vain; a grey button shows that it is, and a key does not."""
        if reason := self._why_not(name, self.selected(), self._known()):
            self._cockpit.notify(Notice(reason, "warning"))

    def _refresh_for(self, run_ids: Sequence[str]) -> None:
        if not set(self._cockpit.selection.ids).isdisjoint(run_ids):
            self.refresh()
            self._look_for_checkpoints([run for run in self.selected() if run.run_id not in self._cannot_go_on])

    def _look_again(self) -> None:
        self.refresh()
        self._look_for_checkpoints(self.selected())

    def _look_for_checkpoints(self, runs: Sequence[pb.Run]) -> None:
        """Find out, beside everything else, which of the runs that ended early could go on."""
        ended = [run for run in runs if is_over(run) and run.outcome != Outcome.COMPLETED]

        def found(answers: dict[str, str]) -> None:
            self._cannot_go_on |= answers
            self.refresh()

        def failed(sentence: str) -> None:
            found({run.run_id: sentence for run in ended})

        if server := self._cockpit.bridge.server:
            goes_on = self.tr("its checkpoints are on {server}: `mosaic --on {server} resume {run}`")
            found({run.run_id: goes_on.format(server=server, run=short_id(run.run_id)) for run in ended})
        elif len(ended) > _MOST_LOOKED_AT:
            failed(self.tr("Select at most {count} runs to resume them.").format(count=_MOST_LOOKED_AT))
        elif ended:
            look = lambda: {run.run_id: why_not_continued(run) for run in ended}  # noqa: E731
            self._cockpit.bridge.in_background(look, found, failed, owner=self)

    def _known(self) -> Known:
        hidden = frozenset(filter(self.is_hidden, self._cockpit.selection.ids))
        return Known(self._cannot_go_on, hidden, self._cannot_pause)

    def selected(self) -> list[pb.Run]:
        found = map(self._cockpit.runs.get, self._cockpit.selection.ids)
        return [run for run in found if run is not None]

    def applicable(self, action: str) -> list[pb.Run]:
        return applicable(action, self.selected(), self._known())

    # ---- looking -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        for run in self.applicable("open"):
            self.open_requested.emit(run.run_id)

    def copy_id(self) -> None:
        ids = [run.run_id for run in self.selected()]
        if ids and copy_text("\n".join(ids)):
            self._cockpit.notify(Notice(self.tr("Copied {ids}").format(ids=", ".join(ids[:3]))))

    def open_folder(self) -> None:
        for run in self.applicable("folder"):
            folder, server = Path(run.run_dir), self._cockpit.bridge.server
            if server:
                text = self.tr("The folder is on {server}: {path}").format(server=server, path=folder)
                self._cockpit.notify(Notice(text, "warning"))
            elif not folder.is_dir():
                name = self._cockpit.runs.label(run)
                text = self.tr("{name} has no folder yet; it gets one when it starts.").format(name=name)
                self._cockpit.notify(Notice(text, "warning"))
            elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
                text = self.tr("No file manager could be opened. The folder is {path}").format(path=folder)
                self._cockpit.notify(Notice(text, "warning"))

    def join(self) -> None:
        for run in self.applicable("join"):
            self.join_requested.emit(run.run_id)

    def replay(self) -> None:
        for run in self.applicable("replay"):
            self.replay_requested.emit(run.run_id)

    def duplicate(self) -> None:
        for run in self.applicable("duplicate"):
            try:
                self.duplicate_requested.emit(duplicated(run))
            except ValueError:
                text = self.tr("The settings of {name} cannot be read.").format(name=self._cockpit.runs.label(run))
                self._cockpit.notify(Notice(text, "error"))

    def borrow(self) -> None:
        """The first run once more, with the settings of the second."""
        pair = self.applicable("borrow")
        if len(pair) == 2:
            try:
                self.duplicate_requested.emit(with_settings_of(*pair))
            except (ValueError, KeyError, AttributeError):
                text = self.tr("The settings of these runs cannot be read.")
                self._cockpit.notify(Notice(text, "error"))

    def swap(self) -> None:
        self._cockpit.selection.select([run.run_id for run in reversed(self.applicable("swap"))])

    # ---- asking the daemon ---------------------------------------------------------------------------------------

    def ask_cancel(self) -> None:
        self.cancel_asked.emit([run.run_id for run in self.applicable("cancel")])

    def cancel(self, run_ids: Sequence[str], reason: str = "") -> None:
        """End runs, politely first; the reason is kept with them."""
        found = [run for run in map(self._cockpit.runs.get, run_ids) if run is not None]
        self._each("cancel", found, lambda client, run: client.cancel(run.run_id, reason), self._tell_refusals)

    def pause(self) -> None:
        paused = lambda client, run: client.pause(run.run_id)  # noqa: E731
        self._each("pause", self.applicable("pause"), paused, self._tell_refusals)

    def resume(self) -> None:
        runs = self.applicable("resume")
        names: dict[str, str] = {}
        for run in runs:  # two of one name are not to get the same one again
            is_taken = lambda name: name in names.values() or self._cockpit.runs.has_name(name)  # noqa: E731
            names[run.run_id] = derived_name(run.name, RESUMED, is_taken)
        paths = self._cockpit.bridge.paths
        go_on = lambda client, run: _resumed(client, run, names[run.run_id], paths)  # noqa: E731
        self._each("resume", runs, go_on, self._tell_resumed)

    def ask_delete(self) -> None:
        """One run goes at once, with a way back; several are named first."""
        run_ids = [run.run_id for run in self.applicable("delete")]
        if len(run_ids) > 1:
            self.delete_asked.emit(run_ids)
        else:
            self.delete(run_ids)

    def delete(self, run_ids: Sequence[str]) -> None:
        """Move runs to the trash."""

        def deleted(client: TrainerClient, run: pb.Run) -> pb.Run:
            client.delete(run.run_id)
            return run

        found = [run for run in map(self._cockpit.runs.get, run_ids) if run is not None]
        self._each("delete", found, deleted, self._tell_deleted)

    def purge(self, runs: Sequence[pb.Run]) -> None:
        """Remove deleted runs for good."""

        def removed(client: TrainerClient, run: pb.Run) -> pb.Run:
            client.delete(run.run_id, purge=True)
            return run

        def gone(outcome: _Outcome) -> None:
            self._tell_refusals(outcome)
            self._cockpit.runs.take([pb.Run(run_id=run.run_id, deleted=True) for run in outcome.done])

        self._each("purge", runs, removed, gone)

    def restore(self, runs: Sequence[pb.Run]) -> None:
        """Bring deleted runs back from the trash, and select them."""

        def back(outcome: _Outcome) -> None:
            self._tell_refusals(outcome)
            self._cockpit.runs.take(outcome.done)
            self._cockpit.selection.show([run.run_id for run in outcome.done])

        self._each("restore", runs, lambda client, run: client.restore(run.run_id), back)

    def _each(
        self,
        action: str,
        runs: Sequence[pb.Run],
        act: Callable[[TrainerClient, pb.Run], pb.Run],
        tell: Callable[[_Outcome], None],
    ) -> None:
        """One that is refused does not keep the others from being served; one in hand already is left alone."""
        runs = [run for run in runs if (action, run.run_id) not in self._under_way]
        in_hand = {(action, run.run_id) for run in runs}

        def work(client: TrainerClient) -> _Outcome:
            outcome = _Outcome()
            for run in runs:
                try:
                    outcome.done.append(act(client, run))
                except (TrainerError, CannotContinueError, ConsentNeededError) as error:
                    outcome.refused.append(str(error))
            return outcome

        def done(outcome: _Outcome) -> None:
            self._under_way -= in_hand
            tell(outcome)

        def failed(sentence: str) -> None:
            self._under_way -= in_hand
            self._cockpit.notify(Notice(sentence, "error"))

        if runs:
            self._under_way |= in_hand
            self._cockpit.bridge.call(work, done, failed, owner=self)

    # ---- telling -------------------------------------------------------------------------------------------------

    def _tell_refusals(self, outcome: _Outcome) -> None:
        for sentence in dict.fromkeys(outcome.refused):
            self._cockpit.notify(Notice(sentence, "error"))

    def _tell_resumed(self, outcome: _Outcome) -> None:
        self._tell_refusals(outcome)
        fresh = [run for run in outcome.done if run.run_id not in self._cockpit.selection.ids]
        if fresh:
            self._cockpit.runs.take(fresh)
            self._cockpit.selection.show([run.run_id for run in fresh])
            text = self.tr("{name} goes on as a new run from the newest checkpoint.").format(name=fresh[0].name)
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
        notice = Notice(text, action=self.tr("Undo"), act=lambda: self.restore(runs))
        self._cockpit.notify(notice)
        self._deleted = _Deleted(notice, frozenset(run.run_id for run in runs))
        self._withdraw_if_back()

    def _withdraw_if_back(self, _: object = None) -> None:
        """Who restores a run from the trash, or deletes it for good, is not offered to undo its deletion any more.

        The answer to a deletion may come before the news of it, so the runs have to be seen in the trash first.
        """
        deleted, trash = self._deleted, self._cockpit.runs.trash
        if deleted is None:
            return
        if deleted.ids <= trash.keys():
            deleted.seen = True
        elif deleted.seen:
            self._deleted = None
            self._cockpit.withdraw(deleted.notice)


def _resumed(client: TrainerClient, run: pb.Run, name: str, paths: MosaicPaths) -> pb.Run:
    """A paused run goes on; one that is over goes on as a new one of that name.

    Its script may have changed since it was allowed: then it is not started again from here.
    """
    if not is_over(run):
        return client.resume(run.run_id)
    config = continued(run)
    manifest = discover().workers.get(run.worker_type)
    if manifest is not None and manifest.capabilities.foreign_scripts:
        try:
            script = foreign_script({}, config["metadata"]["worker"]["config"], manifest, paths)
            ScriptConsents(paths).require(script)
        except OSError as error:
            raise CannotContinueError(run, f"its script cannot be read: {error.strerror}") from error
    return client.submit({**config, "run_name": name}, name_is_default=True).run
