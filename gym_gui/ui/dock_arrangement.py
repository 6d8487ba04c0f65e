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
_LEFT_WIDTH, _MOST_LEFT, _LEFT = 330, 400, 0.21
_BELOW, _BELOW_ROOMY = 0.42, 0.36
AREAS = {
    Place.LEFT: Qt.DockWidgetArea.LeftDockWidgetArea,
    Place.RIGHT: Qt.DockWidgetArea.RightDockWidgetArea,
    Place.BOTTOM: Qt.DockWidgetArea.BottomDockWidgetArea,
}
_ALONG = {Place.LEFT: Qt.Orientation.Horizontal, Place.BOTTOM: Qt.Orientation.Vertical}
"""Where docks are given a share of the window, and in which direction."""
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
        self._given: dict[Place, int] | None = {}
        """What docks measure since they were given their share of the window, 0 once somebody dragged them; None where
        an arrangement of before was taken back."""
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
        self._sharing = self._soon(self._share)
        self._measuring = self._soon(self._measure)
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
            self._given = None if self._window.restoreState(roomy, LAYOUT_VERSION) else {}
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
        self._given = {}
        self._sharing.start()

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
                self._sharing.start()
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

    def _share(self) -> None:
        """Give the docks on the left and below a share of the window, for as long as nobody drags them.

        Without sizes of their own Qt widens them with what they show: at 1280 pixels the runs below the stage lost a
        column to a form that needs no more, and how many rows they had was chance.
        """
        if self._given is None or self.is_narrow or self._fits_narrow or self._lent is not None:
            return
        size = self._window.size()
        shares = {
            Place.LEFT: min(_MOST_LEFT, max(_LEFT_WIDTH, round(size.width() * _LEFT))),
            Place.BOTTOM: round(size.height() * _BELOW_ROOMY),
        }
        for place, share in shares.items():
            dock = self._in_front(place)
            if dock is None or (place in self._given and self._given[place] != _length(dock, place)):
                self._given[place] = 0
                continue
            self._window.resizeDocks([dock], [share], _ALONG[place])
        self._measuring.start()

    def _measure(self) -> None:
        """Once Qt laid them out: a dock in tabs is as much smaller than its share as the tabs need."""
        for place in _ALONG:
            dock = self._in_front(place)
            if self._given is not None and dock is not None and self._given.get(place) != 0:
                self._given[place] = _length(dock, place)

    def _in_front(self, place: Place) -> QDockWidget | None:
        area_of = self._window.dockWidgetArea
        docks = (dock for dock in self._docks.values() if area_of(dock) == AREAS[place] and not dock.isFloating())
        return next((dock for dock in docks if not dock.visibleRegion().isEmpty()), None)

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


def _length(dock: QDockWidget, place: Place) -> int:
    return dock.width() if _ALONG[place] is Qt.Orientation.Horizontal else dock.height()


def text_of(state: QByteArray) -> str:
    """What Qt keeps of a window, for a file of preferences."""
    return base64.b64encode(state.data()).decode("ascii")


def bytes_of(text: str) -> QByteArray:
    """The reverse; of damaged text nothing is left, which Qt refuses to restore."""
    try:
        return QByteArray(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return QByteArray()
