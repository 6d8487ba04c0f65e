"""A plot as a picture: pixels at twice its size, or lines that scale. Used in the GUI's thread; writes a file each."""

from __future__ import annotations

from pathlib import Path

from PyQt6.QtCore import QRect, QRectF, QSize, Qt
from PyQt6.QtGui import QImage, QPainter
from PyQt6.QtSvg import QSvgGenerator

from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.theme import Theme

_SCALE = 2
_HEAD = 30
_LINE = 18
_MARGIN = 10


def write_png(path: Path, plot: CurvePlot, title: str, theme: Theme) -> None:
    """Raises OSError when the file cannot be written."""
    size = _size(plot)
    image = QImage(size * _SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(_SCALE)
    image.fill(theme.colour("panel"))
    painter = QPainter(image)
    try:
        _paint(painter, plot, title, theme)
    finally:
        painter.end()
    if not image.save(str(path), "PNG"):
        raise OSError(f"{path} could not be written: is the folder there, and may you write to it?")


def write_svg(path: Path, plot: CurvePlot, title: str, theme: Theme) -> None:
    """Raises OSError when the file cannot be written."""
    path.touch()  # the generator says nothing when it cannot write
    generator = QSvgGenerator()
    size = _size(plot)
    generator.setFileName(str(path))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle(title)
    painter = QPainter(generator)
    try:
        painter.fillRect(QRect(0, 0, size.width(), size.height()), theme.colour("panel"))
        _paint(painter, plot, title, theme)
    finally:
        painter.end()


def _size(plot: CurvePlot) -> QSize:
    return QSize(plot.width(), plot.height() + _HEAD + _LINE * len(plot.curves))


def _paint(painter: QPainter, plot: CurvePlot, title: str, theme: Theme) -> None:
    """Title and legend above, since a picture travels without the panel that has them."""
    width = plot.width() - 2 * _MARGIN
    painter.setPen(theme.colour("text"))
    heading = painter.font()
    plain = painter.font()
    heading.setBold(True)
    painter.setFont(heading)
    painter.drawText(QRect(_MARGIN, 0, width, _HEAD), Qt.AlignmentFlag.AlignVCenter, title)
    painter.setFont(plain)
    top = _HEAD
    for curve in plot.curves:
        line = QRect(_MARGIN, top, width, _LINE)
        painter.fillRect(QRect(line.left(), line.center().y() - 1, 14, 3), theme.curve(curve.colour))
        painter.setPen(theme.colour("muted"))
        painter.drawText(line.adjusted(22, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, curve.label)
        top += _LINE
    target = QRectF(0, top, plot.width(), plot.height())
    plot.show_cursor(None)
    plot.refresh(unseen=True)
    plot.scene().render(painter, target, plot.sceneRect())
