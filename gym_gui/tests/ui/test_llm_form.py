"""The form for language models against the worker itself: which model, what it is asked, what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.forms.settings_of import parts_of
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.workers.catalog import entry_of
from gym_gui.ui.workers.llm.form import LlmTrainForm
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

WORKER = "llm"
TEMPLATE = Path(discover().workers[WORKER].package_dir) / "prompting" / "templates" / "default.prompt"


@pytest.fixture
def form(make_cockpit: MakeCockpit, qtbot: QtBot) -> Iterator[LlmTrainForm]:
    """The form with the worker's schema and templates; no daemon is needed to fill it in."""
    app = make_cockpit()
    app.bridge._timer.start()  # answers of threads are handed on, as in a window that is connected
    manifest = discover().workers[WORKER]
    told = pb.WorkerInfo(type=WORKER, name=manifest.name, lane=manifest.lane, manifest_json=manifest.to_json())
    told.ready, told.readiness = True, "ready"
    queries = WorkerQueries(app.window.cockpit.bridge.paths)
    made = default_presenters().make_form(app.window.cockpit, entry_of(told), queries)
    assert isinstance(made, LlmTrainForm)
    app.window.setCentralWidget(made)
    qtbot.waitUntil(lambda: made.waiting() == "" and made.prompts.files is not None, timeout=HANG)
    made.run["env_id"].put("FrozenLake-v1")
    yield made
    queries.stop()


def params_of(form: LlmTrainForm) -> dict[str, object]:
    return dict(parts_of(form.request().settings).params)


def test_every_setting_of_the_worker_has_its_place(form: LlmTrainForm) -> None:
    asked = {name for group in form.setting_groups() for name in group.editors}
    schema = form.queries.config_schema(WORKER)
    assert schema is not None and asked == set(schema["properties"])
    assert not form.settings.editors, "nothing is left over"
    assert form.prompts.chosen == "default" and form.model.is_local
    form.run["algo"].put("plan")
    form.asking["plan_steps"].put("6")
    form.costs["max_tokens"].put("200k")
    before = params_of(form)
    assert (before["plan_steps"], before["max_tokens"]) == (6, 200_000)
    form.put_state(form.state())
    assert params_of(form) == before, "it remembers"
    form.fill_quietly(form.request().config() | {"run_name": "again"})
    assert params_of(form) == before


def test_only_what_the_mode_knows_is_shown_and_sent(form: LlmTrainForm) -> None:
    form.run["algo"].put("few_shot")
    assert "must be named" in form.field_problems()["examples_from"]
    form.asking["examples_from"].put("my-session")
    assert form.field_problems() == {} and params_of(form)["examples_from"] == "my-session"
    form.run["algo"].put("reflect")
    assert not form.asking["examples_from"].isVisible() and form.asking["lessons"].isVisible()
    assert "examples_from" not in params_of(form), "the worker would refuse it"
    form.run["algo"].put("few_shot")
    assert params_of(form)["examples_from"] == "my-session", "it was not forgotten"


def test_a_model_of_this_machine_or_of_a_server(form: LlmTrainForm, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: "mosaic bundles install llm_local" in form.model.said.text(), timeout=HANG)
    assert not form.model.group["base_url"].isVisible()
    form.model.where.choose("server")
    assert form.model.group["base_url"].isVisible() and "named" in form.field_problems()["model"]
    form.model.group["model"].put("some-model")
    assert not form.model.is_local
    qtbot.waitUntil(lambda: "--base-url is missing" in form.model.said.text(), timeout=HANG)
    form.model.group["base_url"].put("http://127.0.0.1:9/v1")
    qtbot.waitUntil(lambda: "http://127.0.0.1:9/v1" in form.model.said.text(), timeout=HANG)
    assert "No key was found in OPENAI_API_KEY" in form.model.key.text()
    assert "not known" in form.price.text()
    asked = form.preview.toPlainText()
    assert "You cross a frozen lake" in asked and "row 0, column 0" in asked
    form.costs["max_money"].put("1")
    qtbot.waitUntil(lambda: "price of some-model is not known" in form.preview_said.text(), timeout=HANG)
    form.put_state({})
    assert form.model.is_local and params_of(form).get("model") == "local"
    form.fill_quietly(
        {"run_name": "x", "metadata": {"worker": {"config": {"params": {"model": "local", "base_url": "http://h/v1"}}}}}
    )
    assert not form.model.is_local, "a server may have a model of that name, too"


def test_a_mistake_in_a_template_is_shown_in_its_line_and_a_copy_is_saved(form: LlmTrainForm, qtbot: QtBot) -> None:
    prompts, before = form.prompts, TEMPLATE.read_text()
    prompts.edit.click()
    qtbot.waitUntil(lambda: prompts.is_editing, timeout=HANG)
    assert prompts.editor.toPlainText() == before and not prompts.save_button.isEnabled()
    wrong = before.replace("{observation}{hint}", "{observaton}{hint}")
    prompts.editor.setPlainText(wrong)
    assert "not saved" in form.field_problems()["prompt"]
    prompts.check_button.click()
    qtbot.waitUntil(lambda: prompts.editor.mistake is not None, timeout=HANG)
    mistake = prompts.editor.mistake
    assert mistake is not None and "did you mean" in mistake.what
    assert wrong.splitlines()[mistake.line - 1] == "{observaton}{hint}"
    prompts.editor.setPlainText(before.replace("Step {step}.", "Moment {step}."))
    prompts.check_button.click()
    qtbot.waitUntil(lambda: prompts.said.text() == "Prompts can be made from this template.", timeout=HANG)
    prompts.save_button.click()
    qtbot.waitUntil(lambda: not prompts.has_changes, timeout=HANG)
    copy = Path(prompts.chosen)
    assert copy.name == "default-copy.prompt" and TEMPLATE.read_text() == before
    assert params_of(form)["prompt"] == str(copy)
