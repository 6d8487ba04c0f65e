"""What a daemon knows of a host that it is linked to, and that no process of a link is left."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from gym_gui.services.hosts.book import Host
from gym_gui.services.hosts.code import Code
from gym_gui.services.trainer.execution.hosts import link as link_module
from gym_gui.services.trainer.execution.hosts.link import HostLink, started
from mosaic_host.capacity import HostCapacity
from mosaic_host.client import AgentClient
from mosaic_host.hosting import PROTOCOL, HostFacts

HANG_GUARD = 60.0
FACTS = HostFacts(PROTOCOL, "", "/home", "/python", {}, {}, 0.0, 0, HostCapacity(1, 1, ()))


class Answering:
    """An agent's client, on a host where an environment is built while it is linked."""

    def __init__(self) -> None:
        self.looks = 0
        self.gone = asyncio.Event()

    async def hung_up(self) -> None:
        await self.gone.wait()

    async def warm_servers(self) -> dict[str, str]:
        return {}

    async def describe(self) -> HostFacts:
        self.looks += 1
        if self.looks == 5:
            self.gone.set()
        return FACTS if self.looks < 3 else replace(FACTS, pythons={"tiny": "/tiny/python"}, wall_time=1.0)


async def test_an_environment_that_was_built_meanwhile_is_seen_without_a_new_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "_PING_EVERY", 0.01)
    monkeypatch.setattr(link_module, "_LOOK_EVERY", 0.0)
    told: list[HostFacts | None] = []
    link = HostLink(Host("n", "n"), tmp_path / "s", lambda: Code("", b""), lambda: told.append(link.facts))
    link.facts = FACTS
    client = Answering()
    keeping = asyncio.create_task(link._until_silent(cast(AgentClient, client)))
    await asyncio.wait_for(keeping, 60)
    assert [facts.pythons for facts in told if facts] == [{"tiny": "/tiny/python"}], "once, when it changed"


async def test_a_process_that_comes_to_be_after_its_link_was_given_up_is_ended() -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    made: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        begun.set()
        may_go_on.wait(HANG_GUARD)
        made.append(subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return made[0]

    task = asyncio.create_task(started(start))
    await asyncio.to_thread(begun.wait, HANG_GUARD)
    task.cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, HANG_GUARD)
    assert made[0].returncode is not None


async def test_what_cannot_be_started_says_so() -> None:
    def start() -> subprocess.Popen[bytes]:
        raise FileNotFoundError(2, "No such file or directory", "srun")

    with pytest.raises(FileNotFoundError):
        await started(start)
