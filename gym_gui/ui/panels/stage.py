"""The middle of the cockpit: what the person looks at, as large as there is room for."""

from __future__ import annotations

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QFrame, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.panels.stage_compared import ComparedRuns
from gym_gui.ui.panels.stage_empty import EmptyStage
from gym_gui.ui.panels.stage_headline import RunHeadline

_LEAST_WIDTH, _LEAST_HEIGHT = 260, 160


class Stage(QWidget):
    """Shows the selected run's headline, several runs compared, or what to do next.

    A live session takes the stage with :meth:`show_live` and gives it back with :meth:`end_live`: its widget stands in
    front of everything else until then, whatever is selected.
    """

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._live: QWidget | None = None
        self.empty = EmptyStage(cockpit)
        self.headline = RunHeadline(cockpit)
        self.compared = ComparedRuns(cockpit)
        self.pages = QStackedWidget()
        for page in (self.empty, self.headline, self.compared):
            self.pages.addWidget(page)
        # On a small screen the stage is what gives way: it scrolls, and the docks keep the room that they need.
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.pages)
        self.setMinimumSize(_LEAST_WIDTH, _LEAST_HEIGHT)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)
        cockpit.selection.changed.connect(lambda _: self._follow())
        cockpit.runs.changed.connect(self._runs_changed)
        self._follow()

    @property
    def live(self) -> QWidget | None:
        """The session that has the stage, if one has."""
        return self._live

    def show_live(self, session: QWidget) -> None:
        """Give the stage to a session. It belongs to the stage from now on; one that had it before is closed."""
        self.end_live()
        self._live = session
        self.pages.addWidget(session)
        self.pages.setCurrentWidget(session)

    def end_live(self) -> None:
        """Take the stage back; may be called when nobody has it."""
        session, self._live = self._live, None
        if session is not None:
            self.pages.removeWidget(session)
            session.deleteLater()
        self._follow()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self.pages.currentWidget() is self.empty or set(run_ids) & set(self._cockpit.selection.ids):
            self._follow()

    def _follow(self) -> None:
        known = [run_id for run_id in self._cockpit.selection.ids if self._cockpit.runs.get(run_id) is not None]
        self.empty.tell()
        self.headline.show_run(known[0] if len(known) == 1 else None)
        self.compared.show_runs(known if len(known) > 1 else [])
        if self._live is None:
            page = self.empty if not known else self.headline if len(known) == 1 else self.compared
            self.pages.setCurrentWidget(page)
