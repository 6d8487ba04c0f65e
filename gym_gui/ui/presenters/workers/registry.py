"""Who draws which worker. A worker without a presenter is drawn from its manifest alone."""

from __future__ import annotations

from collections.abc import Callable

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.presenters.workers.default import Demo, WorkerPresenter
from gym_gui.ui.presenters.workers.discovery import installed_presenters
from gym_gui.ui.presenters.workers.tab_spec import StageView, TabSpec
from gym_gui.ui.workers.catalog import Catalog, WorkerEntry
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb


class PresenterRegistry:
    """Worker type → presenter. Used in the GUI's thread only."""

    def __init__(self) -> None:
        self._presenters: dict[str, WorkerPresenter] = {}
        self._default = WorkerPresenter()
        self.problems: list[str] = []
        """What is wrong with presenters, a sentence each."""

    def register(self, worker_type: str, presenter: WorkerPresenter) -> None:
        """Have a presenter draw a kind of worker; a second one for the same kind is a programming error."""
        if worker_type in self._presenters:
            raise ValueError(f"the worker type {worker_type!r} has a presenter already")
        self._presenters[worker_type] = presenter

    def presenter_for(self, worker_type: str) -> WorkerPresenter:
        return self._presenters.get(worker_type, self._default)

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        """The worker's form. Where its presenter breaks, the manifest's form serves and the problem is kept."""
        presenter = self.presenter_for(entry.type)
        try:
            return presenter.make_form(cockpit, entry, queries)
        except Exception as error:
            if presenter is self._default:
                raise
            self._set_aside(entry.type, error)
            return self._default.make_form(cockpit, entry, queries)

    def tabs_for(self, run: pb.Run, catalog: Catalog) -> list[TabSpec]:
        """The tabs of a run, by its worker's lane."""
        entry = catalog.entries.get(run.worker_type)
        presenter = self.presenter_for(run.worker_type)
        try:
            return presenter.tabs(entry)
        except Exception as error:
            if presenter is self._default:
                raise
            self._set_aside(run.worker_type, error)
            return self._default.tabs(entry)

    def tabs_by(self, catalog: Callable[[], Catalog]) -> Callable[[pb.Run], list[TabSpec]]:
        """:meth:`tabs_for` with the catalog as it is when a run is looked at."""
        return lambda run: self.tabs_for(run, catalog())

    def stage_view_for(self, run: pb.Run) -> StageView | None:
        """The worker's own page for the stage; None where it has none, or its presenter breaks."""
        try:
            return self.presenter_for(run.worker_type).stage_view(run)
        except Exception as error:  # noqa: BLE001 - presenters are foreign code
            self._set_aside(run.worker_type, error)
            return None

    def demo(self) -> Demo | None:
        """What a person who is new here may try: the first demo that a presenter has."""
        found = (presenter.demo() for _, presenter in sorted(self._presenters.items()))
        return next((demo for demo in found if demo is not None), None)

    def model_files(self) -> tuple[str, ...]:
        """Endings of model files that workers import, besides those that everybody knows."""
        found = (ending for _, presenter in sorted(self._presenters.items()) for ending in presenter.model_files)
        return tuple(dict.fromkeys(found))

    def _set_aside(self, worker_type: str, error: Exception) -> None:
        del self._presenters[worker_type]
        said = one_line(str(error)) or type(error).__name__
        self.problems.append(f"the presenter of the worker {worker_type!r} broke, its manifest serves instead: {said}")


def default_presenters() -> PresenterRegistry:
    """The presenters that are installed, MOSAIC's own among them."""
    registry = PresenterRegistry()
    for worker_type, presenter in installed_presenters(registry.problems).items():
        registry.register(worker_type, presenter)
    return registry
