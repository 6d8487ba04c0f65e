"""Connects the welcome and the tour to the cockpit: whose demo is offered, and which six hints there are."""

from __future__ import annotations

from PyQt6.QtCore import QObject

from gym_gui.ui.commands import Command
from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.onboarding import Hint, Tour, Welcome
from gym_gui.ui.panels.stage_empty import EmptyStage
from gym_gui.ui.presenters.workers.default import Demo
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb


class FirstSteps(QObject):
    """Offers the welcome at the first start; both it and the tour can be had again from the Help menu.

    ``demo``: the short run that is offered with it; without one there is none to start.
    """

    def __init__(self, window: MainWindow, demo: Demo | None) -> None:
        super().__init__(window)
        self._cockpit, self.demo = window.cockpit, demo
        self.welcome = Welcome(window, window.cockpit.preferences)
        if demo is None:
            self.welcome.demo.hide()
        else:
            self.welcome.present(demo.title, demo.about, demo.help)
        self.tour = Tour(window, window.cockpit.themes, self._hints(), window.show_part)
        self.welcome.demo_wanted.connect(self.start_demo)
        self.welcome.demo_wanted.connect(
            lambda: window.show_part("runs")
        )  # Qt would go to the modes, which arrows change
        self.welcome.tour_wanted.connect(self.tour.start)
        self.tour.finished.connect(self.welcome.offer)
        window.cockpit.selection.changed.connect(self._make_room)
        stage = window.findChild(EmptyStage)
        if stage is not None:
            self.welcome.moved.connect(lambda: stage.make_way(self.welcome))
            self.tour.moved.connect(lambda: stage.make_way(self.tour))
        self.welcome.hide()
        self.tour.hide()
        add, tr = window.cockpit.commands.add, self.tr
        tour = Command("tour", tr("Show me around"), "Help", "F1", tr("Six short hints on where things are"))
        add(tour, self.tour.start)
        if demo is not None:
            add(Command("demo", tr("Train the demo"), "Help", "", demo.help), self.start_demo)

    def _make_room(self, selected: list[str]) -> None:
        """A person who looks at a run has found the way, and the card would cover it."""
        if selected and self.welcome.isVisible():
            self.welcome.decline()

    def start_demo(self) -> None:
        """Submit the demo run and look at it."""
        assert self.demo is not None, "there is no demo to start"
        config = self.demo.request.config()
        call = self._cockpit.bridge.call
        call(lambda client: client.submit(config, name_is_default=True).run, self._started, self._failed, owner=self)

    def _started(self, run: pb.Run) -> None:
        self._cockpit.runs.take([run])
        self._cockpit.selection.select([run.run_id])
        self._cockpit.notify(Notice(self.demo.promise if self.demo else "", "good"))

    def _failed(self, sentence: str) -> None:
        self._cockpit.notify(Notice(sentence, "error", self.tr("Try again"), self.start_demo))

    def _hints(self) -> list[Hint]:
        tr = self.tr
        return [
            Hint(
                "train",
                tr("Set up a run"),
                tr("Choose a worker, an algorithm and an environment, then Launch. A dry run only checks."),
                "train",
            ),
            Hint(
                "stage",
                tr("Watch it"),
                tr("The run you look at is here: its mean return, its speed, and when it will be done."),
            ),
            Hint(
                "metrics",
                tr("Compare"),
                tr("Select several runs, and their curves lie over each other; seeds can be drawn as a band."),
                "metrics",
            ),
            Hint(
                "runs",
                tr("Every run"),
                tr("Runs go on when you close this window. Pause, cancel or delete them; a deletion can be undone."),
                "runs",
            ),
            Hint(
                "use-trained",
                tr("Use what was learned"),
                tr("Every checkpoint is listed here: evaluate it, continue it, or train on from its networks."),
                "train",
            ),
            Hint(
                "menu-bar",
                tr("Find anything"),
                tr("Ctrl+K finds every command and run by name. Doctor shows what is missing, and how to get it."),
            ),
        ]
