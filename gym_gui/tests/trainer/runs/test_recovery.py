"""Taking up launches whose claims cannot be looked at when the daemon starts."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest

from gym_gui.services.trainer.runs import lifecycle as lc
from gym_gui.services.trainer.runs import recovery as recovery_module
from gym_gui.services.trainer.runs.recovery import Recovery
from gym_gui.services.trainer.runs.tracked_run import TrackedRun
from gym_gui.tests.support.run_records import new_run_id, run_record
from mosaic_host.executor import Claimant, WorkerHandle
from mosaic_protocol.states import RunState


class Executor:
    """Answers about claims once all that are asked about were asked about."""

    def __init__(self, answers: Mapping[str, Claimant | None]) -> None:
        self._answers, self._all = answers, asyncio.Barrier(len(answers))

    async def revoke(self, worker: WorkerHandle) -> Claimant | None:
        await self._all.wait()
        return self._answers[worker.run_id]

    async def is_alive(self, _: WorkerHandle) -> bool:
        return True


class Orchestrator:
    """As much of it as recovery talks to; it notes what it was asked for."""

    def __init__(self, answers: Mapping[str, Claimant | None]) -> None:
        self.executor = Executor(answers)
        self.tracked: dict[str, TrackedRun] = {}
        self.launched: list[str] = []
        self.followed: list[str] = []

    async def apply_surely(self, run_id: str, event: lc.LifecycleEvent) -> None:
        live = self.tracked[run_id]
        live.run = lc.decide(live.run, event).run

    async def begin_launch(self, live: TrackedRun, _: object) -> None:
        self.launched.append(live.run.run_id)

    def resume_stop(self, live: TrackedRun) -> None:
        pass

    def follow_process(self, live: TrackedRun) -> None:
        self.followed.append(live.run.run_id)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        raise AssertionError("settled here by hand")


async def test_launches_that_are_settled_together_do_not_take_each_others_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One launch never happened and is made again; the other did and is followed, not launched a second time."""
    monkeypatch.setattr(recovery_module, "_SETTLE_SECONDS", 0.0)
    never, did = new_run_id(), new_run_id()
    orchestrator = Orchestrator({never: None, did: Claimant("there", 4242, alive=True)})
    recovery = Recovery(orchestrator)  # type: ignore[arg-type]
    lives = [TrackedRun(run_record(run_id=run_id, state=RunState.HSHK, attempt=1)) for run_id in (never, did)]
    orchestrator.tracked = {live.run.run_id: live for live in lives}
    await asyncio.gather(*(recovery._settle(live) for live in lives))
    assert (orchestrator.launched, orchestrator.followed) == ([never], [did])
