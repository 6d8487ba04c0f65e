"""Use trained: real checkpoints of a real training as cards, evaluated by a real process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PyQt6.QtCore import Qt
from pytestqt.qtbot import QtBot

from gym_gui.services.checkpoints import evaluations
from gym_gui.services.checkpoints.entry import UNCHECKED, CheckpointEntry
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.checkpoint_details import facts_of
from gym_gui.ui.widgets.checkpoint_card import score_words, size_text
from gym_gui.ui.widgets.sparkline import Histogram, bins

pytestmark = pytest.mark.usefixtures("workers_train")

HANG = 120_000
CHECKOUT = Path(__file__).resolve().parents[3]
RUN_ID = "01K9ZQ3V7X0000000000000000"
OTHER_RUN_ID = "01K9ZQ3V7X0000000000000001"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a short real training, made once."""
    directory = tmp_path_factory.mktemp("trained")
    script = CHECKOUT / "cleanrl_worker" / "cleanrl" / "ppo.py"
    subprocess.run(
        [sys.executable, str(script), "--total-timesteps", "3000"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )
    (run,) = (directory / "runs").iterdir()
    return run


@pytest.fixture
def browser(make_cockpit: MakeCockpit, qtbot: QtBot) -> CheckpointBrowser:
    cockpit = make_cockpit()
    cockpit.bridge._timer.start()  # answers are delivered although there is no daemon
    browser = CheckpointBrowser(cockpit.window.cockpit)
    qtbot.addWidget(browser)
    return browser


def place(trained: Path, browser: CheckpointBrowser, run_id: str = RUN_ID) -> Path:
    run = browser._cockpit.bridge.paths.run(run_id).directory
    run.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", str(trained), str(run)], check=True)
    return run


def test_without_checkpoints_the_next_step_is_shown(browser: CheckpointBrowser, qtbot: QtBot) -> None:
    browser.show()
    qtbot.waitUntil(lambda: browser._told.text().startswith("No checkpoints yet"), timeout=HANG)
    assert not browser.details.isVisible(), "nothing is chosen, so there is nothing to deploy"
    assert not browser._details_room.isVisible()


def test_a_checkpoint_is_a_card_that_can_be_evaluated(trained: Path, browser: CheckpointBrowser, qtbot: QtBot) -> None:
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 1, timeout=HANG)
    qtbot.keyClick(browser.cards[0], Qt.Key.Key_Return)
    details = browser.details
    assert details.isVisible() and details.evaluate.isEnabled() and details.resume.isEnabled()
    details.episodes.setValue(3)
    qtbot.mouseClick(details.evaluate, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: details.told.text().startswith("Evaluated:"), timeout=HANG)
    assert len(details.histogram.values) == 3


def test_the_chosen_card_stays_in_sight_beside_its_details(
    trained: Path, browser: CheckpointBrowser, qtbot: QtBot
) -> None:
    """At the height that a window of 1280x800 leaves."""
    place(trained, browser)
    place(trained, browser, OTHER_RUN_ID)
    browser.resize(377, 450)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 2, timeout=HANG)
    card, details = browser.cards[1], browser.details
    qtbot.keyClick(card, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: card.visibleRegion().boundingRect().height() >= card.height() - 2, timeout=HANG)
    browser._fill()  # as when another run leaves a checkpoint
    again = browser.cards[1]
    assert again is not card
    qtbot.waitUntil(lambda: again.visibleRegion().boundingRect().height() >= again.height() - 2 > 50, timeout=HANG)
    assert details.episodes.text().endswith(" episodes")
    assert not details.deploy.visibleRegion().isEmpty() and not details.evaluate.visibleRegion().isEmpty()


def test_an_evaluation_is_shown_with_its_own_checkpoint_only(
    trained: Path, browser: CheckpointBrowser, qtbot: QtBot
) -> None:
    place(trained, browser)
    place(trained, browser, OTHER_RUN_ID)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 2, timeout=HANG)
    details, (first, second) = browser.details, (card.entry for card in browser.cards)
    browser.choose(first)
    details.episodes.setValue(50)
    qtbot.mouseClick(details.evaluate, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(details.histogram.values) > 0, timeout=HANG)
    browser.choose(second)
    qtbot.waitUntil(lambda: details.job is None, timeout=HANG)
    assert (details.told.text(), list(details.histogram.values)) == ("", [])
    browser.choose(first)
    qtbot.waitUntil(lambda: details.told.text().startswith("Evaluated:"), timeout=HANG)
    assert len(details.histogram.values) == 50


def test_the_filter_narrows_and_is_remembered(trained: Path, browser: CheckpointBrowser, qtbot: QtBot) -> None:
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 1, timeout=HANG)
    qtbot.keyClicks(browser.filter, "pendulum")
    assert browser.cards == [] and browser._told.text() == "No checkpoint matches the filter."
    assert browser._cockpit.preferences.get("checkpoints.filter", "") == "pendulum"


def test_the_checkpoints_of_one_worker_can_be_looked_through(
    trained: Path, browser: CheckpointBrowser, qtbot: QtBot
) -> None:
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 1, timeout=HANG)
    written_by = browser.entries[0].worker
    browser.use_worker("another", ["another", written_by])
    assert browser.cards == [] and browser._told.text().startswith("No checkpoints of this worker yet")
    browser.use_worker("another", ["another"])
    assert len(browser.cards) == 1, "one of a worker that is gone is nobody else's to show"
    browser.use_worker(written_by, ["another", written_by])
    assert len(browser.cards) == 1


