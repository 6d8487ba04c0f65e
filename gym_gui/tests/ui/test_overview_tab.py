"""The Overview tab: what is known of a run is found, followed and copied."""

from __future__ import annotations

from typing import Any

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QGuiApplication
from PyQt6.QtWidgets import QTreeWidgetItem
from pytestqt.qtbot import QtBot

from gym_gui.services.run_overview import Fact
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_index import HANG, STAGE, labelled
from gym_gui.ui.panels.overview_tab import OverviewTab

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
    assert headings(tab)[:2] == ["Results", "Settings that were given"] and "Lineage" in headings(tab)
    rate = line(tab, "learning_rate")
    assert rate is not None and rate.text(1) == "0.1"
    child = line(tab, "was gone on with by")
    assert child is not None and child.text(1).startswith("run-2")
    tab.list.setCurrentItem(child)
    tab.list.setFocus()
    tab.list.itemActivated.emit(child, 0)
    assert context.selection.current == CHILD


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
