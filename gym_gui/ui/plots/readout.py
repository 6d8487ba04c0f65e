"""The little box beside the cursor: where it is, and what each curve is there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QLabel, QWidget

from gym_gui.ui.plots.axis_text import clock_text, seconds_text, value_text
from gym_gui.ui.plots.drawing import Curve, PlotOptions, value_at
from gym_gui.ui.plots.run_metrics import CLOCK, CPU, TIME
from gym_gui.ui.theme import Theme

_GAP = 12
_MOST_LINES = 10
_MOST_LETTERS = 36


class Readout(QLabel):
    """Floats over its plot, beside the cursor, wherever there is more room; never in the way of the mouse."""

    def __init__(self, plot: QWidget) -> None:
        super().__init__(plot)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setProperty("rich", True)
        self._look = ""
        self.hide()

    def tell(
        self, curves: Sequence[Curve], tag: str, x: float, options: PlotOptions, theme: Theme, left: float
    ) -> None:
        values = [(curve, value_at(curve, tag, x, options)) for curve in curves]
        shown = [(curve, value) for curve, value in values if value is not None]
        if not shown:
            self.hide()
            return
        self._dress(theme)
        self.setText(_html(shown, x, options, theme))
        self.adjustSize()
        parent = self.parentWidget()
        room = parent.width() if parent is not None else 0
        place = left + _GAP if left + _GAP + self.width() <= room else left - _GAP - self.width()
        self.move(max(0, round(place)), 8)
        self.show()

    def _dress(self, theme: Theme) -> None:
        if self._look != theme.name:
            self._look = theme.name
            self.setStyleSheet(
                f"background: {theme.raised}; color: {theme.text}; border: 1px solid {theme.strong_border};"
                "border-radius: 6px; padding: 4px 6px;"
            )


def _html(shown: Sequence[tuple[Curve, float]], x: float, options: PlotOptions, theme: Theme) -> str:
    where = _where(x, options.x)
    rows = "".join(
        f"<tr><td><span style='color:{theme.curve(curve.colour).name()}'>●</span> {escape(cut(curve.label))}"
        f"</td><td align='right' style='padding-left:10px'><b>{value_text(value)}</b></td></tr>"
        for curve, value in shown[:_MOST_LINES]
    )
    more = f"<br>+ {len(shown) - _MOST_LINES}" if len(shown) > _MOST_LINES else ""
    return f"<span style='color:{theme.muted}'>{where}</span><table cellspacing='0'>{rows}</table>{more}"


def _where(x: float, over: str) -> str:
    if over == CLOCK:
        return clock_text(x)
    return seconds_text(x, 0.1 if x < 10 else 1) if over in (TIME, CPU) else f"{x:,.0f}"


def cut(label: str) -> str:
    """A name that leaves room for others."""
    return label if len(label) <= _MOST_LETTERS else f"{label[: _MOST_LETTERS - 1]}…"
