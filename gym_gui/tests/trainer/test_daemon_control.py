"""Stopping the daemon of a data root, also when another takes its place meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gym_gui.services.trainer import daemon_control
from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS, stop_daemon
from gym_gui.services.trainer.instance_lock import holder
from gym_gui.tests.support.daemon_process import HANG_GUARD
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity

_HOLDER = """
import os, signal, sys
from pathlib import Path
from gym_gui.services.trainer.instance_lock import InstanceLock
from mosaic_protocol.paths import MosaicPaths
lock = InstanceLock(MosaicPaths(Path(sys.argv[1])))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
heir = os.fork()
if heir == 0:
    signal.sigwait({signal.SIGUSR1})
    lock.describe()
    os.kill(os.getppid(), signal.SIGUSR1)
else:
    print(heir, flush=True)
signal.sigwait({signal.SIGTERM})
if heir:
    os.kill(heir, signal.SIGUSR1)
    signal.sigwait({signal.SIGUSR1})
"""
"""Holds the lock. Asked to leave, it passes the lock on without letting go of it, and leaves."""


def test_a_daemon_that_takes_over_from_the_one_that_stops_is_stopped_too(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    paths.trainer.mkdir(parents=True)
    command = [sys.executable, "-c", _HOLDER, str(paths.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        heir = ProcessIdentity.of(int(first.stdout.readline()))
        assert heir is not None
        try:
            assert stop_daemon(paths)
            assert first.wait(HANG_GUARD) == 0
            assert not heir.is_alive()
            assert holder(paths) is None
            assert not stop_daemon(paths)
        finally:
            first.kill()
            send_signal(heir, signal.SIGKILL)


class _Child:
    """A daemon that found another one."""

    returncode = EXIT_ALREADY_RUNS

    def poll(self) -> int:
        return self.returncode


def test_a_daemon_that_was_leaving_keeps_no_command_from_starting_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, real, spawned = MosaicPaths(tmp_path), daemon_control._spawn, list[object]()

    def spawn(*arguments: Any) -> Any:
        spawned.append(_Child() if not spawned else real(*arguments))
        return spawned[-1]

    monkeypatch.setattr(daemon_control, "_spawn", spawn)
    try:
        daemon_control.start_daemon(paths)
        assert len(spawned) == 2
    finally:
        assert stop_daemon(paths)
