"""Colours for prompt templates in an editor: parts, fields and remarks."""

from __future__ import annotations

import re

from PyQt6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from gym_gui.ui.theme import Theme, Themes

_WORDS = re.compile(
    r"(?P<muted>^#.*|^mosaic-prompt \d+\s*$)|(?P<accent>^\[[^\[\]]*\]\s*$)|(?P<warning>\{\{|\}\}|\{[^{}]*\})"
)


class TemplateColours(QSyntaxHighlighter):
    def __init__(self, document: QTextDocument, themes: Themes) -> None:
        super().__init__(document)
        self._formats: dict[str, QTextCharFormat] = {}
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    def _dress(self, theme: Theme) -> None:
        for name in _WORDS.groupindex:
            made = QTextCharFormat()
            made.setForeground(theme.colour(name))
            made.setFontItalic(name == "muted")
            made.setFontWeight(QFont.Weight.DemiBold if name == "accent" else QFont.Weight.Normal)
            self._formats[name] = made
        self.rehighlight()

    def highlightBlock(self, text: str | None) -> None:
        for found in _WORDS.finditer(text or ""):
            self.setFormat(found.start(), len(found[0]), self._formats[str(found.lastgroup)])
