"""The cockpit without a mouse: where Tab and F6 go, where the focus is seen, and what Ctrl+K finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PyQt6.QtCore import QEvent, QPoint, QRect, Qt
from PyQt6.QtGui import QColor, QImage, QKeyEvent
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QDialog, QListWidget, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, part, toy_form, train_dock
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.help_windows import AboutWindow, GuideWindow
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.panels.stage import Stage
from gym_gui.ui.panels.train_dock import TrainDock
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.play.live_session import LiveSession
from gym_gui.ui.play.play_panel import PlayPanel
from gym_gui.ui.replay.screen import ReplayScreen
from gym_gui.ui.tab_order import stops
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.command_palette import rank
from mosaic_protocol.headline import MEAN_RETURN

__all__ = ["open_whole"]

RUNS = [Part("runs", "Runs", Place.BOTTOM, RunsPanel)]
LEFT = Qt.MouseButton.LeftButton
KEY = Qt.Key


@pytest.fixture
def cockpit(open_whole: OpenWhole, daemon: DaemonProcess, qtbot: QtBot) -> CockpitApp:
    """The whole window with the toy's form and one run that is over."""
    found = open_whole(daemon)
    found.window.resize(1400, 900)
    qtbot.waitUntil(lambda: (form := toy_form(found)) is not None and form.bar.why_not == "", timeout=HANG)
    run_id = daemon.submit(total_timesteps=1)
    book = found.window.cockpit.runs
    qtbot.waitUntil(lambda: (run := book.get(run_id)) is not None and run.state == "TERM", timeout=HANG)
    with qtbot.waitActive(found.window, timeout=HANG):
        found.window.activateWindow()
    return found


cockpit_key: Callable[[QWidget, Qt.Key, Qt.KeyboardModifier], None] = QTest.keyClick  # type: ignore[assignment]
"""Its stubs count ``self`` twice."""