def test_a_damaged_checkpoint_is_shown_with_the_reason_and_cannot_be_used(
    trained: Path, browser: CheckpointBrowser, qtbot: QtBot
) -> None:
    run = place(trained, browser)
    (manifest,) = run.glob("checkpoints/*/checkpoint.json")
    manifest.write_text(manifest.read_text().replace("CartPole", "Cartpole"))
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 1, timeout=HANG)
    browser.choose(browser.cards[0].entry)
    assert not browser.details.evaluate.isEnabled() and "hash" in browser.details.told.text()


def test_warm_start_and_resume_hand_the_entry_on(trained: Path, browser: CheckpointBrowser, qtbot: QtBot) -> None:
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: len(browser.cards) == 1, timeout=HANG)
    browser.choose(browser.cards[0].entry)
    for signal, button in (
        (browser.warm_start_requested, browser.details.warm_start),
        (browser.resume_requested, browser.details.resume),
    ):
        with qtbot.waitSignal(signal, timeout=HANG) as handed:
            qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        assert handed.args == [browser.entries[0]]


def test_an_import_that_fails_says_why_where_it_was_asked(
    browser: CheckpointBrowser, qtbot: QtBot, tmp_path: Path
) -> None:
    browser.show()
    panel = browser.import_panel
    panel.show()
    assert not panel.start.isEnabled()
    panel.file.setText(str(tmp_path / "nothing.pt"))
    panel.env_id.setText("CartPole-v1")
    qtbot.mouseClick(panel.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.told.text().startswith("There is no file"), timeout=HANG)
    assert panel.start.isEnabled()


def test_an_import_under_way_ends_with_the_panel_and_leaves_nothing(
    browser: CheckpointBrowser, qtbot: QtBot, tmp_path: Path
) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"no model, but the worker takes its time to find out")
    browser.show()
    panel = browser.import_panel
    panel.show()
    panel.file.setText(str(model))
    panel.env_id.setText("CartPole-v1")
    qtbot.mouseClick(panel.start, Qt.MouseButton.LeftButton)
    panel.close_panel()
    qtbot.waitUntil(panel.start.isEnabled, timeout=HANG)
    assert "killed by signal 15" in panel.told.text()
    assert not list(browser._cockpit.bridge.paths.root.rglob("checkpoint.json"))


def test_sizes_and_ranges_read_well() -> None:
    assert [size_text(size) for size in (12, 1500, 2_500_000, 3_000_000_000)] == ["12 B", "1.5 kB", "2.5 MB", "3.0 GB"]
    assert bins([3.0, 3.0]) == [2] and sum(bins([float(number) for number in range(100)])) == 100


@pytest.mark.parametrize(("played", "of"), [(432, "the last 100 episodes"), (7, "the last 7 episodes")])
def test_a_checkpoint_says_of_how_many_episodes_its_return_is_the_mean(played: int, of: str) -> None:
    entry = CheckpointEntry(RUN_ID, Path("c"), "run", RUN_ID, "one", "", "cleanrl", 1, 1, UNCHECKED)
    entry = replace(entry, metrics={"episodes": played, "mean_return": 198.5})
    assert score_words(entry) == f"mean return of {of}"


def test_equal_returns_are_one_bar_with_a_label_and_no_block(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    histogram = Histogram(make_cockpit().themes)
    qtbot.addWidget(histogram)
    histogram.resize(300, 110)
    histogram.show_values([500.0] * 20)
    (bar,) = histogram.bars()
    assert bar.width() < 40 and abs(bar.center().x() - 150) < 1
    assert [text for _, text in histogram.labels()] == ["all 20 episodes: 500"]
    low = histogram.sizeHint().height()
    histogram.show_values([1.0, 2.0, 9.0])
    assert low < histogram.sizeHint().height() / 2, "equal returns leave their room to the list of checkpoints"
    assert len(histogram.bars()) == 5 and [text for _, text in histogram.labels()] == ["1", "9"]


def test_an_evaluated_checkpoint_counts_as_checked(trained: Path, browser: CheckpointBrowser, qtbot: QtBot) -> None:
    """An evaluation reads every byte, and refuses those that are not what was written."""
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: bool(browser.cards), timeout=HANG)
    entry = browser.cards[0].entry
    browser.choose(entry)
    assert "not checked yet" in browser.details._facts.text()
    assert browser.details._facts.text().startswith(entry.run_name), "its card may be scrolled out of sight"
    assert "dataset" not in browser.details._facts.text()
    assert "learned from the dataset mine" in facts_of(replace(entry, offline_dataset={"name": "mine"}))
    numbers = {"episodes": 2, "mean": 9, "std": 0, "median": 9, "iqm": 9, "returns": [9, 9]}
    evaluations.keep(entry, {"results": {"deterministic": numbers}, "sha256": entry.sha256})
    browser.details.entry = None
    browser.choose(entry)
    qtbot.waitUntil(lambda: "every byte checked" in browser.details._facts.text(), timeout=HANG)
    assert "greedy actions" in browser.details.told.text()


def test_the_age_of_a_checkpoint_goes_on(
    trained: Path, browser: CheckpointBrowser, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(trained, browser)
    browser.show()
    qtbot.waitUntil(lambda: bool(browser.cards), timeout=HANG)
    card = browser.cards[0]
    assert browser._ageing.isActive()
    monkeypatch.setattr(time, "time", lambda: card.entry.created_at + 2 * 3600 + 60)
    browser._ageing.timeout.emit()
    assert "2h ago" in card._facts.text(), "as the list of runs says it"
