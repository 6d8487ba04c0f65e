"""Time passes between a plan and what is done of it: a run that is needed again by then stays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gym_gui.services.storage.applying import Applying
from gym_gui.services.storage.planning import Action
from gym_gui.services.storage.profile import Profile
from gym_gui.services.sweeps.model import SweepState, encode_sweep
from gym_gui.tests.support.made_sweeps import made_sweep
from gym_gui.tests.trainer.sweeps.test_continuation import message_of
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb


class Daemon:
    """A client of a daemon with one run of the sweep *tuned*; notes what is deleted."""

    def __init__(self, sweep: SweepState) -> None:
        self.sweep, self.deleted = sweep, list[str]()

    def run(self, run_id: str) -> pb.Run:
        found = message_of(run_id)
        found.state, found.outcome, found.sweep = "TERM", "canceled", "tuned"
        return found

    def runs(self, **_: Any) -> Any:
        return SimpleNamespace(runs=[])

    def sweeps(self) -> list[Any]:
        return [SimpleNamespace(document=encode_sweep(made_sweep(state=self.sweep)))]

    def delete(self, run_id: str, **_: Any) -> None:
        self.deleted.append(run_id)


@pytest.mark.parametrize("state", [SweepState.COMPLETED, SweepState.RUNNING])
def test_runs_of_a_sweep_that_was_given_more_budget_stay(tmp_path: Path, state: SweepState) -> None:
    daemon: Any = Daemon(state)
    applying = Applying(daemon, MosaicPaths(tmp_path), Profile(), lambda *_: None)
    (done,) = applying.each([Action("trash", "run-1", "run-1", 0, "ended 40 days ago")])
    if state is SweepState.RUNNING:
        assert (done.problem, daemon.deleted) == ("it was left alone: its sweep goes on", [])
    else:
        assert (done.problem, daemon.deleted) == ("", ["run-1"])
