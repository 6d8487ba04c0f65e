"""A pytest plugin: workers of xdist begin with the files that take longest.

A worker runs a file from its first test to its last, so a long one that begins late leaves the other workers idle.
``long_files.txt`` says what files took; ``--write-slow-tests`` renews it for the files that ran. xdist orders files by
their number of tests, unless it gets ``--no-loadscope-reorder``.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gym_gui.tests.support.slow_tests import read

LIST = Path(__file__).with_name("long_files.txt")
SECONDS = 5.0
"""Files that take less are not listed: those fill the gaps at the end."""
HEADER = f"""\
# Test files that take longer than {SECONDS:g} s: seconds on one core, and file; they begin first.
# Written by `make test PYTEST_ARGS=--write-slow-tests`.
"""


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist has its reports sent to the session that started it, which writes.
    if config.getoption("--write-slow-tests", default=False) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileDurations(LIST), "long-file-durations")


@pytest.hookimpl(trylast=True)  # after what chooses tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        took = read(LIST)
        items.sort(key=lambda item: took.get(file_of(item.nodeid), 0.0), reverse=True)  # stable: a file stays together


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class FileDurations:
    """Adds up what the tests of each file took, and writes the long ones when the session ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[file_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        merged = {**read(self._file), **self._took}
        kept = {name: seconds for name, seconds in merged.items() if seconds > SECONDS}
        lines = (f"{seconds:6.1f} {name}\n" for name, seconds in sorted(kept.items()))
        self._file.write_text(HEADER + "".join(lines), encoding="utf-8")
