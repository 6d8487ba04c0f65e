"""No process of a link is left, whenever the link is given up."""

from __future__ import annotations

import asyncio
import subprocess
import threading

import pytest

from gym_gui.services.trainer.execution.hosts.link import started

HANG_GUARD = 60.0


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
