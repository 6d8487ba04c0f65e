"""The left side: modes, the catalog on the screen, presets, and what is shown when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess, toy_config
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.forms.settings_of import Start, parts_of
from gym_gui.ui.forms.train_form import TrainForm
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.play.desk import PlayDesk
from gym_gui.ui.play.play_panel import PlayPanel

HANG = 60_000
OpenDock = Callable[..., tuple[CockpitApp, TrainDock]]


@pytest.fixture
def open_dock(make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenDock]:
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))
    unexpected: list[object] = []

    def make(daemon: DaemonProcess | None, worker: str = "toy") -> tuple[CockpitApp, TrainDock]:
        cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
        dock = cockpit.window.docks["train"].widget()
        assert isinstance(dock, TrainDock)
        cockpit.reporter.happened.connect(unexpected.append)
        if daemon is not None:
            qtbot.waitUntil(lambda: worker in dock.catalog.entries, timeout=HANG)
            dock.workers.choose(worker)
            dock.show_page("train")
            if isinstance(dock.form, SchemaTrainForm):
                qtbot.waitUntil(lambda: dock.form is not None and dock.form.waiting() == "", timeout=HANG)
        return cockpit, dock

    yield make
    assert unexpected == []


def toy_form(dock: TrainDock) -> SchemaTrainForm:
    assert isinstance(dock.form, SchemaTrainForm)
    return dock.form


def test_without_a_daemon_the_left_side_says_what_it_waits_for(open_dock: OpenDock) -> None:
    _, dock = open_dock(None)
    assert "Waiting" in dock.empty.title.text() and dock.form is None


Reopen = Callable[[DaemonProcess], TrainDock]


@pytest.fixture
def reopened(make_cockpit: MakeCockpit, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Reopen:
    """The left side of a cockpit as it opens, before anybody does anything."""
    monkeypatch.setenv("MOSAIC_WORKER_PATH", str(WORKERS))

    def make(daemon: DaemonProcess) -> TrainDock:
        cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
        dock = cockpit.window.docks["train"].widget()
        assert isinstance(dock, TrainDock)
        qtbot.waitUntil(lambda: "toy" in dock.catalog.entries, timeout=HANG)
        return dock

    return make


def press_set_up(dock: TrainDock) -> None:
    dock.empty.button.click()


def press_agent(dock: TrainDock) -> None:
    dock.mode.buttons["agent"].click()


def press_train_new(dock: TrainDock) -> None:
    dock.what.buttons["train"].click()


def take_a_worker(dock: TrainDock) -> None:
    dock.workers.choose("toy")


@pytest.mark.parametrize("ask", [press_set_up, press_agent, press_train_new, take_a_worker])
def test_training_widgets_stay_away_until_a_person_asks_for_them(
    reopened: Reopen, daemon: DaemonProcess, ask: Callable[[TrainDock], None]
) -> None:
    dock = reopened(daemon)
    assert dock.form is None and dock.forms == {} and dock.empty.title.text() == "Train an agent"
    assert dock.workers.isVisible() and dock.what.isVisible()
    dock.setFocus()
    assert dock.empty.button.hasFocus()
    ask(dock)
    assert dock.form is not None and dock.form.isVisible()
    assert ask is not press_set_up or dock.form.area.isAncestorOf(dock.focusWidget()), "the keyboard goes along"
    dock._cockpit.preferences.save()
    assert reopened(daemon).form is not None, "it is remembered"


def test_train_or_use_is_remembered_per_agent(reopened: Reopen, daemon: DaemonProcess) -> None:
    dock = reopened(daemon)
    dock.show_page("train")
    dock.workers.choose("toy")
    dock.what.choose("use")
    assert dock.workers.isVisible(), "another agent can be taken from here"
    dock.workers.choose("cleanrl")
    assert dock.what.choice == "train" and dock.form is not None
    dock.workers.choose("toy")
    assert dock.what.choice == "use" and dock.pages.currentWidget() is dock.trained
    dock.duplicate(toy_config(name="again"))
    assert dock.what.choice == "train" and dock.pages.currentWidget() is dock.forms["toy"]


def test_training_widgets_are_hidden_until_agent_mode(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    cockpit, dock = open_dock(daemon)
    form = dock.form
    assert form is not None and form.isVisible()
    panel = PlayPanel(cockpit.window.cockpit, PlayDesk(cockpit.window.cockpit, dock.queries, dock), dock.queries)
    dock.set_play(panel)
    for mode in ("human", "hybrid"):
        dock.mode.choose(mode)
        assert not form.isVisible() and dock.what.isHidden() and panel.isVisible() and panel.start.isVisible()
        assert panel.sections["seat"].isVisible() == (mode == "hybrid")
    dock.mode.choose("agent")
    assert form.isVisible() and not panel.isVisible()


def test_human_only_is_listed_in_human_mode(open_dock: OpenDock) -> None:
    _, dock = open_dock(None)
    dock.mode.choose("human")
    item = dock.workers.item(0)
    assert item is not None and item.text().startswith("Human-Only")


def test_every_worker_is_listed_with_its_readiness(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    _, dock = open_dock(daemon)
    texts = lambda: [item.text() for row in range(dock.workers.count()) if (item := dock.workers.item(row))]  # noqa: E731
    dock.workers.set_low(False)
    assert texts() == [
        "CleanRL Worker\nready · analytics",
        "CORL Worker\nready · analytics",
        "LLM Multi-Step Worker\nready · hybrid",
        "Play Worker\nready · telemetry",
        "Spade BDI Worker\nready · telemetry",
        "Toy Worker\nready · analytics",
    ]
    high = dock.workers.maximumHeight()
    dock.resize(330, 500)
    assert texts()[0] == "CleanRL Worker · ready · analytics" and dock.workers.height() < high
    dock.resize(330, 800)
    assert texts()[0] == "CleanRL Worker\nready · analytics" and dock.workers.maximumHeight() == high


def test_mode_worker_and_wish_are_remembered(open_dock: OpenDock, daemon: DaemonProcess, reopened: Reopen) -> None:
    cockpit, dock = open_dock(daemon)
    dock.what.choose("use")
    cockpit.close()
    again = reopened(daemon)
    assert again.what.choice == "use" and again._cockpit.preferences.get("train.worker", "") == "toy"
    assert again.pages.currentWidget() is again.trained


def test_the_place_for_trained_policies_is_filled_from_outside(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    _, dock = open_dock(daemon)
    dock.set_use_trained(QLabel("checkpoints"))
    dock.show_page("use")
    assert dock.trained.isVisible() and dock.pages.currentWidget() is dock.trained
    dock.show_page("train")
    assert dock.form is not None and dock.form.isVisible()


class Trained(QWidget):
    """Stands in for the checkpoint browser, with something to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = "all"

    def state(self) -> dict[str, Any]:
        return {"filter": self.filter}

    def put_state(self, state: dict[str, Any]) -> None:
        self.filter = state["filter"]