def press(cockpit: CockpitApp, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    focused = QApplication.focusWidget()
    cockpit_key(cockpit.window if focused is None else focused, key, modifiers)


def unfocus() -> None:
    focused = QApplication.focusWidget()
    if focused is not None:
        focused.clearFocus()


# ---- Tab and F6 --------------------------------------------------------------------------------------------------


def test_a_few_tabs_lead_from_the_start_into_the_form(cockpit: CockpitApp) -> None:
    form = toy_form(cockpit)
    assert form is not None
    unfocus()
    visited = []
    while not form.area.isAncestorOf(QApplication.focusWidget()):
        press(cockpit, KEY.Key_Tab)
        visited.append(QApplication.focusWidget())
        assert len(visited) <= 6, visited
    for name in ("algo", "run_name", "env_id", "seed"):
        press(cockpit, KEY.Key_Tab)
        assert QApplication.focusWidget() is form.run[name].editor


def test_tab_visits_everything_once_pane_by_pane_and_comes_round(cockpit: CockpitApp) -> None:
    unfocus()
    press(cockpit, KEY.Key_Tab)
    first = QApplication.focusWidget()
    visited: list[QWidget] = []
    while not visited or QApplication.focusWidget() is not first:
        focused = QApplication.focusWidget()
        assert focused is not None and focused not in visited
        visited.append(focused)
        press(cockpit, KEY.Key_Tab)
    docks = cockpit.window.docks
    stage = cockpit.window.centralWidget()
    assert stage is not None
    panes = [docks["train"], stage, docks["metrics"], docks["runs"]]
    places = [number for one in visited for number, pane in enumerate(panes) if pane.isAncestorOf(one)]
    assert places == sorted(places) and set(places) == {0, 1, 2, 3}
    for pane in panes:
        assert [one for one in stops(pane) if one not in visited] == []
    press(cockpit, KEY.Key_Backtab)
    assert QApplication.focusWidget() is visited[-1]


def test_fields_that_come_later_are_visited_where_they_stand(cockpit: CockpitApp) -> None:
    form = toy_form(cockpit)
    assert form is not None
    form.use_schema({"properties": {"step_seconds": {"type": "number"}, "say": {"type": "string"}}})
    QApplication.processEvents()
    form.settings["step_seconds"].editor.setFocus()
    press(cockpit, KEY.Key_Tab)
    assert QApplication.focusWidget() is form.settings["say"].editor
    for _ in range(3):  # past the headings of the next two parts, of which the first is folded
        press(cockpit, KEY.Key_Tab)
    assert QApplication.focusWidget() is form.hardware["cpus"].editor


def test_f6_goes_from_pane_to_pane_and_ctrl_1_into_the_form(cockpit: CockpitApp) -> None:
    docks, form = cockpit.window.docks, toy_form(cockpit)
    assert form is not None
    press(cockpit, KEY.Key_1, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.focusWidget() is form.run["algo"].editor
    for pane in (cockpit.window.centralWidget(), docks["metrics"], docks["runs"], docks["train"]):
        press(cockpit, KEY.Key_F6)
        assert pane is not None and pane.isAncestorOf(QApplication.focusWidget())
    press(cockpit, KEY.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert QApplication.focusWidget() is part(cockpit, RunsPanel).list


def test_the_key_of_a_panel_leads_to_something_in_it(cockpit: CockpitApp) -> None:
    docks = cockpit.window.docks
    for number, name in enumerate(("metrics", "run", "capacity", "doctor"), start=2):
        press(cockpit, KEY(KEY.Key_0 + number), Qt.KeyboardModifier.ControlModifier)
        pane = docks[name].widget()
        assert pane is not None
        reachable = stops(pane)
        assert not reachable or QApplication.focusWidget() is reachable[0], name


def test_return_presses_the_button_that_has_the_focus_and_once_while_it_is_held(cockpit: CockpitApp) -> None:
    button = QPushButton("Press", cockpit.window.centralWidget())
    pressed: list[bool] = []
    button.clicked.connect(pressed.append)
    button.show()
    button.setFocus()
    press(cockpit, KEY.Key_Return)
    assert len(pressed) == 1
    held = QKeyEvent(QEvent.Type.KeyPress, KEY.Key_Return, Qt.KeyboardModifier.NoModifier, "\r", True)
    QApplication.sendEvent(button, held)
    assert len(pressed) == 1
    press(cockpit, KEY.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert len(pressed) == 1
    press(cockpit, KEY.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert len(pressed) == 2


def test_what_gets_the_focus_is_scrolled_into_sight(cockpit: CockpitApp, qtbot: QtBot) -> None:
    form = toy_form(cockpit)
    assert form is not None
    first = form.run["algo"].editor
    bar = form.area.verticalScrollBar()
    assert bar is not None
    cockpit.window.resize(1400, 560)
    qtbot.waitUntil(lambda: bar.maximum() > 0)
    bar.setValue(bar.maximum())
    assert first.visibleRegion().isEmpty()
    press(cockpit, KEY.Key_1, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.focusWidget() is first
    qtbot.waitUntil(lambda: not first.visibleRegion().isEmpty())


# ---- the focus is seen -------------------------------------------------------------------------------------------


def luminance(colour: QColor) -> float:
    parts = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in (colour.redF(), colour.greenF(), colour.blueF())
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: QColor, other: QColor) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_list_shows_that_it_has_the_focus(qapp: QApplication, qtbot: QtBot, theme: str) -> None:
    themes = Themes(qapp, theme)
    window = QDialog()
    qtbot.addWidget(window)
    listed, other = QListWidget(), QPushButton("Other")
    listed.addItems(["CleanRL Worker", "Play Worker"])
    listed.setCurrentRow(0)
    layout = QVBoxLayout(window)
    layout.addWidget(listed)
    layout.addWidget(other)
    with qtbot.waitActive(window, timeout=HANG):
        window.show()
        window.activateWindow()
    listed.setFocus()
    focused = listed.grab().toImage()
    other.setFocus()
    plain = listed.grab().toImage()
    accent, row = themes.theme.colour("accent").name(), listed.visualItemRect(listed.item(0))
    edge = row.center().x(), row.bottom()
    assert focused.pixelColor(*edge).name() == accent and plain.pixelColor(*edge).name() != accent
    themes.deleteLater()


def test_the_daemon_is_started_from_the_status_line_by_keys(cockpit: CockpitApp) -> None:
    start = cockpit.window.status_line.start
    start.show()
    visited = []
    for _ in range(80):
        press(cockpit, KEY.Key_Tab)
        visited.append(QApplication.focusWidget())
    assert start in visited
    start.hide()
    press(cockpit, KEY.Key_Tab)
    assert QApplication.focusWidget() is not start


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("kind", ["primary", "danger", "flat", "segment", ""])
def test_a_button_with_the_focus_has_a_ring_of_three_to_one(
    qapp: QApplication, qtbot: QtBot, theme: str, kind: str
) -> None:
    themes = Themes(qapp, theme)
    window = QDialog()
    qtbot.addWidget(window)
    button, other = QPushButton("Launch"), QPushButton("Other")
    for one in (button, other):
        one.setProperty("kind", kind)
        one.setCheckable(kind == "segment")
        one.setChecked(kind == "segment")
    layout = QVBoxLayout(window)
    layout.addWidget(button)
    layout.addWidget(other)
    with qtbot.waitActive(window, timeout=HANG):
        window.show()
        window.activateWindow()
    button.setFocus()
    focused, plain = column(window, button), column(window, other)
    outside, ring, inside = focused[0], focused[4], focused[8]
    assert min(contrast(ring, outside), contrast(ring, inside)) >= 3.0, (ring.name(), outside.name(), inside.name())
    assert focused[4:6] == [ring, ring], "two pixels"
    assert plain[4].name() != ring.name()
    themes.deleteLater()


def column(window: QWidget, button: QWidget) -> list[QColor]:
    """The colours from four pixels above a button downwards, beside its text."""
    picture: QImage = window.grab().toImage()
    corner = button.mapTo(window, QPoint(10, 0))
    return [picture.pixelColor(corner.x(), corner.y() + offset) for offset in range(-4, 6)]


# ---- the list of runs --------------------------------------------------------------------------------------------


def click_heading(panel: RunsPanel, column_name: str, qtbot: QtBot) -> None:
    header = panel.list.columns.header
    number = COLUMN_NUMBERS[column_name]
    middle = QPoint(header.sectionViewportPosition(number) + header.sectionSize(number) // 2, header.height() // 2)
    qtbot.mouseClick(header.viewport(), LEFT, Qt.KeyboardModifier.NoModifier, middle)


def test_the_first_click_on_return_puts_the_best_on_top(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    panel = part(app := make_cockpit(parts=RUNS), RunsPanel)
    returns = {1: 10.0, 2: 300.0, 3: None, 4: 25.0}
    app.window.cockpit.runs.take(
        [made(number, headline={} if value is None else {"mean_return": value}) for number, value in returns.items()]
    )
    names = lambda: [panel.table.row_at(place).run.name for place in range(4)]  # noqa: E731
    click_heading(panel, "return", qtbot)
    assert names() == ["run-2", "run-4", "run-1", "run-3"]
    click_heading(panel, "return", qtbot)
    assert names() == ["run-1", "run-4", "run-2", "run-3"]
    click_heading(panel, "name", qtbot)
    assert names() == ["run-1", "run-2", "run-3", "run-4"]


def test_a_new_run_is_scrolled_into_view_and_selected(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=RUNS)
    panel, context = part(app, RunsPanel), app.window.cockpit
    context.runs.take([made(number, state="TERM", outcome="failed") for number in range(300)])
    panel.list.sortByColumn(COLUMN_NUMBERS["name"], Qt.SortOrder.AscendingOrder)

    def filter_by_words() -> None:
        panel.filters.text.setText("run-1")
        qtbot.waitUntil(lambda: panel.table.rowCount() < 300, timeout=HANG)

    def fold() -> None:
        panel.grouping.setCurrentIndex(panel.grouping.findData("algorithm"))
        panel.table.fold("ppo", folded=True)

    hide = (lambda: None, filter_by_words, panel.filters.chips["failed"].click, fold)
    for number, hiding in enumerate(hide, start=1000):
        hiding()
        new = made(number, name=f"zebra-{number}", state="INIT")
        context.runs.take([new])
        context.selection.show([new.run_id])
        index, viewport = panel.table.index_of(new.run_id), panel.list.viewport()
        assert index.isValid() and viewport is not None
        assert viewport.rect().contains(panel.list.visualRect(index).center())
        assert panel.list.selected.isRowSelected(index.row()) and context.selection.ids == [new.run_id]
        panel.list.scrollToTop()


def test_a_run_that_is_looked_at_stays_in_sight_when_its_return_moves_it(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    app = make_cockpit(parts=RUNS)
    panel, context = part(app, RunsPanel), app.window.cockpit
    context.runs.take([made(number, headline={MEAN_RETURN: float(number)}) for number in range(100)])
    panel.list.sortByColumn(COLUMN_NUMBERS["return"], Qt.SortOrder.DescendingOrder)
    new = made(1000, name="zebra")
    context.runs.take([new])
    context.selection.show([new.run_id])
    viewport = panel.list.viewport()
    assert viewport is not None

    def place() -> QRect:
        return panel.list.visualRect(panel.table.index_of(new.run_id))

    def moved_by(value: float) -> None:
        context.runs.take([made(1000, name="zebra", headline={MEAN_RETURN: value})])

    assert viewport.rect().contains(place())
    moved_by(50.5)
    assert 40 < panel.table.index_of(new.run_id).row() < 60 and viewport.rect().contains(place())
    panel.list.scrollToTop()
    moved_by(30.5)
    assert not viewport.rect().intersects(place()), "who looks at other runs goes on to"


def test_home_and_end_go_to_the_first_and_last_run(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=RUNS)
    panel, context = part(app, RunsPanel), app.window.cockpit
    context.runs.take([made(number) for number in range(60)])
    panel.list.setCurrentIndex(panel.table.index(30, 0))
    last = panel.table.row_at(59).run_id
    qtbot.keyClick(panel.list, KEY.Key_End)
    assert context.selection.ids == [last] and panel.list.horizontalScrollBar().value() == 0
    qtbot.keyClick(panel.list, KEY.Key_Home, Qt.KeyboardModifier.ShiftModifier)
    assert len(context.selection.ids) == 60
    qtbot.keyClick(panel.list, KEY.Key_Down)
    qtbot.keyClick(panel.list, KEY.Key_Home)
    assert context.selection.ids == [panel.table.row_at(0).run_id]


def test_escape_leads_back_from_an_empty_trash(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    app = make_cockpit(parts=RUNS)
    panel = part(app, RunsPanel)
    with qtbot.waitActive(app.window, timeout=HANG):
        app.window.activateWindow()
    panel.show_trash()
    panel.trash.empty.button.setFocus()
    qtbot.keyClick(panel.trash.empty.button, KEY.Key_Escape)
    assert panel.pages.currentIndex() == 0


# ---- menus and palette -------------------------------------------------------------------------------------------


def test_no_menu_is_long_and_help_has_a_guide_and_an_about(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    lengths = {name: sum(not entry.isSeparator() for entry in menu.actions()) for name, menu in window._menus.items()}
    assert max(lengths.values()) <= 14 and lengths["View"] <= 10, lengths
    for name, kind in (("guide", GuideWindow), ("about", AboutWindow)):
        for _ in range(2):
            window.cockpit.commands.action(name).trigger()
        (shown,) = window.findChildren(kind)
        assert shown.isVisible() and not shown.isModal()
    (guide,), (about,) = window.findChildren(GuideWindow), window.findChildren(AboutWindow)
    assert "ten minutes in the cockpit" in guide.page.toPlainText() and guide.told.isHidden()
    for fact in ("Version 0.", "Python 3.", "Qt 6.", str(window.cockpit.bridge.paths.root)):
        assert fact in about.facts.text()
    about.copy.click()
    clipboard = QApplication.clipboard()
    assert clipboard is not None and clipboard.text() == about.facts.text()


def test_help_windows_fit_the_screen_and_close_has_the_focus(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    guide, about = GuideWindow(window), AboutWindow(window, window.cockpit.bridge.paths)
    screen = window.screen()
    assert screen is not None
    room = screen.availableGeometry()
    assert guide.width() < room.width() and guide.height() < room.height() - 30
    focused = about.focusWidget()
    assert isinstance(focused, QPushButton) and focused.text().replace("&", "") == "Close"


def test_a_session_that_starts_and_ends_keeps_the_focus_from_the_modes(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    """Early presses of a game's arrow keys switched from Human to Agent."""
    window = make_cockpit(parts=None).window
    panel, stage = window.findChild(PlayPanel), window.findChild(Stage)
    assert stage is not None
    next(iter(window.findChildren(TrainDock))).mode.choose("human")
    with qtbot.waitActive(window, timeout=HANG):
        window.activateWindow()
    panel.start.setFocus()
    panel.desk._set_status("starting")
    assert QApplication.focusWidget() is stage
    for status, following in (("live", panel.stop), ("ending", panel.stop), ("idle", panel.start)):
        panel.desk._set_status(status)  # type: ignore[arg-type]
        if status == "live":
            panel.stop.setFocus()
        assert QApplication.focusWidget() is following, status


def test_the_end_of_a_session_leaves_the_keyboard_with_the_stage(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    panel, stage = window.findChild(PlayPanel), window.findChild(Stage)
    assert stage is not None
    with qtbot.waitActive(window, timeout=HANG):
        window.activateWindow()
    session = LiveSession(panel.desk._cockpit.bridge.paths.root, "01K9ZQ3V7X0000000000000000", panel.desk)
    session.close()
    panel.desk.session_changed.emit(session)
    assert stage.live is not None
    stage.live.setFocus()
    panel.desk.session_changed.emit(None)
    assert QApplication.focusWidget() is stage


def test_who_ends_a_session_reads_of_no_signal(make_cockpit: MakeCockpit) -> None:
    panel = make_cockpit(parts=None).window.findChild(PlayPanel)
    assert panel is not None
    desk, told = panel.desk, list[str]()
    desk.told.connect(lambda sentence, _: told.append(sentence))
    desk.session = LiveSession(desk._cockpit.bridge.paths.root, "01K9ZQ3V7X0000000000000000", desk)
    desk._set_status("ending")
    desk.session.close()
    desk._closed(desk.session, "canceled: the session was ended from the cockpit; killed by signal 15 (SIGTERM)")
    assert told == ["The session ended."]


def test_a_replay_that_is_closed_gives_back_the_focus_and_the_panel(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    window.setMinimumSize(900, 560)
    window.resize(1024, 600)
    qtbot.waitUntil(lambda: window.arrangement.is_narrow)
    replay = next(one for one in window.findChildren(ReplayScreen))
    with qtbot.waitActive(window, timeout=HANG):
        window.activateWindow()
    window.show_part("runs")
    before = QApplication.focusWidget()
    replay._come_forward()
    qtbot.waitUntil(lambda: not window.docks["run"].visibleRegion().isEmpty())
    assert QApplication.focusWidget() is not before
    replay.close()
    assert QApplication.focusWidget() is before
    qtbot.waitUntil(lambda: not window.docks["runs"].visibleRegion().isEmpty())


SYNONYMS = {
    "stop": "run-cancel",
    "kill": "run-cancel",
    "abort": "run-cancel",
    "remove": "run-delete",
    "continue": "run-resume",
    "clone": "run-duplicate",
    "theme": "theme",
    "dark": "theme",
    "restore": "trash",
    "console": "show-log",
    "plots": "show-metrics",
    "manual": "guide",
    "exit": "quit",
    "start": "launch",
}


def test_the_palette_knows_other_words_for_the_same(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    for typed, command in SYNONYMS.items():
        title = window.cockpit.commands.action(command).text()
        best = [finding.text for finding in window.palette_popup.findings(typed)][:4]
        assert any(text.endswith(f"› {title}") for text in best), (typed, best)


def test_the_palette_finds_runs_by_name_and_id_and_goes_there(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    window.cockpit.runs.take([made(number) for number in range(50)])
    window.cockpit.runs.take([made(42, name="wobbly-ppo", env_id="Acrobot-v1")])
    palette = window.palette_popup
    for typed in ("wobbly", "wob", "000042", "Acrobot wobbly"):
        window.cockpit.selection.select([])
        palette.open()
        qtbot.keyClicks(palette.query, typed)
        item = palette.list.currentItem()
        assert item is not None and item.text() == "Go to › wobbly-ppo"
        qtbot.keyClick(palette.query, KEY.Key_Return)
        assert window.cockpit.selection.ids == [f"{42:026d}"] and not palette.isVisible()


def test_the_palette_says_that_it_finds_nothing(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    palette = make_cockpit(parts=None).window.palette_popup
    palette.open()
    qtbot.keyClicks(palette.query, "xyzzyx")
    item = palette.list.item(0)
    assert item is not None and item.text() == "Nothing has these words"
    qtbot.keyClick(palette.query, KEY.Key_Return)
    assert palette.isVisible()


def test_the_palette_finds_workers_and_opens_their_form(
    open_whole: OpenWhole, qtbot: QtBot, daemon: DaemonProcess
) -> None:
    cockpit = open_whole(daemon)
    dock, palette = train_dock(cockpit), cockpit.window.palette_popup
    qtbot.waitUntil(lambda: "cleanrl" in dock.catalog.entries, timeout=HANG)
    for worker in ("cleanrl", "toy"):
        (found,) = (one for one in palette.findings(worker) if one.text.startswith("Train with"))
        found.act()
        assert dock.form is dock.forms[worker]


def test_return_in_the_palette_never_does_the_second_best(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    window = make_cockpit(parts=None).window
    palette = window.palette_popup
    palette.open()
    qtbot.keyClicks(palette.query, "stop")
    best = palette.findings("stop")[0]
    assert best.text == "Run › Cancel…" and not best.usable and best.aside == "Select a run first."
    qtbot.keyClick(palette.query, KEY.Key_Return)
    assert palette.isVisible()
    palette.hide()


def test_titles_come_before_other_words_and_those_before_scattered_letters() -> None:
    assert rank("canc", "Run › Cancel…") == 0 and rank("sto", "Run › Cancel…", "stop kill") == 1
    assert rank("stop", "Run › Cancel…", "stop kill") == rank("stop", "View › Stop the sweep…") == 0
    assert rank("ncel", "Run › Cancel…") == 2 and rank("rcl", "Run › Cancel…") == 4
    assert rank("stop", "Run › Cancel…") is None


def test_the_form_is_the_first_thing_that_tab_reaches(cockpit: CockpitApp) -> None:
    unfocus()
    press(cockpit, KEY.Key_Tab)
    assert train_dock(cockpit).isAncestorOf(QApplication.focusWidget())
