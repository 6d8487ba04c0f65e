"""Which screens there are, and what each tells the others. The only place where parts know of each other."""

from __future__ import annotations

from PyQt6.QtWidgets import QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.capacity_panel import CapacityPanel
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.doctor_panel import DoctorPanel
from gym_gui.ui.panels.log_drawer import LogDrawer
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.presenters.workers.registry import default_presenters


class Composition:
    """Makes the parts of one window, in the order of :meth:`parts`, and connects those that are there already."""

    def __init__(self) -> None:
        self._presenters = default_presenters()
        self._dock: TrainDock | None = None

    def parts(self) -> list[Part]:
        return [
            Part("train", "Train", Place.LEFT, self._train, "Ctrl+1", "Set up, check and launch runs"),
            Part("stage", "Stage", Place.STAGE, Stage),
            Part("metrics", "Metrics", Place.RIGHT, MetricsPanel, "Ctrl+2", "Curves of the selected runs"),
            Part("run", "Run", Place.RIGHT, self._run_tabs, "Ctrl+3", "Artifacts of the current run"),
            Part("capacity", "Capacity", Place.RIGHT, CapacityPanel, "Ctrl+4", "What the machine has, and who waits"),
            Part("doctor", "Doctor", Place.RIGHT, DoctorPanel, "Ctrl+5", "What is missing here, and how to get it"),
            Part("runs", "Runs", Place.BOTTOM, self._runs, "Ctrl+6", "All runs: filter, sort, group, act on them"),
            Part("log", "Log", Place.BOTTOM, LogDrawer, "Ctrl+7", "What the current run prints"),
        ]

    def _train(self, cockpit: Cockpit) -> QWidget:
        dock = self._dock = TrainDock(cockpit, self._presenters)
        browser = CheckpointBrowser(cockpit)
        dock.set_use_trained(browser)
        browser.warm_start_requested.connect(lambda entry: dock.begin_from(entry, "warm_start"))
        browser.resume_requested.connect(lambda entry: dock.begin_from(entry, "resume"))
        return dock

    def _run_tabs(self, cockpit: Cockpit) -> QWidget:
        return RunTabs(cockpit, self._presenters.tabs_by(lambda: self._train_dock.catalog))

    def _runs(self, cockpit: Cockpit) -> QWidget:
        panel = RunsPanel(cockpit)
        panel.actions_on_runs.duplicate_requested.connect(self._train_dock.duplicate)
        panel.actions_on_runs.open_requested.connect(lambda run_id: _open(cockpit, run_id))
        panel.train_requested.connect(lambda: self._train_dock.show_page("train"))
        return panel

    @property
    def _train_dock(self) -> TrainDock:
        assert self._dock is not None, "the train dock is made first"
        return self._dock


def _open(cockpit: Cockpit, run_id: str) -> None:
    cockpit.selection.select([run_id])
    cockpit.commands.action("show-metrics").trigger()
