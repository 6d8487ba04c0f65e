"""The executor of a host behind ssh passes the suite of the one in this process.

The host has processes, a network and a boot of its own. Its folder is visible from here too: the suite looks into it.
:mod:`gym_gui.tests.faults.test_hosts` has hosts with disks of their own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.register_assert_rewrite("gym_gui.tests.host.executor_conformance")

from gym_gui.services.hosts.book import Host  # noqa: E402
from gym_gui.services.hosts.code import Code, pack  # noqa: E402
from gym_gui.services.trainer.execution.hosts.link import HostLink  # noqa: E402
from gym_gui.services.trainer.execution.hosts.remote import RemoteExecutor  # noqa: E402
from gym_gui.tests.host.executor_conformance import AT_ONCE, ExecutorConformance, Lab, Place  # noqa: E402
from gym_gui.tests.support.far_hosts import FarHost  # noqa: E402
from mosaic_host.agent import HostAgent  # noqa: E402
from mosaic_host.executor import Executor, locator_of  # noqa: E402
from mosaic_host.warm_pool import WarmPool  # noqa: E402
from mosaic_protocol.paths import MosaicPaths  # noqa: E402
from mosaic_protocol.process_identity import ProcessIdentity  # noqa: E402


class FarPlace(Place):
    """Processes of another pid namespace, by the numbers that they have there."""

    def __init__(self, root: Path, node: FarHost, here: MosaicPaths) -> None:
        super().__init__(root)
        self._node, self._here = node, here
        self._boot = (node.folder / "boot_id").read_text().strip()
        self._proc = Path(f"/proc/{node.inner}/root/proc")

    async def make_run(self, run_id: str) -> None:
        """On both sides, as the dispatcher and the agent do."""
        await super().make_run(run_id)
        await Place(self._here.root).make_run(run_id)

    async def locator(self, pid: int) -> str:
        identity = self._identity(pid)
        return locator_of(identity) if identity is not None else ""

    def _identity(self, pid: int) -> ProcessIdentity | None:
        try:
            fields = (self._proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].decode().split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else ProcessIdentity(pid, int(fields[19]), self._boot)

    async def former_locator(self, pid: int) -> str:
        identity = self._identity(pid)
        assert identity is not None
        return locator_of(replace(identity, start_ticks=identity.start_ticks - 100))

    async def signal(self, pid: int, number: signal.Signals) -> None:
        if self._identity(pid) is not None:
            await asyncio.to_thread(self._node.run, "kill", f"-{int(number)}", str(pid))

    async def bystander(self, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> int:
        """Forked over there by a shell that says its number and becomes the command."""
        line = command or (sys.executable, "-c", "import time; time.sleep(600)")
        words = [*self._node.enter, f"--wd={cwd or '/'}", "sh", "-c", 'echo $$; exec "$@" >/dev/null', "sh", *line]
        child = await asyncio.to_thread(
            lambda: subprocess.Popen(
                words, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        )
        self._bystanders.append(child)
        assert child.stdout is not None
        return int(await asyncio.to_thread(child.stdout.readline))

    def clean_up(self) -> None:
        for child in self._bystanders:
            assert child.stdout is not None
            child.stdout.close()
        super().clean_up()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarHost]:
    made = FarHost(tmp_path_factory.mktemp("ssh"), "node1")
    try:
        yield made.start()
    finally:
        made.remove()


@pytest.fixture(scope="module")
def code() -> Code:
    return pack()


@pytest.mark.nightly
class TestOverSsh(ExecutorConformance):
    mode = "cold"

    @pytest.fixture
    def here(self, tmp_path: Path) -> MosaicPaths:
        paths = MosaicPaths(tmp_path / "here")
        for folder in (paths.runs, paths.configs, paths.logs):
            folder.mkdir(parents=True)
        return paths

    @pytest.fixture
    def place(self, tmp_path: Path, node: FarHost, here: MosaicPaths) -> Iterator[FarPlace]:
        made = FarPlace(tmp_path / "there", node, here)
        yield made
        made.clean_up()
        node.kill("-m mosaic_host --home", str(made.paths.root))

    def remote(
        self, node: FarHost, place: Place, here: MosaicPaths, code: Code, monkeypatch: pytest.MonkeyPatch
    ) -> RemoteExecutor:
        monkeypatch.setenv("MOSAIC_SSH_CONFIG", str(node.write_ssh_config()))
        host = Host(node.name, node.name, str(place.paths.root), sys.executable)
        link = HostLink(host, here.socket, lambda: code)
        return RemoteExecutor(here, link, HostAgent(here, WarmPool(here.logs / "fork.log", enabled=False)))

    @pytest.fixture
    async def executor(
        self, node: FarHost, place: Place, here: MosaicPaths, code: Code, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[RemoteExecutor]:
        made = self.remote(node, place, here, code, monkeypatch)
        await asyncio.wait_for(made.link.client(), 60)
        yield made
        await made.close()

    @pytest.fixture
    async def later_executor(
        self, node: FarHost, place: Place, here: MosaicPaths, code: Code, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[RemoteExecutor]:
        made = self.remote(node, place, here, code, monkeypatch)
        yield made
        await made.close()

    @pytest.fixture
    def without_descriptors(self, node: FarHost, place: Place) -> Callable[[], AbstractContextManager[None]]:
        @contextmanager
        def shortage() -> Iterator[None]:
            (pid,) = node.outer_pids("mosaic_host --home", str(place.paths.root))
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, hard))
            yield
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

        return shortage

    async def test_a_later_executor_takes_up_what_an_earlier_one_started(  # type: ignore[override]
        self, executor: Executor, later_executor: Executor, lab: Lab, node: FarHost
    ) -> None:
        """The agent outlives the executor and is the parent still; one that is killed takes the status along."""
        handle = await lab.holding(executor, "child", "fork_session")
        await executor.close()
        node.kill("-m mosaic_host --home", str(lab.folder))
        waiting = asyncio.ensure_future(later_executor.wait(handle))
        assert len(await later_executor.survivors(handle)) == 3
        await later_executor.kill_all(handle)
        assert await asyncio.wait_for(waiting, AT_ONCE) is None
        assert await lab.relatives(handle) == {}
