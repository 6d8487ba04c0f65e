"""Whoever watches the runs hears of one that was removed for good."""

from __future__ import annotations

import threading

from gym_gui.tests.support.daemon_process import DaemonProcess

HANG_SECONDS = 60


def test_a_purged_run_is_told_to_those_who_watch(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=2)
    daemon.wait_over(run_id)
    seen, gone = threading.Event(), threading.Event()

    def watch() -> None:
        for update in daemon.client.watch():
            if update.run.run_id == run_id:
                seen.set()
                if update.deleted:
                    gone.set()
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert seen.wait(HANG_SECONDS)
    daemon.client.delete(run_id, purge=True)
    assert gone.wait(HANG_SECONDS)
    watcher.join(HANG_SECONDS)
