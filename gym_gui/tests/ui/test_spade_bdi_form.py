"""The form for BDI runs against the worker itself: plans that are edited, checked and saved, and a server to choose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from pytestqt.qtbot import QtBot

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.forms.settings_of import parts_of
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.widgets.spade_bdi_train_form import SpadeBdiTrainForm
from gym_gui.ui.workers.catalog import entry_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

WORKER = "spade_bdi_rl_worker"
LEARNER = Path(discover().workers[WORKER].package_dir) / "plans" / "learner.asl"


@pytest.fixture
def form(make_cockpit: MakeCockpit, qtbot: QtBot) -> Iterator[SpadeBdiTrainForm]:
    """The form with the worker's schema and plans; no daemon is needed to fill it in."""
    app = make_cockpit()
    app.bridge._timer.start()  # answers of threads are handed on, as in a window that is connected
    manifest = discover().workers[WORKER]
    told = pb.WorkerInfo(type=WORKER, name=manifest.name, lane=manifest.lane, manifest_json=manifest.to_json())
    told.ready, told.readiness = True, "ready"
    queries = WorkerQueries(app.window.cockpit.bridge.paths)
    made = default_presenters().make_form(app.window.cockpit, entry_of(told), queries)
    assert isinstance(made, SpadeBdiTrainForm)
    app.window.setCentralWidget(made)
    qtbot.waitUntil(lambda: made.waiting() == "" and made.plans.files is not None, timeout=HANG)
    yield made
    queries.stop()


def test_every_setting_of_the_worker_has_its_place(form: SpadeBdiTrainForm) -> None:
    asked = {name for group in form.setting_groups() for name in group.editors}
    schema = form.queries.config_schema(WORKER)
    assert schema is not None and asked == set(schema["properties"])
    assert form.plans.chosen == "learner" and "learner" in [
        form.plans.choice.itemText(n) for n in range(form.plans.choice.count())
    ]
    form.run["env_id"].put("FrozenLake-v1")
    form.settings["alpha"].put("0.3")
    form.world["is_slippery"].put("no")
    params = dict(parts_of(form.request().settings).params)
    assert params["alpha"] == 0.3 and params["is_slippery"] is False and params["plans"] == "learner"
    form.put_state(form.state())
    assert dict(parts_of(form.request().settings).params) == params, "it remembers"
    form.fill_quietly(form.request().config() | {"run_name": "again"})
    assert form.plans.chosen == "learner" and form.settings["alpha"].entry == "0.3"


def test_a_mistake_in_plans_is_shown_under_its_line_and_a_copy_is_saved(form: SpadeBdiTrainForm, qtbot: QtBot) -> None:
    plans, before = form.plans, LEARNER.read_text()
    form.run["env_id"].put("FrozenLake-v1")
    plans.edit.click()
    qtbot.waitUntil(lambda: plans.is_editing, timeout=HANG)
    assert plans.editor.toPlainText() == before and "saved as a copy" in plans.name.text()
    assert not plans.save_button.isEnabled() and "plans" not in form.field_problems()
    wrong = before + "\n@rest\n+!rest <- .run_episod(explore).\n"
    plans.editor.setPlainText(wrong)
    assert "not saved" in form.field_problems()["plans"], "a run would do something else than what is seen"
    plans.check_button.setFocus()
    plans.check_button.click()
    window = plans.window()
    assert window is not None and window.focusWidget() is plans.editor, "its button is off meanwhile"
    qtbot.waitUntil(lambda: plans.editor.mistake is not None, timeout=HANG)
    mistake = plans.editor.mistake
    assert mistake is not None and mistake.line == wrong.count("\n") and "run_episode" in mistake.what
    cursor = plans.editor.textCursor()
    assert (cursor.blockNumber() + 1, cursor.columnNumber() + 1) == (mistake.line, mistake.column)
    form.cockpit.themes.toggle()
    assert plans.editor.note.text().startswith("▲ there is no action") and plans.editor.mistake is mistake
    assert plans.said.property("role") == "error"
    plans.editor.setPlainText(wrong.replace("run_episod(", "run_episode("))
    assert plans.editor.mistake is None and not plans.editor.note.isVisible()
    plans.check_button.click()
    qtbot.waitUntil(lambda: plans.said.text() == "These plans can be run.", timeout=HANG)
    plans.save_button.setFocus()
    plans.save_button.click()
    qtbot.waitUntil(lambda: not plans.has_changes, timeout=HANG)
    assert window.focusWidget() is plans.editor
    copy = Path(plans.chosen)
    assert copy.name == "learner-copy.asl" and copy.read_text() == plans.editor.toPlainText()
    assert LEARNER.read_text() == before and form.field_problems() == {}
    assert parts_of(form.request().settings).params["plans"] == str(copy)
    # A dry run of the whole form leads to the place, too.
    copy.write_text("!learn.\n+!learn <- !!episod.\n+!episode <- .run_episode(explore).\n")
    plans.close_editor()
    form.dry_run()
    qtbot.waitUntil(lambda: plans.editor.mistake is not None, timeout=HANG)
    assert plans.editor.mistake is not None and plans.editor.mistake.line == 2 and plans.is_editing


def test_a_mistake_in_an_included_file_is_not_marked_in_another_one(
    form: SpadeBdiTrainForm, qtbot: QtBot, tmp_path: Path
) -> None:
    plans, main = form.plans, tmp_path / "main.asl"
    common = tmp_path / "common.asl"
    common.write_text("\n+!rest <- .run_episod(explore).\n")
    main.write_text('!learn.\n{ include("common.asl") }\n+!learn <- !!learn.\n')
    form.run["env_id"].put("FrozenLake-v1")
    plans.choice.setEditText(str(main))
    plans.edit.click()
    qtbot.waitUntil(lambda: plans.is_editing, timeout=HANG)
    plans.check_button.click()
    qtbot.waitUntil(lambda: plans.said.property("role") == "error", timeout=HANG)
    assert plans.said.text().startswith(f"{common}, line 2, column 11: ") and plans.editor.mistake is None
    plans.close_editor()
    form.dry_run()
    qtbot.waitUntil(lambda: plans.said.property("role") == "error", timeout=HANG)
    assert str(common) in plans.said.text() and not plans.is_editing


def test_the_server_is_chosen_and_its_readiness_is_a_sentence(form: SpadeBdiTrainForm, qtbot: QtBot) -> None:
    server = form.server
    qtbot.waitUntil(lambda: server.readiness.property("role") == "good", timeout=HANG)
    assert server.readiness.text() and not server.group["xmpp_jid"].isVisible()
    server.group["xmpp"].put("own")
    assert server.group["xmpp_jid"].isVisible() and server.password.isVisible()
    qtbot.waitUntil(lambda: server.readiness.property("role") == "error", timeout=HANG)
    assert "JID" in server.readiness.text()


def test_tab_indents_in_the_editor_and_escape_leads_out_of_it(form: SpadeBdiTrainForm, qtbot: QtBot) -> None:
    form.plans.open_editor()
    qtbot.waitUntil(lambda: form.plans.is_editing, timeout=HANG)
    editor = form.plans.editor
    editor.setPlainText("")
    editor.setFocus()
    qtbot.keyClick(editor, Qt.Key.Key_Tab)
    assert editor.toPlainText() == "    " and editor.hasFocus()
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    qtbot.keyClick(editor, Qt.Key.Key_Tab)
    assert not editor.hasFocus()
