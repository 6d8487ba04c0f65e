"""Pictures of histograms, painted by hand: the shares of all steps as colours, and one step as bars."""

from __future__ import annotations

import numpy as np
from PyQt6.QtCore import QPointF, QRectF, QSize, Qt, pyqtSignal
from PyQt6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import QSizePolicy, QWidget

from gym_gui.services.scalars.histograms import Heat
from gym_gui.ui.mind.heat import shade
from gym_gui.ui.plots.axis_text import steps_text, value_text
from gym_gui.ui.theme import Themes

_LEFT, _BELOW, _SHADES = 52, 18, 64
_MOST_BRIGHT = 0.98
"""The share of all cells below the brightest colour: one full cell would leave the others dark."""


class HeatView(QWidget):
    """Steps to the right, values upwards; the more of a step's values lie at a place, the more colour. ``picked(int)``
    brings the number of the step that was clicked."""

    picked = pyqtSignal(int)

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.heat: Heat | None = None
        self.place = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(110)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip(self.tr("The more of a step's values lie at a place, the more colour. A click chooses a step."))
        themes.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(320, 150)

    def show_heat(self, heat: Heat, place: int) -> None:
        self.heat, self.place = heat, place
        self.update()

    def _area(self) -> QRectF:
        return QRectF(_LEFT, 4, max(1, self.width() - _LEFT - 6), max(1, self.height() - _BELOW - 4))

    def columns(self) -> list[int]:
        """Which step each column of the picture shows: the steps are where they belong, however far apart."""
        heat = self.heat
        if heat is None or not heat.steps:
            return []
        steps = np.array(heat.steps, np.float64)
        across = np.linspace(steps[0], steps[-1], max(1, min(400, round(self._area().width()))))
        return list(np.abs(across[:, None] - steps).argmin(axis=1)) if len(steps) <= 1000 else []

    def image(self) -> QImage | None:
        columns, heat = self.columns(), self.heat
        if heat is None or not columns:
            return None
        brightest = float(np.quantile(heat.shares[heat.shares > 0], _MOST_BRIGHT)) if heat.shares.any() else 1.0
        look = self._themes.theme.name
        ramp = np.array([shade(number / (_SHADES - 1), look) for number in range(_SHADES)], np.uint8)
        numbers = np.clip(heat.shares / max(brightest, 1e-12), 0, 1) ** 0.6 * (_SHADES - 1)
        ground = self._themes.theme.colour("field")
        pixels = ramp[numbers.astype(np.intp)]
        pixels[heat.shares <= 0] = (ground.red(), ground.green(), ground.blue())
        picture = np.ascontiguousarray(pixels[::-1][:, columns])
        rows, width = picture.shape[:2]
        return QImage(picture.tobytes(), width, rows, 3 * width, QImage.Format.Format_RGB888).copy()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        image, heat = self.image(), self.heat
        if image is None or heat is None:
            return
        painter, theme, area = QPainter(self), self._themes.theme, self._area()
        painter.drawImage(area, image)
        painter.setPen(QPen(theme.colour("text"), 1))
        x = self._x_of(self.place)
        painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
        painter.setPen(theme.colour("muted"))
        font = painter.font()
        font.setPointSize(8)
        painter.setFont(font)
        side = Qt.AlignmentFlag.AlignRight
        values = QRectF(0, area.top() - 2, _LEFT - 6, area.height() + 4)
        painter.drawText(values, side | Qt.AlignmentFlag.AlignTop, value_text(float(heat.edges[-1])))
        painter.drawText(values, side | Qt.AlignmentFlag.AlignBottom, value_text(float(heat.edges[0])))
        below = QRectF(area.left(), area.bottom() + 2, area.width(), _BELOW)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, steps_text(heat.steps[0]))
        if len(heat.steps) > 1:
            painter.drawText(below, side, steps_text(heat.steps[-1]))

    def _x_of(self, place: int) -> float:
        heat, area = self.heat, self._area()
        if heat is None or len(heat.steps) < 2 or heat.steps[-1] == heat.steps[0]:
            return area.center().x()
        share = (heat.steps[place] - heat.steps[0]) / (heat.steps[-1] - heat.steps[0])
        return area.left() + share * area.width()

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        if event is None or self.heat is None or not self.heat.steps:
            return
        distances = [abs(self._x_of(place) - event.position().x()) for place in range(len(self.heat.steps))]
        self.picked.emit(int(np.argmin(distances)))


class BarsView(QWidget):
    """One histogram over its own range."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.heat: Heat | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(76)
        themes.changed.connect(self.update)

    def show_heat(self, heat: Heat) -> None:
        self.heat = heat
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        heat = self.heat
        if heat is None or not heat.shares.any():
            return
        painter, theme, shares = QPainter(self), self._themes.theme, heat.shares[:, 0]
        left, base = _LEFT, self.height() - _BELOW
        step = (self.width() - left - 6) / len(shares)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("accent"))
        for number, share in enumerate(shares):
            high = float(share / shares.max()) * (base - 4)
            painter.drawRect(QRectF(left + number * step, base - high, max(1.0, step - 1), high))
        painter.setPen(theme.colour("muted"))
        font = painter.font()
        font.setPointSize(8)
        painter.setFont(font)
        below = QRectF(left, base + 2, self.width() - left - 6, _BELOW)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, value_text(float(heat.edges[0])))
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, value_text(float(heat.edges[-1])))


class PictureView(QWidget):
    """A picture as large as there is room, in its proportions; small ones in whole pixels."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.image: QImage | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(190)

    def show_image(self, image: QImage | None) -> None:
        self.image = image
        self.update()

    def paintEvent(self, event: QPaintEvent | None) -> None:
        if self.image is None:
            return
        width, height = self.image.width(), self.image.height()
        scale = min(self.width() / width, self.height() / height)
        if scale > 1:
            scale = float(int(scale))
        wide, high = max(1, int(width * scale)), max(1, int(height * scale))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, scale < 1)
        place = QRectF((self.width() - wide) // 2, (self.height() - high) // 2, wide, high)
        painter.drawImage(place, self.image)
