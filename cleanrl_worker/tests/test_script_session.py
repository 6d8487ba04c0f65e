"""One of MOSAIC's scripts under its session: it waits, pauses, goes on and stops on request, and loses nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleanrl_worker.cleanrl import ppo
from mosaic_worker.state import checkpoints
from mosaic_worker.supervision import control
from mosaic_worker.tests.training.supervised import CHECKOUT, HANG_SECONDS, Start, starting, ticks_used_within


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as start:
        yield start


def test_ppo_waits_for_go_pauses_without_using_the_processor_resumes_and_stops_with_a_checkpoint(
    start: Start,
) -> None:
    script = start(str(ppo.__file__), "--total-timesteps", "1000000000")
    assert script.hear()["at"] == "ready"
    assert ticks_used_within(script, 0.5) <= 2
    assert script.rows() == []

    script.tell("go")
    script.wait_for_rows(0)
    script.tell("pause")
    paused = script.hear()
    assert paused["at"] == "paused" and paused["step"] > 0
    rows = len(script.rows())
    assert ticks_used_within(script, 1.0) <= 3
    assert len(script.rows()) == rows

    script.tell("resume")
    assert script.hear() == {"at": "resumed", "step": paused["step"]}
    script.wait_for_rows(rows)
    script.tell("stop")
    heard = [message for message in script.hear_until("stopped") if message["at"] != "checkpoint"]
    assert [message["at"] for message in heard] == ["stopping", "stopped"]
    assert script.end() == 0, script.errors
    assert heard[-1]["step"] == script.last_checkpoint().manifest.step >= paused["step"]


def test_each_episode_and_each_update_of_ppo_is_one_row_of_the_journal(start: Start) -> None:
    script = start(str(ppo.__file__), "--total-timesteps", "1024")
    script.hear_until("ready")
    script.tell("go")
    assert script.hear_until("done")[-1] == {"at": "done", "step": 1024}
    assert script.end() == 0, script.errors
    rows = script.rows()
    episodes = [row for row in rows if "charts/episodic_return" in row.values]
    assert [row.step for row in rows if "charts/SPS" in row.values] == [512, 1024]
    assert len(episodes) + 2 == len(rows) and len(episodes) > 10
    assert sum(row.values["charts/episodic_length"] or 0 for row in episodes) <= 1024
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))


@pytest.fixture
def by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(control.CONTROL_FD_VARIABLE, raising=False)
    monkeypatch.setenv(control.TENSORBOARD_VARIABLE, "0")
    return tmp_path


def test_ctrl_c_leaves_a_loadable_checkpoint(by_hand: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ppo.__file__), "--total-timesteps", "1000000000"],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], HANG_SECONDS)[0]
        assert process.stdout.readline().startswith("Training for 1,000,000,000 steps; files go to runs/")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0 and "Traceback" not in errors
    (run,) = (by_hand / "runs").iterdir()
    (path,) = checkpoints.list_checkpoints(run / "checkpoints")
    assert checkpoints.load(path).manifest.env_id == "CartPole-v1"
