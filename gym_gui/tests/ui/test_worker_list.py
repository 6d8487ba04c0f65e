"""The workers on the screen: the one that is pointed at is the one that is chosen, whatever its choice brings along."""

from __future__ import annotations

from PyQt6.QtCore import QPoint, Qt
from PyQt6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.worker_list import WorkerList
from gym_gui.ui.workers.catalog import WorkerEntry

NAMES = ("cleanrl", "corl", "llm", "play", "spade")


def entries() -> list[WorkerEntry]:
    return [WorkerEntry(name, f"{name} worker", "", "analytics", True, "ready") for name in NAMES]


def test_the_worker_that_is_clicked_stays_chosen_when_its_choice_lists_them_again(qtbot: QtBot) -> None:
    """It does where another page was in front with that worker."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    workers = WorkerList(Themes(app))
    qtbot.addWidget(workers)
    workers.resize(300, 170)
    workers.show_entries(entries(), "cleanrl")
    with qtbot.waitExposed(workers):
        workers.show()
    workers.chosen.connect(lambda chosen: workers.show_entries(entries(), chosen))
    workers.scrollToBottom()
    last = workers.item(len(NAMES) - 1)
    room, viewport = workers.visualItemRect(last), workers.viewport()
    assert viewport is not None and viewport.rect().contains(room.center())
    qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=QPoint(room.center()))
    assert workers.choice == "spade"
    assert [item.data(Qt.ItemDataRole.UserRole) for item in workers.selectedItems()] == ["spade"]
    assert viewport.rect().contains(workers.visualItemRect(workers.currentItem()).center()), "it does not scroll away"


def test_other_workers_are_listed_anew(qtbot: QtBot) -> None:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    workers = WorkerList(Themes(app))
    qtbot.addWidget(workers)
    workers.show_entries(entries(), "play")
    workers.show_entries(entries()[2:], "play")
    assert workers.count() == 3 and workers.choice == "play"
    workers.show_entries(entries(), "gone")
    assert workers.count() == len(NAMES) and workers.choice == "cleanrl"
    workers.show_entries([], "play")
    assert workers.count() == 0 and workers.choice == ""
