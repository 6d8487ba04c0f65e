"""Windows of every size: nothing overlaps, nothing is squeezed, and what was there comes back with the room for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from PyQt6.QtCore import QPoint, QRect, QSize, Qt
from PyQt6.QtGui import QFont, QFontMetrics
from PyQt6.QtWidgets import QApplication, QDockWidget, QLineEdit, QMainWindow, QTabBar, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.services.checkpoints.entry import UNCHECKED, CheckpointEntry
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.ui.dock_arrangement import AREAS, ROOMY_WIDTH, DockArrangement
from gym_gui.ui.forms.environment_picker import EnvironmentPicker
from gym_gui.ui.forms.field_editor import FieldEditor
from gym_gui.ui.forms.field_spec import FieldSpec
from gym_gui.ui.main_window import MainWindow
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS, COLUMNS
from gym_gui.ui.panels.checkpoint_browser import CheckpointBrowser
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Place
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.dock_titles import DockTitles
from gym_gui.ui.widgets.hinted_line import HintedLine
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.worker_list import WorkerList
from gym_gui.ui.workers.catalog import WorkerEntry
from mosaic_protocol.proto import trainer_pb2 as pb

SIZES = [(900, 560), (1024, 600), (1199, 640), (1200, 640), (1280, 800), (1920, 1080)]
LONG_NAME = "a-run-with-a-name-that-somebody-made-by-joining-every-setting-to-it-s1"


def opened(make_cockpit: MakeCockpit, qtbot: QtBot, size: tuple[int, int] = (1280, 800)) -> MainWindow:
    """The whole cockpit with a live run of a long name on the stage."""
    window = make_cockpit(parts=None).window
    window.setMinimumSize(900, 560)  # the screen of tests is smaller
    live = pb.Run(run_id="01K9ZQ3V7X0000000000000000", name=LONG_NAME, state="EXEC", algo="ppo", env_id="CartPole-v1")
    live.total_steps, live.last_step = 50_000_000, 12_345_678
    ended = pb.Run(
        run_id="01K9ZQ3V7X0000000000000001", name="ended", state="TERM", outcome="failed", reason="no memory"
    )
    window.cockpit.runs.take([live, ended])
    window.cockpit.selection.select([live.run_id])
    resize(window, qtbot, size)
    return window


def resize(window: MainWindow, qtbot: QtBot, size: tuple[int, int]) -> None:
    window.resize(*size)
    narrow = size[0] < ROOMY_WIDTH
    qtbot.waitUntil(lambda: window.arrangement.is_narrow is narrow and (window.width(), window.height()) == size)
    settle(window, qtbot)


def settle(window: MainWindow, qtbot: QtBot) -> None:
    """Let Qt lay the docks out, and the window keep what came of it."""
    arrangement = window.arrangement
    qtbot.wait(1)
    qtbot.waitUntil(lambda: not arrangement._settling.isActive() and not arrangement._keeping.isActive())


def bring(window: MainWindow, qtbot: QtBot, name: str) -> None:
    window.show_part(name)
    qtbot.waitUntil(lambda: name in seen(window))
    settle(window, qtbot)


def place(window: MainWindow, widget: QWidget) -> QRect:
    return QRect(widget.mapTo(window, QPoint(0, 0)), widget.size())


def seen(window: MainWindow) -> dict[str, QWidget]:
    """The docks in front, and what is in the middle."""
    stage = window.centralWidget()
    assert stage is not None
    docks: dict[str, QWidget] = {
        name: dock for name, dock in window.docks.items() if not dock.visibleRegion().isEmpty() and not dock.isHidden()
    }
    return {"stage": stage, **docks}


def require_order(window: MainWindow) -> None:
    inside = window.rect().adjusted(0, window.menuBar().height(), 0, -window.status_line.height())  # type: ignore[union-attr]
    shown = seen(window)
    for name, widget in shown.items():
        assert inside.contains(place(window, widget)), f"{name} leaves the window"
        if isinstance(widget, QDockWidget):
            least, has = widget.minimumSizeHint(), widget.size()
            assert has.width() >= least.width() and has.height() >= least.height(), f"{name} is squeezed"
    for (one, first), (other, second) in combinations(shown.items(), 2):
        assert not place(window, first).intersects(place(window, second)), f"{one} lies over {other}"
    stage = window.findChild(Stage)
    assert stage is not None
    assert stage.pages.width() <= stage.width(), "the stage is cut on the right"


def test_nothing_overlaps_at_any_size_whatever_is_in_front(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot)
    for size in SIZES:
        resize(window, qtbot, size)
        for name in window.docks:
            bring(window, qtbot, name)
            require_order(window)
        for run_ids in ([], ["01K9ZQ3V7X0000000000000001"], [run.run_id for run in window.cockpit.runs]):
            window.cockpit.selection.select(run_ids)
            settle(window, qtbot)
            require_order(window)


def test_a_chosen_checkpoint_stays_in_the_window_and_all_of_it_can_be_reached(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    window = opened(make_cockpit, qtbot)
    dock = window.findChild(TrainDock)
    assert dock is not None
    dock.show_page("use")
    browser = dock.trained
    assert isinstance(browser, CheckpointBrowser)
    chosen = CheckpointEntry(
        "01K9@last", Path("/x"), "run", "01K9", "run", "", "cleanrl", 1, 1, UNCHECKED, algo="ppo", env_id="CartPole-v1"
    )
    browser.details.show_entry(chosen)
    browser.details.show()
    browser.details.histogram.show_values([490.0, 495.0, 500.0])
    for size in SIZES:
        resize(window, qtbot, size)
        bring(window, qtbot, "train")
        require_order(window)
        browser.details.resume.setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.waitUntil(lambda: not browser.details.resume.visibleRegion().isEmpty())
        browser.details._tell("")
        browser.details._tell("Evaluated: 498 ± 2 (median 500, IQM 499) over 30 episodes, greedy actions", "good")
        told = browser.details.told
        qtbot.waitUntil(lambda told=told: told.visibleRegion().boundingRect().height() == told.height())


def test_tabs_stand_closer_before_their_titles_are_cut(qtbot: QtBot, qapp: QApplication) -> None:
    Themes(qapp)
    window = QMainWindow()
    qtbot.addWidget(window)
    docks = [QDockWidget(name, window) for name in ("Runs", "Log", "Episodes", "Sweeps", "Datasets", "Metrics")]
    for dock in docks:
        dock.setWidget(QWidget())
        window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
    for dock in docks[1:]:
        window.tabifyDockWidget(docks[0], dock)
    DockTitles(window).watch(docks)
    window.show()
    bar = next(one for one in window.findChildren(QTabBar) if one.count() == len(docks))
    words = [bar.fontMetrics().horizontalAdvance(dock.windowTitle()) for dock in docks]
    tabs = range(len(docks))

    window.resize(sum(words) + 60 * len(docks), 300)
    qtbot.waitUntil(lambda: all(bar.tabRect(one).width() >= words[one] + 28 for one in tabs))
    window.resize(sum(words) + 20 * len(docks), 300)
    qtbot.waitUntil(lambda: bar.width() < sum(words) + 28 * len(docks))
    qtbot.waitUntil(lambda: bar.sizeHint().width() <= bar.width(), timeout=3000)


def test_a_notice_covers_no_row_and_no_button(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot)
    stage = window.findChild(Stage)
    assert stage is not None
    notice = Notice("A long sentence that says what happened, why it happened, and what to do about it next. " * 2)
    for size in SIZES:
        resize(window, qtbot, size)
        window.cockpit.notify(notice)
        qtbot.waitUntil(lambda: window._snackbar.isVisible() and window._snackbar.height() > 20)
        qtbot.waitUntil(lambda: not place(window, window._snackbar).intersects(place(window, stage)))
        for name, widget in seen(window).items():
            if name != "stage":
                assert not place(window, window._snackbar).intersects(place(window, widget)), name
        require_order(window)


def test_a_question_about_runs_moves_nothing_around_it(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot)
    runs = window.findChild(RunsPanel)
    assert runs is not None
    names = [LONG_NAME, "ended"]
    for size in SIZES:
        resize(window, qtbot, size)
        bring(window, qtbot, "runs")
        before = {name: place(window, widget) for name, widget in seen(window).items()}
        runs.cancel_panel.ask_for(["1", "2"], names)
        settle(window, qtbot)
        assert {name: place(window, widget) for name, widget in seen(window).items()} == before, size
        runs.cancel_panel.close_panel()
        runs.pages.setCurrentWidget(runs.trash)
        runs.trash.ask_bar.ask("Delete 2 runs for good?", names, ("Delete", "Keep"), "", lambda: None)
        settle(window, qtbot)
        assert {name: place(window, widget) for name, widget in seen(window).items()} == before, size
        runs.trash.ask_bar.close_panel()
        runs.pages.setCurrentIndex(0)


def test_a_window_made_small_and_large_again_is_as_it_was(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot, (1600, 900))
    bring(window, qtbot, "capacity")
    window.docks["log"].hide()
    across = Qt.Orientation.Horizontal
    window.resizeDocks([window.docks["train"], window.docks["capacity"]], [420, 430], across)
    qtbot.waitUntil(lambda: window.docks["train"].width() == 420)
    settle(window, qtbot)
    before = {name: place(window, widget) for name, widget in seen(window).items()}
    for size in ((900, 560), (1600, 900), (1100, 700), (1000, 600), (1600, 900)):
        resize(window, qtbot, size)
        require_order(window)
        assert window.docks["log"].isHidden()
    qtbot.waitUntil(lambda: {name: place(window, widget) for name, widget in seen(window).items()} == before)


def test_a_small_window_keeps_its_tab_and_its_heights(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot, (1024, 700))
    bring(window, qtbot, "doctor")
    window.resizeDocks([window.docks["doctor"]], [300], Qt.Orientation.Vertical)
    settle(window, qtbot)
    before = {name: place(window, widget) for name, widget in seen(window).items()}
    resize(window, qtbot, (1400, 800))
    assert "doctor" in seen(window) and "runs" in seen(window)
    resize(window, qtbot, (1024, 700))
    qtbot.waitUntil(lambda: {name: place(window, widget) for name, widget in seen(window).items()} == before)


def test_a_page_that_had_the_whole_window_gives_every_pixel_back(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    """Docks that came back with their titles needed more height than in their tabs, and kept it."""
    window = opened(make_cockpit, qtbot, (1024, 600))
    bring(window, qtbot, "arenas")
    before = {name: place(window, widget) for name, widget in seen(window).items()}
    for _ in range(2):
        window.arrangement.make_room(window, tuple(AREAS))
        settle(window, qtbot)
        assert set(seen(window)) == {"stage"}
        window.arrangement.give_room_back(window)
        settle(window, qtbot)
        qtbot.waitUntil(lambda: {name: place(window, widget) for name, widget in seen(window).items()} == before)


class Page(QWidget):
    """Wants to be wider with what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 335

    def sizeHint(self) -> QSize:
        return QSize(self.wanted, 300)


