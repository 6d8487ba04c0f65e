"""The one curve that matters most, large: smoothed, with the raw values behind it."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QSize, QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QVBoxLayout, QWidget

from gym_gui.ui.plots.drawing import Curve, PlotOptions
from gym_gui.ui.plots.plot_card import PlotCard
from gym_gui.ui.plots.plot_grid import REFRESH_MILLISECONDS
from gym_gui.ui.plots.tags import grouped
from gym_gui.ui.theme import Themes
from mosaic_protocol.headline import RETURN_TAG

_SMOOTHING = 0.9
_LEAST_HEIGHT, _FLAT_HEIGHT = 110, 60


class BigPlot(QWidget):
    """Shows ``tag``, or the first metric of runs that have no such. Draws at most ten times a second, and only while it
    can be seen."""

    def __init__(self, themes: Themes, tag: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes, self._tag = themes, tag
        self._curves: list[Curve] = []
        self._least_height = _LEAST_HEIGHT
        self._without_curve = ""
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.card = self._make(tag)
        self._timer = QTimer(self)
        self._timer.setInterval(REFRESH_MILLISECONDS)
        self._timer.timeout.connect(self._refresh)

    def _refresh(self) -> None:
        self.card.refresh()

    def set_curves(self, curves: Sequence[Curve]) -> None:
        tags = {tag for curve in curves for member in curve.members for tag in member.series}
        wanted = self._tag if self._tag in tags or not tags else next(iter(grouped(tags).values()))[0]
        if wanted != self.card.tag:
            self._layout.removeWidget(self.card)
            self.card.deleteLater()
            self.card = self._make(wanted)
            self.card.explain_nothing(self._without_curve)
        elif list(curves) == self._curves:
            return
        self._curves = list(curves)
        self.card.plot.set_curves(self._curves)

    def explain_nothing(self, sentence: str) -> None:
        """What to say while there is no curve."""
        self._without_curve = sentence
        self.card.explain_nothing(sentence)

    def make_flat(self, flat: bool) -> None:
        """Be content with very little height, or not."""
        self._least_height = _FLAT_HEIGHT if flat else _LEAST_HEIGHT
        self.card.plot.setMinimumHeight(self._least_height)

    def reset(self) -> None:
        """See the whole of whatever comes next."""
        self.card.plot.reset_view()

    def _make(self, tag: str) -> PlotCard:
        card = PlotCard(tag, self._themes, self, wheel_zooms=True)
        card.set_exportable(False)
        card.newest.setVisible(tag != RETURN_TAG)  # which stands beside it among the numbers
        card.plot.setMinimumHeight(self._least_height)
        card.explain(self.tr("smoothed, raw behind"))
        card.plot.set_options(PlotOptions(smoothing=_SMOOTHING))
        card.plot.cursor_moved.connect(lambda x: card.plot.show_cursor(x, readout=True))
        self._layout.addWidget(card)
        return card

    def sizeHint(self) -> QSize:
        """Modest, though it takes all there is: what scrolls around it would scroll for pyqtgraph's own wish."""
        return self.minimumSizeHint()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._timer.stop()
        super().hideEvent(event)
