"""What the machine has, how much of it runs hold, and who waits for what."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import QModelIndex, QRect, QSize, Qt
from PyQt6.QtGui import QPainter
from PyQt6.QtWidgets import (
    QLabel,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from gym_gui.services.run_words import memory_text, ordinal
from gym_gui.services.waiting_line import Waiting, in_line, waiting_line
from gym_gui.ui.bridge import ConnectionState
from gym_gui.ui.context import Cockpit
from gym_gui.ui.models.run_rows import resources_text
from gym_gui.ui.queue_commands import QueueCommands
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.meter import Meter
from gym_gui.ui.widgets.queue_drag import QueueDrag
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import LIVE_STATES, RunState

MOST_SHOWN = 200
_ROLE = Qt.ItemDataRole.UserRole
_ITEM_HEIGHT, _PLACE_WIDTH = 44, 40


class CapacityPanel(QWidget):
    """Meters for CPU, GPU and memory, and the queue below them. Selecting in the queue selects the run."""

    def __init__(self, cockpit: Cockpit, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self._health: pb.Health | None = None
        self.cpu = Meter(cockpit.themes, self.tr("CPU"))
        self.gpu = Meter(cockpit.themes, self.tr("GPU"))
        self.memory = Meter(cockpit.themes, self.tr("Memory"))
        self.sessions = Meter(cockpit.themes, self.tr("Sessions, CPU"))
        self.heading, self.more = QLabel(), QLabel()
        self.heading.setProperty("role", "section")
        self.more.setProperty("role", "muted")
        self.more.setWordWrap(True)
        self.queue = QListWidget()
        self.queue.setItemDelegate(_WaitingDelegate(cockpit.themes, self.queue))
        self.queue.setAccessibleName(self.tr("Queue"))
        self.queue.setToolTip(
            self.tr(
                "Runs that wait, the next one first; nothing passes the head of the line.\n"
                "Drag a run to another place, or press Alt+Up and Alt+Down.\n"
                "Interactive runs have CPUs and a line of their own."
            )
        )
        self.queue.setMouseTracking(True)
        self.drag = QueueDrag(cockpit, self.queue, _run_at, lambda: 1)
        self.drag.dropped.connect(QueueCommands.of(cockpit).move)
        self._lay_out()
        self.queue.itemSelectionChanged.connect(self._select)
        cockpit.bridge.health_changed.connect(self._take_health)
        cockpit.bridge.connection_changed.connect(self._show_connection)
        cockpit.runs.changed.connect(self._note_runs)
        self._show_connection(cockpit.bridge.connection)
        self._show_queue()

    def _lay_out(self) -> None:
        inside, scroll = QWidget(), QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(inside)
        around = QVBoxLayout(self)
        around.setContentsMargins(0, 0, 0, 0)
        around.addWidget(scroll)
        layout = QVBoxLayout(inside)
        layout.setContentsMargins(12, 10, 12, 10)
        layout.setSpacing(8)
        title = QLabel(self.tr("Reserved by runs"))
        title.setProperty("role", "section")
        layout.addWidget(title)
        for meter in self._meters:
            layout.addWidget(meter)
        layout.addSpacing(6)
        layout.addWidget(self.heading)
        layout.addWidget(self.queue, 100)
        layout.addWidget(self.more)
        layout.addStretch(1)

    # ---- meters --------------------------------------------------------------------------------------------------

    def _take_health(self, health: pb.Health) -> None:
        self._health = health
        held, there = health.reserved, health.capacity
        of = self.tr("{used} of {all}")
        self.cpu.show_use(held.cpus, there.cpus, of.format(used=held.cpus, all=there.cpus))
        none = self.tr("none found")
        self.gpu.show_use(held.gpus, there.gpus, of.format(used=held.gpus, all=there.gpus) if there.gpus else none)
        memory = of.format(used=memory_text(held.memory_mb), all=memory_text(there.memory_mb))
        self.memory.show_use(held.memory_mb, there.memory_mb, memory)
        apart = of.format(used=health.interactive_reserved, all=health.interactive_cpus)
        self.sessions.show_use(health.interactive_reserved, health.interactive_cpus, apart)
        self.sessions.setVisible(health.interactive_cpus > 0)
        self._explain(health)
        self._show_queue()

    def _explain(self, health: pb.Health) -> None:
        """Who holds it, on each meter."""
        live = [run for run in self._cockpit.runs if run.state in LIVE_STATES and run.reserved.cpus]
        text = self._holders(live)
        self.cpu.setToolTip(self._holders([run for run in live if not run.interactive]))
        self.memory.setToolTip(text)
        self.gpu.setToolTip("\n".join([*health.gpu_names, text]))
        apart = self.tr("Interactive runs have these CPUs beside those for training: they do not wait behind it.")
        self.sessions.setToolTip(f"{apart}\n{self._holders([run for run in live if run.interactive])}")

    def _holders(self, live: Sequence[pb.Run]) -> str:
        holders = [f"{run.name}: {resources_text(run.reserved)}" for run in live[:20]]
        return "\n".join(holders) or self.tr("No run holds anything.")

    @property
    def _meters(self) -> tuple[Meter, ...]:
        return self.cpu, self.gpu, self.memory, self.sessions

    def _show_connection(self, state: ConnectionState) -> None:
        for meter in self._meters:
            meter.setEnabled(state.connected)
            if not state.connected:
                meter.show_use(0, 0, self.tr("unknown: the daemon is away"))

    # ---- queue ---------------------------------------------------------------------------------------------------

    def _note_runs(self, run_ids: Sequence[str]) -> None:
        """Only what is, or was, in the line matters here."""
        shown = {self._waiting(number).run_id for number in range(self.queue.count())}
        runs = map(self._cockpit.runs.get, run_ids)
        if any(run is not None and run.state == RunState.INIT for run in runs) or not shown.isdisjoint(run_ids):
            self._show_queue()

    def _waiting(self, number: int) -> Waiting:
        item = self.queue.item(number)
        assert item is not None
        waiting: Waiting = item.data(_ROLE)
        return waiting

    def _show_queue(self) -> None:
        queued = in_line(self._cockpit.runs)
        health = self._health or pb.Health()
        line = waiting_line(queued[:MOST_SHOWN], health)
        if line != [self._waiting(number) for number in range(self.queue.count())]:
            self._fill(line)
        self.heading.setText(
            self.tr("Queue ({count})").format(count=f"{len(queued):,}") if queued else self.tr("Queue")
        )
        hidden = len(queued) - len(line)
        nothing = "" if queued else self.tr("Nothing waits. A run that does not fit the machine at once waits here.")
        self.more.setText(self.tr("and {count} more").format(count=f"{hidden:,}") if hidden else nothing)
        self.more.setVisible(bool(self.more.text()))
        self.queue.setVisible(bool(queued))

    def _fill(self, line: Sequence[Waiting]) -> None:
        chosen = self._cockpit.selection.current
        self.queue.blockSignals(True)
        self.queue.clear()
        for waiting in line:
            text = self.tr("{place}: {name}, waits for {reason}")
            item = QListWidgetItem(
                text.format(place=ordinal(waiting.position), name=waiting.name, reason=waiting.waits_for)
            )
            item.setData(_ROLE, waiting)
            item.setToolTip(self.tr("{name} asks for {wants}").format(name=waiting.name, wants=waiting.wants))
            self.queue.addItem(item)
            item.setSelected(waiting.run_id == chosen)
        self.queue.blockSignals(False)

    def _select(self) -> None:
        ids = [item.data(_ROLE).run_id for item in self.queue.selectedItems()]
        if ids:
            self._cockpit.selection.select(ids)


def _run_at(index: QModelIndex) -> str:
    waiting: Waiting | None = index.data(_ROLE)
    return "" if waiting is None else waiting.run_id


class _WaitingDelegate(QStyledItemDelegate):
    """The place, the name, and below it what is lacking."""

    def __init__(self, themes: Themes, parent: QWidget) -> None:
        super().__init__(parent)
        self._themes = themes

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex) -> QSize:
        return QSize(120, _ITEM_HEIGHT)

    def paint(self, painter: QPainter | None, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        waiting: Waiting | None = index.data(_ROLE)
        if painter is None or waiting is None:
            return
        theme, rect = self._themes.theme, option.rect
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, theme.colour("selection"))
        half = rect.height() // 2
        left = Qt.AlignmentFlag.AlignLeft
        room = rect.adjusted(_PLACE_WIDTH, 3, -6, -3)
        painter.setPen(theme.colour("muted"))
        place = QRect(rect.left() + 6, rect.top() + 3, _PLACE_WIDTH, half)
        painter.drawText(place, left | Qt.AlignmentFlag.AlignVCenter, ordinal(waiting.position))
        lower = QRect(room.left(), rect.top() + half, room.width(), half - 3)
        lines = option.fontMetrics
        why = lines.elidedText(waiting.waits_for, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(lower, left | Qt.AlignmentFlag.AlignVCenter, why)
        painter.setPen(theme.colour("text"))
        upper = QRect(room.left(), rect.top() + 3, room.width(), half - 3)
        name = lines.elidedText(waiting.name, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(upper, left | Qt.AlignmentFlag.AlignVCenter, name)
