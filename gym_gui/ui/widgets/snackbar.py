"""A short notice over the stage that goes by itself, with one thing to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PyQt6 import sip
from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtWidgets import QApplication, QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from gym_gui.ui.styling import set_style_property

_MILLISECONDS = 5000
_MILLISECONDS_WITH_ACTION = 10000


@dataclass(frozen=True)
class Notice:
    """What to say; ``kind`` is "info", "good", "warning" or "error"."""

    text: str
    kind: str = "info"
    action: str = ""
    act: Callable[[], object] | None = None


def _supersedes(newer: Notice, older: Notice) -> bool:
    """Whether the newer one takes the older one's place: warnings and errors are read to their end."""
    return bool(newer.action) and newer.action == older.action and older.kind in ("info", "good")


class Snackbar(QFrame):
    """Shows notices one after the other. Never takes the focus; a person who gave it to a button by Tab gets it back
    where it was before.

    Of several notices that offer the same, the newest counts: "Undo" undoes what was done last.

    It stands in a layout and takes room while it has something to say: a notice that lies over other things covers the
    rows and buttons that a person is about to use.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setProperty("role", "floating")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._waiting: list[Notice] = []
        self._came_from: QWidget | None = None
        self._label = QLabel()
        self._label.setWordWrap(True)
        self._label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._button = QPushButton()
        self._button.setProperty("kind", "flat")
        self._button.clicked.connect(self._act)
        self._button.hide()
        self._close = QPushButton(self.tr("Dismiss"))
        self._close.setProperty("kind", "flat")
        self._close.setToolTip(self.tr("Put this notice away; nothing else happens"))
        self._close.clicked.connect(self._next)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(14, 4, 6, 4)
        layout.addWidget(self._label, 1)
        layout.addWidget(self._button)
        layout.addWidget(self._close)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._next)
        self.current: Notice | None = None
        for button in (self._button, self._close):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keyboard where it is
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)
        self.hide()

    def show_notice(self, notice: Notice) -> None:
        """Say it now, or after what is being said; the same words are not said twice in a row."""
        if notice.text == (self.current.text if self.current else None):
            self._timer.start()
            return
        self._waiting = [*(one for one in self._waiting if not _supersedes(notice, one)), notice]
        if self.current is None:
            self._next()
        elif _supersedes(notice, self.current):
            self._waiting.insert(0, self._waiting.pop())
            self._next()

    def withdraw(self, notice: Notice) -> None:
        """Put a notice away that is not true any more, whether it is shown or waits."""
        self._waiting = [one for one in self._waiting if one is not notice]
        if self.current is notice:
            self._next()

    def _next(self) -> None:
        self._timer.stop()
        if not self._waiting:
            self.current = None
            self._give_focus_back()
            self.hide()
            return
        self.current = self._waiting.pop(0)
        role = {"good": "good", "warning": "warning", "error": "error"}.get(self.current.kind, "")
        set_style_property(self._label, "role", role)
        self._label.setText(self.current.text)
        self._button.setText(self.current.action)
        self._button.setToolTip(f"{self.current.action}: {self.current.text}")
        self._button.setVisible(bool(self.current.action))
        self.show()
        self._timer.start(_MILLISECONDS_WITH_ACTION if self.current.action else _MILLISECONDS)

    def _focus_moved(self, _: QWidget | None, now: QWidget | None) -> None:
        """Where the keyboard was last; F6 stops at what is around the notice for a moment, which counts for nothing."""
        if now is not None and not self.isAncestorOf(now) and not now.isAncestorOf(self):
            self._came_from = now

    def _give_focus_back(self) -> None:
        """Qt would hand it to whatever stands next, where the following key does something nobody meant."""
        focused, before = QApplication.focusWidget(), self._came_from
        if focused is None or not self.isAncestorOf(focused):
            return
        if before is not None and not sip.isdeleted(before) and before.isVisible() and before.isEnabled():
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def _act(self) -> None:
        act = self.current.act if self.current else None
        self._next()
        if act is not None:
            act()
