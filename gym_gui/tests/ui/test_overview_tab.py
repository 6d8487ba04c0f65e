"""The Overview tab: what is known of a run is found, followed and copied."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import QPoint, QSize, Qt
from PyQt6.QtGui import QGuiApplication
from PyQt6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from gym_gui.services.run_load import Course
from gym_gui.services.run_overview import Fact
from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_index import HANG, STAGE, labelled
from gym_gui.ui.panels.overview_tab import OverviewTab
from gym_gui.ui.run_labelling import notes_of
from gym_gui.ui.widgets.value_chips import FILLED, OUTLINED, chip_of
from mosaic_protocol.run_config import MAX_TAGS

PARENT, CHILD = f"{1:026d}", f"{2:026d}"
DEFAULTS = [Fact("defaults", f"default_{number}", "1") for number in range(20)]


def opened(make_cockpit: MakeCockpit, qtbot: QtBot) -> tuple[Any, OverviewTab]:
    """The tab of a run that another goes on from."""
    app = make_cockpit(None, STAGE)
    context = app.window.cockpit
    app.bridge._timer.start()
    context.runs.take([labelled(1), labelled(2, parent=PARENT), labelled(3)])
    tab = OverviewTab(context, PARENT)
    qtbot.addWidget(tab)
    tab.show()
    qtbot.waitUntil(lambda: bool(tab.facts), timeout=HANG)
    return context, tab


def line(tab: OverviewTab, name: str) -> QTreeWidgetItem | None:
    found = tab.list.findItems(name, Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive)
    return found[0] if found else None


def headings(tab: OverviewTab) -> list[str]:
    heads = [tab.list.topLevelItem(number) for number in range(tab.list.topLevelItemCount())]
    return [head.text(0) for head in heads if head is not None]


def test_given_settings_come_first_and_kin_can_be_gone_to(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    context, tab = opened(make_cockpit, qtbot)
    assert headings(tab)[:2] == ["Results", "Settings that were changed"] and "Lineage" in headings(tab)
    rate = line(tab, "learning_rate")
    assert rate is not None and rate.text(1) == "0.1"
    child = line(tab, "was gone on with by")
    assert child is not None and child.text(1).startswith("run-2")
    tab.list.setCurrentItem(child)
    tab.list.setFocus()
    tab.list.itemActivated.emit(child, 0)
    assert context.selection.current == CHILD


def test_names_are_not_cut_off_beside_room(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    _, tab = opened(make_cockpit, qtbot)
    tab._take([Fact("results", "last episode length", "500")])
    wanted, header = tab.list.sizeHintForColumn(0), tab.list.header()
    assert header is not None and 150 < wanted <= header.sectionSize(0)


def test_the_notes_are_whole_in_a_low_tab(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    """As high as a window of 1024x600 leaves it, and narrower."""
    _, tab = opened(make_cockpit, qtbot)
    notes = tab.labels.notes
    for width in (480, 680):
        tab.resize(width, 210)
        qtbot.waitUntil(lambda width=width: tab.size() == QSize(width, 210))
        qtbot.wait(20)
        frame = notes.rect().translated(notes.mapTo(tab, QPoint()))
        assert frame.bottom() < tab.search.y() or frame.right() < tab.search.x(), "it ends before the search"
        assert notes.visibleRegion().boundingRect().height() == notes.height() >= notes.minimumHeight()


def test_a_search_unfolds_what_it_finds_and_news_leave_the_rest_as_it_was(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    context, tab = opened(make_cockpit, qtbot)
    tab._take([*tab.facts, *DEFAULTS])
    (folded,) = [head for head in headings(tab) if head.endswith("· 20")]
    head = line(tab, folded)
    assert head is not None and not head.isExpanded()
    qtbot.keyClicks(tab.search, "default_1")
    found = line(tab, "default_1")
    above = found.parent() if found is not None else None
    assert above is not None and above.isExpanded()
    assert line(tab, "learning_rate") is None
    tab.search.clear()
    head = line(tab, folded)
    assert head is not None and not head.isExpanded()
    head.setExpanded(True)
    context.runs.take([labelled(4, parent=PARENT)])
    qtbot.waitUntil(lambda: "run-4" in " ".join(fact.text for fact in tab.facts), timeout=HANG)
    tab._take([*tab.facts, *DEFAULTS])
    head = line(tab, folded)
    assert head is not None and head.isExpanded(), "who unfolded it wants to see it"
    tab.close_tab()


def test_what_is_shown_is_copied(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    _, tab = opened(make_cockpit, qtbot)
    qtbot.keyClicks(tab.search, "learning 0.1")
    tab.list.setFocus()
    qtbot.keyClick(tab.list, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    clipboard = QGuiApplication.clipboard()
    assert clipboard is not None and clipboard.text() == "learning_rate\t0.1\n"


def test_changed_settings_are_filled_and_defaults_outlined(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    _, tab = opened(make_cockpit, qtbot)
    tab._take([*tab.facts, *DEFAULTS])
    changed, default = line(tab, "learning_rate"), line(tab, "default_1")
    assert changed is not None and default is not None
    assert (chip_of(changed, 1), chip_of(default, 1)) == (FILLED, OUTLINED)


def test_name_tags_and_notes_are_changed_in_place_and_undone(
    make_cockpit: MakeCockpit, daemon: DaemonProcess, qtbot: QtBot
) -> None:
    """By keyboard alone; what the daemon refuses is said and shown no longer."""
    run_id = daemon.submit(name="first", total_timesteps=5)
    daemon.wait_over(run_id)
    app = make_cockpit(daemon, STAGE)
    context = app.window.cockpit
    qtbot.waitUntil(lambda: context.runs.get(run_id) is not None, timeout=HANG)
    tab = OverviewTab(context, run_id)
    qtbot.addWidget(tab)
    tab.show()
    qtbot.waitExposed(tab)
    labels, client = tab.labels, daemon.client

    def kept() -> tuple[str, list[str], str]:
        run = client.run(run_id)
        return run.name, list(run.tags), notes_of(run)

    labels.name.setFocus()
    labels.name.selectAll()
    qtbot.keyClicks(labels.name, "second")
    qtbot.keyClick(labels.name, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: kept()[0] == "second", timeout=HANG)
    labels.new_tag.setFocus()
    qtbot.keyClicks(labels.new_tag, "paper, fig 3,paper")
    qtbot.keyClick(labels.new_tag, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: list(labels.chips) == ["paper", "fig 3"], timeout=HANG)
    qtbot.keyClick(labels.chips["paper"], Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: list(labels.chips) == ["fig 3"], timeout=HANG)
    labels.notes.setFocus()
    qtbot.keyClicks(labels.notes, "it works")
    qtbot.keyClick(labels.notes, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: kept() == ("second", ["fig 3"], "it works"), timeout=HANG)
    undo = context.commands.action("undo-labels")
    for expected in (
        ("second", ["fig 3"], ""),
        ("second", ["fig 3", "paper"], ""),
        ("second", [], ""),
        ("first", [], ""),
    ):
        qtbot.waitUntil(undo.isEnabled, timeout=HANG)
        undo.trigger()
        qtbot.waitUntil(lambda expected=expected: kept() == expected, timeout=HANG)
    qtbot.waitUntil(lambda: not undo.isEnabled(), timeout=HANG)
    too_many = ",".join(f"t{number}" for number in range(MAX_TAGS + 1))
    labels.new_tag.setText(too_many)
    qtbot.keyClick(labels.new_tag, Qt.Key.Key_Return)
    told = app.window._snackbar
    qtbot.waitUntil(
        lambda: any("Not changed" in one.text for one in (told.current, *told._waiting) if one), timeout=HANG
    )
    assert kept() == ("first", [], "") and not labels.chips


def test_what_somebody_types_survives_news_and_escape_brings_back_what_was_there(
    make_cockpit: MakeCockpit, qtbot: QtBot
) -> None:
    context, tab = opened(make_cockpit, qtbot)
    tab.labels.name.setFocus()
    tab.labels.name.setText("half a na")
    context.runs.take([labelled(1, last_step=77)])
    if tab.labels.name.hasFocus():  # a platform without windows that are active has no focus
        assert tab.labels.name.text() == "half a na"
    qtbot.keyClick(tab.labels.name, Qt.Key.Key_Escape)
    assert tab.labels.name.text() == "run-1"
    assert list(tab.labels.chips) == ["odd"]


def test_where_it_is_low_and_wide_facts_stand_beside_the_labels(make_cockpit: MakeCockpit, qtbot: QtBot) -> None:
    """Below them one line of the facts was in sight in a window of 1024x600."""
    _, tab = opened(make_cockpit, qtbot)
    tab.load.show_courses([Course("CPU", [(0.0, 1.0), (1.0, 2.0)], "2 %", "2 %")])
    tab.resize(690, 215)
    qtbot.waitUntil(lambda: tab.list.x() > tab.labels.geometry().right(), timeout=HANG)
    assert tab.list.height() > 130, "five lines"
    assert tab.load.isVisible(), "there is room for it below the notes"
    tab.resize(400, 215)
    qtbot.waitUntil(lambda: tab.list.y() > tab.labels.geometry().bottom(), timeout=HANG)
    assert not tab.load.isVisible()
    tab.resize(690, 600)
    qtbot.waitUntil(lambda: tab.load.isVisible() and tab.list.y() > tab.load.geometry().bottom(), timeout=HANG)
