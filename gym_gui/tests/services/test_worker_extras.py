"""Optional sets of a worker: listed, installed with progress, stopped, failed; and the services that workers need."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gym_gui.services.external_services import look_for
from gym_gui.services.worker_extras import ExtrasTool, InstallCanceledError
from gym_gui.services.worker_tools import ToolFailedError
from gym_gui.tests.support.daemon_process import wait_for
from gym_gui.tests.support.dropped_worker import dropped_worker
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.worker_manifest import discover, load_manifest

MakeTool = Callable[[], ExtrasTool]


@pytest.fixture
def paths(tmp_path: Path) -> MosaicPaths:
    (tmp_path / "home").mkdir()
    return MosaicPaths(tmp_path / "home")


@pytest.fixture
def make_tool(tmp_path: Path, paths: MosaicPaths) -> MakeTool:
    package = dropped_worker(tmp_path / "workers", extras=True) / "dropped_worker"
    return lambda: ExtrasTool(lambda: load_manifest(package), paths)


def test_sets_are_listed_and_installed_with_progress(make_tool: MakeTool, paths: MosaicPaths) -> None:
    assert [(one.name, one.installed, one.megabytes) for one in make_tool().sets()] == [
        ("games", False, 12),
        ("broken", False, 0),
    ]
    (paths.root / "go").touch()
    lines: list[str] = []
    make_tool().install(["games"], lines.append)
    assert any("Downloading games" in line for line in lines)
    assert make_tool().sets()[0].installed


def test_what_cannot_be_installed_says_why(make_tool: MakeTool) -> None:
    with pytest.raises(ToolFailedError, match="there is no such package"):
        make_tool().install(["broken"], lambda line: None)


def test_an_installation_can_be_stopped(make_tool: MakeTool, paths: MosaicPaths) -> None:
    tool, ended = make_tool(), []

    def install() -> None:
        try:
            tool.install(["games"], lambda line: None)
        except InstallCanceledError as error:
            ended.append(str(error))

    thread = threading.Thread(target=install)
    thread.start()
    wait_for("the download", (paths.root / "downloading").exists)
    tool.stop()
    thread.join(60)
    assert ended == ["the installation was stopped; the environment is as it was"]
    assert not (paths.root / "games-installed").exists()
    with pytest.raises(InstallCanceledError):
        tool.install(["games"], lambda line: None)


def test_cleanrl_lists_its_sets(paths: MosaicPaths) -> None:
    sets = {one.name: one for one in ExtrasTool(lambda: discover().workers["cleanrl"], paths).sets()}
    assert {"atari", "procgen", "envpool", "mujoco", "box2d", "video", "wandb"} <= sets.keys()
    assert all(one.summary for one in sets.values())
    assert all(one.megabytes == 0 or not one.installed for one in sets.values())


def test_a_worker_without_extras_has_none(tmp_path: Path, paths: MosaicPaths) -> None:
    package = dropped_worker(tmp_path / "plain") / "dropped_worker"
    with pytest.raises(ToolFailedError, match="has no extras"):
        ExtrasTool(lambda: load_manifest(package), paths).sets()


# ---- services ----------------------------------------------------------------------------------------------------


def test_services_are_looked_for_where_the_manifest_says() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        found = look_for([f"xmpp@{there}", "somewhere", "odd@nowhere:port"])
        assert [one.answers for one in found] == [True, None, None]
    (away,) = look_for([f"xmpp@{there}"])
    assert away.answers is False and str(away).startswith(f"xmpp does not answer at {there}: start it")
