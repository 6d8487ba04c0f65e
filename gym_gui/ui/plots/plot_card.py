"""One plot with its title, its newest value and what can be done with it."""

from __future__ import annotations

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QMenu, QToolButton, QVBoxLayout, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.plots.axis_text import value_text
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.drawing import extent, last_value
from gym_gui.ui.plots.tags import title_of
from gym_gui.ui.theme import Theme, Themes
from mosaic_protocol.headline import LENGTH_TAG, RECENT_EPISODES, RETURN_TAG

PLOT_HEIGHT = 170
_EPISODIC = (RETURN_TAG, LENGTH_TAG)


class PlotCard(QFrame):
    """``export_wanted(tag, kind)`` with kind "png", "svg" or "csv"."""

    export_wanted = pyqtSignal(str, str)

    def __init__(self, tag: str, themes: Themes, parent: QWidget | None = None, *, wheel_zooms: bool = False) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.tag = tag
        self._themes = themes
        self.plot = CurvePlot(tag, themes, wheel_zooms=wheel_zooms)
        self.plot.setMinimumHeight(PLOT_HEIGHT)
        help_text = self.tr("{tag}\nDrag to zoom in, double-click to see everything, Ctrl and wheel to zoom.")
        self.plot.setAccessibleName(title_of(tag))
        self.title = QLabel(title_of(tag))
        self.title.setToolTip(help_text.format(tag=tag))
        self.newest = QLabel()
        self.newest.setProperty("role", "muted")
        self.newest.setToolTip(
            self.tr("Mean of the last {count} episodes").format(count=RECENT_EPISODES)
            if tag in _EPISODIC
            else self.tr("Where the curve ends, smoothed as it is drawn")
        )
        self._without_points = self.tr("no numbers yet")
        self._hint = QLabel(self.plot)
        self._hint.setProperty("role", "muted")
        self._hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._hint.setWordWrap(True)
        self._hint.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 5, 5, 4)
        layout.setSpacing(0)
        layout.addLayout(self._header())
        layout.addWidget(self.plot, 1)
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    def _header(self) -> QHBoxLayout:
        self._reset = QToolButton()
        self._reset.setToolTip(self.tr("See the whole curve again (double-click)"))
        self._reset.setAccessibleName(self.tr("Reset the view of {plot}").format(plot=self.title.text()))
        self._reset.clicked.connect(self.plot.reset_view)
        self._reset.hide()
        self.plot.zoomed.connect(self._reset.setVisible)
        self._more = QToolButton()
        self._more.setToolTip(self.tr("Save this plot as a picture or as a table"))
        self._more.setAccessibleName(self.tr("Export {plot}").format(plot=self.title.text()))
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._more.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        self._more.setMenu(self._menu())
        self._about = QLabel()
        self._about.setProperty("role", "muted")
        header = QHBoxLayout()
        header.setSpacing(6)
        header.addWidget(self.title)
        header.addWidget(self._about)
        header.addStretch(1)
        header.addWidget(self.newest)
        header.addWidget(self._reset)
        header.addWidget(self._more)
        return header

    def _menu(self) -> QMenu:
        menu = QMenu(self)
        for kind, text in (
            ("png", self.tr("Save as PNG…")),
            ("svg", self.tr("Save as SVG…")),
            ("csv", self.tr("Save all points as CSV…")),
        ):
            action = menu.addAction(text)
            assert action is not None
            action.triggered.connect(lambda *_, kind=kind: self.export_wanted.emit(self.tag, kind))
        return menu

    def set_exportable(self, exportable: bool) -> None:
        self._more.setVisible(exportable)

    def explain(self, text: str) -> None:
        """A word beside the title about how the curve is drawn."""
        self._about.setText(text)

    def explain_nothing(self, sentence: str) -> None:
        """What an empty plot says; at once, since nothing new is ever drawn of a run that is over."""
        if sentence != self._without_points:
            self._without_points = sentence
            self._show_hint()

    def refresh(self) -> bool:
        """Draw what is new; whether there was anything."""
        if not self.plot.refresh():
            return False
        self.newest.setText(self._newest_text())
        self._show_hint()
        return True

    def _newest_text(self) -> str:
        """The number that the curve has come to. Of returns and lengths it is the mean that every listing shows: where
        the smoothed curve ends depends on the smoothing, and would be one more return on the screen."""
        curves = self.plot.curves
        if len(curves) != 1:
            return ""
        if self.tag not in _EPISODIC:
            value = last_value(curves[0], self.tag, self.plot.options)
            return value_text(value) if value is not None else ""
        members = curves[0].having(self.tag)
        mean = members[0].recent_episodes(self.tag) if len(members) == 1 else None
        words = self.tr("last {count}: {value}")
        return words.format(count=RECENT_EPISODES, value=value_text(mean)) if mean is not None else ""

    def _show_hint(self) -> None:
        """An empty plot says why it is."""
        options, curves = self.plot.options, self.plot.curves
        shown = self.plot.has_points
        self._hint.setVisible(not shown)
        if shown:
            return
        logarithmic = options.log_y or (options.log_x and extent(curves, self.tag, options) is None)
        text = self.tr("nothing above zero to show on a logarithmic axis") if logarithmic else self._without_points
        self._hint.setText(text)
        self._hint.setGeometry(self.plot.rect())

    def _dress(self, theme: Theme) -> None:
        self._reset.setIcon(icon("reset", theme.colour("muted")))
        self._more.setIcon(icon("export", theme.colour("muted")))
