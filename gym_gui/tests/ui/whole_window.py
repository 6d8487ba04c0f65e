"""The cockpit with all its parts, on the toy worker, for tests of what the parts do to each other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from PyQt6 import sip
from PyQt6.QtWidgets import QApplication, QWidget

from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess
from gym_gui.tests.ui.ending import delete_now, require_no_timer
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.composition import Composition
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.preferences import FILE_NAME
from mosaic_protocol.paths import MosaicPaths

HANG = 60_000
RETURN = "charts/episodic_return"
OpenWhole = Callable[..., CockpitApp]


def remember(home: Path, values: object) -> None:
    """Write the preferences file as a cockpit before would have."""
    home.mkdir(parents=True, exist_ok=True)
    text = values if isinstance(values, str) else json.dumps(values)
    (home / FILE_NAME).write_text(text, encoding="utf-8")


@pytest.fixture
def open_whole(qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWhole]:
    """Open the whole cockpit with the toy worker's form in front; afterwards nothing unexpected was reported."""
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))
    opened: list[CockpitApp] = []

    def make(
        daemon: DaemonProcess | None = None,
        memory: object = None,
        *,
        home: Path | None = None,
        start_daemon: bool = False,
        connect: bool = True,
    ) -> CockpitApp:
        paths = daemon.paths if daemon is not None else MosaicPaths(home or tmp_path / "cockpit-home")
        if memory is None:
            memory = {"train.worker": "toy", "welcome.seen": True}
        if home is None:
            remember(paths.root, memory)
        cockpit = CockpitApp(qapp, paths, Composition().parts(), start_daemon=start_daemon)
        opened.append(cockpit)
        cockpit.open() if connect else cockpit.window.show()
        return cockpit

    yield make
    reports = []
    for cockpit in opened:
        if not sip.isdeleted(cockpit.window):
            cockpit.close()
        reports += cockpit.reporter.reports
        delete_now(cockpit)
    assert reports == [], [str(getattr(one, "text", one)) for one in reports]
    require_no_timer()


def train_dock(cockpit: CockpitApp) -> TrainDock:
    found = cockpit.window.findChild(TrainDock)
    assert found is not None
    return found


def toy_form(cockpit: CockpitApp) -> SchemaTrainForm | None:
    return cast("SchemaTrainForm | None", train_dock(cockpit).forms.get("toy"))


def store(cockpit: CockpitApp) -> MetricsStore:
    return MetricsStore.of(cockpit.bridge)


def steps_shown(cockpit: CockpitApp, run_id: str) -> list[float]:
    metrics = store(cockpit).metrics(run_id)
    if metrics is None or RETURN not in metrics.series:
        return []
    return list(metrics.series[RETURN].buffer.steps)


def part(cockpit: CockpitApp, kind: type[Any]) -> Any:
    found = cockpit.window.findChild(kind)
    assert isinstance(found, QWidget)
    return found


def resident_bytes() -> int:
    """How much memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children() -> set[int]:
    """The living child processes of this one."""
    mine = str(os.getpid())
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _parent(entry) == mine}


def _parent(process: Path) -> str:
    """The parent's id, "" of one that is gone or has only to be waited for."""
    try:
        state, parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return ""
    return "" if state == "Z" else parent
