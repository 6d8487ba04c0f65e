"""The Offline tab of a run: its curve with the moment it went online, against offline baselines on the same data."""

from __future__ import annotations

import html
import time

from PyQt6.QtCore import Qt
from PyQt6.QtGui import QShowEvent
from PyQt6.QtWidgets import QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from gym_gui.services.offline_course import OfflineCourse, course_of
from gym_gui.services.run_words import is_over
from gym_gui.ui.context import Cockpit
from gym_gui.ui.plots.drawing_view import DrawingView
from gym_gui.ui.styling import tell

_READ_SECONDS = 5.0


class OfflineTab(QWidget):
    """Reads beside the GUI, while it can be seen and the run goes on."""

    def __init__(self, cockpit: Cockpit, run_id: str) -> None:
        super().__init__()
        self._cockpit, self.run_id = cockpit, run_id
        self._is_reading, self._read_at, self._last = False, -_READ_SECONDS, False
        self.course: OfflineCourse | None = None
        self.chart: DrawingView | None = None
        self.told, self.legend = QLabel(), QLabel()
        self.told.setWordWrap(True)
        self.told.setProperty("role", "muted")
        self.told.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.legend.setProperty("rich", True)
        self.legend.setWordWrap(True)
        self.legend.setAccessibleName(self.tr("What the lines are"))
        inside = QWidget()
        self._rows = QVBoxLayout(inside)
        self._rows.setContentsMargins(12, 10, 12, 10)
        self._rows.setSpacing(8)
        self._rows.addWidget(self.told)
        self._rows.addWidget(self.legend)
        self._rows.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidget(inside)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(area)
        tell(self.told, self.tr("Reading the curves…"), "muted")
        cockpit.runs.changed.connect(self._runs_changed)
        cockpit.themes.changed.connect(self._tell_legend)

    def close_tab(self) -> None:
        self._cockpit.runs.changed.disconnect(self._runs_changed)
        self._cockpit.themes.changed.disconnect(self._tell_legend)

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._last = False  # others may have ended meanwhile
        self._read_if_seen()

    def _runs_changed(self, run_ids: list[str]) -> None:
        if self.run_id in run_ids:
            self._read_if_seen()

    def _read_if_seen(self) -> None:
        run = self._cockpit.runs.get(self.run_id)
        if run is None or not self.isVisible() or self._is_reading or self._last:
            return
        if not run.dataset:
            tell(self.told, self.tr("This run does not say which dataset it learned from."), "muted")
            return
        over = is_over(run)
        if not over and time.monotonic() - self._read_at < _READ_SECONDS:
            return
        self._is_reading, self._read_at, self._last = True, time.monotonic(), over
        self._cockpit.bridge.call(lambda client: course_of(client, run), self._take, self._failed, owner=self)

    def _failed(self, sentence: str) -> None:
        self._is_reading = self._last = False
        tell(self.told, sentence, "warning")

    def _take(self, course: OfflineCourse) -> None:
        self._is_reading, self.course = False, course
        tell(self.told, course.sentence(), "muted")
        if self.chart is None:
            self.chart = DrawingView(self._cockpit.themes, course.panel())
            self._rows.insertWidget(1, self.chart)
        else:
            self.chart.show_panel(course.panel())
        self._tell_legend()
        self._read_if_seen()  # it may have ended while this was read

    def _tell_legend(self, *_: object) -> None:
        if self.course is None:
            return
        theme = self._cockpit.themes.theme
        labels = [series.label for series in self.course.panel().series]
        self.legend.setText(
            "&nbsp;&nbsp; ".join(
                f'<span style="color: {theme.curve(place).name()}">■</span> {html.escape(label)}'
                for place, label in enumerate(labels)
            )
        )
