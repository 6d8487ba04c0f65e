"""Files that take longest begin first, so that no worker is left with a long one at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gym_gui.tests.support import longest_files_first
from gym_gui.tests.support.slow_tests import read

PROJECT = Path(__file__).resolve().parents[3]
SEVERAL_QUICK = "def test_1():\n    pass\ndef test_2():\n    pass\n"
ONE_THAT_TAKES_LONG = "import time\ndef test_long():\n    time.sleep(0.3)\n"


def make_dry(target: str) -> str:
    command = ["make", "-n", "-o", "setup-dev", target]
    return subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True).stdout


def test_files_begin_in_the_order_of_what_they_took_and_are_listed_with_what_they_take_now(tmp_path: Path) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("# header\n  90.0 elsewhere/test_kept.py\n  80.0 test_slow.py\n  70.0 test_quick.py\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "from pathlib import Path\nfrom gym_gui.tests.support import longest_files_first, slow_tests\n"
        f"longest_files_first.LIST, longest_files_first.SECONDS = Path({str(listed)!r}), 0.2\n"
        f"slow_tests.LIST = Path({str(tmp_path / 'tests.txt')!r})\n"
    )
    (tmp_path / "test_quick.py").write_text(SEVERAL_QUICK)
    (tmp_path / "test_slow.py").write_text(ONE_THAT_TAKES_LONG)
    assert order_of_files(tmp_path, "--write-slow-tests") == ["test_slow.py", "test_quick.py", "test_quick.py"]
    now = read(listed)
    assert now.keys() == {"elsewhere/test_kept.py", "test_slow.py"}
    assert now["elsewhere/test_kept.py"] == 90 and 0.2 < now["test_slow.py"] < 80


def order_of_files(folder: Path, *words: str) -> list[str]:
    """The files of the tests, in the order in which the only worker ran them."""
    ours = (f"gym_gui.tests.support.{name}" for name in ("slow_tests", "longest_files_first"))
    unused = (f"no:{name}" for name in ("cacheprovider", "pytest-qt", "hypothesispytest", "timeout"))
    plugins = [word for name in (*ours, *unused) for word in ("-p", name)]
    distribution = ["-n", "1", "--dist", "loadfile", "--no-loadscope-reorder"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugins, *distribution, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = (line for line in done.stdout.splitlines() if " PASSED " in line)
    return [line.split()[-1].partition("::")[0] for line in passed]


def test_make_test_keeps_this_order() -> None:
    assert all("--no-loadscope-reorder" in make_dry(target) for target in ("test", "nightly", "coverage"))


def test_the_list_of_this_project_names_files_that_exist() -> None:
    listed = read(longest_files_first.LIST)
    assert listed and [name for name in listed if not (PROJECT / name).exists()] == []
