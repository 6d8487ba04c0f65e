"""The Arenas panel: all arenas, newest first, and a line that begins one."""

from __future__ import annotations

import time

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.arena.entries import entry_words
from gym_gui.services.arena.errors import ArenaError
from gym_gui.services.arena.model import Arena
from gym_gui.services.arena.seeds import shown_seeds
from gym_gui.services.run_words import ago
from gym_gui.ui.arena.desk import ArenaDesk
from gym_gui.ui.styling import tell
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.hinted_line import HintedLine

_NAME = Qt.ItemDataRole.UserRole
_WIDTHS = (220, 160, 150, 320, 110)
_LOOK_MILLISECONDS = 5_000

_EXAMPLE = ("FrozenLake-v1", "0-99", "optimal random")
"""Names, which are the same in every language."""


class ArenasPanel(QWidget):
    """``wanted(str)``: the name of the arena that is to be on the stage."""

    wanted = pyqtSignal(str)

    def __init__(self, desk: ArenaDesk) -> None:
        super().__init__()
        self._desk = desk
        tr = self.tr
        self.list = QTreeWidget()
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAllColumnsShowFocus(True)
        self.list.setAccessibleName(tr("Arenas"))
        self.list.setHeaderLabels([tr("Arena"), tr("Environment"), tr("Seeds"), tr("Entries"), tr("Begun")])
        for column, width in enumerate(_WIDTHS):
            self.list.setColumnWidth(column, width)
        self.empty = EmptyPage(
            tr("No arena yet"),
            tr(
                "In an arena networks, Q-tables, people, chance and the optimal policy play the same seeds, and every "
                "episode is verified by replay. The line above begins one."
            ),
            tr("Chance against the optimum on FrozenLake"),
        )
        self.env_id, self.seeds = HintedLine([tr("Gymnasium id")], "FrozenLake-v1"), QLineEdit("0-99")
        whole = tr("optimal random RUN steps:RUN")
        self.entries = HintedLine([whole, tr("optimal random RUN"), tr("optimal random")])
        for field, name, help_text, width in (
            (self.env_id, tr("Environment"), tr("The environment of all entries"), 108),
            (self.seeds, tr("Seeds"), tr("An episode for each: 0-99 or 3,5,8"), 56),
            (
                self.entries,
                tr("Entries"),
                tr('Who plays: random, optimal, a run with a checkpoint, steps:RUN; "The net"=RUN gives a name'),
                110,
            ),
        ):
            field.setAccessibleName(name)
            field.setToolTip(help_text)
            field.setMinimumWidth(width)
            field.returnPressed.connect(self._begin)
        self.begin = QPushButton(tr("Begin"))
        self.begin.setProperty("kind", "primary")
        self.begin.setToolTip(tr("Let all entries play these seeds; the arena that is there already goes on"))
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(self.list)
        self._lay_out()
        self.begin.clicked.connect(self._begin)
        self.empty.acted.connect(self._example)
        self.list.itemActivated.connect(lambda item, _: self.wanted.emit(str(item.data(0, _NAME))))
        self.list.itemClicked.connect(lambda item, _: self.wanted.emit(str(item.data(0, _NAME))))
        desk.listed.connect(self._fill)
        desk.progressed.connect(self._tell)
        desk.told.connect(lambda sentence: tell(self.told, sentence, "error"))
        self._later = QTimer(self)  # arenas of the command line come and grow, and all of them get older
        self._later.setInterval(_LOOK_MILLISECONDS)
        self._later.timeout.connect(desk.look_for_arenas)

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.setContentsMargins(10, 6, 10, 0)
        for text, field, stretch in (
            (self.tr("On"), self.env_id, 2),
            (self.tr("Seeds"), self.seeds, 1),
            (self.tr("Entries"), self.entries, 4),
        ):
            label = QLabel(text)
            label.setProperty("role", "muted")
            line.addWidget(label)
            line.addWidget(field, stretch)
        line.addWidget(self.begin)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(line)
        self.told.setContentsMargins(10, 0, 10, 0)
        self.told.hide()
        layout.addWidget(self.told)
        layout.addWidget(self.pages, 1)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._later.start()
        self._desk.look_for_arenas()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._later.stop()
        super().hideEvent(event)

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        place = self.list if self.pages.currentWidget() is self.list else self.entries
        place.setFocus(reason)

    def _example(self) -> None:
        for field, words in zip((self.env_id, self.seeds, self.entries), _EXAMPLE, strict=True):
            field.setText(words)
        self._begin()

    def _begin(self) -> None:
        self.told.hide()
        try:
            words = entry_words(self.entries.text())
        except ArenaError as error:
            tell(self.told, str(error), "error")
            self.entries.setFocus()
            return
        if not words:
            tell(self.told, self.tr("Say who plays: optimal random, the name of a run, or steps:RUN."), "error")
            self.told.show()
            self.entries.setFocus()
            return
        self._desk.begin(self.env_id.text().strip(), self.seeds.text(), words)

    def _tell(self) -> None:
        busy = bool(self._desk.playing) or self._desk.is_preparing
        self.begin.setEnabled(not busy)
        if busy:
            tell(self.told, self.tr("Playing…") if self._desk.playing else self.tr("Asking the environment…"), "muted")
        self.told.setVisible(busy or bool(self.told.text()))
        if not busy and self.told.text() in (self.tr("Playing…"), self.tr("Asking the environment…")):
            self.told.setText("")
            self.told.hide()

    def _fill(self, found: list[Arena]) -> None:
        """Rows of the same arenas are told again where they stand: nobody who goes through them loses the place."""
        names = [arena.name for arena in found]
        if names != [str(item.data(0, _NAME)) for item in self._items()]:
            chosen = self.list.currentItem()
            kept = self._desk.name or (str(chosen.data(0, _NAME)) if chosen is not None else "")
            self.list.clear()
            for name in names:
                item = QTreeWidgetItem()
                item.setData(0, _NAME, name)
                self.list.addTopLevelItem(item)
                if name == kept:
                    self.list.setCurrentItem(item)
        now = time.time()
        for item, arena in zip(self._items(), found, strict=True):
            for column, text in enumerate(_row(arena, now)):
                item.setText(column, text)
        self.pages.setCurrentWidget(self.list if found else self.empty)

    def _items(self) -> list[QTreeWidgetItem]:
        places = map(self.list.topLevelItem, range(self.list.topLevelItemCount()))
        return [item for item in places if item is not None]


def _row(arena: Arena, now: float) -> list[str]:
    entries = ", ".join(one.label for one in arena.entries)
    return [arena.name, arena.env_id, shown_seeds(arena.seeds), entries, ago(arena.created, now)]
