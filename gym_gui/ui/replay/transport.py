"""The buttons under a replay: to the beginning, back, play, on, to the end, again and again, how fast, hand-overs."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.play.words import speed_words
from gym_gui.ui.replay.desk import ReplayDesk
from gym_gui.ui.replay.player import SPEEDS
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.segments import Segments

_ICON_ONLY = "QPushButton { padding: 5px 8px; min-width: 18px; }"
_KEY_ONLY = "QPushButton { padding: 5px 9px; min-width: 12px; font-weight: 600; }"
_SPACING = 6


class ReplayTransport(QWidget):
    """Acts on the desk."""

    def __init__(self, desk: ReplayDesk, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._desk, self._themes = desk, themes
        tr, player = self.tr, desk.player
        self.first = self._button(tr("First step"), tr("To the beginning (Home)"), lambda: self._go(0))
        self.back = self._button(tr("Back"), tr("One step back (←, with Shift ten)"), lambda: desk.step(-1))
        self.play = QPushButton()
        self.play.setProperty("kind", "primary")
        self.play.clicked.connect(player.toggle)
        self.on = self._button(tr("On"), tr("One step on (→, with Shift ten)"), lambda: desk.step(1))
        self.last = self._button(tr("Last step"), tr("To the end (End)"), lambda: self._go(None))
        self.loop = self._button(tr("Again and again"), tr("Begin again at the end"), self._toggle_loop)
        self.loop.setCheckable(True)
        helps = [tr("As fast as pictures come") if not times else tr("{times} the usual speed") for times in SPEEDS]
        words = [speed_words(times) for times in SPEEDS]
        self.speeds = Segments(
            [
                (f"{times:g}", word, text.format(times=word))
                for times, word, text in zip(SPEEDS, words, helps, strict=True)
            ]
        )
        self.speeds.choose(f"{player.speed:g}")
        self.speeds.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.speeds.chosen.connect(lambda name: player.set_speed(float(name)))
        self.previous_turn = self._key("[", tr("To the hand-over before"), lambda: desk.hand_over(forwards=False))
        self.next_turn = self._key("]", tr("To the next hand-over"), lambda: desk.hand_over(forwards=True))
        self.turns = QLabel(tr("hand-overs"))
        self.turns.setProperty("role", "muted")
        self._lay_out()
        themes.changed.connect(self._dress)
        player.changed.connect(lambda: self._dress(themes.theme))
        desk.told.connect(self._tell)
        desk.opened.connect(self._tell)
        self._dress(themes.theme)
        self._tell()

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(_SPACING)
        for widget in (self.first, self.back, self.play, self.on, self.last, self.loop):
            layout.addWidget(widget)
        layout.addSpacing(_SPACING)
        layout.addWidget(self.speeds)
        layout.addStretch(1)
        for at_the_end in (self.previous_turn, self.next_turn, self.turns):
            layout.addWidget(at_the_end)

    def fit(self, width: int) -> None:
        """In this much room: where it is narrow the words go, then what has a key of its own. By what the buttons need,
        which depends on the font."""
        kept = (self.back, self.play, self.on, self.loop, self.speeds)
        with_keys = (self.previous_turn, self.next_turn, self.first, self.last)
        roomy = width >= _width_of(*kept, *with_keys)
        for widget in with_keys:
            widget.setVisible(roomy)
        self.turns.setVisible(width >= _width_of(*kept, *with_keys, self.turns))

    def _button(self, name: str, tooltip: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton()
        button.setAccessibleName(name)
        button.setToolTip(tooltip)
        button.setStyleSheet(_ICON_ONLY)
        button.clicked.connect(lambda *_: act())
        return button

    def _key(self, key: str, tooltip: str, act: Callable[[], object]) -> QPushButton:
        button = self._button(tooltip, f"{tooltip} ({key})", act)
        button.setText(key)
        button.setStyleSheet(_KEY_ONLY)
        return button

    def _go(self, place: int | None) -> None:
        now = self._desk.current
        if now is not None:
            self._desk.player.pause()
            self._desk.seek(now.steps if place is None else place)

    def _toggle_loop(self) -> None:
        self._desk.player.set_loops(self.loop.isChecked())

    def _dress(self, theme: Theme) -> None:
        player, colour = self._desk.player, theme.colour("text")
        for button, sign in (
            (self.first, "first-step"),
            (self.back, "step-back"),
            (self.on, "one-step"),
            (self.last, "last-step"),
            (self.loop, "loop"),
        ):
            button.setIcon(icon(sign, theme.colour("accent") if button.isChecked() else colour))
        self.play.setText(self.tr("Pause") if player.is_playing else self.tr("Play"))
        self.play.setAccessibleName(self.play.text())
        self.play.setToolTip(self.tr("Stand still (Space)") if player.is_playing else self.tr("Play on (Space)"))
        self.play.setIcon(icon("pause" if player.is_playing else "run", theme.colour("on_fill")))
        if player.loops != self.loop.isChecked():
            self.loop.setChecked(player.loops)

    def _tell(self) -> None:
        now = self._desk.current
        for button in (self.first, self.back, self.play, self.on, self.last, self.loop):
            button.setEnabled(now is not None and now.steps > 0)
        record = now.record if now is not None else None
        turns = record is not None and bool(record.hand_overs)
        for button in (self.previous_turn, self.next_turn):
            button.setEnabled(turns)


def _width_of(*widgets: QWidget) -> int:
    """Side by side, with what stands between them."""
    return sum(widget.sizeHint().width() + _SPACING for widget in widgets) + 2 * _SPACING
