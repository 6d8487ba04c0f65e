"""The dataset manager on real files: looked into, verified, made, handed on, cancelled and deleted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from PyQt6.QtCore import Qt
from pytestqt.qtbot import QtBot

from corl_worker.tests.worlds import play_set
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, part
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.datasets.job import DatasetJob
from gym_gui.ui.datasets.make_page import MakePage
from gym_gui.ui.datasets.page import DatasetPage
from gym_gui.ui.datasets.panel import DatasetsPanel
from gym_gui.ui.datasets.screen import DatasetScreen
from gym_gui.ui.panels.stage import Stage
from mosaic_protocol.datasets import DATA, DatasetRegistry
from mosaic_protocol.paths import MosaicPaths
from mosaic_protocol.proto import trainer_pb2 as pb

__all__ = ["open_whole"]


class Manager:
    """The manager of a whole window, without a daemon."""

    def __init__(self, app: CockpitApp, paths: MosaicPaths) -> None:
        self.app, self.paths = app, paths
        self.panel: DatasetsPanel = part(app, DatasetsPanel)
        self.page: DatasetPage = part(app, DatasetPage)
        self.making: MakePage = part(app, MakePage)
        self.stage: Stage = part(app, Stage)
        screen = app.window.findChild(DatasetScreen)
        assert screen is not None
        self.screen = screen
        self.shelf = self.screen.shelf

    def press(self, name: str) -> None:
        self.app.window.cockpit.commands.action(name).trigger()

    def can(self, name: str) -> bool:
        return self.app.window.cockpit.commands.action(name).isEnabled()

    def badge(self, name: str) -> str:
        found = self.shelf.get(name)
        return str(found.badge) if found is not None else ""


@pytest.fixture
def manager(open_whole: OpenWhole, qtbot: QtBot, tmp_path: Path) -> Manager:
    paths = MosaicPaths(tmp_path / "cockpit-home")
    play_set(paths, "swings", "Pendulum-v1", source={"kind": "file", "file": "swings.hdf5"})
    app = open_whole(connect=False)
    app.bridge._timer.start()
    found = Manager(app, paths)
    found.press("show-datasets")
    qtbot.waitUntil(lambda: found.panel.list.topLevelItemCount() == 1, timeout=HANG)
    return found


def test_a_dataset_is_looked_into_on_the_stage(manager: Manager, qtbot: QtBot) -> None:
    row = manager.panel.list.topLevelItem(0)
    assert row is not None
    cells = [row.text(column) for column in range(7)]
    assert cells == ["swings", "unverified", "Pendulum-v1", "180", "3", "–", cells[6]]
    assert row.text(8) == "file swings.hdf5" and not manager.can("datasets-verify")
    manager.panel.choose("swings")
    page = manager.page
    assert manager.stage.over is page
    qtbot.waitUntil(lambda: page.inside is not None, timeout=HANG)
    inside = page.inside
    assert inside is not None
    assert sum(inside.returns.counts) == 3 and [one.name for one in page.ranges.ranges][-1] == "action 0"
    assert page.samples.topLevelItemCount() == len(inside.samples) >= 2 and page.rows.topLevelItemCount() == 60
    assert not page.replay.isEnabled() and "rows are below" in page.replay.toolTip()
    worst = next(one for one in inside.samples if one.why == "worst")
    page.samples.setCurrentItem(page.samples.topLevelItem(inside.samples.index(worst)))
    qtbot.waitUntil(lambda: page.inside is not None and page.inside.episode == worst.number, timeout=HANG)
    assert f"episode {worst.number}" in page.rows_told.text()
    assert "file swings.hdf5" in page.facts.text() and "random -1,200" in page.facts.text()
    page.close_button.click()
    assert manager.stage.over is None


def test_an_episode_is_replayed_where_its_run_is_still_here(manager: Manager, qtbot: QtBot) -> None:
    paths, page = manager.paths, manager.page
    play_set(paths, "mine", "Pendulum-v1", source={"kind": "run", "run_id": "R1", "run_name": "played"})
    manager.shelf.look()
    qtbot.waitUntil(lambda: manager.shelf.get("mine") is not None, timeout=HANG)
    manager.screen.open("mine")
    qtbot.waitUntil(lambda: page.inside is not None, timeout=HANG)
    inside = page.inside
    assert inside is not None and "run played" in page.facts.text()
    page._show_inside(replace(inside, samples=[replace(one, recorded_as=one.number + 4) for one in inside.samples]))
    assert not page.replay.isEnabled() and "not here any more" in page.replay.toolTip()
    manager.app.window.cockpit.runs.take([pb.Run(run_id="R1", name="played")])
    assert page.replay.isEnabled()
    wanted: list[tuple[str, int]] = []
    page.replay_wanted.disconnect()
    page.replay_wanted.connect(lambda run_id, episode: wanted.append((run_id, episode)))
    page.replay.click()
    assert page.sample is not None and wanted == [("R1", page.sample.number + 4)]


def test_what_was_read_before_the_data_was_found_corrupt_is_not_shown(
    manager: Manager, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = DatasetJob.start
    monkeypatch.setattr(DatasetJob, "start", lambda job: None if job.words[0] == "look" else begin(job))
    manager.panel.choose("swings")
    look = manager.page._job
    assert look is not None
    manager.paths.dataset("swings").joinpath(DATA).write_bytes(b"something else")
    manager.press("datasets-verify")
    qtbot.waitUntil(lambda: manager.badge("swings") == "corrupt" and manager.shelf.job is None, timeout=HANG)
    assert manager.page._job is not look and not manager.page._inside.isVisible()


def test_verify_finds_a_flipped_byte_and_nothing_is_shown_of_it(manager: Manager, qtbot: QtBot) -> None:
    manager.panel.choose("swings")
    manager.press("datasets-verify")
    qtbot.waitUntil(lambda: manager.badge("swings") == "verified" and manager.shelf.job is None, timeout=HANG)
    file = manager.paths.dataset("swings") / DATA
    changed = bytearray(file.read_bytes())
    changed[len(changed) // 2] ^= 1
    file.write_bytes(changed)
    manager.press("datasets-verify")
    qtbot.waitUntil(lambda: manager.badge("swings") == "corrupt" and manager.shelf.job is None, timeout=HANG)
    assert "changed since it was written" in manager.panel.work.said.text()
    assert not manager.page._inside.isVisible() and "not what was written" in manager.page.state.text()
    assert not manager.can("datasets-export")


def d4rl_file(path: Path, rows: int = 400) -> Path:
    draw = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        walk = np.cumsum(draw.normal(size=(rows, 3)), axis=0).astype(np.float32)
        file["observations"], file["next_observations"] = walk, np.roll(walk, -1, axis=0)
        file["actions"] = draw.uniform(-1, 1, (rows, 1)).astype(np.float32)
        file["rewards"] = -np.abs(walk[:, 0])
        file["terminals"] = np.zeros(rows, bool)
        file["timeouts"] = np.arange(1, rows + 1) % 50 == 0
    return path


def test_a_file_is_imported_and_shown(manager: Manager, qtbot: QtBot, tmp_path: Path) -> None:
    manager.press("datasets-import")
    making = manager.making
    assert manager.stage.over is making and not making.make.isEnabled()
    making.file.put(str(d4rl_file(tmp_path / "walk.hdf5")))
    making.groups["import"]["name"].put("swings")
    assert "already" in making.said.text() and not making.make.isEnabled()
    making.groups["import"]["name"].put("walk")
    assert making.make.isEnabled(), making.why_not()
    making.make.click()
    assert manager.shelf.job is not None
    assert not manager.can("datasets-verify")
    qtbot.waitUntil(lambda: manager.stage.over is manager.page and manager.page.shown == "walk", timeout=HANG)
    assert manager.badge("walk") == "verified" and manager.panel.list.topLevelItemCount() == 2
    assert "walk was made" in making.work.said.text()


def test_what_the_list_has_already_when_it_is_made_is_shown_all_the_same(manager: Manager) -> None:
    manager.press("datasets-import")
    stage = manager.stage
    assert stage.over is manager.making
    manager.making.made.emit("swings")
    assert manager.stage.over is manager.page and manager.page.shown == "swings"


def test_a_file_that_is_none_is_refused_beside_its_fields(manager: Manager, qtbot: QtBot, tmp_path: Path) -> None:
    manager.press("datasets-import")
    making = manager.making
    (tmp_path / "bad.hdf5").write_bytes(b"no data")
    making.file.put(str(tmp_path / "bad.hdf5"))
    making.groups["import"]["name"].put("bad")
    making.make.click()
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    assert making.work.said.property("role") == "error" and "bad.hdf5" in making.work.said.text()
    assert manager.stage.over is making and manager.shelf.get("bad") is None


def test_the_keyboard_alone_makes_a_dataset(manager: Manager, qtbot: QtBot, tmp_path: Path) -> None:
    making = manager.making
    making.file.put(str(d4rl_file(tmp_path / "walk.hdf5")))
    manager.press("datasets-import")
    name = making.groups["import"]["name"].editor
    assert making.focusWidget() is name, "the file is there already"
    qtbot.keyClick(name, Qt.Key.Key_Return)
    assert making.said.text() == "Name is empty." and manager.shelf.job is None
    qtbot.keyClicks(name, "walk")
    qtbot.keyClick(name, Qt.Key.Key_Return)
    assert manager.shelf.job is not None and manager.shelf.job.words[-1] == "walk"
    assert making.focusWidget() is making.close_button, "the button that is grey now keeps no focus"
    qtbot.waitUntil(lambda: manager.page.shown == "walk" and manager.shelf.job is None, timeout=HANG)


def test_the_run_that_is_looked_at_is_filled_in_unless_another_was_typed(manager: Manager) -> None:
    """By its name, where no other run has it."""
    cockpit, field = manager.app.window.cockpit, manager.making.groups["from-run"]["run"]
    cockpit.runs.take([pb.Run(run_id=f"R{number}", name=name) for number, name in enumerate(("one", "two", "two"))])
    for run_id, said in (("R0", "one"), ("R1", "R1")):
        cockpit.selection.select([run_id])
        manager.press("datasets-from-run")
        assert field.entry == said
    field.put("last")
    cockpit.selection.select(["R0"])
    manager.press("datasets-from-run")
    assert field.entry == "last"


def test_cancelled_work_leaves_nothing(manager: Manager, qtbot: QtBot, tmp_path: Path) -> None:
    making = manager.making
    manager.press("datasets-import")
    making.file.put(str(d4rl_file(tmp_path / "long.hdf5", 400_000)))
    making.groups["import"]["name"].put("long")
    making.make.click()
    qtbot.waitUntil(lambda: manager.shelf.job is None or manager.shelf.job.share > 0, timeout=HANG)
    assert manager.shelf.job is not None and manager.panel.work.bar.isVisible()
    manager.press("datasets-cancel")
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    assert "cancelled" in making.work.said.text()
    assert [folder.name for folder in manager.paths.datasets.iterdir()] == ["swings"]


def test_datasets_are_merged_and_split(manager: Manager, qtbot: QtBot) -> None:
    play_set(manager.paths, "more", "Pendulum-v1")
    play_set(manager.paths, "poles", "CartPole-v1", longest=30)
    manager.shelf.look()
    qtbot.waitUntil(lambda: manager.shelf.get("poles") is not None, timeout=HANG)
    manager.panel.choose("swings")
    manager.press("datasets-merge")
    making, ticks = manager.making, manager.making.ticks
    assert manager.stage.over is making and ticks.names == ["swings"] and "two datasets" in making.why_not()
    rows = {ticks.list.item(row).text().split(" ")[0]: ticks.list.item(row) for row in range(3)}  # type: ignore[union-attr]
    poles, more = rows["poles"], rows["more"]
    assert poles is not None and more is not None
    assert not poles.flags() & Qt.ItemFlag.ItemIsEnabled and "CartPole-v1" in poles.toolTip()
    more.setCheckState(Qt.CheckState.Checked)
    making.groups["merge"]["name"].put("both")
    assert making.why_not() == ""
    making.make.click()
    qtbot.waitUntil(lambda: manager.stage.over is manager.page and manager.page.shown == "both", timeout=HANG)
    assert DatasetRegistry(manager.paths).find("both").manifest.steps == 360
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    manager.press("datasets-split")
    split = making.groups["split"]
    assert split["dataset"].entry == "both" and making.why_not() == ""
    split["fractions"].put("train:2")
    making.make.click()
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    assert making.work.said.property("role") == "error" and "fractions are written" in making.work.said.text()
    split["fractions"].put("train:0.5, test:0.5")
    making.make.click()
    qtbot.waitUntil(lambda: manager.page.shown == "both-train", timeout=HANG)
    assert "both was split into both-train, both-test" in making.work.said.text()
    assert {one.name for one in DatasetRegistry(manager.paths).list()} >= {"both-train", "both-test"}


def test_references_are_asked_for_and_a_refusal_is_shown(manager: Manager, qtbot: QtBot) -> None:
    assert not manager.can("datasets-references")
    manager.panel.choose("swings")
    manager.press("datasets-references")
    bar = manager.screen.references_bar
    assert bar.isVisible() and "swings" in bar.question.text() and not bar.confirm.isEnabled()
    bar.fields["checkpoint"].put("nobody@best")
    bar.fields["episodes"].put("3")
    bar.confirm.click()
    assert manager.shelf.job is not None
    assert manager.shelf.job.words == ["references", "--from", "nobody@best", "--episodes", "3", "--", "swings"]
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    said = manager.panel.work.said
    assert said.property("role") == "error" and "no checkpoints yet" in said.text()


def test_a_dataset_is_exported_and_deleted_after_a_question(manager: Manager, qtbot: QtBot, tmp_path: Path) -> None:
    manager.panel.choose("swings")
    manager.screen.export("swings", tmp_path / "out.hdf5")
    qtbot.waitUntil(lambda: manager.shelf.job is None, timeout=HANG)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert len(file["rewards"]) == 180
    manager.press("datasets-delete")
    qtbot.waitUntil(manager.panel.ask_bar.isVisible, timeout=HANG)
    manager.panel.ask_bar.keep.click()
    assert DatasetRegistry(manager.paths).find("swings").data.exists()
    manager.press("datasets-delete")
    qtbot.waitUntil(manager.panel.ask_bar.isVisible, timeout=HANG)
    manager.panel.ask_bar.confirm.click()
    qtbot.waitUntil(lambda: manager.shelf.entries == {}, timeout=HANG)
    empty = manager.panel.empty
    assert empty.isVisible() and "No dataset yet" in empty.title.text() and empty.button.text() == "Import a file…"
    assert manager.stage.over is None
    manager.app.window.cockpit.runs.take([pb.Run(run_id="R1", name="played")])
    assert empty.button.text() == "From a run…", "it is nearer than a file of others"
    empty.button.click()
    assert manager.making.kind.choice == "from-run"


def test_the_gui_reads_no_hdf5_itself() -> None:
    """The modules of the manager are imported without h5py; this test's own import of it says nothing of them."""
    code = "import sys, gym_gui.ui.datasets.screen, gym_gui.ui.workers.corl.form; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"h5py", "torch", "gymnasium"} & set(loaded)
