"""Panels of text in a form: the command line of a run, results of dry runs with time stamps, documentation."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from PyQt6.QtCore import QUrl, pyqtSignal
from PyQt6.QtGui import QFontDatabase, QTextCursor
from PyQt6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.theme import Theme, Themes

_MOST_NOTES = 500
_SHORT, _MOST_ROWS = 48, 12


class CommandPreview(QWidget):
    """The ``mosaic`` command that does the same as the form, with a button that copies it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(self.tr("Command line of this run"))
        self.text.setToolTip(self.tr("What to type in a terminal to start the same run"))
        self.text.setTabChangesFocus(True)
        self.command = ""
        self.copy_button = QPushButton(self.tr("Copy"))
        self.copy_button.setToolTip(self.tr("Copy the command to the clipboard"))
        self.copy_button.clicked.connect(self.copy)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.copy_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.text)
        layout.addLayout(row)

    def show_command(self, command: str) -> None:
        if command != self.command:
            self.command = command
            shown = _in_lines(command)
            self.text.setPlainText(shown)
            rows = min(max(shown.count("\n") + 1, 2), _MOST_ROWS)
            self.text.setFixedHeight(rows * self.text.fontMetrics().lineSpacing() + 26)

    def copy(self) -> None:
        copy_text(self.command)


class NotesPanel(QPlainTextEdit):
    """What happened, each with the time; the oldest lines go when there are many."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setTabChangesFocus(True)
        self.setMaximumBlockCount(_MOST_NOTES)
        self.setPlaceholderText(self.tr("What a dry run finds is written here."))
        self.setAccessibleName(self.tr("Dry-run results"))
        self.setToolTip(self.tr("Results of dry runs and submissions, with their times"))
        self.setFixedHeight(220)

    def note(self, text: str, now: datetime | None = None) -> None:
        stamp = (now or datetime.now().astimezone()).strftime("%H:%M:%S")
        self.appendPlainText(f"{stamp}  {text}")
        self.moveCursor(QTextCursor.MoveOperation.End)
        cursor = self.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.PreviousBlock, QTextCursor.MoveMode.MoveAnchor, text.count("\n"))
        bar = self.verticalScrollBar()
        if bar is not None:
            bar.setValue(cursor.block().firstLineNumber())  # the newest note from its beginning


class DocumentationPanel(QTextBrowser):
    """A page of HTML in the colours of the theme. ``link_wanted(address)`` of a page on the web."""

    link_wanted = pyqtSignal(str)

    def __init__(
        self,
        themes: Themes,
        folder: Path,
        parent: QWidget | None = None,
        *,
        complete: Callable[[str, str], str] = lambda page, name: page,
    ) -> None:
        """``complete(page, name)`` puts into a page what is kept elsewhere."""
        super().__init__(parent)
        self._folder, self._name, self._complete = folder, "", complete
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._follow)
        self.setAccessibleName(self.tr("Documentation of the algorithm"))
        self.setFixedHeight(340)
        self._theme = themes.theme
        themes.changed.connect(self._dress)

    def _follow(self, address: QUrl) -> None:
        if address.scheme() in ("http", "https"):
            self.link_wanted.emit(address.toString())

    def show_page(self, name: str) -> None:
        """The page of an algorithm; one that has none says so."""
        if name != self._name:
            self._name = name
            self._render()

    def _dress(self, theme: Theme) -> None:
        self._theme = theme
        self._render()

    def _render(self) -> None:
        document = self.document()
        if document is not None:
            document.setDefaultStyleSheet(_sheet(self._theme))
        self.setHtml(self._page() if self._name else "")

    def _page(self) -> str:
        file = self._folder / f"{self._name}.html"
        if file.parent == self._folder and file.is_file():
            return self._complete(file.read_text(encoding="utf-8"), self._name)
        return f"<p>{self.tr('There is no page about this script yet. Its flags are explained beside it.')}</p>"


def _in_lines(command: str) -> str:
    """A long command with an option on each line, as a shell takes it."""
    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("--") and lines[-1] != ["--"]:
            lines.append([])
        lines[-1].append(word)
    return " \\\n    ".join(shlex.join(line) for line in lines) if len(command) > _SHORT else command


def _sheet(theme: Theme) -> str:
    return (
        f"h1 {{ font-size: large; }} h2 {{ font-size: medium; color: {theme.muted}; }} "
        f"code {{ color: {theme.accent}; }} a {{ color: {theme.accent}; }} "
        f"th {{ color: {theme.muted}; text-align: left; }} td, th {{ padding: 3px 8px 3px 0; }}"
    )
