"""Beside a sweep: how the best grew, which settings matter, one setting against the objective, and a trial to go on
with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PyQt6.QtCore import QRectF, QSize, Qt
from PyQt6.QtGui import QPainter, QPaintEvent, QPen
from PyQt6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import counted, quantity
from gym_gui.services.sweeps.axes import Axis
from gym_gui.services.sweeps.importance import FEWEST, Importance
from gym_gui.services.sweeps.insight import (
    beside_default,
    shown_value,
    shown_worth,
    slice_points,
    status_of,
    worth,
)
from gym_gui.services.sweeps.model import Sweep, Trial
from gym_gui.ui.context import Cockpit
from gym_gui.ui.plots.scatter_plot import ScatterPlot
from gym_gui.ui.styling import let_shrink, set_style_property
from gym_gui.ui.sweeps.desk import SweepDesk
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.elided_label import ElidedLabel
from gym_gui.ui.widgets.empty_page import EmptyPage

_PLOT_HEIGHT = 180
_WIDTH = 340
_ROW = 22
Defaults = Callable[[Sweep, Callable[[Mapping[str, object]], None], Callable[[str], None]], None]
"""Asks for the script's own settings of a sweep; the answer or a sentence comes later, in the GUI's thread."""


class SweepCharts(QWidget):
    """Follows the desk. ``defaults`` finds out what settings are when nobody changes them."""

    def __init__(self, cockpit: Cockpit, desk: SweepDesk, defaults: Defaults) -> None:
        super().__init__()
        self._desk = desk
        tr = self.tr
        self.history, self.slice = ScatterPlot(cockpit.themes, counted=True), ScatterPlot(cockpit.themes)
        self.importance = ImportanceBars(cockpit.themes)
        self.setting = CalmCombo()
        let_shrink(self.setting)
        self.setting.setMinimumContentsLength(12)
        self.setting.setAccessibleName(tr("Setting of the slice"))
        self.setting.setToolTip(tr("Which setting to draw against the objective"))
        self.setting.currentTextChanged.connect(lambda _: self._draw_slice())
        self.trial = TrialCard(cockpit, desk, defaults)
        self.plan = QLabel()
        self.plan.setWordWrap(True)
        self.plan.setProperty("role", "muted")
        self.best = QLabel()
        self.best.setProperty("role", "warning")
        self.note = QLabel(tr("density of the best quarter against all, ± 1 sd"))
        self.note.setProperty("role", "muted")
        self.empty = EmptyPage(
            tr("No sweep is open"), tr("Open one in the Sweeps panel; its history and what matters in it stand here.")
        )
        self._lay_out()
        for plot in (self.history, self.slice):
            plot.setFixedHeight(_PLOT_HEIGHT)
            plot.chosen.connect(desk.choose)
        self.history.setToolTip(tr("Each trial by number; filled: complete, hollow: pruned or going on. Click chooses"))
        self.slice.setToolTip(tr("Each trial by its value of the setting. Click chooses"))
        desk.changed.connect(self.draw)
        desk.opened.connect(self.draw)
        desk.trial_changed.connect(self._mark)
        desk.watch(self)
        self.draw()

    def _lay_out(self) -> None:
        tr = self.tr
        self._importance_card = _card(tr("Importance"), self.importance, aside=self.note, below=True)
        cards = [
            _card(tr("History"), self.history, aside=self.best),
            self._importance_card,
            _card(tr("Slice"), self.slice, aside=self.setting),
            self.trial,
            _card(tr("Plan"), self.plan),
        ]
        inside = QWidget()
        stack = QVBoxLayout(inside)
        stack.setContentsMargins(10, 10, 10, 10)
        stack.setSpacing(10)
        for card in cards:
            stack.addWidget(card)
        stack.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inside)
        self.area = area
        self.pages = QStackedWidget()
        self.pages.addWidget(self.empty)
        self.pages.addWidget(area)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)

    def sizeHint(self) -> QSize:
        """No wider than its neighbours in the dock: the stage has the coordinates."""
        return QSize(_WIDTH, 600)

    # ---- drawing -------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        picture = self._desk.picture
        self.pages.setCurrentWidget(self.area if picture is not None else self.empty)
        if picture is None:
            return
        points = [(float(one.number), one.value, one.standing == "kept", one.number) for one in picture.history.points]
        self.history.show_points(points, picture.history.best)
        best = picture.history.best
        self.best.setText(self.tr("best {value}").format(value=quantity(best[-1][1])) if best else "")
        self.importance.show_shares(picture.importance, self._why_none(picture.sweep))
        self.note.setVisible(bool(picture.importance))
        self._offer_settings(list(picture.sweep.spec.space))
        self._draw_slice()
        self.plan.setText(plan_text(picture.sweep))
        self._mark()

    def _why_none(self, sweep: Sweep) -> str:
        if len(sweep.spec.space) < 2:
            return self.tr("One setting is searched: there is nothing to weigh it against.")
        return self.tr("Shown when {count} trials were judged.").format(count=FEWEST)

    def _offer_settings(self, names: list[str]) -> None:
        if [self.setting.itemText(n) for n in range(self.setting.count())] == names:
            return
        self.setting.blockSignals(True)
        self.setting.clear()
        self.setting.addItems(names)
        self.setting.blockSignals(False)

    def _draw_slice(self) -> None:
        picture, name = self._desk.picture, self.setting.currentText()
        axis = next((one for one in picture.axes if one.name == name), None) if picture is not None else None
        if picture is None or axis is None:
            return
        found = slice_points(picture.sweep, name)
        points = [(_x(axis, value), one.value, one.standing == "kept", one.number) for value, one in found]
        self.slice.show_points(points, log=axis.log, names=[shown_value(one) for one in axis.choices])

    def _mark(self) -> None:
        trial = self._desk.trial
        for plot in (self.history, self.slice):
            plot.mark(trial.number if trial is not None else None)


def _x(axis: Axis, value: object) -> float:
    if axis.choices:
        place = axis.place(value)
        return place * max(1, len(axis.choices) - 1) if len(axis.choices) > 1 else 0.0
    return float(value) if isinstance(value, int | float) else float("nan")


def plan_text(sweep: Sweep) -> str:
    """What was asked for, in a few lines."""
    spec = sweep.spec
    verb = "highest" if spec.direction == "maximize" else "lowest"
    rungs = f", judged at {', '.join(f'{step:,}' for step in spec.rungs)} steps" if spec.rungs else ""
    return "\n".join(
        [
            f"{verb} {spec.metric}, mean of the last {spec.last}",
            f"{counted(sweep.budget, 'trial')} by {spec.sampler}, {spec.parallel} at a time",
            f"pruner {spec.pruner}{rungs}",
            f"{counted(len(spec.seeds), 'seed')} of a trial that gets to the end",
        ]
    )


def _card(title: str, *inside: QWidget, aside: QWidget | None = None, below: bool = False) -> QFrame:
    card = QFrame()
    card.setProperty("role", "card")
    heading = QLabel(title)
    heading.setStyleSheet("font-weight: 600;")
    top = QHBoxLayout()
    top.addWidget(heading)
    top.addStretch(1)
    layout = QVBoxLayout(card)
    layout.setContentsMargins(10, 8, 10, 10)
    layout.setSpacing(6)
    layout.addLayout(top)
    for widget in inside:
        layout.addWidget(widget)
    if aside is not None:
        layout.addWidget(aside) if below else top.addWidget(aside)
    return card


class ImportanceBars(QWidget):
    """A bar for each setting, and how sure that is."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.shares: tuple[Importance, ...] = ()
        self.why_none = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(self.tr("Importance of settings"))
        themes.changed.connect(self.update)

    def show_shares(self, shares: tuple[Importance, ...], why_none: str) -> None:
        self.shares, self.why_none = shares, why_none
        told = ", ".join(f"{one.setting} {one.share:.2f}" for one in shares)
        self.setAccessibleDescription(told or why_none)
        self.setToolTip("\n".join(f"{one.setting}: {one.share:.2f} ± {one.spread:.2f}" for one in shares) or why_none)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, max(1, len(self.shares)) * _ROW)

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        if not self.shares:
            painter.setPen(theme.colour("muted"))
            text = self.fontMetrics().elidedText(self.why_none, Qt.TextElideMode.ElideRight, self.width())
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter, text)
            return
        metrics = self.fontMetrics()
        name_width = min(self.width() * 0.42, max(metrics.horizontalAdvance(one.setting) for one in self.shares) + 10)
        figure = metrics.horizontalAdvance("0.00") + 8
        for row, one in enumerate(self.shares):
            middle = row * _ROW + _ROW / 2
            painter.setPen(theme.colour("text"))
            text = metrics.elidedText(one.setting, Qt.TextElideMode.ElideMiddle, int(name_width - 6))
            painter.drawText(QRectF(0, middle - 10, name_width, 20), Qt.AlignmentFlag.AlignVCenter, text)
            room = QRectF(name_width, middle - 4, self.width() - name_width - figure, 8)
            painter.fillRect(room, theme.colour("raised"))
            painter.fillRect(QRectF(room.left(), room.top(), room.width() * one.share, 8), theme.colour("accent"))
            low, high = (max(0.0, min(1.0, one.share + sign * one.spread)) for sign in (-1, 1))
            painter.setPen(QPen(theme.colour("text"), 1.4))
            painter.drawLine(
                int(room.left() + room.width() * low), int(middle), int(room.left() + room.width() * high), int(middle)
            )
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRectF(self.width() - figure, middle - 10, figure, 20), right, f"{one.share:.2f}")
        painter.end()


