"""The tabs of the current run: made late, closed with it, and the one in front stays in front."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from PyQt6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.trainer.client import TrainerClient
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made as made_run
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.overview_tab import OverviewTab
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.presenters.workers.tab_spec import TabSpec
from mosaic_protocol.proto import trainer_pb2 as pb

made: list[tuple[str, str]] = []
closed: list[tuple[str, str]] = []


class Page(QLabel):
    def __init__(self, tab: str, run_id: str) -> None:
        super().__init__(f"{tab} of {run_id}")
        self.what = (tab, run_id)
        made.append(self.what)

    def close_tab(self) -> None:
        closed.append(self.what)


@dataclass(frozen=True)
class Spec:
    name: str
    title: str
    applies: Callable[[TrainerClient, str], bool] | None = None

    def make(self, cockpit: Cockpit, run_id: str) -> QWidget:
        return Page(self.name, run_id)


@pytest.fixture
def tabs(make_cockpit: MakeCockpit, qtbot: QtBot) -> RunTabs:
    made.clear()
    closed.clear()
    cockpit = make_cockpit().window.cockpit
    specs = [Spec("metrics", "Metrics"), Spec("tensorboard", "TensorBoard")]
    tabs = RunTabs(cockpit, lambda run: specs if run.worker_type == "cleanrl" else specs[:1])
    qtbot.addWidget(tabs)
    cockpit.runs.take([pb.Run(run_id=name, name=f"run {name}", worker_type="cleanrl") for name in "AB"])
    cockpit.runs.take([pb.Run(run_id="T", name="toy", worker_type="toy")])
    return tabs


def test_a_tab_is_made_when_it_is_first_looked_at(tabs: RunTabs) -> None:
    tabs._cockpit.selection.select(["A"])
    assert made == [("metrics", "A")]
    tabs.show_tab("tensorboard")
    assert made == [("metrics", "A"), ("tensorboard", "A")]
    tabs.show_tab("metrics")
    assert len(made) == 2


def test_another_run_closes_the_tabs_and_keeps_the_front_one(tabs: RunTabs) -> None:
    tabs._cockpit.selection.select(["A"])
    tabs.show_tab("tensorboard")
    tabs._cockpit.selection.select(["B", "A"])
    assert set(closed) == {("metrics", "A"), ("tensorboard", "A")}
    assert made[-1] == ("tensorboard", "B")
    tabs._cockpit.selection.select(["T"])
    assert made[-1] == ("metrics", "T"), "what a run has not cannot be in front"
    tabs._cockpit.selection.select(["A"])
    assert made[-1] == ("tensorboard", "A")


def test_an_update_of_the_run_changes_its_title_only(tabs: RunTabs) -> None:
    tabs._cockpit.selection.select(["A"])
    tabs._cockpit.runs.take([pb.Run(run_id="A", name="renamed", worker_type="cleanrl")])
    assert tabs._title.text() == "renamed" and len(made) == 1


def test_a_run_that_was_deleted_leaves_the_hint(tabs: RunTabs) -> None:
    tabs._cockpit.selection.select(["A"])
    tabs._cockpit.runs.take([pb.Run(run_id="A", deleted=True)])
    assert tabs._pages.currentIndex() == 0 and closed == [("metrics", "A")]


def test_the_palette_finds_a_setting_of_the_run_and_shows_it(make_cockpit: MakeCockpit) -> None:
    def overview(run: pb.Run) -> list[TabSpec]:
        return [TabSpec("overview", "Overview", OverviewTab, "analytics")]

    app = make_cockpit(None, [Part("run", "Run", Place.RIGHT, lambda cockpit: RunTabs(cockpit, overview))])
    context = app.window.cockpit
    config = {"metadata": {"worker": {"config": {"params": {"learning_rate": 0.5}}}}}
    context.runs.take([made_run(1, config=config)])
    context.selection.select([f"{1:026d}"])
    (found,) = [one for one in app.window.palette_popup.findings("learning") if one.text.startswith("Setting")]
    assert found.text == "Setting › learning_rate = 0.5" and found.aside == "run-1"
    found.act()
    tabs = app.window.docks["run"].widget()
    assert isinstance(tabs, RunTabs) and isinstance(tabs.front, OverviewTab)
    assert tabs.front.search.text() == "learning_rate"


def test_the_palette_finds_the_tabs_of_the_run(make_cockpit: MakeCockpit) -> None:
    def tabs_for(run: pb.Run) -> list[TabSpec]:
        pages = (("overview", "Overview"), ("wandb", "W&&B"), ("tensorboard", "TensorBoard"))
        return [TabSpec(name, title, lambda *_: QLabel(), "analytics") for name, title in pages]

    app = make_cockpit(None, [Part("run", "Run", Place.RIGHT, lambda cockpit: RunTabs(cockpit, tabs_for))])
    context, palette = app.window.cockpit, app.window.palette_popup

    def found(typed: str) -> list[str]:
        return [one.text for one in palette.findings(typed) if one.text.startswith("Run › ") and one.aside == "run-1"]

    assert found("wandb") == [], "there is no run to look at"
    context.runs.take([made_run(1)])
    context.selection.select([f"{1:026d}"])
    assert found("wandb") == found("w&b") == found("run w&b") == ["Run › W&B"]
    assert found("run") == [], "that is what all of them are"
    (one,) = [one for one in palette.findings("tensor") if one.text == "Run › TensorBoard"]
    one.act()
    tabs = app.window.docks["run"].widget()
    assert isinstance(tabs, RunTabs) and tabs.tabs.tabText(tabs.tabs.currentIndex()) == "TensorBoard"


def test_the_palette_finds_a_setting_that_the_script_has_by_default(
    make_cockpit: MakeCockpit, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "analytics.json").write_text(json.dumps({"resolved": {"learning_rate": 0.00025, "gamma": 0.99}}))
    app = make_cockpit(None, [Part("run", "Run", Place.RIGHT, lambda cockpit: RunTabs(cockpit, lambda run: []))])
    app.bridge._timer.start()
    context = app.window.cockpit
    context.runs.take([made_run(1, config={}, run_dir=str(tmp_path), state="EXEC")])
    context.selection.select([f"{1:026d}"])

    def found() -> list[str]:
        return [one.text for one in app.window.palette_popup.findings("learning") if one.text.startswith("Setting")]

    qtbot.waitUntil(lambda: found() == ["Setting › learning_rate = 0.00025"], timeout=60_000)
