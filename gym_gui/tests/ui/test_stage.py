"""The stage against a real daemon: what is said of a run in each of its states, and who may take the stage."""

from __future__ import annotations

from pathlib import Path

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.commands import Command
from gym_gui.ui.metrics_store import MOST_RUNS, MetricsStore
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, RunRow
from gym_gui.ui.panels.key_numbers import description, key_numbers, situation
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.widgets.action_buttons import ActionButtons
from mosaic_protocol.headline import RETURN_TAG
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 60_000


def opened(make_cockpit: MakeCockpit, daemon: DaemonProcess | None) -> tuple[CockpitApp, Stage]:
    cockpit = make_cockpit(daemon, parts=[Part("stage", "Stage", Place.STAGE, Stage)])
    stage = cockpit.window.findChild(Stage)
    assert stage is not None
    return cockpit, stage


def select(qtbot: QtBot, cockpit: CockpitApp, *run_ids: str) -> None:
    context = cockpit.window.cockpit
    qtbot.waitUntil(lambda: all(context.runs.get(run_id) is not None for run_id in run_ids), timeout=HANG)
    context.selection.select(run_ids)


# ---- what is on it -----------------------------------------------------------------------------------------------


def test_without_a_daemon_the_stage_says_what_it_waits_for(make_cockpit: MakeCockpit) -> None:
    _, stage = opened(make_cockpit, None)
    assert stage.pages.currentWidget() is stage.empty
    assert "daemon" in stage.empty.title.text() and not stage.empty.newest.isVisible()


