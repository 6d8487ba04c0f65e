"""A short notice at the bottom of the window that goes by itself, with one thing to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PyQt6.QtCore import QEvent, QObject, QRect, Qt, QTimer
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QMainWindow, QPushButton, QWidget

from gym_gui.ui.styling import set_style_property

_MILLISECONDS = 5000
_MILLISECONDS_WITH_ACTION = 10000
_MARGIN = 16
_MOST_WIDTH, _LEAST_COLUMN = 720, 380


@dataclass(frozen=True)
class Notice:
    """What to say; ``kind`` is "info", "good", "warning" or "error"."""

    text: str
    kind: str = "info"
    action: str = ""
    act: Callable[[], object] | None = None


class Snackbar(QFrame):
    """Shows notices one after the other over the lower edge of its parent. Never takes the focus.

    In a main window it keeps to the column below the stage: the buttons of the docks beside it stay free.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("role", "floating")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._waiting: list[Notice] = []
        self._label = QLabel()
        self._label.setWordWrap(True)
        self._button = QPushButton()
        self._button.setProperty("kind", "flat")
        self._button.clicked.connect(self._act)
        self._button.hide()
        self._close = QPushButton(self.tr("Dismiss"))
        self._close.setProperty("kind", "flat")
        self._close.setToolTip(self.tr("Put this notice away; nothing else happens"))
        self._close.clicked.connect(self._next)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 8, 8, 8)
        layout.addWidget(self._label, 1)
        layout.addWidget(self._button)
        layout.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._next)
        self.current: Notice | None = None
        self.hide()
        parent.installEventFilter(self)

    def show_notice(self, notice: Notice) -> None:
        """Say it now, or after what is being said; the same words are not said twice in a row."""
        if notice.text == (self.current.text if self.current else None):
            self._timer.start()
            return
        self._waiting.append(notice)
        if self.current is None:
            self._next()

    def _next(self) -> None:
        self._timer.stop()
        if not self._waiting:
            self.current = None
            self.hide()
            return
        self.current = self._waiting.pop(0)
        role = {"good": "good", "warning": "warning", "error": "error"}.get(self.current.kind, "")
        set_style_property(self._label, "role", role)
        self._label.setText(self.current.text)
        self._button.setText(self.current.action)
        self._button.setToolTip(f"{self.current.action}: {self.current.text}")
        self._button.setVisible(bool(self.current.action))
        self._place()
        self.show()
        self.raise_()
        self._timer.start(_MILLISECONDS_WITH_ACTION if self.current.action else _MILLISECONDS)

    def _act(self) -> None:
        act = self.current.act if self.current else None
        self._next()
        if act is not None:
            act()

    def _place(self) -> None:
        parent = self.parentWidget()
        if parent is None:
            return
        column = _middle(parent)
        width = min(_MOST_WIDTH, column.width() - 2 * _MARGIN)
        self.setFixedWidth(width)
        self.adjustSize()
        self.move(column.center().x() - width // 2, parent.height() - self.height() - 3 * _MARGIN)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)


def _middle(parent: QWidget) -> QRect:
    """Where across the parent a notice may lie."""
    stage = parent.centralWidget() if isinstance(parent, QMainWindow) else None
    wide_enough = stage is not None and stage.isVisible() and stage.width() >= _LEAST_COLUMN
    return stage.geometry() if stage is not None and wide_enough else parent.rect()