def test_a_form_that_opens_takes_no_width_from_the_runs(qtbot: QtBot) -> None:
    window, page = QMainWindow(), Page()
    qtbot.addWidget(window)
    window.setCentralWidget(QWidget())
    docks = {}
    for name, area, widget in (
        ("train", Place.LEFT, page),
        ("metrics", Place.RIGHT, Page()),
        ("runs", Place.BOTTOM, QWidget()),
        ("log", Place.BOTTOM, QWidget()),
    ):
        docks[name] = QDockWidget(name, window)
        docks[name].setObjectName(name)
        docks[name].setWidget(widget)
        window.addDockWidget(AREAS[area], docks[name])
    window.resize(1280, 800)
    arrangement = DockArrangement(window, docks, [])
    window.show()
    window.resize(1280, 800)

    docks["runs"].raise_()

    def given() -> bool:
        wide = window.width() == 1280 and not arrangement.is_narrow and docks["train"].width() == 330
        return wide and 230 < docks["runs"].height() <= 288

    qtbot.waitUntil(given)
    page.wanted = 400
    page.updateGeometry()
    qtbot.wait(10)
    assert docks["train"].width() == 330
    window.resize(1920, 1080)
    qtbot.waitUntil(lambda: docks["train"].width() == 400 and 330 < docks["runs"].height() <= 389)
    window.resizeDocks([docks["train"]], [450], Qt.Orientation.Horizontal)
    qtbot.waitUntil(lambda: docks["train"].width() == 450)
    window.resize(1800, 1000)
    qtbot.waitUntil(lambda: window.width() == 1800 and not arrangement._sharing.isActive())
    assert docks["train"].width() == 450, "what somebody dragged stays"


