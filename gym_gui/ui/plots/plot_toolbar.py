"""How the plots show their curves: smoothing, axes, seeds, which metrics. Remembered between two starts."""

from __future__ import annotations

from PyQt6.QtCore import QSignalBlocker, Qt, QTimer, pyqtSignal
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QMenu, QToolButton, QVBoxLayout, QWidget

from gym_gui.ui.icons import icon
from gym_gui.ui.plots.axis_choice import AxisChoice
from gym_gui.ui.plots.drawing import PlotOptions
from gym_gui.ui.plots.run_metrics import CLOCK
from gym_gui.ui.preferences import Preferences
from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.widgets.calm import CalmCombo, CalmSlider

CURVES = "curves"
_PREFERENCE = "metrics.options"
_SMOOTHEST = 0.999
_FIRST_SMOOTHING = 50
"""What the stage's big curve has, so that both show the same number."""
_TYPING_MILLISECONDS = 150
_AMONG_CURVES = 3
"""Where the filter stands in the lower row: behind the smoothing."""


class PlotToolbar(QWidget):
    """Signals: ``options_changed(PlotOptions)``, ``together_changed(bool)`` for seeds, ``wanted_changed(str)`` for the
    filter, ``reset_wanted()``, ``export_wanted(str)`` with the kind, ``kind_changed(str)`` when something else than
    curves is to be shown, or curves again."""

    kind_changed = pyqtSignal(str)
    options_changed = pyqtSignal(object)
    together_changed = pyqtSignal(bool)
    wanted_changed = pyqtSignal(str)
    reset_wanted = pyqtSignal()
    export_wanted = pyqtSignal(str)

    def __init__(self, themes: Themes, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._preferences = preferences
        self._make_kind()
        self._make_axes()
        self._make_smoothing()
        self._make_actions()
        upper, lower = self._upper, self._lower = QHBoxLayout(), QHBoxLayout()
        for widget in (self.kind, self.horizontal, self.log_x, self.log_y, self.seeds):
            upper.addWidget(widget)
        upper.insertSpacing(1, 4)  # two boxes that touch look like one
        upper.addStretch(1)
        upper.addWidget(self.leave)
        lower.addWidget(self._smoothing_title)
        lower.addWidget(self.smoothing, 3)
        lower.addWidget(self._amount)
        lower.addWidget(self.filter, 2)
        lower.addWidget(self.reset)
        lower.addWidget(self.export)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for row, spacing in ((upper, 0), (lower, 4)):
            row.setSpacing(spacing)
            layout.addLayout(row)
        self._restore()
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    # ---- the choices ---------------------------------------------------------------------------------------------

    @property
    def options(self) -> PlotOptions:
        return PlotOptions(
            smoothing=_weight(self.smoothing.value()),
            x=self.horizontal.choice,
            log_x=self.log_x.isChecked() and self.horizontal.choice != CLOCK,
            log_y=self.log_y.isChecked(),
        )

    @property
    def together(self) -> bool:
        return self.seeds.isChecked()

    # ---- making --------------------------------------------------------------------------------------------------

    def _make_kind(self) -> None:
        tr = self.tr
        self.kind = CalmCombo()
        for name, title, text in (
            (CURVES, tr("Curves"), tr("The numbers of the selected runs")),
            ("histogram", tr("Histograms"), tr("How weights, gradients or rewards are spread, over the steps")),
            ("image", tr("Images"), tr("Pictures that the runs wrote into their event files")),
            ("text", tr("Texts"), tr("Texts that the runs wrote into their event files")),
            ("clip", tr("Clips"), tr("What was filmed while the runs trained")),
        ):
            self.kind.addItem(title, name)
            self.kind.setItemData(self.kind.count() - 1, text, Qt.ItemDataRole.ToolTipRole)
        self.kind.setToolTip(tr("What is shown of the selected runs"))
        self.kind.setAccessibleName(tr("What is shown"))
        self.kind.currentIndexChanged.connect(lambda _: self._kind_changed())

    @property
    def shown_kind(self) -> str:
        return str(self.kind.currentData())

    def show_kind(self, kind: str) -> None:
        self.kind.setCurrentIndex(max(0, self.kind.findData(kind)))

    def _kind_changed(self) -> None:
        """What only curves have is away while something else is shown."""
        curves = self.shown_kind == CURVES
        for widget in (self.horizontal, self.log_x, self.log_y, self.seeds, self._smoothing_title, self.smoothing):
            widget.setVisible(curves)
        for widget in (self._amount, self.reset, self.export):
            widget.setVisible(curves)
        for row in (self._upper, self._lower):
            row.removeWidget(self.filter)
        # Beside what is chosen, and not alone in a row of its own.
        row, place = (self._lower, _AMONG_CURVES) if curves else (self._upper, self._upper.count() - 1)
        row.insertWidget(place, self.filter, 2)
        self.kind_changed.emit(self.shown_kind)

    def _make_axes(self) -> None:
        self.horizontal = AxisChoice()
        self.horizontal.chosen.connect(lambda _: self._changed())
        self.log_x = self._toggle(self.tr("log x"), self.tr("Logarithmic horizontal axis"))
        self.log_y = self._toggle(self.tr("log y"), self.tr("Logarithmic vertical axis; only values above zero show"))
        seeds_help = self.tr(
            "Show runs that differ only in their seed as one curve: their mean, with the 95 % interval of it"
        )
        self.seeds = self._toggle(self.tr("seeds"), seeds_help)

    def _toggle(self, text: str, help_text: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setCheckable(True)
        button.setToolTip(help_text)
        button.setAccessibleName(help_text)
        button.toggled.connect(lambda _: self._changed())
        return button

    def _make_smoothing(self) -> None:
        self._smoothing_title = QLabel(self.tr("Smoothing"))
        self._smoothing_title.setProperty("role", "muted")
        self.smoothing = CalmSlider(Qt.Orientation.Horizontal)
        self.smoothing.setRange(0, 100)
        self.smoothing.setPageStep(10)
        self.smoothing.setMinimumWidth(60)
        help_text = self.tr("How much each point is averaged with those before it; the raw curve stays faintly behind")
        self.smoothing.setToolTip(help_text)
        self.smoothing.setAccessibleName(self.tr("Smoothing"))
        self.smoothing.valueChanged.connect(lambda _: self._changed())
        self._amount = QLabel()
        self._amount.setProperty("role", "muted")
        self._amount.setMinimumWidth(self.fontMetrics().horizontalAdvance("0.999") + 4)

    def _make_actions(self) -> None:
        self.leave = QToolButton()
        self.leave.setText(self.tr("Close"))
        self.leave.setToolTip(self.tr("Put the curves back at the side, and the panels where they were (Ctrl+Shift+M)"))
        self.leave.setAccessibleName(self.tr("Put the curves back at the side"))
        self.leave.hide()
        self.reset = QToolButton()
        self.reset.setToolTip(self.tr("See the whole of every curve again"))
        self.reset.setAccessibleName(self.tr("Reset the view"))
        self.reset.clicked.connect(self.reset_wanted)
        self.export = QToolButton()
        self.export.setToolTip(self.tr("Save all plots as pictures, or all points as a table"))
        self.export.setAccessibleName(self.tr("Export all plots"))
        self.export.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.export.setStyleSheet("QToolButton::menu-indicator { image: none; }")
        menu = QMenu(self)
        for kind, text in (
            ("png", self.tr("All plots as PNG…")),
            ("svg", self.tr("All plots as SVG…")),
            ("csv", self.tr("All points as CSV…")),
        ):
            action = menu.addAction(text)
            assert action is not None
            action.triggered.connect(lambda *_, kind=kind: self.export_wanted.emit(kind))
        self.export.setMenu(menu)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText(self.tr("Filter"))
        self.filter.setClearButtonEnabled(True)
        self.filter.setToolTip(self.tr("Show only the metrics whose names have these words"))
        self.filter.setAccessibleName(self.tr("Filter metrics"))
        self._typing = QTimer(self)
        self._typing.setSingleShot(True)
        self._typing.setInterval(_TYPING_MILLISECONDS)
        self._typing.timeout.connect(lambda: self.wanted_changed.emit(self.filter.text()))
        self.filter.textChanged.connect(lambda _: self._typing.start())

    # ---- changing ------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        options = self.options
        self.log_x.setEnabled(options.x != CLOCK)  # a logarithm of the time of day says nothing
        self._amount.setText(f"{options.smoothing:.3f}".rstrip("0").rstrip("."))
        remembered = {"smoothing": self.smoothing.value(), "x": self.horizontal.choice, "together": self.together}
        logarithms = {"log_x": self.log_x.isChecked(), "log_y": options.log_y}
        before = self._preferences.get(_PREFERENCE, {})
        self._preferences.put(_PREFERENCE, {**remembered, **logarithms})
        self.options_changed.emit(options)
        if before.get("together", False) != self.together:
            self.together_changed.emit(self.together)

    def _restore(self) -> None:
        kept = self._preferences.get(_PREFERENCE, {})
        with QSignalBlocker(self):
            smoothing = kept.get("smoothing", _FIRST_SMOOTHING)
            fits = isinstance(smoothing, int) and self.smoothing.minimum() <= smoothing <= self.smoothing.maximum()
            self.smoothing.setValue(smoothing if fits else _FIRST_SMOOTHING)
            self.horizontal.choose(str(kept.get("x", "step")))
            for button, name in ((self.log_x, "log_x"), (self.log_y, "log_y"), (self.seeds, "together")):
                button.setChecked(kept.get(name) is True)
            self._changed()

    def _dress(self, theme: Theme) -> None:
        self.reset.setIcon(icon("reset", theme.colour("muted")))
        self.export.setIcon(icon("export", theme.colour("muted")))


def _weight(position: int) -> float:
    """Finer towards the smooth end, where a little more changes a lot: the middle of the slider is 0.9."""
    return 0.0 if position <= 0 else round(min(_SMOOTHEST, 1 - 10 ** (-position / 50)), 4)
