"""What is wrong with the steps of one run costs that run at most: it ends, and the others are served and kept up."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from gym_gui.tests.support.daemon_process import DaemonProcess, toy_config, wait_for
from gym_gui.tests.support.fault_tools import worker_of
from mosaic_host.process_sweep import send_signal
from mosaic_protocol.steps.open_chunk import STREAM, path_of

UNREADABLE = b"MOSSTEP1" + bytes(88) + bytes(16) + (20).to_bytes(8, "little") + bytes(8) + b'{"columns":[],"v":1}'
"""An open chunk without columns: no recorder writes one."""


def bugs_told(daemon: DaemonProcess) -> list[str]:
    entries = map(json.loads, daemon.structured_log().splitlines())
    return [str(entry.get("traceback")) for entry in entries if entry["code"] == "LOG404"]


def test_runs_without_steps_or_with_unreadable_ones_end_and_keep_no_other_from_its_upkeep(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    held = toy_config(record=1, gate=str(tmp_path / "never"), total_timesteps=5)
    held["artifacts"]["steps"] = {"keep_last": 100}
    empty, unreadable = (daemon.client.submit(held | {"run_name": name}).run.run_id for name in ("empty", "unreadable"))
    for run_id in (empty, unreadable):
        wait_for("its journal", lambda run_id=run_id: list(daemon.paths.run(run_id).outbox.glob(f"{STREAM}-*")))
        wait_for("a heartbeat after it", lambda run_id=run_id: daemon.client.run(run_id).state == "EXEC")
    path_of(daemon.paths.run(unreadable).outbox, STREAM).write_bytes(UNREADABLE)
    send_signal(worker_of(daemon, unreadable), signal.SIGKILL)
    daemon.wait_over(unreadable)
    daemon.client.cancel(empty)
    daemon.wait_over(empty)
    small = daemon.submit(record=2, total_timesteps=20, step_seconds=0.05, metrics=False)
    daemon.wait_over(small)
    wait_for("one chunk of many", lambda: len(list(daemon.client.step_chunks(small))) == 1)
    assert bugs_told(daemon) == []
