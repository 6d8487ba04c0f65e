"""The host agent in this process passes the suite both ways: spawning, and forking from a warm server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("gym_gui.tests.host.executor_conformance")

from gym_gui.services.trainer.execution.executor import tell_of_host  # noqa: E402
from gym_gui.tests.host.executor_conformance import ExecutorConformance, Lab, Place  # noqa: E402
from mosaic_host.agent import HostAgent  # noqa: E402
from mosaic_host.executor import Executor  # noqa: E402
from mosaic_host.telling import HostEvent  # noqa: E402
from mosaic_host.warm_pool import WarmPool  # noqa: E402


class _Local(ExecutorConformance):
    @pytest.fixture
    async def later_executor(self, place: Place) -> AsyncIterator[Executor]:
        executor = HostAgent(place.paths, WarmPool(place.paths.root / "later.log", enabled=False))
        yield executor
        await executor.close()


class TestColdSpawn(_Local):
    mode = "cold"

    @pytest.fixture
    async def executor(self, place: Place) -> AsyncIterator[Executor]:
        executor = HostAgent(place.paths, WarmPool(place.paths.root / "fork_server.log", enabled=False))
        yield executor
        await executor.close()


class TestWarmFork(_Local):
    mode = "warm"

    @pytest.fixture
    async def executor(self, lab: Lab) -> AsyncIterator[Executor]:
        log = lab.folder / "fork_server.log"
        pool = WarmPool(log)
        executor = HostAgent(lab.place.paths, pool)
        spec = await lab.spec()
        await executor.prepare(spec)
        assert await pool.wait_ready(spec), log.read_text()
        yield executor
        await executor.close()


def test_what_a_host_reports_is_in_the_daemons_log_under_a_code(caplog: pytest.LogCaptureFixture) -> None:
    for event in HostEvent:
        tell_of_host(event, {"reason": f"of {event}"})
    told = {record.fields["reason"]: record.code for record in caplog.records}  # type: ignore[attr-defined]
    assert set(told) == {f"of {event}" for event in HostEvent}
    assert all(code.startswith("LOG") for code in told.values())
    assert len(set(told.values())) == len(told)
