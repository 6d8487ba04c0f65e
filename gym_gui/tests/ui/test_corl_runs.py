"""An offline run from the form to its chart, through a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from corl_worker.tests.worlds import play_set
from gym_gui.tests.support.cleanrl_runs import cleanrl_daemon
from gym_gui.tests.support.command_line import CommandLine
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.workers.corl.form import CorlTrainForm
from gym_gui.ui.workers.corl.offline_tab import OfflineTab

LONG = 180_000
SMALL = {"hidden_dim": 16, "batch_size": 16, "eval_freq": 20, "n_episodes": 1}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with cleanrl_daemon(tmp_path / "home", "cold") as found:
        play_set(found.paths, "swings", "Pendulum-v1")
        yield found


def test_bc_is_launched_from_the_form_and_an_online_run_is_drawn_against_it(
    daemon: DaemonProcess, make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path
) -> None:
    cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
    dock = cockpit.window.docks["train"].widget()
    assert isinstance(dock, TrainDock)
    qtbot.waitUntil(lambda: "corl" in dock.catalog.entries, timeout=LONG)
    form = dock.show_form(dock.catalog.entries["corl"])
    assert isinstance(form, CorlTrainForm)
    form.choose_dataset("swings")
    qtbot.waitUntil(lambda: "press Verify" in form.bar.why_not, timeout=LONG)
    assert not form.bar.launch_button.usable
    form.picker.verify.click()
    qtbot.waitUntil(lambda: form.bar.why_not == "" and "hidden_dim" in form.settings, timeout=LONG)
    form.run["total_timesteps"].put("40")
    for name, value in SMALL.items():
        editor = form.editor_of(name)
        assert editor is not None
        editor.put(str(value))
    accepted: list[str] = []
    form.submitted.connect(accepted.append)
    form.launch()
    qtbot.waitUntil(lambda: bool(accepted), timeout=LONG)
    over = daemon.wait_over(accepted[0], timeout=LONG / 1000)
    assert over.outcome == "completed" and over.dataset == "swings" and over.algo == "bc", over.reason
    settings = {"algo": "iql", "dataset": "swings", "total_timesteps": 40, "params": {**SMALL, "online_steps": 40}}
    worker = {"type": "corl", "module": "corl_worker.cli", "config": settings}
    config = {"run_name": "on", "resources": {"cpus": {"requested": 1}}, "metadata": {"worker": worker}}
    online = daemon.client.submit({**config, "artifacts": {}}).run.run_id
    assert daemon.wait_over(online, timeout=LONG / 1000).outcome == "completed"
    qtbot.waitUntil(lambda: cockpit.window.cockpit.runs.get(online) is not None, timeout=LONG)
    tab = OfflineTab(cockpit.window.cockpit, online)
    cockpit.window.setCentralWidget(tab)
    qtbot.waitUntil(lambda: tab.course is not None, timeout=LONG)
    course = tab.course
    assert course is not None and course.has_score
    assert course.online_at is not None and 40 <= course.online_at <= 60
    assert [one.algo for one in course.baselines] == ["bc"] and "goes online" in tab.legend.text()
    tab.close_tab()
    line = CommandLine(daemon.paths.root, daemon.env)
    drawn = line("plot", "on", "--baselines", "--out", str(tmp_path / "course.svg"))
    assert drawn.code == 0 and "goes online" in (tmp_path / "course.svg").read_text(), drawn.err
