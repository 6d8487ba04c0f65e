"""The trash: which runs were deleted, until when they can be restored, and how to remove them for good."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PyQt6.QtCore import Qt, QTimer, pyqtSignal
from PyQt6.QtGui import QHideEvent, QKeyEvent, QShowEvent
from PyQt6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import short_id, state_word, time_in_trash
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import steps_text
from gym_gui.ui.run_actions import RunActions
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.giving_stack import GivingStack
from mosaic_protocol.proto import trainer_pb2 as pb

_RUN_ID = Qt.ItemDataRole.UserRole
_TICK_MILLISECONDS = 30_000


class TrashPage(QWidget):
    """``left()`` when the person wants back to the runs. Reads the trash of the cockpit's book of runs."""

    left = pyqtSignal()

    def __init__(self, cockpit: Cockpit, actions: RunActions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit, self._actions = cockpit, actions
        self.list = _DeletedRuns()
        self.list.setHeaderLabels(
            [
                self.tr("Name"),
                self.tr("Can be restored until"),
                self.tr("Ended as"),
                self.tr("Steps"),
                self.tr("Algorithm"),
                self.tr("Environment"),
            ]
        )
        self.list.setAccessibleName(self.tr("Deleted runs"))
        self.empty = EmptyPage(
            self.tr("The trash is empty"),
            self.tr("Runs that you delete come here first, and can be restored from here for a while."),
            self.tr("Back to the runs"),
        )
        self.restore = QPushButton(self.tr("Restore"))
        self.restore.setProperty("kind", "primary")
        self.remove = QPushButton(self.tr("Delete for good…"))
        self.remove.setProperty("kind", "danger")
        self.back = QPushButton(self.tr("Back to the runs"))
        self.back.setToolTip(self.tr("Show the runs again; nothing in the trash changes (Esc)"))
        self.ask_bar = AskBar()
        self._lay_out()
        self._connect()
        self._ticker = QTimer(self)
        self._ticker.setInterval(_TICK_MILLISECONDS)
        self._ticker.timeout.connect(self._fill)
        self._listed: list[str] = []
        self.setFocusProxy(self.list)

    def _lay_out(self) -> None:
        title = QLabel(self.tr("Trash"))
        title.setProperty("role", "title")
        title.setToolTip(self.tr("Deleted runs, the newest first. Their files are kept until the time shown."))
        top = QHBoxLayout()
        top.setContentsMargins(10, 6, 10, 6)
        top.setSpacing(8)
        top.addWidget(title)
        top.addStretch(1)
        for button in (self.restore, self.remove, self.back):
            top.addWidget(button)
        asked = QVBoxLayout()
        asked.setContentsMargins(10, 0, 10, 4)
        asked.addWidget(self.ask_bar)
        self.pages = GivingStack()
        self.pages.addWidget(self.list)
        self.pages.addWidget(self.empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(top)
        layout.addLayout(asked)
        layout.addWidget(self.pages, 1)

    def _connect(self) -> None:
        self._cockpit.runs.changed.connect(lambda _: self._follow())
        self._cockpit.bridge.connection_changed.connect(lambda _: self._offer())
        self.list.itemSelectionChanged.connect(self._offer)
        self.list.restore_asked.connect(self.restore_selected)
        self.list.remove_asked.connect(self.ask_remove)
        self.list.left.connect(self.left)
        self.empty.acted.connect(self.left)
        self.restore.clicked.connect(self.restore_selected)
        self.remove.clicked.connect(self.ask_remove)
        self.back.clicked.connect(self.left)
        self.ask_bar.closed.connect(self.list.setFocus)

    # ---- showing -------------------------------------------------------------------------------------------------

    def deleted(self) -> list[pb.Run]:
        """The runs of the trash, the last that was deleted first; those whose time is over are going already."""
        now = time.time()
        there = [run for run in self._cockpit.runs.trash.values() if run.restorable_until > now]
        return sorted(there, key=lambda run: (-run.restorable_until, run.run_id))

    def _follow(self) -> None:
        """Runs that train change all the time; the list is made again only when the trash did."""
        if self.isVisible() and [run.run_id for run in self.deleted()] != self._listed:
            self._fill()

    def _fill(self) -> None:
        runs, chosen = self.deleted(), {run.run_id for run in self.selected()}
        self._listed = [run.run_id for run in runs]
        self.list.blockSignals(True)
        self.list.clear()
        for run, name in zip(runs, _told_apart(runs), strict=True):
            item = QTreeWidgetItem([name, _until(run), state_word(run), steps_text(run), run.algo, run.env_id])
            item.setData(0, _RUN_ID, run.run_id)
            item.setToolTip(0, f"{run.name}  ·  {run.run_id}\n{run.reason}")
            self.list.addTopLevelItem(item)
            item.setSelected(run.run_id in chosen)
        if runs and not self.list.selectedItems():
            self.list.setCurrentItem(self.list.topLevelItem(0))
        self.list.blockSignals(False)
        self.pages.setCurrentWidget(self.list if runs else self.empty)
        self._offer()

    def selected(self) -> list[pb.Run]:
        ids = [str(item.data(0, _RUN_ID)) for item in self.list.selectedItems()]
        return [run for run in map(self._cockpit.runs.trash.get, ids) if run is not None]

    def _offer(self) -> None:
        connected, some = self._cockpit.bridge.connection.connected, bool(self.selected())
        why_not = "" if connected else self.tr("The trainer daemon is away.")
        why_not = why_not or ("" if some else self.tr("Select a deleted run first."))
        helps = {
            self.restore: self.tr("Put the selected runs back into the list, with everything they had (Return)"),
            self.remove: self.tr("Remove files and numbers of the selected runs; this cannot be undone (Del)"),
        }
        for button, text in helps.items():
            button.setEnabled(not why_not)
            button.setToolTip(f"{text}\n{why_not}".strip())

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._ticker.start()
        self._fill()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._ticker.stop()
        super().hideEvent(event)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Escape leads back from the buttons too, and from an empty trash."""
        if event is not None and event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

    # ---- acting --------------------------------------------------------------------------------------------------

    def restore_selected(self) -> None:
        runs = self.selected()
        if runs:
            self._actions.restore(runs)

    def ask_remove(self) -> None:
        """Name the runs and ask: nothing brings them back."""
        runs = self.selected()
        if not runs:
            return
        one = len(runs) == 1
        self.ask_bar.ask(
            self.tr("Delete this run for good? Its checkpoints, logs and numbers go with it.")
            if one
            else self.tr("Delete {count} runs for good? Their checkpoints, logs and numbers go with them.").format(
                count=len(runs)
            ),
            _told_apart(runs),
            (self.tr("Delete for good"), self.tr("Keep it") if one else self.tr("Keep them")),
            self.tr("Removes everything the run owns; this cannot be undone"),
            lambda: self._actions.purge(runs),
        )


class _DeletedRuns(QTreeWidget):
    """Return restores, Del asks to remove for good, Esc leaves."""

    restore_asked = pyqtSignal()
    remove_asked = pyqtSignal()
    left = pyqtSignal()

    def __init__(self) -> None:
        super().__init__()
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        header = self.header()
        assert header is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        assert event is not None
        asked = {
            Qt.Key.Key_Return: self.restore_asked,
            Qt.Key.Key_Enter: self.restore_asked,
            Qt.Key.Key_Delete: self.remove_asked,
            Qt.Key.Key_Escape: self.left,
        }.get(Qt.Key(event.key()))
        if asked is not None and event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        ):
            asked.emit()
        else:
            super().keyPressEvent(event)


def _until(run: pb.Run) -> str:
    """``Tue 24 Nov, 14:05 (6d 23h left)``: a week has two Tuesdays."""
    when = time.strftime("%a %d %b, %H:%M", time.localtime(run.restorable_until))
    return f"{when} ({time_in_trash(run)})"


def _told_apart(runs: Sequence[pb.Run]) -> list[str]:
    """Their names, with the end of the id where two of them are called the same."""
    names = [run.name for run in runs]
    return [run.name if names.count(run.name) == 1 else f"{run.name} ({short_id(run.run_id)})" for run in runs]
