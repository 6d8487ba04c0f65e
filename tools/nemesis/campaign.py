"""One campaign: clients and nemesis side by side for a while, then healing, settling and checking."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.storage.run_registry import RunRegistry
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.marked_processes import processes_using
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity, stat_fields
from tools.nemesis import victims
from tools.nemesis.checker import check
from tools.nemesis.clients import ApiClient, Client, CommandClient
from tools.nemesis.faults import Nemesis, schedule
from tools.nemesis.history import History
from tools.nemesis.ledger import Ledger
from tools.nemesis.place import Place
from tools.nemesis.report import Progress, Report, counts
from tools.nemesis.settling import Settling
from tools.nemesis.watcher import Watcher

CPUS = 8
_TWO_DAEMONS_SECONDS = 10.0
"""A daemon that has lost its place may take so long to notice and leave."""


@dataclass(frozen=True)
class Options:
    """What a campaign is like."""

    seed: int
    seconds: float
    gap: float
    """Seconds between two faults, on average."""
    pause: float
    """Seconds between two operations of one client, on average."""
    clients: int
    kinds: tuple[str, ...]


class Campaign:
    """Make one for each place; :meth:`run` leaves no process behind."""

    def __init__(self, place: Place, options: Options, history_file: Path, progress: Progress) -> None:
        self._options, self._progress = options, progress
        self.paths = MosaicPaths(place.home)
        _surround(place.home)
        self.history = History(history_file)
        self._ledger = Ledger(self.paths, self.history, options.seed)
        self._watcher = Watcher(self._ledger)
        self._clients: list[Client] = [
            ApiClient(f"client-{number}", self._ledger, options.seed, options.pause)
            for number in range(1, options.clients + 1)
        ]
        self._clients.append(CommandClient("command", self._ledger, options.seed, 4 * options.pause))
        planned = schedule(options.seed, options.seconds, options.gap, options.kinds)
        self._nemesis = Nemesis(self.paths, self.history, planned, place.disk)
        self._settling = Settling(self._ledger, self._watcher, options.seed, progress.tell)
        self._threads: list[Client | Nemesis] = [*self._clients, self._nemesis]
        self._two_since = float("inf")
        threading.excepthook = self._note_crash

    def _note_crash(self, crash: threading.ExceptHookArgs) -> None:
        """A client that dies of a mistake in here would leave a campaign that proves less than it says."""
        told = "".join(traceback.format_exception(crash.exc_type, crash.exc_value, crash.exc_traceback))
        name = crash.thread.name if crash.thread is not None else "a thread"
        self.history.broken(f"the campaign itself: {name} ended by {told}")

    def run(self, report: Report) -> None:
        """Fill in the report."""
        try:
            self._fight()
            self._progress.tell("healed; settling", now=True)
            self._settling.settle()
            with closing(RunRegistry(self.paths.registry_db)) as registry:
                report.violations = check(registry, self._ledger, cpus=CPUS)
            self.history.note("checked", violations=report.violations)
        finally:
            self._leave_nothing()
            self.history.close()
            self._fill_in(report)

    def _fight(self) -> None:
        TrainerClient.connect(self.paths).close()  # a short campaign is not to be spent on a first start
        self.history.begin()
        self._watcher.start()
        for one in self._threads:
            one.start()
        while self.history.now() < self._options.seconds:
            time.sleep(0.5)
            self._look_for_two_daemons()
            self._progress.tell(
                f"{len(self._ledger.acknowledged())} runs, {self._ledger.unfinished()} not over; "
                f"{len(self.history.blows)} faults; {len(self.history.operations)} operations; "
                f"{len(self.history.seen_broken)} rules seen broken"
            )
        self._stop()

    def _stop(self) -> None:
        """Let everybody come to the end of what they are doing, in a world without faults."""
        for one in self._threads:
            one.stop()
        if self._nemesis.ident is not None:
            self._nemesis.join()
        self._nemesis.heal()
        for one in self._threads:
            if one.ident is not None:
                one.join()

    def _look_for_two_daemons(self) -> None:
        awake = [pid for pid in victims.serving(self.paths) if (stat_fields(pid) or "T")[0] != "T"]
        if len(awake) < 2:
            self._two_since = float("inf")
        elif self._two_since == float("inf"):
            self._two_since = self.history.now()
        elif self.history.now() - self._two_since > _TWO_DAEMONS_SECONDS:
            self.history.broken(f"daemons {awake} serve one registry at the same time")
            self._two_since = float("inf")

    def _leave_nothing(self) -> None:
        """Also when the campaign is interrupted, while a client may be starting a daemon."""
        self._kill_all()
        self._stop()
        self._watcher.stop()
        self._kill_all()

    def _kill_all(self) -> None:
        for process in map(ProcessIdentity.of, processes_using(self.paths.root)):
            if process is not None:
                send_signal(process, signal.SIGKILL)

    def _fill_in(self, report: Report) -> None:
        known = self._ledger.acknowledged()
        report.runs = counts([one.plan.kind for one in known])
        report.outcomes = counts([one.outcome or "not over" for one in known])
        report.faults = counts([blow.fault for blow in self.history.blows])
        report.operations = counts([one.action for one in self.history.operations])
        report.results = counts([one.result for one in self.history.operations])
        report.updates_watched = self._watcher.updates
        report.scalars_compared = self._settling.scalars.compared


def _surround(home: Path) -> None:
    """Settings for every daemon that a client starts, in the environment that it inherits: the tests' own workers, and
    patience short enough for a freeze to outlast it."""
    settings = {
        "cpus": CPUS,
        "warm_starts": 1,
        "heartbeat_seconds": 0.5,
        "liveness_seconds": 20,
        "stop_seconds": 2,
        "checkpoint_seconds": 10,
    }
    os.environ.update(DaemonProcess(home, **settings).env)
