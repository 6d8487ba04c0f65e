"""An editor for files that a worker reads: colours, line numbers, and a mistake shown under its line."""

from __future__ import annotations

from collections.abc import Callable

from PyQt6.QtCore import QRect, QSize, Qt
from PyQt6.QtGui import (
    QColor,
    QFocusEvent,
    QFontDatabase,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PyQt6.QtWidgets import QLabel, QPlainTextEdit, QTextEdit, QWidget

from gym_gui.ui.own_files.mistake import Mistake
from gym_gui.ui.theme import Theme, Themes, blended

_GUTTER_PAD = 8
_INDENT = "    "

Colour = Callable[[QTextDocument, Themes], object]
"""Makes what colours a document, and follows the theme."""


class CodeEditor(QPlainTextEdit):
    """Plain text. :meth:`show_mistake` marks a place and says what is wrong with it under its line, until the text is
    changed. Tab indents; Escape and then Tab leaves."""

    def __init__(self, themes: Themes, name: str, colour: Colour, parent: QWidget | None = None) -> None:
        """``name``: what is edited, in two or three words."""
        super().__init__(parent)
        self._themes = themes
        self.mistake: Mistake | None = None
        self._mistaken = ""
        """The text that has it: another look, too, is a change of the document."""
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)  # forms are narrow
        self.setAccessibleName(name)
        tip = self.tr("{name}. Tab indents; press Escape and then Tab to leave the editor.")
        self.setToolTip(tip.format(name=name))
        document = self.document()
        assert document is not None
        self.colours = colour(document, themes)
        self._gutter = _Gutter(self, themes)
        self.note = QLabel(self.viewport())
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.setWordWrap(True)
        self.note.hide()
        self.blockCountChanged.connect(lambda _: self._make_room())
        self.updateRequest.connect(self._scrolled)
        self.textChanged.connect(self._text_changed)
        themes.changed.connect(self._dress)
        self._dress(themes.theme)
        self._make_room()

    def minimumSizeHint(self) -> QSize:
        return QSize(160, 160)

    # ---- mistakes ------------------------------------------------------------------------------------------------

    def show_mistake(self, mistake: Mistake) -> None:
        """Go there and say what is wrong."""
        cursor = self._cursor_at(mistake)
        self.setTextCursor(cursor)
        self.mistake, self._mistaken = mistake, self.toPlainText()
        self.note.setText(f"▲ {mistake.what}")
        self._mark(cursor)
        self.centerCursor()
        self._place_note()

    def _text_changed(self) -> None:
        if self.mistake is not None and self.toPlainText() != self._mistaken:
            self.forget_mistake()

    def forget_mistake(self) -> None:
        if self.mistake is not None:
            self.mistake = None
            self.note.hide()
            self.setExtraSelections([])
            self._gutter.update()

    def _mark(self, place: QTextCursor) -> None:
        theme = self._themes.theme
        line = QTextEdit.ExtraSelection()
        line.format.setBackground(blended(theme.colour("bad"), theme.colour("field"), 0.18))
        line.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        line.cursor = QTextCursor(place)
        word = QTextEdit.ExtraSelection()
        word.format.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        word.format.setUnderlineColor(theme.colour("bad"))
        word.cursor = QTextCursor(place)
        word.cursor.movePosition(QTextCursor.MoveOperation.EndOfWord, QTextCursor.MoveMode.KeepAnchor)
        if not word.cursor.hasSelection():
            word.cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        self.setExtraSelections([line, word])
        self._gutter.update()

    def _place_note(self) -> None:
        """Under the line, with its sign under the place."""
        mistake, port = self.mistake, self.viewport()
        if mistake is None or port is None:
            return
        cursor = self.cursorRect(self._cursor_at(mistake))
        room = port.width() - 8
        wide = min(room, max(180, self.note.fontMetrics().horizontalAdvance(self.note.text()) + 16))
        left = max(4, min(cursor.left() - 6, room - wide + 4))
        self.note.setFixedWidth(wide)
        self.note.adjustSize()
        self.note.move(left, cursor.bottom() + 2)
        self.note.setVisible(0 <= cursor.top() < port.height())
        self.note.raise_()

    def _cursor_at(self, mistake: Mistake) -> QTextCursor:
        document = self.document()
        assert document is not None
        block = document.findBlockByNumber(min(max(mistake.line, 1), document.blockCount()) - 1)
        cursor = QTextCursor(block)
        cursor.setPosition(block.position() + min(max(mistake.column - 1, 0), len(block.text())))
        return cursor

    # ---- keys ----------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        if event is None:
            return
        if event.key() == Qt.Key.Key_Escape:
            self.setTabChangesFocus(True)  # until another key is pressed
        elif event.key() == Qt.Key.Key_Tab:
            self.insertPlainText(_INDENT)
        else:
            self.setTabChangesFocus(False)
            super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent | None) -> None:
        self.setTabChangesFocus(False)
        super().focusOutEvent(event)

    # ---- looks ---------------------------------------------------------------------------------------------------

    def _dress(self, theme: Theme) -> None:
        colour, ground = theme.pill_text("bad").name(), blended(theme.colour("bad"), theme.colour("panel"), 0.15).name()
        self.note.setStyleSheet(
            f"QLabel {{ color: {colour}; background: {ground}; border: 1px solid {theme.bad}; border-radius: 4px; "
            "padding: 2px 6px; }"
        )
        self._gutter.update()
        if self.mistake is not None:
            self._mark(self._cursor_at(self.mistake))

    def _make_room(self) -> None:
        self.setViewportMargins(self._gutter.wanted_width, 0, 0, 0)

    def _scrolled(self, room: QRect, distance: int) -> None:
        self._gutter.scroll(0, distance) if distance else self._gutter.update()
        if distance:
            self._place_note()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        room = self.contentsRect()
        self._gutter.setGeometry(QRect(room.left(), room.top(), self._gutter.wanted_width, room.height()))
        if self.mistake is not None:
            self.centerCursor()  # lines are broken elsewhere now
        self._place_note()

    def paint_gutter(self, painter: QPainter, theme: Theme, width: int) -> None:
        """The numbers of the lines that are seen, from above."""
        block, offset = self.firstVisibleBlock(), self.contentOffset()
        top = self.blockBoundingGeometry(block).translated(offset).top()
        painter.setFont(self.font())
        while block.isValid() and top <= self.height():
            high = self.blockBoundingRect(block).height()
            number = block.blockNumber() + 1
            is_wrong = self.mistake is not None and number == self.mistake.line
            painter.setPen(theme.colour("bad" if is_wrong else "muted"))
            room = QRect(0, int(top), width - _GUTTER_PAD, int(high))
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop, str(number))
            top += high
            block = block.next()


class _Gutter(QWidget):
    def __init__(self, editor: CodeEditor, themes: Themes) -> None:
        super().__init__(editor)
        self._editor, self._themes = editor, themes

    @property
    def wanted_width(self) -> int:
        digits = max(2, len(str(self._editor.blockCount())))
        return self._editor.fontMetrics().horizontalAdvance("9") * digits + 2 * _GUTTER_PAD

    def paintEvent(self, event: QPaintEvent | None) -> None:
        painter, theme = QPainter(self), self._themes.theme
        painter.fillRect(self.rect(), QColor(theme.colour("panel")))
        self._editor.paint_gutter(painter, theme, self.width())
