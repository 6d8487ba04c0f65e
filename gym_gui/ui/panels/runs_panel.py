"""All runs: a table that is filtered, sorted and grouped, and what can be done to the selected ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PyQt6.QtCore import QEvent, QModelIndex, QObject, QPoint, QSignalBlocker, Qt, pyqtSignal
from PyQt6.QtWidgets import QFileDialog, QHBoxLayout, QLabel, QMenu, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from gym_gui.services.charts.files import write
from gym_gui.services.run_filter import FilterError, find_setting, require_known_settings
from gym_gui.services.run_labels import Scalar
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.commands import Command, Found
from gym_gui.ui.context import Cockpit
from gym_gui.ui.icons import icon
from gym_gui.ui.metric_spans_feed import MetricSpansFeed
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.models.extra_columns import KINDS, METRIC, SETTING, MetricColumn
from gym_gui.ui.models.run_csv import run_csv
from gym_gui.ui.models.run_table import RunTable
from gym_gui.ui.panels.trash_page import TrashPage
from gym_gui.ui.queue_commands import QueueCommands
from gym_gui.ui.run_actions import MENU_ORDER, RunActions
from gym_gui.ui.run_mark_commands import RunMarkCommands
from gym_gui.ui.theme import Theme
from gym_gui.ui.widgets.action_buttons import ActionButtons
from gym_gui.ui.widgets.ask_bar import AskBar
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.cancel_panel import CancelPanel
from gym_gui.ui.widgets.column_chooser import ColumnChooser
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.folding_bar import FoldingBar
from gym_gui.ui.widgets.giving_stack import GivingStack
from gym_gui.ui.widgets.queue_drag import QueueDrag
from gym_gui.ui.widgets.run_columns import BUILT_IN
from gym_gui.ui.widgets.run_filters import RunFilters, RunGrouping, columns_button
from gym_gui.ui.widgets.run_list import RunList
from gym_gui.ui.widgets.run_views import RunViews
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.headline import HEADLINE_TAGS, MEAN_RETURN

_BUTTONS = ("pause", "resume", "cancel", "duplicate", "delete")


class RunsPanel(QWidget):
    """``train_requested()``: the person has no runs yet and wants to train. Its button is there once it is connected.

    ``actions`` are made here unless given: a cockpit has them once.
    """

    train_requested = pyqtSignal()

    def __init__(self, cockpit: Cockpit, actions: RunActions | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self.actions_on_runs = actions or RunActions(cockpit, self)
        self.table = RunTable(cockpit.runs, self)
        self.filters = RunFilters(cockpit)
        self.grouping = RunGrouping(cockpit)
        self.table.show(**self._chosen(), grouping=self.grouping.grouping)
        self.list = RunList(cockpit, self.table)
        self.marks = RunMarkCommands(cockpit, self.table)
        self.queue = QueueCommands.of(cockpit)
        self.queue_drag = QueueDrag(cockpit, self.list, self._run_at, self._downwards)
        self.spans = MetricSpansFeed(cockpit.bridge, self.table)
        self.views = RunViews(cockpit, self._view_state)
        self.chooser = ColumnChooser(self)
        self.away_banner = Banner("warning")
        self.cancel_panel, self.delete_bar = CancelPanel(), AskBar()
        self.trash = TrashPage(cockpit, self.actions_on_runs)
        self.actions_on_runs.is_hidden = lambda run_id: not self.table.index_of(run_id).isValid()
        self.empty = EmptyPage()
        self.summary = QLabel()
        self.summary.setProperty("role", "muted")
        commands = [RunActions.command(name) for name in _BUTTONS]
        pair = (RunActions.command("pause"), RunActions.command("resume"))
        self.buttons = ActionButtons(cockpit.commands, commands, partners=pair, icons_only=True)
        self._lay_out()
        self._connect()
        self._add_commands()
        self.list.follow_selection()
        self._show_connection(cockpit.bridge.connection)
        self._show_counts()
        self.setFocusProxy(self.list)

    # ---- layout --------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.stack = GivingStack()
        self.stack.addWidget(self.list)
        self.stack.addWidget(self.empty)
        self.bar = FoldingBar(self.filters, self._make_tools())
        runs = QWidget()
        inside = QVBoxLayout(runs)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.setSpacing(0)
        inside.addWidget(self.bar)
        inside.addWidget(self.filters.problem)
        for strip in (self.away_banner, self.cancel_panel, self.delete_bar):
            around = QVBoxLayout()
            around.setContentsMargins(10, 0, 10, 0)
            around.addWidget(strip)
            inside.addLayout(around)
        inside.addWidget(self.stack, 1)
        self.pages = QStackedWidget()
        self.pages.addWidget(runs)
        self.pages.addWidget(self.trash)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.pages)

    def _make_tools(self) -> QWidget:
        tools = QWidget()
        row = QHBoxLayout(tools)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        row.addWidget(self.summary)
        row.addStretch(1)
        row.addSpacing(6)
        row.addWidget(self.buttons)
        row.addSpacing(6)
        row.addWidget(self.grouping)
        self.columns = columns_button(self._cockpit, tools)
        self.columns.clicked.connect(self._show_columns)
        row.addWidget(self.columns)
        row.addWidget(self.views)
        self.trash_button = QToolButton()
        self.trash_button.clicked.connect(self.show_trash)
        self._dress(self._cockpit.themes.theme)
        self._cockpit.themes.changed.connect(self._dress)
        self._count_trash()
        row.addWidget(self.trash_button)
        return tools

    def _dress(self, theme: Theme) -> None:
        self.trash_button.setIcon(icon("trash", theme.colour("muted")))

    def _count_trash(self) -> None:
        count = len(self.trash.deleted())
        told = self.tr("1 deleted run") if count == 1 else self.tr("{count} deleted runs").format(count=count)
        self.trash_button.setToolTip(self.tr("Trash: {told}, to restore or to delete for good").format(told=told))
        self.trash_button.setAccessibleName(self.tr("Trash, {told}").format(told=told))

    # ---- wiring --------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self.filters.changed.connect(self._filter)
        self.grouping.chosen.connect(lambda grouping: self.table.show(grouping=grouping, collapsed=set()))
        for changed in (self.table.counted, self.table.rearranged):
            changed.connect(self._show_counts)
            changed.connect(lambda *_: self.actions_on_runs.refresh())  # what is hidden may be another one now
        self.list.columns.changed.connect(self._columns_changed)
        self.list.columns.more_wanted.connect(self._show_columns)
        self.chooser.toggled.connect(self.list.columns.show)
        self.views.chosen.connect(self._use_view)
        self._cockpit.bridge.connection_changed.connect(lambda _: self.spans.follow())
        self._columns_changed()
        self.queue_drag.dropped.connect(self.queue.move)
        self.list.asked.connect(self._do)
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.list.installEventFilter(self)
        self.cancel_panel.confirmed.connect(self.actions_on_runs.cancel)
        self.cancel_panel.closed.connect(self.list.setFocus)
        self.delete_bar.closed.connect(self.list.setFocus)
        self.actions_on_runs.delete_asked.connect(self._ask_delete)
        self.trash.left.connect(self._leave_trash)
        self._cockpit.selection.wanted.connect(self.reveal)
        self.actions_on_runs.cancel_asked.connect(self._ask_cancel)
        self.empty.acted.connect(self._act_on_empty)
        self._cockpit.bridge.connection_changed.connect(self._show_connection)
        self.away_banner.acted.connect(self._cockpit.bridge.start_again)
        self._cockpit.runs.changed.connect(self._drop_gone)
        self._cockpit.selection.changed.connect(self._show_counts)

    def _add_commands(self) -> None:
        tr = self.tr
        menu, also = "View/Runs", "search find"
        words = tr("Type words to look for")
        find = Command("filter-runs", tr("Filter the runs"), menu, "Ctrl+Shift+F", words, also)
        self._cockpit.commands.add(find, self._focus_filter)
        clear = Command("clear-run-filters", tr("Show all runs"), menu, "", tr("Take every filter off the runs"))
        self._cockpit.commands.add(clear, self.filters.clear)
        csv_text, also = tr("The runs and columns that are shown, for a spreadsheet"), "spreadsheet table excel save"
        export = Command("export-runs", tr("Export the list of runs as CSV…"), "File", "", csv_text, also)
        self._cockpit.commands.add(export, self.ask_export)
        which, also = tr("Settings, metrics and facts as columns of the list"), "column setting metric add"
        choose = Command("choose-columns", tr("Choose the columns"), menu, "Ctrl+Shift+K", which, also)
        self._cockpit.commands.add(choose, self._show_columns)
        best, also = (
            tr("Sort the list by the mean return, the highest first"),
            "sort order highest mean reward top",
        )
        by_return = Command("best-return-first", tr("Best return first"), menu, "", best, also)
        self._cockpit.commands.add(by_return, partial(self._sort_by, "return", turns=False))
        line, also = tr("Sort the list by the queue; drag a run to another place in it"), "sort order next wait line"
        by_turn = Command("next-to-start-first", tr("Next to start first"), menu, "", line, also)
        self._cockpit.commands.add(by_turn, partial(self._sort_by, "queue", turns=False))
        self._cockpit.commands.finders += [self.found_columns, self.found_sortings]
        deleted, also = tr("Deleted runs, to restore or to delete for good"), "deleted restore undo recycle bin removed"
        trash = Command("trash", tr("Show the trash"), menu, "Ctrl+Shift+T", deleted, also)
        self._cockpit.commands.add(trash, self.show_trash)

    def _filter(self) -> None:
        """What is filtered away is not selected any more: nothing is done to runs that nobody sees."""
        if unknown := self._unknown_setting():
            self.filters.refuse(unknown)
        self.table.show(**self._chosen())
        selection = self._cockpit.selection
        selection.select([run_id for run_id in selection.ids if self.table.index_of(run_id).isValid()])

    def _chosen(self) -> dict[str, Any]:
        """What the filters let through, for the table."""
        return {"words": self.filters.words, "wanted": self.filters.wanted, "buckets": self.filters.buckets}

    def _unknown_setting(self) -> str:
        """Why an expression names something that no run has; "" while it does not."""
        wanted, rows, known = self.filters.wanted, self.table.order.rows.values(), dict[str, Scalar]()
        if all(any(find_setting(row.settings, term.field) is not None for row in rows) for term in wanted.settings):
            return ""
        for row in rows:
            known |= row.settings
        try:
            if known:
                require_known_settings(wanted, known)
        except FilterError as error:
            return str(error)
        return ""

    def reveal(self, run_id: str) -> None:
        """Scroll to a run; a filter or a folded group that hides it is taken off first."""
        self._leave_trash()
        row = self.table.order.rows.get(run_id)
        if row is None:
            return
        if not self.table.view.shows(row):
            with QSignalBlocker(self.filters):  # the selection stays: it is what is being revealed
                self.filters.clear()
            self.table.show(**self._chosen())
        if (group := self.table.view.group(row)) in self.table.view.collapsed:
            self.table.fold(group, folded=False)
        self.list.scrollTo(self.table.index_of(run_id))

    def show_trash(self) -> None:
        self._come_forward()
        self.pages.setCurrentWidget(self.trash)
        self.trash.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _leave_trash(self) -> None:
        if self.pages.currentWidget() is self.trash:
            self.pages.setCurrentIndex(0)
            self.list.setFocus()

    def _focus_filter(self) -> None:
        self._leave_trash()
        self._come_forward()
        self.filters.text.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filters.text.selectAll()

    def _come_forward(self) -> None:
        """The frame offers a command for each part; alone in a window there is nothing to do."""
        show = f"show-{self.objectName()}"
        if any(command.name == show for command, _ in self._cockpit.commands.all()):
            self._cockpit.commands.action(show).trigger()

    # ---- acting --------------------------------------------------------------------------------------------------

    def _do(self, wish: str) -> None:
        """What a key in the list asks for. What does not apply stays undone; who wanted to delete is told."""
        names = {"toggle": ("pause", "resume")}.get(wish, (wish,))
        actions = [self._cockpit.commands.action(RunActions.command(name)) for name in names]
        usable = [action for action in actions if action.isEnabled()]
        if wish == "toggle" and not any(run.state in ("EXEC", "PAUSE") for run in self.actions_on_runs.selected()):
            return  # Space never makes a new run
        if usable:
            usable[0].trigger()
        elif wish == "delete":
            self.actions_on_runs.tell_why_not(wish)

    def _ask_cancel(self, run_ids: Sequence[str]) -> None:
        self._come_forward()
        self._leave_trash()
        found = [run for run in map(self._cockpit.runs.get, run_ids) if run is not None]
        self.cancel_panel.ask_for([run.run_id for run in found], list(map(self._cockpit.runs.label, found)))

    def _ask_delete(self, run_ids: Sequence[str]) -> None:
        self._come_forward()
        self._leave_trash()
        found = [run for run in map(self._cockpit.runs.get, run_ids) if run is not None]
        self.delete_bar.ask(
            self.tr("Delete {count} runs?").format(count=len(found)),
            list(map(self._cockpit.runs.label, found)),
            (self.tr("Delete them"), self.tr("Keep them")),
            self.tr("Moves them to the trash, from where they can be restored"),
            lambda: self.actions_on_runs.delete(run_ids),
        )

    def _show_menu(self, point: QPoint) -> None:
        viewport = self.list.viewport()
        if viewport is not None and self.table.row_at(self.list.indexAt(point).row()) is not None:
            self.run_menu().popup(viewport.mapToGlobal(point))

    def run_menu(self) -> QMenu:
        """What can be done to the selected runs; closes itself away."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        for name in MENU_ORDER:
            if name:
                menu.addAction(self._cockpit.commands.action(RunActions.command(name)))
            else:
                menu.addSeparator()
        self.queue.add_to(menu)
        self.marks.add_to(menu)
        return menu

    def _run_at(self, index: QModelIndex) -> str:
        row = self.table.row_at(index.row())
        return "" if row is None else row.run_id

    def _downwards(self) -> int:
        """Which way the queue goes in the list, for who drags a run in it."""
        view = self.table.view
        return 0 if view.sort != "queue" else -1 if view.descending else 1

    # ---- columns and views ---------------------------------------------------------------------------------------

    def _show_columns(self) -> None:
        """Everything that can be a column: what every list has, settings of any run, metrics of those looked at."""
        self._come_forward()
        names = [*BUILT_IN, *(name for name in self._offered() if name not in BUILT_IN)]
        kinds = {SETTING: self.tr("setting"), METRIC: self.tr("metric")}
        columns = [
            (name, self.table.title(name), next((kinds[kind] for kind in kinds if name.startswith(kind)), ""))
            for name in names
            if name != "name"
        ]
        self.chooser.offer(columns, self.list.columns.shown)
        place = self.columns.mapToGlobal(QPoint(self.columns.width() - self.chooser.width(), 0))
        self.chooser.move(place.x(), max(0, place.y() - self.chooser.height()))
        self.chooser.show()
        self.chooser.query.setFocus()

    def found_columns(self, query: str) -> Iterator[Found]:
        """Settings that could be a column, for the palette."""
        words = query.lower().replace("_", " ").split()
        shown = self.list.columns.shown
        for name in self._settings():
            column = f"{SETTING}{name}"
            if column not in shown and all(word in name.replace("_", " ").lower() for word in words):
                act = partial(self.list.columns.show, column, True)
                help_text = self.tr("Show {setting} as a column of the list of runs").format(setting=name)
                yield Found(self.tr("Column › {setting}").format(setting=name), self.tr("setting"), help_text, act)

    def found_sortings(self, query: str) -> Iterator[Found]:
        """What the list can be sorted by, for the palette: a heading needs a mouse."""
        words = query.lower().replace("_", " ").split()
        if not any(word in ("sort", "order") for word in words):
            return
        for name in self.list.columns.shown:
            title = self.table.title(name)
            if all(word in f"sort order the runs by {title}".replace("_", " ").lower() for word in words):
                text = self.tr("Sort the runs › {column}").format(column=title)
                help_text = self.tr("Sort the list of runs by this column; once more turns it round")
                yield Found(text, self.tr("column"), help_text, partial(self._sort_by, name))

    def _sort_by(self, name: str, *, turns: bool = True) -> None:
        """The keyboard goes to the list: what comes first is one key away."""
        self._come_forward()
        self._leave_trash()
        self.list.columns.sort_by(name, turns=turns)
        self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _settings(self) -> list[str]:
        return sorted({name for row in self.table.order.rows.values() for name in row.settings})

    def _offered(self) -> list[str]:
        tags = {MEAN_RETURN, *HEADLINE_TAGS}
        store = MetricsStore.of(self._cockpit.bridge)
        for run_id in self._cockpit.selection.ids:
            metrics = store.metrics(run_id)
            tags |= set(metrics.series) if metrics is not None else set()
        columns = [f"{SETTING}{name}" for name in self._settings()]
        return columns + [MetricColumn(tag, kind).name for tag in sorted(tags) for kind in KINDS]

    def _columns_changed(self) -> None:
        self.grouping.offer_settings(self.table.extras)
        self.spans.follow()

    def _view_state(self) -> dict[str, Any]:
        columns = self.list.columns
        return {
            "columns": columns.layout,
            "sort": columns.sorting,
            "filter": self.filters.state,
            "grouping": self.grouping.grouping,
        }

    def _use_view(self, view: dict[str, Any]) -> None:
        """What a view does not say, or says in a way that makes no sense, is as at first."""
        parts = {name: view.get(name) for name in ("columns", "sort", "filter")}
        known = {name: part if isinstance(part, dict) else {} for name, part in parts.items()}
        self._leave_trash()
        self.list.columns.apply(known["columns"], known["sort"])
        self.filters.use(known["filter"])
        self.grouping.choose(str(view.get("grouping", "")))

    def ask_export(self) -> QFileDialog:
        """Ask where to, and write what is shown."""
        dialog = QFileDialog(self, self.tr("Export the list of runs"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter("CSV (*.csv)")
        dialog.setDefaultSuffix("csv")
        dialog.selectFile("runs.csv")
        dialog.fileSelected.connect(lambda chosen: self.export(Path(chosen)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()
        return dialog

    def export(self, file: Path) -> None:
        text = run_csv(self.table, self.list.columns.shown)
        said = self.tr("{count} runs saved to {file}").format(count=f"{text.count(chr(10)) - 1:,}", file=file)
        self._cockpit.bridge.in_background(
            lambda: write(file, text.encode()),
            lambda _: self._cockpit.notify(Notice(said, "good")),
            lambda why: self._cockpit.notify(Notice(self.tr("Not saved: {why}").format(why=why), "error")),
            owner=self,
        )

    def _act_on_empty(self) -> None:
        if len(self._cockpit.runs):
            self.filters.clear()
        else:
            self.train_requested.emit()

    # ---- showing -------------------------------------------------------------------------------------------------

    def _drop_gone(self, run_ids: Sequence[str]) -> None:
        """A run that is gone is not looked at any more."""
        self._count_trash()
        gone = {run_id for run_id in run_ids if self._cockpit.runs.get(run_id) is None}
        ids = self._cockpit.selection.ids
        if not gone.isdisjoint(ids):
            self._cockpit.selection.select([run_id for run_id in ids if run_id not in gone])

    def _show_connection(self, state: ConnectionState) -> None:
        known = len(self._cockpit.runs) > 0
        self.list.set_away(not state.connected)
        away = self.tr("The trainer daemon is away. Runs go on; this is how they were when it was last heard.")
        if server := self._cockpit.bridge.server:
            away = self.tr(
                "{server} cannot be reached. Runs go on; this is how they were when they were last heard of."
            )
            away = away.format(server=server)
        start = self.tr("Start the daemon") if state.stopped else ""
        help_text = self.tr("Start the trainer daemon again; it takes up the runs that go on")
        said = "" if state.connected or not known else state.sentence if start else away
        self.away_banner.say(said, start, help_text)
        self._show_counts()

    def _show_counts(self, *_: object) -> None:
        order = self.table.order
        self.filters.show_counts(order.counts)
        matching, known = order.matching(), len(order.rows)
        selected = len(self._cockpit.selection.ids)
        whole = self.tr("1 run") if known == 1 else self.tr("{all} runs")
        text = self.tr("{count} of {all}") if matching != known else whole
        text = text.format(count=f"{matching:,}", all=f"{known:,}") if known else ""
        if selected > 1:
            text = self.tr("{selected} selected, {text}").format(selected=f"{selected:,}", text=text)
        self.summary.setText(text)
        self.stack.setCurrentWidget(self.list if matching else self.empty)
        if not matching:
            self._tell_empty(known)

    def _tell_empty(self, known: int) -> None:
        if known:
            several = self.tr("{count} runs are hidden by the filters.").format(count=f"{known:,}")
            text = self.tr("1 run is hidden by the filters.") if known == 1 else several
            self.empty.tell(self.tr("No run matches"), text, self.tr("Clear the filters"))
        elif not self._cockpit.bridge.connection.connected:
            self.empty.tell(self.tr("Waiting for the trainer daemon"), self._cockpit.bridge.connection.sentence)
        else:
            offered = self.receivers(self.train_requested) > 0
            text = self.tr("What you launch is listed here, and runs on when the cockpit is closed.")
            self.empty.tell(self.tr("No runs yet"), text, self.tr("Train a new agent") if offered else "")

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            viewport = self.list.viewport()
            if viewport is not None:
                viewport.update()
        return super().eventFilter(watched, event)
