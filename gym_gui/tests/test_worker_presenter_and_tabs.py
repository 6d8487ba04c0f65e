"""Workers plug in: the catalog, who draws what, and which tabs a run has by its worker's lane."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import WORKERS, DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit, make_cockpit, no_thread_is_left  # noqa: F401 - fixtures
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.presenters.workers.cleanrl import CleanRlWorkerPresenter
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.registry import PresenterRegistry, default_presenters
from gym_gui.ui.widgets.live_lane import LiveLanePanel
from gym_gui.ui.workers.catalog import HUMAN_TYPE, Catalog, WorkerEntry, entry_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

HANG = 60_000
BANNER = "CleanRL worker streams metrics via TensorBoard/W&B; live telemetry not available."


def worker_info(**changes: Any) -> pb.WorkerInfo:
    manifest = discover().workers["cleanrl"]
    fields = {"type": "cleanrl", "name": manifest.name, "lane": manifest.lane, "manifest_json": manifest.to_json()}
    return pb.WorkerInfo(**{**fields, "ready": True, "readiness": "ready", **changes})


def entry(lane: str) -> WorkerEntry:
    told = json.loads(discover().workers["cleanrl"].to_json())
    return entry_of(worker_info(type="any", manifest_json=json.dumps({**told, "type": "any", "lane": lane})))


# ---- the catalog -------------------------------------------------------------------------------------------------


def test_the_catalog_tells_lane_readiness_and_capabilities() -> None:
    found = entry_of(worker_info())
    assert (found.name, found.lane, found.badge) == ("CleanRL Worker", "analytics", "ready")
    assert found.provides_fast_analytics and not found.requires_live_telemetry
    assert found.capabilities.warm_start and "ppo" in found.algorithms and found.module == "cleanrl_worker.cli"


def test_a_worker_that_is_not_ready_says_why() -> None:
    found = entry_of(worker_info(ready=False, readiness="torch is missing: run make setup"))
    assert (found.badge, found.reason) == ("not ready", "torch is missing: run make setup")


def test_human_only_is_always_there_and_comes_first() -> None:
    catalog = Catalog.from_daemon(pb.ListWorkersResponse(workers=[worker_info()]))
    assert list(catalog.entries) == [HUMAN_TYPE, "cleanrl"]
    assert [one.name for one in catalog.for_mode("human")] == ["Human-Only"]
    assert [one.type for one in catalog.for_mode("agent")] == ["cleanrl"]
    assert catalog.entries[HUMAN_TYPE].requires_live_telemetry


@pytest.mark.parametrize(
    ("kind", "name"),
    [("spade_bdi_rl", "Spade BDI Worker"), ("llm", "LLM Multi-Step Worker"), ("corl", "CORL Worker"), ("own", "Own")],
)
def test_the_workers_of_the_house_have_their_names(kind: str, name: str) -> None:
    assert entry_of(worker_info(type=kind, name="Own")).name == name


def test_what_a_newer_daemon_tells_is_hidden_not_fatal() -> None:
    told = json.loads(discover().workers["cleanrl"].to_json())
    told["capabilities"]["teleport"] = True
    found = entry_of(worker_info(manifest_json=json.dumps({**told, "colour": "blue"})))
    assert found.ready and found.capabilities.pause and not hasattr(found.capabilities, "teleport")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": 5}'])
def test_a_manifest_that_cannot_be_understood_makes_the_worker_not_ready(text: str) -> None:
    found = entry_of(worker_info(manifest_json=text))
    assert not found.ready and found.problem and found.name == "CleanRL Worker"
    assert found.algorithms == {} and not found.capabilities.pause


# ---- presenters --------------------------------------------------------------------------------------------------


def test_cleanrl_has_its_own_presenter_and_any_other_worker_the_default() -> None:
    registry = default_presenters()
    assert isinstance(registry.presenter_for("cleanrl"), CleanRlWorkerPresenter)
    assert type(registry.presenter_for("toy")) is WorkerPresenter
    with pytest.raises(ValueError, match="'cleanrl' has a presenter already"):
        registry.register("cleanrl", WorkerPresenter())


class Counting(WorkerPresenter):
    """Notes which lane was bootstrapped."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def bootstrap_live_tabs(self) -> Any:
        self.asked.append("live")
        return super().bootstrap_live_tabs()

    def bootstrap_analytics_tabs(self) -> Any:
        self.asked.append("analytics")
        return super().bootstrap_analytics_tabs()


