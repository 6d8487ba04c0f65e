"""The W&B tab: waits for files, shows curves without network, uploads in a process, and keeps a key in no file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtNetwork import QNetworkProxy
from PyQt6.QtWidgets import QApplication, QTreeWidgetItem
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.wandb_tab import WandbTab
from gym_gui.ui.wandb_room import WandbRoom
from gym_gui.ui.web_view import use_proxy
from gym_gui.ui.widgets.fix_runner import FixRunner
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.tests.made_wandb_files import curve_records, log, tracked_run
from mosaic_protocol.tracking_record import FINISHED, TrackingRecord, write_record

HANG = 60_000
RUN_ID = "01K9ZQ3V7X0000000000000000"
SECRET = "5ecre7" * 7


@pytest.fixture
def cockpit(make_cockpit: MakeCockpit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CockpitApp:
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return make_cockpit()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / RUN_ID


@pytest.fixture
def tab(cockpit: CockpitApp, run_dir: Path, qtbot: QtBot) -> Iterator[WandbTab]:
    cockpit.bridge._timer.start()  # answers are delivered although there is no daemon
    tab = WandbTab(cockpit.window.cockpit, RUN_ID, run_dir)
    tab._timer.setInterval(20)
    qtbot.addWidget(tab)
    yield tab
    tab.close_tab()


def going_on(tab: WandbTab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tab._cockpit.runs, "get", lambda _: pb.Run(run_id=RUN_ID, state="EXEC"))


def shown(tab: WandbTab, qtbot: QtBot) -> None:
    tab.show()
    qtbot.waitUntil(lambda: tab.news is not None and not tab.told, timeout=HANG)


def _name(head: QTreeWidgetItem, number: int) -> str:
    child = head.child(number)
    return child.text(0) if child is not None else ""


def test_a_tab_waits_for_the_files_and_shows_the_curves_as_they_grow(
    tab: WandbTab, run_dir: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on(tab, monkeypatch)
    tab.show()
    qtbot.waitUntil(lambda: tab.told.startswith("Not available yet"), timeout=HANG)
    content = log(curve_records(40))
    file = tracked_run(run_dir, [])
    file.write_bytes(content[: len(content) // 2])
    tag = "charts/episodic_return"
    qtbot.waitUntil(lambda: tag in tab.metrics.series, timeout=HANG)
    file.write_bytes(content)
    qtbot.waitUntil(lambda: len(tab.metrics.series[tag].buffer) == 40, timeout=HANG)
    qtbot.waitUntil(lambda: tag in tab.grid.cards, timeout=HANG)
    assert tab.metrics.series[tag].buffer.steps[-1] == 390 and tab.metrics.series[tag].buffer.values[-1] == 78
    assert tab.head.state.text() == "Offline · walks / a name"


def test_a_run_that_was_not_tracked_says_how_to_track_the_next(tab: WandbTab, qtbot: QtBot) -> None:
    tab.show()
    qtbot.waitUntil(lambda: "--track" in tab.told, timeout=HANG)
    assert tab.message.title.text() == "This run was not tracked with W&B"


def test_a_run_whose_tracking_came_to_nothing_is_not_said_to_be_untracked(
    tab: WandbTab, run_dir: Path, qtbot: QtBot
) -> None:
    (run_dir / "wandb").mkdir(parents=True)
    tab.show()
    qtbot.waitUntil(lambda: tab.message.title.text() == "W&B recorded nothing of this run", timeout=HANG)
    assert "log may say why" in tab.told


def test_the_summary_has_settings_and_last_values_and_is_not_markup(tab: WandbTab, run_dir: Path, qtbot: QtBot) -> None:
    tracked_run(run_dir, curve_records())
    shown(tab, qtbot)
    tab.choice.choose("summary")
    heads = [tab.facts.topLevelItem(n) for n in range(tab.facts.topLevelItemCount())]
    lines = {head.text(0): [_name(head, n) for n in range(head.childCount())] for head in heads if head is not None}
    assert lines == {"Summary": ["best", "charts/episodic_return"], "Settings": ["learning_rate", "seed"]}
    assert tab.head.state.textFormat() == Qt.TextFormat.PlainText and tab.facts.isVisible()


def test_the_command_is_copied_and_an_uploaded_run_offers_its_page(tab: WandbTab, run_dir: Path, qtbot: QtBot) -> None:
    file = tracked_run(run_dir, curve_records())
    shown(tab, qtbot)
    assert tab.head.command.text() == f"wandb sync {file.parent}" and tab.head.open.isHidden()
    tab.head.copy.click()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == f"wandb sync {file.parent}"
    file.with_name(f"{file.name}.synced").touch()
    write_record(run_dir, TrackingRecord("offline", url="https://wandb.ai/t/p/runs/x", state=FINISHED))
    qtbot.waitUntil(tab.head.command.isHidden, timeout=HANG)
    assert tab.head.sync.isHidden() and not tab.head.open.isHidden() and "Uploaded." in tab.head.sentence.text()
    assert "https://wandb.ai/t/p/runs/x" in tab.head.sentence.text()


def test_a_cut_file_is_said_to_be_cut(tab: WandbTab, run_dir: Path, qtbot: QtBot) -> None:
    tracked_run(run_dir, []).write_bytes(log(curve_records(40))[:1500])
    shown(tab, qtbot)
    assert "what is whole is shown" in tab.note.text() and tab.metrics.series


# ---- the key and the upload --------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """What would have been run, with which environment."""
    found: list[tuple[list[str], dict[str, str]]] = []

    def run(_: FixRunner, words: list[str], environ: Any = None) -> None:
        found.append((list(words), dict(environ or {})))

    monkeypatch.setattr(FixRunner, "run", run)
    return found


def test_without_a_keyring_a_key_stays_in_memory_and_reaches_the_upload_through_its_environment(
    tab: WandbTab, run_dir: Path, qtbot: QtBot, started: list[Any], tmp_path: Path
) -> None:
    tracked_run(run_dir, curve_records())
    shown(tab, qtbot)
    tab.head.sync.click()
    qtbot.waitUntil(tab.head.prompt.isVisible, timeout=HANG)
    assert "There is no key" in tab.head.prompt.why.text() and not started
    qtbot.keyClicks(tab.head.prompt.field, "too short")
    qtbot.keyClick(tab.head.prompt.field, Qt.Key.Key_Return)
    assert "at least 40" in tab.head.prompt.problem.text() or "letters" in tab.head.prompt.problem.text()
    tab.head.prompt.field.clear()
    qtbot.keyClicks(tab.head.prompt.field, SECRET)
    qtbot.keyClick(tab.head.prompt.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "stays in memory until this cockpit closes" in tab.head.progress.text(), timeout=HANG)
    assert tab.head.prompt.field.text() == "" and tab.head.prompt.isHidden()
    tab.head.sync.click()
    qtbot.waitUntil(lambda: bool(started), timeout=HANG)
    ((words, environ),) = started
    assert words == ["wandb", "sync", RUN_ID] and environ["WANDB_API_KEY"] == SECRET
    held = [file for file in tmp_path.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
    assert held == []
    assert tab.head.sync.text() == "Stop"


def test_a_keyring_keeps_the_key_and_the_cockpit_forgets_it(
    tab: WandbTab, run_dir: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr("gym_gui.ui.wandb_room.keep_in_keyring", kept.append)
    tracked_run(run_dir, curve_records())
    shown(tab, qtbot)
    tab.head.key.click()
    qtbot.waitUntil(tab.head.prompt.isVisible, timeout=HANG)
    qtbot.keyClick(tab.head.prompt, Qt.Key.Key_Escape)
    assert tab.head.prompt.isHidden()
    tab.head.prompt.entered.emit(SECRET)
    qtbot.waitUntil(lambda: "in the keyring" in tab.head.progress.text(), timeout=HANG)
    assert kept == [SECRET] and "WANDB_API_KEY" not in WandbRoom.of(tab._cockpit.bridge).environ()


def test_an_upload_outlives_its_tab_and_its_end_is_told(
    tab: WandbTab, run_dir: Path, qtbot: QtBot, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    tracked_run(run_dir, curve_records())
    shown(tab, qtbot)
    tab.head.sync.click()
    qtbot.waitUntil(lambda: bool(started), timeout=HANG)
    room = WandbRoom.of(tab._cockpit.bridge)
    again = WandbTab(tab._cockpit, RUN_ID, run_dir)
    qtbot.addWidget(again)
    shown(again, qtbot)
    assert again.head.sync.text() == "Stop", "who opens the tab again finds the upload under way"
    runner = room._uploads[RUN_ID]
    runner.said.emit("updating run metadata")
    assert tab.head.progress.text() == again.head.progress.text() == "updating run metadata"
    runner.finished.emit(False, "mosaic: x: The upload is not complete: no network.")
    assert again.head.sync.text() == "Sync" and "no network" in again.head.progress.text()
    assert not room.is_uploading(RUN_ID)
    again.close_tab()


def test_an_embedded_page_goes_through_the_proxy() -> None:
    before = QNetworkProxy.applicationProxy()
    try:
        assert use_proxy("http://me:pa55word@vpn.example:3128")
        proxy = QNetworkProxy.applicationProxy()
        assert (proxy.hostName(), proxy.port(), proxy.user()) == ("vpn.example", 3128, "me")
        assert proxy.type() == QNetworkProxy.ProxyType.HttpProxy
        assert not use_proxy("no address") and not use_proxy("")
    finally:
        QNetworkProxy.setApplicationProxy(before)
