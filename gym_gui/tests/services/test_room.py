"""What a dry run says of a run for which there is no room: the same with a daemon and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym_gui.services.room import why_no_room
from gym_gui.tests.support.daemon_process import DaemonProcess
from mosaic_protocol.paths import MosaicPaths


def test_without_a_daemon_this_machine_is_looked_at_and_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_TRAINER_CPUS", "2")
    paths = MosaicPaths(tmp_path)
    assert why_no_room(paths, {}) == ""
    assert why_no_room(paths, {"cpus": {"requested": 2}}) == ""
    assert "This run can never start here: it asks for 3 CPUs" in why_no_room(paths, {"cpus": {"requested": 3}})
    assert why_no_room(paths, {"cpus": {"requested": 3}, "host": "node1"}) == "", "the daemon knows its hosts"
    assert list(tmp_path.iterdir()) == []


def test_a_running_daemon_says_what_it_has_to_give(daemon: DaemonProcess) -> None:
    has = daemon.client.health().capacity.cpus
    assert why_no_room(daemon.paths, {"cpus": {"requested": has}}) == ""
    assert f"{has + 1} CPUs" in why_no_room(daemon.paths, {"cpus": {"requested": has + 1}})
