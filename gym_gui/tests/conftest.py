"""Fixtures of the trainer's tests: daemons that are cleaned up, and whose history is checked after every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.history import check_history
from gym_gui.tests.support.warm_popen import TRAINS


@pytest.fixture(scope="module")
def workers_train() -> Iterator[None]:
    """For modules whose daemons start workers that import PyTorch: what these are forked from has imported it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TRAINS, "1")
        yield


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Make daemons (not started) that share one data root; afterwards nothing of them is left and the log is legal."""
    made: list[DaemonProcess] = []

    def make(*arguments: str, home: Path | None = None, **settings: Any) -> DaemonProcess:
        daemon = DaemonProcess(home or tmp_path / "home", *arguments, **settings)
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        daemon.clean_up()
    for home in {daemon.paths.root for daemon in made}:
        _check(next(daemon for daemon in made if daemon.paths.root == home))


def _check(daemon: DaemonProcess) -> None:
    if not daemon.paths.registry_db.exists():
        return
    registry = daemon.registry()
    try:
        check_history(registry, **daemon.has_cpus)
    finally:
        registry.close()


@pytest.fixture
def daemon(make_daemon: Callable[..., DaemonProcess]) -> DaemonProcess:
    """A daemon that answers."""
    return make_daemon().start()
