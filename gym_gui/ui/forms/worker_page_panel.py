"""What a worker says about itself, beside its form: a page of Markdown from its folder."""

from __future__ import annotations

from PyQt6.QtCore import QUrl, pyqtSignal
from PyQt6.QtGui import QTextDocument
from PyQt6.QtWidgets import QTextBrowser

from gym_gui.services.worker_page import read_page
from gym_gui.services.worker_queries import WorkerQueries
from gym_gui.services.worker_tools import ToolError
from gym_gui.ui.context import Cockpit
from gym_gui.ui.web_view import open_in_browser

_GITHUB = QTextDocument.MarkdownFeature.MarkdownDialectGitHub
_NO_HTML = QTextDocument.MarkdownFeature.MarkdownNoHTML


class WorkerPagePanel(QTextBrowser):
    """Shows text and loads nothing: no picture, no HTML, no other file. Links to the web open in the browser.

    ``found(bool)`` says whether there is a page, after each :meth:`show_page`.
    """

    found = pyqtSignal(bool)

    def __init__(self, cockpit: Cockpit, worker_type: str, queries: WorkerQueries) -> None:
        super().__init__()
        self._cockpit, self._worker_type, self._queries = cockpit, worker_type, queries
        self._algo: str | None = None
        self._text = ""
        self.setOpenLinks(False)
        self.anchorClicked.connect(self._follow)
        self.setAccessibleName(self.tr("What the worker says about itself"))
        self.setFixedHeight(340)
        cockpit.themes.changed.connect(self._render)  # links have their colour from the palette of the moment

    def show_page(self, algo: str) -> None:
        """The page of an algorithm, or the worker's own where it has none."""
        if algo == self._algo:
            return
        self._algo = algo

        def ask() -> str:
            try:
                return read_page(self._queries.manifest(self._worker_type), algo)
            except ToolError:
                return ""  # it is installed elsewhere, and its page too

        self._cockpit.bridge.in_background(
            ask, lambda text: self._show(algo, text), lambda why: self._show_problem(algo, why), owner=self
        )

    def _show(self, algo: str, text: str) -> None:
        if algo == self._algo:  # an answer may come after a later one
            self._text = text
            self._render()
            self.found.emit(bool(text.strip()))

    def _render(self, *_: object) -> None:
        document = self.document()
        if self._text and document is not None:
            document.setMarkdown(self._text, _GITHUB | _NO_HTML)

    def _show_problem(self, algo: str, sentence: str) -> None:
        if algo == self._algo:
            self._text = ""
            self.setPlainText(self.tr("The page cannot be shown: {reason}").format(reason=sentence))
            self.found.emit(True)

    def loadResource(self, kind: int, name: QUrl) -> object:
        return None

    def _follow(self, address: QUrl) -> None:
        if address.scheme() in ("http", "https"):
            open_in_browser(address.toString(), self._cockpit.notify)
