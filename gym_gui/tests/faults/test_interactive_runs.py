"""Interactive runs have CPUs of their own: they start beside training that fills the machine, and are counted right
after a crash of the daemon."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.services.trainer.client import RequestRefusedError
from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess, toy_config, wait_for

LONG = 1_000_000


@pytest.fixture
def playful(make_daemon: Callable[..., DaemonProcess], tmp_path: Path) -> DaemonProcess:
    """A daemon with a toy worker whose runs are interactive, two CPUs for training and one for sessions."""
    package = tmp_path / "workers" / "session_worker"
    shutil.copytree(WORKERS / "toy_worker", package)
    for file in package.glob("*.*"):
        text = file.read_text().replace("toy_worker", "session_worker").replace('"toy"\n', '"session"\n')
        file.write_text(text.replace("[capabilities]", "[capabilities]\ninteractive = true"))
    daemon = make_daemon(cpus=2, interactive_cpus=1)
    daemon.env["MOSAIC_WORKER_PATH"] = f"{WORKERS}:{package.parent}"
    return daemon.start()


def session(daemon: DaemonProcess, *, name: str = "session", cpus: int = 1) -> str:
    config = toy_config(worker="session", name=name, cpus=cpus, total_timesteps=LONG)
    return daemon.client.submit(config).run.run_id


def test_a_session_starts_while_training_fills_the_machine_and_is_counted_apart(playful: DaemonProcess) -> None:
    training = playful.submit(name="training", cpus=2, total_timesteps=LONG)
    playful.wait_state(training, "EXEC")
    waiting = playful.submit(name="waiting", cpus=2, total_timesteps=LONG)
    played = session(playful, name="played")
    playful.wait_state(played, "EXEC")
    second = session(playful, name="second")
    health = playful.client.health()
    assert (health.reserved.cpus, health.interactive_reserved, health.interactive_cpus) == (2, 1, 1)
    assert (health.queued, health.interactive_queued) == (2, 1)
    assert [playful.client.run(run_id).queue_position for run_id in (waiting, second)] == [1, 1]

    playful.kill()
    playful.start()
    health = playful.client.health()
    assert (health.reserved.cpus, health.interactive_reserved) == (2, 1)
    assert [playful.client.run(run_id).state for run_id in (waiting, second)] == ["INIT", "INIT"]
    assert playful.client.run(played).interactive

    playful.client.cancel(played)
    playful.wait_state(second, "EXEC")
    assert playful.client.run(waiting).state == "INIT"
    for run_id in (second, waiting, training):
        playful.client.cancel(run_id)
        playful.wait_over(run_id)
    wait_for("nothing reserved", lambda: not playful.client.health().interactive_reserved)


def test_a_session_that_asks_for_more_than_sessions_have_is_refused_with_the_numbers(playful: DaemonProcess) -> None:
    with pytest.raises(RequestRefusedError, match="2 CPUs where there is 1 for interactive runs"):
        session(playful, cpus=2)
