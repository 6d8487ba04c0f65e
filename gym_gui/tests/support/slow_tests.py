"""A pytest plugin: marks tests as ``slow``, which ``make test-fast`` leaves out and ``make test`` runs. Those marked
``nightly``, the long forms, are given longer before they count as hung.

A test is slow by its kind (it starts a real daemon, breaks things, trains, installs) or because it was measured:
``slow_tests.txt`` names every other test that took longer than a limit. ``--write-slow-tests`` renews that list for the
tests that ran. It names the file and the function, not the folder, so that a test may move.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")
SECONDS = 0.5
"""What takes longer is slow: setting up, the test and tearing down together."""
NIGHTLY_SECONDS = 1800
"""A long form that takes two minutes of a free core takes ten of one that others use too, and is not hung."""
DAEMON_FIXTURES = frozenset({"daemon", "make_daemon"})
TRAINING_DAEMON = "cleanrl_daemon"
"""A module that imports this one has a fixture of its own with a daemon that trains."""
SLOW_FOLDERS = frozenset({"faults"})
TRAINS = re.compile(r"test_\w+_script\.py")
_BUILD_ENVIRONMENTS = "bundles install_extras setup_torch"
_START_WORKERS = (
    "beginning cli cli_checkpoints cockpit_sessions evaluation fork_server harness_process import_checkpoint "
    "local_executor open_replay play_advice play_seats play_sessions play_undo policy_process "
    "resumed_environments runtime script_process tracking trainer_cleanrl_worker video video_resume warm_pool warm_up"
)
_START_PROGRAMS = (
    "cli_on docs_site elsewhere live_stage nothing_left_running onboarding own_server remote_link run_servers "
    "slow_tests ssh_command xmpp_docs"
)
SLOW_FILES = frozenset(
    f"test_{name}.py" for name in f"{_BUILD_ENVIRONMENTS} {_START_WORKERS} {_START_PROGRAMS}".split()
)
HEADER = f"""\
# Tests that take longer than {SECONDS} s and whose kind does not say so: seconds, file and function.
# Written by `make test PYTEST_ARGS=--write-slow-tests`; the slowest of a function's parameters counts.
"""

_SLOW_BY_KIND = "slow_by_kind"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-slow-tests", action="store_true", help=f"renew {LIST.name} for the tests that ran")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by make test-fast")
    # A worker of xdist has its reports sent to the session that started it, which writes.
    if config.getoption("--write-slow-tests") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(LIST), "slow-test-durations")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    measured = read(LIST)
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.timeout(NIGHTLY_SECONDS), append=False)  # before what its short form has
        if slow_by_kind(item):
            item.user_properties.append((_SLOW_BY_KIND, True))
            item.add_marker(pytest.mark.slow)
        elif name_of(item.nodeid) in measured:
            item.add_marker(pytest.mark.slow)


def slow_by_kind(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    folders = set(item.path.parts[:-1])
    trains = hasattr(getattr(item, "module", None), TRAINING_DAEMON)
    by_file = trains or item.path.name in SLOW_FILES or TRAINS.fullmatch(item.path.name)
    return bool(DAEMON_FIXTURES & fixtures or SLOW_FOLDERS & folders or by_file)


def name_of(nodeid: str) -> str:
    """``folder/test_x.py::test_y[parameter]`` as ``test_x.py::test_y``."""
    return nodeid.partition("[")[0].rpartition("/")[2]


def read(file: Path) -> dict[str, float]:
    """Seconds by name; nothing where there is no list yet."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {name: float(seconds) for seconds, name in (line.split() for line in lines if not line.startswith("#"))}


class Durations:
    """Adds up what each test took, and writes those that took long when the session ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (_SLOW_BY_KIND, True) not in map(tuple, report.user_properties):
            self._took[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        slowest: dict[str, float] = {}
        for nodeid, seconds in self._took.items():
            slowest[name_of(nodeid)] = max(seconds, slowest.get(name_of(nodeid), 0.0))
        merged = {**read(self._file), **slowest}
        kept = {name: seconds for name, seconds in merged.items() if round(seconds, 2) > SECONDS}
        lines = (f"{seconds:6.2f} {name}\n" for name, seconds in sorted(kept.items()))
        self._file.write_text(HEADER + "".join(lines), encoding="utf-8")