@pytest.mark.parametrize(
    ("lane", "asked", "live_lanes"),
    [
        ("telemetry", ["live"], ["live"]),
        ("analytics", ["analytics"], ["analytics"]),
        ("hybrid", ["live", "analytics"], ["live"]),
    ],
)
def test_the_lane_decides_which_tabs_are_bootstrapped(lane: str, asked: list[str], live_lanes: list[str]) -> None:
    presenter = Counting()
    tabs = presenter.tabs(entry(lane))
    assert presenter.asked == asked
    assert [tab.lane for tab in tabs if tab.name == "live"] == live_lanes
    assert ("tensorboard" in {tab.name for tab in tabs}) == (lane != "telemetry")


def test_a_run_of_a_worker_that_is_gone_still_shows_what_is_on_disk() -> None:
    names = [tab.name for tab in PresenterRegistry().tabs_for(pb.Run(worker_type="gone"), Catalog())]
    assert "tensorboard" in names


def live_tab(cockpit: Any, registry: PresenterRegistry, catalog: Catalog, run: pb.Run) -> LiveLanePanel:
    tabs = {tab.name: tab for tab in registry.tabs_by(lambda: catalog)(run)}
    made = tabs["live"].make(cockpit, run.run_id)
    assert isinstance(made, LiveLanePanel)
    return made


def test_the_live_tab_of_a_cleanrl_run_says_where_its_metrics_are(
    make_cockpit: MakeCockpit,  # noqa: F811
    qtbot: QtBot,
) -> None:
    cockpit = make_cockpit().window.cockpit
    catalog = Catalog.from_daemon(pb.ListWorkersResponse(workers=[worker_info()]))
    panel = live_tab(cockpit, default_presenters(), catalog, pb.Run(run_id="x", worker_type="cleanrl"))
    qtbot.addWidget(panel)
    panel.show()
    assert panel.banner.label.text() == BANNER
    assert not panel.opt_in.isChecked() and not panel.is_streaming


