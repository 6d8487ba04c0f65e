"""No test leaves a process: the daemons of tests take their workers with them, and a session that leaves one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.support.fault_tools import rewrite_run
from gym_gui.tests.support.marked_processes import (
    end_all,
    environment_of,
    processes_marked,
    processes_using,
    workers_using,
)
from gym_gui.tests.support.nothing_left_running import MARK_VARIABLE

PROJECT = Path(__file__).resolve().parents[3]

OTHERS = [
    word for name in ("cacheprovider", "pytest-qt", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")
]

LEAVES_ONE = """
import subprocess, sys

SLEEPER = "import time; time.sleep(600)"
FORKS_TWICE = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], start_new_session=True)"


def test_that_leaves_a_process():
    subprocess.run([sys.executable, "-c", FORKS_TWICE], check=True)
"""


def session_of_one(folder: Path, source: str, *words: str, patience: float) -> subprocess.CompletedProcess[str]:
    """Run pytest on one test file in a process of its own, with nothing of this project's but the plugin."""
    (folder / "test_one.py").write_text(source)
    (folder / "pytest.ini").write_text(f"[pytest]\nleftover_seconds = {patience}\n")
    plugin = "gym_gui.tests.support.nothing_left_running"
    command = [sys.executable, "-m", "pytest", "-q", *OTHERS, "-p", plugin, *words, "test_one.py"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("-n", "0"), ("-n", "1")], ids=["alone", "xdist"])
def test_a_session_that_leaves_a_process_fails_names_it_and_ends_it(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = session_of_one(tmp_path, LEAVES_ONE, *words, patience=0.2)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout
    assert "processes that tests left running" in ended.stdout
    assert "time.sleep(600)" in ended.stdout
    assert "started by test_one.py::test_that_leaves_a_process" in ended.stdout
    mine = processes_marked(MARK_VARIABLE, os.environ[MARK_VARIABLE])
    assert not [pid for pid in mine if "test_one.py" in environment_of(pid).get("PYTEST_CURRENT_TEST", "")]


def test_a_session_that_leaves_nothing_passes(tmp_path: Path) -> None:
    # A worker of xdist that takes its time to end on a busy machine was not left.
    ended = session_of_one(tmp_path, "def test_nothing():\n    pass\n", "-n", "1", patience=20)
    assert ended.returncode == pytest.ExitCode.OK, ended.stdout + ended.stderr


def test_a_worker_that_its_killed_daemon_had_not_noted_ends_with_the_test(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "home").start()
    try:
        run_id = daemon.submit(total_timesteps=10_000_000)
        daemon.wait_state(run_id, "EXEC")
        assert workers_using(daemon.paths.root)
        daemon.kill()
        with closing(daemon.registry()) as registry:
            rewrite_run(registry, run_id, locator="", pid=0)
        daemon.clean_up()
        wait_for("nothing to be left", lambda: not processes_using(daemon.paths.root))
    finally:
        end_all(lambda: processes_using(daemon.paths.root))
