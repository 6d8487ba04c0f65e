"""The datasets as the cockpit knows them: one list for the manager and every form, read beside the GUI, and the one
long piece of work on them that is under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.checkpoints.registry import TrainingRegistry
from gym_gui.ui.bridge import TrainerBridge
from gym_gui.ui.datasets.job import DatasetJob, Done
from mosaic_protocol.datasets import DatasetEntry, DatasetRegistry

_MOST_OFFERED = 500


class DatasetShelf(QObject):
    """Lives in the GUI's thread; :meth:`of` gives the one shelf of a bridge.

    Signals: ``changed()`` when the list is another one; ``job_changed()`` when work began, went on or ended;
    ``told(str, str, str)`` with a sentence about work that ended, its role and the dataset; ``open_wanted(str)`` when a
    form wants a dataset to be seen in the manager.
    """

    changed = pyqtSignal()
    job_changed = pyqtSignal()
    told = pyqtSignal(str, str, str)
    open_wanted = pyqtSignal(str)

    def __init__(self, bridge: TrainerBridge) -> None:
        super().__init__(bridge)
        self._bridge = bridge
        self.entries: dict[str, DatasetEntry] | None = None
        """By name; None until they were read."""
        self.problem = ""
        """Why they cannot be read."""
        self.job: DatasetJob | None = None
        self._is_reading = self._is_stale = False
        self._seen: object = None
        bridge.stopping.connect(self.stop)

    @classmethod
    def of(cls, bridge: TrainerBridge) -> DatasetShelf:
        """The shelf that all parts of one cockpit share."""
        found: DatasetShelf | None = bridge.findChild(cls)
        return cls(bridge) if found is None else found

    def get(self, name: str) -> DatasetEntry | None:
        return (self.entries or {}).get(name)

    # ---- reading -------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the list again; one reading at a time, and one more for what was asked meanwhile."""
        if self._is_reading:
            self._is_stale = True
            return
        self._is_reading, self._is_stale = True, False
        paths = self._bridge.paths

        def read() -> list[DatasetEntry]:
            found = DatasetRegistry(paths).list()
            for entry in found:
                _ = entry.badge  # read here, and not where it is painted
            return found

        self._bridge.in_background(read, self._take, self._fail, owner=self)

    def _take(self, found: list[DatasetEntry]) -> None:
        self._is_reading, self.problem = False, ""
        self.entries = {entry.name: entry for entry in found}
        seen = [(entry.name, entry.found, entry.badge, entry.problem) for entry in found]
        if seen != self._seen:
            self._seen = seen
            self.changed.emit()
        if self._is_stale:
            self.look()

    def _fail(self, sentence: str) -> None:
        self._is_reading, self.problem = False, sentence
        self.entries, self._seen = self.entries or {}, None
        self.changed.emit()

    def ask_checkpoints(self, offer: Callable[[list[str]], None], owner: QObject) -> None:
        """The policies that there are, for somebody who types the name of one."""
        paths = self._bridge.paths
        find = lambda: [one.id for one in TrainingRegistry(paths).entries()][:_MOST_OFFERED]  # noqa: E731
        self._bridge.in_background(find, offer, lambda _: None, owner=owner)

    # ---- working -------------------------------------------------------------------------------------------------

    def work(self, words: Sequence[str], title: str, subject: str, done: Done | None = None) -> DatasetJob | None:
        """Start ``mosaic datasets WORDS``, about the dataset ``subject``; None while other work is under way."""
        if self.job is not None:
            return None
        job = self.job = DatasetJob(str(self._bridge.paths.root), words, title, self, subject=subject)
        job.progressed.connect(lambda *_: self.job_changed.emit())
        if done is not None:
            job.done.connect(done)
        job.failed.connect(lambda sentence: self.told.emit(f"{title}: {sentence}", "error", subject))
        given_up = self.tr("{title}: cancelled").format(title=title)
        job.cancelled.connect(lambda: self.told.emit(given_up, "muted", subject))
        job.ended.connect(self._ended)
        job.start()
        self.job_changed.emit()
        return job

    def verify(self, name: str) -> None:
        """Have every byte of a dataset hashed; its badge follows."""
        title = self.tr("Verify {name}").format(name=name)

        def done(told: dict[str, object]) -> None:
            if told.get("why"):
                self.told.emit(f"{title}: {told['why']}", "error", name)
            else:
                self.told.emit(self.tr("{name} is verified").format(name=name), "good", name)

        self.work(["verify", "--", name], title, name, done)

    def cancel(self) -> None:
        if self.job is not None:
            self.job.cancel()
            self.job_changed.emit()

    def stop(self) -> None:
        """The cockpit closes: nothing of this goes on."""
        if self.job is not None:
            self.job.stop()
            self.job = None

    def _ended(self) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.deleteLater()
        self.job_changed.emit()
        self.look()
