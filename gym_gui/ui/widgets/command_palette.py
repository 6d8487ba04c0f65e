"""Ctrl+K: type a few letters of what you want to do, or of the run that you look for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from PyQt6.QtCore import QEvent, QModelIndex, QObject, QSize, Qt
from PyQt6.QtGui import QKeyEvent, QPainter, QPalette
from PyQt6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import state_word
from gym_gui.ui.context import Cockpit
from mosaic_protocol.proto import trainer_pb2 as pb

_WIDTH, _MOST_ROWS, _ROW_HEIGHT = 560, 12, 30
_MOST_RUNS = 8
_AMONG_RUNS = 3
_ASIDE, _FINDING = Qt.ItemDataRole.UserRole + 1, Qt.ItemDataRole.UserRole


@dataclass(frozen=True)
class Finding:
    """One line of the palette. The smaller the rank, the better it fits."""

    rank: int
    text: str
    aside: str
    help: str
    usable: bool
    act: Callable[[], object]


def rank(query: str, title: str, also: str = "") -> int | None:
    """How well a title fits what was typed, 0 the best; None when it does not.

    Words of the title come before other words for the same, whole beginnings before letters that merely occur in order.
    Another word that was typed to its end is as good as one of the title: "stop" means *Cancel* no less than
    *Stop the sweep*.
    """
    wanted, text = query.lower().split(), title.lower()
    words, others = text.replace("›", " ").split(), also.lower().split()
    if all(one in others or any(word.startswith(one) for word in words) for one in wanted):
        return 0
    if all(any(word.startswith(one) for word in [*words, *others]) for one in wanted):
        return 1
    if all(one in text for one in wanted):
        return 2
    return 4 if matches(query, title) else None


def matches(query: str, text: str) -> bool:
    """Whether all letters of the query occur in the text in this order, words in any."""
    return all(_in_order(word, text.lower()) for word in query.lower().split())


def _in_order(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


class CommandPalette(QFrame):
    """A popup over its parent with the commands and runs that match. Enter does the chosen one, Escape leaves."""

    def __init__(self, cockpit: Cockpit, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._cockpit = cockpit
        self.setProperty("role", "card")
        self.query = QLineEdit()
        self.query.setPlaceholderText(self.tr("What do you want to do? Or which run or setting do you look for?"))
        self.query.setAccessibleName(self.tr("Search commands and runs"))
        self.query.textChanged.connect(self._fill)
        self.query.installEventFilter(self)
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_WithAside(self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemClicked.connect(self._do)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 10, 10, 10)
        layout.addWidget(self.query)
        layout.addWidget(self.list)
        self.setFixedWidth(_WIDTH)

    def open(self) -> None:
        """Show it, empty, with everything that can be done."""
        self.query.clear()
        self._fill("")
        parent = self.parentWidget()
        if parent is not None:
            top = parent.mapToGlobal(parent.rect().topLeft())
            self.move(top.x() + (parent.width() - _WIDTH) // 2, top.y() + 80)
        self.show()
        self.query.setFocus()

    # ---- finding -------------------------------------------------------------------------------------------------

    def findings(self, query: str) -> list[Finding]:
        """What fits best first; of equals what can be done now."""
        found = [*self._commands(query), *islice(self._runs(query), _MOST_RUNS), *self._others(query)]
        return sorted(found, key=lambda one: (one.rank, not one.usable))

    def _commands(self, query: str) -> Iterator[Finding]:
        for command, action in sorted(self._cockpit.commands.all(), key=lambda pair: pair[0].title):
            title = f"{command.menu.replace('/', ' › ')} › {command.title.replace('&', '')}"
            if (fit := rank(query, title, command.also)) is not None:
                why_not = action.toolTip().partition("\n")[2]
                aside = command.shortcut if action.isEnabled() else why_not
                yield Finding(fit, title, aside, action.toolTip(), action.isEnabled(), action.trigger)

    def _runs(self, query: str) -> Iterator[Finding]:
        """By name or id, algorithm or environment; the newest first. Nothing typed finds none: there may be many."""
        words = query.lower().split()
        if not words:
            return
        for run in sorted(self._cockpit.runs, key=lambda run: -run.created_at):
            haystack = f"{run.name} {run.run_id} {run.algo} {run.env_id}".lower()
            if all(word in haystack for word in words):
                named = run.name.lower().startswith(words[0]) or run.run_id.lower().endswith(words[0])
                yield self._finding(run, 1 if named else 3)

    def _others(self, query: str) -> Iterator[Finding]:
        """Settings and columns, which parts of the cockpit know of."""
        for finder in self._cockpit.commands.finders if query.strip() else ():
            for one in islice(finder(query), _MOST_RUNS):
                yield Finding(_AMONG_RUNS, one.title, one.aside, one.help, True, one.act)

    def _finding(self, run: pb.Run, fit: int) -> Finding:
        text = self.tr("Go to › {run}").format(run=self._cockpit.runs.label(run))
        show = lambda: self._cockpit.selection.show([run.run_id])  # noqa: E731
        return Finding(fit, text, state_word(run), f"{run.name}  ·  {run.run_id}", True, show)

    def _fill(self, query: str) -> None:
        self.list.clear()
        nothing = Finding(0, self.tr("Nothing has these words"), "", "", usable=False, act=lambda: None)
        for finding in self.findings(query) or [nothing]:
            self.list.addItem(_item(finding))
        self.list.setCurrentRow(0)
        rows = min(max(self.list.count(), 1), _MOST_ROWS)
        self.list.setFixedHeight(rows * _ROW_HEIGHT + 4)
        self.adjustSize()

    # ---- doing ---------------------------------------------------------------------------------------------------

    def _do(self, item: QListWidgetItem | None = None) -> None:
        item = item or self.list.currentItem()
        if item is None:
            return
        finding: Finding = item.data(_FINDING)
        if finding.usable:
            self.hide()
            finding.act()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
                step = 1 if key == Qt.Key.Key_Down else -1
                self.list.setCurrentRow((self.list.currentRow() + step) % max(1, self.list.count()))
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._do()
                return True
        return super().eventFilter(watched, event)


class _WithAside(QStyledItemDelegate):
    """The keys of a command, why it cannot be used, or the state of a run, at the right edge."""

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        super().paint(painter, option, index)
        aside = index.data(_ASIDE)
        if painter is not None and aside:
            painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
            place = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            measure = option.fontMetrics
            room = option.rect.width() - measure.horizontalAdvance(index.data(Qt.ItemDataRole.DisplayRole)) - 48
            shown = measure.elidedText(aside, Qt.TextElideMode.ElideRight, room)
            painter.drawText(option.rect.adjusted(0, 0, -12, 0), place, shown)


def _item(finding: Finding) -> QListWidgetItem:
    item = QListWidgetItem(finding.text)
    item.setSizeHint(QSize(0, _ROW_HEIGHT))
    item.setData(_ASIDE, finding.aside)
    item.setToolTip(finding.help)
    item.setData(_FINDING, finding)
    if not finding.usable:
        item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
    return item
