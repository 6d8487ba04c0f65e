"""The Sweep screen as a whole: a sweep on the stage, its trials below, its charts on the right, and its commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from PyQt6.QtCore import QObject, pyqtSignal
from PyQt6.QtWidgets import QDockWidget

from gym_gui.services.sweeps.model import Sweep, config_of_trial
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.sweeps.charts import SweepCharts
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.sweeps.page import SweepPage
from gym_gui.ui.sweeps.sweeps_panel import SweepsPanel
from gym_gui.ui.widgets.snackbar import Notice

_MORE = re.compile(r"\+?\s*(\d{1,6})\s*(%?)")


class SweepScreen(QObject):
    """One for a window. ``config_wanted(dict)``: somebody wants to train with the settings of a trial."""

    config_wanted = pyqtSignal(object)

    def __init__(self, cockpit: Cockpit, stage: Stage, queries: WorkerQueries) -> None:
        super().__init__(stage)
        self._cockpit, self._stage, self._queries = cockpit, stage, queries
        self.desk = SweepDesk(cockpit, self)
        self._add_commands()
        self.page = SweepPage(cockpit, self.desk)
        self.page.setParent(stage)  # until it is shown
        self.page.hide()
        self.page.left.connect(self.close)
        self.panel: SweepsPanel | None = None
        stage.displaced.connect(self._offer)
        stage.closing.connect(self.desk.close_panel)
        cockpit.selection.changed.connect(lambda _: self._selection_changed())
        cockpit.bridge.connection_changed.connect(lambda _: self._offer())
        for changed in (self.desk.opened, self.desk.changed, self.desk.trial_changed):
            changed.connect(self._offer)
        self._offer()

    # ---- parts ---------------------------------------------------------------------------------------------------

    def make_panel(self) -> SweepsPanel:
        panel = self.panel = SweepsPanel(self._cockpit, self.desk)
        panel.wanted.connect(lambda reference: self.open(reference) if reference else self.close())
        self._offer()
        return panel

    def make_charts(self) -> SweepCharts:
        return SweepCharts(self._cockpit, self.desk, self._ask_defaults)

    # ---- opening -------------------------------------------------------------------------------------------------

    def open(self, reference: str) -> None:
        """Show a sweep by its id or name: on the stage, its trials below, its charts beside."""
        self.desk.open(reference)
        self._bring("sweep")
        self._bring("sweeps")  # last: in a narrow window both share a place, and the trials come first
        self._stage.show_over(self.page)
        self._offer()

    def close(self) -> None:
        """Give the stage back and show the list of sweeps again."""
        self._stage.end_over(self.page)
        dock = self._docks.get("sweep")
        if dock is not None and dock.isVisible():
            dock.hide()
        self.desk.open("")
        if self.panel is not None and self.panel.isVisible():
            self.panel.setFocus()

    @property
    def is_on_stage(self) -> bool:
        return self._stage.over is self.page

    @property
    def _docks(self) -> Mapping[str, QDockWidget]:
        found: Mapping[str, QDockWidget] = getattr(self._stage.window(), "docks", {})
        return found

    def _bring(self, name: str) -> None:
        dock = self._docks.get(name)
        if dock is not None:
            dock.show()
            dock.raise_()

    def _selection_changed(self) -> None:
        """Who chooses a run elsewhere wants to see that one; the trials stay open below."""
        if self.is_on_stage and not self.desk.is_choosing:
            self._stage.end_over(self.page)
            self._offer()

    # ---- commands ------------------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr, add, menu = self.tr, self._cockpit.commands.add, "View/Sweep"
        pause = tr("Begin no new trial, and hold the runs of the sweep at their next safe point")
        add(Command("sweep-pause", tr("Pause sweep"), menu, "", pause, "hold"), self.desk.pause)
        resume = tr("Let the sweep go on; trials that a stop interrupted go on from their checkpoints")
        add(Command("sweep-resume", tr("Resume sweep"), menu, "", resume, "continue"), self.desk.resume)
        stop = tr("End the runs of the sweep, each with a checkpoint; asks first")
        add(Command("sweep-stop", tr("Stop the sweep…"), menu, "", stop, "end cancel"), self.ask_stop)
        more = tr("Let the sweep try more settings, with all that it knows; asks how many")
        add(Command("sweep-more", tr("More trials…"), menu, "", more, "budget extend"), self.ask_more)
        train = tr("Put the settings of the chosen trial, or of the best, into the train form; nothing starts yet")
        add(Command("sweep-train", tr("Train with these settings…"), menu, "", train, "best trial"), self.train)
        leave = tr("Show the runs on the stage again; the sweep goes on")
        add(Command("sweep-close", tr("Close the sweep"), menu, "", leave, "back list"), self.close)

    def _offer(self) -> None:
        enable = self._cockpit.commands.enable
        for verb in ("pause", "resume", "stop", "more"):
            why = self.desk.why_not(verb)
            enable(f"sweep-{verb}", not why, why)
        none = self.tr("Open a sweep first.")
        enable("sweep-close", bool(self.desk.reference), none)
        lacking = self.tr("No trial is complete yet: choose one in the table.") if self.desk.sweep else none
        enable("sweep-train", self.desk.trial is not None, lacking)
        if self.panel is not None:
            self.panel.offer_stage(bool(self.desk.reference) and not self.is_on_stage)

    def ask_stop(self) -> None:
        sweep = self.desk.sweep
        if sweep is None or self.desk.why_not("stop"):
            return
        self._come_forward()
        self.page.ask_bar.ask(
            self.tr("Stop this sweep? Its runs end with a checkpoint each, and Resume goes on from there."),
            [sweep.name],
            (self.tr("Stop it"), self.tr("Let it go on")),
            self.tr("Ends the runs of the sweep, politely first; nothing that was found is lost"),
            self.desk.stop,
        )

    def ask_more(self) -> None:
        sweep = self.desk.sweep
        if sweep is None or self.desk.why_not("more"):
            return
        self._come_forward()
        self.page.more_bar.ask(
            self.tr("How many more trials? There may be {count} now.").format(count=f"{sweep.budget:,}"),
            [],
            (self.tr("Add them"), self.tr("Cancel")),
            self.tr("Raises the budget; a sweep that is over goes on"),
            self._add_more,
        )
        self.page.more.setFocus()
        self.page.more.selectAll()

    def _add_more(self) -> None:
        found = _MORE.fullmatch(self.page.more.text().strip())
        if found is None or not int(found[1]):
            text = self.tr("Nothing was added: write +10, or +50% of the trials there may be.")
            self._cockpit.notify(Notice(text, "warning"))
            return
        count = int(found[1])
        self.desk.add_trials(*((0, count) if found[2] else (count, 0)))

    def _come_forward(self) -> None:
        if not self.is_on_stage:
            self.open(self.desk.reference)

    # ---- settings ------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Ask for a form with the settings of the chosen trial, or of the best."""
        sweep, trial = self.desk.sweep, self.desk.trial
        if sweep is None or trial is None:
            return
        params = {**sweep.spec.fixed, **trial.params}
        config = config_of_trial(
            sweep.spec, params, sweep.spec.seeds[0], name=f"{sweep.name}-t{trial.number}", group=""
        )
        del config["metadata"]["group"]
        self.config_wanted.emit(config)

    def _ask_defaults(
        self,
        sweep: Sweep,
        done: Callable[[Mapping[str, object]], None],
        failed: Callable[[str], None],
    ) -> None:
        worker: Mapping[str, Any] = sweep.spec.config["metadata"]["worker"]

        def ask() -> dict[str, object]:
            told = self._queries.describe_flags(worker["type"], worker["config"], worker.get("bundle"))
            return {str(flag["name"]): flag.get("default") for flag in told.get("flags") or []}

        self._cockpit.bridge.in_background(ask, done, failed, owner=self)
