"""Who draws which worker. Workers that are not named here are drawn from their manifests alone."""

from __future__ import annotations

from collections.abc import Callable

from gym_gui.ui.presenters.workers.cleanrl import CleanRlWorkerPresenter
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.tab_spec import TabSpec
from gym_gui.ui.workers.catalog import Catalog
from mosaic_protocol.proto import trainer_pb2 as pb


class PresenterRegistry:
    """Worker type → presenter. Used in the GUI's thread only."""

    def __init__(self) -> None:
        self._presenters: dict[str, WorkerPresenter] = {}
        self._default = WorkerPresenter()

    def register(self, worker_type: str, presenter: WorkerPresenter) -> None:
        """Have a presenter draw a kind of worker; a second one for the same kind is a programming error."""
        if worker_type in self._presenters:
            raise ValueError(f"the worker type {worker_type!r} has a presenter already")
        self._presenters[worker_type] = presenter

    def presenter_for(self, worker_type: str) -> WorkerPresenter:
        return self._presenters.get(worker_type, self._default)

    def tabs_for(self, run: pb.Run, catalog: Catalog) -> list[TabSpec]:
        """The tabs of a run, by its worker's lane."""
        return self.presenter_for(run.worker_type).tabs(catalog.entries.get(run.worker_type))

    def tabs_by(self, catalog: Callable[[], Catalog]) -> Callable[[pb.Run], list[TabSpec]]:
        """:meth:`tabs_for` with whatever the catalog is when a run is looked at."""
        return lambda run: self.tabs_for(run, catalog())


def default_presenters() -> PresenterRegistry:
    """The presenters of the house."""
    registry = PresenterRegistry()
    registry.register("cleanrl", CleanRlWorkerPresenter())
    return registry
