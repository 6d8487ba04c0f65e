"""Every run the daemon has told of, as the widgets see them, and which of them are selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from PyQt6.QtCore import QObject, pyqtSignal

from mosaic_protocol.proto import trainer_pb2 as pb


class RunBook(QObject):
    """The newest word on each run. ``changed(list[str])`` names the runs that are new, different or gone."""

    changed = pyqtSignal(list)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._runs: dict[str, pb.Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[pb.Run]:
        return iter(self._runs.values())

    def get(self, run_id: str) -> pb.Run | None:
        return self._runs.get(run_id)

    def take(self, runs: Iterable[pb.Run]) -> None:
        """Note what the daemon says; a run that was deleted is taken out."""
        touched = []
        for run in runs:
            if run.deleted:
                self._runs.pop(run.run_id, None)
            else:
                self._runs[run.run_id] = run
            touched.append(run.run_id)
        if touched:
            self.changed.emit(touched)


class RunSelection(QObject):
    """The runs that a person looks at: the current one first. ``changed(list[str])``."""

    changed = pyqtSignal(list)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids: list[str] = []

    @property
    def ids(self) -> list[str]:
        return list(self._ids)

    @property
    def current(self) -> str | None:
        return self._ids[0] if self._ids else None

    def select(self, run_ids: Sequence[str]) -> None:
        """Look at these; telling it again what it knows changes nothing."""
        ids = list(dict.fromkeys(run_ids))
        if ids != self._ids:
            self._ids = ids
            self.changed.emit(list(ids))
