"""A cockpit on the daemon of another machine, over a real sshd: it follows, is cut off, and goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.remote.link import RemoteLink
from gym_gui.services.remote.paths import PathsElsewhere
from gym_gui.services.remote.server import Server, Servers
from gym_gui.tests.support.servers import MadeServer, made_server
from gym_gui.tests.ui.ending import delete_now
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.elsewhere import ConnectDialog, ElsewherePage
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.train_dock import TrainDock
from mosaic_protocol.tests.made_sshd import NAME, ssh_processes_of

HANG = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeServer]:
    with made_server(tmp_path_factory.mktemp("s")) as made:
        made.daemon.start()
        yield made


@pytest.fixture
def window(
    qtbot: QtBot, qapp: QApplication, server: MadeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CockpitApp]:
    """A whole cockpit of this machine, on the daemon over there."""
    for name, value in {**server.environment, "MOSAIC_HOME": str(tmp_path / "here")}.items():
        monkeypatch.setenv(name, value)
    unexpected: list[object] = []
    cockpit = CockpitApp(qapp, PathsElsewhere(tmp_path / "kept", RemoteLink(Server.parse(server.name))))
    cockpit.reporter.happened.connect(unexpected.append)
    cockpit.open()
    yield cockpit
    cockpit.close()
    delete_now(cockpit)
    assert ssh_processes_of(os.getpid()) == []
    assert unexpected == []


def runs_panel(cockpit: CockpitApp) -> RunsPanel:
    panel = cockpit.window.docks["runs"].widget()
    assert isinstance(panel, RunsPanel)
    return panel


def test_curves_go_on_where_they_were_after_the_link_was_cut(
    window: CockpitApp, server: MadeServer, qtbot: QtBot
) -> None:
    assert window.window.windowTitle() == f"{NAME} — MOSAIC"
    run_id = server.daemon.submit(name="far", total_timesteps=10**9, step_seconds=0.02)
    cockpit = window.window.cockpit
    qtbot.waitUntil(lambda: cockpit.bridge.connection.connected, timeout=HANG)
    assert cockpit.bridge.connection.sentence == f"connected to the trainer daemon on {NAME}, data in {server.home}"
    assert Servers(Path(os.environ["MOSAIC_HOME"])).all() == [Server.parse(server.name)]
    qtbot.waitUntil(lambda: cockpit.runs.get(run_id) is not None, timeout=HANG)
    cockpit.selection.select([run_id])
    store = MetricsStore.of(cockpit.bridge)

    def steps() -> list[float]:
        metrics = store.metrics(run_id)
        series = metrics.series.get("charts/episodic_return") if metrics is not None else None
        return [] if series is None else series.buffer.steps.tolist()

    qtbot.waitUntil(lambda: len(steps()) > 20, timeout=HANG)
    before = steps()

    told: list[str] = []
    cockpit.bridge.connection_changed.connect(lambda state: told.append(state.sentence))
    server.sshd.signal_sessions(signal.SIGKILL)
    qtbot.waitUntil(lambda: any(f"the link to {NAME} is cut" in one for one in told), timeout=HANG)
    qtbot.waitUntil(lambda: cockpit.bridge.connection.connected, timeout=HANG)
    qtbot.waitUntil(lambda: len(steps()) > len(before) + 40, timeout=HANG)
    after = steps()
    assert after[: len(before)] == before
    assert after == list(range(1, len(after) + 1))
    server.daemon.client.cancel(run_id)
    server.daemon.wait_over(run_id)


def test_what_was_typed_and_listed_stays_while_the_server_is_away(
    window: CockpitApp, server: MadeServer, qtbot: QtBot
) -> None:
    run_id = server.daemon.submit(name="listed", total_timesteps=1)
    server.daemon.wait_over(run_id)
    cockpit, panel = window.window.cockpit, runs_panel(window)
    qtbot.waitUntil(lambda: cockpit.runs.get(run_id) is not None, timeout=HANG)
    panel.filters.text.setText("listed")
    server.sshd.stop()
    try:
        qtbot.waitUntil(lambda: not cockpit.bridge.connection.connected, timeout=HANG)
        qtbot.waitUntil(lambda: panel.away_banner.isVisibleTo(panel), timeout=HANG)
        assert f"{NAME} cannot be reached" in panel.away_banner.label.text()
        assert panel.filters.text.text() == "listed"
        assert cockpit.runs.get(run_id) is not None
    finally:
        server.sshd.start()
    qtbot.waitUntil(lambda: cockpit.bridge.connection.connected, timeout=HANG)
    qtbot.waitUntil(lambda: not panel.away_banner.isVisibleTo(panel), timeout=HANG)


def test_what_is_files_of_the_server_says_so_and_names_the_command(window: CockpitApp, qtbot: QtBot) -> None:
    told = {}
    for name in ("doctor", "datasets", "arenas", "hosts"):
        page = window.window.docks[name].widget()
        assert isinstance(page, ElsewherePage)
        told[name] = page.command
    dock = window.window.docks["train"].widget()
    assert isinstance(dock, TrainDock)
    assert isinstance(dock.trained, ElsewherePage)
    told["checkpoints"] = dock.trained.command
    words = {"doctor": "doctor", "datasets": "datasets", "arenas": "arena list", "hosts": "hosts"}
    words["checkpoints"] = "checkpoints"
    assert told == {name: f"mosaic --on {NAME} {word}" for name, word in words.items()}
    dock.trained.button.click()
    clipboard = QApplication.clipboard()
    assert clipboard is not None
    assert clipboard.text() == f"mosaic --on {NAME} checkpoints"


def test_a_window_that_is_closed_before_the_server_answers_leaves_nothing(
    qtbot: QtBot, qapp: QApplication, server: MadeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    silent = server.program("silent", "exec cat")
    cockpit = CockpitApp(qapp, PathsElsewhere(tmp_path / "kept", RemoteLink(Server.parse(f"{NAME}:{silent}"))), ())
    cockpit.open()
    qtbot.waitUntil(lambda: ssh_processes_of(os.getpid()) != [], timeout=HANG)
    cockpit.close()
    delete_now(cockpit)
    assert ssh_processes_of(os.getpid()) == []


def test_a_server_is_asked_for_and_opened_in_a_window_of_its_own(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qapp: QApplication
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    Servers(tmp_path).remember(Server.parse("me@server:/opt/mosaic"))
    opened: list[Server] = []

    def open_on(server: Server) -> bool:
        opened.append(server)
        return server.destination != "unlucky"

    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = ConnectDialog(parent, open_on)
    assert dialog.name.currentText() == "me@server:/opt/mosaic"
    for name, problem in (("-oX=y", "is no destination for SSH"), ("unlucky", "could not be opened")):
        dialog.name.setCurrentText(name)
        dialog.accept()
        assert problem in dialog.problem.text()
        assert dialog.result() == 0
    dialog.show()
    line = dialog.name.lineEdit()
    assert line is not None
    line.selectAll()
    qtbot.keyClicks(line, "me@server")
    assert not dialog.problem.isVisible()
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert dialog.result() == 1
    assert opened[-1] == Server("me@server", "/opt/mosaic")
