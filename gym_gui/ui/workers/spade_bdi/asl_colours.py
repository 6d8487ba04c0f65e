"""Colours for AgentSpeak in an editor."""

from __future__ import annotations

from PyQt6.QtGui import QFont, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from gym_gui.ui.theme import Theme, Themes
from gym_gui.ui.workers.spade_bdi.asl_words import Kind, words_of

_COLOURS: dict[Kind, str] = {
    "comment": "muted",
    "string": "good",
    "trigger": "accent",
    "goal": "accent",
    "annotation": "warning",
    "action": "accent",
    "variable": "warning",
    "number": "good",
    "keyword": "bad",
    "operator": "muted",
}
"""Of the theme, so that all of them can be read in either look."""
_BOLD: frozenset[Kind] = frozenset({"trigger", "goal", "keyword"})
_IN_COMMENT = 1


class AslColours(QSyntaxHighlighter):
    """Comments, strings, triggers, annotations, internal actions, variables."""

    def __init__(self, document: QTextDocument, themes: Themes) -> None:
        super().__init__(document)
        self._formats: dict[Kind, QTextCharFormat] = {}
        self._dress(themes.theme)
        themes.changed.connect(self._dress)

    def _dress(self, theme: Theme) -> None:
        for kind, name in _COLOURS.items():
            made = QTextCharFormat()
            made.setForeground(theme.colour(name))
            made.setFontItalic(kind == "comment")
            if kind in _BOLD:
                made.setFontWeight(QFont.Weight.DemiBold)
            self._formats[kind] = made
        self.rehighlight()

    def highlightBlock(self, text: str | None) -> None:
        words, goes_on = words_of(text or "", self.previousBlockState() == _IN_COMMENT)
        for word in words:
            self.setFormat(word.start, word.length, self._formats[word.kind])
        self.setCurrentBlockState(_IN_COMMENT if goes_on else 0)
