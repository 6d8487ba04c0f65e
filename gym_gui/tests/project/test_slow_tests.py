"""`make test-fast` leaves out what is slow by its kind or was measured as slow, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym_gui.tests.support import slow_tests

PROJECT = Path(__file__).resolve().parents[3]

TESTS = """
import time
import pytest

@pytest.fixture
def make_daemon():
    return None

@pytest.fixture
def asks_for_one(make_daemon):
    return None

def test_with_a_daemon(make_daemon):
    pass

def test_with_a_daemon_behind_a_fixture(asks_for_one):
    pass

@pytest.mark.parametrize("seconds", [0, 0.6])
def test_that_takes_long(seconds):
    time.sleep(seconds)

def test_quick():
    pass
"""


def session(folder: Path, *words: str) -> list[str]:
    """The tests that a pytest with this plugin alone runs, in a process of its own."""
    plugins = ["-p", "gym_gui.tests.support.slow_tests", "-p", "no:cacheprovider", "-p", "no:pytest-qt"]
    command = [sys.executable, "-m", "pytest", "-v", *plugins, *words, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(folder / "changed") + os.pathsep + str(PROJECT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split()[0].rpartition("/")[2] for line in done.stdout.splitlines() if " PASSED" in line]


@pytest.mark.parametrize("folder", ["faults", "."])
def test_tests_are_slow_by_their_kind(folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / folder / "test_x.py").write_text(TESTS)
    (tmp_path / folder / "test_ppo_script.py").write_text("def test_training():\n    pass\n")
    (tmp_path / "test_y.py").write_text("def test_y():\n    pass\n")
    ran = session(tmp_path, "-m", "not slow")
    quick = ["test_x.py::test_that_takes_long[0]", "test_x.py::test_that_takes_long[0.6]", "test_x.py::test_quick"]
    assert ran == [*(quick if folder == "." else []), "test_y.py::test_y"]


def test_what_took_long_is_listed_with_the_slowest_of_its_parameters_and_what_did_not_run_stays(tmp_path: Path) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("# header\n  9.00 test_elsewhere.py::test_kept\n  3.00 test_x.py::test_quick\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        f"from pathlib import Path\nfrom gym_gui.tests.support import slow_tests\n"
        f"slow_tests.LIST = Path({str(listed)!r})\n"
    )
    (tmp_path / "test_x.py").write_text(TESTS)
    assert "test_x.py::test_quick" not in session(tmp_path, "-m", "not slow")
    session(tmp_path, "--write-slow-tests", "-n", "1")
    found = slow_tests.read(listed)
    assert set(found) == {"test_elsewhere.py::test_kept", "test_x.py::test_that_takes_long"}
    assert 0.6 <= found["test_x.py::test_that_takes_long"] < 9


def test_a_long_form_is_given_longer_before_it_counts_as_hung(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly\n")
    marks = "@pytest.mark.timeout(0.2)\n@pytest.mark.nightly\n"
    (tmp_path / "test_z.py").write_text(f"import time, pytest\n\n{marks}def test_long():\n    time.sleep(0.6)\n")
    assert session(tmp_path) == ["test_z.py::test_long"]


def test_the_list_of_this_project_can_be_read() -> None:
    assert all(seconds > slow_tests.SECONDS for seconds in slow_tests.read(slow_tests.LIST).values())


def test_make_test_runs_slow_tests_and_make_test_fast_does_not() -> None:
    def shown(target: str) -> str:
        command = ["make", "-n", "-o", "setup-dev", target, "PYTEST_ARGS="]
        return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout

    assert "slow" not in shown("test")
    assert "not slow and not nightly" in shown("test-fast")
