"""The first minutes: one click to a run that learns, and six hints on where things are.

The welcome stays until its run is started or it is declined: taking the tour does not use it up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PyQt6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import QHideEvent, QKeyEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from gym_gui.ui.preferences import Preferences
from gym_gui.ui.theme import Themes

_WIDTH = 480
_MARGIN = 16
_FRAME = 3.0
_MOVES = (QEvent.Type.Resize, QEvent.Type.LayoutRequest)
"""After which a card has to find its place again; docks that were arranged for a narrow window lie in front of it."""


@dataclass(frozen=True)
class Hint:
    """One thing to know, the object name of the widget it is about, and the part to bring forward for it."""

    about: str
    title: str
    text: str
    part: str = ""


class Highlight(QWidget):
    """A frame around what a hint explains; clicks go through it."""

    def __init__(self, window: QWidget, themes: Themes) -> None:
        super().__init__(window)
        self._themes = themes
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        themes.changed.connect(self.update)
        self.hide()

    def surround(self, about: QRect | None) -> None:
        """Show it around a place of the window, or with None not at all."""
        if about is None:
            self.hide()
            return
        self.setGeometry(about)
        self.show()
        self.raise_()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._themes.theme.colour("accent"), _FRAME))
        inset = _FRAME / 2
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(inset, inset, -inset, -inset), 8, 8)


class FloatingCard(QFrame):
    """A card over the window that blocks nothing: what lies beside it can be used.

    While it has the focus, Return presses the button in front and Escape puts the card away.
    """

    moved = pyqtSignal()
    """It is somewhere else now, or gone."""

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
        self.moved.emit()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self.moved.emit()

    def _beside(self, about: QRect, window: QSize) -> QPoint:
        """Where the card hides least of what it is about: beside, above or below it, or over its lower edge.

        It keeps to the stage where it can, which makes room for it; what stands around the stage would be half covered.
        """
        stage = self._stage()
        aside = about.top() + _MARGIN
        is_wider = about.left() < stage.left() and about.right() >= stage.right() and stage.width() >= self.width()
        middle = (stage if is_wider else about).center().x() - self.width() // 2
        if about.right() + self.width() + 2 * _MARGIN <= window.width():
            within = stage.bottom() - self.height() - _MARGIN
            beside = within if about.top() - self.height() < within < aside else aside
            return QPoint(about.right() + _MARGIN, beside)
        if about.left() >= self.width() + 2 * _MARGIN and about.height() > window.height() // 2:
            return QPoint(about.left() - self.width() - _MARGIN, aside)
        if about.top() > window.height() // 2:
            return QPoint(middle, about.top() - self.height() - 3 * _MARGIN)
        if about.bottom() + self.height() + 2 * _MARGIN <= window.height() and about.height() < self.height():
            return QPoint(middle, about.bottom() + _MARGIN)
        return QPoint(middle, about.bottom() - self.height() - _MARGIN)

    def _stage(self) -> QRect:
        window = self.parentWidget()
        stage = window.findChild(QWidget, "stage") if window is not None else None
        return QRect(stage.mapTo(window, QPoint(0, 0)), stage.size()) if stage is not None else QRect()

    def press(self) -> None:
        """What Return does where no other button has the focus."""

    def put_away(self) -> None:
        """What Escape does."""
        self.hide()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None:
            return
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            focused = self.focusWidget()
            focused.click() if isinstance(focused, QPushButton) else self.press()
        elif event.key() == Qt.Key.Key_Escape:
            self.put_away()
        else:
            super().keyPressEvent(event)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() in _MOVES and self.isVisible() and watched is not self:
            self.place(self._anchor)
        return super().eventFilter(watched, event)


class Welcome(FloatingCard):
    """Shown at the first start. ``demo_wanted`` and ``tour_wanted`` say what was chosen."""

    demo_wanted = pyqtSignal()
    tour_wanted = pyqtSignal()

    def __init__(self, window: QWidget, preferences: Preferences) -> None:
        super().__init__(window)
        self._preferences = preferences
        title = QLabel(self.tr("Welcome to MOSAIC"))
        title.setProperty("role", "title")
        self.text = QLabel(self.tr("Launch, watch, compare and reuse reinforcement-learning runs from one place."))
        self.text.setWordWrap(True)
        self.demo = QPushButton(self.tr("Train the demo"))
        self.demo.setProperty("kind", "primary")
        self.demo.setToolTip(self.tr("Start a short run"))
        self.tour = QPushButton(self.tr("Show me around"))
        self.tour.setToolTip(self.tr("Six short hints; afterwards this card is here again"))
        self.later = QPushButton(self.tr("No, thanks"))
        self.later.setProperty("kind", "flat")
        self.later.setToolTip(self.tr("Do not show this again"))
        buttons = QHBoxLayout()
        for button in (self.demo, self.tour, self.later):
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.addWidget(title)
        layout.addWidget(self.text)
        layout.addLayout(buttons)
        self.demo.clicked.connect(self._take_demo)
        self.tour.clicked.connect(self._take_tour)
        self.later.clicked.connect(self.decline)

    def present(self, title: str, about: str, help_text: str) -> None:
        """Say which run is offered: on the button, in the card's text, and as the button's help."""
        self.text.setText(f"{self.text.text()} {about}")
        self.demo.setText(title)
        self.demo.setToolTip(help_text)

    def offer(self) -> None:
        """Show it unless its run was started, or it was declined, before."""
        if not self._preferences.get("welcome.seen", False):
            window = self.parentWidget()
            self.place(window.findChild(QWidget, "stage") if window is not None else None)
            self.demo.setFocus(Qt.FocusReason.OtherFocusReason)

    def press(self) -> None:
        self.demo.click()

    def _take_demo(self) -> None:
        self.decline()
        self.demo_wanted.emit()

    def _take_tour(self) -> None:
        self.hide()
        self.tour_wanted.emit()

    def decline(self) -> None:
        """Not to be shown again."""
        self._preferences.put("welcome.seen", True)
        self._preferences.save()
        self.hide()


class Tour(FloatingCard):
    """Hints one after the other, each beside what it is about, which is framed; ``reveal(part)`` brings it forward.

    One whose subject cannot be seen stands in the middle. ``finished()`` however it ends.
    """

    finished = pyqtSignal()

    def __init__(
        self,
        window: QWidget,
        themes: Themes,
        hints: Sequence[Hint],
        reveal: Callable[[str], object] = lambda part: None,
    ) -> None:
        super().__init__(window)
        self._hints, self._reveal = list(hints), reveal
        self.number = 0
        self.highlight = Highlight(window, themes)
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._count = QLabel()
        self._count.setProperty("role", "muted")
        self.next = self._button("", self.tr("The next hint (Return)"), self._next)
        self.next.setProperty("kind", "primary")
        self.back = self._button(self.tr("Back"), self.tr("The hint before this one"), self._back)
        self.close_button = self._button(
            self.tr("Close"), self.tr("End the tour (Esc); F1 brings it back"), self.put_away
        )
        self.close_button.setProperty("kind", "flat")
        row = QHBoxLayout()
        row.addWidget(self._count, 1)
        for button in (self.close_button, self.back, self.next):
            row.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.addWidget(self._title)
        layout.addWidget(self._text)
        layout.addLayout(row)

    def _button(self, title: str, tooltip: str, act: Callable[[], None]) -> QPushButton:
        button = QPushButton(title)
        button.setToolTip(tooltip)
        button.clicked.connect(act)
        return button

    def start(self) -> None:
        self.number = 0
        self._show()

    def press(self) -> None:
        self.next.click()

    def put_away(self) -> None:
        self.hide()
        self.highlight.surround(None)
        self.finished.emit()

    def place(self, anchor: QWidget | None) -> None:
        window = self.parentWidget()
        seen = anchor is not None and window is not None and not anchor.visibleRegion().isEmpty()
        about = QRect(anchor.mapTo(window, QPoint(0, 0)), anchor.size()) if seen and anchor is not None else None
        self.highlight.surround(about)
        super().place(anchor if seen else None)

    def _next(self) -> None:
        self.number += 1
        if self.number >= len(self._hints):
            self.put_away()
        else:
            self._show()

    def _back(self) -> None:
        self.number = max(0, self.number - 1)
        self._show()

    def _show(self) -> None:
        hint = self._hints[self.number]
        last = self.number == len(self._hints) - 1
        self._title.setText(hint.title)
        self._text.setText(hint.text)
        self._count.setText(f"{self.number + 1} / {len(self._hints)}")
        self.next.setText(self.tr("Done") if last else self.tr("Next"))
        self.back.setEnabled(self.number > 0)
        if hint.part:
            self._reveal(hint.part)
        window = self.parentWidget()
        self.place(window.findChild(QWidget, hint.about) if window is not None else None)
        self.next.setFocus(Qt.FocusReason.OtherFocusReason)
