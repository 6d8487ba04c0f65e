"""Stopping whoever is the daemon of a data root, also when that changes meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from gym_gui.services.trainer.daemon_control import stop_daemon
from gym_gui.services.trainer.instance_lock import holder
from gym_gui.services.trainer.process_sweep import send_signal
from gym_gui.tests.support.daemon_process import HANG_GUARD
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.process_identity import ProcessIdentity

_HOLDER = """
import os, signal, sys
from pathlib import Path
from gym_gui.services.trainer.instance_lock import InstanceLock
lock = InstanceLock(Path(sys.argv[1]))
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
"""Holds the lock. Told to leave, it passes the lock on without letting go of it, and leaves."""


def test_a_daemon_that_takes_over_from_the_one_that_stops_is_stopped_too(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    paths.trainer.mkdir(parents=True)
    command = [sys.executable, "-c", _HOLDER, str(paths.lock_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        heir = ProcessIdentity.of(int(first.stdout.readline()))
        assert heir is not None
        try:
            assert stop_daemon(paths)
            assert first.wait(HANG_GUARD) == 0
            assert not heir.is_alive()
            assert holder(paths.lock_file) is None
            assert not stop_daemon(paths)
        finally:
            first.kill()
            send_signal(heir, signal.SIGKILL)
