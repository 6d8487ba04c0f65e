"""The executor of a cluster under Slurm passes the suite of the one in this process.

The cluster is on this machine, so the suite looks into its folder and at its processes.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

pytest.register_assert_rewrite("gym_gui.tests.host.executor_conformance")

from gym_gui.services.hosts.book import SLURM, Host  # noqa: E402
from gym_gui.services.hosts.code import Code, pack  # noqa: E402
from gym_gui.services.trainer.execution.hosts.link import HostLink  # noqa: E402
from gym_gui.services.trainer.execution.hosts.slurm import SlurmExecutor  # noqa: E402
from gym_gui.tests.host.executor_conformance import AT_ONCE, ExecutorConformance, Lab, Place  # noqa: E402
from gym_gui.tests.support.slurm_cluster import SlurmCluster  # noqa: E402
from mosaic_host.agent import HostAgent  # noqa: E402
from mosaic_host.executor import Executor  # noqa: E402
from mosaic_host.process_sweep import send_signal  # noqa: E402
from mosaic_host.warm_pool import WarmPool  # noqa: E402
from mosaic_protocol.paths import MosaicPaths  # noqa: E402
from mosaic_protocol.process_identity import ProcessIdentity  # noqa: E402

PATIENCE = 240.0


class SharedDisk(Place):
    """What the jobs and the login node have in common."""

    def __init__(self, root: Path, here: MosaicPaths) -> None:
        super().__init__(root)
        self._here = here

    async def make_run(self, run_id: str) -> None:
        """On both sides, as the dispatcher and the agent do."""
        await super().make_run(run_id)
        await Place(self._here.root).make_run(run_id)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    made = SlurmCluster()
    try:
        yield made.start()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def code() -> Code:
    return pack()


def agents(root: Path, *words: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(root) in line and all(word in line for word in ("mosaic_host", *words)):
                found.append(int(entry.name))
    return found


@pytest.mark.nightly
class TestUnderSlurm(ExecutorConformance):
    mode = "cold"

    @pytest.fixture
    def here(self, tmp_path: Path) -> MosaicPaths:
        paths = MosaicPaths(tmp_path / "here")
        for folder in (paths.runs, paths.configs, paths.logs):
            folder.mkdir(parents=True)
        return paths

    @pytest.fixture
    def place(self, tmp_path: Path, here: MosaicPaths, cluster: SlurmCluster) -> Iterator[SharedDisk]:
        made = SharedDisk(tmp_path / "there", here)
        yield made
        made.clean_up()
        for job in cluster.living():
            cluster.run("scancel", "--signal=KILL", "--full", job, check=False)
        for pid in agents(made.paths.root):
            if (process := ProcessIdentity.of(pid)) is not None:
                send_signal(process, signal.SIGKILL)

    def remote(
        self, place: Place, here: MosaicPaths, code: Code, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> SlurmExecutor:
        for name, value in cluster.environ.items():
            monkeypatch.setenv(name, value)
        host = Host("cluster", "", str(place.paths.root), sys.executable, kind=SLURM)
        link = HostLink(host, here.socket, lambda: code)
        beside = HostAgent(here, WarmPool(here.logs / "fork.log", enabled=False))
        return SlurmExecutor(here, link, beside, patience=PATIENCE)

    @pytest.fixture
    async def executor(
        self, place: Place, here: MosaicPaths, code: Code, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[SlurmExecutor]:
        made = self.remote(place, here, code, cluster, monkeypatch)
        await asyncio.wait_for(made.link.client(), PATIENCE)
        yield made
        await made.close()

    @pytest.fixture
    async def later_executor(
        self, place: Place, here: MosaicPaths, code: Code, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[SlurmExecutor]:
        made = self.remote(place, here, code, cluster, monkeypatch)
        yield made
        await made.close()

    @pytest.fixture
    def without_descriptors(self, place: Place) -> Callable[[], AbstractContextManager[None]]:
        @contextmanager
        def shortage() -> Iterator[None]:
            limits = {
                pid: resource.prlimit(pid, resource.RLIMIT_NOFILE)
                for pid in agents(place.paths.root, "mosaic_host.job agent")
            }
            for pid, (_, hard) in limits.items():
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
            yield
            for pid, limit in limits.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)

        return shortage

    async def test_a_later_executor_takes_up_what_an_earlier_one_started(
        self, executor: Executor, later_executor: Executor, lab: Lab
    ) -> None:
        """The agent in the job outlives the executor, is the parent still, and knows how it ended."""
        handle = await lab.holding(executor, "child", "fork_session")
        await executor.close()
        waiting = asyncio.ensure_future(later_executor.wait(handle))
        assert len(await later_executor.survivors(handle)) == 3
        await later_executor.kill_all(handle)
        assert await asyncio.wait_for(waiting, AT_ONCE) == -signal.SIGKILL
        assert await lab.relatives(handle) == {}
