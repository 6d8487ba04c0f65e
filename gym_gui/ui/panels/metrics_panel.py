"""Live metrics: the curves of the selected runs, as they come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape

from PyQt6.QtCore import Qt, QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QFrame, QLabel, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.services.run_words import is_over
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.media.page import MediaPage
from gym_gui.ui.metrics_store import MOST_RUNS, MetricsStore
from gym_gui.ui.panels.key_numbers import situation
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.drawing import Curve
from gym_gui.ui.plots.plot_export import PlotExporter
from gym_gui.ui.plots.plot_grid import PlotGrid
from gym_gui.ui.plots.plot_toolbar import CURVES, PlotToolbar
from gym_gui.ui.plots.readout import cut
from gym_gui.ui.plots.run_curves import ShownRun, curves_of, shown_run
from gym_gui.ui.plots.run_metrics import STEP, TIME, RunMetrics
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.headline import CPU_TAG

_CHARTS = "View/Charts"
_SMOOTHING_STEP = 10
_UNBROKEN = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})


class MetricsPanel(QWidget):
    """Follows the runs that are selected, while it can be seen. Its choices are remembered."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self.setMinimumWidth(352)
        self._cockpit = cockpit
        self._store = MetricsStore.of(cockpit.bridge)
        self._hidden: set[str] = set()
        self._problems: dict[str, str] = {}
        self._curves: list[Curve] = []
        self.toolbar = PlotToolbar(cockpit.themes, cockpit.preferences)
        self.grid = PlotGrid(cockpit.themes, cockpit.preferences)
        self.media = MediaPage(cockpit)
        self.exporter = PlotExporter(cockpit, self, self._plots, self._named_runs)
        self._revealing = QTimer(self)  # a chart that moved is where it belongs after the layout's turn
        self._revealing.setSingleShot(True)
        self._revealing.setInterval(0)
        self._legend = QLabel()
        self._legend.setWordWrap(True)
        self._legend.setProperty("rich", True)
        self._legend.setToolTip(self.tr("A click on a run hides its curve or shows it again"))
        self._legend.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self._legend.setAccessibleName(self.tr("Legend"))
        self._note = QLabel()
        self._note.setWordWrap(True)
        self._note.setProperty("role", "muted")
        self._empty = QLabel()
        self._empty.setWordWrap(True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._empty.setProperty("role", "muted")
        self._lay_out()
        self._connect()
        self._offer_commands()
        self._look()

    def _lay_out(self) -> None:
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self.grid)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._empty)
        self._pages.addWidget(self._scroll)
        self._pages.addWidget(self.media)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 6, 6)
        layout.setSpacing(6)
        for widget in (self.toolbar, self._legend, self._note):
            layout.addWidget(widget)
        layout.addWidget(self._pages, 1)

    def _connect(self) -> None:
        self.grid.set_options(self.toolbar.options)
        self.toolbar.options_changed.connect(self.grid.set_options)
        self.toolbar.together_changed.connect(lambda _: self._show())
        self.toolbar.wanted_changed.connect(self._filter)
        self.toolbar.reset_wanted.connect(self.grid.reset_views)
        self.toolbar.export_wanted.connect(self._export_all)
        self.grid.export_wanted.connect(lambda tag, kind: self.exporter.ask(kind, tag))
        self.toolbar.kind_changed.connect(self._show_kind)
        self.grid.arranged.connect(self._arranged)
        self.grid.revealed.connect(lambda _: self._revealing.start())
        self._revealing.timeout.connect(self._reveal)
        self._legend.linkActivated.connect(self._toggle)
        self._store.tags_changed.connect(self._data_changed)
        self._store.arrived.connect(self._arrived)
        self._store.failed.connect(self._failed)
        self._cockpit.selection.changed.connect(lambda _: self._look())
        self._cockpit.runs.changed.connect(self._runs_changed)
        self._cockpit.bridge.connection_changed.connect(lambda _: self._tell_empty())
        self._cockpit.themes.changed.connect(lambda _: self._tell_legend())

    def _offer_commands(self) -> None:
        tr, bar = self.tr, self.toolbar
        whole, more = tr("See the whole of every curve again"), tr("Average each point with more of those before it")
        fewer, x_axis = tr("Average each point with fewer of them"), tr("What the horizontal axis of the plots is")
        seeds, y_axis = tr("Runs that differ only in their seed as their mean"), tr("What the vertical axis is")
        table, picture, lines = tr("Every point of the shown runs"), tr("A picture of each"), tr("A drawing of each")
        curves = "View/Curves"
        offers: list[tuple[str, str, str, str, str, Callable[[], object]]] = [
            ("reset-view", tr("Reset the view of the plots"), curves, "Ctrl+0", whole, self.grid.reset_views),
            ("smoother", tr("Smooth curves more"), curves, "Ctrl+Alt+Up", more, lambda: self._smooth(_SMOOTHING_STEP)),
            (
                "rougher",
                tr("Smooth curves less"),
                curves,
                "Ctrl+Alt+Down",
                fewer,
                lambda: self._smooth(-_SMOOTHING_STEP),
            ),
            ("seeds", tr("Curves of seeds together or apart"), curves, "", seeds, bar.seeds.toggle),
            ("time", tr("Curves over steps or time"), curves, "", x_axis, self._toggle_time),
            ("axis", tr("Choose what curves are drawn over…"), curves, "", x_axis, self._choose_axis),
            ("log-x", tr("Logarithmic or linear steps"), curves, "", x_axis, bar.log_x.toggle),
            ("log-y", tr("Logarithmic or linear values"), curves, "", y_axis, bar.log_y.toggle),
            ("csv", tr("Export all points as CSV…"), "File", "", table, lambda: self.exporter.ask("csv")),
            ("png", tr("Export all plots as PNG…"), "File", "", picture, lambda: self.exporter.ask("png")),
            ("svg", tr("Export all plots as SVG…"), "File", "", lines, lambda: self.exporter.ask("svg")),
        ]
        for name, title, menu, shortcut, text, act in offers:
            repeats = name in ("smoother", "rougher")
            command = Command(f"metrics-{name}", title, menu, shortcut, text, repeats=repeats)
            self._cockpit.commands.add(command, act)

        self._offer_arranging()

    def _offer_arranging(self) -> None:
        """The keys are the cards' own: elsewhere in the window they mean other things."""
        tr, arranger = self.tr, self.grid.arranger
        chart = tr("The chart that you looked at last by keyboard")
        back, natural = tr("Show every chart that was hidden"), tr("Charts in the order that they have by themselves")
        offers: list[tuple[str, str, str, Callable[[], object]]] = [
            ("chart-first", tr("Move the chart first"), chart, lambda: self._on_chart(arranger.move_first)),
            ("chart-up", tr("Move the chart up"), chart, lambda: self._on_chart(lambda tag: arranger.move(tag, -1))),
            ("chart-down", tr("Move the chart down"), chart, lambda: self._on_chart(lambda tag: arranger.move(tag, 1))),
            ("chart-hide", tr("Hide the chart"), chart, lambda: self._on_chart(arranger.hide)),
            ("charts-show", tr("Show hidden charts"), back, arranger.show),
            ("charts-reset", tr("Reset the order of the charts"), natural, arranger.reset),
        ]
        for name, title, text, act in offers:
            self._cockpit.commands.add(Command(f"metrics-{name}", title, _CHARTS, "", text, "plot order"), act)
        for number in range(self.toolbar.kind.count()):
            kind, title = str(self.toolbar.kind.itemData(number)), self.toolbar.kind.itemText(number)
            text = str(self.toolbar.kind.itemData(number, Qt.ItemDataRole.ToolTipRole))
            command = Command(f"metrics-show-{kind}", tr("Metrics: {kind}").format(kind=title), _CHARTS, "", text)
            self._cockpit.commands.add(command, partial(self._go_to_kind, kind))

    def _go_to_kind(self, kind: str) -> None:
        self.toolbar.show_kind(kind)
        if "show-metrics" in [command.name for command, _ in self._cockpit.commands.all()]:
            self._cockpit.commands.action("show-metrics").trigger()

    def _show_kind(self, kind: str) -> None:
        self.media.show_kind(kind if kind != CURVES else "histogram")
        for widget in (self._legend, self._note):
            widget.setVisible(kind == CURVES)
        self._show()

    def _on_chart(self, act: Callable[[str], object]) -> None:
        if self.grid.current:
            act(self.grid.current)
            return
        said = self.tr("Go to a chart first: Tab leads into Metrics, arrow keys from chart to chart.")
        self._cockpit.notify(Notice(said, "warning"))

    def _arranged(self) -> None:
        self._tell_note()
        self._tell_empty()

    def _reveal(self) -> None:
        card = self.grid.cards.get(self.grid.revealed_tag)
        layout = self.grid.layout()
        if card is not None and layout is not None:
            layout.activate()
            self._scroll.ensureWidgetVisible(card, 0, 12)

    def _smooth(self, by: int) -> None:
        self.toolbar.smoothing.setValue(self.toolbar.smoothing.value() + by)

    def _toggle_time(self) -> None:
        self.toolbar.horizontal.choose(TIME if self.toolbar.horizontal.choice == STEP else STEP)

    def _choose_axis(self) -> None:
        self.toolbar.horizontal.setFocus()
        self.toolbar.horizontal.showPopup()

    # ---- which runs ----------------------------------------------------------------------------------------------

    @property
    def run_ids(self) -> list[str]:
        return self._cockpit.selection.ids[:MOST_RUNS]

    def _look(self) -> None:
        self._store.give_colours(self.run_ids)
        self._store.look(self, self.run_ids if self.isVisible() else [])
        self._hidden &= set(self.run_ids)
        self._problems = {run_id: why for run_id, why in self._problems.items() if run_id in self.run_ids}
        self.media.show_runs(self.run_ids)
        self._show()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._look()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._store.look(self, [])

    def _runs_changed(self, run_ids: list[str]) -> None:
        if set(run_ids) & set(self.run_ids):
            self._show()

    def _shown_runs(self) -> list[ShownRun]:
        found = []
        for run_id in self.run_ids:
            run, metrics = self._cockpit.runs.get(run_id), self._store.metrics(run_id)
            if run is not None and metrics is not None:
                colour = self._store.colour_number(run_id)
                found.append(shown_run(run_id, run.name, run.algo, run.env_id, run.config_json, colour, metrics))
        return found

    # ---- showing -------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self._curves = curves_of(self._shown_runs(), together=self.toolbar.together)
        members = [member for curve in self._curves for member in curve.members]
        axes = {tag for one in members for tag, series in one.series.items() if series.is_axis and tag != CPU_TAG}
        self.toolbar.horizontal.offer(axes)
        self.grid.set_curves([curve for curve in self._curves if curve.key not in self._hidden])
        self._tell_legend()
        self._tell_note()
        self._tell_empty()

    def _data_changed(self, run_id: str) -> None:
        if run_id in self.run_ids:
            self._show()

    def _arrived(self, run_id: str) -> None:
        if run_id in self.run_ids:
            self._problems.pop(run_id, None)
            self._tell_note()
            self._tell_empty()

    def _failed(self, run_id: str, sentence: str) -> None:
        if run_id in self.run_ids:
            self._problems[run_id] = sentence
            self._tell_note()
            self._tell_empty()

    def _filter(self, words: str) -> None:
        self.grid.set_wanted(words)
        self.media.set_wanted(words)
        self._tell_empty()

    def _toggle(self, key: str) -> None:
        self._hidden ^= {key}
        self._show()

    def _tell_legend(self) -> None:
        theme = self._cockpit.themes.theme
        entries = []
        for curve in self._curves:
            gone = curve.key in self._hidden
            colour = theme.muted if gone else theme.curve(curve.colour).name()
            style = f"color:{theme.muted if gone else theme.text}; text-decoration:{'line-through' if gone else 'none'}"
            entries.append(
                f"<span style='color:{colour}'>●</span>&nbsp;"
                f"<a href='{escape(curve.key)}' style='{style}'>{escape(cut(curve.label).translate(_UNBROKEN))}</a> "
            )
        self._legend.setText("&nbsp; ".join(entries))
        self._legend.setVisible(bool(entries) and self._shows_curves)

    def _tell_note(self) -> None:
        selected = len(self._cockpit.selection.ids)
        notes = list(dict.fromkeys(self._problems.values()))
        if selected > MOST_RUNS:
            said = self.tr("The first {shown} of {all} selected runs are shown.")
            notes.append(said.format(shown=MOST_RUNS, all=f"{selected:,}"))
        series = [one for curve in self._curves for member in curve.members for one in member.series.values()]
        if any(one.buffer.thinned for one in series):
            notes.append(self.tr("Older points of long curves are thinned out: lows and highs stay."))
        unreadable = sum(member.unreadable for curve in self._curves for member in curve.members)
        if unreadable:
            notes.append(self.tr("{count} rows could not be read.").format(count=f"{unreadable:,}"))
        hidden = len(self.grid.arranger.hidden)
        if hidden:
            said = self.tr("1 chart is hidden.") if hidden == 1 else self.tr("{count} charts are hidden.")
            notes.append(said.format(count=hidden))
        self._note.setText(" ".join(notes))
        self._note.setVisible(bool(notes) and self._shows_curves)

    def _tell_empty(self) -> None:
        text = self._why_empty()
        self._empty.setText(text)
        self._pages.setCurrentIndex(2 if not self._shows_curves else 0 if text else 1)

    @property
    def _shows_curves(self) -> bool:
        return self.toolbar.shown_kind == CURVES

    def _why_empty(self) -> str:
        """What to do about there being no plots; "" when there are."""
        if self.grid.tags:
            return ""
        if not self._cockpit.selection.ids:
            return self.tr("Select a run in the table to see its curves.\nSelect several to compare them.")
        if self.grid.arranger.hidden and not self.toolbar.filter.text():
            return self.tr("Every chart is hidden.\nShow them again: Ctrl+K, “Show hidden charts”.")
        if any(curve.members[0].series for curve in self._curves):
            return self.tr("No metric has these words in its name.\nClear the filter, or show a curve in the legend.")
        if not self._cockpit.bridge.connection.connected:
            return self._cockpit.bridge.connection.sentence
        run = self._cockpit.runs.get(self.run_ids[0])
        metrics = self._store.metrics(self.run_ids[0])
        if run is not None and is_over(run) and metrics is not None and metrics.complete:
            return self.tr("This run ended without a single number.\n{reason}").format(reason=situation(run)[0])
        return self.tr("Waiting for the first numbers…")

    # ---- saving --------------------------------------------------------------------------------------------------

    def _export_all(self, kind: str) -> None:
        self.exporter.ask(kind)

    def _plots(self) -> dict[str, CurvePlot]:
        return {tag: card.plot for tag, card in self.grid.cards.items()}

    def _named_runs(self) -> list[tuple[RunMetrics, str]]:
        return [(run.metrics, run.name) for run in self._shown_runs()]
