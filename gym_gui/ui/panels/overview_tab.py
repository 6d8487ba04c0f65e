"""The Overview tab: everything that is known of one run, with what was changed first, to be searched and copied; its
name, tags and notes to be changed."""

from __future__ import annotations

import time

from PyQt6.QtCore import Qt, QUrl
from PyQt6.QtGui import QDesktopServices, QGuiApplication, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import (
    QBoxLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_load import Course, load_of
from gym_gui.services.run_overview import SECTIONS, Fact, SectionName, found_in, overview_of
from gym_gui.services.run_words import is_over
from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.copyable_tree import CopyableTree
from gym_gui.ui.widgets.label_editor import LabelEditor
from gym_gui.ui.widgets.load_card import LoadCard
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.value_chips import FILLED, OUTLINED, ValueChips, set_chip

_FOLDED: tuple[SectionName, ...] = ("defaults", "environment")
"""Sections of many lines that few look for."""
_NAME_WIDTH, _MOST_NAME_WIDTH = 150, 200
_LEAST_HEIGHT, _LOW_HEIGHT, _ROOMY_HEIGHT = 210, 280, 420
_LEAST_LIST = 44
_AROUND = 20
_WIDE = 600
"""Where it is low and this wide, facts stand beside the labels: below them two lines would be in sight."""
_LOAD_SECONDS = 5.0
_FOR_GOOD = float("inf")
_CHIPS: dict[SectionName, str] = {"changed": FILLED, "defaults": OUTLINED}
_FACT = Qt.ItemDataRole.UserRole


class OverviewTab(QWidget):
    """Reads beside the GUI, and only while it can be seen. Return or a double click on a run goes there, on a folder
    opens it."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit, self.run_id = cockpit, run_id
        self._is_reading = self._is_stale = False
        self._folded = set(_FOLDED)
        self._drawn: object = None
        self.facts: list[Fact] = []
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Find a setting or a fact"))
        self.search.setAccessibleName(self.search.placeholderText())
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(lambda _: self._draw())
        self.copy = QPushButton(self.tr("Copy"))
        self.copy.setToolTip(self.tr("Put the lines on the clipboard, as spreadsheets take them (Ctrl+C)"))
        self.copy.clicked.connect(self._copy)
        self.list = CopyableTree(self._copy)
        self.list.setAccessibleName(self.tr("What is known of the run"))
        self.list.setItemDelegate(ValueChips(cockpit.themes, self.list))
        self.list.setColumnCount(2)
        self.list.setMinimumHeight(_LEAST_LIST)
        self.list.setHeaderHidden(True)
        self.list.itemActivated.connect(lambda item, _: self._go(item))
        self.list.itemCollapsed.connect(lambda item: self._note_folded(item, folded=True))
        self.list.itemExpanded.connect(lambda item: self._note_folded(item, folded=False))
        header = self.list.header()
        assert header is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        header.resizeSection(0, _NAME_WIDTH)
        self.labels = LabelEditor(cockpit, run_id)
        self.load = LoadCard(cockpit.themes)
        self.setMinimumHeight(_LEAST_HEIGHT)  # whatever the curves would like: they are hidden first
        self._load_read_at = -_LOAD_SECONDS
        head = QHBoxLayout()
        head.addWidget(self.search, 1)
        head.addWidget(self.copy)
        about, facts = QVBoxLayout(), QVBoxLayout()
        about.addWidget(self.labels)
        about.addWidget(self.load)
        about.addStretch()
        facts.addLayout(head)
        facts.addWidget(self.list, 1)
        self._parts = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._parts.setContentsMargins(10, 10, 10, 10)
        self._parts.addLayout(about)
        self._parts.addLayout(facts, 1)
        cockpit.runs.changed.connect(self._runs_changed)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        """Where it is low, the curves give way to the facts, and the room between the parts to the notes."""
        roomy, low = self.height() >= _ROOMY_HEIGHT, self.height() < _LOW_HEIGHT
        beside = not roomy and self.width() >= _WIDE
        needed = self.labels.minimumSizeHint().height() + self.load.sizeHint().height()
        self.load.allow(roomy or (beside and needed + _AROUND <= self.height()))
        ways = QBoxLayout.Direction
        self._parts.setDirection(ways.LeftToRight if beside else ways.TopToBottom)
        self._parts.setStretch(0, 1 if beside else 0)
        self._parts.setContentsMargins(10, 6 if low else 10, 10, 4 if low else 10)
        for layout in (self._parts, *self.findChildren(QVBoxLayout)):
            layout.setSpacing(4 if low else 6)
        if beside:
            self._parts.setSpacing(14)

    def close_tab(self) -> None:
        self._cockpit.runs.changed.disconnect(self._runs_changed)

    # ---- reading -------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._read_if_seen()

    def _runs_changed(self, run_ids: list[str]) -> None:
        """News of the run itself, or of one that goes on from it."""
        runs = [self._cockpit.runs.get(run_id) for run_id in run_ids]
        if self.run_id in run_ids:
            self.labels.show_run()
        if self.run_id in run_ids or any(run is not None and run.parent == self.run_id for run in runs):
            self._read_if_seen()

    def _read_if_seen(self) -> None:
        """One reading at a time; news that came meanwhile is read after it."""
        run = self._cockpit.runs.get(self.run_id)
        if run is None or not self.isVisible():
            return
        if self._is_reading:
            self._is_stale = True
            return
        self._read_load(is_over(run))
        self._is_reading, self._is_stale, others = True, False, list(self._cockpit.runs)
        paths = self._cockpit.bridge.paths
        self._cockpit.bridge.in_background(
            lambda: overview_of(run, others, paths), self._take, self._failed, owner=self
        )

    def _read_load(self, over: bool) -> None:
        """Every few seconds while it goes on; the last time after its end."""
        now = time.monotonic()
        if self._load_read_at == _FOR_GOOD or (not over and now - self._load_read_at < _LOAD_SECONDS):
            return
        self._load_read_at = _FOR_GOOD if over else now
        run_id = self.run_id
        self._cockpit.bridge.call(
            lambda client: load_of(client, run_id), self._take_load, self._load_failed, owner=self
        )

    def _take_load(self, courses: list[Course]) -> None:
        self.load.show_courses(courses)
        self._arrange()

    def _load_failed(self, _: str) -> None:
        """Of little weight: the next news try again."""
        self._load_read_at = -_LOAD_SECONDS

    def _take(self, facts: list[Fact]) -> None:
        self._is_reading, self.facts = False, facts
        self._draw()
        if self._is_stale:
            self._read_if_seen()

    def _failed(self, sentence: str) -> None:
        self._is_reading = False
        self._cockpit.notify(Notice(sentence, "error"))

    # ---- showing -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Only when a word of it is another one: the place of somebody who reads is kept."""
        shown = found_in(self.facts, self.search.text())
        if shown == self._drawn:
            return
        self._drawn = shown
        titles = self._titles()
        self.list.blockSignals(True)
        self.list.clear()
        for section in SECTIONS:
            members = [fact for fact in shown if fact.section == section]
            if not members:
                continue
            lines = [[fact.name, fact.text] for fact in members]
            for item, fact in zip(self.list.add_section(titles[section], lines), members, strict=True):
                item.setData(0, _FACT, fact)
                if fact.section in _CHIPS:
                    set_chip(item, 1, _CHIPS[fact.section])
                if fact.default:
                    item.setToolTip(
                        1, self.tr("{value}, by default {default}").format(value=fact.text, default=fact.default)
                    )
            head = self.list.topLevelItem(self.list.topLevelItemCount() - 1)
            assert head is not None
            head.setData(0, _FACT, section)
            if section in _FOLDED:
                head.setText(0, f"{titles[section]} · {len(members)}")
            head.setExpanded(section not in self._folded or bool(self.search.text()))
        self.list.blockSignals(False)
        self._fit_names()

    def _fit_names(self) -> None:
        """Wide enough for the names that are in sight, once: afterwards the width is the person's."""
        header = self.list.header()
        if header is None or header.sectionSize(0) != _NAME_WIDTH or not self.facts:
            return
        header.resizeSection(0, min(max(_NAME_WIDTH, self.list.sizeHintForColumn(0)), _MOST_NAME_WIDTH))

    def _titles(self) -> dict[SectionName, str]:
        tr = self.tr
        return {
            "results": tr("Results"),
            "changed": tr("Settings that were changed"),
            "defaults": tr("Settings as the script has them"),
            "run": tr("Run"),
            "lineage": tr("Lineage"),
            "checkpoints": tr("Checkpoints"),
            "files": tr("Files"),
            "code": tr("Code"),
            "environment": tr("Environment and packages"),
        }

    def _note_folded(self, item: QTreeWidgetItem, *, folded: bool) -> None:
        """What a person folds stays so while news come; a search unfolds all of it for as long as it lasts."""
        section = item.data(0, _FACT)
        if isinstance(section, str) and not self.search.text():
            (self._folded.add if folded else self._folded.discard)(section)  # type: ignore[arg-type]

    # ---- acting --------------------------------------------------------------------------------------------------

    def _go(self, item: QTreeWidgetItem) -> None:
        fact = item.data(0, _FACT)
        if not isinstance(fact, Fact):
            return
        if fact.run_id and self._cockpit.runs.get(fact.run_id) is not None:
            self._cockpit.selection.select([fact.run_id])
        elif fact.path and not QDesktopServices.openUrl(QUrl.fromLocalFile(fact.path)):
            self._cockpit.notify(Notice(self.tr("{path} cannot be opened here").format(path=fact.path), "warning"))

    def _copy(self) -> None:
        """The selected lines, or all that are shown."""
        clipboard = QGuiApplication.clipboard()
        if clipboard is None:
            return
        shown = found_in(self.facts, self.search.text())
        lines = self.list.chosen_lines or [f"{fact.name}\t{fact.text}" for fact in shown]
        clipboard.setText("\n".join(lines) + "\n")
        told = self.tr("1 line") if len(lines) == 1 else self.tr("{count} lines").format(count=len(lines))
        self._cockpit.notify(Notice(self.tr("Copied {lines}").format(lines=told)))
