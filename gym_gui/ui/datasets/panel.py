"""The Datasets panel: every dataset with its badge, where it came from, and what can be done with it."""

from __future__ import annotations

import time

from PyQt6.QtCore import QModelIndex, QRectF, QSize, Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QKeyEvent, QPainter, QShowEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.datasets.words import BADGE_COLOURS, BADGE_MEANINGS, MISSING, number, provenance
from gym_gui.services.run_words import size
from gym_gui.ui.context import Cockpit
from gym_gui.ui.datasets.shelf import DatasetShelf
from gym_gui.ui.datasets.work_strip import WorkStrip
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.giving_stack import GivingStack
from gym_gui.ui.widgets.status_badge import badge_width, paint_badge
from mosaic_protocol.datasets import DatasetEntry, Integrity
from mosaic_protocol.plain_text import one_line

MAKING = ("datasets-import", "datasets-from-run", "datasets-collect", "datasets-download", "datasets-merge")
DOING = (
    *("datasets-train", "datasets-verify", "datasets-references", "datasets-split"),
    *("datasets-export", "datasets-minari", "datasets-delete"),
)
_SIGNS = {
    "datasets-import": "import",
    "datasets-from-run": "replay",
    "datasets-collect": "worker",
    "datasets-download": "download",
    "datasets-merge": "merge",
    "datasets-train": "run",
    "datasets-references": "evaluate",
    "datasets-split": "split",
    "datasets-verify": "good",
    "datasets-export": "export",
    "datasets-minari": "copy",
    "datasets-delete": "delete",
}
_LOOK_MILLISECONDS = 4000
_NAME, _BADGE = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1
_BADGE_COLUMN = 1
_ROW_HEIGHT = 26
"""Pills of two rows do not touch."""
_NUMBERS = (3, 4, 5, 6)


class DatasetsPanel(QWidget):
    """``chosen(str)``: the name of the dataset that somebody wants to see, or "" when none is left."""

    chosen = pyqtSignal(str)

    def __init__(self, cockpit: Cockpit, shelf: DatasetShelf) -> None:
        super().__init__()
        self._cockpit, self._shelf = cockpit, shelf
        tr = self.tr
        self.list = _DatasetList(cockpit.themes)
        titles = [tr("Name"), tr("Data"), tr("Environment"), tr("Rows"), tr("Episodes"), tr("Return"), tr("Size")]
        self.list.setHeaderLabels([*titles, tr("Made"), tr("From")])
        self.list.setAccessibleName(tr("Datasets"))
        head = self.list.headerItem()
        assert head is not None
        for column in _NUMBERS:
            head.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.empty = EmptyPage()
        self.empty.acted.connect(lambda: cockpit.commands.action(self._first_command).trigger())
        short = {
            "datasets-import": tr("Import a file…"),
            "datasets-from-run": tr("From a run…"),
            "datasets-collect": tr("Collect…"),
            "datasets-download": tr("Download…"),
            "datasets-merge": tr("Merge…"),
            "datasets-references": tr("References…"),
            "datasets-split": tr("Split…"),
            "datasets-train": tr("Train on it"),
            "datasets-verify": tr("Verify"),
            "datasets-export": tr("Export…"),
            "datasets-minari": tr("To Minari…"),
            "datasets-delete": tr("Delete…"),
        }
        self.making = ActionButtons(cockpit.commands, MAKING, short, themes=cockpit.themes, signs=_SIGNS)
        self.doing = ActionButtons(cockpit.commands, DOING, short, themes=cockpit.themes, signs=_SIGNS)
        self.work = WorkStrip(shelf)
        self.ask_bar = AskBar()
        self.pages = GivingStack()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(self.list)
        self._lay_out()
        self._later = QTimer(self)
        self._later.setInterval(_LOOK_MILLISECONDS)
        self._later.timeout.connect(shelf.look)
        shelf.changed.connect(self._fill)
        cockpit.runs.changed.connect(lambda *_: None if shelf.entries else self._fill())  # what to begin with
        self.list.itemSelectionChanged.connect(lambda: self.chosen.emit(self.selected))
        self.list.itemClicked.connect(lambda *_: self.chosen.emit(self.selected))
        self.list.remove_asked.connect(lambda: cockpit.commands.action("datasets-delete").trigger())
        self.ask_bar.closed.connect(self.list.setFocus)
        self._fill()

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setContentsMargins(10, 6, 10, 6)
        top.setSpacing(12)
        top.addWidget(self.making, 5)
        top.addWidget(self.doing, 7)
        beneath = QVBoxLayout()
        beneath.setContentsMargins(10, 0, 10, 4)
        beneath.addWidget(self.work)
        beneath.addWidget(self.ask_bar)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addLayout(beneath)
        layout.addWidget(self.pages, 1)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._later.start()
        self._shelf.look()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._later.stop()
        super().hideEvent(event)

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        (self.list if self.pages.currentWidget() is self.list else self.empty.button).setFocus(reason)

    @property
    def _first_command(self) -> str:
        """Of an empty list: what was played or trained is nearer than a file of others."""
        return "datasets-from-run" if len(self._cockpit.runs) else "datasets-import"

    @property
    def selected(self) -> str:
        items = self.list.selectedItems()
        return str(items[0].data(0, _NAME)) if items else ""

    def choose(self, name: str) -> None:
        """Select a dataset by its name."""
        for place in range(self.list.topLevelItemCount()):
            item = self.list.topLevelItem(place)
            if item is not None and item.data(0, _NAME) == name:
                self.list.setCurrentItem(item)

    def _fill(self) -> None:
        entries = self._shelf.entries
        kept = self.selected
        self.list.blockSignals(True)
        self.list.clear()
        for entry in (entries or {}).values():
            item = _item(entry)
            self.list.addTopLevelItem(item)
            if entry.name == kept:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        tr = self.tr
        if self._shelf.problem:
            self.empty.tell(tr("The datasets cannot be read"), self._shelf.problem)
        elif entries is None:
            self.empty.tell(tr("Looking for datasets"), tr("They are read from the data root."))
        else:
            text = tr(
                "A dataset holds whole episodes to learn from: of what you played or a run recorded, of policies that "
                "play, or of a file of D4RL's or Minari's."
            )
            first = tr("From a run…") if self._first_command == "datasets-from-run" else tr("Import a file…")
            self.empty.tell(tr("No dataset yet"), text, first)
        self.pages.setCurrentWidget(self.list if entries else self.empty)
        if kept and self.selected != kept:
            self.chosen.emit("")


