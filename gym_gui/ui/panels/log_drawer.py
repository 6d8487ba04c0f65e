"""What the current run prints, while it prints it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PyQt6.QtCore import Qt, QTimer, QUrl
from PyQt6.QtGui import QDesktopServices, QHideEvent, QKeyEvent, QShowEvent
from PyQt6.QtWidgets import (
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import duration, is_over, state_word
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.bridge import ConnectionState, Feed, Stream
from gym_gui.ui.commands import Command
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.log_buffer import MOST_LINES, SOURCES, LineReader, LogBuffer, LogLine
from gym_gui.ui.models.run_rows import QUEUED, RunRow
from gym_gui.ui.widgets.banner import Banner
from gym_gui.ui.widgets.empty_page import EmptyPage
from gym_gui.ui.widgets.log_bar import LogBar
from gym_gui.ui.widgets.log_view import LogView
from gym_gui.ui.widgets.snackbar import Notice

_WRAP = "log.wrap"
_CLOCK_MILLISECONDS = 1000
_PATIENCE_SECONDS = 0.8
"""How long a log that was asked for may be silent before it is called empty."""


def log_stream(run_id: str) -> Stream:
    """The lines at the end of a run's log, and what it goes on to print, in batches. The daemon numbers no bytes: after
    it was away the end of the log comes once more, announced by None. Lines are made where this is read, which is not
    the GUI's thread."""

    def stream(client: TrainerClient, after: int) -> Iterator[tuple[int, list[LogLine] | None]]:
        client.run(run_id)  # only a daemon that answers makes what is shown out of date
        # One line more than is kept shows that there were more.
        chunks, reader = client.logs(run_id, follow=True, tail_lines=MOST_LINES + 1), LineReader()
        yield after + 1, None
        for number, chunk in enumerate(chunks, start=after + 2):
            yield number, reader.read(chunk.source, chunk.data)

    return stream


