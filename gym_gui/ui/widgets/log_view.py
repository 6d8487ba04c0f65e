"""The text of a log: appended in batches, followed at its end, searched, and never more than it can hold."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from PyQt6.QtCore import QTimer, pyqtSignal
from PyQt6.QtGui import QFontDatabase, QHideEvent, QResizeEvent, QShowEvent, QTextCharFormat, QTextCursor, QTextDocument
from PyQt6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget

from gym_gui.ui.models.log_buffer import MOST_LINES, LogLine
from gym_gui.ui.theme import Themes

LINES_AT_ONCE = 250
APPEND_MILLISECONDS = 30
APPEND_SECONDS = 0.008
"""What a flood may cost the GUI's thread each time."""
_MOST_HIGHLIGHTS = 500


class LogView(QPlainTextEdit):
    """Follows its end until someone scrolls up; then new lines wait, so that what is read stays in its place.

    ``following_changed(bool)``; ``waiting_changed(int)``: lines that wait; ``searched(int)``: how often the words that
    are looked for occur.
    """

    following_changed = pyqtSignal(bool)
    waiting_changed = pyqtSignal(int)
    searched = pyqtSignal(int)

    def __init__(self, themes: Themes, most: int = MOST_LINES, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._words = ""
        self._waiting: deque[LogLine] = deque(maxlen=most)
        self._last: LogLine | None = None
        self._scrolling = False
        self.following = True
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setMaximumBlockCount(most)
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setAccessibleName(self.tr("Log of the run"))
        self._timer = QTimer(self)
        self._timer.setInterval(APPEND_MILLISECONDS)
        self._timer.timeout.connect(self._append_some)
        bar = self.verticalScrollBar()
        assert bar is not None
        self._bar = bar
        bar.valueChanged.connect(self._scrolled)
        self.updateRequest.connect(lambda _, distance: self._highlight() if distance else None)

    def wrap(self, on: bool) -> None:
        """Whether a line that is too long goes on below."""
        mode = QPlainTextEdit.LineWrapMode
        with self._staying_at_the_end():
            self.setLineWrapMode(mode.WidgetWidth if on else mode.NoWrap)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if self._waiting and self.following:
            self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        self._timer.stop()  # lines that wait are shown when somebody looks again
        super().hideEvent(event)

    # ---- lines ---------------------------------------------------------------------------------------------------

    def show_lines(self, lines: Sequence[LogLine]) -> None:
        """Show these instead of what is there."""
        self.clear()
        self._last = None
        self._waiting.clear()
        self.append_lines(lines)
        self._append_some()

    def append_lines(self, lines: Iterable[LogLine]) -> None:
        """Show more, soon and not all at once; a line that had not ended is replaced by what became of it."""
        for line in lines:
            if self._waiting and _replaces(line, self._waiting[-1]):
                self._waiting.pop()
            self._waiting.append(line)
        if self._waiting and self.following:
            self._timer.start()
        self.waiting_changed.emit(self.waiting)

    @property
    def waiting(self) -> int:
        """Lines that are not shown while someone reads further up."""
        return 0 if self.following else len(self._waiting)

    def _append_some(self) -> None:
        if not self._waiting:
            self._timer.stop()
            return
        self._scrolling = True
        enough, more = time.monotonic() + APPEND_SECONDS, True
        while more:
            self._append([self._waiting.popleft() for _ in range(min(LINES_AT_ONCE, len(self._waiting)))])
            more = bool(self._waiting) and time.monotonic() < enough
        if self.following:
            self._bar.setValue(self._bar.maximum())
        self._scrolling = False
        if not self._waiting:
            self._search_again()

    def _append(self, batch: Sequence[LogLine]) -> None:
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for source, lines in groupby(batch, key=lambda line: line.source):
            style = QTextCharFormat()
            style.setForeground(self._themes.theme.colour("warning" if source == "stderr" else "text"))
            self._insert(cursor, list(lines), style)
        cursor.endEditBlock()

    def _insert(self, cursor: QTextCursor, lines: list[LogLine], style: QTextCharFormat) -> None:
        if self._last is not None and _replaces(lines[0], self._last):
            cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
        elif self._last is not None:
            cursor.insertText("\n")
        self._last = lines[-1]
        cursor.insertText("\n".join(line.text for line in lines), style)

    # ---- following -----------------------------------------------------------------------------------------------

    def follow(self, following: bool) -> None:
        """Go to the end and stay there, or stay here."""
        if following == self.following:
            return
        self.following = following
        if following:
            self._timer.start()
            self._bar.setValue(self._bar.maximum())
        else:
            self._timer.stop()
        self.following_changed.emit(following)
        self.waiting_changed.emit(self.waiting)

    def _scrolled(self, value: int) -> None:
        if not self._scrolling:
            self.follow(value >= self._bar.maximum())

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        with self._staying_at_the_end():
            super().resizeEvent(event)

    @contextlib.contextmanager
    def _staying_at_the_end(self) -> Iterator[None]:
        """What moves the end moves the view with it, if it follows; no person scrolled meanwhile."""
        before, self._scrolling = self._scrolling, True
        yield
        if self.following:
            self._bar.setValue(self._bar.maximum())
        self._scrolling = before

    # ---- searching -----------------------------------------------------------------------------------------------

    def search(self, words: str) -> None:
        """Mark these words wherever they are seen; "" marks nothing."""
        self._words = words
        self._search_again()

    def _search_again(self) -> None:
        self._highlight()
        count = self.toPlainText().lower().count(self._words.lower()) if self._words else 0
        self.searched.emit(count)

    def find_next(self, *, backwards: bool = False) -> bool:
        """Go to the next place of the words, around the end if need be; False where there is none."""
        if not self._words:
            return False
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        if not self.find(self._words, flags):
            ends = QTextCursor.MoveOperation
            kept, edge = self.textCursor(), self.textCursor()
            edge.movePosition(ends.End if backwards else ends.Start)
            self.setTextCursor(edge)
            if not self.find(self._words, flags):
                self.setTextCursor(kept)
                return False
        self.follow(self._bar.value() >= self._bar.maximum())
        return True

    def _highlight(self) -> None:
        """Only what can be seen: marking twenty thousand lines would hold up everything else."""
        marks = [self._mark(cursor) for cursor in self._visible_places()] if self._words else []
        self.setExtraSelections(marks)

    def _visible_places(self) -> list[QTextCursor]:
        viewport, document = self.viewport(), self.document()
        assert viewport is not None and document is not None
        block = self.firstVisibleBlock()
        bottom = viewport.height()
        places: list[QTextCursor] = []
        while block.isValid() and len(places) < _MOST_HIGHLIGHTS:
            if self.blockBoundingGeometry(block).translated(self.contentOffset()).top() > bottom:
                break
            text, words = block.text().lower(), self._words.lower()
            start = text.find(words)
            while start >= 0 and len(places) < _MOST_HIGHLIGHTS:
                cursor = QTextCursor(block)
                cursor.setPosition(block.position() + start)
                cursor.setPosition(block.position() + start + len(words), QTextCursor.MoveMode.KeepAnchor)
                places.append(cursor)
                start = text.find(words, start + len(words))
            block = block.next()
        return places

    def _mark(self, cursor: QTextCursor) -> QTextEdit.ExtraSelection:
        theme, mark = self._themes.theme, QTextEdit.ExtraSelection()
        mark.cursor = cursor
        mark.format.setBackground(theme.colour("warning"))
        mark.format.setForeground(theme.colour("field" if theme.name == "dark" else "on_fill"))
        return mark


def _replaces(line: LogLine, last: LogLine) -> bool:
    return last.open and last.source == line.source
