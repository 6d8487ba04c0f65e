"""What the policy that plays or watches thinks of each action, as bars."""

from __future__ import annotations

from dataclasses import dataclass

from PyQt6.QtCore import QPointF, QRectF, QSize, Qt
from PyQt6.QtGui import QFont, QFontMetricsF, QPainter, QPaintEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.play.actors import HUMAN, POLICY, actor_colour, actor_icon, last_actor
from gym_gui.ui.play.words import signed
from gym_gui.ui.styling import tell
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel
from mosaic_protocol.live.messages import Hello, State
from mosaic_protocol.plain_text import one_line

MOST_BARS = 9
_ROW = 22.0
_NUMBER = 52.0
_ICONS = 40.0
_ICON = 15


@dataclass(frozen=True)
class Bar:
    """One action: how long its bar is (0 to 1), its number, and who chose it."""

    name: str
    share: float
    number: str
    preferred: bool
    chosen: bool


def bars_of(hello: Hello | None, state: State) -> list[Bar]:
    """The actions in their order; of very many the most promising. ``chosen`` is the last action of a person."""
    names = hello.action_names if hello is not None else ()
    advice = state.advice
    if not advice:
        return []
    low, high = min(advice), max(advice)
    if state.advice_kind == "probability":
        shares = [min(1.0, max(0.0, one)) for one in advice]
        numbers = [f"{one:.2f}" for one in advice]
    else:
        shares = [(one - low) / (high - low) if high > low else 1.0 for one in advice]
        numbers = [signed(one, 3) for one in advice]
    words = [one_line(names[at]) if at < len(names) else str(at) for at in range(len(advice))]
    best = advice.index(high)
    preferred = words.index(state.prefers) if state.prefers in words else best
    mine = last_actor(state) == HUMAN
    bars = [
        Bar(word, share, number, at == preferred, mine and word == state.action)
        for at, (word, share, number) in enumerate(zip(words, shares, numbers, strict=True))
    ]
    if len(bars) > MOST_BARS:
        kept = sorted(range(len(bars)), key=lambda at: (not bars[at].preferred, not bars[at].chosen, -shares[at]))
        bars = [bars[at] for at in sorted(kept[:MOST_BARS])]
    return bars


class AdviceBars(QWidget):
    """Paints bars; as high as they need."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.bars: list[Bar] = []
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("What the policy thinks of each action"))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(220, int(_ROW * len(self.bars)))

    def show_bars(self, bars: list[Bar]) -> None:
        if bars == self.bars:
            return
        others = len(bars) != len(self.bars)
        self.bars = bars
        self.setAccessibleDescription(", ".join(f"{bar.name} {bar.number}" for bar in bars))
        if others:
            self.updateGeometry()
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = QFontMetricsF(self._font(bold=True))
        widest = max((metrics.horizontalAdvance(bar.name) for bar in self.bars), default=0.0)
        names = min(widest + 14, self.width() * 0.38)
        length = max(20.0, self.width() - names - _NUMBER - _ICONS)
        vertical = Qt.AlignmentFlag.AlignVCenter
        for number, bar in enumerate(self.bars):
            top = number * _ROW
            painter.setFont(self._font(bold=bar.preferred))
            painter.setPen(theme.colour("text" if bar.preferred or bar.chosen else "muted"))
            name = metrics.elidedText(bar.name, Qt.TextElideMode.ElideRight, names - 12)
            painter.drawText(QRectF(0, top, names, _ROW), vertical | Qt.AlignmentFlag.AlignLeft, name)
            groove = QRectF(names, top + _ROW / 2 - 4, length, 8)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.colour("raised"))
            painter.drawRoundedRect(groove, 2, 2)
            colour = actor_colour(POLICY, theme)
            colour.setAlphaF(1.0 if bar.preferred else 0.5)
            painter.setBrush(colour)
            painter.drawRoundedRect(QRectF(groove.left(), groove.top(), max(2.0, length * bar.share), 8), 2, 2)
            painter.setFont(self.font())
            painter.setPen(theme.colour("text"))
            room = QRectF(names + length, top, _NUMBER - 4, _ROW)
            painter.drawText(room, vertical | Qt.AlignmentFlag.AlignRight, bar.number)
            at = names + length + _NUMBER
            for actor, is_its in ((HUMAN, bar.chosen), (POLICY, bar.preferred)):
                if is_its:
                    picture = icon(actor_icon(actor), actor_colour(actor, theme)).pixmap(QSize(_ICON, _ICON))
                    painter.drawPixmap(QPointF(at, top + (_ROW - _ICON) / 2), picture)
                    at += _ICON + 3

    def _font(self, *, bold: bool) -> QFont:
        font = QFont(self.font())
        if bold:
            font.setWeight(QFont.Weight.DemiBold)
        return font


class AdviceCard(QFrame):
    """Hidden while no policy plays or watches."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.title = ElidedLabel()
        bold = QFont(self.title.font())
        bold.setWeight(QFont.Weight.DemiBold)
        self.title.setFont(bold)
        self.step = QLabel()
        self.step.setProperty("role", "muted")
        self.bars = AdviceBars(themes)
        self.sentence = QLabel()
        self.sentence.setWordWrap(True)
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self.title, 1)
        head.addWidget(self.step)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 8, 12, 8)
        layout.setSpacing(4)
        layout.addLayout(head)
        layout.addWidget(self.bars)
        layout.addWidget(self.sentence)
        self.hide()

    def show_state(self, hello: Hello | None, state: State, policy: str) -> None:
        """``policy``: what the policy is called; without one there is nothing to show."""
        self.setVisible(bool(policy))
        if not policy:
            return
        self.title.setText(self.tr("What {policy} would do").format(policy=policy))
        self.step.setText(self.tr("step {number}").format(number=f"{state.step + 1:,}"))
        self.bars.show_bars(bars_of(hello, state))
        self.bars.setVisible(bool(state.advice))
        tell(self.sentence, self._words(state, policy), "muted")

    def _words(self, state: State, policy: str) -> str:
        expects = self.tr("It expects a return of {value}.").format(value=signed(state.value))
        after = f" {expects}" if state.value is not None else ""
        if not state.prefers:
            return self.tr("It has not said anything yet.") if not state.advice else after.strip()
        prefers = one_line(state.prefers)
        if last_actor(state) == HUMAN and state.action and state.step:
            told = self.tr("You chose {mine}, {policy} now prefers {its}.")
            return told.format(mine=one_line(state.action), policy=policy, its=prefers) + after
        return self.tr("{policy} prefers {its}.").format(policy=policy, its=prefers) + after