class LogDrawer(QWidget):
    """Follows the current run of the selection, while it can be seen."""

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._feed: Feed | None = None
        self._buffer = LogBuffer()
        self._heard_at = 0.0
        self._row: RunRow | None = None
        self.view = LogView(cockpit.themes)
        self.empty = EmptyPage()
        self.bar = LogBar(cockpit.themes)
        self.truncated, self.away = Banner(), Banner("warning")
        self._lay_out()
        self._connect()
        self._clock = QTimer(self)
        self._clock.setInterval(_CLOCK_MILLISECONDS)
        self._clock.timeout.connect(self._show_run)
        self._look_at(cockpit.selection.current)

    # ---- layout --------------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.page = QWidget()
        inside = QVBoxLayout(self.page)
        inside.setContentsMargins(10, 0, 10, 8)
        inside.setSpacing(4)
        for strip in (self.away, self.truncated):
            inside.addWidget(strip)
        self.stack = QStackedWidget()
        self.stack.addWidget(self.view)
        self.stack.addWidget(self.empty)
        inside.addWidget(self.stack, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self.page, 1)

    def _connect(self) -> None:
        bar = self.bar
        bar.source.chosen.connect(self._show_source)
        bar.search.textChanged.connect(self.view.search)
        bar.find_asked.connect(lambda backwards: self.view.find_next(backwards=backwards))
        bar.follow.clicked.connect(self.view.follow)
        bar.wrap.toggled.connect(self._wrap)
        bar.wrap.setChecked(self._cockpit.preferences.get(_WRAP, True))
        self._wrap(bar.wrap.isChecked())
        self.view.following_changed.connect(bar.follow.setChecked)
        self.view.waiting_changed.connect(bar.tell_waiting)
        self.view.searched.connect(bar.tell_found)
        self.truncated.acted.connect(self.open_file)
        self._cockpit.selection.changed.connect(lambda: self._look_at(self._cockpit.selection.current))
        self._cockpit.runs.changed.connect(self._note_runs)
        self._cockpit.themes.changed.connect(self._show_source)
        self._cockpit.bridge.connection_changed.connect(self._tell_connection)
        tr = self.tr
        find = Command("search-log", tr("Search the log"), "Run/Log", "Ctrl+F", tr("Find words in the run's log"))
        self._cockpit.commands.add(find, self._focus_search)
        file = Command("open-log-file", tr("Open the log file"), "Run/Log", "", tr("The whole log, in another program"))
        self._cockpit.commands.add(file, self.open_file)

    # ---- which run -----------------------------------------------------------------------------------------------

    def _look_at(self, run_id: str | None) -> None:
        if self._row is not None and run_id == self._row.run_id:
            return
        self._stop()
        run = self._cockpit.runs.get(run_id) if run_id is not None else None
        self._row = RunRow(run, time.monotonic()) if run is not None else None
        self._begin()
        self._cockpit.commands.enable("open-log-file", run is not None, self.tr("Select a run first."))
        if run is not None and self.isVisible():
            self._start()

    def _note_runs(self, run_ids: Sequence[str]) -> None:
        """The run may be new here, changed or gone."""
        current = self._cockpit.selection.current
        if current not in run_ids or current is None:
            return
        run = self._cockpit.runs.get(current)
        if run is None or self._row is None or self._row.run_id != current:
            self._row = None
            self._look_at(current)
        else:
            self._row.update(run, time.monotonic())
            self._show_run()

    def _start(self) -> None:
        if self._feed is None and self._row is not None:
            self._feed = self._cockpit.bridge.follow(log_stream(self._row.run_id), self)
            self._feed.arrived.connect(self._take)
            self._feed.ended.connect(self._show_run)
            self._feed.failed.connect(lambda sentence: self._cockpit.notify(Notice(sentence, "error")))
        self._clock.start()

    def _stop(self) -> None:
        self._clock.stop()
        if self._feed is not None:
            self._feed.stop()
            self._feed.deleteLater()
            self._feed = None

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._start()
        self._show_run()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._stop()
        super().hideEvent(event)

    # ---- its lines -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Another run: nothing is known of its log."""
        self._heard_at = 0.0
        self._buffer = LogBuffer()
        self.view.show_lines([])
        self.view.follow(True)
        self._tell_truncated()
        self._show_run()

    def _take(self, batches: Sequence[list[LogLine] | None]) -> None:
        lines: list[LogLine] = []
        for batch in batches:
            if batch is None:
                self._buffer, lines = LogBuffer(), []
                self._heard_at = time.monotonic()
                self.view.show_lines([])
            else:
                lines += batch
        self._buffer.add(lines)
        sources = self._sources
        self.view.append_lines([line for line in lines if line.source in sources][-MOST_LINES:])
        self._tell_truncated()
        self._show_run()

    @property
    def _sources(self) -> tuple[str, ...]:
        return SOURCES if self.bar.source.choice == "both" else (self.bar.source.choice,)

    def _show_source(self, *_: object) -> None:
        self.view.show_lines(self._buffer.lines(self._sources))
        self._tell_truncated()
        self._show_run()

    def log_file(self) -> Path | None:
        """The file that has everything: the chosen one's, or of both the one that is not shown whole."""
        if self._row is None:
            return None
        left_out = self._buffer.left_out(self._sources)
        return Path(self._row.run.log_dir) / f"{(left_out or list(self._sources))[0]}.log"

    def open_file(self) -> None:
        file = self.log_file()
        if file is None:
            return
        if server := self._cockpit.bridge.server:
            text = self.tr("The file is on {server}: {path}").format(server=server, path=file)
            self._cockpit.notify(Notice(text, "warning"))
        elif not file.is_file():
            text = self.tr("{path} does not exist yet; the run writes it when it starts.").format(path=file)
            self._cockpit.notify(Notice(text, "warning"))
        elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(file))):
            text = self.tr("No program for text files could be opened. The log is {path}").format(path=file)
            self._cockpit.notify(Notice(text, "warning"))

    # ---- telling -------------------------------------------------------------------------------------------------

    def _show_run(self) -> None:
        row = self._row
        elapsed = row.elapsed(time.monotonic()) if row is not None else 0.0
        self.bar.show_run(row, duration(elapsed) if elapsed else "")
        empty = self._emptiness()
        if empty is not None:
            self.empty.tell(*empty)
        self.stack.setCurrentWidget(self.view if empty is None else self.empty)

    def _emptiness(self) -> tuple[str, str] | None:
        """Why there is nothing to read, None when there is something."""
        tr = self.tr
        if self._row is None:
            return tr("No run selected"), tr("Select a run in the list to read what it prints.")
        if self._buffer.has_lines(self._sources):
            return None
        run = self._row.run
        if self._row.bucket == QUEUED:
            return tr("Not started yet"), tr("The run waits for its turn. What it prints appears here.")
        if not self._heard_at:
            return tr("Not read yet"), tr("The log is read as soon as the trainer daemon answers.")
        if time.monotonic() - self._heard_at < _PATIENCE_SECONDS:
            return None
        what = "" if self.bar.source.choice == "both" else tr(" to {source}").format(source=self.bar.source.choice)
        if is_over(run):
            return tr("Nothing to read"), tr("The run has not written anything{what}.").format(what=what)
        sentence = tr("The run is {word} and has not written anything{what} yet.")
        return tr("Nothing yet"), sentence.format(word=state_word(run), what=what)

    def _tell_truncated(self) -> None:
        left_out = self._buffer.left_out(self._sources)
        if not left_out:
            self.truncated.say("")
            return
        text = self.tr("Earlier lines are left out: the last {count} are shown. All of them: {path}")
        self.truncated.say(
            text.format(count=f"{MOST_LINES:,}", path=self.log_file()),
            self.tr("Open file"),
            self.tr("Open the whole log in the program for text files"),
        )

    def _tell_connection(self, state: ConnectionState) -> None:
        away = self.tr("The trainer daemon is away. The run goes on; its log does when the daemon is back.")
        self.away.say("" if state.connected or self._row is None else away)

    # ---- keyboard ------------------------------------------------------------------------------------------------

    def _wrap(self, on: bool) -> None:
        self._cockpit.preferences.put(_WRAP, on)
        self.view.wrap(on)

    def _focus_search(self) -> None:
        show = f"show-{self.objectName()}"
        if any(command.name == show for command, _ in self._cockpit.commands.all()):
            self._cockpit.commands.action(show).trigger()
        self.bar.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.bar.search.selectAll()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        assert event is not None
        if self.bar.search.hasFocus() and event.key() == Qt.Key.Key_Escape:
            self.bar.search.clear()
            self.view.setFocus()
        else:
            super().keyPressEvent(event)
