"""The middle of the cockpit: what the person looks at, as large as there is room for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from PyQt6.QtCore import Qt, pyqtSignal
from PyQt6.QtGui import QResizeEvent
from PyQt6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.services.run_words import is_over
from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage_compared import ComparedRuns
from gym_gui.ui.panels.stage_empty import EmptyStage
from gym_gui.ui.panels.stage_headline import RunHeadline
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

_OWN_VIEW = "stage.own-view"
_LEAST_WIDTH, _LEAST_HEIGHT = 260, 160


class OwnView(Protocol):
    """A page that the worker of a run has for the stage."""

    @property
    def title(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def make(self) -> Callable[[Cockpit, str], QWidget]: ...


class _Pages(QStackedWidget):
    """As high as the page in front wants to be; Qt's own is as high as the highest of all."""

    def heightForWidth(self, width: int) -> int:
        page = self.currentWidget()
        return page.heightForWidth(width) if page is not None else -1


class Stage(QWidget):
    """Shows the selected run's headline, several runs compared, or what to do next. Of a run that goes on the page of
    its worker, where it has one and the person does not prefer the headline.

    A live session takes the stage with :meth:`show_live` and gives it back with :meth:`end_live`: its widget stands in
    front of everything else until then, whatever is selected. A replay or a sweep stands over all of it from
    :meth:`show_over` to :meth:`end_over`. What comes in front of it meanwhile takes its place: ``displaced()``.
    """

    displaced = pyqtSignal()
    closing = pyqtSignal()
    """The window is being closed: what is on the stage lets go of its processes."""

    def __init__(self, cockpit: Cockpit, view_for: Callable[[pb.Run], OwnView | None] = lambda run: None) -> None:
        super().__init__()
        self._cockpit, self._view_for = cockpit, view_for
        self._own_run = ""
        self._own: Any = None
        """The page of the worker of that run, kept until another run is looked at."""
        self._live: QWidget | None = None
        self._over: QWidget | None = None
        self.empty = EmptyStage(cockpit)
        self.headline = RunHeadline(cockpit)
        self.compared = ComparedRuns(cockpit)
        self.headline.own_view.clicked.connect(lambda: self._prefer_own_view(True))
        self.pages = _Pages()
        for page in (self.empty, self.headline, self.compared):
            self.pages.addWidget(page)
        self.pages.currentChanged.connect(lambda _: self._ask_for_room())
        # On a small screen the stage is what gives way: it scrolls, and the docks keep the room that they need.
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(self.pages)
        self.setMinimumSize(_LEAST_WIDTH, _LEAST_HEIGHT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)
        self._ask_for_room()
        cockpit.selection.changed.connect(lambda _: self._follow())
        cockpit.runs.changed.connect(self._runs_changed)
        self._follow()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """The pages arrange themselves for the room that is seen, not for the one they scroll in."""
        super().resizeEvent(event)
        for page in (self.empty, self.headline, self.compared):
            page.fit(self.size())
        self._fit_live()

    def _fit_live(self) -> None:
        """A session arranges itself as the others do, where it has a way to; so do a replay and a worker's page."""
        for page in (self._live, self._over, self._own):
            fit = getattr(page, "fit", None)
            if fit is not None:
                fit(self.size())

    def _ask_for_room(self) -> None:
        """Only the page in front says how much room there has to be."""
        shown = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        behind = QSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        for number in range(self.pages.count()):
            page = self.pages.widget(number)
            if page is not None:
                page.setSizePolicy(shown if page is self.pages.currentWidget() else behind)

    @property
    def live(self) -> QWidget | None:
        """The session that has the stage, if one has."""
        return self._live

    def show_live(self, session: QWidget) -> None:
        """Give the stage to a session. It belongs to the stage from now on; one that had it before is closed."""
        self.end_live()
        self._live = session
        if self._over is not None:
            self._over = None
            self.displaced.emit()
        self._fit_live()
        self.pages.addWidget(session)
        self.pages.setCurrentWidget(session)

    def end_live(self) -> None:
        """Take the stage back; may be called when nobody has it."""
        session, self._live = self._live, None
        if session is not None:
            self.pages.removeWidget(session)
            session.deleteLater()
        self._follow()

    def close_panel(self) -> None:
        self.closing.emit()
        self._leave_own()

    # ---- the page of a worker ------------------------------------------------------------------------------------

    @property
    def own(self) -> QWidget | None:
        """The page of the run's worker, if it is kept."""
        found: QWidget | None = self._own
        return found

    def _prefer_own_view(self, on: bool) -> None:
        self._cockpit.preferences.put(_OWN_VIEW, on)
        self._follow()
        page = self.pages.currentWidget()
        if page is not None:
            page.setFocus()

    def _own_page(self, run_id: str | None) -> QWidget | None:
        """What to show of a run instead of its headline. A page that is there stays when its run is over."""
        if run_id != self._own_run:
            self._leave_own()
        run = self._cockpit.runs.get(run_id) if run_id is not None else None
        goes_on = run is not None and not is_over(run) and run.state not in (RunState.INIT, RunState.HSHK)
        view = self._view_for(run) if run is not None and (goes_on or self._own is not None) else None
        self.headline.offer_own_view(view.title if view else "", view.help if view else "")
        if run is None or view is None or not self._cockpit.preferences.get(_OWN_VIEW, True):
            return None
        if self._own is None:
            self._own_run, self._own = run.run_id, view.make(self._cockpit, run.run_id)
            self._own.curves_wanted.connect(lambda: self._prefer_own_view(False))
            self._fit_live()
            self.pages.addWidget(self._own)
        return self.own

    def _leave_own(self) -> None:
        page, self._own, self._own_run = self._own, None, ""
        if page is not None:
            page.close_page()
            self.pages.removeWidget(page)
            page.deleteLater()

    @property
    def over(self) -> QWidget | None:
        """What stands over everything, if something does."""
        return self._over

    def show_over(self, page: QWidget) -> None:
        """Put a page in front of everything, a session included. It stays its owner's, and is kept for another time."""
        before, self._over = self._over, page
        self._fit_live()
        if self.pages.indexOf(page) < 0:
            self.pages.addWidget(page)
        self.pages.setCurrentWidget(page)
        if before is not None and before is not page:
            self.displaced.emit()

    def end_over(self, page: QWidget) -> None:
        """Show what was behind a page; may be called when another one, or none, is in front."""
        if self._over is page:
            self._over = None
            self._follow()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self.pages.currentWidget() is self.empty or set(run_ids) & set(self._cockpit.selection.ids):
            self._follow()

    def _follow(self) -> None:
        known = [run_id for run_id in self._cockpit.selection.ids if self._cockpit.runs.get(run_id) is not None]
        self.empty.tell()
        self.headline.show_run(known[0] if len(known) == 1 else None)
        self.compared.show_runs(known if len(known) > 1 else [])
        own = self._own_page(known[0] if len(known) == 1 else None)
        if self._over is not None:
            self.pages.setCurrentWidget(self._over)
        elif self._live is not None:
            self.pages.setCurrentWidget(self._live)
        else:
            page = self.empty if not known else self.headline if len(known) == 1 else self.compared
            self.pages.setCurrentWidget(own or page)
