"""A pytest plugin: a session that leaves a process behind fails, names it and ends it.

Each session (each worker of xdist has its own) marks what it starts with a variable that children inherit, and looks
for the mark in ``/proc`` when everything is torn down. A listening socket has a process, so none is left either.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import Any

import pytest

from gym_gui.tests.support.marked_processes import command_of, end_all, environment_of, processes_marked

MARK_VARIABLE = "PYTEST_MOSAIC_SESSION"
"""Does not begin with ``MOSAIC_``: some tests clear the environment of those."""
_PATIENCE_SETTING = "leftover_seconds"
_LIVES_AS_LONG_AS_PYTEST = "multiprocessing.resource_tracker"

_mark = pytest.StashKey[str]()
_left = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    # A fork server that still imports takes a while to notice that its daemon is gone.
    parser.addini(_PATIENCE_SETTING, "how long processes may take to end after the last test", default="15")


def pytest_configure(config: pytest.Config) -> None:
    outer = os.environ.get(MARK_VARIABLE, "")
    config.stash[_mark] = os.environ[MARK_VARIABLE] = f"{outer}/{uuid.uuid4().hex}" if outer else uuid.uuid4().hex
    config.stash[_left] = []


def pytest_unconfigure(config: pytest.Config) -> None:
    """A session inside this process leaves the mark as it was."""
    outer = config.stash[_mark].rpartition("/")[0]
    if outer:
        os.environ[MARK_VARIABLE] = outer
    else:
        os.environ.pop(MARK_VARIABLE, None)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """A worker of xdist reports what it found; one that crashed is looked after at the end."""
    node.config.stash[_left] += getattr(node, "workeroutput", {}).get(MARK_VARIABLE, [])


@pytest.hookimpl(trylast=True)  # fixtures of the session are torn down before
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    left = config.stash[_left] + _found_and_ended(config.stash[_mark], float(config.getini(_PATIENCE_SETTING)))
    config.stash[_left] = left
    if hasattr(config, "workeroutput"):
        config.workeroutput[MARK_VARIABLE] = left
    elif left and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash[_left]:
        terminalreporter.section("processes that tests left running (ended now)", red=True)
        for one in left:
            terminalreporter.line(one)


def _found_and_ended(mark: str, patience: float) -> list[str]:
    """What outlived the tests by more than a moment, in words."""

    def find() -> list[int]:
        return [pid for pid in processes_marked(MARK_VARIABLE, mark) if _LIVES_AS_LONG_AS_PYTEST not in command_of(pid)]

    deadline = time.monotonic() + patience
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [f"{command_of(pid)} (pid {pid}), started by {_test_that_started(pid)}" for pid in found]
    end_all(find)
    return left


def _test_that_started(pid: int) -> str:
    return environment_of(pid).get("PYTEST_CURRENT_TEST", "no test in particular")
