"""Weights & Biases for one run: its page when it is online, its curves and summary without network, and the upload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PyQt6.QtCore import Qt, QTimer, QUrl
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QFrame, QLabel, QScrollArea, QStackedLayout, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.services.run_words import is_over, quantity
from gym_gui.services.wandb.preparation import run_environ
from gym_gui.services.wandb.route import NoRouteError, route_from
from gym_gui.services.wandb.run_side import WandbSide
from gym_gui.services.wandb.slowdown import slowdown_hints
from gym_gui.services.wandb.watcher import News, WandbWatcher, reading_notes
from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.panels.wandb_head import WandbHead
from gym_gui.ui.plots.curve_plot import CurvePlot
from gym_gui.ui.plots.drawing import Curve, PlotOptions
from gym_gui.ui.plots.plot_export import PlotExporter
from gym_gui.ui.plots.plot_grid import PlotGrid
from gym_gui.ui.plots.run_metrics import MetricBatch, RunMetrics
from gym_gui.ui.wandb_room import WandbRoom
from gym_gui.ui.web_view import make_web_view, open_in_browser, use_proxy, why_not
from gym_gui.ui.widgets.copyable_tree import CopyableTree
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.segments import Segments
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.wandb_keys import WandbKey

LOOK_AGAIN_MILLISECONDS = 1000
_SMOOTHING = 0.9
_NAME_WIDTH = 180
_LEAST_PAGE_HEIGHT = 160
_LONGEST_VALUE = 500
_MOST_LINES = 2000


class WandbTab(QWidget):
    """Looks for W&B's files once a second while it can be seen, and reads what is new in them beside the GUI."""

    def __init__(self, cockpit: Cockpit, run_id: str, run_dir: Path) -> None:
        super().__init__()
        self._cockpit, self._run_id = cockpit, run_id
        self._watcher = WandbWatcher(run_dir)
        self._is_looking = self._closed = False
        self._drawn: object = None
        self._page: Any = None
        self.news: News | None = None
        self.metrics = RunMetrics(run_id)
        self.room = WandbRoom.of(cockpit.bridge)
        self.message = EmptyPage(parent=self)
        self.head = WandbHead()
        self.grid = PlotGrid(cockpit.themes)
        self.grid.set_options(PlotOptions(smoothing=_SMOOTHING))
        self.exporter = PlotExporter(cockpit, self, self._plots, lambda: [(self.metrics, self._name())])
        self.facts = CopyableTree(self._copy_facts)
        self._lay_out()
        self._connect()
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_AGAIN_MILLISECONDS)
        self._timer.timeout.connect(self._look)

    def _lay_out(self) -> None:
        tr = self.tr
        self.choice = Segments(
            [
                ("curves", tr("Curves"), tr("What W&B recorded, drawn from its file without network")),
                ("summary", tr("Summary"), tr("Last values, settings, media and files as W&B recorded them")),
                ("page", tr("Page"), tr("The run's page at W&B")),
            ]
        )
        self.choice.buttons["page"].hide()
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.note.setProperty("role", "muted")
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.hide()
        self.facts.setColumnCount(2)
        self.facts.setHeaderHidden(True)
        self.facts.setColumnWidth(0, _NAME_WIDTH)
        self.facts.setAccessibleName(tr("What W&B recorded of the run"))
        self._pages = QStackedWidget()
        self._pages.setMinimumHeight(_LEAST_PAGE_HEIGHT)
        for page in (_scrolled(self.grid), self.facts):
            self._pages.addWidget(page)
        tracked = QWidget(self)
        layout = QVBoxLayout(tracked)
        layout.setContentsMargins(10, 10, 10, 6)
        layout.setSpacing(8)
        for widget in (self.head, self.choice, self.note):
            layout.addWidget(widget)
        layout.addWidget(self._pages, 1)
        self._content = QStackedLayout(self)
        self._content.addWidget(self.message)
        self._content.addWidget(_scrolled(tracked))  # in a low dock the head alone takes the room

    def _connect(self) -> None:
        self.choice.chosen.connect(self._show_page)
        self.grid.export_wanted.connect(lambda tag, kind: self.exporter.ask(kind, tag))
        self.head.open_wanted.connect(self._open)
        self.head.sync_wanted.connect(self._sync)
        self.head.stop_wanted.connect(lambda: self.room.cancel(self._run_id))
        self.head.copy_wanted.connect(self._copy_command)
        self.head.key_wanted.connect(self._ask_key)
        self.head.prompt.entered.connect(self._keep_key)
        self.room.said.connect(self._upload_said)
        self.room.finished.connect(self._upload_ended)
        self.head.set_uploading(self.room.is_uploading(self._run_id))

    @property
    def told(self) -> str:
        """What the tab says while there is nothing to show."""
        return self.message.text.text() if self._content.currentWidget() is self.message else ""

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if self.news is None:
            self.message.tell("", self.tr("Looking for W&B's files…"))
        self._look()
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def close_tab(self) -> None:
        """An upload that was started here goes on."""
        self._closed = True
        self._timer.stop()
        self.room.said.disconnect(self._upload_said)
        self.room.finished.disconnect(self._upload_ended)

    # ---- looking -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """One look at a time: the watcher keeps its place in the files."""
        if self._is_looking or self._closed:
            return
        self._is_looking = True
        run = self._cockpit.runs.get(self._run_id)
        over = run is None or is_over(run)

        def look() -> tuple[News, list[str]]:
            news = self._watcher.look(is_over=over)
            return news, slowdown_hints(news.side, news.tracked)

        self._cockpit.bridge.in_background(look, self._take, self._failed, owner=self)

    def _failed(self, sentence: str) -> None:
        self._is_looking = False
        self._cockpit.notify(Notice(sentence, "error"))

    def _take(self, found: tuple[News, list[str]]) -> None:
        self._is_looking = False
        news, hints = found
        self.news = news
        if not news.side.is_tracked:
            self._tell_nothing(news.side)
            return
        self._add_points(news)
        self.head.show_side(news.side, self._name(), hints)
        self.choice.buttons["page"].setVisible(bool(news.side.url) and not why_not())
        self._tell_note(news)
        self._list_facts(news)
        self._content.setCurrentIndex(1)

    def _tell_nothing(self, side: WandbSide) -> None:
        if side.is_over and side.was_begun:
            why = self.tr("The end of the run's log may say why. What it measured is under Metrics.")
            self.message.tell(self.tr("W&B recorded nothing of this run"), why)
        elif side.is_over:
            how = self.tr("Track the next one: tick Track under Weights & Biases in the form, or add -- --track.")
            self.message.tell(self.tr("This run was not tracked with W&B"), how)
        else:
            self.message.tell("", self.tr("Not available yet: W&B has recorded nothing. This page waits for it."))
        self._content.setCurrentWidget(self.message)

    def _name(self) -> str:
        tracked = self.news.tracked if self.news is not None else None
        parts = (tracked.entity, tracked.project, tracked.name) if tracked is not None else ()
        return one_line(" / ".join(filter(None, parts)))

    def _add_points(self, news: News) -> None:
        if not news.columns:
            return
        known = len(self.metrics.series)
        columns = {
            tag: (np.array(one.steps), np.array(one.wall_times), _finite(np.array(one.values)))
            for tag, one in news.columns.items()
        }
        self.metrics.take(MetricBatch(news.rows, columns))
        if len(self.metrics.series) > known:
            colour = MetricsStore.of(self._cockpit.bridge).colour_number(self._run_id)
            self.grid.set_curves([Curve(self._run_id, self._name(), colour, (self.metrics,))])

    def _tell_note(self, news: News) -> None:
        notes = [one_line(note) for note in reading_notes(news)]
        if not self.metrics.series:
            notes.insert(0, self.tr("W&B writes its file every 15 seconds: no numbers yet."))
        self.note.setText(" ".join(notes))
        self.note.setVisible(bool(notes))

    # ---- the summary ---------------------------------------------------------------------------------------------

    def _list_facts(self, news: News) -> None:
        """Only when a word of it is another one: the place of somebody who reads is kept."""
        tracked = news.tracked
        sections = {
            self.tr("Summary"): [[key, _value(one)] for key, one in sorted(tracked.summary.items()) if key[:1] != "_"],
            self.tr("Settings"): [[key, _value(one)] for key, one in sorted(tracked.config.items())],
            self.tr("Media"): [[one.key, f"{one.kind} {', '.join(one.paths)}"] for one in tracked.media],
            self.tr("Files"): [["", path] for path in tracked.files],
        }
        lines = {name: [list(map(one_line, line)) for line in found[:_MOST_LINES]] for name, found in sections.items()}
        if lines == self._drawn:
            return
        self._drawn = lines
        self.facts.clear()
        for name, found in lines.items():
            if found:
                self.facts.add_section(name, found)

    def _copy_facts(self) -> None:
        lines = self.facts.chosen_lines
        if lines and copy_text("\n".join(lines) + "\n"):
            self._cockpit.notify(Notice(self.tr("Copied")))

    # ---- pages ---------------------------------------------------------------------------------------------------

    def _show_page(self, name: str) -> None:
        if name == "page":
            self._embed()
            if self._page is not None:
                self._pages.setCurrentWidget(self._page)
        else:
            self._pages.setCurrentIndex(0 if name == "curves" else 1)

    def _embed(self) -> None:
        url = self.news.side.url if self.news is not None else ""
        if self._page is not None or not url:
            return
        run = self._cockpit.runs.get(self._run_id)
        try:
            route = route_from(run_environ(run.config_json if run is not None else "", self.room.environ()))
        except NoRouteError as error:
            self._cockpit.notify(Notice(str(error), "error"))
            return
        if route.proxies is not None:
            addresses = route.proxies.addresses
            use_proxy(addresses.get("https") or addresses.get("http", ""))
        self._page = make_web_view()
        if self._page is not None:
            self._pages.addWidget(self._page)
            self._page.setUrl(QUrl(url))

    def _plots(self) -> dict[str, CurvePlot]:
        return {tag: card.plot for tag, card in self.grid.cards.items()}

    def _open(self) -> None:
        if self.news is not None and self.news.side.url:
            open_in_browser(self.news.side.url, self._cockpit.notify)

    # ---- upload and key ------------------------------------------------------------------------------------------

    def _copy_command(self, command: str) -> None:
        if copy_text(command):
            self._cockpit.notify(Notice(self.tr("Copied the command")))

    def _sync(self) -> None:
        self.head.say(self.tr("Looking for the key…"))
        self._cockpit.bridge.in_background(self.room.find_key, self._begin_upload, self.head.say, owner=self)

    def _begin_upload(self, key: WandbKey | None) -> None:
        if key is None:
            self.head.say("")
            self.head.prompt.ask(
                self.tr("There is no key for W&B yet: wandb.ai/authorize shows yours. Type it, then Sync.")
            )
            return
        self.head.say(self.tr("Uploading…"))
        self.room.upload(self._run_id)
        self.head.set_uploading(True)

    def _upload_said(self, run_id: str, line: str) -> None:
        if run_id == self._run_id:
            self.head.say(one_line(line))

    def _upload_ended(self, run_id: str, ok: bool, sentence: str) -> None:
        if run_id != self._run_id:
            return
        self.head.set_uploading(False)
        self.head.say("" if ok else one_line(sentence).removeprefix("mosaic: "))
        self._look()

    def _ask_key(self) -> None:
        def tell(key: WandbKey | None) -> None:
            there = self.tr("W&B is used with {key}. Type another to replace the one in the keyring.")
            none = self.tr("There is no key for W&B yet: runs are recorded offline. wandb.ai/authorize shows yours.")
            self.head.prompt.ask(there.format(key=key) if key is not None else none)

        self._cockpit.bridge.in_background(self.room.find_key, tell, self.head.say, owner=self)

    def _keep_key(self, secret: str) -> None:
        self._cockpit.bridge.in_background(lambda: self.room.keep(secret), self.head.say, self.head.say, owner=self)


def _scrolled(widget: QWidget) -> QScrollArea:
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    scroll.setWidget(widget)
    return scroll


def _finite(values: Any) -> Any:
    return np.where(np.isfinite(values), values, np.nan)


def _value(value: Any) -> str:
    """A setting or a last value as people read it."""
    if isinstance(value, float):
        return quantity(value)
    return value[:_LONGEST_VALUE] if isinstance(value, str) else json.dumps(value, default=str)[:_LONGEST_VALUE]
