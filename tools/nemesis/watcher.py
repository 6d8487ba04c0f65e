"""A client that only looks: it follows every run over every daemon of a campaign."""

from __future__ import annotations

import threading

from gym_gui.services.trainer.client import TrainerClient
from mosaic_protocol.proto import trainer_pb2 as pb
from tools.nemesis.ledger import Ledger


class Watcher(threading.Thread):
    """Follows every run as the cockpit does, from the last change it saw, over every daemon of the campaign."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(name="watcher", daemon=True)
        self._ledger, self._history = ledger, ledger.history
        self._stopping = threading.Event()
        self._revision = 0
        self.states: dict[str, str] = {}
        self.updates = 0

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.wait(0.5):
            with self._history.operation(self.name, "watch", after=self._revision):
                self._follow()

    def _follow(self) -> None:
        with TrainerClient.connect(self._ledger.paths, start=False) as client:
            for update in client.watch(self._revision):
                self._take(update)
                if self._stopping.is_set():
                    return

    def _take(self, update: pb.RunUpdate) -> None:
        if update.revision < self._revision:
            self._history.broken(f"the watch went back from revision {self._revision} to {update.revision}")
        self._revision, run = update.revision, update.run
        self.updates += 1
        if self.states.get(run.run_id) == "TERM" and run.state not in ("TERM", ""):
            self._history.broken(f"the watch showed {run.run_id} as over, then as {run.state}")
        self.states[run.run_id] = run.state or "gone"
        self._ledger.observe(run, 0.0)  # what streams is late by nature: only its own order counts
