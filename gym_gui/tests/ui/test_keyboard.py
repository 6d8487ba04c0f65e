"""The cockpit without a mouse: where Tab and F6 go, where the focus is seen, and what Ctrl+K finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtGui import QColor, QImage
from PyQt6.QtTest import QTest
from PyQt6.QtWidgets import QApplication, QDialog, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.whole_window import HANG, OpenWhole, open_whole, part, toy_form, train_dock
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.help_windows import AboutWindow, GuideWindow
from gym_gui.ui.models.run_rows import COLUMN_NUMBERS
from gym_gui.ui.panels.runs_panel import RunsPanel
from gym_gui.ui.parts import Part, Place
from gym_gui.ui.tab_order import stops
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.command_palette import rank

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
    press(cockpit, KEY.Key_Tab)
    press(cockpit, KEY.Key_Tab)  # past the heading of the next part
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


# ---- menus and palette -------------------------------------------------------------------------------------------


def test_no_menu_is_long_and_help_has_a_guide_and_an_about(make_cockpit: MakeCockpit) -> None:
    window = make_cockpit(parts=None).window
    lengths = {name: len(menu.actions()) for name, menu in window._menus.items()}
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
    assert rank("canc", "Run › Cancel…") == 0 and rank("stop", "Run › Cancel…", "stop kill") == 1
    assert rank("ncel", "Run › Cancel…") == 2 and rank("rcl", "Run › Cancel…") == 4
    assert rank("stop", "Run › Cancel…") is None


def test_the_form_is_the_first_thing_that_tab_reaches(cockpit: CockpitApp) -> None:
    unfocus()
    press(cockpit, KEY.Key_Tab)
    assert train_dock(cockpit).isAncestorOf(QApplication.focusWidget())
