"""What a worker that was started by hand prints of its life: one JSON object a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cleanrl_worker.telemetry import StdoutEmitter


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_by_hand_says_now_and_then_that_it_lives(capsys: pytest.CaptureFixture[str]) -> None:
    emitter = StdoutEmitter(heartbeat_seconds=0.0)
    emitter.say("run_started", step=0)
    emitter.beat(7)
    started, beat = said(capsys)
    assert started["event"] == "run_started"
    assert (beat["event"], beat["step"]) == ("heartbeat", 7)
    assert beat["time"] >= started["time"]


def test_no_heartbeat_comes_right_after_another_word(capsys: pytest.CaptureFixture[str]) -> None:
    emitter = StdoutEmitter(heartbeat_seconds=1000.0)
    emitter.artifact("checkpoint", "c", 3)
    emitter.beat(4)
    assert [line["event"] for line in said(capsys)] == ["artifact"]


BY_HAND = """
import runpy, sys
from cleanrl_worker.telemetry import StdoutEmitter
StdoutEmitter.__init__.__defaults__ = (0.2,)
runpy.run_module("cleanrl_worker.cli", run_name="__main__", alter_sys=True)
"""


def test_the_supervisor_of_a_run_by_hand_prints_heartbeats(tmp_path: Path) -> None:
    script = tmp_path / "patient.py"
    script.write_text("import time\ntime.sleep(3)\n")
    told = subprocess.run(
        [sys.executable, "-c", BY_HAND, "--script", str(script)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    events = [line["event"] for line in lines]
    assert (events[0], events[-1], set(events[1:-1])) == ("run_started", "run_completed", {"heartbeat"})
