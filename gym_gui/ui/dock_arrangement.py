"""Where the docks of a window are: around the stage, or, where the window is narrow, in two columns with tabs.

Qt lets docks overlap when their least widths do not fit into the window. A window narrower than :data:`ROOMY_WIDTH`
therefore has nothing on the right: those docks join the tabs below the stage. Each of the two arrangements is kept
while the other one is shown, so making the window small and large again brings back what was there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from PyQt6.QtCore import QByteArray, QEvent, QObject, QRect, Qt, QTimer
from PyQt6.QtWidgets import QDockWidget, QMainWindow

from gym_gui.ui.parts import Part, Place
from gym_gui.ui.preferences import Preferences

LAYOUT_VERSION = 1
ROOMY_WIDTH = 1200
_LEFT_WIDTH, _MOST_LEFT, _LEFT, _BELOW = 330, 400, 0.21, 0.42
AREAS = {
    Place.LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    Place.RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
    Place.BOTTOM: Qt.DockWidgetArea.BottomDockWidgetArea,
}
_WHOLE_SCREEN = Qt.WindowState.WindowMaximized | Qt.WindowState.WindowFullScreen
_KEYS = {False: "window.state", True: "window.narrow"}


@dataclass(frozen=True)
class _Lent:
    """The room of docks that a page of the stage has for a while, and how they were before."""

    to: object
    places: Collection[Place]
    also: Collection[QDockWidget]
    is_narrow: bool
    state: QByteArray
    hidden: set[QDockWidget]


class DockArrangement(QObject):
    """Looks after the docks of ``window``, given by name. ``parts`` say which of them come first in their place."""

    def __init__(self, window: QMainWindow, docks: Mapping[str, QDockWidget], parts: Sequence[Part]) -> None:
        super().__init__(window)
        self._window, self._docks = window, docks
        self._first = [next((p.name for p in parts if p.place is place), "") for place in AREAS]
        self.is_narrow = False
        self._kept: dict[bool, QByteArray] = {}
        self._lent: _Lent | None = None
        self._chooses_width = True
        self._given = 0
        """The width that the docks on the left were given, for as long as nobody drags them."""
        window.setCorner(Qt.Corner.BottomLeftCorner, AREAS[Place.LEFT])
        window.setCorner(Qt.Corner.BottomRightCorner, AREAS[Place.RIGHT])
        for area in AREAS.values():
            self._put_in_tabs([dock for dock in docks.values() if window.dockWidgetArea(dock) == area])
        self._closed = [docks[part.name] for part in parts if part.is_closed and part.name in docks]
        for dock in self._closed:
            dock.hide()
        self._bring_first_forward()
        self._as_made = window.saveState(LAYOUT_VERSION)
        # Both a turn of the event loop later: docks are neither moved nor looked at while Qt lays them out.
        self._settling = self._soon(self.settle)
        self._keeping = self._soon(self._keep_state)
        self._widening = self._soon(self._give_width)
        window.installEventFilter(self)
        for dock in docks.values():
            dock.installEventFilter(self)
            dock.visibilityChanged.connect(lambda _: self._keeping.start())

    def _soon(self, act: Callable[[], None]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(0)
        timer.timeout.connect(act)
        return timer

    # ---- memory --------------------------------------------------------------------------------------------------

    def remember(self, preferences: Preferences) -> None:
        self._keep_state()
        for narrow, state in self._kept.items():
            preferences.put(_KEYS[narrow], text_of(state))

    def restore(self, preferences: Preferences) -> None:
        """Take back what :meth:`remember` kept, before the window is shown; what is damaged stands as it was made.

        Of a window that is going to be maximized Qt keeps a copy of the restored docks until it is shown, with pointers
        to what another arrangement has moved meanwhile: the cockpit crashed at its start."""
        state = self._window.windowState()
        self._window.setWindowState(state & ~_WHOLE_SCREEN)
        try:
            self._restore(preferences)
        finally:
            self._window.setWindowState(state)

    def _restore(self, preferences: Preferences) -> None:
        for narrow, key in _KEYS.items():
            text = preferences.get(key, "")
            if text:
                self._kept[narrow] = bytes_of(text)
        roomy = self._kept.get(False)
        if roomy is not None:
            self._chooses_width = not self._window.restoreState(roomy, LAYOUT_VERSION)
        if self._fits_narrow:
            self.is_narrow = True
            narrow_state = self._kept.get(True)
            if narrow_state is None or not self._window.restoreState(narrow_state, LAYOUT_VERSION):
                self._collapse()
                self._bring_first_forward()
        for dock in self._closed:  # there is nothing in them yet, whatever was open when the window was closed
            dock.hide()

    def reset(self) -> None:
        """Every dock where it was made, or in the tabs below the stage."""
        self._lent = None
        self._kept.clear()
        self._window.restoreState(self._as_made, LAYOUT_VERSION)
        for dock in self._docks.values():
            dock.setVisible(dock not in self._closed)
        if self.is_narrow:
            self._collapse()
        self._bring_first_forward()
        self._chooses_width, self._given = True, 0
        self._widening.start()

    # ---- room for a page -----------------------------------------------------------------------------------------

    def make_room(self, page: object, places: Collection[Place], also: Collection[QDockWidget] = ()) -> None:
        """Hide the docks in these places, and ``also`` some, until this page gives the room back or another one wants
        it. Meanwhile the arrangement that is remembered is the one before: a cockpit that is killed opens with it."""
        if self._lent is not None:
            if self._lent.to is page:
                return
            self.give_room_back(self._lent.to)
        self._keep_state()
        self._lent = _Lent(page, places, also, self.is_narrow, self._window.saveState(LAYOUT_VERSION), set())
        self._clear(self._lent)

    def _clear(self, lent: _Lent) -> None:
        areas, area_of = [AREAS[place] for place in lent.places], self._window.dockWidgetArea
        for dock in self._docks.values():
            if (area_of(dock) in areas or dock in lent.also) and not (dock.isHidden() or dock.isFloating()):
                lent.hidden.add(dock)
                was_in_front = not dock.visibleRegion().isEmpty()
                dock.hide()
                if was_in_front and area_of(dock) not in areas:  # Qt brings a neighbour forward, whatever it is
                    self._bring_forward(area_of(dock))

    def _bring_forward(self, area: Qt.DockWidgetArea) -> None:
        first = next((name for place, name in zip(AREAS, self._first, strict=True) if AREAS[place] == area), "")
        if first and not self._docks[first].isHidden():
            self._docks[first].raise_()

    def give_room_back(self, page: object) -> None:
        """May be called by one that has none."""
        lent = self._lent
        if lent is None or lent.to is not page:
            return
        self._lent = None
        if lent.is_narrow == self.is_narrow:
            self._window.restoreState(lent.state, LAYOUT_VERSION)
        else:  # that arrangement is for another width
            for dock in lent.hidden:
                dock.show()

    # ---- narrow and roomy ----------------------------------------------------------------------------------------

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        if event is not None and event.type() == QEvent.Type.Resize:
            self._keeping.start()
            if watched is self._window:
                self._widening.start()
                if self._fits_narrow != self.is_narrow:
                    self._settling.start()
        return super().eventFilter(watched, event)

    @property
    def _fits_narrow(self) -> bool:
        return self._window.width() < ROOMY_WIDTH

    def _keep_state(self) -> None:
        """Keep the arrangement as it is in a width of its own: in another one Qt has squeezed the docks by now."""
        if self._fits_narrow == self.is_narrow and self._lent is None:
            self._kept[self.is_narrow] = self._window.saveState(LAYOUT_VERSION)

    def _give_width(self) -> None:
        """Give the docks on the left a share of the window. Without a width of their own Qt widens them with what they
        show, and at 1280 pixels the runs below the stage lost a column to a form that needs no more."""
        if not self._chooses_width or self.is_narrow or self._fits_narrow or self._lent is not None:
            return
        area_of = self._window.dockWidgetArea
        left = [dock for dock in self._docks.values() if area_of(dock) == AREAS[Place.LEFT] and not dock.isFloating()]
        left = [dock for dock in left if not dock.isHidden()]
        if not left:
            return
        if self._given and left[0].width() != self._given:  # somebody dragged them
            self._chooses_width = False
            return
        wanted = min(_MOST_LEFT, max(_LEFT_WIDTH, round(self._window.width() * _LEFT)))
        self._window.resizeDocks(left, [wanted] * len(left), Qt.Orientation.Horizontal)
        self._given = wanted

    def settle(self) -> None:
        """Arrange the docks for the width that the window has now; which are shown, float or are in front stays."""
        if self._fits_narrow == self.is_narrow:
            return
        self.is_narrow = self._fits_narrow
        docks = self._docks.values()
        shown = {dock: not dock.isHidden() for dock in docks}
        floating = {dock: dock.geometry() for dock in docks if dock.isFloating()}
        front = [dock for dock in docks if not dock.visibleRegion().isEmpty()]
        kept = self._kept.get(self.is_narrow)
        if self.is_narrow and kept is None:
            self._collapse()
        else:
            self._window.restoreState(kept if kept is not None else self._as_made, LAYOUT_VERSION)
        self._keep(shown, floating)
        if self._lent is not None:
            self._clear(self._lent)
        if kept is None or not self.is_narrow:  # all of them cannot be in front where there is one place for them
            for dock in front:
                dock.raise_()

    def _keep(self, shown: Mapping[QDockWidget, bool], floating: Mapping[QDockWidget, QRect]) -> None:
        for dock, visible in shown.items():
            if dock.isHidden() == visible:
                dock.setVisible(visible)
            if dock in floating:
                dock.setFloating(True)
                dock.setGeometry(floating[dock])

    def _collapse(self) -> None:
        """Put what is on the right into the tabs below the stage."""
        area_of = self._window.dockWidgetArea
        right = [dock for dock in self._docks.values() if area_of(dock) == AREAS[Place.RIGHT] and not dock.isFloating()]
        below = [dock for dock in self._docks.values() if area_of(dock) == AREAS[Place.BOTTOM]]
        for dock in right:
            with self._held():
                self._window.addDockWidget(AREAS[Place.BOTTOM], dock)
        self._put_in_tabs([*below[-1:], *right])
        left = [dock for dock in self._docks.values() if area_of(dock) == AREAS[Place.LEFT]]
        self._window.resizeDocks(left, [_LEFT_WIDTH] * len(left), Qt.Orientation.Horizontal)
        lower = [*below[:1], *right[:1]][:1]
        height = round(self._window.height() * _BELOW)
        self._window.resizeDocks(lower, [height] * len(lower), Qt.Orientation.Vertical)

    def _put_in_tabs(self, docks: Sequence[QDockWidget]) -> None:
        for first, second in pairwise(docks):
            with self._held():
                self._window.tabifyDockWidget(first, second)

    def _bring_first_forward(self) -> None:
        for name in filter(None, self._first):
            self._docks[name].raise_()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Move docks without laying them out: a part that asks for another size meanwhile makes Qt begin again inside
        its own work, and leaves orphaned tab bars on the screen."""
        layout = self._window.layout()
        assert layout is not None
        layout.setEnabled(False)
        try:
            yield
        finally:
            layout.setEnabled(True)


def text_of(state: QByteArray) -> str:
    """What Qt keeps of a window, for a file of preferences."""
    return base64.b64encode(state.data()).decode("ascii")


def bytes_of(text: str) -> QByteArray:
    """The reverse; of damaged text nothing is left, which Qt refuses to restore."""
    try:
        return QByteArray(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return QByteArray()
