"""Ctrl+K: type a few letters of what you want to do."""

from __future__ import annotations

from PyQt6.QtCore import QEvent, QModelIndex, QObject, QSize, Qt
from PyQt6.QtGui import QAction, QKeyEvent, QPainter, QPalette
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

from gym_gui.ui.commands import Command, Commands

_WIDTH, _MOST_ROWS, _ROW_HEIGHT = 560, 12, 30
_SHORTCUT = Qt.ItemDataRole.UserRole + 1


def matches(query: str, text: str) -> bool:
    """Whether all letters of the query occur in the text in this order, words in any."""
    return all(_in_order(word, text.lower()) for word in query.lower().split())


def _in_order(letters: str, text: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


class CommandPalette(QFrame):
    """A popup over its parent with the commands that match. Enter does the chosen one, Escape leaves."""

    def __init__(self, commands: Commands, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._commands = commands
        self.setProperty("role", "card")
        self.query = QLineEdit()
        self.query.setPlaceholderText(self.tr("What do you want to do?"))
        self.query.setAccessibleName(self.tr("Search commands"))
        self.query.textChanged.connect(self._fill)
        self.query.installEventFilter(self)
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_WithShortcut(self.list))
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

    def _fill(self, query: str) -> None:
        self.list.clear()
        found = [pair for pair in self._commands.all() if matches(query, f"{pair[0].menu} {pair[0].title}")]
        for command, action in sorted(found, key=lambda pair: (not pair[1].isEnabled(), pair[0].title)):
            self.list.addItem(_item(command, action))
        self.list.setCurrentRow(0)
        rows = min(max(self.list.count(), 1), _MOST_ROWS)
        self.list.setFixedHeight(rows * _ROW_HEIGHT + 4)
        self.adjustSize()

    def _do(self, item: QListWidgetItem | None = None) -> None:
        item = item or self.list.currentItem()
        if item is None:
            return
        action: QAction = item.data(Qt.ItemDataRole.UserRole)
        if action.isEnabled():
            self.hide()
            action.trigger()

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


class _WithShortcut(QStyledItemDelegate):
    """The keys of a command at the right edge, where the eye finds them in one column."""

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        super().paint(painter, option, index)
        keys = index.data(_SHORTCUT)
        if painter is not None and keys:
            painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
            place = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(option.rect.adjusted(0, 0, -12, 0), place, keys)


def _item(command: Command, action: QAction) -> QListWidgetItem:
    item = QListWidgetItem(f"{command.menu} › {command.title.replace('&', '')}")
    item.setSizeHint(QSize(0, _ROW_HEIGHT))
    item.setData(_SHORTCUT, command.shortcut)
    item.setToolTip(action.toolTip())
    item.setData(Qt.ItemDataRole.UserRole, action)
    if not action.isEnabled():
        item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
    return item
