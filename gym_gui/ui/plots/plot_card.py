"""One plot with its title, its newest value and what can be done with it."""

from __future__ import annotations

from PyQt6.QtCore import QPoint, Qt, pyqtSignal
from PyQt6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent
from PyQt6.QtWidgets import QFrame, QHBoxLayout, QLabel, QMenu, QToolButton, QVBoxLayout, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.models.extra_columns import lower_is_better
from gym_gui.ui.plots.axis_text import value_text
from gym_gui.ui.plots.chart_arranging import ChartArranger
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.drag_title import DragTitle
from gym_gui.ui.plots.drawing import extent, last_value
from gym_gui.ui.plots.run_metrics import CPU
from gym_gui.ui.plots.tags import title_of
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.elided_label import ElidedLabel
from mosaic_protocol.headline import LENGTH_TAG, RECENT_EPISODES, RETURN_TAG

PLOT_HEIGHT = 170
_EPISODIC = (RETURN_TAG, LENGTH_TAG)


class PlotCard(QFrame):
    """``export_wanted(tag, kind)`` with kind "png", "svg" or "csv"; ``step_wanted(across, down)`` when an arrow key
    asks for a neighbour. With :meth:`let_arrange` it takes the focus and can be moved and hidden."""

    export_wanted = pyqtSignal(str, str)
    step_wanted = pyqtSignal(int, int)

    def __init__(self, tag: str, themes: Themes, parent: QWidget | None = None, *, wheel_zooms: bool = False) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.tag = tag
        self._themes = themes
        self.plot = CurvePlot(tag, themes, wheel_zooms=wheel_zooms)
        self.plot.setMinimumHeight(PLOT_HEIGHT)
        help_text = self.tr("{tag}\nDrag to zoom in, double-click to see everything, Ctrl and wheel to zoom.")
        self.plot.setAccessibleName(title_of(tag))
        self._arranger: ChartArranger | None = None
        self.title = DragTitle(title_of(tag), tag)
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
        self.span = ElidedLabel()
        self.span.setProperty("role", "small")
        self.span.hide()
        layout.addLayout(self._header())
        layout.addWidget(self.span)
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
        self.menu = QMenu(self)
        self.menu.aboutToShow.connect(self._fill_menu)
        self._more.setMenu(self.menu)
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

    def _fill_menu(self) -> None:
        """When it opens: what can be done depends on the place of the chart and on what is hidden."""
        self.menu.clear()
        if self._arranger is not None:
            self._arranger.fill(self.menu, self.tag)
            self.menu.addSeparator()
        for kind, text in (
            ("png", self.tr("Save as PNG…")),
            ("svg", self.tr("Save as SVG…")),
            ("csv", self.tr("Save all points as CSV…")),
        ):
            action = self.menu.addAction(text)
            assert action is not None
            action.triggered.connect(lambda *_, kind=kind: self.export_wanted.emit(self.tag, kind))

    # ---- arranging -----------------------------------------------------------------------------------------------

    def let_arrange(self, arranger: ChartArranger) -> None:
        self._arranger = arranger
        self.title.let_move()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._more.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Return and the menu key open it from the card itself
        self._more.setToolTip(self.tr("Move or hide this chart, save it as a picture or as a table"))
        self._more.setAccessibleName(self.tr("Menu of {plot}").format(plot=self.title.text()))
        self.setAccessibleName(self.tr("Chart of {plot}").format(plot=self.title.text()))
        self.setAccessibleDescription(
            self.tr("Arrow keys go to other charts, Alt+Left and Alt+Right move this one, Return opens its menu")
        )
        self._dress(self._themes.theme)
        moving = self.tr("Drag the title to move the chart (Alt+Left, Alt+Right).")
        self.title.setToolTip(f"{self.title.toolTip()}\n{moving}")

    def open_menu(self, place: QPoint | None = None) -> None:
        corner = self._more.rect().bottomLeft()
        self.menu.popup(place if place is not None else self._more.mapToGlobal(corner))

    def contextMenuEvent(self, event: QContextMenuEvent | None) -> None:
        if event is None or self._arranger is None:
            super().contextMenuEvent(event)
            return
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        self.open_menu(None if by_key else event.globalPos())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Taken, or what lies behind the grid would take the focus that a click brought."""
        if event is not None and self._arranger is not None:
            event.accept()
        else:
            super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None or self._arranger is None or self._arranger.take_key(self.tag, event):
            return
        steps = {Qt.Key.Key_Left: (-1, 0), Qt.Key.Key_Right: (1, 0), Qt.Key.Key_Up: (0, -1), Qt.Key.Key_Down: (0, 1)}
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.open_menu()
        elif event.key() in steps and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self.step_wanted.emit(*steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

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
        if self._arranger is not None:
            self._show_span()
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

    def _show_span(self) -> None:
        """The lowest and the highest point of one curve, the best of several: raw, whatever the smoothing."""
        curves, lowest = self.plot.curves, lower_is_better(self.tag)
        text = ""
        if len(curves) == 1:
            ends = [curves[0].best(self.tag, lowest=low) for low in (True, False)]
            words = (self.tr("min {value} at {step}"), self.tr("max {value} at {step}"))
            text = " · ".join(_point(word, end) for word, end in zip(words, ends, strict=True) if end is not None)
        else:
            ranked = [
                (end, curve.label) for curve in curves if (end := curve.best(self.tag, lowest=lowest)) is not None
            ]
            if ranked:
                end, label = (min if lowest else max)(ranked)
                text = f"{_point(self.tr('best {value} at {step}'), end)} · {label}"
        self.span.setText(text)
        self.span.setVisible(bool(text))

    def _show_hint(self) -> None:
        """An empty plot says why it is."""
        options, curves = self.plot.options, self.plot.curves
        shown = self.plot.has_points
        self._hint.setVisible(not shown)
        if shown:
            return
        known = [curve for curve in curves if curve.having(self.tag)]
        if known and not any(curve.having(self.tag, options.x) for curve in known):
            self._tell_hint(self._without_axis(options.x))
            return
        logarithmic = options.log_y or (options.log_x and extent(curves, self.tag, options) is None)
        text = self.tr("nothing above zero to show on a logarithmic axis") if logarithmic else self._without_points
        self._tell_hint(text)

    def _tell_hint(self, text: str) -> None:
        self._hint.setText(text)
        self._hint.setGeometry(self.plot.rect())

    def _without_axis(self, over: str) -> str:
        if over == CPU:
            return self.tr("no CPU time was recorded: choose another horizontal axis")
        return self.tr("nothing to draw over {metric}: choose another horizontal axis").format(metric=title_of(over))

    def _dress(self, theme: Theme) -> None:
        self._reset.setIcon(icon("reset", theme.colour("muted")))
        self._more.setIcon(icon("export" if self._arranger is None else "more", theme.colour("muted")))


def _point(words: str, end: tuple[float, float]) -> str:
    return words.format(value=value_text(end[0]), step=f"{end[1]:,.0f}")
