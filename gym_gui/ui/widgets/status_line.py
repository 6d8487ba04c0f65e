"""The status bar: whether the daemon answers, what waits, and what the machine has left."""

from __future__ import annotations

from PyQt6.QtCore import pyqtSignal
from PyQt6.QtWidgets import QLabel, QPushButton, QSizePolicy, QStatusBar, QWidget

from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.styling import set_style_property
from gym_gui.ui.widgets.elided_label import ElidedLabel
from mosaic_protocol.plain_text import one_line
from mosaic_protocol.proto import trainer_pb2 as pb


class StatusLine(QStatusBar):
    """Shows what the daemon last said; away from it, that is said instead. ``start_wanted()`` when it was stopped."""

    start_wanted = pyqtSignal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeGripEnabled(False)
        self._connection = ElidedLabel(self.tr("connecting to the trainer daemon…"))
        # A long sentence must not widen the window beyond the screen; the tooltip has the whole of it.
        self._connection.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.start = QPushButton(self.tr("Start the daemon"))
        self.start.setToolTip(self.tr("Start the trainer daemon again; it takes up the runs that go on"))
        self.start.setStyleSheet("padding: 1px 10px; min-height: 16px;")
        self.start.clicked.connect(self.start_wanted)
        self._load = QLabel()
        self._machine = QLabel()
        self.disk = QLabel()
        self.addWidget(self._connection, 1)
        self.addWidget(self.start)
        self.start.hide()
        self.addPermanentWidget(self._load)
        self.addPermanentWidget(self._machine)
        self.addPermanentWidget(self.disk)
        for label in (self._connection, self._load, self._machine, self.disk):
            label.setContentsMargins(10, 2, 14, 2)

    def show_connection(self, state: ConnectionState) -> None:
        self._connection.setText(("●  " if state.connected else "○  ") + state.sentence)
        set_style_property(self._connection, "role", "" if state.connected else "warning")
        self.start.setVisible(state.stopped)
        self.start.setEnabled(True)
        if not state.connected:
            self._load.clear()
            self._machine.clear()
            self.disk.clear()

    def show_health(self, health: pb.Health) -> None:
        self._load.setText(self.tr("{live} live, {queued} queued").format(live=health.live, queued=health.queued))
        self._load.setToolTip(self.tr("Runs that train now, and runs that wait for CPU, GPU or memory"))
        parts = [self.tr("CPU {used}/{all}").format(used=health.reserved.cpus, all=health.capacity.cpus)]
        if health.capacity.gpus:
            parts.append(self.tr("GPU {used}/{all}").format(used=health.reserved.gpus, all=health.capacity.gpus))
        if health.interactive_reserved:
            apart = {"used": health.interactive_reserved, "all": health.interactive_cpus}
            parts.append(self.tr("sessions {used}/{all}").format(**apart))
        memory = self.tr("memory {used}/{all} GB")
        gigabytes = {"used": _gigabytes(health.reserved.memory_mb), "all": _gigabytes(health.capacity.memory_mb)}
        parts.append(memory.format(**gigabytes))
        self._machine.setText("   ".join(parts))
        names = ", ".join(health.gpu_names) or self.tr("no GPU")
        self._machine.setToolTip(self.tr("Reserved of what the machine has ({gpus})").format(gpus=names))
        self._show_disk(health)

    def _show_disk(self, health: pb.Health) -> None:
        free, total = health.disk_free_bytes, health.disk_total_bytes
        set_style_property(self.disk, "role", "warning" if health.disk_warning else "")
        told = (
            self.tr("disk {percent} % full, {free} GB free") if health.disk_warning else self.tr("disk {free} GB free")
        )
        percent = f"{100 * (total - free) / total:.0f}" if total else "100"
        self.disk.setText(told.format(free=f"{free / 1e9:,.0f}", percent=percent))
        usual = self.tr("Free space on the disk of the data root")
        self.disk.setToolTip(one_line(health.disk_warning) or usual)


def _gigabytes(megabytes: int) -> str:
    return f"{megabytes / 1024:.0f}"
