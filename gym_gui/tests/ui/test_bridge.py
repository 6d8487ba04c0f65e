"""The bridge against a real daemon: updates, answers, streams that survive its death, and no thread left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PyQt6 import sip
from PyQt6.QtCore import QObject
from pytestqt.qtbot import QtBot

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.services.trainer.daemon_control import running_endpoint, stop_daemon
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.ui.bridge import ConnectionState, TrainerBridge
from mosaic_protocol.unix_socket import listener

HANG = 60_000


@pytest.fixture
def bridge(daemon: DaemonProcess, qtbot: QtBot) -> Iterator[TrainerBridge]:
    bridge = TrainerBridge(daemon.paths, start_daemon=False)
    bridge.start()
    yield bridge
    bridge.stop()


def connected(qtbot: QtBot, bridge: TrainerBridge) -> None:
    qtbot.waitUntil(lambda: bridge.connection.connected, timeout=HANG)


def metrics_of(run_id: str) -> Callable[[TrainerClient, int], Iterator[tuple[int, Any]]]:
    def stream(client: TrainerClient, after: int) -> Iterator[tuple[int, Any]]:
        for page in client.stream("metrics", run_id, after_row=after, follow=True):
            yield page.last_row, page.records

    return stream


def test_every_run_is_emitted_once_and_then_what_changes(
    qtbot: QtBot, daemon: DaemonProcess, bridge: TrainerBridge
) -> None:
    told: dict[str, list[str]] = {}

    def note(runs: list[Any]) -> None:
        for run in runs:
            told.setdefault(run.run_id, []).append(run.state)

    bridge.runs_changed.connect(note)
    first = daemon.submit(total_timesteps=3)
    qtbot.waitUntil(lambda: told.get(first, [""])[-1] == "TERM", timeout=HANG)
    assert threading.current_thread() is threading.main_thread()


def test_an_answer_arrives_in_the_gui_thread(qtbot: QtBot, daemon: DaemonProcess, bridge: TrainerBridge) -> None:
    connected(qtbot, bridge)
    answers: list[tuple[str, threading.Thread]] = []
    bridge.call(
        lambda client: client.health().target, lambda target: answers.append((target, threading.current_thread()))
    )
    qtbot.waitUntil(lambda: bool(answers), timeout=HANG)
    assert answers == [(daemon.client.health().target, threading.main_thread())]


def test_a_refusal_is_a_sentence(qtbot: QtBot, bridge: TrainerBridge) -> None:
    connected(qtbot, bridge)
    sentences: list[str] = []
    bridge.call(lambda client: client.run("nobody"), failed=sentences.append)
    qtbot.waitUntil(lambda: bool(sentences), timeout=HANG)
    assert "nobody" in sentences[0]


def test_what_is_no_longer_wanted_is_not_delivered(qtbot: QtBot, bridge: TrainerBridge) -> None:
    connected(qtbot, bridge)
    owner = QObject()
    answers: list[Any] = []
    later: list[Any] = []
    gate = threading.Event()
    bridge.in_background(gate.wait, answers.append, owner=owner)
    sip.delete(owner)
    gate.set()
    bridge.call(lambda client: client.health(), later.append)
    qtbot.waitUntil(lambda: bool(later), timeout=HANG)
    qtbot.waitUntil(bridge._answers.empty, timeout=HANG)
    assert answers == []


def test_a_daemon_that_dies_is_noticed_and_found_again(
    qtbot: QtBot, daemon: DaemonProcess, bridge: TrainerBridge
) -> None:
    connected(qtbot, bridge)
    states: list[ConnectionState] = []
    bridge.connection_changed.connect(states.append)
    daemon.kill()
    qtbot.waitUntil(lambda: bool(states), timeout=HANG)
    assert not states[0].connected
    daemon.start()
    qtbot.waitUntil(lambda: states[-1].connected, timeout=HANG)


def test_a_daemon_is_started_when_none_runs(
    qtbot: QtBot, make_daemon: Callable[..., DaemonProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_TRAINER_PORT", "0")
    bridge = TrainerBridge(make_daemon().paths)
    bridge.start()
    try:
        connected(qtbot, bridge)
        left: list[int] = []
        bridge.call(lambda client: client.shutdown(), left.append)
        qtbot.waitUntil(lambda: bool(left), timeout=HANG)
        bridge._start_daemon = False
        qtbot.waitUntil(lambda: not bridge.connection.connected, timeout=HANG)
    finally:
        bridge.stop()


def test_a_daemon_that_was_stopped_on_purpose_stays_stopped_until_somebody_wants_it_and_one_that_died_does_not(
    qtbot: QtBot, make_daemon: Callable[..., DaemonProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_TRAINER_PORT", "0")
    paths = make_daemon().paths
    asked: list[bool] = []
    connect = TrainerClient.connect

    def noting(*arguments: Any, start: bool = True, **options: Any) -> TrainerClient:
        asked.append(start)
        return connect(*arguments, start=start, **options)

    monkeypatch.setattr(TrainerClient, "connect", noting)
    bridge = TrainerBridge(paths)
    bridge.start()
    try:
        connected(qtbot, bridge)
        assert stop_daemon(paths)
        qtbot.waitUntil(lambda: bridge.connection.stopped, timeout=HANG)
        assert "was stopped" in bridge.connection.sentence
        asked.clear()
        qtbot.waitUntil(lambda: len(asked) >= 3, timeout=HANG)  # it looks for one that somebody else starts
        assert not any(asked) and running_endpoint(paths) is None and bridge.connection.stopped
        bridge.start_again()
        connected(qtbot, bridge)
        assert not bridge.connection.stopped
        pid = listener(paths.socket)
        assert pid
        os.kill(pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: not bridge.connection.connected, timeout=HANG)
        connected(qtbot, bridge)
    finally:
        bridge.stop()
        stop_daemon(paths)


def test_a_followed_stream_goes_on_after_the_daemon_came_back_and_doubles_nothing(
    qtbot: QtBot, daemon: DaemonProcess, bridge: TrainerBridge, tmp_path: Any
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=200, step_seconds=0.001, gate=str(gate), gate_at=100)
    arrived: list[bytes] = []
    feed = bridge.follow(metrics_of(run_id), bridge)
    feed.arrived.connect(lambda pages: arrived.extend(record for page in pages for record in page))
    qtbot.waitUntil(lambda: len(arrived) >= 50, timeout=HANG)
    daemon.kill()
    daemon.start()
    gate.touch()
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: len(arrived) >= 200, timeout=HANG)
    assert len(arrived) == len(set(arrived)) == 200


def test_stopping_a_feed_that_waits_ends_its_thread(
    qtbot: QtBot, daemon: DaemonProcess, bridge: TrainerBridge, tmp_path: Any
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=10, gate=str(gate), gate_at=5)
    feed = bridge.follow(metrics_of(run_id), bridge)
    qtbot.waitSignal(feed.arrived, timeout=HANG).wait()
    feed.stop()
    assert not feed._thread.is_alive()
    gate.touch()
    daemon.wait_over(run_id)
