"""The Sweeps panel: all sweeps, newest first; of the one that is open its trials."""

from __future__ import annotations

import time

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QStackedWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import ago, counted, quantity
from gym_gui.services.sweeps.axes import filter_text
from gym_gui.services.sweeps.insight import worth
from gym_gui.services.sweeps.model import decode_sweep, decode_trial
from gym_gui.ui.context import Cockpit
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.sweeps.trial_table import TrialList
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.proto import trainer_pb2 as pb

_REFERENCE = Qt.ItemDataRole.UserRole


class SweepsPanel(QWidget):
    """``wanted(str)``: the id of the sweep that is to be on the stage, "" for none. ``train_wanted()``: there is no
    sweep, and somebody wants to know how to start one."""

    wanted = pyqtSignal(str)
    train_wanted = pyqtSignal()

    def __init__(self, cockpit: Cockpit, desk: SweepDesk) -> None:
        super().__init__()
        self._cockpit, self._desk = cockpit, desk
        self._focus_before: QWidget | None = None
        """Who had the keyboard when it was wanted here, while the sweeps are still looked for."""
        self._is_wanted = False
        self.list = _SweepList()
        tr = self.tr
        self.list.setHeaderLabels([tr("Sweep"), tr("State"), tr("Trials"), tr("Best"), tr("Searched"), tr("Started")])
        self.list.setAccessibleName(tr("Sweeps"))
        self.empty = EmptyPage()
        self.trials = TrialList(desk, cockpit.themes)
        self.pages = QStackedWidget()
        self._trials_page = self._make_trials_page()
        for page in (self.empty, self.list, self._trials_page):
            self.pages.addWidget(page)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)
        self._connect()
        self._arrange()

    def _make_trials_page(self) -> QWidget:
        self.back = QPushButton(self.tr("‹ All sweeps"))
        self.back.setProperty("kind", "flat")
        self.back.setToolTip(self.tr("Show the list of sweeps and give the stage back (Esc); the sweep goes on"))
        self.told = ElidedLabel()
        self.told.setProperty("role", "muted")
        self.on_stage = QPushButton(self.tr("Show on the stage"))
        self.on_stage.setToolTip(self.tr("Show this sweep on the stage again, with its charts"))
        self.clear = QPushButton(self.tr("Clear the filter"))
        self.clear.setToolTip(self.tr("Show all trials again"))
        bar = QHBoxLayout()
        bar.setContentsMargins(10, 4, 10, 4)
        bar.addWidget(self.back)
        bar.addWidget(self.told)
        bar.addStretch(1)
        bar.addWidget(self.clear)
        bar.addWidget(self.on_stage)
        page = QWidget()
        inside = QVBoxLayout(page)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(0)
        inside.addLayout(bar)
        inside.addWidget(self.trials, 1)
        return page

    def _connect(self) -> None:
        desk = self._desk
        desk.watch(self.list, lists=True)
        desk.watch(self.empty, lists=True)
        desk.watch(self._trials_page)
        desk.listed.connect(self._fill)
        desk.opened.connect(self._arrange)
        desk.changed.connect(self._tell)
        desk.filtered.connect(self._tell)
        self.trials.chosen.connect(desk.choose)
        self.trials.left.connect(lambda: self.wanted.emit(""))
        self.back.clicked.connect(lambda: self.wanted.emit(""))
        self.on_stage.clicked.connect(lambda: self.wanted.emit(desk.reference))
        self.clear.clicked.connect(desk.clear_filter)
        self.list.itemActivated.connect(lambda item, _: self.wanted.emit(str(item.data(0, _REFERENCE))))
        self.list.itemClicked.connect(lambda item, _: self.wanted.emit(str(item.data(0, _REFERENCE))))
        self.empty.acted.connect(self.train_wanted)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._desk.look()

    def setFocus(self, reason: Qt.FocusReason = Qt.FocusReason.OtherFocusReason) -> None:
        page = self.pages.currentWidget()
        place = self.trials if page is self._trials_page else self.list if page is self.list else self.empty.button
        self._is_wanted, self._focus_before = self._desk.listing is None, QApplication.focusWidget()
        place.setFocus(reason)

    def _focus_what_came(self) -> None:
        """The keyboard was wanted here before there was anything to give it to; nobody wants it elsewhere since."""
        if self._is_wanted and self._desk.listing is not None:
            holder = QApplication.focusWidget()
            if holder is None or holder is self._focus_before or self.isAncestorOf(holder):
                self.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self._is_wanted, self._focus_before = False, None

    # ---- what is shown -------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        focused, before = QApplication.focusWidget(), self.pages.currentWidget()
        was_inside = focused is not None and self.isAncestorOf(focused)
        if self._desk.reference:
            self.pages.setCurrentWidget(self._trials_page)
        else:
            self.pages.setCurrentWidget(self.list if self._desk.listing else self.empty)
        if was_inside and self.pages.currentWidget() is not before:
            self.setFocus(Qt.FocusReason.OtherFocusReason)  # not to whatever comes first in the other page

        if self._desk.listing is None:
            text = self.tr("They are listed as soon as the trainer daemon answers.")
            self.empty.tell(self.tr("Looking for sweeps"), text)
        else:
            text = self.tr(
                "A sweep searches settings with many runs. Switch on “Search settings” in the train form, or write the "
                "ranges into a file and run `mosaic sweep ppo --env-id CartPole-v1 --space sweep.toml`."
            )
            self.empty.tell(self.tr("No sweep yet"), text, self.tr("Open the train form"))
        self._tell()
        self._focus_what_came()

    def _tell(self) -> None:
        picture = self._desk.picture
        self.clear.setVisible(bool(self._desk.ranges))
        if picture is None:
            self.told.setText("")
            return
        shown, count = self.trials.table.rowCount(), len(picture.trials)
        if self._desk.ranges:
            told = self.tr("{name}: {shown} of {all}, {filter}").format(
                name=picture.sweep.name,
                shown=f"{shown:,}",
                all=counted(count, "trial"),
                filter=filter_text(picture.axes, self._desk.ranges),
            )
        else:
            told = f"{picture.sweep.name}: {counted(count, 'trial')}"
        self.told.setText(told)

    def offer_stage(self, offered: bool) -> None:
        """Whether the sweep has left the stage, and can be shown there again."""
        self.on_stage.setVisible(offered)

    def _fill(self, sweeps: list[pb.Sweep]) -> None:
        chosen = self.list.currentItem()
        kept = str(chosen.data(0, _REFERENCE)) if chosen is not None else ""
        self.list.clear()
        now = time.time()
        for message in sweeps:
            item = QTreeWidgetItem(_row(message, now))
            item.setData(0, _REFERENCE, decode_sweep(message.document).sweep_id)
            self.list.addTopLevelItem(item)
            if item.data(0, _REFERENCE) == kept or (not kept and self.list.topLevelItemCount() == 1):
                self.list.setCurrentItem(item)  # the newest unless another was chosen: Return opens it
        self._arrange()


def _row(message: pb.Sweep, now: float) -> list[str]:
    sweep = decode_sweep(message.document)
    value = worth(decode_trial(message.best)) if message.best else None
    begun = sum(message.trials.values())
    return [
        sweep.name,
        str(sweep.state),
        f"{begun:,} of {sweep.budget:,}",
        "–" if value is None else quantity(value),
        ", ".join(sweep.spec.space),
        ago(sweep.created_at, now),
    ]


class _SweepList(QTreeWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setRootIsDecorated(False)
        self.setUniformRowHeights(True)
        self.setAllColumnsShowFocus(True)
        header = self.header()
        assert header is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.setStretchLastSection(False)
        self.setColumnCount(6)
        for column, width in enumerate((220, 100, 100, 90, 260, 110)):
            header.resizeSection(column, width)
