"""What of a sweep's budget is used, and for what: one bar, and under it what its colours mean."""

from __future__ import annotations

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.services.run_words import counted
from gym_gui.services.sweeps.insight import Budget
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.theme import Theme, Themes, blended
from gym_gui.ui.widgets.elided_label import ElidedLabel

PARTS = ("finished", "going_on", "pruned", "left")
_HEIGHT = 14


def part_colour(part: str, theme: Theme) -> QColor:
    if part == "finished":
        return theme.colour("accent")
    if part == "going_on":
        return blended(theme.colour("accent"), theme.colour("panel"), 0.55)
    return theme.colour("idle") if part == "pruned" else theme.colour("raised")


class BudgetBar(QWidget):
    """Shows a :class:`Budget`; ``pruned``: how many trials were."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.used = ElidedLabel()
        self.saved = QLabel()
        self.strip = _Strip(themes)
        self.legend = _Legend(themes)
        top = QHBoxLayout()
        top.setContentsMargins(0, 0, 0, 0)
        top.addWidget(self.used)
        top.addStretch(1)
        top.addWidget(self.saved)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(5)
        layout.addLayout(top)
        layout.addWidget(self.strip)
        layout.addWidget(self.legend)

    def show_budget(self, budget: Budget, pruned: int) -> None:
        shown, unit = budget.shown, self.tr("steps") if budget.in_steps else self.tr("trials")
        self.used.setText(
            self.tr("{used} of {whole} {unit} used").format(
                used=shown(budget.used), whole=shown(budget.whole), unit=unit
            )
        )
        set_style_property(self.saved, "role", "good" if budget.saved else "muted")
        self.saved.setText(
            self.tr("{saved} steps saved by pruning {trials}").format(
                saved=shown(budget.saved), trials=counted(pruned, "trial")
            )
            if budget.saved
            else ""
        )
        amounts = [getattr(budget, part) for part in PARTS]
        titles = (self.tr("finished"), self.tr("going on"), self.tr("pruned"), self.tr("left"))
        self.strip.show_amounts(amounts)
        self.legend.show_words([f"{title} {shown(amount)}" for title, amount in zip(titles, amounts, strict=True)])
        told = ", ".join(self.legend.words)
        self.strip.setAccessibleDescription(told)
        self.strip.setToolTip(
            self.tr("{told} {unit}. What is left is at most that: pruning takes from it.").format(told=told, unit=unit)
        )

    def make_flat(self, flat: bool) -> None:
        """Where there is little room the colours explain themselves in the tooltip."""
        self.legend.setVisible(not flat)


class _Strip(QWidget):
    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self._themes = themes
        self.amounts: list[int] = []
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Budget of the sweep"))
        themes.changed.connect(self.update)

    def show_amounts(self, amounts: list[int]) -> None:
        self.amounts = amounts
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, room = self._themes.theme, QRectF(self.rect())
        round_ends = QPainterPath()
        round_ends.addRoundedRect(room, 3, 3)
        painter.setClipPath(round_ends)
        painter.fillRect(room, part_colour("left", theme))
        whole, left = max(1, sum(self.amounts)), room.left()
        for part, amount in zip(PARTS, self.amounts, strict=False):
            width = room.width() * amount / whole
            painter.fillRect(QRectF(left, room.top(), width, room.height()), part_colour(part, theme))
            left += width
        painter.end()


class _Legend(QWidget):
    """Painted, so that what has no room is left out whole."""

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self._themes = themes
        self.words: list[str] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        themes.changed.connect(self.update)

    def show_words(self, words: list[str]) -> None:
        self.words = words
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(100, self.fontMetrics().height() + 2)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme, metrics = self._themes.theme, self.fontMetrics()
        left, middle = 0.0, self.height() / 2
        for part, word in zip(PARTS, self.words, strict=False):
            width = metrics.horizontalAdvance(word)
            if left + 14 + width > self.width():
                break
            painter.setPen(theme.colour("strong_border") if part == "left" else Qt.PenStyle.NoPen)
            painter.setBrush(part_colour(part, theme))
            painter.drawRoundedRect(QRectF(left + 0.5, middle - 4.5, 9, 9), 2, 2)
            painter.setPen(theme.colour("muted"))
            painter.drawText(QRectF(left + 15, 0, width + 2, self.height()), Qt.AlignmentFlag.AlignVCenter, word)
            left += 15 + width + 18
        painter.end()
