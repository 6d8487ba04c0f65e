"""The cockpit as a new user finds it: the whole window, a real daemon, real trainings, by mouse and by keyboard."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from PyQt6.QtCore import QEvent, QObject, QPoint, Qt
from PyQt6.QtWidgets import QAbstractItemView, QApplication, QPushButton, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.cleanrl_runs import children_of, cleanrl_daemon, submit_ppo
from gym_gui.tests.support.daemon_process import DaemonProcess, wait_for
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.metrics_panel import MetricsPanel
from gym_gui.ui.panels.run_tabs import RunTabs
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.tensorboard_tab import TensorBoardTab
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.widgets.checkpoint_card import CheckpointCard
from gym_gui.ui.widgets.cleanrl_train_form import CleanRlTrainForm
from gym_gui.ui.widgets.snackbar import Snackbar
from mosaic_protocol.headline import RETURN_TAG
from mosaic_protocol.process_identity import ProcessIdentity
from mosaic_protocol.proto import trainer_pb2 as pb

HANG = 240_000
KEY = Qt.Key
CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
LONG = 50_000_000
"""Steps of a run that is still under way when the test is done with it."""
W = TypeVar("W", bound=QWidget)


class User:
    """What a person does in front of the window; a click goes to whatever is really under the pointer."""

    def __init__(self, cockpit: CockpitApp, qtbot: QtBot) -> None:
        self.cockpit, self.window, self.qtbot = cockpit, cockpit.window, qtbot

    # ---- hands ---------------------------------------------------------------------------------------------------

    def _hit(self, widget: QWidget, at: QPoint | None) -> QWidget | None:
        """What a click there meets, if that is this widget or inside it and not something that lies over it."""
        self.scroll_to(widget)
        hit = self.window.childAt(widget.mapTo(self.window, at or widget.rect().center()))
        return hit if hit is widget or widget.isAncestorOf(hit) else None

    def click(self, widget: QWidget, at: QPoint | None = None, modifiers: Qt.KeyboardModifier | None = None) -> None:
        self.scroll_to(widget)
        self.see(widget.isVisible)
        self.see(lambda: self._hit(widget, at))  # what was laid out again a moment ago may still be on its way
        hit, point = self._hit(widget, at), widget.mapTo(self.window, at or widget.rect().center())
        assert hit is not None
        assert hit.isEnabled(), f"{widget} is disabled: {widget.toolTip()}"
        none = Qt.KeyboardModifier.NoModifier
        self.qtbot.mouseClick(hit, Qt.MouseButton.LeftButton, modifiers or none, hit.mapFrom(self.window, point))

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        """A key goes to what has the focus."""
        focused = QApplication.focusWidget()
        self.qtbot.keyClick(self.window if focused is None else focused, key, modifiers)

    def write(self, field: QWidget, text: str) -> None:
        """Replace what stands in a field."""
        self.click(field)
        focused = QApplication.focusWidget()
        assert focused is not None and focused in (field, field.focusProxy())
        self.press(KEY.Key_A, CTRL)
        self.qtbot.keyClicks(focused, text)

    def scroll_to(self, widget: QWidget) -> None:
        parent = widget.parentWidget()
        while parent is not None:
            if isinstance(parent, QScrollArea):
                parent.ensureWidgetVisible(widget)
            parent = parent.parentWidget()

    # ---- eyes ----------------------------------------------------------------------------------------------------

    def see(self, what: Callable[[], object]) -> None:
        self.qtbot.waitUntil(lambda: bool(what()), timeout=HANG)

    def part(self, name: str, kind: type[W]) -> W:
        found = self.window.findChild(kind, name)
        assert isinstance(found, kind)
        return found

    @property
    def current(self) -> pb.Run:
        """The run that is looked at."""
        chosen = self.window.cockpit.selection.current
        assert chosen is not None
        run = self.window.cockpit.runs.get(chosen)
        assert run is not None
        return run

    def points(self, run_id: str) -> int:
        """How many returns have come of a run."""
        metrics = MetricsStore.of(self.cockpit.bridge).metrics(run_id)
        series = metrics.series.get(RETURN_TAG) if metrics is not None else None
        return len(series.buffer.values) if series is not None else 0

    # ---- places --------------------------------------------------------------------------------------------------

    @property
    def dock(self) -> TrainDock:
        return self.part("train", TrainDock)

    @property
    def form(self) -> CleanRlTrainForm:
        assert isinstance(self.dock.form, CleanRlTrainForm)
        return self.dock.form

    @property
    def runs(self) -> RunsPanel:
        return self.part("runs", RunsPanel)

    def run_button(self, action: str) -> QPushButton:
        """A button over the list of runs."""
        return self.runs.buttons.buttons[f"run-{action}"]

    def click_run(self, run_id: str, modifiers: Qt.KeyboardModifier | None = None) -> None:
        rows = self.runs.list
        viewport = rows.viewport()
        assert viewport is not None
        index = self.runs.table.index_of(run_id)
        rows.scrollTo(index, QAbstractItemView.ScrollHint.EnsureVisible)
        self.click(viewport, rows.visualRect(index).center(), modifiers)

    def fill_form(self, *, steps: str, name: str) -> None:
        form = self.form
        self.see(lambda: form.parameters.is_known)
        self.write(form.content.run["total_timesteps"].editor, steps)
        self.write(form.content.run["run_name"].editor, name)


class Windows(QObject):
    """Notes what becomes a window: a part that is shown before it has its place flashes up and takes the focus."""

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self.shown: list[str] = []
        app.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        is_shown = event is not None and event.type() == QEvent.Type.Show
        if is_shown and isinstance(watched, QWidget) and watched.windowType() == Qt.WindowType.Window:
            self.shown.append(type(watched).__name__)
        return False


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """A daemon for all of this module, as it comes: runs start from a process that has imported the libraries."""
    with cleanrl_daemon(tmp_path_factory.mktemp("walk") / "home", "warm") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def trained(training: DaemonProcess) -> str:
    """A short run that is over and left a checkpoint."""
    run_id = submit_ppo(training, total_timesteps=4000)
    assert training.wait_over(run_id, timeout=120).outcome == "completed"
    return run_id


@pytest.fixture
def user(training: DaemonProcess, make_cockpit: MakeCockpit, qtbot: QtBot, qapp: QApplication) -> Iterator[User]:
    """In front of a cockpit that was never opened before."""
    (training.paths.root / "cockpit.json").unlink(missing_ok=True)
    interval = qapp.keyboardInputInterval()
    qapp.setKeyboardInputInterval(HANG)  # letters typed on a busy machine are still one word
    windows = Windows(qapp)
    cockpit = make_cockpit(training, None)
    unexpected: list[object] = []
    cockpit.reporter.happened.connect(unexpected.append)
    cockpit.window.resize(1280, 800)
    with qtbot.waitActive(cockpit.window, timeout=HANG):
        cockpit.window.activateWindow()
    user = User(cockpit, qtbot)
    assert cockpit.first_steps is not None
    user.click(cockpit.first_steps.welcome.later)
    user.see(lambda: user.dock.workers.count() > 0)
    assert user.dock.form is None, "training widgets wait until they are asked for"
    user.click(user.dock.empty.button)
    yield user
    qapp.removeEventFilter(windows)
    qapp.setKeyboardInputInterval(interval)
    assert unexpected == []
    assert windows.shown == ["MainWindow"]


def test_a_first_run_is_set_up_watched_paused_and_finished(user: User, training: DaemonProcess) -> None:
    set_up_ppo_on_cartpole(user)
    user.fill_form(steps="150k", name="first")
    dry_run(user)
    run_id = launch(user, "first")
    stage, metrics = user.part("stage", Stage), user.part("metrics", MetricsPanel)
    assert stage.pages.currentWidget() is stage.headline and stage.headline.name.text() == "first"
    user.see(lambda: user.points(run_id) > 0)
    user.see(lambda: RETURN_TAG in metrics.grid.cards)
    pause_and_resume(user, training, run_id)
    open_tensorboard(user)
    user.see(lambda: user.current.state == "TERM")
    assert user.current.outcome == "completed" and user.current.last_step >= 150_000
    assert not user.run_button("pause").isEnabled()


def set_up_ppo_on_cartpole(user: User) -> None:
    user.see(lambda: "cleanrl" in user.dock.catalog.entries)
    workers = user.dock.workers
    viewport = workers.viewport()
    assert viewport is not None
    row = next(item for n in range(workers.count()) if (item := workers.item(n)) and "CleanRL" in item.text())
    user.click(viewport, workers.visualItemRect(row).center())
    content = user.form.content
    algo, environment = content.picker.algo.editor, content.environment.choice
    user.scroll_to(algo)
    algo.setFocus(Qt.FocusReason.TabFocusReason)
    user.qtbot.keyClicks(algo, "dqn")
    assert content.picker.algo.entry == "dqn"
    user.press(KEY.Key_Home)
    assert content.picker.algo.entry == "ppo"
    line = environment.lineEdit()
    assert line is not None
    user.write(line, "CartPole-v1")
    user.press(KEY.Key_Return)
    assert content.environment.env_id == "CartPole-v1"


def dry_run(user: User) -> None:
    form = user.form
    user.see(form.bar.launch_button.isEnabled)
    user.click(form.bar.dry_run_button)
    user.see(lambda: "dry run passed" in form.notes_panel.toPlainText())
    assert not form.notes_panel.visibleRegion().isEmpty(), "what the dry run said is in sight"
    assert len(user.window.cockpit.runs) == 0 or user.window.cockpit.selection.current is None


def launch(user: User, name: str) -> str:
    user.see(user.form.bar.launch_button.isEnabled)
    user.click(user.form.bar.launch_button)
    selection = user.window.cockpit.selection
    user.see(lambda: selection.current and user.current.name == name)
    run_id = user.current.run_id
    index = user.runs.table.index_of(run_id)
    assert index.isValid() and user.runs.list.selected.isRowSelected(index.row())
    return run_id


def pause_and_resume(user: User, training: DaemonProcess, run_id: str) -> None:
    user.see(user.run_button("pause").isEnabled)
    user.click(user.run_button("pause"))
    user.see(lambda: user.current.state == "PAUSE")
    assert training.client.run(run_id).state == "PAUSE"
    user.click_run(run_id)
    user.press(KEY.Key_Space)
    user.see(lambda: user.current.state == "EXEC")


def open_tensorboard(user: User) -> TensorBoardTab:
    user.press(KEY.Key_3, CTRL)
    tabs = user.part("run", RunTabs)
    user.see(tabs.isVisible)
    bar = tabs.tabs.tabBar()
    assert bar is not None
    number = next(n for n in range(bar.count()) if bar.tabText(n) == "TensorBoard")
    user.click(bar, bar.tabRect(number).center())
    tab = tabs.findChild(TensorBoardTab)
    assert tab is not None
    user.see(lambda: bool(tab.address))
    assert tab.server is not None
    with urllib.request.urlopen(tab.server.address, timeout=60) as page:
        assert page.status == 200
    return tab


def test_what_was_trained_is_evaluated_and_begun_from(user: User, training: DaemonProcess, trained: str) -> None:
    browser = choose_checkpoint(user, trained)
    evaluate(user, browser, 5)
    user.see(lambda: browser.details.told.text().startswith("Evaluated:"))
    assert len(browser.details.histogram.values) == 5
    user.click(browser.details.warm_start)
    assert user.dock.what.choice == "train"
    start, chosen = user.form.content.start, browser.details.entry
    assert chosen is not None
    assert start.kind.choice == "warm_start" and str(start.path.entry) == str(chosen.path)
    user.fill_form(steps=str(LONG), name="second")
    second = launch(user, "second")
    user.see(lambda: user.points(second) > 0)
    compare(user, second, trained)
    cancel(user, second, "long enough")
    assert training.wait_over(second).reason
    delete_and_undo(user, second)


def choose_checkpoint(user: User, run_id: str) -> CheckpointBrowser:
    user.see(lambda: "cleanrl" in user.dock.catalog.entries)
    user.click(user.dock.what.buttons["use"])
    browser = user.dock.trained
    assert isinstance(browser, CheckpointBrowser)

    def card() -> CheckpointCard | None:
        return next((one for one in browser.cards if one.entry.run_id == run_id and one.entry.is_last), None)

    user.see(card)
    found = card()
    assert found is not None
    user.click(found)
    assert browser.details.isVisible() and browser.details.entry is found.entry
    return browser


def evaluate(user: User, browser: CheckpointBrowser, episodes: int) -> None:
    line = browser.details.episodes.lineEdit()
    assert line is not None
    browser.details.episodes.setFocus(Qt.FocusReason.TabFocusReason)
    user.qtbot.keyClick(line, KEY.Key_A, CTRL)
    user.qtbot.keyClicks(line, str(episodes))
    assert browser.details.episodes.value() == episodes
    user.click(browser.details.evaluate)


def compare(user: User, second: str, first: str) -> None:
    user.click_run(second)
    user.click_run(first, CTRL)
    assert set(user.window.cockpit.selection.ids) == {first, second}
    stage, metrics = user.part("stage", Stage), user.part("metrics", MetricsPanel)
    user.press(KEY.Key_2, CTRL)
    user.see(metrics.isVisible)
    user.see(lambda: user.points(first) > 0 and user.points(second) > 0)
    user.see(lambda: RETURN_TAG in metrics.grid.cards)
    assert {curve.key for curve in metrics.grid.cards[RETURN_TAG].plot.curves} == {first, second}
    assert stage.pages.currentWidget() is stage.compared


def cancel(user: User, run_id: str, reason: str) -> None:
    user.click_run(run_id)
    user.press(KEY.Key_X, CTRL | SHIFT)
    asked = user.runs.cancel_panel
    user.see(asked.isVisible)
    assert QApplication.focusWidget() is asked.reason
    user.qtbot.keyClicks(asked.reason, reason)
    user.press(KEY.Key_Return)
    user.see(lambda: user.current.run_id == run_id and user.current.state == "TERM")
    assert user.current.outcome == "canceled" and reason in user.current.reason


def delete_and_undo(user: User, run_id: str) -> None:
    user.click_run(run_id)
    user.press(KEY.Key_Delete)
    runs, snackbar = user.window.cockpit.runs, user.window.findChild(Snackbar)
    user.see(lambda: runs.get(run_id) is None)
    assert snackbar is not None
    buttons = snackbar.findChildren(QPushButton)
    user.see(lambda: [one for one in buttons if one.text() == "Undo" and one.isVisible()])
    user.click(next(one for one in buttons if one.text() == "Undo"))
    user.see(lambda: runs.get(run_id) is not None)
    user.see(lambda: user.window.cockpit.selection.current == run_id)


def test_closing_the_window_ends_what_it_began_and_nothing_else(
    user: User, training: DaemonProcess, trained: str
) -> None:
    before = {child.pid for child in children_of(os.getpid())}  # the daemon, or what it was forked from
    going = submit_ppo(training, total_timesteps=LONG)
    user.see(lambda: user.window.cockpit.runs.get(going) is not None)
    user.click_run(going)
    user.see(lambda: user.points(going) > 0)
    open_tensorboard(user)
    browser = choose_checkpoint(user, trained)
    evaluate(user, browser, 10_000)
    user.see(lambda: len(browser.details.histogram.values) > 0)
    begun = [one for child in children_of(os.getpid()) if child.pid not in before for one in family(child)]
    assert len(begun) >= 2, "the evaluation and the TensorBoard server"
    user.cockpit.close()
    wait_for("both to end", lambda: not [one for one in begun if one.is_alive()])
    reached = training.client.run(going).last_step
    wait_for("the run to go on", lambda: training.client.run(going).last_step > reached)
    training.client.cancel(going, "the test is over")
    training.wait_over(going)


def family(process: ProcessIdentity) -> list[ProcessIdentity]:
    """A process and all that it started."""
    return [process, *(one for child in children_of(process.pid) for one in family(child))]
