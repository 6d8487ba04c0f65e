"""Every run the daemon has reported, as the widgets see them, and which of them are selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from PyQt6.QtCore import QObject, pyqtSignal

from gym_gui.services.run_words import short_id
from mosaic_protocol.proto import trainer_pb2 as pb


class RunBook(QObject):
    """The newest word on each run. ``changed(list[str])`` names the runs that are new, different or gone.

    Runs in the trash are apart, in :attr:`trash`.
    """

    changed = pyqtSignal(list)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: dict[str, pb.Run] = {}
        self._names: Counter[str] = Counter()
        self.trash: dict[str, pb.Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[pb.Run]:
        return iter(self._runs.values())

    def get(self, run_id: str) -> pb.Run | None:
        return self._runs.get(run_id)

    def label(self, run: pb.Run) -> str:
        """What to call a run on the screen: its name, and the end of its id where another run has the same name."""
        return run.name if self._names[run.name] < 2 else f"{run.name} ({short_id(run.run_id)})"

    def has_name(self, name: str) -> bool:
        """Whether a run is called so, also one in the trash, which may come back."""
        return self._names[name] > 0 or any(run.name == name for run in self.trash.values())

    def take(self, runs: Iterable[pb.Run]) -> None:
        """Note what the daemon says; a run that was deleted is taken out, one that is gone for good has no name."""
        touched = []
        for run in runs:
            before = self._runs.get(run.run_id)
            if before is not None:
                self._names[before.name] -= 1
            if not run.deleted:
                self._runs[run.run_id] = run
                self._names[run.name] += 1
                self.trash.pop(run.run_id, None)
            else:
                self._runs.pop(run.run_id, None)
                if run.name:
                    self.trash[run.run_id] = run
                else:
                    self.trash.pop(run.run_id, None)
            touched.append(run.run_id)
        if touched:
            self.changed.emit(touched)


class RunSelection(QObject):
    """The runs that a person looks at: the current one first. ``changed(list[str])``.

    ``wanted(str)`` when a run is to be found in every list of runs, whatever is filtered or folded there.
    """

    changed = pyqtSignal(list)
    wanted = pyqtSignal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids: list[str] = []

    @property
    def ids(self) -> list[str]:
        return list(self._ids)

    @property
    def current(self) -> str | None:
        return self._ids[0] if self._ids else None

    def show(self, run_ids: Sequence[str]) -> None:
        """Look at these and bring the first into sight: what somebody has just made, restored or searched for."""
        self.select(run_ids)
        if run_ids:
            self.wanted.emit(run_ids[0])

    def select(self, run_ids: Sequence[str]) -> None:
        """Look at these; repeating the selection changes nothing."""
        ids = list(dict.fromkeys(run_ids))
        if ids != self._ids:
            self._ids = ids
            self.changed.emit(list(ids))
