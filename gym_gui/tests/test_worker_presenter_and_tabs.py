"""Workers plug in: the catalog, who draws what, and which tabs a run has by its worker's lane."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
from PyQt6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import (  # noqa: F401 - fixtures
    HANG,
    MakeCockpit,
    OpenForm,
    make_cockpit,
    no_thread_is_left,
    open_form,
)
from gym_gui.ui.forms.schema_form import SchemaTrainForm
from gym_gui.ui.forms.settings_of import parts_of
from gym_gui.ui.presenters.workers.cleanrl import CleanRlWorkerPresenter
from gym_gui.ui.presenters.workers.default import WorkerPresenter
from gym_gui.ui.presenters.workers.discovery import ENTRY_POINT_GROUP, presenters_of
from gym_gui.ui.presenters.workers.registry import PresenterRegistry, default_presenters
from gym_gui.ui.widgets.live_lane import LiveLanePanel
from gym_gui.ui.workers.catalog import HUMAN_TYPE, Catalog, WorkerEntry, entry_of
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.worker_manifest import discover

BANNER = "CleanRL worker streams metrics via TensorBoard/W&B; live telemetry not available."


def worker_info(**changes: Any) -> pb.WorkerInfo:
    manifest = discover().workers["cleanrl"]
    fields = {"type": "cleanrl", "name": manifest.name, "lane": manifest.lane, "manifest_json": manifest.to_json()}
    return pb.WorkerInfo(**{**fields, "ready": True, "readiness": "ready", **changes})


def entry(lane: str) -> WorkerEntry:
    told = json.loads(discover().workers["cleanrl"].to_json())
    return entry_of(worker_info(type="any", manifest_json=json.dumps({**told, "type": "any", "lane": lane})))


# ---- the catalog -------------------------------------------------------------------------------------------------


def test_the_catalog_has_lane_readiness_and_capabilities() -> None:
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


@pytest.mark.parametrize("kind", ["spade_bdi_rl_worker", "llm", "corl", "cleanrl"])
def test_a_worker_is_called_what_its_manifest_calls_it(kind: str) -> None:
    assert entry_of(worker_info(type=kind, name="Its own name")).name == "Its own name"


def test_unknown_fields_of_a_newer_daemon_are_hidden_not_fatal() -> None:
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
    assert again.opt_in.isChecked(), "the choice is remembered"
    again.deleteLater()


# ---- a worker in a folder ----------------------------------------------------------------------------------------


SCHEMA = {
    "required": ["step_seconds"],
    "properties": {
        "step_seconds": {"type": "number", "minimum": 0, "description": "How long a step takes.", "x-unit": "s"},
        "metrics": {"type": "boolean", "default": True},
        "at_step": {"type": "integer"},
    },
}


def test_a_worker_dropped_into_a_folder_is_listed_asked_for_and_run(
    open_form: OpenForm,  # noqa: F811
    qtbot: QtBot,
) -> None:
    daemon, _, form = open_form(schema=SCHEMA)
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
    assert parts_of(json.loads(run.config_json)["metadata"]["worker"]["config"]).params["step_seconds"] == 0.001
    assert form.cockpit.selection.current == run.run_id


def test_a_worker_without_a_schema_takes_settings_by_name(
    open_form: OpenForm,  # noqa: F811
    qtbot: QtBot,
) -> None:
    daemon, _, form = open_form(schema=None)
    form.pairs.put({"step_seconds": "0.001", "say": "hello", "metrics": "false"})
    form.run["total_timesteps"].put("3")
    with qtbot.waitSignal(form.submitted, timeout=HANG) as submitted:
        form.launch()
    run = daemon.wait_over(submitted.args[0])
    settings = parts_of(json.loads(run.config_json)["metadata"]["worker"]["config"])
    assert run.outcome == "completed"
    assert settings.params == {"step_seconds": 0.001, "say": "hello", "metrics": False}
    form.pairs.put({})
    form.run["total_timesteps"].put("")
    form.fill_quietly(json.loads(run.config_json))
    assert parts_of(form.request().settings) == settings


def test_a_schema_that_cannot_be_read_leaves_settings_by_name(
    open_form: OpenForm,  # noqa: F811
    tmp_path: Path,
) -> None:
    _, _, form = open_form(schema={"properties": 5})
    assert form.settings.editors == {} and not form.pairs.isHidden()


def test_settings_typed_by_name_are_there_again_when_the_form_is(
    open_form: OpenForm,  # noqa: F811
    qtbot: QtBot,
) -> None:
    _, _, form = open_form(schema=None)
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


# ---- presenters from outside -------------------------------------------------------------------------------------


class Metadata:
    """What a distribution's entry point knows of it."""

    def __init__(self, name: str) -> None:
        self.name = name


def entry_point(name: str, value: str, distribution: str) -> EntryPoint:
    made = EntryPoint(name, value, ENTRY_POINT_GROUP)
    vars(made)["dist"] = Metadata(distribution)
    return made