def test_the_chosen_worker_stays_in_sight_when_its_form_takes_the_room(qtbot: QtBot, qapp: QApplication) -> None:
    workers = WorkerList(Themes(qapp))
    qtbot.addWidget(workers)
    names = ["cleanrl", "corl", "llm", "play", "spade_bdi"]
    workers.show_entries([WorkerEntry(name, name, "", "analytics", True, "ready") for name in names], "cleanrl")
    workers.set_low(True)
    workers.resize(300, workers.maximumHeight())
    workers.show()
    workers.choose("play")
    workers.resize(300, workers.minimumHeight())
    viewport = workers.viewport()
    assert viewport is not None and viewport.rect().contains(workers.visualItemRect(workers.currentItem()))


def test_a_cockpit_that_was_closed_small_opens_large_as_it_was_large(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    first = make_cockpit(parts=None)
    first.window.setMinimumSize(900, 560)
    resize(first.window, qtbot, (1400, 800))
    bring(first.window, qtbot, "capacity")
    resize(first.window, qtbot, (1000, 600))
    first.close()
    window = make_cockpit(parts=None).window
    qtbot.waitUntil(lambda: set(seen(window)) == {"stage", "train", "runs"})
    resize(window, qtbot, (1400, 800))
    qtbot.waitUntil(lambda: set(seen(window)) == {"stage", "train", "capacity", "runs"})
    require_order(window)


_SMALL_AND_WHOLE_AGAIN = """
import sys
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.web_view import allow_web_views
from mosaic_protocol.paths import MosaicPaths

allow_web_views()
app = QApplication(["mosaic"])
cockpit = CockpitApp(app, MosaicPaths.from_environment(), start_daemon=False)
window = cockpit.window
window.show()
QTest.qWait(200)
if sys.argv[1] == "first":
    for size in ((1280, 800), (1024, 600)):
        window.resize(*size)
        QTest.qWait(300)
    window.showMaximized()
    QTest.qWait(300)
for _ in range(100):
    if (window.width(), window.arrangement.is_narrow) == (1280, False):
        break
    QTest.qWait(100)
print(window.width(), window.arrangement.is_narrow, window.isMaximized())
cockpit.close()
"""


def test_a_cockpit_that_was_small_and_closed_maximized_opens_again(tmp_path: Path) -> None:
    """In processes of their own: Qt crashed when it showed the window, and the screen must be a usual one."""
    screen = {"name": "one", "x": 0, "y": 0, "width": 1280, "height": 800}
    screen |= {"logicalDpi": 96, "logicalBaseDpi": 96, "dpr": 1}
    (tmp_path / "screen.json").write_text(json.dumps({"windowFrameMargins": False, "screens": [screen]}))
    platform = f"offscreen:configfile={tmp_path / 'screen.json'}"
    words = {**os.environ, "QT_QPA_PLATFORM": platform, "MOSAIC_HOME": str(tmp_path / "home")}
    for turn in ("first", "second"):
        command = [sys.executable, "-c", _SMALL_AND_WHOLE_AGAIN, turn]
        done = subprocess.run(command, check=False, env=words, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout.strip()) == (0, "1280 False True"), f"{turn}: {done.stderr}"


def test_resetting_the_layout_of_a_small_window_keeps_everything_in_tabs(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    window = opened(make_cockpit, qtbot, (1024, 600))
    window.docks["metrics"].hide()
    window.reset_layout()
    resize(window, qtbot, (1024, 600))
    assert not window.docks["metrics"].isHidden() and "runs" in seen(window)
    require_order(window)


def test_the_stage_scrolls_for_the_page_in_front_alone(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot, (900, 560))
    reason = "The script exited with status 1, and this sentence about it takes several lines of the stage. " * 3
    failed = pb.Run(run_id="01K9ZQ3V7X0000000000000002", name="failed", state="TERM", outcome="failed", reason=reason)
    stage = window.findChild(Stage)
    assert stage is not None
    window.cockpit.runs.take([failed])
    window.cockpit.selection.select([])
    settle(window, qtbot)
    before = stage.pages.height()
    window.cockpit.selection.select([failed.run_id])
    qtbot.waitUntil(lambda: stage.pages.height() > before)
    window.cockpit.selection.select([])
    qtbot.waitUntil(lambda: stage.pages.height() == before)


def test_two_runs_are_compared_in_a_small_window_without_scrolling(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = opened(make_cockpit, qtbot, (1024, 600))
    stage = window.findChild(Stage)
    assert stage is not None
    window.cockpit.runs.take([made(1), made(2)])
    window.cockpit.selection.select([f"{number:026d}" for number in (1, 2)])
    compared = stage.compared
    qtbot.waitUntil(lambda: compared.minimumSizeHint().height() <= stage.height())
    whole = compared.next_actions.visibleRegion().boundingRect()
    assert whole.height() == compared.next_actions.height(), "the buttons are not cut"
    resize(window, qtbot, (1280, 1000))
    lowest = [compared._table, compared.next_actions]
    qtbot.waitUntil(lambda: lowest == sorted(lowest, key=lambda one: one.mapTo(compared, QPoint(0, 0)).y()))


def test_a_hint_is_cut_nowhere_that_a_shorter_one_fits(qtbot: QtBot) -> None:
    hints = ["Filter by words, or algo=ppo lr<1e-3 tag=paper", "Filter by words", "Filter"]
    line = HintedLine(hints)
    qtbot.addWidget(line)
    line.show()
    shown = []
    for width in (600, 180, 90):
        line.resize(width, 30)
        shown.append(line.placeholderText())
        assert line.fontMetrics().horizontalAdvance(line.placeholderText()) < width
    assert shown == hints
    line.set_hints(["Another"])
    line.resize(600, 30)
    assert line.placeholderText() == "Another"


def test_the_usual_names_of_runs_and_of_columns_are_not_cut(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    runs = window.findChild(RunsPanel)
    assert runs is not None
    header = runs.list.columns.header
    measure = runs.list.fontMetrics().horizontalAdvance
    assert measure("ppo-cartpole-v1-s1") + 16 <= header.sectionSize(COLUMN_NUMBERS["name"])
    for number in range(header.count()):
        title = runs.table.title(COLUMNS[number].name)
        wanted = header.fontMetrics().horizontalAdvance(title) + 16
        assert header.isSectionHidden(number) or wanted <= header.sectionSize(number), title
    bold = QFont(runs.list.font())
    bold.setWeight(QFont.Weight.DemiBold)
    assert header.fontMetrics().horizontalAdvance("ppo-cartpole") == QFontMetrics(bold).horizontalAdvance(
        "ppo-cartpole"
    )


def test_of_a_long_environment_that_was_typed_the_beginning_is_seen(qtbot: QtBot) -> None:
    picker = EnvironmentPicker()
    qtbot.addWidget(picker)
    picker.resize(240, 120)
    picker.show()
    line = picker.choice.lineEdit()
    assert line is not None
    qtbot.keyClicks(line, "MiniGrid-KeyCorridorS6R3-v0")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert line.cursorPosition() == 0
    line.setFocus()
    line.selectAll()  # as Tab does on its way through
    qtbot.waitUntil(line.hasFocus)
    picker.family.setFocus()
    qtbot.waitUntil(lambda: not line.hasFocus())
    assert line.cursorPosition() == 0


def test_of_a_long_entry_or_range_the_beginning_is_seen_once_the_keyboard_is_elsewhere(
    qtbot: QtBot, qapp: QApplication
) -> None:
    around = QWidget()
    qtbot.addWidget(around)
    layout = QVBoxLayout(around)
    field, elsewhere = FieldEditor(FieldSpec("rate", "Learning rate"), Themes(qapp)), QLineEdit()
    layout.addWidget(field)
    layout.addWidget(elsewhere)
    field.offer_range(True)
    with qtbot.waitActive(around):
        around.show()
    assert isinstance(field.editor, QLineEdit) and field.range_button is not None
    field.range_button.click()
    field.range_button.click()  # now both lines are made, and the value is shown
    for searched, line in ((False, field.editor), (True, field.range_line)):
        field.range_button.setChecked(searched)
        assert line is not None
        line.setFocus()
        line.selectAll()
        qtbot.keyClicks(line, "1e-4 to 1e-2 log")
        qtbot.keyClick(line, Qt.Key.Key_Return)
        assert line.cursorPosition() == len(line.text()), "who goes on typing goes on at the end"
        elsewhere.setFocus()
        assert line.cursorPosition() == 0


def test_the_example_of_an_environment_is_whole_or_another_word_is_there(qtbot: QtBot, qapp: QApplication) -> None:
    spec = FieldSpec("env_id", "Environment", placeholder="e.g. FrozenLake-v1", short_placeholder="Gymnasium id")
    field = FieldEditor(spec, Themes(qapp))
    qtbot.addWidget(field)
    field.show()
    line = field.editor
    assert isinstance(line, QLineEdit) and spec.placeholder in line.toolTip()
    for width, hint in ((200, spec.placeholder), (110, spec.short_placeholder)):
        line.resize(width, 28)
        assert line.placeholderText() == hint
        assert line.fontMetrics().horizontalAdvance(hint) < width - 8


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        (FieldSpec("lr", "Learning rate", kind="float", default=0.00025), "0.00025"),
        (FieldSpec("kl", "Target KL", kind="float", optional=True), "none"),
        (FieldSpec("seed", "Seed", kind="int", default=1, required=True), ""),
        (FieldSpec("name", "Name", default="ppo"), ""),
    ],
)
def test_a_number_that_was_taken_out_shows_what_holds_instead(qapp: QApplication, spec: FieldSpec, hint: str) -> None:
    field = FieldEditor(spec, Themes(qapp))
    field.put("")
    assert isinstance(field.editor, QLineEdit) and field.editor.placeholderText() == hint
