"""Cockpits for the tests: without a screen, on a data root of their own, and closed whatever happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.ending import delete_now, require_no_timer
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.parts import Part
from mosaic_protocol.paths import MosaicPaths

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

MakeCockpit = Callable[..., CockpitApp]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("trainer-")]
    assert left == []


@pytest.fixture
def make_cockpit(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[MakeCockpit]:
    """Open a cockpit on a daemon's data root, or on an empty one without ever starting a daemon."""
    opened: list[CockpitApp] = []

    def make(
        daemon: DaemonProcess | None = None, parts: Sequence[Part] | None = (), *, start: bool = True
    ) -> CockpitApp:
        paths = daemon.paths if daemon is not None else MosaicPaths(tmp_path / "cockpit-home")
        cockpit = CockpitApp(qapp, paths, parts, start_daemon=False)
        opened.append(cockpit)
        if start and daemon is not None:
            cockpit.open()
        else:
            cockpit.window.show()
        return cockpit

    yield make
    for cockpit in opened:
        cockpit.close()
        delete_now(cockpit)
    require_no_timer()
