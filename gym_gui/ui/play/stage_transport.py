"""The buttons under the picture of a session: pause, one step, how fast, which seed, and back."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QSize, Qt, pyqtSignal
from PyQt6.QtWidgets import QWIDGETSIZE_MAX, QHBoxLayout, QSizePolicy, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.play.words import speed_words
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.steady_button import SteadyButton
from mosaic_protocol.live.messages import Command, Go, Pause, Restart, SingleStep, Speed, State, Undo

SPEEDS = (0.25, 0.5, 1.0, 2.0, 0.0)
"""0 is as fast as the environment can."""
_SPACING, _ICON_WIDTH, _AROUND_WORDS = 8, 38, 52
_NARROW = "padding-left: 4px; padding-right: 4px;"


class Transport(QWidget):
    """``wanted(Command)`` for each press. What it shows follows the states of the session, not the presses."""

    wanted = pyqtSignal(object)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._state = State()
        self._usable = False
        tr = self.tr
        self.pause = self._button(tr("Pause"), tr("Make no step until you go on (P)"), self._pause_or_go, primary=True)
        self.step = self._button(tr("Step"), tr("Make one step and pause (.)"), SingleStep)
        self.same = self._button(tr("Same seed"), tr("Begin this episode again (R)"), lambda: Restart("same"))
        self.next = self._button(
            tr("Next seed"), tr("Begin an episode with the next seed (N)"), lambda: Restart("next")
        )
        self.undo = self._button(tr("Undo"), "", Undo)
        helps = [
            tr("As fast as the environment can") if not times else tr("{times} the usual speed") for times in SPEEDS
        ]
        words = [speed_words(times) for times in SPEEDS]
        self.speeds = Segments(
            [
                (f"{times:g}", word, text.format(times=word))
                for times, word, text in zip(SPEEDS, words, helps, strict=True)
            ]
        )
        for segment in self.speeds.buttons.values():
            segment.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.speeds.choose("1")
        self.speeds.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.speeds.chosen.connect(self._speed_chosen)
        self._signs = {self.step: "one-step", self.same: "same-seed", self.next: "next-seed", self.undo: "undo"}
        self._titles = {button: button.text() for button in self._signs}
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(_SPACING)
        for widget in (self.pause, self.step, self.speeds):
            layout.addWidget(widget)
        layout.addStretch(1)
        for widget in (self.undo, self.same, self.next):
            layout.addWidget(widget)
        self._is_compact = self._is_tight = self._is_crowded = False
        self._wide_speeds = 0
        themes.changed.connect(self._dress)
        self._dress(themes.theme)
        self._tell_usable()

    def _button(
        self, title: str, tooltip: str, command: Callable[[], Command], *, primary: bool = False
    ) -> SteadyButton:
        button = SteadyButton(title)
        button.setToolTip(tooltip)
        button.setAccessibleName(title)
        if primary:
            button.setProperty("kind", "primary")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keyboard with the game
        button.clicked.connect(lambda: self._press(command()))
        return button

    def _press(self, command: Command) -> None:
        if self._usable and not (isinstance(command, Undo) and not self._state.can_undo):
            self.wanted.emit(command)

    def _pause_or_go(self) -> Command:
        return Go() if self._state.paused else Pause()

    def _speed_chosen(self, name: str) -> None:
        if float(name) != self._state.speed:
            self._press(Speed(float(name)))

    # ---- what is shown -------------------------------------------------------------------------------------------

    def show_state(self, state: State) -> None:
        before, self._state = self._state, state
        if state.paused != before.paused:
            self._tell_pause()
        if state.speed != before.speed:
            self._tell_speed()
        if state.can_undo != before.can_undo:
            self._tell_undo()

    def set_usable(self, usable: bool) -> None:
        """Whether there is a session that follows. Cheap to call again: it is, with every state."""
        if usable == self._usable:
            return
        self._usable = usable
        self._tell_usable()

    def _tell_usable(self) -> None:
        usable = self._usable
        for button in (self.pause, self.step, self.same, self.next):
            button.set_usable(usable)
        self.speeds.setEnabled(usable)
        self._tell_undo()

    def _tell_pause(self) -> None:
        paused = self._state.paused
        title = self.tr("Go") if paused else self.tr("Pause")
        _dress_as(self.pause, "" if self._is_tight else title)
        self.pause.setAccessibleName(title)
        self.pause.setToolTip(self.tr("Go on (P)") if paused else self.tr("Make no step until you go on (P)"))
        self._dress(self._themes.theme)

    def _tell_speed(self) -> None:
        """A speed that no button stands for leaves none pressed in: the chip over the picture says it."""
        name = f"{self._state.speed:g}"
        self.speeds.blockSignals(True)
        self.speeds.choose(name) if name in self.speeds.buttons else self.speeds.choose_none()
        self.speeds.blockSignals(False)

    def _tell_undo(self) -> None:
        left = self._state.can_undo
        self.undo.set_usable(self._usable and left > 0)
        can = self.tr("Go back one step (Ctrl+Z); {count} can be undone. What is undone stays recorded.")
        cannot = self.tr("Nothing to go back to: the episode begins here, or this environment's state cannot be kept.")
        self.undo.setToolTip(can.format(count=f"{left:,}") if left else cannot)

    # ---- the look ------------------------------------------------------------------------------------------------

    def fit(self, width: int) -> None:
        """In little room the buttons are icons, and their tooltips say what they do; Pause after the others. Then the
        speeds move together: squeezed by the layout, they would lose half of their words."""
        if not self._is_crowded:
            self._wide_speeds = self.speeds.sizeHint().width()
        compact = width < self._needed(texts=[*self._titles.values(), self.tr("Pause")], icons=0)
        tight = width < self._needed(texts=[self.tr("Pause")], icons=len(self._titles))
        crowded = width < self._needed(texts=[], icons=len(self._titles) + 1)
        if (compact, tight, crowded) == (self._is_compact, self._is_tight, self._is_crowded):
            return
        self._is_compact, self._is_tight, self._is_crowded = compact, tight, crowded
        for segment in self.speeds.buttons.values():
            segment.setStyleSheet(_NARROW if crowded else "")
        for button, title in self._titles.items():
            _dress_as(button, "" if compact else title)
        self._tell_pause()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def _needed(self, *, texts: list[str], icons: int) -> int:
        """The width with these buttons in words, and so many as icons."""
        metrics = self.pause.fontMetrics()
        words = sum(metrics.horizontalAdvance(title) + _AROUND_WORDS + _SPACING for title in texts)
        return words + icons * (_ICON_WIDTH + _SPACING) + self._wide_speeds + _SPACING

    def _dress(self, theme: Theme) -> None:
        for button, sign in self._signs.items():
            button.setIcon(icon(sign, theme.colour("text")))
        self.pause.setIcon(icon("run" if self._state.paused else "pause", theme.colour("on_fill")))


def _dress_as(button: SteadyButton, title: str) -> None:
    """With its title, or without one as narrow as an icon."""
    button.setText(title)
    button.setMinimumWidth(0 if title else _ICON_WIDTH)
    button.setMaximumWidth(QWIDGETSIZE_MAX if title else _ICON_WIDTH)
    button.setStyleSheet("" if title else _NARROW)
