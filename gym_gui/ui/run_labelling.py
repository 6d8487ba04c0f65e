"""Changing what people call a run and remember of it, with a way back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PyQt6.QtCore import QObject

from gym_gui.services.run_labels import config_of
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

_MOST_KEPT = 100
_UNDO = "undo-labels"


@dataclass(frozen=True)
class LabelEdit:
    """None, and no tags, leave a thing as it is."""

    name: str | None = None
    notes: str | None = None
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()

    def undone(self, run: pb.Run) -> LabelEdit:
        """What brings a run back to how it is now, after this was done to it."""
        return LabelEdit(
            None if self.name is None else run.name,
            None if self.notes is None else notes_of(run),
            tuple(tag for tag in self.remove_tags if tag in run.tags),
            tuple(tag for tag in self.add_tags if tag not in run.tags),
        )

    @property
    def is_empty(self) -> bool:
        return self == LabelEdit()


def notes_of(run: pb.Run) -> str:
    metadata = config_of(run.config_json).get("metadata")
    notes = metadata.get("notes") if isinstance(metadata, dict) else None
    return notes if isinstance(notes, str) else ""


class RunLabelling(QObject):
    """Asks the daemon, shows what it answers, and remembers how to undo it. One for a cockpit: it adds a command."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit.bridge)
        self._cockpit = cockpit
        self._done: list[tuple[str, LabelEdit]] = []
        """Runs and what undoes what was done to them, the newest last."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False
        help_text = self.tr("Take the last change of a run's name, tags or notes back")
        command = Command(_UNDO, self.tr("Undo the last label"), "Run", "Ctrl+Alt+Z", help_text, "rename tag note back")
        cockpit.commands.add(command, self.undo)
        self._offer()

    @classmethod
    def of(cls, cockpit: Cockpit) -> RunLabelling:
        """The one of a cockpit."""
        found: RunLabelling | None = cockpit.bridge.findChild(cls)
        return cls(cockpit) if found is None else found

    def rename(self, run: pb.Run, name: str) -> None:
        self.change(run, LabelEdit(name=name), self.tr("Renamed to {name}.").format(name=name))

    def note(self, run: pb.Run, notes: str) -> None:
        said = self.tr("The notes of {run} are kept.").format(run=self._cockpit.runs.label(run))
        self.change(run, LabelEdit(notes=notes), said)

    def tag(self, run: pb.Run, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        parts = [self.tr("Tagged {tags}.").format(tags=", ".join(add))] if add else []
        parts += [self.tr("Tag {tags} removed.").format(tags=", ".join(remove))] if remove else []
        self.change(run, LabelEdit(add_tags=tuple(add), remove_tags=tuple(remove)), " ".join(parts))

    def change(self, run: pb.Run, edit: LabelEdit, said: str) -> None:
        """After what was asked for before. What cannot be done is said, and the run stays as it is."""
        if not edit.is_empty:
            self._ask(lambda: self._send(run.run_id, edit, said, keep=True))

    def undo(self) -> None:
        """Also what is still on its way to the daemon."""
        self._ask(self._take_back)

    # ---- one after the other -------------------------------------------------------------------------------------

    def _ask(self, act: Callable[[], None]) -> None:
        self._waiting.append(act)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        self._is_busy = False
        self._offer()
        if self._waiting:
            self._waiting.popleft()()

    def _take_back(self) -> None:
        if not self._done:
            self._next()
            return
        run_id, edit = self._done.pop()
        run = self._cockpit.runs.get(run_id)
        name = self._cockpit.runs.label(run) if run is not None else run_id
        self._send(run_id, edit, self.tr("{run} is as it was.").format(run=name), keep=False)

    def _send(self, run_id: str, edit: LabelEdit, said: str, *, keep: bool) -> None:
        run = self._cockpit.runs.get(run_id)
        if run is None:
            self._next()
            return
        self._is_busy, back = True, edit.undone(run)

        def done(changed: pb.Run) -> None:
            self._cockpit.runs.take([changed])
            if keep and not back.is_empty:
                self._done = [*self._done, (run_id, back)][-_MOST_KEPT:]
            undo = (self.tr("Undo"), self.undo) if keep else ("", None)
            self._cockpit.notify(Notice(said, "info", *undo))
            self._next()

        def failed(sentence: str) -> None:
            self._cockpit.runs.changed.emit([run_id])  # who shows the wish shows the run again
            self._cockpit.notify(Notice(self.tr("Not changed: {why}").format(why=sentence), "error"))
            self._next()

        self._cockpit.bridge.call(
            lambda client: client.update(
                run_id, name=edit.name, notes=edit.notes, add_tags=edit.add_tags, remove_tags=edit.remove_tags
            ),
            done,
            failed,
            owner=self,
        )

    def _offer(self) -> None:
        can = bool(self._done or self._waiting or self._is_busy)
        self._cockpit.commands.enable(_UNDO, can, "" if can else self.tr("Nothing was changed."))
