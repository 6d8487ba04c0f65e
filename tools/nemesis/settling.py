"""After the last fault: everything is healed, and within a bounded time every run comes to its end, every watcher hears
of it and every number can be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.daemon_control import stop_daemon
from gym_gui.services.trainer.errors import TrainerError
from gym_gui.tests.support.marked_processes import processes_using
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import Desired
from tools.nemesis import victims
from tools.nemesis.clients import ApiClient, all_runs
from tools.nemesis.history import SETTLING
from tools.nemesis.ledger import Ledger
from tools.nemesis.scalars import ScalarCheck
from tools.nemesis.watcher import Watcher

_BACK_SECONDS = 180.0
"""Within this time after the last fault a client must be served. Hang guards, all three: on a machine with thirty times
more work than cores a minute was needed."""
_STUCK_SECONDS = 180.0
"""So long nothing may change while runs are not over."""
_GONE_SECONDS = 60.0


class Settling:
    """One pass over a healed system; what does not come to its end is a broken rule."""

    def __init__(self, ledger: Ledger, watcher: Watcher, seed: int, tell: Callable[[str], None]) -> None:
        self._ledger, self._history, self._watcher, self._tell = ledger, ledger.history, watcher, tell
        self._client = ApiClient(SETTLING, ledger, seed, pause=0.0)
        self.scalars = ScalarCheck(ledger.paths, ledger.history)

    def settle(self) -> None:
        if self._is_served():
            self._ask_again()
            self._end_all()
            self._let_watcher_catch_up()
            self._tell("comparing every scalar")
            self._compare()
        self._client.disconnect()
        self._watcher.stop()
        self._stop()

    def _is_served(self) -> bool:
        deadline, words = time.monotonic() + _BACK_SECONDS, ""
        while time.monotonic() < deadline:
            done, _ = self._client.attempt("health", lambda: self._client.connected().health())
            if done.result == "ok":
                return True
            words = done.answer
            time.sleep(0.5)
        self._history.broken(f"{_BACK_SECONDS:g} s after the last fault no client is served: {words}")
        return False

    def _ask_again(self) -> None:
        """A client without an answer asks until there is one; some that had one ask as well."""
        for number, one in enumerate(self._ledger.submissions):
            unanswered = not one.run_id and not one.refused
            if one.request and not one.purging and (unanswered or (one.run_id and number % 5 == 0)):
                self._client.ask_for(one)
                if not one.run_id and not one.refused:
                    self._history.broken(f"the healed daemon gives no answer to {one.plan.name}")

    def _end_all(self) -> None:
        """Resume what is paused, cancel what has no end, and wait for the rest."""
        changed_at, before = time.monotonic(), list[tuple[str, str, int]]()
        while True:
            asked_at = self._history.now()
            _, listed = self._client.attempt("list", lambda: all_runs(self._client.connected()))
            waiting = [run for run in listed or () if run.state != "TERM"]
            for run in listed or ():
                self._ledger.adopt(run)
                self._ledger.observe(run, asked_at)
            if listed is not None and not waiting:
                return
            now = [(run.run_id, run.state, run.last_step) for run in waiting]
            if now != before:
                changed_at, before = time.monotonic(), now
            if time.monotonic() - changed_at > _STUCK_SECONDS:
                for run in waiting:
                    wanted = f"stays in {run.state}, wanted {run.desired}: {run.reason}"
                    self._history.broken(f"{run.run_id} ({run.name}) {wanted}")
                return
            self._tell(f"waiting for {len(waiting)} runs to end")
            for run in waiting:
                self._help(run)
            time.sleep(0.5)

    def _help(self, run: pb.Run) -> None:
        plan = next((one.plan for one in self._ledger.submissions if one.plan.name == run.name), None)
        if run.desired == Desired.PAUSE:
            self._client.attempt("resume", lambda: self._client.connected().resume(run.run_id), run.run_id)
        elif plan is not None and not plan.ends and run.desired != Desired.STOP:
            reason = "settling"
            call = lambda: self._client.connected().cancel(run.run_id, reason)  # noqa: E731
            self._client.attempt("cancel", call, run.run_id, reason=reason)

    def _let_watcher_catch_up(self) -> None:
        due = {one.run_id for one in self._ledger.acknowledged() if not one.purging}
        deadline = time.monotonic() + _GONE_SECONDS
        while missing := {run_id for run_id in due if self._watcher.states.get(run_id) != "TERM"}:
            if time.monotonic() > deadline:
                self._history.broken(f"the watch never showed the end of {sorted(missing)}")
                return
            time.sleep(0.1)

    def _compare(self) -> None:
        with closing(TrainerClient.connect(self._ledger.paths)) as client:
            for one in self._ledger.acknowledged():
                if not one.purging:
                    self.scalars.compare(client, one.run_id, one.plan)

    def _stop(self) -> None:
        """The daemon leaves when asked, and nothing that the campaign started lives on."""
        try:
            stop_daemon(self._ledger.paths)
        except TrainerError as error:
            self._history.broken(f"the daemon does not stop: {error}")
        deadline = time.monotonic() + _GONE_SECONDS
        while left := processes_using(self._ledger.paths.root):
            if time.monotonic() > deadline:
                told = [f"{pid} {victims.command_of(pid).replace(bytes(1), b' ').decode()[:80]}" for pid in left]
                self._history.broken(f"processes are left: {told}")
                return
            time.sleep(0.1)
