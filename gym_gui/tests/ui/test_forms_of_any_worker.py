"""What a manifest declares decides what is offered: start, GPUs, services, extras, consent. No worker is special."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtCore import Qt, QUrl
from PyQt6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from gym_gui.services.checkpoints.entry import UNCHECKED, CheckpointEntry
from gym_gui.services.worker_page import MOST_BYTES, read_page
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.support.dropped_worker import dropped_worker
from gym_gui.tests.ui.conftest import HANG, MakeCockpit, OpenForm
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.forms.settings_of import Start, parts_of, settings_of
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.workers.catalog import Catalog, WorkerEntry
from gym_gui.ui.workers.cleanrl.form import CleanRlTrainForm
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import Algorithm, RunnerCapabilities, load_manifest

pytestmark = pytest.mark.usefixtures("workers_train")

# ---- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"algo": "a", "seed": 1, "params": {"x": 1}, "start": {"mode": "resume", "checkpoint": "run@last"}},
        {"algo": "a", "seed": 1, "extras": {"algo_params": {"x": 1, "resume": "run@last"}}},
    ],
)
def test_settings_are_understood_in_every_spelling(settings: dict[str, Any]) -> None:
    found = parts_of(settings)
    assert (found.own, found.params, found.start) == ({"algo": "a", "seed": 1}, {"x": 1}, Start("resume", "run@last"))
    assert parts_of(settings_of(found.own, found.params, found.start)) == found


def test_damaged_settings_are_taken_for_absent() -> None:
    found = parts_of({"params": [1], "extras": 5, "start": {"mode": "fly"}, "script": "/x.py"})
    assert (found.params, found.extras, found.start, found.program) == ({}, {}, None, {"script": "/x.py"})


# ---- start -------------------------------------------------------------------------------------------------------


def test_a_worker_that_cannot_begin_from_a_checkpoint_is_not_asked_to(open_form: OpenForm) -> None:
    _, dock, form = open_form()
    assert form.start is None and "start" not in form.sections
    dock.set_checkpoint("/x", "resume", worker="dropped")
    assert parts_of(form.request().settings).start is None


def test_only_declared_ways_to_begin_are_offered_and_they_travel_as_start(open_form: OpenForm) -> None:
    _, dock, form = open_form(capabilities={"resume": True})
    assert form.start is not None
    kinds = [form.start.kind.combo.itemData(row) for row in range(form.start.kind.combo.count())]
    assert kinds == ["scratch", "resume"]
    dock.show_page("use")
    dock.set_checkpoint("run@last", "resume", "count", "Here-v0", worker="dropped")
    assert dock.form is form and form.isVisible()
    found = parts_of(form.request().settings)
    assert (found.start, found.own["env_id"]) == (Start("resume", "run@last"), "Here-v0")
    again = form.request().config()
    form.put_state({})
    form.fill_quietly(again)
    assert parts_of(form.request().settings) == found
    form.start.path.put("")
    assert "checkpoint" in form.bar.why_not and not form.bar.launch_button.isEnabled()


def test_a_checkpoint_opens_the_form_of_the_worker_that_wrote_it(open_form: OpenForm) -> None:
    _, dock, form = open_form(capabilities={"warm_start": True})
    dock.workers.choose("cleanrl")
    assert dock.form is dock.forms["cleanrl"]
    made = CheckpointEntry(
        "run@last", Path("/x/step-1"), "run", "r", "run", "", "dropped", 1, 1, UNCHECKED, algo="count", env_id="E"
    )
    dock.begin_from(made, "warm_start")
    assert dock.form is form
    assert parts_of(form.request().settings).start == Start("warm_start", "/x/step-1")
    dock.begin_from(replace(made, worker="cleanrl", algo="dqn"), "resume")
    cleanrl = dock.forms["cleanrl"]
    assert dock.pages.currentWidget() is cleanrl and cleanrl.request().settings["algo"] == "dqn"


def test_a_checkpoint_that_is_not_there_is_refused_beside_the_form(open_form: OpenForm, qtbot: QtBot) -> None:
    daemon, dock, form = open_form(capabilities={"resume": True})
    dock.set_checkpoint("nobody@last", "resume", worker="dropped")
    form.launch()
    qtbot.waitUntil(lambda: "not submitted" in form.notes_panel.toPlainText(), timeout=HANG)
    assert list(daemon.client.runs().runs) == []


# ---- checkpoints -------------------------------------------------------------------------------------------------


def test_a_worker_that_writes_checkpoints_is_told_how_often(open_form: OpenForm) -> None:
    _, _, form = open_form(capabilities={"checkpoint": True})
    assert form.checkpoints is not None and form.request().artifacts == {}
    form.checkpoints["checkpoint_every"].put("500")
    form.checkpoints["checkpoint_keep"].put("0")
    asked = {"checkpoints": {"every_steps": 500, "keep_last": 0}}
    assert form.request().artifacts == asked
    config, state = form.request().config(), form.state()
    form.put_state({})
    assert form.request().artifacts == {}
    form.fill_quietly(config)
    assert form.request().artifacts == asked, "a duplicated run is asked for the same"
    form.put_state({})
    form.put_state(state)
    assert form.request().artifacts == asked, "and the form remembers it"
    form.checkpoints["checkpoints"].put(False)
    assert form.request().artifacts == {"checkpoints": {"enabled": False}}


def test_a_worker_that_writes_none_is_not_asked_for_checkpoints(open_form: OpenForm) -> None:
    _, _, form = open_form()
    assert form.checkpoints is None and "artifacts" not in form.sections


# ---- environments ------------------------------------------------------------------------------------------------


def test_the_environments_that_a_manifest_lists_are_offered_in_the_field(
    open_form: OpenForm, qtbot: QtBot, tmp_path: Path
) -> None:
    listed = '\n[[environments]]\nname = "Ponds"\nids = ["Pond-v0", "Puddle-v0"]\n'
    _, _, form = open_form(more=listed)
    line = form.run["env_id"].editor
    assert isinstance(line, QLineEdit)
    qtbot.waitUntil(lambda: line.completer() is not None, timeout=HANG)
    completer = line.completer()
    assert completer is not None
    completer.setCompletionPrefix("pud")
    assert (completer.completionCount(), completer.currentCompletion()) == (1, "Puddle-v0")
    line.clear()
    qtbot.keyClicks(line, "Puddle-v")
    popup = completer.popup()
    assert popup is not None
    qtbot.waitUntil(popup.isVisible, timeout=HANG)
    qtbot.keyClicks(popup, "0")
    qtbot.waitUntil(lambda: line.text() == "Puddle-v0" and not popup.isVisible(), timeout=HANG)


# ---- room --------------------------------------------------------------------------------------------------------


def test_a_dry_run_tells_that_the_machine_is_too_small(open_form: OpenForm, qtbot: QtBot) -> None:
    _, _, form = open_form()
    form.hardware["cpus"].put("4000")
    form.dry_run()
    qtbot.waitUntil(lambda: "dry run" in form.notes_panel.toPlainText(), timeout=HANG)
    assert "dry run refused: This run can never start here: it asks for 4000 CPUs" in form.notes_panel.toPlainText()
    form.hardware["cpus"].put("1")
    form.dry_run()
    qtbot.waitUntil(lambda: "dry run passed" in form.notes_panel.toPlainText(), timeout=HANG)


# ---- GPUs and services -------------------------------------------------------------------------------------------


def test_a_worker_that_needs_a_gpu_is_not_launched_without_one(open_form: OpenForm) -> None:
    _, _, form = open_form(capabilities={"gpu_required": True})
    told = form.cockpit.bridge.health_changed
    told.emit(pb.Health())
    assert not form.bar.launch_button.isEnabled()
    assert form.bar.why_not == "Dropped Worker needs a GPU, and the daemon has none."
    told.emit(pb.Health(capacity=pb.Resources(gpus=1)))
    assert form.bar.why_not == "" and form.request().gpus == 1


def test_a_gpu_may_be_reserved_where_there_is_one(open_form: OpenForm) -> None:
    _, _, form = open_form()
    told, cuda = form.cockpit.bridge.health_changed, form.hardware["cuda"]
    told.emit(pb.Health())
    assert not cuda.editor.isEnabled()
    told.emit(pb.Health(capacity=pb.Resources(gpus=1)))
    cuda.put(True)
    assert form.request().gpus == 1


def test_services_that_are_away_are_shown_in_the_list_and_keep_runs_from_starting(
    open_form: OpenForm, qtbot: QtBot
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        label = f"xmpp@127.0.0.1:{server.getsockname()[1]}"
        _, dock, form = open_form(capabilities={"external_services": [label, "oracle"]})
        row = next(row for row in range(dock.workers.count()) if dock.workers._type_at(row) == "dropped")

        def shown() -> str:
            item = dock.workers.item(row)
            return item.text() if item is not None else ""

        qtbot.waitUntil(lambda: "xmpp answers · needs oracle" in shown(), timeout=HANG)
        assert form.bar.why_not == ""
    dock._look_for_services()
    qtbot.waitUntil(lambda: "xmpp away" in shown(), timeout=HANG)
    item = dock.workers.item(row)
    assert item is not None and "does not answer" in item.toolTip()
    assert "xmpp does not answer" in form.bar.why_not and not form.bar.launch_button.isEnabled()


def test_needs_decide_which_fields_must_be_filled(open_form: OpenForm) -> None:
    _, dock, form = open_form()
    assert "env_id" in form.run and "dataset" not in form.run and form.bar.why_not == ""
    entry = replace(form.entry, needs=frozenset({"dataset"}))
    other = SchemaTrainForm(form.cockpit, entry, form.queries)
    other.setParent(dock)
    assert "dataset" in other.run and "env_id" not in other.run
    assert "Dataset must not be left empty" in other.bar.why_not
    field = other.run["dataset"]
    assert field.error.text() == "" and not field.editor.property("invalid"), "nobody is blamed before they began"
    field.put("poles")
    field.put("")
    assert field.error.text() == "Dataset must not be left empty" and field.editor.property("invalid")
    field.reset()
    assert field.error.text() == ""
    other.run["dataset"].put("halfcheetah-medium-v2")
    assert other.request().run_name == "count-halfcheetah-medium-v2-s1", "as the command line calls it"
    assert parts_of(other.request().settings).own["dataset"] == "halfcheetah-medium-v2"


# ---- refusals and duplicates -------------------------------------------------------------------------------------

EPSILONS = {name: {"type": "number", "default": 0.5} for name in ("epsilon_start", "epsilon_end")}
SCRIPT_CHOICE = """
[choices.recipe]
help = "Another recipe."
kind = "file"
replaces_algorithm = true
"""


def test_a_workers_sentence_stands_under_the_flag_that_it_names_first(open_form: OpenForm) -> None:
    _, _, form = open_form(schema={"properties": EPSILONS})
    start, end = form.settings["epsilon_start"], form.settings["epsilon_end"]
    sentence = "--epsilon-end must not be above --epsilon-start"
    form.tell_refusal(sentence)
    assert (start.error.text(), end.error.text()) == ("", sentence)
    end.put("0.25")
    form.tell_refusal("--epsilon-start: must be above --epsilon-end")
    assert start.error.text().startswith("--epsilon-start:") and end.error.text() == ""


def test_an_emptied_field_that_may_be_null_is_sent_as_null(open_form: OpenForm) -> None:
    clip, plain = {"type": ["number", "null"], "default": 0.5}, {"type": ["number", "null"], "default": None}
    _, _, form = open_form(schema={"properties": {"clip": clip, "plain": plain}})
    assert parts_of(form.request().settings).params == {"clip": 0.5}
    form.settings["clip"].put("")
    assert parts_of(form.request().settings).params == {"clip": None}


def test_a_duplicate_keeps_what_the_form_has_no_fields_for(open_form: OpenForm) -> None:
    _, _, form = open_form(schema={"properties": EPSILONS}, more=SCRIPT_CHOICE)
    plain = form.request().config()
    config = json.loads(json.dumps(plain))
    config["artifacts"] |= {"tensorboard": {"enabled": False}, "wandb": {"enabled": True}, "video": {"enabled": False}}
    config["metadata"]["group"] = "lr-study"
    worker = config["metadata"]["worker"]["config"]
    worker |= {"recipe": "spicy", "extras": {"notes": "as before"}}
    del worker["algo"]
    form.fill_quietly(config)
    again = form.request().config()
    kept = {"tensorboard": {"enabled": False}, "wandb": {"enabled": True}}
    assert again["artifacts"] == kept, "what stands at its default is not kept"
    assert again["metadata"]["group"] == "lr-study"
    assert again["metadata"]["worker"]["config"] == worker, "a choice stands in the algorithm's place"
    assert not form.run["algo"].editor.isEnabled()
    note = form.kept_note
    assert note.label.text().endswith(": recipe = spicy, notes = as before, TensorBoard off, W&B on")
    assert not note.isHidden()

    state = json.loads(json.dumps(form.state()))
    form.put_state({})
    assert form.request().config() == plain and note.isHidden()
    form.put_state(state)
    assert form.request().config() == again, "it is remembered with the form"
    note.drop_button.click()
    left = form.request().config()
    assert left["artifacts"] == plain["artifacts"] and left["metadata"]["worker"] == plain["metadata"]["worker"]
    assert form.run["algo"].editor.isEnabled()


# ---- its page ----------------------------------------------------------------------------------------------------

SECOND = """
[algorithms.second]
summary = "Another one."
"""
README = "# Dropped\n\nCounts *slowly*. ![x](/etc/hostname) <b>bold</b> [more](https://example.org/page)\n"


def test_the_page_in_a_workers_folder_is_shown_beside_its_form(
    open_form: OpenForm, qtbot: QtBot, tmp_path: Path
) -> None:
    _, _, form = open_form(more=SECOND)
    section, package = form.sections["documentation"], tmp_path / "workers" / "dropped_worker"
    assert section.isHidden(), "a worker without a page has no empty section"
    (package / "README.md").write_text(README)
    (package / "docs").mkdir()
    (package / "docs" / "second.md").write_text("# The second\n")
    form.run["algo"].put("second")
    qtbot.waitUntil(lambda: form.page.toPlainText() == "The second", timeout=HANG)
    assert not section.isHidden()
    form.run["algo"].put("count")
    qtbot.waitUntil(lambda: "Counts slowly." in form.page.toPlainText(), timeout=HANG)
    assert "<b>bold</b>" in form.page.toPlainText(), "HTML is text"
    assert form.page.loadResource(2, QUrl("file:///etc/hostname")) is None, "a picture is not loaded"
    (package / "docs" / "second.md").write_bytes(b"x" * (MOST_BYTES + 1))
    form.run["algo"].put("second")
    qtbot.waitUntil(lambda: "The page cannot be shown: " in form.page.toPlainText(), timeout=HANG)


def test_only_regular_files_are_pages(tmp_path: Path) -> None:
    package = dropped_worker(tmp_path) / "dropped_worker"
    manifest = load_manifest(package)
    assert read_page(manifest, "count") == ""
    os.mkfifo(package / "README.md")
    with pytest.raises(OSError, match=r"README\.md"):
        read_page(manifest, "count")
    (package / "docs").mkdir()
    (package / "docs" / "count.md").write_text("counts")
    assert read_page(manifest, "count") == "counts"
    (package / "worker.md").write_text("elsewhere")
    with pytest.raises(OSError, match=r"README\.md"):
        read_page(manifest, "../worker")


# ---- extras ------------------------------------------------------------------------------------------------------


def extras_of(form: SchemaTrainForm, qtbot: QtBot) -> Any:
    assert form.extras is not None
    qtbot.waitUntil(lambda: "games" in form.extras.boxes, timeout=HANG)  # type: ignore[union-attr]
    return form.extras


def test_extras_are_boxes_that_say_what_is_installed(open_form: OpenForm, qtbot: QtBot) -> None:
    _, _, form = open_form(extras=True)
    extras = extras_of(form, qtbot)
    assert extras.states["games"].text() == "missing · 12 MB" and extras.chosen() == []
    extras.boxes["games"].click()
    assert parts_of(form.request().settings).extras == {"requirements": ["games"]}
    config = form.request().config()
    form.put_state({})
    assert extras.chosen() == []
    form.fill_quietly(config)
    assert extras.chosen() == ["games"]


def test_what_is_ticked_is_installed_before_the_run_starts(open_form: OpenForm, qtbot: QtBot) -> None:
    daemon, _, form = open_form(extras=True)
    extras = extras_of(form, qtbot)
    extras.boxes["games"].click()
    form.run["total_timesteps"].put("3")
    form.launch()
    qtbot.waitUntil(lambda: "Downloading games" in extras.told.text(), timeout=HANG)
    assert extras.bar.isVisible() and extras.cancel_button.isVisible() and not form.bar.launch_button.isEnabled()
    assert list(daemon.client.runs().runs) == []
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        (daemon.paths.root / "go").touch()
    assert daemon.wait_over(submitted.args[0]).outcome == "completed"
    qtbot.waitUntil(lambda: extras.states["games"].text() == "installed", timeout=HANG)


def test_an_installation_is_canceled_and_nothing_starts(open_form: OpenForm, qtbot: QtBot) -> None:
    daemon, _, form = open_form(extras=True)
    extras = extras_of(form, qtbot)
    extras.boxes["games"].click()
    form.launch()
    qtbot.waitUntil((daemon.paths.root / "downloading").exists, timeout=HANG)
    qtbot.mouseClick(extras.cancel_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(form.bar.launch_button.isEnabled, timeout=HANG)
    assert "stopped" in extras.told.text() and not extras.bar.isVisible()
    assert list(daemon.client.runs().runs) == []


def test_extras_that_cannot_be_installed_say_why_where_they_stand(open_form: OpenForm, qtbot: QtBot) -> None:
    daemon, _, form = open_form(extras=True)
    extras = extras_of(form, qtbot)
    extras.boxes["broken"].click()
    form.launch()
    qtbot.waitUntil(lambda: "no such package" in extras.told.text(), timeout=HANG)
    assert extras.told.property("role") == "error" and "no such package" in form.bar.reason.text()
    assert list(daemon.client.runs().runs) == []


def test_a_cockpit_that_closes_ends_the_installation(open_form: OpenForm, qtbot: QtBot) -> None:
    daemon, dock, form = open_form(extras=True)
    extras = extras_of(form, qtbot)
    extras.boxes["games"].click()
    form.launch()
    qtbot.waitUntil((daemon.paths.root / "downloading").exists, timeout=HANG)
    dock.close_panel()
    qtbot.waitUntil(lambda: not extras.is_busy, timeout=HANG)
    assert not (daemon.paths.root / "games-installed").exists()


# ---- consent -----------------------------------------------------------------------------------------------------

SCRIPT = (
    "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--speed', type=float, default=0.5)\n"
)


@pytest.fixture
def script_form(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> tuple[CleanRlTrainForm, Path]:
    cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
    dock = cockpit.window.docks["train"].widget()
    assert isinstance(dock, TrainDock)
    qtbot.waitUntil(lambda: "cleanrl" in dock.catalog.entries, timeout=HANG)
    dock.workers.choose("cleanrl")
    dock.show_page("train")
    form = dock.form
    assert isinstance(form, CleanRlTrainForm)
    file = tmp_path / "mine.py"
    file.write_text(SCRIPT + "print(parser.parse_args())\n")
    form.content.picker.source.choose("own")
    form.content.picker.script_file.put(str(file))
    qtbot.waitUntil(lambda: "speed" in form.parameters.fields, timeout=HANG)
    return form, file


def test_a_script_that_is_new_here_is_asked_about_with_its_command(
    script_form: tuple[CleanRlTrainForm, Path], daemon: DaemonProcess, qtbot: QtBot
) -> None:
    form, file = script_form
    form.parameters.fields["speed"].put("0.75")
    form.launch()
    qtbot.waitUntil(form.consent.isVisible, timeout=HANG)
    assert f"{file} --speed 0.75" in form.consent.command.toPlainText()
    assert "sha256" in form.consent.file.text() and not form.bar.launch_button.isEnabled()
    qtbot.keyClick(form.consent, Qt.Key.Key_Escape)
    assert not form.consent.isVisible() and form.bar.launch_button.isEnabled()
    assert list(daemon.client.runs().runs) == []
    form.launch()
    qtbot.waitUntil(form.consent.isVisible, timeout=HANG)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        form.consent.allow_button.click()
    assert daemon.wait_over(submitted.args[0]).outcome == "completed"
    qtbot.waitUntil(lambda: not form.is_resting, timeout=HANG)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as second:
        form.launch()
    assert not form.consent.isVisible()
    daemon.wait_over(second.args[0])
    file.write_text(file.read_text() + "# changed\n")
    qtbot.waitUntil(lambda: not form.is_resting, timeout=HANG)
    form.launch()
    qtbot.waitUntil(form.consent.isVisible, timeout=HANG)
    form.consent.refuse_button.click()


# ---- what is offered of runs -------------------------------------------------------------------------------------


def test_pause_is_offered_only_where_it_is_declared(make_cockpit: MakeCockpit) -> None:
    from gym_gui.ui.run_actions import RunActions

    cockpit = make_cockpit().window.cockpit
    actions = RunActions(cockpit)
    entries = {
        name: WorkerEntry(
            name,
            name,
            "",
            "analytics",
            True,
            "ready",
            capabilities=RunnerCapabilities(pause=name == "able"),
            algorithms={"a": Algorithm(summary="x")},
        )
        for name in ("able", "unable")
    }
    actions.use_catalog(Catalog(entries))
    for name in ("able", "unable"):
        run = pb.Run(run_id=f"run-{name}", name=name, worker_type=name, state="EXEC", desired="run")
        cockpit.runs.take([run])
        cockpit.selection.select([run.run_id])
        assert bool(actions.applicable("pause")) == (name == "able")
    tip = cockpit.commands.action("run-pause").toolTip()
    assert "its worker 'unable' cannot pause runs" in tip
    actions.deleteLater()


def test_ids_travel_with_the_run(open_form: OpenForm) -> None:
    _, _, form = open_form()
    form.remarks["agent_id"].put("learner-1")
    form.remarks["worker_id"].put("left-bench")
    config = form.request().config()
    worker = config["metadata"]["worker"]
    assert (worker["agent_id"], worker["worker_id"]) == ("learner-1", "left-bench")
    form.put_state({})
    form.fill_quietly(json.loads(json.dumps(config)))
    assert form.request().config() == config
