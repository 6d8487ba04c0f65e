"""Cockpits for the tests: without a screen, on a data root of their own, and closed whatever happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.tests.ui.ending import delete_now, require_no_timer
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from mosaic_protocol.paths import MosaicPaths

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

MakeCockpit = Callable[..., CockpitApp]
OpenForm = Callable[..., tuple[DaemonProcess, TrainDock, SchemaTrainForm]]
HANG = 60_000


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


@pytest.fixture
def open_form(
    make_cockpit: MakeCockpit,
    make_daemon: Callable[..., DaemonProcess],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OpenForm]:
    """A cockpit with the form of a dropped-in worker that declares these things."""
    unexpected: list[object] = []

    def make(**declared: Any) -> tuple[DaemonProcess, TrainDock, SchemaTrainForm]:
        folder = dropped_worker(tmp_path / "workers", **declared)
        monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
        daemon = make_daemon()
        daemon.env["MOSAIC_WORKER_PATH"] = str(folder)
        daemon.start()
        cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
        dock = cockpit.window.docks["train"].widget()
        assert isinstance(dock, TrainDock)
        cockpit.reporter.happened.connect(unexpected.append)
        qtbot.waitUntil(lambda: "dropped" in dock.catalog.entries, timeout=HANG)
        dock.workers.choose("dropped")
        form = dock.form
        assert isinstance(form, SchemaTrainForm)
        qtbot.waitUntil(lambda: form.waiting() == "", timeout=HANG)
        return daemon, dock, form

    yield make
    assert unexpected == []
