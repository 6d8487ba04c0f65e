"""Which run the next one of a trial goes on from."""

from __future__ import annotations

import pytest

from gym_gui.services.continuation import CannotContinueError
from gym_gui.services.trainer.errors import UnknownRunError
from gym_gui.services.trainer.sweeps import keeper
from mosaic_protocol.proto import trainer_pb2 as pb


def message_of(run_id: str) -> pb.Run:
    if run_id == "deleted":
        raise UnknownRunError("no run has this id")
    return pb.Run(run_id=run_id, name=run_id)


@pytest.fixture(autouse=True)
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose id begins with "crashed" left none."""

    def continued(run: pb.Run) -> dict[str, str]:
        if run.run_id.startswith("crashed"):
            raise CannotContinueError(run, "it left no checkpoint")
        return {"from": run.run_id}

    monkeypatch.setattr(keeper, "continued", continued)


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        (["first", "second"], {"from": "second"}),
        (["first", "crashed"], {"from": "first"}),
        (["first", "deleted", "crashed"], {"from": "first"}),
        (["crashed-1", "crashed-2"], None),
        ([], None),
    ],
)
def test_it_is_the_newest_that_left_a_checkpoint(runs: list[str], found: dict[str, str] | None) -> None:
    assert keeper.newest_continuation(runs, message_of) == found