def test_the_minimal_stream_runs_only_when_it_is_wanted_and_looked_at(
    make_cockpit: MakeCockpit,  # noqa: F811
    daemon: DaemonProcess,
    qtbot: QtBot,
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(total_timesteps=20, step_seconds=0.001, gate=str(gate), gate_at=10)
    cockpit = make_cockpit(daemon).window.cockpit
    registry = PresenterRegistry()
    panel = live_tab(cockpit, registry, Catalog(), pb.Run(run_id=run_id, worker_type="toy"))
    qtbot.addWidget(panel)
    panel.show()
    assert not panel.is_streaming and panel.numbers == {}
    panel.opt_in.setChecked(True)
    qtbot.waitUntil(lambda: "charts/episodic_return" in panel.numbers, timeout=HANG)
    panel.hide()
    assert not panel.is_streaming
    panel.show()
    gate.touch()
    daemon.wait_over(run_id)
    qtbot.waitUntil(lambda: "over" in panel._told.text(), timeout=HANG)
    assert panel.numbers["step"].text() == "20" and not panel.is_streaming
    again = live_tab(cockpit, registry, Catalog(), pb.Run(run_id=run_id, worker_type="toy"))
    assert again.opt_in.isChecked(), "the wish is remembered"
    again.deleteLater()


# ---- a worker in a folder ----------------------------------------------------------------------------------------


def dropped_worker(folder: Path, schema: dict[str, Any] | None) -> Path:
    """A worker that nobody has heard of, put into a folder."""
    package = folder / "dropped_worker"
    shutil.copytree(WORKERS / "toy_worker", package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in package.glob("*.*"):
        file.write_text(file.read_text().replace("toy_worker", "dropped_worker"))
    manifest = package / "worker.toml"
    renamed = manifest.read_text().replace('type = "toy"', 'type = "dropped"').replace("Toy Worker", "Dropped Worker")
    manifest.write_text(renamed)
    if schema is not None:
        (package / "config.schema.json").write_text(json.dumps(schema))
    return folder


@pytest.fixture
def open_dropped(
    make_cockpit: MakeCockpit,  # noqa: F811
    make_daemon: Callable[..., DaemonProcess],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., tuple[DaemonProcess, SchemaTrainForm]]]:
    unexpected: list[object] = []

    def make(schema: dict[str, Any] | None) -> tuple[DaemonProcess, SchemaTrainForm]:
        folder = dropped_worker(tmp_path / "workers", schema)
        monkeypatch.setenv("MOSAIC_WORKER_PATH", str(folder))
        daemon = make_daemon()
        daemon.env["MOSAIC_WORKER_PATH"] = str(folder)
        daemon.start()
        cockpit = make_cockpit(daemon, [Part("train", "Train", Place.LEFT, TrainDock)])
        dock = cockpit.window.docks["train"].widget()
        assert isinstance(dock, TrainDock)
        cockpit.reporter.happened.connect(unexpected.append)
        qtbot.waitUntil(lambda: "dropped" in dock.catalog.entries, timeout=HANG)
        dock.workers.choose("dropped")
        form = dock.form
        assert isinstance(form, SchemaTrainForm)
        qtbot.waitUntil(lambda: form.waiting() == "", timeout=HANG)
        return daemon, form

    yield make
    assert unexpected == []


SCHEMA = {
    "required": ["step_seconds"],
    "properties": {
        "step_seconds": {"type": "number", "minimum": 0, "description": "How long a step takes.", "x-unit": "s"},
        "metrics": {"type": "boolean", "default": True},
        "at_step": {"type": "integer"},
    },
}


def test_a_worker_dropped_into_a_folder_is_listed_asked_for_and_run(
    open_dropped: Callable[..., tuple[DaemonProcess, SchemaTrainForm]], qtbot: QtBot
) -> None:
    daemon, form = open_dropped(SCHEMA)
    seconds = form.settings["step_seconds"]
    assert "How long a step takes." in seconds.editor.toolTip() and seconds.spec.unit == "s"
    assert not form.bar.launch_button.isEnabled() and "must not be left empty" in form.bar.why_not
    seconds.put("1e-3")
    form.run["total_timesteps"].put("5")
    form.dry_run()
    qtbot.waitUntil(lambda: "dry run passed" in form.notes_panel.toPlainText(), timeout=HANG)
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        form.bar.launch_button.click()
    run = daemon.wait_over(submitted.args[0])
    assert (run.worker_type, run.outcome, run.last_step) == ("dropped", "completed", 5)
    assert json.loads(run.config_json)["metadata"]["worker"]["config"]["step_seconds"] == 0.001
    assert form.cockpit.selection.current == run.run_id


def test_a_worker_without_a_schema_takes_settings_by_name(
    open_dropped: Callable[..., tuple[DaemonProcess, SchemaTrainForm]], qtbot: QtBot
) -> None:
    daemon, form = open_dropped(None)
    form.pairs.put({"step_seconds": "0.001", "say": "hello", "metrics": "false"})
    form.run["total_timesteps"].put("3")
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        form.launch()
    run = daemon.wait_over(submitted.args[0])
    settings = json.loads(run.config_json)["metadata"]["worker"]["config"]
    assert run.outcome == "completed"
    assert (settings["step_seconds"], settings["say"], settings["metrics"]) == (0.001, "hello", False)
    form.pairs.put({})
    form.run["total_timesteps"].put("")
    form.fill_quietly(json.loads(run.config_json))
    assert form.request().settings == settings


def test_a_schema_that_cannot_be_read_leaves_settings_by_name(
    open_dropped: Callable[..., tuple[DaemonProcess, SchemaTrainForm]], tmp_path: Path
) -> None:
    _, form = open_dropped({"properties": 5})
    assert form.settings.editors == {} and not form.pairs.isHidden()


def test_settings_typed_by_name_are_there_again_when_the_form_is(
    open_dropped: Callable[..., tuple[DaemonProcess, SchemaTrainForm]], qtbot: QtBot
) -> None:
    _, form = open_dropped(None)
    form.pairs.put({"say": "hello"})
    again = WorkerPresenter().make_form(form.cockpit, form.entry, form.queries)
    qtbot.addWidget(again)
    assert isinstance(again, SchemaTrainForm)
    assert again.state()["settings"] == {"say": "hello"}, "kept while the schema is being looked for"
    qtbot.waitUntil(lambda: again.waiting() == "", timeout=HANG)
    assert again.pairs.entries() == {"say": "hello"}


def test_a_tab_is_made_with_the_runs_folder(make_cockpit: MakeCockpit, tmp_path: Path, qtbot: QtBot) -> None:  # noqa: F811
    cockpit = make_cockpit().window.cockpit
    run = pb.Run(run_id="01K9ZQ3V7X0000000000000000", worker_type="cleanrl", run_dir=str(tmp_path))
    cockpit.runs.take([run])
    tabs = {tab.name: tab for tab in default_presenters().tabs_for(run, Catalog())}
    made = tabs["tensorboard"].make(cockpit, run.run_id)
    qtbot.addWidget(made)
    assert isinstance(made, QWidget)
