"""The local executor passes the suite both ways: spawning, and forking from a warm server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("gym_gui.tests.executor_conformance")

from gym_gui.services.trainer.executor import Executor  # noqa: E402
from gym_gui.services.trainer.process import LocalExecutor  # noqa: E402
from gym_gui.services.trainer.warm_pool import WarmPool  # noqa: E402
from gym_gui.tests.executor_conformance import ExecutorConformance, Lab  # noqa: E402


class _Local(ExecutorConformance):
    @pytest.fixture
    async def later_executor(self, tmp_path: Path) -> AsyncIterator[Executor]:
        executor = LocalExecutor(WarmPool(tmp_path / "later.log", enabled=False))
        yield executor
        await executor.close()


class TestColdSpawn(_Local):
    mode = "cold"

    @pytest.fixture
    async def executor(self, lab: Lab) -> AsyncIterator[Executor]:
        executor = LocalExecutor(WarmPool(lab.folder / "fork_server.log", enabled=False))
        yield executor
        await executor.close()


class TestWarmFork(_Local):
    mode = "warm"

    @pytest.fixture
    async def executor(self, lab: Lab) -> AsyncIterator[Executor]:
        pool = WarmPool(lab.folder / "fork_server.log")
        executor = LocalExecutor(pool)
        spec = lab.spec(name="warming")
        await executor.prepare(spec)
        assert await pool.wait_ready(spec), (lab.folder / "fork_server.log").read_text()
        yield executor
        await executor.close()
