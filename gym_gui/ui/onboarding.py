"""The first minutes: one click to a run that learns, and six hints on where things are; closed once and for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PyQt6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, pyqtSignal
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.preferences import Preferences

_WIDTH = 480
_MARGIN = 16


@dataclass(frozen=True)
class Hint:
    """One thing to know, and the object name of the widget it is about."""

    about: str
    title: str
    text: str


class FloatingCard(QFrame):
    """A card over the window that blocks nothing: what lies beside it can be used."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setProperty("role", "floating")
        self.setFixedWidth(_WIDTH)
        self._anchor: QWidget | None = None
        window.installEventFilter(self)

    def place(self, anchor: QWidget | None) -> None:
        """Beside a widget, as far as there is room, or in the middle; always inside the window."""
        if anchor is not None and anchor is not self._anchor:
            anchor.installEventFilter(self)  # docks still move when the window has just been opened
        self._anchor = anchor
        window = self.parentWidget()
        if window is None:
            return
        self.adjustSize()
        if anchor is None or not anchor.isVisible():
            corner = QPoint((window.width() - self.width()) // 2, (window.height() - self.height()) // 2)
        else:
            corner = self._beside(QRect(anchor.mapTo(window, QPoint(0, 0)), anchor.size()), window.size())
        most = QPoint(window.width() - self.width() - _MARGIN, window.height() - self.height() - _MARGIN)
        self.move(max(_MARGIN, min(corner.x(), most.x())), max(_MARGIN, min(corner.y(), most.y())))
        self.show()
        self.raise_()

    def _beside(self, about: QRect, window: QSize) -> QPoint:
        """Where the card hides least of what it is about: right, left or above of it, or over its lower edge."""
        aside = about.top() + _MARGIN
        middle = about.center().x() - self.width() // 2
        if about.right() + self.width() + 2 * _MARGIN <= window.width():
            return QPoint(about.right() + _MARGIN, aside)
        if about.left() >= self.width() + 2 * _MARGIN and about.height() > window.height() // 2:
            return QPoint(about.left() - self.width() - _MARGIN, aside)
        if about.top() > window.height() // 2:
            return QPoint(middle, about.top() - self.height() - 3 * _MARGIN)
        return QPoint(middle, about.bottom() - self.height() - _MARGIN)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.Resize and self.isVisible() and watched is not self:
            self.place(self._anchor)
        return super().eventFilter(watched, event)


class Welcome(FloatingCard):
    """Shown at the first start. ``demo_wanted`` and ``tour_wanted`` tell what was chosen."""

    demo_wanted = pyqtSignal()
    tour_wanted = pyqtSignal()

    def __init__(self, window: QWidget, preferences: Preferences) -> None:
        super().__init__(window)
        self._preferences = preferences
        title = QLabel(self.tr("Welcome to MOSAIC"))
        title.setProperty("role", "title")
        text = QLabel(
            self.tr(
                "Launch, watch, compare and reuse reinforcement-learning runs from one place. "
                "See it at work: an agent that learns to balance a pole within a minute."
            )
        )
        text.setWordWrap(True)
        self.demo = QPushButton(self.tr("Train PPO on CartPole"))
        self.demo.setProperty("kind", "primary")
        self.demo.setToolTip(self.tr("Start a short run; you can watch its curve rise"))
        self.tour = QPushButton(self.tr("Show me around"))
        self.tour.setToolTip(self.tr("Six short hints"))
        self.later = QPushButton(self.tr("No, thanks"))
        self.later.setProperty("kind", "flat")
        self.later.setToolTip(self.tr("Do not show this again"))
        buttons = QHBoxLayout()
        for button in (self.demo, self.tour, self.later):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.addWidget(title)
        layout.addWidget(text)
        layout.addLayout(buttons)
        self.demo.clicked.connect(lambda: self._leave(self.demo_wanted.emit))
        self.tour.clicked.connect(lambda: self._leave(self.tour_wanted.emit))
        self.later.clicked.connect(lambda: self._leave(lambda: None))

    def offer(self) -> None:
        """Show it unless it was seen before."""
        if not self._preferences.get("welcome.seen", False):
            window = self.parentWidget()
            self.place(window.findChild(QWidget, "stage") if window is not None else None)

    def _leave(self, then: Callable[[], object]) -> None:
        self._preferences.put("welcome.seen", True)
        self._preferences.save()
        self.hide()
        then()


class Tour(FloatingCard):
    """Hints one after the other, each beside what it is about; one whose subject is hidden is shown in the middle."""

    finished = pyqtSignal()

    def __init__(self, window: QWidget, hints: Sequence[Hint]) -> None:
        super().__init__(window)
        self._hints = list(hints)
        self.number = 0
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._count = QLabel()
        self._count.setProperty("role", "muted")
        self.next = QPushButton()
        self.next.setProperty("kind", "primary")
        self.next.clicked.connect(self._next)
        self.close_button = QPushButton(self.tr("Close"))
        self.close_button.setProperty("kind", "flat")
        self.close_button.clicked.connect(self._finish)
        row = QHBoxLayout()
        row.addWidget(self._count, 1)
        row.addWidget(self.close_button)
        row.addWidget(self.next)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.addWidget(self._title)
        layout.addWidget(self._text)
        layout.addLayout(row)

    def start(self) -> None:
        self.number = 0
        self._show()

    def _next(self) -> None:
        self.number += 1
        if self.number >= len(self._hints):
            self._finish()
        else:
            self._show()

    def _show(self) -> None:
        hint = self._hints[self.number]
        last = self.number == len(self._hints) - 1
        self._title.setText(hint.title)
        self._text.setText(hint.text)
        self._count.setText(f"{self.number + 1} / {len(self._hints)}")
        self.next.setText(self.tr("Done") if last else self.tr("Next"))
        window = self.parentWidget()
        self.place(window.findChild(QWidget, hint.about) if window is not None else None)
        self.next.setFocus(Qt.FocusReason.OtherFocusReason)

    def _finish(self) -> None:
        self.hide()
        self.finished.emit()
