"""Putting the queue in another order from the cockpit: by mouse, by keys and by commands, with a way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from PyQt6.QtCore import QModelIndex, QPoint, QRect, Qt
from PyQt6.QtWidgets import QAbstractItemView, QApplication
from pytestqt.qtbot import QtBot

from gym_gui.tests.support.daemon_process import DaemonProcess
from gym_gui.tests.ui.conftest import MakeCockpit
from gym_gui.tests.ui.test_run_rows import made
from gym_gui.tests.ui.test_runs_panel import HANG, PARTS, notices, panel_of
from gym_gui.ui.app import CockpitApp
from gym_gui.ui.panels.capacity_panel import CapacityPanel
from gym_gui.ui.parts import Part, Place
from mosaic_protocol.proto import trainer_pb2 as pb

NAMES = ("run-a", "run-b", "run-c", "run-d")
BOTH = [*PARTS, Part("capacity", "Capacity", Place.RIGHT, CapacityPanel)]


@pytest.fixture
def waiting(make_daemon: Callable[..., DaemonProcess], make_cockpit: MakeCockpit, qtbot: QtBot) -> CockpitApp:
    """A cockpit whose list is in the order of the queue, on a daemon whose CPU is taken."""
    daemon = make_daemon(cpus=1).start()
    daemon.wait_state(daemon.submit(name="blocker", total_timesteps=10**7), "EXEC")
    for name in NAMES:
        daemon.submit(name=name, total_timesteps=10**7)
    app = make_cockpit(daemon, BOTH)
    app.window.resize(1280, 800)
    qtbot.waitUntil(lambda: len(app.window.cockpit.runs) == 5, timeout=HANG)
    panel = panel_of(app)
    app.window.resizeDocks([app.window.docks["runs"]], [500], Qt.Orientation.Vertical)
    qtbot.waitUntil(lambda: panel.list.height() > 300, timeout=HANG)  # all rows are in sight
    panel.list.columns.sort_by("queue")
    return app


def id_of(app: CockpitApp, name: str) -> str:
    return next(run.run_id for run in app.window.cockpit.runs if run.name == name)


def line(app: CockpitApp) -> list[str]:
    """As the list shows it."""
    panel = panel_of(app)
    rows = [panel.table.row_at(place) for place in range(panel.table.rowCount())]
    return [row.run.name for row in rows if row is not None and row.run.state == "INIT"]


def becomes(app: CockpitApp, qtbot: QtBot, *names: str) -> None:
    qtbot.waitUntil(lambda: line(app) == list(names), timeout=HANG)
    queue = capacity_of(app).queue
    qtbot.waitUntil(lambda: [capacity_of(app)._waiting(n).name for n in range(queue.count())] == list(names))


def capacity_of(app: CockpitApp) -> CapacityPanel:
    panel = app.window.docks["capacity"].widget()
    assert isinstance(panel, CapacityPanel)
    return panel


def select(app: CockpitApp, *names: str) -> None:
    app.window.cockpit.selection.select([id_of(app, name) for name in names])


def do(app: CockpitApp, name: str) -> None:
    action = app.window.cockpit.commands.action(name)
    assert action.isEnabled(), action.toolTip()
    action.trigger()


def rect_of(app: CockpitApp, name: str) -> QRect:
    panel = panel_of(app)
    return panel.list.visualRect(panel.table.index_of(id_of(app, name)))


def drag(qtbot: QtBot, view: QAbstractItemView, start: QPoint, way: Sequence[QPoint], *, release: bool = True) -> None:
    viewport = view.viewport()
    assert viewport is not None
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=start)
    for point in way:
        qtbot.mouseMove(viewport, point)
        QApplication.processEvents()
    if release:
        qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=way[-1])


def upper(rect: QRect) -> QPoint:
    return QPoint(40, rect.top() + 4)


def lower(rect: QRect) -> QPoint:
    return QPoint(40, rect.bottom() - 4)


# ---- by mouse ----------------------------------------------------------------------------------------------------


def test_a_run_that_is_dragged_stands_where_it_is_dropped_and_goes_back(waiting: CockpitApp, qtbot: QtBot) -> None:
    becomes(waiting, qtbot, *NAMES)
    panel = panel_of(waiting)
    first, last = rect_of(waiting, "run-a"), rect_of(waiting, "run-d")
    drag(qtbot, panel.list, last.center(), [upper(first)] * 2, release=False)
    mark = panel.queue_drag.mark
    assert mark.isVisible() and abs(mark.geometry().center().y() - first.top()) <= 2
    drag(qtbot, panel.list, last.center(), [upper(first)] * 2)
    assert not mark.isVisible()
    becomes(waiting, qtbot, "run-d", "run-a", "run-b", "run-c")
    qtbot.waitUntil(lambda: [notice.text for notice in notices(waiting)] == ["run-d is 1st in line."], timeout=HANG)
    undo = notices(waiting)[0].act
    assert undo is not None
    undo()
    becomes(waiting, qtbot, *NAMES)


def test_several_selected_runs_are_dragged_together_and_keep_their_order(waiting: CockpitApp, qtbot: QtBot) -> None:
    becomes(waiting, qtbot, *NAMES)
    select(waiting, "run-b", "run-a")
    panel = panel_of(waiting)
    held, target = rect_of(waiting, "run-b").center(), rect_of(waiting, "run-c")
    drag(qtbot, panel.list, held, [lower(target)] * 2)
    becomes(waiting, qtbot, "run-c", "run-a", "run-b", "run-d")
    assert len(waiting.window.cockpit.selection.ids) == 2
    drag(qtbot, panel.list, rect_of(waiting, "run-b").center(), [rect_of(waiting, "run-b").center() + QPoint(1, 0)])
    assert waiting.window.cockpit.selection.ids == [id_of(waiting, "run-b")], "a click selects one alone"


def test_a_drag_that_leads_nowhere_changes_nothing(waiting: CockpitApp, qtbot: QtBot) -> None:
    becomes(waiting, qtbot, *NAMES)
    panel = panel_of(waiting)
    a, b, blocker = (rect_of(waiting, name) for name in ("run-a", "run-b", "blocker"))
    revisions = {run.name: run.revision for run in waiting.window.cockpit.runs if run.name in NAMES}
    drag(qtbot, panel.list, a.center(), [upper(b)] * 2)  # where it is
    drag(qtbot, panel.list, a.center(), [lower(blocker)] * 2)  # beside a run that does not wait
    drag(qtbot, panel.list, b.center(), [a.center(), upper(a)], release=False)
    assert panel.queue_drag.mark.isVisible()
    qtbot.keyClick(panel.list, Qt.Key.Key_Escape)
    assert not panel.queue_drag.mark.isVisible()
    viewport = panel.list.viewport()
    assert viewport is not None
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=upper(a))
    drag(qtbot, panel.list, blocker.center(), [upper(a), upper(b)])  # a live run is not dragged: rows are selected
    select(waiting, "run-d")
    do(waiting, "queue-up")  # answered after whatever would have been asked for before
    becomes(waiting, qtbot, "run-a", "run-b", "run-d", "run-c")
    now = {run.name: run.revision for run in waiting.window.cockpit.runs if run.name in NAMES}
    assert {name for name in NAMES if now[name] != revisions[name]} == {"run-d"}


def test_in_a_list_of_another_order_a_run_is_dropped_on_the_one_before_which_it_starts(
    waiting: CockpitApp, qtbot: QtBot
) -> None:
    becomes(waiting, qtbot, *NAMES)
    panel = panel_of(waiting)
    panel.list.columns.sort_by("name")
    a, d = rect_of(waiting, "run-a"), rect_of(waiting, "run-d")
    drag(qtbot, panel.list, d.center(), [lower(a)] * 2, release=False)
    assert panel.queue_drag.mark.geometry().height() == a.height()
    drag(qtbot, panel.list, d.center(), [lower(a)] * 2)
    panel.list.columns.sort_by("queue")
    becomes(waiting, qtbot, "run-d", "run-a", "run-b", "run-c")


def test_the_queue_of_the_capacity_panel_is_dragged_too(waiting: CockpitApp, qtbot: QtBot) -> None:
    becomes(waiting, qtbot, *NAMES)
    queue = capacity_of(waiting).queue

    def row(number: int) -> QRect:
        model = queue.model()
        assert model is not None
        index: QModelIndex = model.index(number, 0)
        return queue.visualRect(index)

    drag(qtbot, queue, row(0).center(), [row(0).center() + QPoint(0, 15), lower(row(2))])
    becomes(waiting, qtbot, "run-b", "run-c", "run-a", "run-d")


# ---- by keys and commands ----------------------------------------------------------------------------------------


def test_keys_move_the_selected_run_and_commands_say_what_does_not_apply(waiting: CockpitApp, qtbot: QtBot) -> None:
    becomes(waiting, qtbot, *NAMES)
    commands = waiting.window.cockpit.commands
    panel = panel_of(waiting)
    waiting.window.activateWindow()
    panel.list.setFocus()
    select(waiting, "run-c")
    qtbot.keyClick(panel.list, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    becomes(waiting, qtbot, "run-a", "run-c", "run-b", "run-d")
    assert waiting.window.cockpit.selection.ids == [id_of(waiting, "run-c")], "the run stays selected"
    qtbot.keyClick(panel.list, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    becomes(waiting, qtbot, *NAMES)
    do(waiting, "queue-front")
    becomes(waiting, qtbot, "run-c", "run-a", "run-b", "run-d")
    qtbot.waitUntil(lambda: not commands.action("queue-up").isEnabled(), timeout=HANG)
    assert "It is the first in line." in commands.action("queue-front").toolTip()
    do(waiting, "queue-end")
    becomes(waiting, qtbot, "run-a", "run-b", "run-d", "run-c")
    qtbot.waitUntil(lambda: not commands.action("queue-down").isEnabled(), timeout=HANG)
    assert "It is the last in line." in commands.action("queue-end").toolTip()
    menu = panel.run_menu()
    assert "Queue" in [action.text() for action in menu.actions()]
    menu.close()
    select(waiting, "blocker")
    assert "Not for blocker: it has started." in commands.action("queue-up").toolTip()
    menu = panel.run_menu()
    assert "Queue" not in [action.text() for action in menu.actions()]
    menu.close()


def test_a_run_that_starts_in_that_moment_is_refused_with_a_sentence(waiting: CockpitApp, qtbot: QtBot) -> None:
    """The cockpit has not heard of it yet, so it still offers the move."""
    becomes(waiting, qtbot, *NAMES)
    select(waiting, "run-d")
    stale = next(run for run in waiting.window.cockpit.runs if run.name == "blocker")
    before = pb.Run()
    before.CopyFrom(stale)
    before.state, before.queue_key = "INIT", "800000000000"
    waiting.window.cockpit.runs.take([before])
    select(waiting, "blocker")
    do(waiting, "queue-end")
    qtbot.waitUntil(lambda: bool(notices(waiting)), timeout=HANG)
    assert "is not in the queue any more: it has started" in notices(waiting)[0].text


def test_without_a_daemon_nothing_is_offered(make_cockpit: MakeCockpit) -> None:
    app = make_cockpit(None, PARTS)
    app.window.cockpit.runs.take([made(number, state="INIT", queue_key=f"80000000000{number}") for number in (1, 2)])
    action = app.window.cockpit.commands.action("queue-up")
    assert "Select a queued run first." in action.toolTip()
    app.window.cockpit.selection.select([made(2).run_id])
    assert (action.isEnabled(), "The trainer daemon is away." in action.toolTip()) == (False, True)
