"""TensorBoard for one run: a server while somebody looks, its page here or in the browser, and a word until then."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

from PyQt6.QtCore import Qt, QTimer, QUrl
from PyQt6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PyQt6.QtWidgets import QHBoxLayout, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from gym_gui.services.run_words import is_over
from gym_gui.services.tensorboard.lease import TensorBoardLease
from gym_gui.services.tensorboard.run_folders import folder_of
from gym_gui.ui.context import Cockpit
from gym_gui.ui.tensorboard_server import TensorBoardServer
from gym_gui.ui.web_view import make_web_view, open_in_browser, why_not
from gym_gui.ui.widgets.empty_page import EmptyPage
from mosaic_protocol.paths import RunPaths
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.run_manifest import has_event_file, read_manifest
from mosaic_protocol.states import RunState

LOOK_AGAIN_MILLISECONDS = 1000
_PAGE_WIDTH = 900
_LEAST_ZOOM = 0.5


class _Data(Enum):
    THERE = "there"
    EXPECTED = "expected"
    NEVER = "never"


def _data_of(paths: RunPaths, run: pb.Run | None) -> tuple[_Data, Path]:
    """Whether there are event files, and where: those of an imported run are where they were imported from."""
    folder = folder_of(run) if run is not None else None
    if folder is not None or has_event_file(paths.tensorboard):
        return _Data.THERE, folder or paths.tensorboard
    over = read_manifest(paths).get("state") == RunState.TERM or (run is not None and is_over(run))
    return _Data.NEVER if over else _Data.EXPECTED, paths.tensorboard


class TensorBoardTab(QWidget):
    """Starts a server when it is shown and ends it with itself; embeds the page where WebEngine can be used."""

    def __init__(self, cockpit: Cockpit, run_id: str, run_dir: Path) -> None:
        super().__init__()
        self._cockpit, self._run_id, self._paths = cockpit, run_id, RunPaths(run_dir)
        self._folder = self._paths.tensorboard
        self.server: TensorBoardServer | None = None
        self._closed = False
        self._page: Any = None
        self.message = EmptyPage(parent=self)
        self.message.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.message.acted.connect(self._act)
        self._embedded = QWidget(self)
        self._page_room = QVBoxLayout(self._embedded)
        self._page_room.setContentsMargins(0, 6, 0, 0)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 8, 0)
        row.addStretch(1)
        row.addWidget(self._browser_button())
        self._page_room.addLayout(row)
        self._content = QStackedLayout(self)
        self._content.addWidget(self.message)
        self._content.addWidget(self._embedded)
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_AGAIN_MILLISECONDS)
        self._timer.timeout.connect(self._look)

    def _browser_button(self) -> QPushButton:
        button = QPushButton(self.tr("Open in the browser"))
        button.setToolTip(self.tr("Show TensorBoard for this run in the web browser; the run is not affected"))
        button.clicked.connect(self._open_browser)
        return button

    @property
    def told(self) -> str:
        """What the tab says while there is no page in it."""
        return self.message.text.text()

    @property
    def address(self) -> str:
        """Where the server answers, "" while it does not."""
        return self.server.address if self.server is not None else ""

    @property
    def is_embedded(self) -> bool:
        return self._content.currentWidget() is self._embedded

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        if self.server is None:
            self._tell(self.tr("Looking for TensorBoard data…"))
            self._look()
            self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self._fit_page()

    def _fit_page(self) -> None:
        """TensorBoard is made for whole screens: in a narrow dock it is shown smaller."""
        if self._page is not None:
            self._page.setZoomFactor(min(1.0, max(_LEAST_ZOOM, self.width() / _PAGE_WIDTH)))

    def close_tab(self) -> None:
        """End the server; the tab is of no use afterwards."""
        self._closed = True
        self._timer.stop()
        if self.server is not None:
            self.server.stop()

    # ---- the data ------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Whether there is data yet, asked without holding up the GUI."""
        run = self._cockpit.runs.get(self._run_id)
        self._cockpit.bridge.in_background(lambda: _data_of(self._paths, run), self._decide, owner=self)

    def _decide(self, found: tuple[_Data, Path]) -> None:
        data, self._folder = found
        if self.server is not None or self._closed or not self.isVisible():
            return  # docks that are arranged show a tab for an instant, which nobody has opened
        if data is _Data.THERE:
            self._begin()
        elif data is _Data.NEVER:
            self._timer.stop()
            self._tell(self.tr("This run wrote no TensorBoard data."))
        else:
            self._tell(self.tr("Not available yet: the run has written no TensorBoard data. This page waits for it."))

    # ---- the server ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._timer.stop()
        self._tell(self.tr("Starting TensorBoard…"))
        if self.server is not None:
            self.server.stop()
        run = self._cockpit.runs.get(self._run_id)
        bridge = self._cockpit.bridge
        lease = TensorBoardLease(bridge.paths, {run.name if run is not None else self._run_id: self._folder})
        self.server = TensorBoardServer(bridge, lease, self)
        self.server.ready.connect(self._ready)
        self.server.failed.connect(self._failed)
        self.server.start()

    def _ready(self, address: str) -> None:
        view = make_web_view()
        if view is None:
            self._tell(f"{address}\n\n{why_not()}", self.tr("TensorBoard is ready"), self.tr("Open in the browser"))
            return
        self._page_room.addWidget(view, 1)
        self._page = view
        self._fit_page()
        self._content.setCurrentWidget(self._embedded)
        view.setUrl(QUrl(address))

    def _failed(self, sentence: str) -> None:
        self._tell(sentence, self.tr("TensorBoard did not start"), self.tr("Try again"))

    def _tell(self, sentence: str, title: str = "", action: str = "") -> None:
        self.message.tell(title, sentence, action)
        self._content.setCurrentWidget(self.message)

    def _act(self) -> None:
        if self.address:
            self._open_browser()
        else:
            self._begin()

    def _open_browser(self) -> None:
        if self.address:
            open_in_browser(self.address, self._cockpit.notify)
