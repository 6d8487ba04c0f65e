"""Which screens there are, and how they are connected. The only place where parts know of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PyQt6.QtWidgets import QDockWidget, QWidget

from gym_gui.services.play_sessions import SessionWish
from gym_gui.ui.arena.screen import ArenaScreen
from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.screen import DatasetScreen
from gym_gui.ui.elsewhere import ElsewherePage, elsewhere_page
from gym_gui.ui.hosts.panel import HostsPanel
from gym_gui.ui.panels.capacity_panel import CapacityPanel
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.doctor_panel import DoctorPanel
from gym_gui.ui.panels.log_drawer import LogDrawer
from gym_gui.ui.panels.metrics_on_stage import MetricsOnStage
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.play.episodes_panel import EpisodesPanel
from gym_gui.ui.play.on_stage import SessionOnStage
from gym_gui.ui.play.play_panel import PlayPanel
from gym_gui.ui.play.session_commands import add_session_commands
from gym_gui.ui.play.sessions import LiveSessions
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.replay.screen import ReplayScreen
from gym_gui.ui.sweeps.screen import SweepScreen
from gym_gui.ui.workers.corl.form import CorlTrainForm

_ELSEWHERE = {
    "doctor": elsewhere_page("What is installed is checked on {server}.", "doctor"),
    "datasets": elsewhere_page("Datasets are files of {server}.", "datasets"),
    "arenas": elsewhere_page("Arenas are played and kept on {server}.", "arena list"),
    "hosts": elsewhere_page("Hosts are reached from {server}.", "hosts"),
}


class Composition:
    """Makes the parts of one window, in the order of :meth:`parts`, and connects those that are there already."""

    def __init__(self, server: str = "") -> None:
        """``server``: the machine of the daemon, "" for this one. Of another one there are no files here."""
        self._server = server
        self.presenters = default_presenters()
        self._dock: TrainDock | None = None
        self.desk: PlayDesk | None = None
        self.replay: ReplayScreen | None = None
        self.sweeps: SweepScreen | None = None
        self.datasets: DatasetScreen | None = None
        self.arena: ArenaScreen | None = None
        self._stage_made: Stage | None = None

    def parts(self) -> list[Part]:
        """What reads files is replaced where these are on another machine."""
        away = _ELSEWHERE if self._server else {}
        return [replace(part, make=away[part.name]) if part.name in away else part for part in self._parts()]

    def _parts(self) -> list[Part]:
        return [
            Part("train", "Train", Place.LEFT, self._train, "Ctrl+1", "Set up, check and launch runs"),
            Part("stage", "Stage", Place.STAGE, self._stage),
            Part("metrics", "Metrics", Place.RIGHT, self._metrics, "Ctrl+2", "Curves of the selected runs"),
            Part("run", "Run", Place.RIGHT, self._run_tabs, "Ctrl+3", "Artifacts of the current run"),
            Part("capacity", "Capacity", Place.RIGHT, CapacityPanel, "Ctrl+4", "What the machine has, and who waits"),
            Part("doctor", "Doctor", Place.RIGHT, DoctorPanel, "Ctrl+5", "What is missing here, and how to get it"),
            Part("sweep", "Sweep", Place.RIGHT, self._sweep_charts, "", "Charts of the open sweep", is_closed=True),
            Part("runs", "Runs", Place.BOTTOM, self._runs, "Ctrl+6", "All runs: filter, sort, group, act on them"),
            Part("log", "Log", Place.BOTTOM, LogDrawer, "Ctrl+7", "What the current run prints"),
            Part("episodes", "Episodes", Place.BOTTOM, self._episodes, "Ctrl+8", "What the current run played"),
            Part("sweeps", "Sweeps", Place.BOTTOM, self._sweeps, "Ctrl+9", "Searches of settings, and their trials"),
            Part("datasets", "Datasets", Place.BOTTOM, self._datasets, "Ctrl+Alt+D", "Data to learn from offline"),
            Part("arenas", "Arena", Place.BOTTOM, self._arenas, "Ctrl+Alt+A", "Who plays the same seeds better"),
            Part("hosts", "Hosts", Place.BOTTOM, HostsPanel, "Ctrl+Alt+H", "What runs on which machine", "File/Hosts"),
        ]

    def _train(self, cockpit: Cockpit) -> QWidget:
        dock = self._dock = TrainDock(cockpit, self.presenters)
        desk = self.desk = PlayDesk(cockpit, dock.queries, dock)
        panel = PlayPanel(cockpit, desk, dock.queries)
        dock.set_play(panel)
        add_session_commands(cockpit, dock, panel)
        if self._server:
            dock.set_use_trained(ElsewherePage(self._server, "Checkpoints are files of {server}.", "checkpoints"))
        else:
            self._use_trained(cockpit, dock, desk)
        return dock

    def _use_trained(self, cockpit: Cockpit, dock: TrainDock, desk: PlayDesk) -> None:
        browser = CheckpointBrowser(cockpit, self.presenters.model_files())
        dock.set_use_trained(browser)
        browser.deploy_requested.connect(desk.deploy)
        browser.switch_requested.connect(desk.switch_environment)
        desk.deploy_told.connect(browser.details.tell_deployed)
        browser.warm_start_requested.connect(lambda entry: dock.begin_from(entry, "warm_start"))
        browser.resume_requested.connect(lambda entry: dock.begin_from(entry, "resume"))

    def _stage(self, cockpit: Cockpit) -> QWidget:
        stage = self._stage_made = Stage(cockpit, self.presenters.stage_view_for)
        assert self.desk is not None, "made with the train dock"
        SessionOnStage(cockpit, self.desk, stage)
        self.replay = ReplayScreen(cockpit, stage)
        self.replay.session_wanted.connect(self._take_over)
        self.sweeps = SweepScreen(cockpit, stage, self._train_dock.queries)
        self.sweeps.config_wanted.connect(self._train_with)
        self._train_dock.sweep_submitted.connect(self.sweeps.open)
        if not self._server:
            self.arena = ArenaScreen(cockpit, stage)
            self.datasets = DatasetScreen(cockpit, stage)
            self.datasets.train_wanted.connect(self._train_on)
            self.datasets.replay_wanted.connect(self.replay.open)
        return stage

    def _arenas(self, cockpit: Cockpit) -> QWidget:
        assert self.arena is not None, "made with the stage"
        return self.arena.make_panel()

    def _datasets(self, cockpit: Cockpit) -> QWidget:
        assert self.datasets is not None, "made with the stage"
        return self.datasets.make_panel()

    def _train_on(self, name: str) -> None:
        """Put a dataset into the form of the first worker that learns from one."""
        entries = self._train_dock.catalog.entries.values()
        entry = next((one for one in entries if "dataset" in one.needs), None)
        if entry is None:
            self._train_dock.show_page("train")
            return
        form = self._train_dock.show_form(entry)
        if isinstance(form, CorlTrainForm):
            form.choose_dataset(name)
        dock = self._train_dock.parentWidget()
        if isinstance(dock, QDockWidget):
            dock.show()
            dock.raise_()

    def _sweep_charts(self, cockpit: Cockpit) -> QWidget:
        return self._sweep_screen.make_charts()

    def _sweeps(self, cockpit: Cockpit) -> QWidget:
        panel = self._sweep_screen.make_panel()
        panel.train_wanted.connect(lambda: self._train_dock.show_page("train"))
        return panel

    def _train_with(self, config: dict[str, Any]) -> None:
        self._train_dock.duplicate(config)
        dock = self._train_dock.parentWidget()
        if isinstance(dock, QDockWidget):
            dock.show()
            dock.raise_()

    def _metrics(self, cockpit: Cockpit) -> QWidget:
        panel = MetricsPanel(cockpit)
        assert self._stage_made is not None, "the stage is made first"
        MetricsOnStage(cockpit, panel, self._stage_made)
        panel.media.clip_wanted.connect(self._replay_screen.open_clip)
        return panel

    def _episodes(self, cockpit: Cockpit) -> QWidget:
        panel = EpisodesPanel(cockpit)
        panel.replay_wanted.connect(self._replay_screen.open)
        self._replay_screen.watch_docks()
        return panel

    def _take_over(self, wish: SessionWish) -> None:
        self._show_sessions()
        assert self.desk is not None, "made with the train dock"
        self.desk.start(wish)

    def _run_tabs(self, cockpit: Cockpit) -> QWidget:
        tabs = RunTabs(cockpit, self.presenters.tabs_by(lambda: self._train_dock.catalog))

        def show_steps(_: str) -> None:
            tabs.show_tab("steps")
            tabs.bring_forward()

        LiveSessions.of(cockpit.bridge).joined.connect(show_steps)
        return tabs

    def _runs(self, cockpit: Cockpit) -> QWidget:
        panel = RunsPanel(cockpit)
        self._train_dock.catalog_changed.connect(panel.actions_on_runs.use_catalog)
        panel.actions_on_runs.join_requested.connect(self._join)
        assert self.desk is not None, "made with the train dock"
        self.desk.discarded.connect(lambda run_id: panel.actions_on_runs.delete([run_id]))
        panel.actions_on_runs.replay_requested.connect(self._replay_screen.open)
        panel.actions_on_runs.duplicate_requested.connect(self._train_dock.duplicate)
        panel.actions_on_runs.open_requested.connect(lambda run_id: _open(cockpit, run_id))
        panel.train_requested.connect(lambda: self._train_dock.show_page("train"))
        return panel

    def _join(self, run_id: str) -> None:
        self._show_sessions()
        assert self.desk is not None, "made with the train dock"
        self.desk.join(run_id)

    def _show_sessions(self) -> None:
        if self._train_dock.mode.choice == "agent":
            self._train_dock.mode.choose("hybrid")

    @property
    def _replay_screen(self) -> ReplayScreen:
        assert self.replay is not None, "made with the stage"
        return self.replay

    @property
    def _sweep_screen(self) -> SweepScreen:
        assert self.sweeps is not None, "made with the stage"
        return self.sweeps

    @property
    def _train_dock(self) -> TrainDock:
        assert self._dock is not None, "the train dock is made first"
        return self._dock


def _open(cockpit: Cockpit, run_id: str) -> None:
    cockpit.selection.select([run_id])
    cockpit.commands.action("show-metrics").trigger()
