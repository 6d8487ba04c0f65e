"""Dragging queued runs to another place, in any list that shows them.

The mouse is followed here and not by Qt's own dragging, which is for handing things to other windows: a run goes to
another place of its own list, and Escape leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PyQt6.QtCore import QEvent, QModelIndex, QObject, QPoint, QRect, Qt, pyqtSignal
from PyQt6.QtGui import QKeyEvent, QMouseEvent
from PyQt6.QtWidgets import QAbstractItemView, QApplication, QFrame, QToolTip

from gym_gui.services.queue_moves import AFTER, BEFORE, Spot, arranged
from gym_gui.ui.context import Cockpit
from gym_gui.ui.queue_commands import QueueCommands

_LINE, _EDGE = 2, 24


@dataclass
class _Grip:
    """A run under the pressed button."""

    line: list[str]
    carried: list[str]
    """What goes along: every selected run of its line, when it is one of them."""
    at: QPoint
    moving: bool = False

    @property
    def held_back(self) -> bool:
        """Whether the view does not hear of the press, which would leave this run alone selected."""
        return len(self.carried) > 1


class QueueDrag(QObject):
    """``dropped(run_ids, spot)`` when runs were put to another place.

    ``run_at`` says which run a row shows, "" for none. ``downwards``: whether the rows below start later (1), earlier
    (-1), or stand in another order (0): then a run is dropped on the one before which it is to start.
    """

    dropped = pyqtSignal(list, object)

    def __init__(
        self,
        cockpit: Cockpit,
        view: QAbstractItemView,
        run_at: Callable[[QModelIndex], str],
        downwards: Callable[[], int],
    ) -> None:
        super().__init__(view)
        self._cockpit, self._view, self._run_at, self._downwards = cockpit, view, run_at, downwards
        self._queue = QueueCommands.of(cockpit)
        self._grip: _Grip | None = None
        self._spot: Spot | None = None
        viewport = view.viewport()
        assert viewport is not None
        self._viewport = viewport
        self.mark = QFrame(viewport)
        """Shows where the runs would stand."""
        self.mark.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.mark.hide()
        viewport.installEventFilter(self)
        view.installEventFilter(self)

    # ---- following the mouse -------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if isinstance(event, QMouseEvent) and watched is self._viewport:
            return self._by_mouse(event)
        if isinstance(event, QKeyEvent) and self._grip is not None and event.key() == Qt.Key.Key_Escape:
            moving = self._grip.moving
            self._let_go()
            return moving
        return super().eventFilter(watched, event)

    def _by_mouse(self, event: QMouseEvent) -> bool:
        """Whether the view is not to hear of it."""
        kind = event.type()
        if kind == QEvent.Type.MouseButtonPress:
            return self._press(event)
        if self._grip is None:
            return False
        if kind == QEvent.Type.MouseMove and event.buttons() & Qt.MouseButton.LeftButton:
            self._move(self._grip, event.position().toPoint())
            return True
        return kind == QEvent.Type.MouseButtonRelease and self._release(self._grip)

    def _press(self, event: QMouseEvent) -> bool:
        self._let_go()
        at = event.position().toPoint()
        run_id = self._run_at(self._view.indexAt(at))
        plain = event.modifiers() == Qt.KeyboardModifier.NoModifier
        if event.button() != Qt.MouseButton.LeftButton or not plain or not self._queue.waits(run_id):
            return False
        line, chosen = self._queue.line_of(run_id), set(self._cockpit.selection.ids)
        carried = [one for one in line if one in chosen] if run_id in chosen else [run_id]
        self._grip = _Grip(line, carried, at)
        return self._grip.held_back

    def _move(self, grip: _Grip, at: QPoint) -> None:
        far = (at - grip.at).manhattanLength() >= QApplication.startDragDistance()
        if not grip.moving and not far:
            return
        if not grip.moving:
            grip.moving = True
            self._dress()
        self._scroll(at)
        self._aim(grip, at)

    def _release(self, grip: _Grip) -> bool:
        spot = self._spot
        self._let_go()
        if grip.moving and spot is not None:
            self.dropped.emit(grip.carried, spot)
        elif grip.held_back and not grip.moving:
            self._view.setCurrentIndex(self._view.indexAt(grip.at))
        return grip.moving or grip.held_back

    def _let_go(self) -> None:
        if self._grip is not None and self._grip.moving:
            self._viewport.unsetCursor()
            QToolTip.hideText()
        self._grip = self._spot = None
        self.mark.hide()

    # ---- where it would go ---------------------------------------------------------------------------------------

    def _aim(self, grip: _Grip, at: QPoint) -> None:
        index = self._view.indexAt(at)
        anchor = self._run_at(index)
        row = self._view.visualRect(index)
        upper = at.y() < row.center().y()
        where = BEFORE if self._downwards() == 0 or upper is (self._downwards() > 0) else AFTER
        spot = Spot(where, anchor) if anchor in grip.line and anchor not in grip.carried else None
        self._spot = spot if spot is not None and arranged(grip.line, grip.carried, spot) != grip.line else None
        self._show(row, upper, at)

    def _show(self, row: QRect, upper: bool, at: QPoint) -> None:
        spot = self._spot
        self._viewport.setCursor(Qt.CursorShape.ForbiddenCursor if spot is None else Qt.CursorShape.ClosedHandCursor)
        self.mark.setVisible(spot is not None)
        run = self._cockpit.runs.get(spot.anchor) if spot is not None else None
        if spot is None or run is None:
            QToolTip.hideText()
            return
        whole = QRect(0, row.top(), self._viewport.width(), row.height())
        edge = row.top() if upper else row.bottom() + 1
        line = QRect(0, max(0, edge - _LINE // 2), self._viewport.width(), _LINE)
        self.mark.setGeometry(line if self._downwards() else whole)
        self.mark.raise_()
        text = self.tr("starts before {name}") if spot.where == BEFORE else self.tr("starts after {name}")
        QToolTip.showText(self._viewport.mapToGlobal(at), text.format(name=run.name), self._viewport)

    def _dress(self) -> None:
        colour = self._cockpit.themes.theme.colour("accent").name()
        fill = colour if self._downwards() else "transparent"
        self.mark.setStyleSheet(f"QFrame {{ background: {fill}; border: 1px solid {colour}; }}")

    def _scroll(self, at: QPoint) -> None:
        """Towards rows that are out of sight, while the mouse is at the edge."""
        bar = self._view.verticalScrollBar()
        if bar is None:
            return
        if at.y() < _EDGE:
            bar.setValue(bar.value() - bar.singleStep())
        elif at.y() > self._viewport.height() - _EDGE:
            bar.setValue(bar.value() + bar.singleStep())
