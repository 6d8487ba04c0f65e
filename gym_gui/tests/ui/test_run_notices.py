"""A notice when a run ends: only when asked for, not of old runs, and with names that are taken for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_index import HANG
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.run_notices import PREFERENCE
from mosaic_protocol.headline import MEAN_RETURN


def test_who_asked_is_told_of_runs_that_end_while_they_look_elsewhere(
    make_cockpit: MakeCockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_cockpit(None, ())
    notices, runs = app.run_notices, app.window.cockpit.runs
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(notices, "show", lambda title, text: said.append((title, text)))
    monkeypatch.setattr(app.window, "isActiveWindow", lambda: False)
    over = {"state": "TERM", "outcome": "failed", "reason": "it broke"}
    runs.take([made(1), made(2, **over)])
    runs.take([made(1, **over)])
    assert said == [], "nobody asked"
    app.window.cockpit.commands.action("notify-ended").trigger()
    assert app.window.cockpit.preferences.get(PREFERENCE) is True
    runs.take([made(number) for number in range(10, 15)] + [made(1, **over)])
    runs.take([made(10, **over, headline={MEAN_RETURN: 12.0})])
    assert said == [("run-10: failed", "mean return 12  ·  it broke")]
    runs.take([made(number, **over) for number in range(11, 15)])
    assert said[1:] == [("4 runs ended", "run-11, run-12, run-13, …")]
    monkeypatch.setattr(app.window, "isActiveWindow", lambda: True)
    runs.take([made(20)])
    runs.take([made(20, **over)])
    assert len(said) == 2, "who looks at the cockpit sees it there"


def test_a_name_is_neither_an_option_nor_markup(
    make_cockpit: MakeCockpit, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, tmp_path: Path
) -> None:
    program, told = tmp_path / "notify-send", tmp_path / "told"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {told}.part\nmv {told}.part {told}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    make_cockpit(None, ()).run_notices.show("--help", "<b>x</b>")
    qtbot.waitUntil(told.exists, timeout=HANG)
    assert told.read_text().splitlines()[-3:] == ["--", "--help", "&lt;b&gt;x&lt;/b&gt;"]
