"""Many watchers look in step, and what they look at is read once."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack

import pytest

from gym_gui.services.trainer.telemetry import watching
from gym_gui.services.trainer.telemetry.watching import Pace, SharedLooks, SharedReads, until_next, until_set


class Source:
    """Something that is slow to read, and says how often it was."""

    def __init__(self, error: Exception | None = None) -> None:
        self.reads, self._error, self.may_answer = 0, error, asyncio.Event()

    async def read(self) -> str:
        self.reads += 1
        await self.may_answer.wait()
        if self._error is not None:
            raise self._error
        return f"read {self.reads}"


async def test_what_many_want_at_once_is_read_once_and_later_again() -> None:
    shared, source = SharedReads(), Source()
    watchers = [asyncio.ensure_future(shared.get("place", source.read)) for _ in range(200)]
    await asyncio.sleep(0)
    source.may_answer.set()
    assert set(await asyncio.gather(*watchers)) == {"read 1"}
    assert await shared.get("place", source.read) == "read 2"


async def test_those_at_another_place_read_for_themselves() -> None:
    shared, source = SharedReads(), Source()
    source.may_answer.set()
    await asyncio.gather(shared.get(("row", 1), source.read), shared.get(("row", 2), source.read))
    assert source.reads == 2


async def test_one_who_leaves_does_not_take_the_read_from_the_others() -> None:
    shared, source = SharedReads(), Source()
    leaving, staying = (asyncio.ensure_future(shared.get("place", source.read)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    source.may_answer.set()
    assert await staying == "read 1"


async def test_a_read_that_fails_fails_for_all_who_wanted_it_and_is_tried_again() -> None:
    shared, source = SharedReads(), Source(OSError("no disk"))
    source.may_answer.set()
    told = await asyncio.gather(*(shared.get("place", source.read) for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in told] == ["no disk"] * 3
    with pytest.raises(OSError, match="no disk"):
        await shared.get("place", source.read)
    assert source.reads == 2


async def test_a_value_is_made_once_in_a_moment() -> None:
    looks, made = SharedLooks(), [0]

    def make() -> int:
        made[0] += 1
        return made[0]

    assert [looks.get("now", "run", make) for _ in range(3)] == [1, 1, 1]
    assert looks.get("now", "other run", make) == 2
    assert looks.get("later", "run", make) == 3


async def test_the_more_watch_the_longer_they_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", rest)
    monkeypatch.setattr(watching, "until_next", lambda interval: interval)
    pace = Pace()
    with pace.joined():
        await pace.rest()
        with ExitStack() as stack:
            for _ in range(199):
                stack.enter_context(pace.joined())
            await pace.rest()
        await pace.rest()
        await pace.rest(0.2)
    assert rests == [0.002, 0.4, 0.002, 0.2]


def test_everybody_looks_at_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, rest in ((100.0, 0.5), (100.1, 0.4), (100.4, 0.1)):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        assert until_next(0.5) == pytest.approx(rest)


async def test_one_who_leaves_while_there_is_news_is_let_go() -> None:
    """In whichever of the moments between the news and the next look."""
    for moments in range(6):
        news = asyncio.Event()

        async def watch(news: asyncio.Event = news) -> None:
            while True:
                await until_set(news, 60.0)
                news.clear()

        watcher = asyncio.ensure_future(watch())
        await asyncio.sleep(0.01)
        news.set()
        for _ in range(moments):
            await asyncio.sleep(0)
        watcher.cancel()
        done, _ = await asyncio.wait([watcher], timeout=1.0)
        assert done and watcher.cancelled(), f"it was served on after {moments} moments"
