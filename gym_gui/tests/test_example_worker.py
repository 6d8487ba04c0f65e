"""The worker of docs/how-to/add-a-worker.md does what the page says, with nothing edited elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for

ROOT = Path(__file__).resolve().parents[2]


def _config(steps: int) -> dict[str, object]:
    worker = {
        "type": "sb3",
        "module": "sb3_worker.cli",
        "config": {"algo": "sb3_ppo", "env_id": "CartPole-v1", "total_timesteps": steps},
    }
    return {"run_name": "example", "resources": {}, "artifacts": {}, "metadata": {"worker": worker}}


def test_a_folder_dropped_on_the_worker_path_is_found_pauses_and_stops(
    make_daemon: Callable[..., DaemonProcess],
) -> None:
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = str(ROOT / "examples")
    daemon.start()
    assert "sb3" in {worker.type for worker in daemon.client.workers().workers}
    run_id = daemon.client.submit(_config(10_000_000)).run.run_id
    daemon.wait_state(run_id, "EXEC")
    wait_for("an episode", lambda: daemon.client.metrics(run_id, ["charts/episodic_return"])[0].values)
    daemon.client.pause(run_id)
    daemon.wait_state(run_id, "PAUSE")
    daemon.client.resume(run_id)
    daemon.wait_state(run_id, "EXEC")
    daemon.client.cancel(run_id, "seen enough")
    run = daemon.wait_over(run_id)
    assert run.outcome == "canceled"
    assert "seen enough" in run.reason


def test_the_page_shows_the_manifest_as_it_is() -> None:
    page = (ROOT / "docs/how-to/add-a-worker.md").read_text()
    manifest = (ROOT / "examples/sb3_worker/worker.toml").read_text()
    for line in (
        'type = "sb3"',
        'module = "sb3_worker.cli"',
        "[algorithms.sb3_ppo]",
        'summary = "Stable-Baselines3\'s PPO."',
    ):
        assert line in page
        assert line in manifest
