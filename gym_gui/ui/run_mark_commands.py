"""Pinning, hiding and colouring the selected runs, as commands."""

from __future__ import annotations

from PyQt6.QtCore import QObject
from PyQt6.QtGui import QIcon
from PyQt6.QtWidgets import QMenu

from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.run_marks import COLOURS, RunMarks
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.value_chips import dot

_MENU = "View/Runs"


class RunMarkCommands(QObject):
    """Belongs to the list whose table it tells what is pinned and hidden."""

    def __init__(self, cockpit: Cockpit, table: RunTable) -> None:
        super().__init__(table)
        self._cockpit, self._table = cockpit, table
        self.marks = RunMarks.of(cockpit.bridge, cockpit.preferences)
        tr, add = self.tr, cockpit.commands.add
        on_top = tr("Keep the selected runs at the top of the list, whatever it is sorted by")
        add(Command("pin-runs", tr("Pin or unpin"), _MENU, "Ctrl+Shift+B", on_top, "top favourite star"), self.pin)
        out = tr("Take the selected runs out of the list without deleting them")
        add(Command("hide-runs", tr("Hide from the list"), _MENU, "Ctrl+Shift+U", out, "archive away"), self.hide)
        also = tr("Show hidden runs among the others, to take them back with Hide from the list")
        self.seen = add(
            Command("show-hidden-runs", tr("Show hidden runs"), _MENU, "", also), self._follow, checkable=True
        )
        self._told: tuple[Notice, frozenset[str]] | None = None
        self.marks.changed.connect(self._follow)
        self.marks.changed.connect(self._withdraw_if_shown)
        cockpit.selection.changed.connect(lambda _: self._offer())
        self._follow()
        self._offer()

    def _offer(self) -> None:
        some = bool(self._cockpit.selection.ids)
        for name in ("pin-runs", "hide-runs"):
            self._cockpit.commands.enable(name, some, "" if some else self.tr("Select a run first."))

    def _follow(self) -> None:
        hidden = frozenset() if self.seen.isChecked() else self.marks.hidden
        self._table.show(pinned=self.marks.pinned, hidden=hidden)
        if len(self._table.order):
            last = self._table.index(len(self._table.order) - 1, 0)
            self._table.dataChanged.emit(self._table.index(0, 0), last)

    def pin(self) -> None:
        """All of them, unless all are pinned already."""
        ids = self._cockpit.selection.ids
        self.marks.pin(ids, on=not self.marks.pinned.issuperset(ids))

    def hide(self) -> None:
        ids = self._cockpit.selection.ids
        on = not self.marks.hidden.issuperset(ids)
        self.marks.hide(ids, on)
        if on:
            if not self.seen.isChecked():
                self._cockpit.selection.select([])
            text = self.tr("1 run is hidden.") if len(ids) == 1 else self.tr("{count} runs are hidden.")
            undo = lambda: self.marks.hide(ids, on=False)  # noqa: E731
            self._told = Notice(text.format(count=len(ids)), action=self.tr("Undo"), act=undo), frozenset(ids)
            self._cockpit.notify(self._told[0])

    def _withdraw_if_shown(self) -> None:
        """A notice that runs are hidden goes with the first of them that is taken back."""
        if self._told is not None and not self._told[1] <= self.marks.hidden:
            notice, self._told = self._told[0], None
            self._cockpit.withdraw(notice)

    def add_to(self, menu: QMenu) -> None:
        """At the end of a menu of the selected runs."""
        menu.addSeparator()
        for name in ("pin-runs", "hide-runs"):
            menu.addAction(self._cockpit.commands.action(name))
        colours = menu.addMenu(self.tr("Colour"))
        assert colours is not None
        ids, theme = self._cockpit.selection.ids, self._cockpit.themes.theme
        for number in range(COLOURS):
            action = colours.addAction(
                QIcon(dot(theme.curve(number))), self.tr("Colour {number}").format(number=number + 1)
            )
            assert action is not None
            action.triggered.connect(lambda *_, number=number: self.marks.paint(ids, number))
        action = colours.addAction(self.tr("By itself"))
        assert action is not None
        action.triggered.connect(lambda *_: self.marks.paint(ids, None))