def test_presets_for_training_and_for_using_are_kept_apart(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    _, dock = open_dock(daemon)
    trained = Trained()
    dock.set_use_trained(trained)
    dock.presets_button.setChecked(True)
    form = toy_form(dock)
    form.run["seed"].put("7")
    dock.train_presets.save("seven")
    form.run["seed"].put("8")
    dock.show_page("use")
    assert dock.use_presets.isVisible() and not dock.train_presets.isVisible()
    dock.use_presets.save("mine")
    trained.filter = "none"
    assert list(dock.use_presets.presets()) == ["mine"] and list(dock.train_presets.presets()) == ["seven"]
    dock.use_presets._chosen(dock.use_presets.choice.findData("mine"))
    assert trained.filter == "all"
    dock.show_page("train")
    dock.train_presets._chosen(dock.train_presets.choice.findData("seven"))
    assert form.run["seed"].entry == "7"


def test_a_preset_is_named_deleted_and_brought_back(open_dock: OpenDock, daemon: DaemonProcess, qtbot: QtBot) -> None:
    cockpit, dock = open_dock(daemon)
    dock.presets_button.setChecked(True)
    bar = dock.train_presets
    bar.save_button.click()
    qtbot.keyClicks(bar.name, "first")
    qtbot.keyClick(bar.name, Qt.Key.Key_Return)
    assert bar.choice.currentData() == "first"
    bar.forget_button.click()
    assert bar.presets() == {}
    notice = cockpit.window._snackbar.current
    assert notice is not None and notice.act is not None
    notice.act()
    assert list(bar.presets()) == ["first"]


def test_the_form_can_be_launched_and_reset_by_command(
    open_dock: OpenDock, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, dock = open_dock(daemon)
    commands = cockpit.window.cockpit.commands
    form = toy_form(dock)
    form.run["total_timesteps"].put("4")
    form.pairs.put({"step_seconds": "0.001"})
    dock.mode.choose("human")
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        commands.action("launch").trigger()
    assert daemon.wait_over(submitted.args[0]).outcome == "completed"
    commands.action("reset-form").trigger()
    assert form.run["total_timesteps"].entry == "" and form.pairs.entries() == {}
    notice = next(
        one for one in (cockpit.window._snackbar.current, *cockpit.window._snackbar._waiting) if one and one.act
    )
    assert notice.act is not None
    notice.act()
    assert form.run["total_timesteps"].entry == "4"


def test_a_sweep_is_begun_by_command_and_what_it_needs_is_in_sight(
    open_dock: OpenDock, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, dock = open_dock(daemon)
    form = toy_form(dock)
    dock.mode.choose("human")
    (found,) = [one for one in cockpit.window.palette_popup.findings("sweep tune") if one.text.endswith("settings")]
    assert found.text == "Run › Form › Search settings"
    found.act()
    assert dock.mode.choice == "agent" and form.sweep.is_on and form.sections["sweep"].is_open
    qtbot.waitUntil(form.sweep.switch.hasFocus)
    viewport = form.area.viewport()
    assert viewport is not None
    place = form.sweep.switch.mapTo(viewport, QPoint(0, 0)).y()
    assert 0 <= place < viewport.height(), "it was scrolled to"


def test_duplicating_shows_the_run_in_its_workers_form(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    cockpit, dock = open_dock(daemon, worker="cleanrl")
    dock.mode.choose("human")
    dock.duplicate(toy_config(name="again", total_timesteps=9, step_seconds=0.5))
    form = toy_form(dock)
    assert (form.run["run_name"].entry, form.run["total_timesteps"].entry) == ("again", "9")
    dock.duplicate({"metadata": {"worker": {"type": "gone", "config": {}}}})
    notice = cockpit.window._snackbar.current
    assert notice is not None and "'gone'" in notice.text


def test_a_checkpoint_is_handed_to_its_workers_form(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    cockpit, dock = open_dock(daemon)
    dock.show_page("use")
    dock.set_checkpoint("some-run@best", "resume", worker="cleanrl")
    form = dock.form
    assert form is not None and parts_of(form.request().settings).start == Start("resume", "some-run@best")
    dock.set_checkpoint("/x/step-1", "warm_start", "sac_continuous_action", "Pendulum-v1")
    found = parts_of(form.request().settings)
    assert (found.own["algo"], found.own["env_id"]) == ("sac_continuous_action", "Pendulum-v1")
    assert (found.start, found.params) == (Start("warm_start", "/x/step-1"), {})
    for worker in ("toy", "gone"):
        dock.set_checkpoint("/x/step-1", "resume", worker=worker)
    texts = [one.text for one in (cockpit.window._snackbar.current, *cockpit.window._snackbar._waiting) if one]
    assert texts == [
        "Toy Worker cannot begin a run from a checkpoint this way",
        "The worker 'gone' of that checkpoint is not installed",
    ]
    assert dock.form is form


def test_the_daemon_may_go_and_come_back_without_costing_what_was_typed(
    open_dock: OpenDock, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, dock = open_dock(daemon)
    form = toy_form(dock)
    form.run["seed"].put("99")
    daemon.kill()
    qtbot.waitUntil(lambda: "away" in form.bar.why_not, timeout=HANG)
    assert form.isVisible() and form.run["seed"].entry == "99"
    daemon.start()
    qtbot.waitUntil(form.bar.launch_button.isEnabled, timeout=HANG)
    assert dock.form is form and form.run["seed"].entry == "99"


def test_a_damaged_memory_is_no_obstacle(open_dock: OpenDock, daemon: DaemonProcess) -> None:
    memory = {"train.mode": 5, "train.what": [], "train.worker": {}, "train.form.toy": 3, "presets.train": {"x": 1}}
    daemon.paths.root.mkdir(exist_ok=True)
    from gym_gui.ui.preferences import FILE_NAME

    (daemon.paths.root / FILE_NAME).write_text(json.dumps(memory))
    _, dock = open_dock(daemon)
    assert dock.mode.choice == "agent" and dock.train_presets.presets() == {}
    assert isinstance(dock.form, TrainForm) and dock.form.bar.launch_button.isEnabled()
