"""The Hosts panel: every machine with its health and what it has to give, and below each one what runs there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from PyQt6.QtCore import QPoint, Qt, QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.hosts.book import ANY, HERE, Host
from gym_gui.services.hosts.overview import Health, HostLine, overview
from gym_gui.services.hosts.standing import reached_by
from gym_gui.services.queue_moves import HOST, Moves, Spot, move_runs
from gym_gui.services.run_words import counted, state_word
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.hosts.add_dialog import AddHostDialog
from gym_gui.ui.hosts.desk import HostDesk
from gym_gui.ui.icons import icon
from gym_gui.ui.models.run_rows import resources_text
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.steady_button import SteadyButton
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

_KEY = Qt.ItemDataRole.UserRole
_WIDTHS = (168, 140, 48, 64, 60, 150, 110, 180)
_LOOK_MILLISECONDS, _CATCH_UP_MILLISECONDS = 2_000, 400
_ICONS = {
    Health.GOOD: ("good", "good"),
    Health.IDLE: ("good", "idle"),
    Health.DRAINED: ("pause", "warning"),
    Health.AWAY: ("warning", "bad"),
}
_OF_FINDINGS = {"ok": ("good", "good"), "warn": ("warning", "warning"), "fail": ("bad", "bad")}
_HOST, _RUN, _FINDING = "host", "run", "finding"
_MOST_RUNS = 100
"""Below one host; a thousand rows would hide the other hosts."""
_MENU = "File/Hosts"
_ALSO = "host hosts machine server cluster ssh node remote"


class HostsPanel(QWidget):
    """Selecting a run here selects it everywhere."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self.desk = HostDesk(cockpit, self)
        self.dialog: AddHostDialog | None = None
        tr = self.tr
        self.list = QTreeWidget()
        self.list.setUniformRowHeights(True)
        self.list.setAllColumnsShowFocus(True)
        self.list.setAccessibleName(tr("Hosts"))
        self.list.setHeaderLabels(
            [tr("Host"), tr("Status"), tr("Runs"), tr("CPU"), tr("GPU"), tr("Memory"), tr("Labels"), tr("Reached as")]
        )
        for column, width in enumerate(_WIDTHS):
            self.list.setColumnWidth(column, width)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.buttons: dict[str, QPushButton] = {}
        self._add_commands()
        self._lay_out()
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.list.currentItemChanged.connect(lambda *_: self._offer())
        self.list.itemSelectionChanged.connect(self._select)
        self.list.itemActivated.connect(self._activate)
        self.desk.changed.connect(self._fill)
        cockpit.themes.changed.connect(lambda _: self._fill())
        self._later = QTimer(self)  # runs change many times a second while they train
        self._later.setSingleShot(True)
        self._later.setInterval(_CATCH_UP_MILLISECONDS)
        self._later.timeout.connect(self._fill)
        cockpit.runs.changed.connect(self._runs_changed)
        self._looking = QTimer(self)  # the command line changes the list as well
        self._looking.setInterval(_LOOK_MILLISECONDS)
        self._looking.timeout.connect(self.desk.look)
        self._fill()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.setContentsMargins(10, 6, 10, 0)
        titles = {
            "hosts-add": self.tr("Add a host…"),
            "hosts-check": self.tr("Check"),
            "hosts-drain": self.tr("Drain"),
            "hosts-remove": self.tr("Remove"),
        }
        for name, title in titles.items():
            button = self.buttons[name] = QPushButton(title) if name == "hosts-add" else SteadyButton(title)
            button.setObjectName(name)
            button.clicked.connect(partial(self._act, name))
            line.addWidget(button)
        self.buttons["hosts-add"].setProperty("kind", "primary")
        self.buttons["hosts-add"].setToolTip(self._cockpit.commands.action("hosts-add").toolTip())
        self.told.setProperty("role", "muted")
        line.addWidget(self.told, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(line)
        layout.addWidget(self.list, 1)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._looking.start()
        self.desk.look()
        self._fill()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._looking.stop()
        super().hideEvent(event)

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        (self.list if self.desk.hosts else self.buttons["hosts-add"]).setFocus(reason)

    # ---- commands ------------------------------------------------------------------------------------------------

    def _add_commands(self) -> None:
        tr, add = self.tr, self._cockpit.commands.add
        for name, title, text in (
            ("hosts-add", tr("Add a host…"), tr("Let runs go to another machine that ssh reaches")),
            (
                "hosts-check",
                tr("Check the host"),
                tr("Look at SSH, Python, disk, clock and GPUs there; no run notices"),
            ),
            ("hosts-drain", tr("Drain the host"), tr("Start no further run there, or start runs there again")),
            ("hosts-remove", tr("Remove the host"), tr("Take it out of the list; its files stay there")),
        ):
            add(Command(name, title, _MENU, "", text, _ALSO), partial(self._act, name))

    def _act(self, name: str, *_: object) -> None:
        if name == "hosts-add":
            self.add()
            return
        host = self.current
        if host is None or (name == "hosts-remove" and not self._usable(name)):
            return
        if name == "hosts-check":
            self.desk.check(host)
            self._expand(host.name)
        elif name == "hosts-drain":
            self.desk.set_drained(host, not host.drained)
        else:
            self.desk.remove(host)

    def _usable(self, name: str) -> bool:
        button = self.buttons[name]
        return button.usable if isinstance(button, SteadyButton) else True

    def add(self) -> None:
        """Ask for a host."""
        self.dialog = AddHostDialog(self.desk, self._cockpit.themes, self.window() or self)
        self.dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.dialog.open()

    def _offer(self) -> None:
        """What applies to the host that is selected; of the rest, why not."""
        host = self.current
        why = "" if host is not None else self.tr("Select a host first.")
        whys = {"hosts-check": why, "hosts-drain": why, "hosts-remove": why}
        if host is not None:
            whys["hosts-remove"] = self.desk.why_not_removable(host.name)
            if host.name in self.desk.checking:
                whys["hosts-check"] = self.tr("{host} is being looked at.").format(host=host.name)
        for name, reason in whys.items():
            self._cockpit.commands.enable(name, not reason, reason)
            button = self.buttons[name]
            assert isinstance(button, SteadyButton)
            button.set_usable(not reason)
            button.setToolTip(self._cockpit.commands.action(name).toolTip())
        drained = host is not None and host.drained
        self.buttons["hosts-drain"].setText(self.tr("Start runs again") if drained else self.tr("Drain"))

    def _show_menu(self, at: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        self.add_moves(menu)
        if self.current is None and menu.isEmpty():
            return
        for name in ("hosts-check", "hosts-drain", "hosts-remove"):
            menu.addAction(self._cockpit.commands.action(name))
        viewport = self.list.viewport()
        assert viewport is not None
        menu.popup(viewport.mapToGlobal(at))

    def add_moves(self, menu: QMenu) -> None:
        """Other hosts for the runs that are selected and wait."""
        chosen = [item.data(0, _KEY) for item in self.list.selectedItems()]
        waiting = [name for kind, name in chosen if kind == _RUN and self._waits(name)]
        inside = menu.addMenu(self.tr("Move to")) if waiting else None
        if inside is None:
            return
        places = {
            HERE: self.tr("this machine"),
            ANY: self.tr("any host"),
            **{name: name for name in self.desk.hosts or {}},
        }
        for place, title in places.items():
            action = inside.addAction(title)
            assert action is not None
            action.triggered.connect(partial(self._move, waiting, place))

    def _waits(self, run_id: str) -> bool:
        """Also one whose host takes nobody now, which is why it may go to another one."""
        run = self._cockpit.runs.get(run_id)
        return run is not None and run.state == RunState.INIT

    def _move(self, run_ids: Sequence[str], place: str, *_: object) -> None:
        def done(moves: Moves) -> None:
            self._cockpit.runs.take(moves.done)
            for sentence in dict.fromkeys(map(str, moves.refused)):
                self._cockpit.notify(Notice(sentence, "error"))

        failed = lambda sentence: self._cockpit.notify(Notice(sentence, "error"))  # noqa: E731
        spot = Spot(HOST, place)
        self._cockpit.bridge.call(lambda client: move_runs(client, run_ids, spot), done, failed, owner=self)

    @property
    def current(self) -> Host | None:
        """The host that is selected, or that what is selected belongs to."""
        item = self.list.currentItem()
        while item is not None and (above := item.parent()) is not None:
            item = above
        name = str(item.data(0, _KEY)[1]) if item is not None else ""
        return (self.desk.hosts or {}).get(name)

    def _select(self) -> None:
        chosen = [item.data(0, _KEY) for item in self.list.selectedItems()]
        runs = [name for kind, name in chosen if kind == _RUN]
        if runs:
            self._cockpit.selection.select(runs)

    def _activate(self, item: QTreeWidgetItem, _: int) -> None:
        kind, name = item.data(0, _KEY)
        if kind == _RUN:
            self._cockpit.selection.show([name])
            self._cockpit.commands.action("show-metrics").trigger()

    # ---- filling -------------------------------------------------------------------------------------------------

    def _runs_changed(self, *_: object) -> None:
        if self.isVisible() and not self._later.isActive():
            self._later.start()

    def _fill(self) -> None:
        lines = overview(self.desk.hosts or {}, self.desk.health, self._cockpit.runs)
        if [line.name for line in lines] != [str(item.data(0, _KEY)[1]) for item in self._items()]:
            self._make_items(lines)
        for item, line in zip(self._items(), lines, strict=True):
            self._show_line(item, line)
        self._tell()
        self._offer()

    def _make_items(self, lines: Sequence[HostLine]) -> None:
        """The hosts are others now: made again, with what was unfolded and selected."""
        before = self.list.currentItem()
        kept = before.data(0, _KEY) if before is not None else None
        folded = {str(item.data(0, _KEY)[1]) for item in self._items() if not item.isExpanded()}
        self.list.blockSignals(True)
        self.list.clear()
        for line in lines:
            item = QTreeWidgetItem()
            item.setData(0, _KEY, (_HOST, line.name))
            self.list.addTopLevelItem(item)
            item.setExpanded(line.name not in folded)
            if (_HOST, line.name) == kept:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)

    def _show_line(self, item: QTreeWidgetItem, line: HostLine) -> None:
        name = line.name or self.tr("this machine")
        checking = line.name in self.desk.checking
        status = self.tr("being looked at…") if checking else line.status
        reached = reached_by(line.host) if line.host is not None else self.tr("here")
        live = str(line.live) if line.live else ""
        for column, text in enumerate([name, status, live, line.cpus, line.gpus, line.memory, line.labels, reached]):
            item.setText(column, text)
            item.setToolTip(column, text)
        what, colour = _ICONS[line.health]
        item.setIcon(0, icon(what, self._cockpit.themes.theme.colour(colour)))
        below = [*self._runs_below(line), *self._findings_below(line)]
        known = [item.child(number) for number in range(item.childCount())]
        if [one.data(0, _KEY) for one in known if one is not None] != [key for key, _, _ in below]:
            self._make_children(item, below)
        for number, (_, texts, look) in enumerate(below):
            child = item.child(number)
            assert child is not None
            for column, text in enumerate(texts):
                child.setText(column, text)
                child.setToolTip(column, text)
            if look is not None:
                child.setIcon(0, icon(look[0], self._cockpit.themes.theme.colour(look[1])))

    def _make_children(self, item: QTreeWidgetItem, below: Sequence[_Below]) -> None:
        is_open = item.isExpanded() or not item.childCount()
        before = self.list.currentItem()
        kept = before.data(0, _KEY) if before is not None and before.parent() is item else None
        self.list.blockSignals(True)
        item.takeChildren()
        for key, _, _ in below:
            child = QTreeWidgetItem()
            child.setData(0, _KEY, key)
            item.addChild(child)
            child.setFirstColumnSpanned(key[0] == _FINDING)  # a sentence
            if key == kept:
                self.list.setCurrentItem(child)
        if kept is not None and self.list.currentItem() is None:
            self.list.setCurrentItem(item)
        item.setExpanded(is_open)
        self.list.blockSignals(False)

    def _runs_below(self, line: HostLine) -> Iterator[_Below]:
        for run in line.runs[:_MOST_RUNS]:
            yield (_RUN, run.run_id), [run.name, self._word(run), "", *_held(run)], None
        if more := len(line.runs) - _MOST_RUNS:
            yield from (
                [((_FINDING, "more"), [self.tr("and {count} more").format(count=more)], None)] if more > 0 else []
            )

    def _findings_below(self, line: HostLine) -> Iterator[_Below]:
        for found in self.desk.findings.get(line.name, ()):
            yield (_FINDING, found.what), [f"{found.what}: {found.sentence}"], _OF_FINDINGS[found.status]

    def _word(self, run: pb.Run) -> str:
        return self.tr("host unreachable: {why}").format(why=run.host_away) if run.host_away else state_word(run)

    def _expand(self, name: str) -> None:
        for item in self._items():
            if item.data(0, _KEY) == (_HOST, name):
                item.setExpanded(True)

    def _items(self) -> list[QTreeWidgetItem]:
        places = map(self.list.topLevelItem, range(self.list.topLevelItemCount()))
        return [item for item in places if item is not None]

    def _tell(self) -> None:
        """A problem, else how many there are; where there is none, what a host is good for."""
        if self.desk.problem:
            tell(self.told, self.desk.problem, "error")
        elif self.desk.hosts:
            tell(self.told, counted(len(self.desk.hosts), "host"), "muted")
        else:
            text = self.tr("Add a machine that ssh reaches: forms and --host send runs there.")
            tell(self.told, text, "muted")


_Below = tuple[tuple[str, str], list[str], tuple[str, str] | None]
"""A row below a host: its key, its texts, and its icon with the colour of it."""


def _held(run: pb.Run) -> list[str]:
    """What it holds, in the columns of what there is."""
    held = run.reserved
    return [str(held.cpus or ""), str(held.gpus or ""), resources_text(pb.Resources(memory_mb=held.memory_mb))]
