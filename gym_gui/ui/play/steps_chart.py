"""The return of the episode that is played, step by step, in the colours of who acted."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyqtgraph as pg
from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QWheelEvent
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.play.actors import actor_colour
from gym_gui.ui.plots.axes import ProgressAxis, ValueAxis, dress
from gym_gui.ui.plots.series_buffer import Floats
from gym_gui.ui.theme import Theme, Themes

MOST_POINTS = 2000


class ReturnCurve:
    """Points of one episode in bounded room: (step, return, who acted). Without Qt."""

    def __init__(self) -> None:
        self.episode: int | None = None
        self.points: list[tuple[int, float, str]] = []

    def add(self, episode: int, step: int, total: float | None, actor: str) -> bool:
        """Take a point; whether anything changed. An earlier step of the same episode takes back what came after it.
        A point that is there already stays its actor's: a step that was gone back to was not made again."""
        if episode != self.episode:
            self.episode, self.points = episode, []
        while self.points and self.points[-1][0] >= step:
            if self.points[-1][:2] == (step, total):
                return False
            self.points.pop()
        if total is None or not math.isfinite(total):
            return False
        self.points.append((step, total, actor))
        if len(self.points) > MOST_POINTS:
            # Every second one of the older points: the course stays, and what happens now stays exact.
            half = len(self.points) // 2
            self.points = [*self.points[:half:2], *self.points[half:]]
        return True

    def add_reward(self, episode: int, step: int, reward: float | None, actor: str) -> bool:
        """Take a step by its reward; whether anything changed. The return is known where that of the step before is, or
        nothing came before."""
        before = 0.0 if step == 1 else self._total_at(episode, step - 1)
        if before is None and episode == self.episode:
            return False
        return self.add(episode, step, None if before is None or reward is None else before + reward, actor)

    def _total_at(self, episode: int, step: int) -> float | None:
        if episode != self.episode:
            return None
        return next((total for at, total, _ in reversed(self.points) if at == step), None)

    def clear(self) -> None:
        self.episode, self.points = None, []

    def pieces(self) -> dict[str, tuple[Floats, Floats]]:
        """For each actor its part of the curve, with NaN where others acted. A line begins where the last one ended."""
        steps = np.array([step for step, _, _ in self.points], dtype=np.float64)
        totals = np.array([total for _, total, _ in self.points], dtype=np.float64)
        actors = np.array([actor for _, _, actor in self.points], dtype=object)
        found: dict[str, tuple[Floats, Floats]] = {}
        for actor in dict.fromkeys(actors.tolist()):
            own = actors == actor
            drawn = own.copy()
            drawn[:-1] |= own[1:]
            found[actor] = (steps, np.where(drawn, totals, np.nan))
        return found


class ReturnChart(pg.PlotWidget):  # type: ignore[misc]
    """Draws a :class:`ReturnCurve` when :meth:`refresh` is called and something is new."""

    def __init__(self, curve: ReturnCurve, themes: Themes, parent: QWidget | None = None) -> None:
        self._across, self._up = ProgressAxis(), ValueAxis()
        super().__init__(parent, axisItems={"bottom": self._across, "left": self._up})
        self._curve, self._themes = curve, themes
        self._items: dict[str, pg.PlotCurveItem] = {}
        self._drawn: object = None
        plot = self.getPlotItem()
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.showGrid(x=True, y=True, alpha=0.35)
        plot.setMouseEnabled(x=False, y=False)
        plot.setContentsMargins(0, 4, 6, 0)
        self.getViewBox().setDefaultPadding(0.04)
        self.setFrameShape(self.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setMinimumHeight(90)
        self.setAccessibleName(self.tr("Return of the episode"))
        self._show_numbers()
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    def sizeHint(self) -> QSize:
        return QSize(240, 130)

    def refresh(self) -> None:
        points = self._curve.points
        state = (self._curve.episode, len(points), points[-1] if points else None)
        if state == self._drawn:
            return
        self._drawn = state
        self._show_numbers()
        pieces = self._curve.pieces()
        for actor in [actor for actor in self._items if actor not in pieces]:
            self.removeItem(self._items.pop(actor))
        for actor, (x, y) in pieces.items():
            if actor not in self._items:
                self._items[actor] = pg.PlotCurveItem(pen=pg.mkPen(actor_colour(actor, self._themes.theme), width=1))
                self.addItem(self._items[actor])
            self._items[actor].setData(x, y, connect="finite")

    def _show_numbers(self) -> None:
        """Axes of an empty chart would number what nobody measured, and those of one point what no line shows yet."""
        for axis in (self._across, self._up):
            axis.setStyle(showValues=len(self._curve.points) > 1)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The wheel scrolls what is around."""
        event.ignore()

    def _dress(self, theme: Theme) -> None:
        self.setBackground(theme.colour("panel"))
        for axis in (self._across, self._up):
            dress(axis, theme)
        for actor, item in self._items.items():
            item.setPen(pg.mkPen(actor_colour(actor, theme), width=1))


def running_totals(rewards: Iterable[float | None], start: float = 0.0) -> list[float | None]:
    """The return after each reward; None from a reward on that is no number."""
    totals: list[float | None] = []
    total: float | None = start
    for reward in rewards:
        total = None if reward is None or total is None else total + reward
        totals.append(total)
    return totals
