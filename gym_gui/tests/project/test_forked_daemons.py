"""Daemons of tests are forked from one that is imported already, and are what an executed one would be."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from gym_gui.services.trainer.daemon_control import EXIT_ALREADY_RUNS
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.forked_daemons import ForkedDaemon
from gym_gui.tests.support.marked_processes import environment_of, processes_using

MakeDaemon = Callable[..., DaemonProcess]


def test_a_forked_daemon_is_found_by_its_data_root_and_carries_its_environment(daemon: DaemonProcess) -> None:
    assert isinstance(daemon.process, ForkedDaemon)
    assert processes_using(daemon.paths.root) == [daemon.process.pid]
    shown = environment_of(daemon.process.pid)
    assert daemon.env.items() - shown.items() == set()
    assert "MOSAIC_RUN_ID" not in shown
    run = daemon.wait_over(daemon.submit(total_timesteps=3))
    assert run.outcome == "completed", run.reason


def test_how_a_forked_daemon_ended_is_known(make_daemon: MakeDaemon) -> None:
    killed, stopped, refused = make_daemon(), make_daemon(), make_daemon()
    killed.start()
    assert refused.launch().wait(60) == EXIT_ALREADY_RUNS
    assert killed.process is not None and killed.process.poll() is None
    killed.kill()
    assert killed.process.poll() == -signal.SIGKILL
    assert stopped.start().terminate() == 0


@pytest.mark.parametrize("variable", ["PYTHONHASHSEED", "LD_BIND_NOW"])
def test_what_an_interpreter_reads_when_it_starts_has_a_daemon_executed(make_daemon: MakeDaemon, variable: str) -> None:
    daemon = make_daemon()
    daemon.env[variable] = "1"
    process = daemon.launch()
    assert not isinstance(process, ForkedDaemon)
    assert environment_of(process.pid)[variable] == "1"
