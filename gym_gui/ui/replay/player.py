"""Plays an episode: which place is due when. Knows nothing of pictures."""

from __future__ import annotations

from PyQt6.QtCore import QElapsedTimer, QObject, Qt, QTimer, pyqtSignal

SPEEDS = (0.25, 0.5, 1.0, 2.0, 0.0)
"""0 is as fast as pictures come."""
_TICK_MILLISECONDS = 16


class Player(QObject):
    """``wanted(int)``: stand at this place now. ``changed()``: it plays, pauses, loops, or has another speed.

    While it plays, a next place is wanted when it is due and the one before was shown: a slow environment makes it
    slower, and pictures that came too late are passed over. As fast as it can means one step for each picture.
    """

    wanted = pyqtSignal(int)
    changed = pyqtSignal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_playing = False
        self.loops = False
        self.speed = 1.0
        self._rate, self._length = 30.0, 0
        self._place = 0
        self._awaited = self._is_own = False
        self._since = QElapsedTimer()
        self._from = 0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(_TICK_MILLISECONDS)
        self._timer.timeout.connect(self._tick)

    def set_length(self, steps: int) -> None:
        self._length = steps

    def set_rate(self, steps_a_second: float) -> None:
        self._rate = steps_a_second
        self._begin()

    def set_speed(self, times: float) -> None:
        self.speed = times
        self._begin()
        self.changed.emit()

    def set_loops(self, loops: bool) -> None:
        self.loops = loops
        self.changed.emit()

    def toggle(self) -> None:
        self.pause() if self.is_playing else self.play()

    def play(self) -> None:
        """From here on; at the end, from the beginning."""
        if self.is_playing or not self._length:
            return
        self.is_playing = True
        if self._place >= self._length:
            self._want(0)
        self._begin()
        self._timer.start()
        self.changed.emit()

    def pause(self) -> None:
        if self.is_playing:
            self.is_playing = self._awaited = False
            self._timer.stop()
            self.changed.emit()

    def stand_at(self, place: int) -> None:
        """Somebody went there, this player among them."""
        self._place, self._awaited = place, True
        if not self._is_own:
            self._begin()

    def arrived(self) -> None:
        """The picture of the place that was wanted is there, or there will be none."""
        self._awaited = False

    def _begin(self) -> None:
        self._from = self._place
        self._since.start()

    def _tick(self) -> None:
        if self._awaited:
            return
        if self._place < self._length:
            place = min(self._due(), self._length)
            if place > self._place:
                self._want(place)
        elif self.loops:
            self._want(0)
            self._begin()
        else:
            self.pause()

    def _due(self) -> int:
        if not self.speed:
            return self._place + 1
        return self._from + int(self._since.elapsed() / 1000 * self._rate * self.speed)

    def _want(self, place: int) -> None:
        self._is_own = True
        try:
            self.wanted.emit(place)
        finally:
            self._is_own = False
