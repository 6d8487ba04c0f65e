"""What the event files of runs hold beside numbers, read in threads: listed for those who look, contents on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PyQt6 import sip
from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.replay.catalog import clips_of
from gym_gui.services.scalars.media import Contents, Entry, RunMedia
from gym_gui.services.tensorboard.run_folders import events_folder
from gym_gui.ui.bridge import TrainerBridge

if TYPE_CHECKING:
    from mosaic_protocol.proto import trainer_pb2 as pb

KEPT_RUNS = 16
_AT_ONCE = 2
"""Of the threads that also talk to the daemon: files that are slow to read must not keep it waiting."""


@dataclass(frozen=True)
class Shelved:
    """What is known of one run."""

    media: RunMedia
    contents: Contents
    clips: Sequence[Path] = field(default_factory=tuple)


@dataclass(frozen=True)
class Source:
    """Which tag of which run a card shows. ``run`` is its name where there are several."""

    run_id: str
    run: str
    tag: str
    media: RunMedia
    entries: Sequence[Entry]


class MediaShelf(QObject):
    """Lives in the GUI's thread. ``listed(str)`` when a run was looked through."""

    listed = pyqtSignal(str)

    def __init__(self, bridge: TrainerBridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._runs: dict[str, Shelved] = {}
        self._looking: set[str] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = 0

    def of(self, run_id: str) -> Shelved | None:
        """None until it was looked through."""
        return self._runs.get(run_id)

    def look(self, run: pb.Run) -> None:
        """Look through a run's files, from where the last look ended; one look at a time."""
        run_id = run.run_id
        if run_id in self._looking:
            return
        self._looking.add(run_id)
        known = self._runs.get(run_id)
        self.ask(lambda: _looked(run, known), lambda found: self._take(run_id, found), lambda _: self._give_up(run_id))

    def _take(self, run_id: str, found: Shelved) -> None:
        self._looking.discard(run_id)
        self._runs.pop(run_id, None)
        self._runs[run_id] = found
        while len(self._runs) > KEPT_RUNS:
            self._runs.pop(next(iter(self._runs)))
        self.listed.emit(run_id)

    def _give_up(self, run_id: str) -> None:
        self._looking.discard(run_id)

    # ---- reading -------------------------------------------------------------------------------------------------

    def ask(
        self,
        what: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[str], None],
        owner: QObject | None = None,
    ) -> None:
        """Read something in a thread when it is its turn; what is not wanted any more is not read."""

        def finish(callback: Callable[[Any], None], value: Any) -> None:
            self._busy -= 1
            if owner is None or not sip.isdeleted(owner):
                callback(value)
            self._go_on()

        def begin() -> None:
            if owner is not None and sip.isdeleted(owner):
                return
            self._busy += 1
            self._bridge.in_background(
                what, lambda value: finish(done, value), lambda sentence: finish(failed, sentence), owner=self
            )

        self._waiting.append(begin)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._busy < _AT_ONCE:
            self._waiting.popleft()()


def _looked(run: pb.Run, known: Shelved | None) -> Shelved:
    folder = events_folder(run) or Path("/nonexistent")
    media = known.media if known is not None and known.media.folder == folder else RunMedia(folder)
    return Shelved(media, media.look(), tuple(clips_of(run)))
