"""The way to a session: the short one where there is one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from gym_gui.services.live_connection import goes_through_daemon, join_session
from mosaic_protocol.live.client import SessionAwayError, WayBrokenError
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import Hello
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.live.server import LiveServer

RUN = "01K9ZQ3V7X0000000000000000"
HELLO = Hello("Game-v0", "other", KeyMap(), waits=True, fps=30.0)


def test_a_session_on_this_machine_is_joined_without_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_LIVE", raising=False)
    paths = MosaicPaths(tmp_path)
    folder = paths.run(RUN).directory
    folder.mkdir(parents=True)
    with pytest.raises(SessionAwayError, match="no live session listens") as refused:
        join_session(paths, RUN)
    assert refused.value.is_gone
    with closing(LiveServer(folder, HELLO, lambda _: None, lambda: "")), closing(join_session(paths, RUN)) as client:
        assert client.wait_for_hello() == HELLO
    assert goes_through_daemon(paths, RUN, {"MOSAIC_LIVE": "grpc"}), "where it is asked for"


def test_a_session_elsewhere_needs_the_daemon_and_its_absence_is_a_sentence(tmp_path: Path) -> None:
    paths = MosaicPaths(tmp_path)
    assert goes_through_daemon(paths, RUN, {})
    with pytest.raises(WayBrokenError, match="no trainer daemon runs here"):
        join_session(paths, RUN)
