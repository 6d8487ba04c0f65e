"""How a worker is presented that has no presenter of its own: everything comes from its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PyQt6.QtWidgets import QWidget

from gym_gui.services.run_request import RunRequest
from gym_gui.services.run_words import short_id
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.context import Cockpit
from gym_gui.ui.elsewhere import ElsewherePage
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.panels.analytics_tabs import AnalyticsTab, AnalyticsTabManager
from gym_gui.ui.panels.overview_tab import OverviewTab
from gym_gui.ui.play.steps_tab import StepsTab, has_steps
from gym_gui.ui.presenters.workers.tab_spec import StageView, TabSpec
from gym_gui.ui.widgets.live_lane import LiveLanePanel
from gym_gui.ui.workers.catalog import WorkerEntry
from mosaic_protocol.proto import trainer_pb2 as pb


@dataclass(frozen=True)
class Demo:
    """A short run for people who are new here. ``promise`` is said when it was started."""

    request: RunRequest
    title: str
    about: str
    help: str
    promise: str


class WorkerPresenter:
    """Draws one kind of worker: its form for new runs, and the tabs of its runs. Holds no state of its own.

    The lane is explicit: telemetry workers have live tabs, analytics workers analytics tabs, hybrid ones both. A run of
    any worker that recorded steps has a tab with them. A package brings a presenter of its own through the entry-point
    group ``mosaic.presenters``.
    """

    model_files: tuple[str, ...] = ()
    """Endings of model files that only this worker's importer knows, such as ``.model``."""

    def demo(self) -> Demo | None:
        """A short run for the first start, None for a worker that has none."""
        return None

    def make_form(self, cockpit: Cockpit, entry: WorkerEntry, queries: WorkerQueries) -> TrainForm:
        """A form for a new run; the caller owns it."""
        return SchemaTrainForm(cockpit, entry, queries)

    def tabs(self, entry: WorkerEntry | None) -> list[TabSpec]:
        """The tabs of a run by the worker's lane. Of a worker that is not known any more, what is on disk is shown."""
        live = entry is not None and entry.requires_live_telemetry
        analytics = entry is None or entry.provides_fast_analytics
        found = self.bootstrap_live_tabs() if live else []
        if analytics:
            found += [tab for tab in self.bootstrap_analytics_tabs() if tab.name not in {one.name for one in found}]
        if not live:
            found.append(TabSpec("steps", "Steps", StepsTab, "live", applies=has_steps))
        overview = TabSpec("overview", "Overview", OverviewTab, "analytics")
        # In front stands what costs nothing to look at; of a run that streams that is its steps.
        return [*found, overview] if live else [overview, *found]

    def stage_view(self, run: pb.Run) -> StageView | None:
        """What the stage can show of a run that goes on, instead of its curves; None where there is nothing better."""
        return None

    def bootstrap_live_tabs(self) -> list[TabSpec]:
        """For workers that stream as they go."""
        return [TabSpec("steps", "Steps", StepsTab, "live"), TabSpec("live", "Live", LiveLanePanel, "live")]

    def bootstrap_analytics_tabs(self) -> list[TabSpec]:
        """For workers that leave artifacts; the Live tab says that there is nothing to follow step by step."""
        return [*map(_analytics_tab, AnalyticsTabManager().tabs()), self.quiet_live_tab()]

    def quiet_live_tab(self) -> TabSpec:
        def make(cockpit: Cockpit, run_id: str) -> QWidget:
            return LiveLanePanel(cockpit, run_id, self.live_banner(cockpit, run_id))

        return TabSpec("live", "Live", make, "analytics")

    def live_banner(self, cockpit: Cockpit, run_id: str) -> str:
        """What the Live tab says for a worker that does not stream."""
        return "This worker streams metrics via its artifacts; live telemetry not available."


def _analytics_tab(tab: AnalyticsTab) -> TabSpec:
    def make(cockpit: Cockpit, run_id: str) -> QWidget:
        run = cockpit.runs.get(run_id)
        if cockpit.bridge.server:
            return ElsewherePage(cockpit.bridge.server, *_over_there(tab, run_id))
        folder = Path(run.run_dir) if run is not None and run.run_dir else cockpit.bridge.paths.run(run_id).directory
        return tab.make(cockpit, run_id, folder)

    return TabSpec(tab.name, tab.title, make, "analytics")


def _over_there(tab: AnalyticsTab, run_id: str) -> tuple[str, str]:
    """Why a tab has nothing of another machine's run, and the command that shows it."""
    command = f"tensorboard {short_id(run_id)}" if tab.name == "tensorboard" else f"show {short_id(run_id)}"
    return f"{tab.title.replace('&&', '&')} reads files of {{server}}.", command
