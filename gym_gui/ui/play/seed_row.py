"""The seed of the next episode: its value, a throw of the dice, and the one after it."""

from __future__ import annotations

import random

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QWidget

from gym_gui.services.play_sessions import LARGEST_SEED
from gym_gui.ui.forms.field_editor import LABEL_WIDTH
from gym_gui.ui.icons import icon
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.calm import CalmSpinBox

_MOST_DICE = 100_000
"""Small enough to be read aloud."""


class SeedRow(QWidget):
    """``wanted(int)`` when a person decided on a seed: with Return, by the dice or by *next*."""

    wanted = pyqtSignal(int)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.value = CalmSpinBox()
        self.value.setRange(0, LARGEST_SEED - 1)
        self.value.setValue(1)
        self.value.setButtonSymbols(CalmSpinBox.ButtonSymbols.NoButtons)
        self.value.setKeyboardTracking(False)
        self.value.setMinimumWidth(48)
        self.value.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # not as wide as all digits
        self.value.setAccessibleName(self.tr("Seed"))
        self.value.setToolTip(self.tr("Decides how the first episode begins; Return begins it again in a session"))
        self.value.editingFinished.connect(self._typed)
        self.value.valueChanged.connect(lambda _: self._name_next())
        self.dice = QToolButton()
        self.dice.setToolTip(self.tr("Any seed"))
        self.dice.setAccessibleName(self.tr("Any seed"))
        self.dice.clicked.connect(lambda: self._take(random.randrange(_MOST_DICE)))
        self.next = QPushButton()
        self.next.setProperty("kind", "flat")
        self.next.setStyleSheet("QPushButton { padding: 6px 4px; }")
        self.next.setToolTip(self.tr("The next seed; in a session its episode begins at once"))
        self.next.clicked.connect(lambda: self._take(self.value.value() + 1))
        label = QLabel(self.tr("Seed"))
        label.setFixedWidth(LABEL_WIDTH)
        label.setBuddy(self.value)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(label)
        layout.addWidget(self.value, 1)
        layout.addWidget(self.dice)
        layout.addWidget(self.next)
        themes.changed.connect(self._dress)
        self._dress(themes.theme)
        self._name_next()
        self._typed_before = self.value.value()

    @property
    def seed(self) -> int:
        return self.value.value()

    def put(self, seed: int) -> None:
        """Show this one; not while a person types another."""
        if not self.value.hasFocus() and seed != self.value.value():
            self.value.blockSignals(True)
            self.value.setValue(seed)
            self.value.blockSignals(False)
            self._typed_before = self.value.value()
            self._name_next()

    def _typed(self) -> None:
        if self.value.value() != self._typed_before:
            self._typed_before = self.value.value()
            self.wanted.emit(self.value.value())

    def _take(self, seed: int) -> None:
        self.value.setValue(seed)
        self._typed_before = self.value.value()
        self.wanted.emit(self.value.value())

    def _name_next(self) -> None:
        self.next.setText(self.tr("next: {seed}").format(seed=self.value.value() + 1))
        self.next.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def _dress(self, theme: Theme) -> None:
        self.dice.setIcon(icon("dice", theme.colour("text")))
