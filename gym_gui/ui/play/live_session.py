"""One live session as Qt sees it: the live channel of a run, in the GUI's thread and without ever waiting there.

On the session's machine the channel goes straight to it: neither the death of the daemon nor that of another cockpit
touches it. From elsewhere it goes through the daemon, and is taken up again when the next daemon answers. A cockpit
that was away joins again by the run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from PyQt6.QtCore import QElapsedTimer, QObject, QSocketNotifier, Qt, QTimer, pyqtSignal

from mosaic_protocol.live.client import LiveClient, SessionAwayError, WayBrokenError
from mosaic_protocol.live.frames import Frame
from mosaic_protocol.live.messages import Command, Hello, State

FRAMES_PER_SECOND = 60
RETRY_MILLISECONDS = 100
RETRIES = 20
"""How often a session that left without an end is looked for again: two seconds."""


class LiveSession(QObject):
    """The session of one run. It is joined as soon as it listens, and again when the connection broke.

    ``hello(Hello)`` when it was joined, also when it was joined again, and when its keys changed;
    ``state_changed(State)`` with the newest state; ``frame_arrived(object)`` with a picture (height, width, 3), at most
    as often as a screen shows one; ``refused(str)`` for a command that was not followed; ``closed(str)`` once, with the
    reason, when there is nothing to join any more. Nothing is signalled after :meth:`close`.
    """

    hello = pyqtSignal(object)
    state_changed = pyqtSignal(object)
    frame_arrived = pyqtSignal(object)
    refused = pyqtSignal(str)
    closed = pyqtSignal(str)

    def __init__(
        self,
        run_directory: Path,
        run_id: str = "",
        parent: QObject | None = None,
        *,
        join: Callable[[], LiveClient] | None = None,
    ) -> None:
        """Begin to look for the session; it may not listen yet. Call :meth:`give_up` when its run ended before.
        ``join`` finds the way to it, without waiting; without it the session is in the folder of the run."""
        super().__init__(parent)
        self._open = join or (lambda: LiveClient(run_directory))
        self.run_directory = run_directory
        self.run_id = run_id or run_directory.name
        self.hello_message: Hello | None = None
        self.state = State()
        self.wants_frames = True
        """A screen that nobody sees needs no pictures."""
        self._client: LiveClient | None = None
        self._reading: QSocketNotifier | None = None
        self._writing: QSocketNotifier | None = None
        self._is_over = False
        self._tries_left: int | None = None
        """None while the session was never met: then the caller knows when to give up."""
        self._since_frame = QElapsedTimer()
        self._frames = QTimer(self)
        self._frames.setTimerType(Qt.TimerType.PreciseTimer)
        self._frames.setInterval(1000 // FRAMES_PER_SECOND)
        self._frames.timeout.connect(self._take_frame)
        self._retry = QTimer(self)
        self._retry.setInterval(RETRY_MILLISECONDS)
        self._retry.timeout.connect(self._join)
        self._retry.start()
        QTimer.singleShot(0, self._join)

    @property
    def is_joined(self) -> bool:
        """Whether commands reach the session now."""
        return self._client is not None and self._client.hello is not None

    @property
    def is_over(self) -> bool:
        return self._is_over

    def send(self, command: Command) -> None:
        """Give the session a command. One that cannot be sent is dropped and answered with ``refused``."""
        if self._client is None:
            if not self._is_over:
                self.refused.emit(self.tr("The session is not there yet; try again in a moment"))
            return
        try:
            if not self._client.offer(command) and self._writing is not None:
                self._writing.setEnabled(True)
        except SessionAwayError as error:
            self._lost(error)

    def frame(self, seat: int) -> Frame | None:
        """The newest picture of a further seat that was not given yet. Those of the first one are signalled."""
        return self._client.frame(seat) if self._client is not None else None

    def give_up(self, reason: str) -> None:
        """The run is over, or will never begin: stop looking for its session."""
        if not self._is_over:
            self.close()
            self.closed.emit(reason)

    def close(self) -> None:
        """Leave the session, which goes on. May be called twice."""
        self._is_over = True
        self._retry.stop()
        self._let_go()

    # ---- joining -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        if self._client is not None or self._is_over:
            return
        try:
            client = self._open()
        except SessionAwayError as error:
            self._not_found(error)
            return
        self._client = client
        self._retry.stop()
        kinds = QSocketNotifier.Type
        self._reading = self._notifier(client, kinds.Read, self._receive)
        self._writing = self._notifier(client, kinds.Write, self._send_rest)
        self._writing.setEnabled(False)
        self._frames.start()

    def _notifier(self, client: LiveClient, kind: QSocketNotifier.Type, slot: Callable[[], None]) -> QSocketNotifier:
        made = QSocketNotifier(client.fileno(), kind, self)  # type: ignore[call-overload] # the stubs know no int
        made.activated.connect(slot)
        return cast(QSocketNotifier, made)

    def _not_found(self, error: SessionAwayError) -> None:
        """Nobody listens there: it has not begun, or it is over. Where the way itself is broken, nothing is known."""
        self._retry.start()
        if self._tries_left is None or isinstance(error, WayBrokenError):
            return
        self._tries_left -= 1
        if self._tries_left <= 0 or error.is_gone:
            self.give_up(self.tr("The session ended."))

    def _lost(self, error: SessionAwayError) -> None:
        """The connection broke. A session that lives is joined again."""
        was_joined = self.is_joined
        self._let_go()
        if self._is_over:
            return
        if not was_joined:
            self._not_found(error)
            return
        self._tries_left = RETRIES
        self._retry.start()
        self._join()

    def _let_go(self) -> None:
        self._frames.stop()
        for notifier in (self._reading, self._writing):
            if notifier is not None:
                notifier.setEnabled(False)
                notifier.deleteLater()
        self._reading = self._writing = None
        if self._client is not None:
            self._client.close()
            self._client = None

    # ---- what comes and goes -------------------------------------------------------------------------------------

    def _receive(self) -> None:
        client = self._client
        if client is None:
            return
        before = (client.hello, client.state)
        lost = None
        try:
            client.receive()
        except SessionAwayError as error:
            lost = error
        self._tell(client, before)
        if lost is not None and client is self._client:
            self._lost(lost)

    def _tell(self, client: LiveClient, before: tuple[Hello | None, State]) -> None:
        """Slots may close the session: look each time."""
        if client.hello is not None and client.hello is not before[0]:
            self._tries_left = RETRIES
            self.hello_message = client.hello
            self.hello.emit(client.hello)
        if client.state is not before[1] and not self._is_over:
            self.state = client.state
            self.state_changed.emit(client.state)
            # A picture is there before its state is told. Soon after another one it is left to the timer.
            if not self._since_frame.isValid() or self._since_frame.elapsed() >= self._frames.interval():
                self._take_frame()
        refusals, client.refusals = client.refusals, []
        for sentence in refusals:
            if not self._is_over:
                self.refused.emit(sentence)

    def _send_rest(self) -> None:
        if self._client is None or self._writing is None:
            return
        try:
            if self._client.offer():
                self._writing.setEnabled(False)
        except SessionAwayError as error:
            self._lost(error)

    def _take_frame(self) -> None:
        if self._client is None or not self.wants_frames:
            return
        frame = self._client.frame()
        if frame is not None:
            self._since_frame.start()
            shape = (frame.height, frame.width, 3)
            picture: npt.NDArray[Any] = np.frombuffer(frame.pixels, dtype=np.uint8).reshape(shape)
            self.frame_arrived.emit(picture)
