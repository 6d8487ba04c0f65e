"""A run tracked with W&B through the real daemon: it is recorded, and cancelling or killing it leaves no process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gym_gui.tests.support.cleanrl_runs import children_of, cleanrl_daemon, script_of, submit_ppo, wait_until_warm
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from mosaic_protocol.process_identity import ProcessIdentity

ENDLESS = 100_000_000


def tracking_processes(daemon: DaemonProcess, run_id: str) -> list[ProcessIdentity]:
    """The process that tracks, and wandb's own, which leads a session of its own."""
    record = daemon.paths.run(run_id).directory / "wandb" / "tracking.json"
    wait_for("the run to be tracked", record.exists)
    (tracking,) = children_of(script_of(daemon, run_id).pid)
    (core,) = children_of(tracking.pid)
    assert os.getsid(core.pid) == core.pid
    return [tracking, core]


@pytest.mark.parametrize("mode", ["cold", "warm"])
def test_a_cancelled_or_killed_tracked_run_leaves_no_process(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with cleanrl_daemon(tmp_path / "home", mode) as daemon:
        if mode == "warm":
            wait_until_warm(daemon)
        run_id = submit_ppo(daemon, total_timesteps=ENDLESS, flags={"track": True})
        helpers = tracking_processes(daemon, run_id)
        daemon.client.cancel(run_id, "seen enough")
        assert daemon.wait_over(run_id).outcome == "canceled"
        wait_for("its helpers to end", lambda: not any(one.is_alive() for one in helpers))
        record = json.loads((daemon.paths.run(run_id).directory / "wandb" / "tracking.json").read_text())
        assert record["run_id"] == run_id

        run_id = submit_ppo(daemon, total_timesteps=ENDLESS, flags={"track": True})
        helpers = tracking_processes(daemon, run_id)
        os.kill(script_of(daemon, run_id).pid, 9)
        assert daemon.wait_over(run_id).outcome == "failed"
        wait_for("its helpers to end", lambda: not any(one.is_alive() for one in helpers))
