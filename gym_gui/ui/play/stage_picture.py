"""One seat on the stage: its picture or its grid, with the chips over it."""

from __future__ import annotations

from typing import Literal

from PyQt6.QtCore import QSize, Qt
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QLabel, QSizePolicy, QStackedLayout, QVBoxLayout, QWidget

from gym_gui.ui.play.stage_grid import GridView
from gym_gui.ui.play.stage_hud import BAND, Hud, chips
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.frame_view import Frame, FrameView
from mosaic_protocol.live.key_map import KeyMap
from mosaic_protocol.live.messages import SeatState, State

Shown = Literal["raw", "grid"]
_LEAST_WIDTH, _LEAST_HEIGHT = 160, 60


class Picture(QWidget):
    """Shows what was wanted last, where the environment has it: a picture ("raw") or characters ("grid")."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.frame = FrameView(fills=True)
        self.grid = GridView(themes)
        self.nothing = QLabel(self.tr("waiting for the first picture…"))
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.nothing.setWordWrap(True)
        self.nothing.setProperty("role", "muted")
        around = QVBoxLayout(self)
        around.setContentsMargins(0, 0, 0, 0)
        self._pages = QStackedLayout()
        around.addLayout(self._pages)
        for page in (self.nothing, self.frame, self.grid):
            self._pages.addWidget(page)
        self.hud = Hud(themes, self)
        self.wanted: Shown = "raw"
        self._has_text = False
        self.setMinimumSize(_LEAST_WIDTH, _LEAST_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        return QSize(480, 320)

    @property
    def shown(self) -> Shown | None:
        """What is in sight; None while there is nothing to show."""
        page = self._pages.currentWidget()
        return None if page is self.nothing else "raw" if page is self.frame else "grid"

    def show_frame(self, frame: Frame) -> None:
        is_first = not self.frame.has_frame
        self.frame.show_frame(frame)
        if is_first:
            self._choose()

    def show_state(self, state: State | SeatState, speed: float | None, *, ended: str = "", policy: str = "") -> None:
        """``speed`` and the recording are said of the session, ``ended`` and ``policy`` of one of several seats."""
        self.grid.show_text(state.text)
        if bool(state.text) != self._has_text:
            self._has_text = bool(state.text)
            self._choose()
        if not state.frames and not state.text and state.step:
            self.nothing.setText(self.tr("This environment draws no picture; it is played all the same."))
        self.hud.show_chips(*chips(state, speed, ended=ended, policy=policy))

    def keep_whole(self, whole: bool) -> None:
        """Have the chips stand above the picture: in a game of tiles each corner matters."""
        around = self.layout()
        assert around is not None
        around.setContentsMargins(0, BAND if whole else 0, 0, 0)
        self.hud.in_band = whole
        self.hud.update()

    def show_keys(self, key_map: KeyMap | None) -> None:
        self.hud.show_keys(key_map)

    def want(self, shown: Shown) -> None:
        self.wanted = shown
        self._choose()

    def _choose(self) -> None:
        """What is wanted where it is there, else the other one."""
        grid, raw = self._has_text, self.frame.has_frame
        if grid and (self.wanted == "grid" or not raw):
            self._pages.setCurrentWidget(self.grid)
        else:
            self._pages.setCurrentWidget(self.frame if raw else self.nothing)
        self.hud.raise_()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        self.hud.setGeometry(self.rect())