def test_without_a_run_the_stage_invites_to_train_one(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    _, stage = opened(make_cockpit, daemon)
    qtbot.waitUntil(lambda: stage.empty.title.text() == "Train your first agent", timeout=HANG)


def test_one_click_leads_to_the_newest_run(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot) -> None:
    daemon.wait_over(daemon.submit(name="older", total_timesteps=1))
    newest = daemon.submit(name="newer", total_timesteps=1)
    cockpit, stage = opened(make_cockpit, daemon)
    qtbot.waitUntil(lambda: len(cockpit.window.cockpit.runs) == 2 and stage.empty.newest.isVisible(), timeout=HANG)
    qtbot.mouseClick(stage.empty.newest, Qt.MouseButton.LeftButton)
    assert cockpit.window.cockpit.selection.ids == [newest]
    assert stage.pages.currentWidget() is stage.headline and stage.headline.name.text() == "newer"


def test_the_headline_follows_a_run_from_training_to_its_outcome(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    run_id = daemon.submit(name="climb", total_timesteps=200, step_seconds=0.001, gate=str(gate), gate_at=151, seed=3)
    cockpit, stage = opened(make_cockpit, daemon)
    select(qtbot, cockpit, run_id)
    headline = stage.headline
    qtbot.waitUntil(lambda: headline.numbers["mean_return"].text() == "100.5", timeout=HANG)
    assert headline.badge.word == "training" and "seed 3" in headline.about.text()
    qtbot.waitUntil(lambda: headline.steps.text().startswith("150 / 200"), timeout=HANG)
    assert headline.progress.value() == 75 and headline.numbers["speed"].text() == "1,000"
    qtbot.waitUntil(lambda: headline.plot.card.plot.has_points, timeout=HANG)
    gate.touch()
    qtbot.waitUntil(lambda: headline.badge.word == "completed", timeout=HANG)
    qtbot.waitUntil(lambda: headline.numbers["mean_return"].text() == "150.5", timeout=HANG)
    assert headline.sentence.isVisible() and headline.sentence.property("role") == "good"
    assert headline.numbers["remaining"].text() == "–"


def test_a_failed_run_says_why_in_the_colour_of_errors(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    run_id = daemon.submit(total_timesteps=5, misbehave="crash", at_step=2)
    run = daemon.wait_over(run_id)
    cockpit, stage = opened(make_cockpit, daemon)
    select(qtbot, cockpit, run_id)
    label = stage.headline.sentence
    assert label.text()[1:] == run.reason[1:] and label.property("role") == "error"
    assert label.palette().windowText().color().name() == cockpit.themes.theme.bad


def test_several_runs_are_compared_with_a_line_for_each(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    runs = [daemon.submit(name=f"run {number}", total_timesteps=10 * number) for number in (1, 2)]
    for run_id in runs:
        daemon.wait_over(run_id)
    cockpit, stage = opened(make_cockpit, daemon)
    select(qtbot, cockpit, *runs)
    compared = stage.compared
    assert stage.pages.currentWidget() is compared and compared.title.text() == "2 runs"
    qtbot.waitUntil(lambda: compared._lines[runs[1]]["mean_return"].text() == "10.50", timeout=HANG)
    assert compared._lines[runs[0]]["mean_return"].text() == "5.50"
    assert compared._badges[runs[0]].word == "completed"
    assert len(compared.plot.card.plot.curves) == 2


def test_of_very_many_runs_some_are_compared_and_the_rest_is_counted(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    cockpit, stage = opened(make_cockpit, None)
    cockpit.window.cockpit.runs.take([pb.Run(run_id=f"r{number}", name="x", state="INIT") for number in range(40)])
    cockpit.window.cockpit.selection.select([f"r{number}" for number in range(40)])
    assert stage.compared.title.text() == f"{MOST_RUNS} runs, {40 - MOST_RUNS} more selected"


def test_a_deleted_run_leaves_the_stage(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    cockpit, stage = opened(make_cockpit, None)
    context = cockpit.window.cockpit
    context.runs.take([pb.Run(run_id="r", name="x", state="INIT")])
    context.selection.select(["r"])
    assert stage.pages.currentWidget() is stage.headline
    context.runs.take([pb.Run(run_id="r", deleted=True)])
    assert stage.pages.currentWidget() is stage.empty


def test_only_what_is_on_the_stage_is_followed(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    runs = [daemon.submit(total_timesteps=10, gate=str(gate), gate_at=5) for _ in range(2)]
    cockpit, _ = opened(make_cockpit, daemon)
    store = MetricsStore.of(cockpit.bridge)
    select(qtbot, cockpit, runs[0])
    assert store.followed == [runs[0]]
    select(qtbot, cockpit, *runs)
    assert sorted(store.followed) == sorted(runs)
    select(qtbot, cockpit)
    assert store.followed == []
    gate.touch()
    for run_id in runs:
        daemon.wait_over(run_id)


# ---- live sessions -----------------------------------------------------------------------------------------------


def test_a_live_session_has_the_stage_until_it_gives_it_back(make_cockpit: MakeCockpit) -> None:
    cockpit, stage = opened(make_cockpit, None)
    context = cockpit.window.cockpit
    context.runs.take([pb.Run(run_id="r", name="x", state="INIT")])
    session = QLabel("environment")
    stage.show_live(session)
    context.selection.select(["r"])
    assert stage.pages.currentWidget() is session is stage.live
    stage.end_live()
    assert stage.pages.currentWidget() is stage.headline and stage.live is None
    stage.end_live()


# ---- words and buttons -------------------------------------------------------------------------------------------


def test_what_is_not_known_is_a_dash() -> None:
    numbers = key_numbers(RunRow(pb.Run(run_id="r", name="x", state="INIT"), 0.0), None, 1.0)
    assert {numbers.mean_return, numbers.length, numbers.speed, numbers.elapsed, numbers.remaining} == {"–"}
    assert numbers.steps == "–" and numbers.percent is None


def test_time_goes_on_between_two_words_of_the_daemon() -> None:
    run = pb.Run(run_id="r", state="EXEC", active_seconds=10, last_step=1000, total_steps=4000, started_at=1)
    numbers = key_numbers(RunRow(run, 100.0), None, 105.0)
    assert numbers.elapsed == "15s" and numbers.remaining == "25s" and numbers.percent == 25


def test_each_situation_has_a_sentence() -> None:
    queued = pb.Run(state="INIT", queue_position=2)
    assert situation(queued) == ("Waits for its turn: 2nd in line.", "")
    assert situation(pb.Run(state="INIT", reason="it asks for too much")) == ("It asks for too much", "warning")
    assert situation(pb.Run(state="HSHK", reason="not installed")) == ("Not installed", "warning")
    assert situation(pb.Run(state="EXEC", seconds_since_progress=95))[1] == "warning"
    assert situation(pb.Run(state="TERM", outcome="completed", reason="done")) == ("Done", "good")
    assert situation(pb.Run(state="TERM", outcome="lost", reason="gone"))[1] == "error"
    assert situation(pb.Run(state="TERM", outcome="something new", reason="odd"))[1] == "error"
    assert description(pb.Run(algo="ppo", env_id="CartPole-v1", worker_type="cleanrl")) == (
        "ppo · CartPole-v1 · cleanrl worker"
    )


def test_a_command_is_a_button_as_soon_as_it_exists_and_greyed_with_the_reason_while_it_does_not_apply(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    commands = make_cockpit().window.cockpit.commands
    buttons = ActionButtons(commands, ("second", "first", "absent"))
    qtbot.addWidget(buttons)
    buttons.show()
    done: list[str] = []
    commands.add(Command("first", "First", "Run", help="does it"), lambda: done.append("first"))
    qtbot.mouseClick(buttons.buttons["first"], Qt.MouseButton.LeftButton)
    assert done == ["first"] and buttons.buttons["first"].toolTip() == "does it"
    commands.enable("first", False, "not now")
    first = buttons.buttons["first"]
    assert first.isVisible() and not first.isEnabled() and first.toolTip() == "does it\nnot now"
    assert list(buttons.buttons) == ["first"]


def test_one_screen_has_one_return(make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot) -> None:
    """The stage, the list of runs and the plot of returns all show the mean of the last 100 episodes, and say so."""
    run_id = daemon.submit(name="climb", total_timesteps=300)
    daemon.wait_over(run_id)
    cockpit = make_cockpit(daemon, parts=None)
    window = cockpit.window
    window.resize(1280, 800)
    select(qtbot, cockpit, run_id)
    stage, metrics = window.findChild(Stage), window.findChild(MetricsPanel)
    runs = window.findChild(RunsPanel)
    assert None not in (stage, metrics, runs)
    table = runs.table
    qtbot.waitUntil(lambda: stage.headline.numbers["mean_return"].text() == "250.5", timeout=HANG)
    assert table.cell(table.order.rows[run_id], COLUMN_NUMBERS["return"]) == "250.5"
    assert table.title("return") == "Mean return"
    qtbot.waitUntil(lambda: metrics.grid.cards.get(RETURN_TAG) is not None, timeout=HANG)
    card = metrics.grid.cards[RETURN_TAG]
    qtbot.waitUntil(lambda: card.newest.text() == "last 100: 250.5", timeout=HANG)
    assert not stage.headline.plot.card.newest.isVisible()
