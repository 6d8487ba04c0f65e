"""The pictures of further seats: a session with several has pictures of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from PyQt6.QtCore import QObject, Qt, QTimer

from gym_gui.ui.play.stage_picture import Picture
from gym_gui.ui.widgets.frame_view import FRAMES_PER_SECOND
from mosaic_protocol.live.frames import Frame


class SeatFrames(QObject):
    """Shows the newest picture of each seat while somebody looks. ``newest`` gives one that was not given yet."""

    def __init__(self, newest: Callable[[int], Frame | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._newest = newest
        self._followed: dict[int, Picture] = {}
        self._is_wanted = False
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(1000 // FRAMES_PER_SECOND)
        self._timer.timeout.connect(self._look)

    def follow(self, seats: Mapping[int, Picture]) -> None:
        """From now on show these seats, counted from 1, and no others."""
        self._followed = dict(seats)
        self._settle()

    def start(self) -> None:
        self._is_wanted = True
        self._settle()

    def stop(self) -> None:
        self._is_wanted = False
        self._settle()

    def _settle(self) -> None:
        if (self._is_wanted and bool(self._followed)) != self._timer.isActive():
            self._timer.stop() if self._timer.isActive() else self._timer.start()

    def _look(self) -> None:
        for seat, picture in self._followed.items():
            if (frame := self._newest(seat)) is not None:
                shape = (frame.height, frame.width, 3)
                pixels: npt.NDArray[Any] = np.frombuffer(frame.pixels, dtype=np.uint8).reshape(shape)
                picture.show_frame(pixels)