OWN = "gym_gui.ui.workers.cleanrl.presenter:CleanRlWorkerPresenter"
OUTSIDE = """
from gym_gui.ui.presenters.workers.default import WorkerPresenter
class Mine(WorkerPresenter):
    def live_banner(self, cockpit, run_id):
        return "mine"
class Breaks(WorkerPresenter):
    def make_form(self, cockpit, entry, queries):
        raise RuntimeError("no such\\nwidget")
    def tabs(self, entry):
        raise KeyError("tabs")
class Refuses(WorkerPresenter):
    def __init__(self):
        raise OSError("no licence")
class Something:
    pass
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "outside_screens.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("outside_screens", None)


@pytest.mark.usefixtures("outside")
def test_a_package_brings_a_presenter_of_its_own() -> None:
    problems: list[str] = []
    found = presenters_of([entry_point("mine", "outside_screens:Mine", "mine-worker")], problems)
    assert problems == [] and found["mine"].live_banner(None, "") == "mine"  # type: ignore[arg-type]


@pytest.mark.usefixtures("outside")
def test_a_broken_presenter_is_a_sentence_and_hides_no_other() -> None:
    problems: list[str] = []
    values = ["no_such_module:X", "outside_screens:Absent", "outside_screens:Something", "outside_screens:Refuses"]
    entries = [entry_point(f"w{number}", value, "some-worker") for number, value in enumerate(values)]
    found = presenters_of([*entries, entry_point("cleanrl", OWN, "mosaic-rl")], problems)
    assert list(found) == ["cleanrl"] and len(problems) == len(values)
    assert all(("\n" not in one and "outside_screens" in one) or "no_such_module" in one for one in problems)
    catalog = Catalog.from_daemon(pb.ListWorkersResponse(workers=[worker_info()], problems=["a"]), problems)
    assert catalog.problems == ("a", *problems)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("distribution", ["aaa-first", "mosaic_rl", "mosaic-rl"])
def test_no_installed_package_displaces_a_built_in_presenter(distribution: str) -> None:
    """Neither by a name that comes first nor by borrowing the name of our distribution."""
    problems: list[str] = []
    thief = entry_point("cleanrl", "outside_screens:Mine", distribution)
    found = presenters_of([thief, entry_point("cleanrl", OWN, "mosaic-rl")], problems)
    assert isinstance(found["cleanrl"], CleanRlWorkerPresenter)
    assert problems == ["the presenter 'outside_screens:Mine' is ignored: the worker 'cleanrl' has a presenter already"]


@pytest.mark.usefixtures("outside")
def test_where_a_presenter_breaks_the_manifests_form_serves(
    make_cockpit: MakeCockpit,  # noqa: F811
    qtbot: QtBot,
) -> None:
    registry = PresenterRegistry()
    (broken,) = presenters_of([entry_point("toy", "outside_screens:Breaks", "toy-worker")], []).values()
    registry.register("toy", broken)
    cockpit = make_cockpit().window.cockpit
    assert registry.tabs_for(pb.Run(worker_type="toy"), Catalog())
    form = registry.make_form(cockpit, entry("analytics"), WorkerQueries(cockpit.bridge.paths))
    qtbot.addWidget(form)
    assert isinstance(form, SchemaTrainForm)
    assert registry.problems == ["the presenter of the worker 'toy' broke, its manifest serves instead: 'tabs'"]


def test_the_built_in_presenters_are_declared_like_any_other() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"][ENTRY_POINT_GROUP]
    folder = Path(__file__).parents[1] / "ui" / "workers"
    folders = {value.partition(":")[0].split(".")[-2] for value in declared.values()}
    assert folders == {one.parent.name for one in folder.glob("*/presenter.py")} and len(folders) == len(declared)
    installed = {one.name: one.value for one in entry_points(group=ENTRY_POINT_GROUP)}
    assert declared.items() <= installed.items(), "run `make setup`: the environment is older than pyproject.toml"


@pytest.mark.parametrize(
    ("door", "name"),
    [
        ("gym_gui.ui.widgets.cleanrl_train_form", "CleanRlTrainForm"),
        ("gym_gui.ui.presenters.workers.cleanrl", "CleanRlWorkerPresenter"),
        ("gym_gui.ui.widgets.spade_bdi_train_form", "SpadeBdiTrainForm"),
        ("gym_gui.ui.presenters.workers.spade_bdi", "SpadeBdiWorkerPresenter"),
        ("gym_gui.validations.validation_cleanrl_worker_form", "run_cleanrl_dry_run"),
        ("gym_gui.Algo_docs.cleanrl_worker", "PAGES"),
    ],
)
def test_the_names_that_people_know_are_doors_to_the_workers_folder(door: str, name: str) -> None:
    found = getattr(importlib.import_module(door), name)
    home = found if isinstance(found, Path) else found.__module__
    assert "workers" in str(home) and ("cleanrl" in str(home) or "spade_bdi" in str(home))


@pytest.mark.parametrize("name", ["cleanrl", "spade_bdi"])
def test_general_screens_know_no_worker_by_name(name: str) -> None:
    """Each is one of several: what is its own stands in its folder."""
    ui = Path(__file__).parents[1] / "ui"
    doors = {f"{name}_train_form.py", f"{name}.py"}
    general = [file for file in ui.rglob("*.py") if f"workers/{name}" not in str(file) and file.name not in doors]
    named = {str(file.relative_to(ui)) for file in general if name in file.read_text().lower()}
    assert len(general) > 80 and named == set()