class TrialCard(QFrame):
    """The chosen trial, or the best: its settings, beside the default ones if wanted, and a way to train with them."""

    def __init__(self, cockpit: Cockpit, desk: SweepDesk, defaults: Defaults) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._desk, self._defaults = desk, defaults
        self._known: tuple[str, Mapping[str, object]] = ("", {})
        self.title, self.aside = ElidedLabel(), QLabel()
        self.title.setStyleSheet("font-weight: 600;")
        self.aside.setProperty("role", "muted")
        self.told = QLabel()
        self.told.setWordWrap(True)
        self.told.setProperty("role", "muted")
        self.grid = QGridLayout()
        self.grid.setHorizontalSpacing(12)
        self.grid.setVerticalSpacing(4)
        self.train = QPushButton(self.tr("Train with these…"))
        self.train.setProperty("kind", "primary")
        self.train.setToolTip(self.tr("Put these settings into the train form; nothing starts yet"))
        self.train.clicked.connect(lambda: cockpit.commands.action("sweep-train").trigger())
        self.diff = QPushButton(self.tr("Diff with default"))
        self.diff.setCheckable(True)
        self.diff.setToolTip(self.tr("Show what each setting is when nobody changes it"))
        self.diff.toggled.connect(self._toggled)
        self._lay_out()
        for changed in (desk.changed, desk.trial_changed, desk.opened):
            changed.connect(self.tell)
        self.tell()

    def _lay_out(self) -> None:
        top, buttons = QHBoxLayout(), QHBoxLayout()
        top.addWidget(self.title, 1)
        top.addWidget(self.aside)
        buttons.addWidget(self.train, 1)
        buttons.addWidget(self.diff, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 10)
        layout.setSpacing(8)
        layout.addLayout(top)
        layout.addLayout(self.grid)
        layout.addWidget(self.told)
        layout.addLayout(buttons)

    def tell(self) -> None:
        sweep, trial = self._desk.sweep, self._desk.trial
        for button in (self.train, self.diff):
            button.setEnabled(trial is not None)
        _clear(self.grid)
        self.told.hide()
        if sweep is None or trial is None:
            self.title.setText(self.tr("No trial is complete yet"))
            self.aside.setText("")
            return
        best = sweep.best()
        is_best = best is not None and best.number == trial.number
        words = self.tr("★ Trial {number}, the best so far") if is_best else self.tr("Trial {number}")
        self.title.setText(words.format(number=trial.number))
        set_style_property(self.title, "role", "warning" if is_best else "")
        self.aside.setText(f"{status_of(trial, sweep.spec).text} · {shown_worth(trial)}" if worth(trial) else "")
        self._fill(sweep, trial)

    def _fill(self, sweep: Sweep, trial: Trial) -> None:
        known = self._known[1] if self._known[0] == sweep.sweep_id else {}
        rows = beside_default(sweep, trial, known)
        with_default = self.diff.isChecked()
        if with_default:
            for column, title in enumerate((self.tr("trial"), self.tr("default")), start=1):
                self._put(0, column, title, "section")
        for row, one in enumerate(rows, start=1):
            self._put(row, 0, one.setting, "muted")
            self._put(row, 1, shown_value(one.value), "")
            if with_default:
                shown = shown_value(one.default) if one.is_known else "?"
                self._put(row, 2, shown, "" if one.differs else "muted")
        self.grid.setColumnStretch(0, 1)

    def _put(self, row: int, column: int, text: str, role: str) -> None:
        label = ElidedLabel(text) if column == 0 else QLabel(text)
        label.setProperty("role", role)
        side = Qt.AlignmentFlag.AlignLeft if column == 0 else Qt.AlignmentFlag.AlignRight
        self.grid.addWidget(label, row, column, side)

    # ---- the default settings ------------------------------------------------------------------------------------

    def _toggled(self, on: bool) -> None:
        sweep = self._desk.sweep
        self.tell()
        if not on or sweep is None or self._known[0] == sweep.sweep_id:
            return
        self._say(self.tr("Asking the worker for the script's own settings…"))

        def done(found: Mapping[str, object]) -> None:
            self._known = (sweep.sweep_id, found)
            self.tell()

        self._defaults(sweep, done, self._say)

    def _say(self, sentence: str) -> None:
        self.told.setText(sentence)
        self.told.show()


def _clear(grid: QGridLayout) -> None:
    while grid.count():
        item = grid.takeAt(0)
        widget = item.widget() if item is not None else None
        if widget is not None:
            widget.hide()
            widget.deleteLater()
