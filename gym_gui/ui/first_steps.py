"""Connects the welcome and the tour to the cockpit: what the demo run is, and which six hints there are."""

from __future__ import annotations

from PyQt6.QtCore import QObject

from gym_gui.services.run_request import RunRequest
from gym_gui.ui.commands import Command
from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.onboarding import Hint, Tour, Welcome
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

DEMO = RunRequest(
    worker_type="cleanrl",
    module="cleanrl_worker.cli",
    run_name="first-steps",
    settings={"algo": "ppo", "env_id": "CartPole-v1", "seed": 1, "total_timesteps": 100_000},
    notes="The demo of the first start.",
    tags=("demo",),
)


class FirstSteps(QObject):
    """Offers the welcome at the first start; both it and the tour can be had again from the Help menu."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._cockpit = window.cockpit
        self.welcome = Welcome(window, window.cockpit.preferences)
        self.tour = Tour(window, self._hints())
        self.welcome.demo_wanted.connect(self.start_demo)
        self.welcome.tour_wanted.connect(self.tour.start)
        self.welcome.hide()
        self.tour.hide()
        add, tr = window.cockpit.commands.add, self.tr
        tour = Command("tour", tr("Show me around"), "Help", "F1", tr("Six short hints on where things are"))
        add(tour, self.tour.start)
        demo = Command("demo", tr("Train the demo"), "Help", "", tr("Start a short run of PPO on CartPole-v1"))
        add(demo, self.start_demo)

    def start_demo(self) -> None:
        """Submit the demo run and look at it."""
        config = DEMO.config()
        call = self._cockpit.bridge.call
        call(lambda client: client.submit(config).run, self._started, self._failed, owner=self)

    def _started(self, run: pb.Run) -> None:
        self._cockpit.runs.take([run])
        self._cockpit.selection.select([run.run_id])
        self._cockpit.notify(Notice(self.tr("The demo is on its way: watch the return rise to 500."), "good"))

    def _failed(self, sentence: str) -> None:
        self._cockpit.notify(Notice(sentence, "error", self.tr("Try again"), self.start_demo))

    def _hints(self) -> list[Hint]:
        tr = self.tr
        return [
            Hint(
                "train",
                tr("Set up a run"),
                tr("Choose a worker, an algorithm and an environment, then Launch. A dry run only checks."),
            ),
            Hint(
                "stage",
                tr("Watch it"),
                tr("The run you look at is here: its return, its speed, and when it will be done."),
            ),
            Hint(
                "metrics",
                tr("Compare"),
                tr("Select several runs, and their curves lie over each other; seeds can be drawn as a band."),
            ),
            Hint(
                "runs",
                tr("Every run"),
                tr("Runs go on when you close this window. Pause, cancel or delete them; a deletion can be undone."),
            ),
            Hint(
                "train",
                tr("Use what was learned"),
                tr("Use trained lists every checkpoint: evaluate it, go on from it, or begin anew with its networks."),
            ),
            Hint(
                "nothing-beside-it",
                tr("Find anything"),
                tr("Ctrl+K finds every command by name. Doctor tells what is missing here, and how to get it."),
            ),
        ]
