"""A run is removed for good: watchers hear of it, and a client that does not wait does not matter."""

from __future__ import annotations

import threading
from contextlib import suppress

from gym_gui.services.trainer.client import ClientError, TrainerClient
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for

HANG_SECONDS = 60


def test_watchers_hear_of_a_purged_run(daemon: DaemonProcess) -> None:
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


def test_a_client_that_gives_up_leaves_no_half_purged_run(daemon: DaemonProcess) -> None:
    run_id = daemon.submit(total_timesteps=2)
    daemon.wait_over(run_id)
    places = [daemon.paths.run(run_id).directory / f"folder-{number}" for number in range(30)]
    for place in places:
        place.mkdir()
        for number in range(300):
            (place / str(number)).touch()
    with TrainerClient.connect(daemon.paths, start=False, timeout=0.05) as impatient:
        while all(place.exists() for place in places):  # a busy machine may not even hear so hasty a client
            with suppress(ClientError):
                impatient.delete(run_id, purge=True)
    wait_for("the run to be gone", lambda: daemon.client.runs(include_deleted=True).total == 0)
    assert not daemon.paths.run(run_id).directory.exists()
