"""What a run takes of the machine, as small curves with the newest and the highest value."""

from __future__ import annotations

from collections.abc import Sequence

from PyQt6.QtCore import Qt
from PyQt6.QtWidgets import QGridLayout, QLabel, QWidget

from gym_gui.services.run_load import Course
from gym_gui.ui.theme import Themes
from gym_gui.ui.widgets.sparkline import Sparkline

_COLOURS = {"CPU": 5, "Memory": 3, "GPU": 2, "GPU memory": 4, "Steps/s": 0}


class LoadCard(QWidget):
    """Takes no room while nothing is known."""

    def __init__(self, themes: Themes, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.courses: list[Course] = []
        self._is_allowed = True
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(10)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)
        themes.changed.connect(self._draw)
        self.hide()

    def show_courses(self, courses: Sequence[Course]) -> None:
        if list(courses) != self.courses:
            self.courses = list(courses)
            self._draw()
        self.setVisible(bool(courses) and self._is_allowed)

    def allow(self, on: bool) -> None:
        """Whether there is room for it."""
        self._is_allowed = on
        self.setVisible(bool(self.courses) and on)

    def _draw(self, *_: object) -> None:
        while self._grid.count():
            item = self._grid.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()
        for line, course in enumerate(self.courses):
            curve = Sparkline(course.points, self._themes.theme.curve(_COLOURS.get(course.name, line)))
            curve.setFixedHeight(22)
            text = self.tr("{name}: newest {last}, highest {most}").format(
                name=course.name, last=course.last, most=course.most
            )
            curve.setAccessibleName(text)
            curve.setToolTip(text)
            most = QLabel(self.tr("max {value}").format(value=course.most))
            most.setProperty("role", "muted")
            self._grid.addWidget(QLabel(course.name), line, 0)
            self._grid.addWidget(curve, line, 1)
            self._grid.addWidget(QLabel(course.last), line, 2, Qt.AlignmentFlag.AlignRight)
            self._grid.addWidget(most, line, 3, Qt.AlignmentFlag.AlignRight)
