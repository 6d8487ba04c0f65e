"""The TensorBoard tab: waits for data, starts a real server, ends it, and says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.keepers import keepers_below
from gym_gui.tests.support.made_logs import curve, written
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.analytics_tabs import AnalyticsTabManager
from gym_gui.ui.panels.tensorboard_tab import TensorBoardTab, _Data, _data_of
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import Discovery

HANG = 120_000


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "01K9ZQ3V7X0000000000000000"
    (directory / "tensorboard").mkdir(parents=True)
    return directory


@pytest.fixture
def cockpit(make_cockpit: MakeCockpit) -> CockpitApp:
    return make_cockpit()


@pytest.fixture
def tab(cockpit: CockpitApp, run_dir: Path, qtbot: QtBot) -> Iterator[TensorBoardTab]:
    cockpit.bridge._timer.start()  # answers are delivered although there is no daemon
    tab = TensorBoardTab(cockpit.window.cockpit, run_dir.name, run_dir)
    qtbot.addWidget(tab)
    yield tab
    tab.close_tab()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return bool(page.status == 200)
    except OSError:
        return False


def write_events(run_dir: Path) -> None:
    (run_dir / "tensorboard" / "events.out.tfevents.1.here").write_bytes(b"")


def test_a_tab_without_data_waits_and_then_shows_a_real_server(
    tab: TensorBoardTab, run_dir: Path, qtbot: QtBot
) -> None:
    tab.show()
    qtbot.waitUntil(lambda: tab.told.startswith("Not available yet"), timeout=HANG)
    assert tab.server is None and not tab.address and tab.message.button.isHidden()
    write_events(run_dir)
    qtbot.waitUntil(lambda: bool(tab.address), timeout=HANG)
    assert tab.is_embedded or (tab.address in tab.told and tab.message.button.text() == "Open in the browser")
    assert tab.server is not None
    with urllib.request.urlopen(tab.server.address, timeout=60) as page:
        assert page.status == 200
    address = tab.server.address
    tab.close_tab()
    qtbot.waitUntil(lambda: not answers(address), timeout=HANG)


def test_where_no_browser_opens_the_address_is_shown_to_copy(
    tab: TensorBoardTab, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_gui.ui.web_view.QDesktopServices.openUrl", lambda url: False)
    monkeypatch.setattr(TensorBoardTab, "address", "http://127.0.0.1:6006/")
    said: list[Notice] = []
    monkeypatch.setattr(tab, "_cockpit", replace(tab._cockpit, notify=said.append))
    tab._open_browser()
    (notice,) = said
    assert "http://127.0.0.1:6006/" in notice.text and notice.act is not None
    notice.act()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == "http://127.0.0.1:6006/"


def test_a_tab_that_was_shown_for_an_instant_starts_no_server(
    tab: TensorBoardTab, run_dir: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(run_dir)
    decided: list[object] = []
    decide = tab._decide

    def note(data: Any) -> None:
        decided.append(data)
        decide(data)

    monkeypatch.setattr(tab, "_decide", note)
    tab.show()
    tab.hide()
    qtbot.waitUntil(lambda: bool(decided), timeout=HANG)
    assert tab.server is None


def test_a_finished_run_without_data_says_so(tab: TensorBoardTab, run_dir: Path, qtbot: QtBot) -> None:
    (run_dir / "analytics.json").write_text('{"state": "TERM"}')
    tab.show()
    qtbot.waitUntil(lambda: tab.told == "This run wrote no TensorBoard data.", timeout=HANG)


def test_a_server_that_cannot_start_is_shown_with_the_way_out(
    tab: TensorBoardTab, run_dir: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym_gui.services.package_python.find_spec", lambda name: None)
    monkeypatch.setattr("mosaic_protocol.worker_manifest.discover", lambda: Discovery({}, []))
    write_events(run_dir)
    tab.show()
    qtbot.waitUntil(lambda: tab.message.button.text() == "Try again", timeout=HANG)
    assert "mosaic bundles install cleanrl" in tab.told


def test_a_server_that_died_can_be_started_again(tab: TensorBoardTab, run_dir: Path, qtbot: QtBot) -> None:
    write_events(run_dir)
    tab.show()
    qtbot.waitUntil(lambda: bool(tab.address), timeout=HANG)
    assert tab.server is not None
    first = tab.server
    (keeper,) = keepers_below(tab._cockpit.bridge.paths.tensorboard_servers)
    os.kill(keeper, signal.SIGKILL)
    qtbot.waitUntil(lambda: tab.message.button.text() == "Try again", timeout=HANG)
    tab.message.button.click()
    qtbot.waitUntil(lambda: bool(tab.address), timeout=HANG)
    assert tab.server is not first


def test_tensorboard_wandb_and_optuna_are_the_tabs() -> None:
    assert [tab.name for tab in AnalyticsTabManager().tabs()] == ["tensorboard", "wandb", "optuna"]


def test_an_imported_run_is_shown_from_where_it_was_imported(tmp_path: Path) -> None:
    source = tmp_path / "elsewhere"
    written(source, *curve("x", [1]))
    config = {"metadata": {"worker": {"type": "imported", "config": {"extras": {"imported_from": str(source)}}}}}
    run = pb.Run(run_id="X", state="TERM", worker_type="imported", config_json=json.dumps(config))
    assert _data_of(RunPaths(tmp_path / "run"), run) == (_Data.THERE, source)
    shutil.rmtree(source)
    assert _data_of(RunPaths(tmp_path / "run"), run)[0] is _Data.NEVER
