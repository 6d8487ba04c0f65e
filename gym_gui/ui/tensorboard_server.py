"""A screen's hold on a TensorBoard server, which others may share; it ends with the last of them."""

from __future__ import annotations

from PyQt6.QtCore import QObject, QSocketNotifier, pyqtSignal

from gym_gui.services.tensorboard.lease import TensorBoardLease
from gym_gui.ui.bridge import TrainerBridge


class TensorBoardServer(QObject):
    """``ready(str)`` brings its address, ``failed(str)`` a sentence. Lives in the GUI thread; :meth:`stop` is final."""

    ready = pyqtSignal(str)
    failed = pyqtSignal(str)

    def __init__(self, bridge: TrainerBridge, lease: TensorBoardLease, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge, self._lease = bridge, lease
        self._end: QSocketNotifier | None = None

    @property
    def address(self) -> str:
        """Where the server answers, "" while it does not."""
        return self._lease.address if self._end is not None else ""

    def start(self) -> None:
        self._bridge.in_background(self._lease.open, self._opened, self._fail, owner=self)

    def stop(self) -> None:
        """Give the server up; nothing is said any more."""
        self.blockSignals(True)
        self._forget()
        self._lease.close()

    def _opened(self, address: str) -> None:
        if self._lease.address:  # else it was given up meanwhile
            place, kind = self._lease.fileno(), QSocketNotifier.Type.Read
            self._end = QSocketNotifier(place, kind, self)  # type: ignore[call-overload] # the stubs know no int
            self._end.activated.connect(self._ended)
            self.ready.emit(address)

    def _ended(self) -> None:
        """What can be read of the keeper after the address are its last words."""
        self._forget()
        sentence = self._lease.wait()
        self._lease.close()
        self._fail(sentence)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.setEnabled(False)
            self._end = None

    def _fail(self, sentence: str) -> None:
        self.failed.emit(sentence or self.tr("TensorBoard ended."))
