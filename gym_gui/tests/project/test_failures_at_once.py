"""What failed is known before the session is over: a session that is killed has printed it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
FAILS_AND_IS_KILLED = """
import os, signal, time
from pathlib import Path

def test_that_fails():
    assert 6 * 7 == 43, "the wrong answer"

def test_that_kills_the_session():
    deadline = time.monotonic() + 60
    while "the wrong answer" not in Path("printed").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("words", [("-n", "0"), ("-n", "1")], ids=["alone", "xdist"])
def test_a_session_that_is_killed_has_named_its_failure_and_shown_its_cause(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "test_one.py").write_text(FAILS_AND_IS_KILLED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    unused = (f"no:{name}" for name in ("cacheprovider", "pytest-qt", "hypothesispytest", "timeout"))
    plugins = [word for name in ("gym_gui.tests.support.failures_at_once", *unused) for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *words, "test_one.py"]
    with (tmp_path / "printed").open("wb") as printed:
        # Without what xdist gave this process: the inner session would kill it, thinking that it is its parent.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = str(PROJECT)
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=printed, stderr=subprocess.STDOUT, timeout=120, check=False
        )
    output = (tmp_path / "printed").read_text()
    assert ended.returncode == -signal.SIGKILL, output
    assert "FAILED NOW test_one.py::test_that_fails" in output
    assert "AssertionError: the wrong answer" in output
    assert "test_one.py:6: AssertionError" in output


def test_the_session_of_this_project_prints_failures_at_once(pytestconfig: pytest.Config) -> None:
    at_once = "gym_gui.tests.support.failures_at_once"
    assert pytestconfig.pluginmanager.has_plugin(at_once)
