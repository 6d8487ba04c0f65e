"""A pytest plugin: daemons, workers and their tools are forked from processes that have imported what they import
(:mod:`gym_gui.tests.support.warm_popen`). Importing PyTorch and the rest takes 3 s of processor time, a fork 30 ms.

``PYTEST_COLD=1 make test`` has everything executed.
"""

from __future__ import annotations

import os

import pytest

from gym_gui.tests.support import warm_parent, warm_popen


def pytest_sessionstart(session: pytest.Session) -> None:
    # With xdist the session that starts the others runs no test.
    runs_tests = hasattr(session.config, "workerinput") or not session.config.getoption("numprocesses", None)
    if warm_popen.COLD not in os.environ and warm_parent.CAN_FORK_FOR_ITS_PARENT and runs_tests:
        warm_popen.install(may_start=True)


@pytest.hookimpl(tryfirst=True)  # before it is looked at what was left
def pytest_sessionfinish(session: pytest.Session) -> None:
    warm_popen.uninstall()
