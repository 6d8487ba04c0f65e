"""The form for offline runs against the worker itself: nothing is launched on data that nobody verified."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from corl_worker.tests import worlds
from corl_worker.tests.worlds import play_set
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.ui.conftest import HANG, MakeCockpit
from gym_gui.ui.forms.settings_of import parts_of
from gym_gui.ui.presenters.workers.registry import default_presenters
from gym_gui.ui.widgets.corl_train_form import CorlTrainForm
from gym_gui.ui.workers.catalog import entry_of
from mosaic_protocol.datasets import DATA
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

WORKER = "corl"
CHECKOUT = Path(worlds.__file__).parent / "checkout"


@pytest.fixture
def form(make_cockpit: MakeCockpit, qtbot: QtBot) -> Iterator[CorlTrainForm]:
    """The form with two datasets that nobody verified; no daemon is needed to fill it in."""
    app = make_cockpit()
    paths = app.window.cockpit.bridge.paths
    play_set(paths, "swings", "Pendulum-v1")
    play_set(paths, "poles", "CartPole-v1", longest=30)
    app.bridge._timer.start()  # answers of threads are handed on, as in a window that is connected
    manifest = discover().workers[WORKER]
    told = pb.WorkerInfo(type=WORKER, name=manifest.name, lane=manifest.lane, manifest_json=manifest.to_json())
    told.ready, told.readiness = True, "ready"
    queries = WorkerQueries(paths)
    presenters = default_presenters()
    made = presenters.make_form(app.window.cockpit, entry_of(told), queries)
    assert presenters.problems == []
    assert isinstance(made, CorlTrainForm)
    app.window.setCentralWidget(made)
    qtbot.waitUntil(lambda: made.waiting() == "" and made.picker.shelf.entries is not None, timeout=HANG)
    yield made
    queries.stop()


def test_a_dataset_must_be_verified_before_anything_is_launched(form: CorlTrainForm, qtbot: QtBot) -> None:
    picker = form.picker
    assert "dataset" in form.field_problems() and not picker.badge.isVisible()
    picker.choice.setCurrentIndex(picker.choice.findText("swings"))
    picker.choice.activated.emit(picker.choice.currentIndex())
    assert picker.name == "swings" and picker.badge.word == "unverified" and picker.verify.isVisible()
    assert "press Verify" in form.waiting() and "3 episodes · 180 steps" in picker.about.text()
    picker.verify.click()
    qtbot.waitUntil(lambda: picker.badge.word == "verified", timeout=HANG)
    assert form.waiting() == "" and not picker.verify.isVisible()
    file = form.cockpit.bridge.paths.dataset("swings") / DATA
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    picker.shelf.look()
    qtbot.waitUntil(lambda: picker.badge.word == "unverified", timeout=HANG)
    picker.verify.click()
    qtbot.waitUntil(lambda: picker.badge.word == "corrupt", timeout=HANG)
    assert "corrupt" in form.waiting() and "changed since it was written" in picker.work.said.text()
    file.unlink()
    picker.shelf.look()
    qtbot.waitUntil(lambda: picker.badge.word == "absent", timeout=HANG)
    assert "gone" in form.waiting()


def test_fields_are_those_of_the_algorithm_and_what_was_typed_stays(form: CorlTrainForm, qtbot: QtBot) -> None:
    form.picker.put("poles")
    form.run["algo"].put("bc")
    qtbot.waitUntil(lambda: form.waiting().startswith("poles was not verified"), timeout=HANG)
    assert "best_fraction" in form.data and "online_steps" not in form.online and form.offline_only.isVisible()
    form.data["best_fraction"].put("0.5")
    form.settings["hidden_dim"].put("16")
    form.run["algo"].put("iql")
    qtbot.waitUntil(lambda: "online_steps" in form.online, timeout=HANG)
    assert form.settings["hidden_dim"].entry == "16" and not form.offline_only.isVisible()
    form.online["online_steps"].put("1k")
    form.run["total_timesteps"].put("2k")
    form.wandb["track"].put(True)
    settings = form.request().settings
    assert settings["dataset"] == "poles" and settings["algo"] == "iql" and form.steps_wanted() == 3000
    assert dict(parts_of(settings).params) == {"hidden_dim": 16, "online_steps": 1000, "track": True}
    kept = form.state()
    form.put_state({})
    assert form.picker.name == ""
    form.put_state(kept)
    qtbot.waitUntil(lambda: form.request().settings == settings, timeout=HANG)
    form.fill_quietly(form.request().config())
    qtbot.waitUntil(lambda: form.request().settings == settings, timeout=HANG)


def test_the_worker_says_beside_the_dataset_what_does_not_fit_it(form: CorlTrainForm, qtbot: QtBot) -> None:
    form.run["algo"].put("td3_bc")
    form.picker.put("poles")
    form.picker.shelf.verify("poles")
    qtbot.waitUntil(lambda: form.picker.error.text() != "", timeout=HANG)
    assert "poles" in form.picker.error.text() and form.picker.error.property("role") == "error"
    form.picker.put("swings")
    assert form.picker.error.text() == ""


def test_a_dataset_that_is_not_there_is_named(form: CorlTrainForm) -> None:
    form.picker.put("nowhere")
    assert form.picker.badge.word == "absent" and "There is no dataset 'nowhere'" in form.waiting()
    assert form.picker.choice.currentText() == "nowhere"


def test_cancelling_a_check_leaves_the_badge_as_it_was(form: CorlTrainForm, qtbot: QtBot) -> None:
    shelf = form.picker.shelf
    form.picker.put("swings")
    shelf.verify("swings")
    shelf.cancel()
    qtbot.waitUntil(lambda: shelf.job is None, timeout=HANG)
    assert "cancelled" in form.picker.work.said.text() and form.picker.badge.word == "unverified"
    form.picker.put("poles")
    assert form.picker.work.said.text() == "", "that was about another dataset"


def test_corls_own_scripts_are_chosen_from_a_checkout(
    form: CorlTrainForm, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form.queries, "_script_python", lambda bundle: Path(sys.executable))
    source = form.source
    form.picker.put("swings")
    form.run["total_timesteps"].put("2k")
    source.source.choose("corl")
    assert not form.run["algo"].isVisible() and "must be chosen" in form.field_problems()["corl_path"]
    source.checkout.put("/nowhere/at/all")
    assert "no folder" in form.field_problems()["corl_path"]
    source.checkout.put(str(CHECKOUT))
    line = source.script_name.editor
    qtbot.keyClicks(line, "tin")
    source.checkout.put(str(CHECKOUT.parent))
    source.checkout.put(str(CHECKOUT))
    qtbot.keyClicks(line, "y")
    qtbot.waitUntil(lambda: "betas" in form.settings, timeout=HANG)
    assert "rows of the dataset" in form.settings["buffer_size"].spec.help and "env" not in form.settings
    assert list(form.wandb.editors) == ["track", "wandb_project_name", "wandb_entity"]
    form.settings["batch_size"].put("8")
    request = form.request()
    assert request.bundle == "corl_upstream" and request.run_name == "tiny-swings-s1"
    told = {"algo": "tiny", "source": "corl", "corl_path": str(CHECKOUT), "dataset": "swings"}
    assert {**request.settings, **told} == request.settings
    assert dict(parts_of(request.settings).params) == {"batch_size": 8}
    assert form.script_words()[:3] == ["tiny", "--corl-path", str(CHECKOUT)]
    kept = form.state()
    form.put_state({})
    assert form.request().bundle is None and form.run["algo"].isVisible()
    form.put_state(kept)
    qtbot.waitUntil(lambda: form.request().settings == request.settings, timeout=HANG)
    config = request.config()
    form.put_state({})
    form.fill_quietly(config)
    qtbot.waitUntil(lambda: form.request().config() == config, timeout=HANG)
    source.script_name.put("tinny")
    qtbot.waitUntil(lambda: "did you mean 'tiny'" in source.problem.text(), timeout=HANG)


def test_a_bundle_that_is_missing_is_named_with_the_command(form: CorlTrainForm, qtbot: QtBot) -> None:
    form.source.put({"source": "corl", "script_name": "tiny", "corl_path": str(CHECKOUT)})
    qtbot.waitUntil(lambda: "mosaic bundles install corl_upstream" in form.source.problem.text(), timeout=HANG)
    assert form.waiting()
