"""The tabs of a run that show what it left on disk. Each is made when it is first looked at.

W&B, Optuna and Compare get their places here: a class with ``NAME``, ``TITLE`` and a widget, and a row in
:class:`AnalyticsTabManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PyQt6.QtCore import Qt, QTimer, QUrl
from PyQt6.QtGui import QDesktopServices, QHideEvent, QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.tensorboard_server import TensorBoardServer
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.run_manifest import read_manifest

LOOK_AGAIN_MILLISECONDS = 1000


@dataclass(frozen=True)
class AnalyticsTab:
    """A tab that a run may have."""

    name: str
    title: str
    make: Callable[[Cockpit, str, Path], QWidget]


class AnalyticsTabManager:
    """Which analytics tabs a run has, from its manifest's point of view: one for each kind of artifact."""

    def tabs(self) -> list[AnalyticsTab]:
        return [AnalyticsTab("tensorboard", "TensorBoard", TensorBoardTab)]


class TensorBoardTab(QWidget):
    """Starts a server when it is shown and ends it with itself; embeds the page where WebEngine is installed."""

    def __init__(self, cockpit: Cockpit, run_id: str, run_dir: Path) -> None:
        super().__init__()
        self._cockpit, self._run = cockpit, RunPaths(run_dir)
        self.server: TensorBoardServer | None = None
        self._closed = False
        self._told = QLabel()
        self._told.setWordWrap(True)
        self._told.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.browser = QPushButton(self.tr("Open in the browser"))
        self.browser.setToolTip(self.tr("Show TensorBoard for this run in the web browser; the run is not affected"))
        self.browser.setEnabled(False)
        self.browser.clicked.connect(self._open_browser)
        self._again = QPushButton(self.tr("Try again"))
        self._again.setToolTip(self.tr("Start the TensorBoard server once more"))
        self._again.clicked.connect(self._begin)
        self._again.hide()
        self._page: QWidget | None = None
        self._content = QStackedLayout()
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self._again)
        buttons.addWidget(self.browser)
        layout = QVBoxLayout(self)
        layout.addLayout(buttons)
        layout.addLayout(self._content, 1)
        self._content.addWidget(self._told)  # not before: a stack without a place shows it as a window of its own
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_AGAIN_MILLISECONDS)
        self._timer.timeout.connect(self._look)

    @property
    def told(self) -> str:
        """What the tab says while there is nothing to show."""
        return self._told.text()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if self.server is None:
            self._tell(self.tr("Looking for TensorBoard data…"))
            self._look()
            self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def close_tab(self) -> None:
        """End the server; the tab is of no use afterwards."""
        self._closed = True
        self._timer.stop()
        if self.server is not None:
            self.server.stop()

    def _look(self) -> None:
        """Whether there is data yet, asked without holding up the GUI."""
        self._cockpit.bridge.in_background(lambda: read_manifest(self._run), self._decide, owner=self)

    def _decide(self, manifest: dict[str, Any]) -> None:
        if self.server is not None or self._closed:
            return
        if (self._run.tensorboard).is_dir() and any(self._run.tensorboard.glob("events.out.tfevents.*")):
            self._begin()
        elif manifest.get("state") == "TERM":
            self._timer.stop()
            self._tell(self.tr("This run wrote no TensorBoard data."))
        else:
            self._tell(self.tr("Not available yet: the run has written no TensorBoard data. This page waits for it."))

    def _begin(self) -> None:
        self._timer.stop()
        self._again.hide()
        self._tell(self.tr("Starting TensorBoard…"))
        if self.server is not None:
            self.server.stop()
        self.server = TensorBoardServer(self._run.tensorboard, self)
        self.server.ready.connect(self._ready)
        self.server.failed.connect(self._failed)
        self.server.start()

    def _ready(self, address: str) -> None:
        self.browser.setEnabled(True)
        view = _web_view()
        if view is None:
            words = self.tr("TensorBoard runs at {address}. To see it here, install PyQt6-WebEngine.")
            self._tell(words.format(address=address))
            return
        self._page = view
        self._content.addWidget(view)
        self._content.setCurrentWidget(view)
        view.setUrl(QUrl(address))

    def _failed(self, sentence: str) -> None:
        self.browser.setEnabled(False)
        self._again.show()
        self._tell(sentence)

    def _tell(self, sentence: str) -> None:
        self._told.setText(sentence)
        self._content.setCurrentWidget(self._told)

    def _open_browser(self) -> None:
        if self.server is not None and self.server.address:
            QDesktopServices.openUrl(QUrl(self.server.address))


def _web_view() -> Any:
    """An embedded browser, None where WebEngine is not installed; imported late because it is large."""
    try:
        from PyQt6.QtWebEngineWidgets import QWebEngineView
    except ImportError:
        return None
    return QWebEngineView()
