"""Journals that are read later: what is wrong with one of them keeps no other from being read."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from gym_gui.services.trainer.runs import unread_journals
from gym_gui.services.trainer.runs.unread_journals import UnreadJournals

SOON = 30.0


class Registry:
    def with_unread_journal(self) -> list[Any]:
        return [self.get("odd"), self.get("plain")]

    def get(self, run_id: str) -> Any:
        return SimpleNamespace(run_id=run_id, short=run_id)


class Deletion:
    def held(self, run: Any, _: str) -> contextlib.AbstractContextManager[None]:
        if run.run_id == "odd":
            raise KeyError("a bug")
        return contextlib.nullcontext()


async def test_a_bug_that_one_journal_shows_leaves_the_others_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unread_journals, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(unread_journals, "RunClearing", lambda *_: Clearing())
    ended: asyncio.Queue[str] = asyncio.Queue()

    brought: list[str] = []

    async def apply_surely(run_id: str, _: object) -> Any:
        assert brought[-1] == run_id, "the mark stays until what was away with the journal is there"
        return registry.get(run_id)

    async def bring_seeds(run: Any) -> None:
        brought.append(run.run_id)

    registry, marked = Registry(), dict[str, str]()
    orchestrator: Any = SimpleNamespace(
        hub=SimpleNamespace(newest_step=lambda _: 7),
        executor=None,
        registry=registry,
        unread_journals=marked,
        apply_surely=apply_surely,
        bring_seeds=bring_seeds,
        upkeep=SimpleNamespace(run_ended=ended.put_nowait),
    )
    task = asyncio.ensure_future(UnreadJournals(orchestrator, Deletion()).run())  # type: ignore[arg-type]
    async with asyncio.timeout(SOON):
        assert await ended.get() == "plain"
    assert not task.done() and list(marked) == ["odd"]
    assert any("bug" in str(record.exc_info) for record in caplog.records)
    task.cancel()
    await asyncio.wait([task])


class Clearing:
    async def take_over_outbox(self, _: str, *, begun: bool) -> bool:
        return not begun

    async def close_manifest(self, _: Any) -> None:
        pass
