"""What differs between the selected runs: results first, then what differs, what was changed, what nobody changed."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QFont, QGuiApplication, QIcon, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QHeaderView,
    QPushButton,
    QSizePolicy,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.diff_arrangement import PARTS, PartName, arranged, gap
from gym_gui.services.run_diff import Row, RunDiff, as_table, diff_of
from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.run_actions import RunActions
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.copyable_tree import CopyableTree
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.hinted_line import HintedLine
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.value_chips import FILLED, OUTLINED, ValueChips, dot, set_chip
from mosaic_protocol.proto import trainer_pb2 as pb

_NAME_WIDTH, _DEFAULT_WIDTH, _GAP_WIDTH, _LEAST_COLUMN, _SCROLL_BAR = 160, 84, 70, 110, 16
_FOLDED: tuple[PartName, ...] = ("same", "environment")
_PART = Qt.ItemDataRole.UserRole
_ONLY = "differences.only"


class RunDifferences(QWidget):
    """Compares the runs it was given, beside the GUI and only while it can be seen. The first is A, the second B.

    A filled value was changed, an outlined one is the default; each run has the colour of its curve.
    """

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._store = MetricsStore.of(cockpit.bridge)
        self._runs: list[pb.Run] = []
        self._is_reading = self._is_stale = False
        self._folded = set[str](_FOLDED)
        self._drawn: object = None
        self.diff: RunDiff | None = None
        self.list = CopyableTree(self._copy)
        self.list.setHeaderLabels([self.tr("Setting")])
        self.list.setAccessibleName(self.tr("What differs between the selected runs"))
        self.list.setItemDelegate(ValueChips(cockpit.themes, self.list))
        self.list.itemCollapsed.connect(lambda item: self._note_folded(item, folded=True))
        self.list.itemExpanded.connect(lambda item: self._note_folded(item, folded=False))
        self.note = ElidedLabel()
        self.note.setProperty("role", "muted")
        self.note.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self._make_bar())
        layout.addWidget(self.list, 1)
        layout.addWidget(self.note)
        self.setFocusProxy(self.list)
        cockpit.themes.changed.connect(lambda _: self._draw(again=True))

    def _make_bar(self) -> QHBoxLayout:
        self.search = HintedLine([self.tr("Find a setting"), self.tr("Find")])
        self.search.setAccessibleName(self.tr("Find a setting"))
        self.search.setToolTip(self.tr("Shows lines with all of these words in their name or values"))
        self.search.setClearButtonEnabled(True)
        self.search.setMinimumWidth(90)
        self.search.textChanged.connect(lambda _: self._draw())
        self.only = QCheckBox(self.tr("only changed or different"))
        self.only.setToolTip(self.tr("Without it what is equal in code and environment is listed too"))
        self.only.setChecked(self._cockpit.preferences.get(_ONLY, True))
        self.only.toggled.connect(self._choose_only)
        self.copy = QPushButton(self.tr("Copy as table"))
        self.copy.setToolTip(self.tr("Put the table on the clipboard, as spreadsheets take it (Ctrl+C)"))
        self.copy.clicked.connect(self._copy)
        bar = QHBoxLayout()
        bar.addWidget(self.search, 1)
        bar.addWidget(self.only)
        bar.addWidget(self.copy)
        borrow, swap = RunActions.command("borrow"), RunActions.command("swap")
        self.actions_on_pair = ActionButtons(
            self._cockpit.commands,
            (borrow, swap),
            {borrow: self.tr("Launch A with B's settings…"), swap: self.tr("Swap A and B")},
            themes=self._cockpit.themes,
            signs={borrow: "duplicate", swap: "hand-over"},
        )
        bar.addWidget(self.actions_on_pair)
        return bar

    # ---- which runs ----------------------------------------------------------------------------------------------

    def show_runs(self, runs: Sequence[pb.Run]) -> None:
        """Compare these; call it again when there is news of one."""
        self._runs = list(runs)
        self._read_if_seen()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._read_if_seen()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """What B has more than A stays in sight when a panel beside the stage takes room from it."""
        super().resizeEvent(event)
        if self.diff is not None:
            self._size_columns(len(self.diff.runs), pair=len(self.diff.runs) == 2)

    def _read_if_seen(self) -> None:
        """One reading at a time; news that came meanwhile is read after it."""
        if len(self._runs) < 2 or not self.isVisible():
            return
        if self._is_reading:
            self._is_stale = True
            return
        self._is_reading, self._is_stale, runs = True, False, list(self._runs)
        self._cockpit.bridge.in_background(lambda: diff_of(runs), self._take, self._failed, owner=self)

    def _take(self, diff: RunDiff) -> None:
        self._is_reading = False
        if [run.run_id for run in diff.runs] == [run.run_id for run in self._runs]:
            self.diff = diff
            self._draw()
        if self._is_stale:
            self._read_if_seen()

    def _failed(self, sentence: str) -> None:
        self._is_reading = False
        self.note.setText(sentence)

    def _choose_only(self, on: bool) -> None:
        self._cockpit.preferences.put(_ONLY, on)
        self._draw()

    # ---- showing -------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> dict[PartName, list[Row]]:
        """What is shown, by part."""
        if self.diff is None:
            return {}
        return arranged(self.diff, words=self.search.text(), everything=not self.only.isChecked())

    def _draw(self, *, again: bool = False) -> None:
        """Only when a word of it is another one: the place of somebody who reads is kept."""
        if self.diff is None:
            return
        parts = self.parts
        labels = [self._cockpit.runs.label(run) for run in self.diff.runs]
        if again or (labels, parts) != self._drawn:
            self._drawn = (labels, parts)
            self._fill(labels, parts)
        self._tell(parts)

    def _fill(self, labels: list[str], parts: dict[PartName, list[Row]]) -> None:
        assert self.diff is not None
        pair = len(labels) == 2
        curves = [self._store.colour_number(run.run_id) for run in self.diff.runs]
        self.list.blockSignals(True)
        self.list.clear()
        named = [f"{_letter(number)} · {label}" for number, label in enumerate(labels)]
        self.list.setHeaderLabels([self.tr("Setting"), self.tr("Default"), *named, *(["B − A"] if pair else [])])
        header = self.list.headerItem()
        assert header is not None
        for column, curve in enumerate(curves, start=2):
            header.setIcon(column, QIcon(dot(self._cockpit.themes.theme.curve(curve))))
        for part in PARTS:
            if part in parts:
                self._add_part(part, parts[part], curves, pair=pair)
        self.list.blockSignals(False)
        self._size_columns(len(labels), pair=pair)

    def _add_part(self, part: PartName, rows: list[Row], curves: list[int], *, pair: bool) -> None:
        gaps = [gap(row) for row in rows]
        lines = [
            [row.name, row.default.text if row.default else "", *row.short_texts()] + ([one.text] if pair else [])
            for row, one in zip(rows, gaps, strict=True)
        ]
        items = self.list.add_section(self._title(part, len(rows)), lines)
        theme = self._cockpit.themes.theme
        for item, row, one in zip(items, rows, gaps, strict=True):
            item.setForeground(1, theme.colour("muted"))
            for column, value in enumerate(row.values, start=2):
                if item.text(column) != value.text:
                    item.setToolTip(column, value.text)
            if part == "different":
                for column, (value, curve) in enumerate(zip(row.values, curves, strict=True), start=2):
                    set_chip(item, column, FILLED if row.is_changed(value) else OUTLINED, curve)
            if part == "results":
                _embolden(item, range(2, 2 + len(row.values)))
            if pair:
                last = 2 + len(row.values)
                item.setTextAlignment(last, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                better = {True: "good", False: "bad", None: "muted"}[one.is_better]
                item.setForeground(last, theme.colour(better))
        head = self.list.topLevelItem(self.list.topLevelItemCount() - 1)
        assert head is not None
        head.setData(0, _PART, part)
        head.setForeground(0, theme.colour("muted"))
        head.setExpanded(part not in self._folded or bool(self.search.text()))

    def _title(self, part: PartName, count: int) -> str:
        several = len(self._runs) > 2
        titles = {
            "results": self.tr("Results"),
            "different": self.tr("Different settings"),
            "changed": self.tr("Changed in all of them") if several else self.tr("Changed in both"),
            "same": self.tr("As the script has them"),
            "run": self.tr("Run"),
            "code": self.tr("Code"),
            "environment": self.tr("Environment and packages"),
        }
        return titles[part] if part == "results" else f"{titles[part]} · {count}"

    def _note_folded(self, item: QTreeWidgetItem, *, folded: bool) -> None:
        """What a person folds stays so while news come; a search unfolds all of it for as long as it lasts."""
        part = item.data(0, _PART)
        if isinstance(part, str) and not self.search.text():
            (self._folded.add if folded else self._folded.discard)(part)

    def _size_columns(self, runs: int, *, pair: bool) -> None:
        header, viewport = self.list.header(), self.list.viewport()
        assert header is not None and viewport is not None
        header.setStretchLastSection(False)
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # the names of runs differ at their ends
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        narrow = viewport.width() < _NAME_WIDTH + _DEFAULT_WIDTH + runs * _LEAST_COLUMN + _GAP_WIDTH
        header.resizeSection(0, _NAME_WIDTH - (30 if narrow else 0))
        header.resizeSection(1, _DEFAULT_WIDTH - (14 if narrow else 0))
        taken = header.sectionSize(0) + header.sectionSize(1) + (_GAP_WIDTH if pair else 0) + _SCROLL_BAR
        least = _LEAST_COLUMN - (18 if narrow and pair else 0)  # of two runs what lies between them is to be seen too
        room = max(least, (viewport.width() - taken) // max(1, runs))
        for column in range(2, runs + 2):
            header.resizeSection(column, room)
        if pair:
            header.resizeSection(runs + 2, _GAP_WIDTH)
            spare = viewport.width() - header.length()
            header.resizeSection(0, header.sectionSize(0) + max(0, spare))

    def _tell(self, parts: dict[PartName, list[Row]]) -> None:
        assert self.diff is not None
        different = sum(not row.is_equal for row in self.diff.rows if row.section == "settings")
        if self.search.text() and not parts:
            self.note.setText(self.tr("Nothing here has these words."))
        elif not different:
            self.note.setText(self.tr("These runs have the same settings."))
        else:
            said = self.tr("1 setting differs") if different == 1 else self.tr("{count} settings differ")
            legend = self.tr("filled: changed, outlined: the default")
            self.note.setText(f"{said.format(count=different)} · {legend}")

    # ---- copying -------------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        """The selected lines, or all of them."""
        clipboard = QGuiApplication.clipboard()
        if self.diff is None or clipboard is None:
            return
        rows = [row for part in self.parts.values() for row in part]
        if chosen := self.list.chosen_lines:
            clipboard.setText("\n".join(chosen) + "\n")
        else:
            clipboard.setText(as_table(self.diff.runs, rows))
        count = len(chosen) or len(rows)
        lines_text = self.tr("1 line") if count == 1 else self.tr("{count} lines").format(count=count)
        self._cockpit.notify(Notice(self.tr("Copied {lines}").format(lines=lines_text)))


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _embolden(item: QTreeWidgetItem, columns: range) -> None:
    font = QFont(item.font(0))
    font.setWeight(QFont.Weight.DemiBold)
    for column in columns:
        item.setFont(column, font)