def _item(entry: DatasetEntry) -> QTreeWidgetItem:
    told = entry.found
    if told is None:
        cells = [one_line(entry.name), str(entry.badge), *([MISSING] * 6), one_line(entry.problem)]
    else:
        made = time.strftime("%d %b %Y, %H:%M", time.localtime(told.created_at)) if told.created_at else MISSING
        mean, env_id = number(told.returns.get("mean")), one_line(told.env_id or MISSING)
        counts = [f"{told.steps:,}", f"{told.episodes:,}", mean, size(told.bytes)]
        cells = [entry.name, str(entry.badge), env_id, *counts, made, provenance(entry)]
    item = QTreeWidgetItem(cells)
    item.setData(0, _NAME, entry.name)
    doubts = told.doubts if told is not None else []
    item.setData(_BADGE_COLUMN, _BADGE, entry.badge)
    meaning = BADGE_MEANINGS[entry.badge]
    item.setToolTip(_BADGE_COLUMN, "\n".join([meaning, *(f"doubtful: {one_line(one)}" for one in doubts)]))
    item.setToolTip(8, cells[8])
    for column in _NUMBERS:
        item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    if doubts:
        item.setText(_BADGE_COLUMN, f"{entry.badge}, doubtful")
    return item


class _Badges(QStyledItemDelegate):
    """Paints what is known of the data as a pill."""

    def __init__(self, themes: Themes, parent: QTreeWidget) -> None:
        super().__init__(parent)
        self._themes = themes

    def initStyleOption(self, option: QStyleOptionViewItem | None, index: QModelIndex) -> None:
        super().initStyleOption(option, index)
        if option is not None:
            option.text = ""  # the pill has the word

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        super().paint(painter, option, index)
        badge = index.data(_BADGE)
        if painter is not None and isinstance(badge, Integrity):
            room = QRectF(option.rect).adjusted(4, 0, -2, 0)
            colour, word = BADGE_COLOURS[badge], str(index.data())
            paint_badge(painter, room, word, self._themes.theme, option.font, colour_name=colour)

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        hint = super().sizeHint(option, index)
        hint.setWidth(int(badge_width(str(index.data()), option.font)) + 10)
        hint.setHeight(max(hint.height(), _ROW_HEIGHT))
        return hint


class _DatasetList(QTreeWidget):
    """Del asks to delete."""

    remove_asked = pyqtSignal()

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setAllColumnsShowFocus(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setItemDelegateForColumn(_BADGE_COLUMN, _Badges(themes, self))
        header = self.header()
        assert header is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is not None and event.key() == Qt.Key.Key_Delete:
            self.remove_asked.emit()
        else:
            super().keyPressEvent(event)
