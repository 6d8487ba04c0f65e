"""Ranges beside the fields of a form: what they show, what is wrong at its place, and the sweep that they start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.services.run_request import RunRequest
from gym_gui.tests.support.climbing_worker import climbing_worker
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.forms.field_group import FieldGroup
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.forms.sweep_panel import SweepPanel
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.theme import Themes
from gym_gui.validations.dry_run import DryRun

FIELDS = [
    FieldSpec("learning_rate", "Learning rate", "float", 2.5e-4),
    FieldSpec("num_steps", "Steps", "int", 128),
    FieldSpec("mode", "Mode", "choice", "up", choices=("up", "down")),
    FieldSpec("label", "Label"),
]
REQUEST = RunRequest("toy", "toy", "", {"algo": "ppo", "seed": 1})


@pytest.fixture
def fields(qtbot: QtBot, qapp: QApplication) -> tuple[SweepPanel, FieldGroup]:
    themes = Themes(qapp)
    panel, group = SweepPanel(themes), FieldGroup(themes, FIELDS)
    for widget in (panel, group):
        qtbot.addWidget(widget)
        widget.show()
    panel.changed.connect(lambda: panel.show_request(["ppo"], REQUEST, panel.problems(REQUEST, 4000)))
    group.changed.connect(panel.changed)
    panel.attend([group])
    return panel, group


def test_a_form_that_searches_nothing_is_as_it_was(fields: tuple[SweepPanel, FieldGroup]) -> None:
    panel, group = fields
    assert not panel.is_on and panel.ranges() == {} and panel.problems(REQUEST, 0) == {}
    assert all(editor.range_button is None for editor in group.editors.values()) and not panel.fields.isVisible()


def test_a_field_gets_a_range_by_mouse_and_by_keys(fields: tuple[SweepPanel, FieldGroup], qtbot: QtBot) -> None:
    panel, group = fields
    panel.switch.click()
    assert group["label"].range_button is None  # a text has no range
    rate, steps = group["learning_rate"], group["num_steps"]
    assert rate.range_button is not None and steps.range_button is not None
    qtbot.mouseClick(rate.range_button, Qt.MouseButton.LeftButton)
    assert rate.range_entry == "2.5e-05 to 0.0025 log" and not rate.editor.isVisible()
    window = rate.window()
    assert window is not None and window.focusWidget() is rate.range_line, "what is typed next is the range"
    steps.range_button.setFocus()
    qtbot.keyClick(steps.range_button, Qt.Key.Key_Space)
    assert panel.ranges() == {"learning_rate": "2.5e-05 to 0.0025 log", "num_steps": "64 to 256"}
    assert "num_steps = { low = 64, high = 256 }" in panel.space.toPlainText()
    assert panel.preview.command.startswith("mosaic sweep ppo") and "sweep.toml" in panel.preview.command
    spec = panel.spec(REQUEST, 4000)
    assert spec is not None and list(spec.space) == ["learning_rate", "num_steps"]


def test_what_is_wrong_stands_at_its_field(fields: tuple[SweepPanel, FieldGroup]) -> None:
    panel, group = fields
    panel.switch.click()
    assert "nothing to search" in panel.problems(REQUEST, 4000)["sweep"]
    steps = group["num_steps"]
    steps.put_range("10 to 5")
    panel.changed.emit()
    assert steps.error.text() == "Steps is empty (low 10, high 5)" and panel.spec(REQUEST, 4000) is None
    steps.put_range("5 to 10")
    panel.fields["pruner"].put("asha")
    assert "pruner" in panel.problems(REQUEST, 0) and panel.problems(REQUEST, 4000) == {}
    assert not steps.error.isVisible()


def test_a_population_has_fields_of_its_own_that_are_judged_before_the_launch(
    fields: tuple[SweepPanel, FieldGroup],
) -> None:
    panel, group = fields
    panel.switch.click()
    group["learning_rate"].put_range("1e-4 to 1e-2 log")
    own = [panel.fields[name] for name in ("interval", "quantile", "perturb", "resample")]
    assert not any(editor.isVisible() for editor in own)
    panel.fields["pruner"].put("pbt")
    panel.fields.changed.emit()
    assert all(editor.isVisible() for editor in own) and "members of a population" in panel.about.text()
    panel.fields["interval"].put("500")
    panel.fields["seeds"].put("3")
    assert "seed of its own" in panel.problems(REQUEST, 4000)["seeds"] and panel.spec(REQUEST, 4000) is None
    panel.fields["seeds"].put("1")
    panel.fields["quantile"].put("0.9")
    assert "quantile" in panel.problems(REQUEST, 4000)
    panel.fields["quantile"].put("0.5")
    spec = panel.spec(REQUEST, 4000)
    assert spec is not None and spec.is_population
    assert (spec.rungs[0], spec.rungs[-1], spec.quantile) == (500, 3500, 0.5)
    panel.changed.emit()
    assert "--pruner pbt --interval 500 --quantile 0.5" in panel.preview.command
    panel.fields["pruner"].put("none")
    panel.fields.changed.emit()
    assert not any(editor.isVisible() for editor in own) and "--interval" not in panel.preview.command


def test_ranges_are_remembered_until_their_fields_are_there(fields: tuple[SweepPanel, FieldGroup]) -> None:
    panel, group = fields
    panel.switch.click()
    group["num_steps"].put_range("32, 64")
    kept = panel.state()
    panel.put({})
    assert not panel.is_on and not group["num_steps"].has_range
    group.set_fields([])
    panel.put(kept)
    group.set_fields(FIELDS)
    panel.attend([group])
    assert panel.ranges() == {"num_steps": "32, 64"} and panel.state() == kept
    group.set_fields(FIELDS)  # as when the flags of the script are read once more
    panel.attend([group])
    assert panel.ranges() == {"num_steps": "32, 64"}


def test_the_form_starts_a_sweep_and_a_refusal_names_the_end_that_is_wrong(
    make_cockpit: MakeCockpit,
    make_daemon: Callable[..., DaemonProcess],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = str(climbing_worker(tmp_path / "workers"))
    monkeypatch.setenv("MOSAIC_WORKER_PATH", folder)
    daemon = make_daemon()
    daemon.env["MOSAIC_WORKER_PATH"] = folder
    daemon.start()
    cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
    dock = cockpit.window.findChild(TrainDock)
    assert dock is not None
    qtbot.waitUntil(lambda: "climbing" in dock.catalog.entries, timeout=HANG)
    dock.workers.choose("climbing")
    dock.show_page("train")
    form = dock.form
    assert form is not None
    qtbot.waitUntil(lambda: form.waiting() == "" and "height" in form.searchable()[0], timeout=HANG)
    monkeypatch.setattr(form, "check", _judged)  # the worker's own dry runs are tested with any run
    accepted: list[str] = []
    dock.sweep_submitted.connect(accepted.append)
    form.sweep.switch.click()
    launch = form.bar.launch_button
    assert launch.text() == "Start sweep" and "nothing to search" in form.bar.why_not
    assert launch.accessibleName() == "Start the sweep"
    height, steps = form.searchable()[0]["height"], form.editor_of("total_timesteps")
    assert steps is not None
    steps.put("5")
    height.put_range("1 to 500")
    form.refresh()
    form.launch()
    qtbot.waitUntil(lambda: "highest value" in form.bar.reason.text(), timeout=HANG)
    height.put_range("1 to 2")
    form.sweep.fields["trials"].put("1")
    form.launch()
    qtbot.waitUntil(lambda: bool(accepted), timeout=HANG)
    sweep = daemon.client.sweep(accepted[0])
    assert sweep.spec.trials == 1 and sweep.spec.space["height"].high == 2 and sweep.spec.total_steps == 5
    form.sweep.switch.click()
    assert (launch.text(), launch.accessibleName()) == ("Launch", "Launch the run")


def _judged(config: dict[str, Any]) -> DryRun:
    too_high = config["metadata"]["worker"]["config"]["params"]["height"] > 100
    return DryRun(not too_high, "--height is above 100" if too_high else "fine", asked=True)
