"""Which of the selected runs are better, and how sure that is: the comparison of ``mosaic compare``, interactive."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QIcon, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.charts import files as chart_files
from gym_gui.services.charts.panels import Panel
from gym_gui.services.compare import figures, files, page, report
from gym_gui.services.compare.comparison import Comparison, Question
from gym_gui.services.compare.curves import NO_BAND, Curves, curves_of
from gym_gui.services.compare.measures import Axis, By
from gym_gui.services.compare.of_runs import EACH, SEEDS, grouped, measured_and_compared
from gym_gui.services.run_diff import MOST_RUNS as MOST_IN_DIFF
from gym_gui.services.run_diff import compared as settings_compared
from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.plots.drawing_view import DrawingView
from gym_gui.ui.styling import let_shrink
from gym_gui.ui.widgets.calm import CalmCombo
from gym_gui.ui.widgets.flow_layout import FlowLayout
from gym_gui.ui.widgets.snackbar import Notice
from gym_gui.ui.widgets.value_chips import dot
from mosaic_protocol.proto import trainer_pb2 as pb

_SAVED_AS = ("html", "png", "svg", "tex", "csv")
_SETTLE_MILLISECONDS = 150
_ROOMY = 680
_AXES = (Axis.STEP, Axis.TIME, Axis.CPU)


@dataclass(frozen=True)
class _Wish:
    """What a comparison was asked for: an answer to another one is not shown."""

    runs: tuple[tuple[str, int, str], ...]
    by: str
    measure: str
    unfinished: bool


class RunComparison(QWidget):
    """Compares the runs it was given, in a thread and only while it can be seen."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._runs: list[pb.Run] = []
        self._wish: _Wish | None = None
        self._hidden: frozenset[int] = frozenset()
        self._is_roomy = True
        self.found: Comparison | None = None
        self.curves: dict[Axis, Curves] = {}
        self.charts: list[DrawingView] = []
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(_SETTLE_MILLISECONDS)
        self._settle.timeout.connect(self._ask)
        self.sentence = QLabel()
        self.sentence.setProperty("role", "title")
        self.sentence.setWordWrap(True)
        self.sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        page = QWidget()  # all of it is scrolled: a sentence that wraps would ask the stage for more height than it has
        self._page = QVBoxLayout(page)
        self._page.setContentsMargins(0, 0, 8, 0)
        self._page.setSpacing(10)
        self._page.addWidget(self.sentence)
        self._body = QWidget()
        self._page.addWidget(self._body, 1)
        self._scroll = QScrollArea()
        self._scroll.setWidget(page)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self._make_bar())
        layout.addWidget(self._scroll, 1)
        cockpit.themes.changed.connect(lambda _: self._draw() if self.found is not None else None)

    # ---- the choices ---------------------------------------------------------------------------------------------

    def _make_bar(self) -> FlowLayout:
        self.grouping = CalmCombo()
        self.grouping.setAccessibleName(self.tr("What is compared"))
        self.grouping.setToolTip(self.tr("Which runs count as one: seeds of the same settings, each run, or a setting"))
        self.measure = CalmCombo()
        self.measure.setAccessibleName(self.tr("By what"))
        self.measure.addItem(self.tr("Training return"), By.TRAINING.value)
        self.measure.addItem(self.tr("Evaluation"), By.EVALUATION.value)
        self.measure.setToolTip(self.tr("Mean of the last 100 returns of training, or the newest evaluation of each"))
        self.axis = CalmCombo()
        self.axis.setAccessibleName(self.tr("Curves over"))
        self.axis.setToolTip(self.tr("What the curves are drawn over"))
        titles = (self.tr("over steps"), self.tr("over wall time"), self.tr("over CPU time"))
        for axis, title in zip(_AXES, titles, strict=True):
            self.axis.addItem(title, axis.value)
        self.unfinished = QCheckBox(self.tr("unfinished too"))
        self.unfinished.setToolTip(self.tr("Count runs that failed, were cancelled or go on, as far as they got"))
        self.save = QPushButton(self.tr("Save…"))
        self.save.setToolTip(self.tr("The report as one HTML file, a picture, a table for LaTeX, every score as CSV"))
        self.save.clicked.connect(lambda: self._save_menu().popup(self.save.mapToGlobal(self.save.rect().bottomLeft())))
        self._offer_groupings()
        let_shrink(self.grouping, 14)  # names of settings may be long
        self.grouping.currentIndexChanged.connect(lambda _: self._settle.start())
        self.measure.currentIndexChanged.connect(lambda _: self._settle.start())
        self.unfinished.toggled.connect(lambda _: self._settle.start())
        self.axis.currentIndexChanged.connect(lambda _: self._draw())
        bar = FlowLayout()  # in one line it would push the page out of a stage between two docks
        for widget in (self.grouping, self.measure, self.axis, self.unfinished, self.save):
            bar.addWidget(widget)
        return bar

    def _offer_groupings(self) -> None:
        """Besides seeds and single runs: whatever differs between the runs."""
        before = self.grouping.currentData() or SEEDS
        choices = [
            (self.tr("Seeds together"), SEEDS),
            (self.tr("Each run"), EACH),
            (self.tr("By algorithm"), "algo"),
            (self.tr("By tags"), "tag"),
        ]
        if 1 < len(self._runs) <= MOST_IN_DIFF:
            rows = settings_compared(self._runs, [{}] * len(self._runs)).shown()
            names = [row.name for row in rows if row.section == "settings" and row.name not in ("algo", "seed")]
            choices += [(self.tr("By {setting}").format(setting=name), name) for name in names]
        if [self.grouping.itemData(place) for place in range(self.grouping.count())] == [one for _, one in choices]:
            return
        self.grouping.blockSignals(True)
        self.grouping.clear()
        for title, name in choices:
            self.grouping.addItem(title, name)
        self.grouping.setCurrentIndex(max(0, self.grouping.findData(before)))
        self.grouping.blockSignals(False)

    # ---- which runs ----------------------------------------------------------------------------------------------

    def show_runs(self, runs: Sequence[pb.Run]) -> None:
        """Compare these; call it again when there is news of one."""
        self._runs = list(runs)
        self._offer_groupings()
        if self.isVisible():
            self._settle.start()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._settle.start()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Where there is little room, the IQM alone has a column; the tooltip has the rest."""
        super().resizeEvent(event)
        if self._is_roomy != (self.width() >= _ROOMY):
            self._is_roomy = self.width() >= _ROOMY
            if self.found is not None:
                self._draw()

    def _wanted(self) -> _Wish:
        runs = tuple((run.run_id, run.last_step if run.outcome else 0, run.outcome) for run in self._runs)
        return _Wish(runs, self.grouping.currentData(), self.measure.currentData(), self.unfinished.isChecked())

    def _ask(self) -> None:
        wish = self._wanted()
        if len(self._runs) < 2 or not self.isVisible() or wish == self._wish:
            return
        self._wish = wish
        self.sentence.setText(self.tr("Comparing…"))
        runs, paths = list(self._runs), self._cockpit.bridge.paths

        def compute(client: object) -> tuple[Comparison, dict[Axis, Curves]]:
            groups = grouped(runs, wish.by)
            question = Question(By(wish.measure))
            found = measured_and_compared(client, paths, groups, question, unfinished=wish.unfinished)  # type: ignore[arg-type]
            return found, {axis: curves_of(found, axis) for axis in _AXES}

        def done(answer: tuple[Comparison, dict[Axis, Curves]]) -> None:
            if wish == self._wish:
                self.found, self.curves = answer
                self._hidden = frozenset()
                self._draw()

        def failed(sentence: str) -> None:
            if wish == self._wish:
                self.found, self._wish = None, None
                self._draw(sentence[:1].upper() + sentence[1:])

        self._cockpit.bridge.call(compute, done, failed, owner=self)

    # ---- showing -------------------------------------------------------------------------------------------------

    def _draw(self, problem: str = "") -> None:
        inside = QWidget()
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(10)
        self.charts = []
        self.save.setEnabled(self.found is not None)
        if self.found is None:
            self.sentence.setText(problem)
        else:
            self.sentence.setText(verdict(self.found))
            self._add_notes(layout, self.found)
            layout.addWidget(self._table(self.found))
            for panel in self._panels(self.found):
                self._add_chart(layout, panel, self._colours(self.found))
        layout.addStretch(1)
        self._page.replaceWidget(self._body, inside)
        self._body.hide()
        self._body.deleteLater()
        self._body = inside

    def _add_notes(self, layout: QVBoxLayout, found: Comparison) -> None:
        """What weakens the result stands before the pictures; that a group has one run is said once."""
        notes = (*found.notes, *(note for note in self._curves.notes if not note.endswith(NO_BAND)))
        if notes:
            label = QLabel("; ".join(notes))
            label.setProperty("role", "warning")
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            layout.addWidget(label)

    def _table(self, found: Comparison) -> QWidget:
        table = QWidget()
        grid = QGridLayout(table)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(2)
        names = list(found.groups[0].estimates)[: None if self._is_roomy else 1]
        for column, title in enumerate((self.tr("Runs"), *(report.NAMES[name] for name in names)), start=1):
            heading = QLabel(title)
            heading.setProperty("role", "section")
            grid.addWidget(heading, 0, column, Qt.AlignmentFlag.AlignRight)
        theme, colours = self._cockpit.themes.theme, self._colours(found)
        for line, group in enumerate(found.groups, start=1):
            toggle = QToolButton()
            toggle.setText(group.label.replace("&", "&&"))
            toggle.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
            toggle.setCheckable(True)
            toggle.setChecked(line - 1 not in self._hidden)
            toggle.setIcon(QIcon(dot(theme.curve(colours[line - 1]))))
            toggle.setToolTip(self.tr("Show or hide it in the pictures"))
            toggle.toggled.connect(lambda on, number=line - 1: self._toggle(number, on))
            grid.addWidget(toggle, line, 0, Qt.AlignmentFlag.AlignLeft)
            every = [f"{report.NAMES[name]} {report.interval(one)}" for name, one in group.estimates.items()]
            texts = [str(len(group.runs)), *(report.interval(group.estimates[name]) for name in names)]
            for column, text in enumerate(texts, start=1):
                label = QLabel(text)
                label.setToolTip("\n".join(every))
                grid.addWidget(label, line, column, Qt.AlignmentFlag.AlignRight)
        grid.setColumnStretch(0, 1)
        return table

    @property
    def _curves(self) -> Curves:
        return self.curves[Axis(self.axis.currentData())]

    def _panels(self, found: Comparison) -> list[Panel]:
        panels: list[Panel] = [figures.score_panel(found)]
        if found.by is By.TRAINING:
            panels.insert(0, figures.curve_panel(found, self._curves))
        if len(found.groups) > 1:
            panels.append(figures.improvement_panel(found))
        return panels

    def _colours(self, found: Comparison) -> list[int]:
        """A group that is a single run has the colour that this run has in every other plot, unless others are groups
        of several: those have no colour elsewhere, and two groups would share one."""
        members = [[one.run.run_id for one in (*group.runs, *group.left_out)] for group in found.groups]
        if any(len(runs) != 1 for runs in members):
            return list(range(len(members)))
        store = MetricsStore.of(self._cockpit.bridge)
        return [store.colour_number(run_id) for (run_id,) in members]

    def _add_chart(self, layout: QVBoxLayout, panel: Panel, colours: Sequence[int]) -> None:
        title = QLabel(panel.title)
        title.setProperty("role", "section")
        chart = DrawingView(self._cockpit.themes, panel, colours)
        chart.hide_series(self._hidden)
        self.charts.append(chart)
        layout.addWidget(title)
        layout.addWidget(chart)

    def _toggle(self, number: int, on: bool) -> None:
        self._hidden = self._hidden - {number} if on else self._hidden | {number}
        for chart in self.charts:
            chart.hide_series(self._hidden)

    # ---- saving --------------------------------------------------------------------------------------------------

    def _save_menu(self) -> QMenu:
        menu = QMenu(self)
        titles = {
            "html": self.tr("Report as HTML…"),
            "png": self.tr("Picture as PNG…"),
            "svg": self.tr("Picture as SVG…"),
            "tex": self.tr("Table for LaTeX…"),
            "csv": self.tr("Every score as CSV…"),
        }
        for kind in _SAVED_AS:
            action = menu.addAction(titles[kind])
            assert action is not None
            action.triggered.connect(lambda *_, kind=kind: self.ask_where(kind))
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def ask_where(self, kind: str) -> QFileDialog:
        dialog = QFileDialog(self, self.tr("Save the comparison"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(kind)
        dialog.setNameFilter(f"{kind.upper()} (*.{kind})")
        dialog.selectFile(f"comparison.{kind}")
        dialog.fileSelected.connect(lambda chosen: self.write(Path(chosen)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def write(self, file: Path) -> None:
        """In the format of its name."""
        found = self.found
        if found is None:
            return
        about = page.About(self.command_line(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
        self._cockpit.bridge.in_background(
            lambda: chart_files.write(file, files.content(found, file, about)),
            lambda _: self._cockpit.notify(Notice(self.tr("Saved to {file}").format(file=file), "good")),
            lambda why: self._cockpit.notify(Notice(self.tr("Not saved: {why}").format(why=why), "error")),
            owner=self,
        )

    def command_line(self) -> str:
        """What does the same in a terminal: an expression for each group."""
        assert self.found is not None
        groups = [
            f'id={",".join(one.run.run_id for one in (*group.runs, *group.left_out))} as "{group.label}"'
            for group in self.found.groups
        ]
        more = [f"--by {self.found.by}"] + (["--unfinished"] if self.unfinished.isChecked() else [])
        return " ".join(["mosaic compare", *map(shlex.quote, groups), *more])


def verdict(found: Comparison) -> str:
    """The comparison in a sentence, which says no more than the numbers do."""
    if len(found.groups) < 2:
        return f"{found.groups[0].label} alone: there is nothing to compare it with."
    best = max(found.groups, key=lambda group: group.estimates["iqm"].value)
    others = [group for group in found.groups if group is not best]
    closest = max(others, key=lambda group: group.estimates["iqm"].value)
    chance = found.improvements[best.label, closest.label]
    single = [group.label for group in (best, closest) if len(group.runs) < 2]
    if single:
        of_whom = "each" if len(single) == 2 else single[0]
        return f"{best.label} is ahead of {closest.label}, with one run of {of_whom}: repeat it before you conclude."
    told = f"{best.label} beats {closest.label} with probability {chance.value:.2f}"
    is_sure = chance.low is not None and chance.low > 0.5
    return f"{told}." if is_sure else f"{told}: the interval includes an even chance."
