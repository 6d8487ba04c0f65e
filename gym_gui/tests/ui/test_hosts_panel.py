"""The Hosts screen: what is said of each machine, what runs there, and what can be done to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QMenu, QTreeWidgetItem
from pytestqt.qtbot import QtBot

from gym_gui.services.hosts.book import Host, HostBook
from gym_gui.services.hosts.checks import Finding
from gym_gui.services.hosts.overview import Health, overview
from gym_gui.services.queue_moves import Moves, Spot
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.hosts import desk as desk_module
from gym_gui.ui.hosts import panel as panel_module
from gym_gui.ui.hosts.panel import HostsPanel
from gym_gui.ui.parts import Part, Place
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000
NODE = Host("node1", "alice@node1.example.org")


def told(*hosts: pb.Host) -> pb.Health:
    return pb.Health(capacity=pb.Resources(cpus=4, memory_mb=8192), reserved=pb.Resources(cpus=1), hosts=hosts)


def run(name: str, state: str, *, host: str = "", asked: str = "", **fields: Any) -> pb.Run:
    config = json.dumps({"resources": {"host": asked}})
    return pb.Run(run_id=f"id-{name}", name=name, state=state, host=host, config_json=config, **fields)


# ---- in words ------------------------------------------------------------------------------------------------------


def test_each_machine_says_how_it_stands_and_what_runs_there() -> None:
    hosts = {name: Host(name, name) for name in ("fast", "away", "idle", "full")}
    hosts["full"] = Host("full", "full", drained=True)
    fast = pb.Host(name="fast", connected=True, capacity=pb.Resources(cpus=8, gpus=2, memory_mb=2048), live=1)
    fast.reserved.cpus = 3
    away = pb.Host(name="away", connected=True, away="host away cannot be reached: no route")
    runs = [
        run("here", "EXEC"),
        run("there", "EXEC", host="fast"),
        run("later", "INIT", asked="fast", queue_key="2"),
        run("sooner", "INIT", asked="fast", queue_key="1"),
        run("over", "TERM", host="fast"),
        run("anywhere", "INIT", asked="any"),
    ]
    lines = {line.name: line for line in overview(hosts, told(fast, away), runs)}
    assert list(lines) == ["", "fast", "away", "idle", "full"]
    assert [one.name for one in lines["fast"].runs] == ["there", "sooner", "later"] and lines["fast"].live == 1
    assert (lines["fast"].cpus, lines["fast"].gpus) == ("3 of 8", "0 of 2")
    assert [one.name for one in lines[""].runs] == ["here"] and lines[""].cpus == "1 of 4"
    healths = {name: line.health for name, line in lines.items()}
    assert healths == {
        "": Health.GOOD,
        "fast": Health.GOOD,
        "away": Health.AWAY,
        "idle": Health.IDLE,
        "full": Health.DRAINED,
    }
    assert "no route" in lines["away"].status and lines["idle"].cpus == ""


def test_while_the_daemon_is_away_nothing_is_claimed_of_a_host() -> None:
    line = overview({"node1": NODE}, None, [])[1]
    assert (line.health, line.cpus) == (Health.AWAY, "") and "daemon" in line.status


# ---- on the screen -------------------------------------------------------------------------------------------------


class Opened:
    def __init__(self, make_cockpit: MakeCockpit, *hosts: Host) -> None:
        app = make_cockpit(None, [Part("hosts", "Hosts", Place.BOTTOM, HostsPanel)])
        self.bridge, self.cockpit = app.bridge, app.window.cockpit
        self.book = HostBook(self.bridge.paths)
        for host in hosts:
            self.book.add(host)
        app.bridge._timer.start()  # answers are delivered also where there is no daemon
        found = app.window.findChild(HostsPanel)
        assert found is not None
        self.panel = found
        self.panel.desk.look()

    def tell(self, health: pb.Health) -> None:
        self.bridge.connection = ConnectionState(True, "")
        self.bridge.health_changed.emit(health)

    def item(self, number: int) -> QTreeWidgetItem:
        item = self.panel.list.topLevelItem(number)
        assert item is not None
        return item

    def choose(self, name: str) -> None:
        for number in range(self.panel.list.topLevelItemCount()):
            if self.item(number).text(0) == name:
                self.panel.list.setCurrentItem(self.item(number))


def shows(opened: Opened, qtbot: QtBot, count: int) -> None:
    qtbot.waitUntil(lambda: opened.panel.list.topLevelItemCount() == count, timeout=HANG)


def test_without_a_host_the_screen_says_what_one_is_good_for(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    opened = Opened(make_cockpit)
    qtbot.waitUntil(lambda: opened.panel.desk.hosts == {}, timeout=HANG)
    assert "--host" in opened.panel.told.text()
    assert opened.item(0).text(0) == "this machine"
    opened.panel.list.setCurrentItem(opened.item(0))
    assert not opened.cockpit.commands.action("hosts-remove").isEnabled(), "this machine is no host of the list"


def test_a_host_shows_its_runs_and_selecting_one_selects_the_run(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    opened = Opened(make_cockpit, NODE)
    shows(opened, qtbot, 2)
    opened.cockpit.runs.take([run("there", "EXEC", host="node1")])
    state = pb.Host(name="node1", connected=True, capacity=pb.Resources(cpus=8), live=1)
    opened.tell(told(state))
    item = opened.item(1)
    assert (item.text(3), item.text(2), item.text(7)) == ("0 of 8", "1", NODE.ssh)
    child = item.child(0)
    assert child is not None and child.text(0) == "there" and item.isExpanded()
    opened.panel.list.setCurrentItem(child)
    assert opened.cockpit.selection.current == "id-there"
    opened.tell(told(state))
    assert opened.panel.list.currentItem() is child, "news keeps the place of the one who reads"
    opened.cockpit.runs.take([run("there", "TERM", host="node1")])
    opened.tell(told(pb.Host(name="node1", connected=True, capacity=pb.Resources(cpus=8))))
    assert item.childCount() == 0 and opened.panel.current == NODE


def test_draining_and_removing_change_the_list_and_can_be_taken_back(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    opened = Opened(make_cockpit, NODE)
    shows(opened, qtbot, 2)
    opened.choose("node1")
    drain = opened.panel.buttons["hosts-drain"]
    qtbot.mouseClick(drain, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: opened.book.get("node1").drained, timeout=HANG)
    qtbot.waitUntil(lambda: drain.text() == "Start runs again", timeout=HANG)
    opened.cockpit.commands.action("hosts-drain").trigger()
    qtbot.waitUntil(lambda: not opened.book.get("node1").drained, timeout=HANG)
    qtbot.waitUntil(lambda: drain.text() == "Drain", timeout=HANG)
    opened.panel.buttons["hosts-remove"].click()
    qtbot.waitUntil(lambda: opened.book.hosts() == {}, timeout=HANG)
    shows(opened, qtbot, 1)


def test_a_host_with_live_runs_is_not_removed(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    opened = Opened(make_cockpit, NODE)
    shows(opened, qtbot, 2)
    opened.choose("node1")
    opened.tell(told(pb.Host(name="node1", connected=True, live=2)))
    action = opened.cockpit.commands.action("hosts-remove")
    assert not action.isEnabled() and "2 runs on node1" in action.toolTip()
    opened.panel.desk.remove(NODE)
    assert "node1" in opened.book.hosts()


def test_a_check_shows_each_finding_and_says_what_must_be_mended(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("ssh", "ok", "answered"), Finding("python", "fail", "python3 cannot be used: it lacks numpy")]
    monkeypatch.setattr(desk_module, "examine", lambda host: found)
    opened = Opened(make_cockpit, NODE)
    shows(opened, qtbot, 2)
    opened.choose("node1")
    qtbot.mouseClick(opened.panel.buttons["hosts-check"], Qt.MouseButton.LeftButton)
    assert "looked at" in opened.item(1).text(1)
    qtbot.waitUntil(lambda: opened.item(1).childCount() == 2, timeout=HANG)
    last = opened.item(1).child(1)
    assert opened.item(1).isExpanded() and last is not None and last.text(0).startswith("python: python3 cannot")


def test_a_host_is_added_by_the_keyboard_and_looked_at(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk_module, "examine", lambda host: [Finding("ssh", "ok", f"{host.ssh} answered")])
    opened = Opened(make_cockpit, NODE)
    shows(opened, qtbot, 2)
    opened.cockpit.commands.action("hosts-add").trigger()
    dialog = opened.panel.dialog
    assert dialog is not None
    name, ssh = dialog.fields["name"].editor, dialog.fields["ssh"].editor
    dialog.accept()
    assert dialog.fields["name"].error.text(), "what is missing is said where it is missing"
    qtbot.keyClicks(name, "Node 1")
    qtbot.keyClicks(ssh, "bob@elsewhere")
    dialog.accept()
    assert "no name for a host" in dialog.problem.text()
    dialog.fields["name"].put("node1")
    qtbot.keyClick(ssh, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "already" in dialog.problem.text(), timeout=HANG)
    dialog.fields["name"].put("node2")
    dialog.fields["labels"].put("lab, fast")
    qtbot.keyClick(ssh, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "node2" in opened.book.hosts(), timeout=HANG)
    shows(opened, qtbot, 3)
    qtbot.waitUntil(lambda: opened.item(2).childCount() == 1, timeout=HANG)
    assert opened.item(2).text(6) == "fast, lab"


def test_a_run_that_waits_is_sent_to_another_host(
    make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(make_cockpit, NODE, Host("node2", "node2"))
    shows(opened, qtbot, 3)
    asked: list[tuple[list[str], Spot]] = []

    def moved(client: object, run_ids: list[str], spot: Spot) -> Moves:
        asked.append((run_ids, spot))
        return Moves(done=[run("waits", "INIT", asked="node2", queue_key="1")])

    monkeypatch.setattr(panel_module, "move_runs", moved)
    monkeypatch.setattr(opened.bridge, "_await_client", lambda: None)
    opened.cockpit.runs.take([run("waits", "INIT", asked="node1", queue_key="1", reason="waits: host node1 is away")])
    opened.tell(told())
    child = opened.item(1).child(0)
    assert child is not None
    opened.panel.list.setCurrentItem(child)
    menu = QMenu()
    opened.panel.add_moves(menu)
    (entry,) = menu.actions()
    inside = entry.menu()
    assert inside is not None
    titles = {action.text(): action for action in inside.actions()}
    assert list(titles) == ["this machine", "any host", "node1", "node2"]
    titles["node2"].trigger()
    qtbot.waitUntil(lambda: asked == [(["id-waits"], Spot("host", "node2"))], timeout=HANG)
    opened.tell(told())
    qtbot.waitUntil(lambda: opened.item(2).childCount() == 1, timeout=HANG)
    opened.panel.list.setCurrentItem(opened.item(2))
    menu.clear()
    opened.panel.add_moves(menu)
    assert menu.isEmpty(), "a host is no run"
