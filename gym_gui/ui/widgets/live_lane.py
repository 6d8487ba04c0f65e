"""The Live tab of a run: its headline numbers as they come, or why there is nothing to follow live."""

from __future__ import annotations

from PyQt6.QtCore import QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QCheckBox, QGridLayout, QLabel, QVBoxLayout, QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.widgets.banner import Banner
from mosaic_protocol.headline import EPISODES_TAG, LENGTH_TAG, MEAN_RETURN, RECENT_EPISODES, RETURN_TAG, SPS_TAG
from mosaic_protocol.proto import trainer_pb2 as pb
from mosaic_protocol.states import RunState

ASK_MILLISECONDS = 1000
_MEMORY = "live.minimal-stream"


class LiveLanePanel(QWidget):
    """With a banner it streams nothing until the person ticks the box; without one it streams while it is looked at."""

    def __init__(self, cockpit: Cockpit, run_id: str, banner: str = "") -> None:
        super().__init__()
        self._cockpit, self._run_id = cockpit, run_id
        self.banner = Banner()
        self.banner.say(banner)
        self.opt_in = QCheckBox(self.tr("Stream a minimal summary all the same"))
        self.opt_in.setToolTip(
            self.tr("Show the newest headline numbers once a second; the run itself is not slowed down")
        )
        self.opt_in.setChecked(cockpit.preferences.get(_MEMORY, False))
        self.opt_in.setVisible(bool(banner))
        self.opt_in.toggled.connect(self._opted)
        self._told = QLabel()
        self._told.setProperty("role", "muted")
        self._told.setWordWrap(True)
        self.numbers: dict[str, QLabel] = {}
        self._grid = QGridLayout()
        self._grid.setColumnStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 12, 12, 12)
        layout.setSpacing(10)
        layout.addWidget(self.banner)
        layout.addWidget(self.opt_in)
        layout.addLayout(self._grid)
        layout.addWidget(self._told)
        layout.addStretch(1)
        self._timer = QTimer(self)
        self._timer.setInterval(ASK_MILLISECONDS)
        self._timer.timeout.connect(self._ask)

    @property
    def is_streaming(self) -> bool:
        return self._timer.isActive()

    def close_tab(self) -> None:
        """Ask no more."""
        self._timer.stop()

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._follow()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def _opted(self, on: bool) -> None:
        self._cockpit.preferences.put(_MEMORY, on)
        self._follow()

    def _follow(self) -> None:
        wanted = not self.banner.label.text() or self.opt_in.isChecked()
        if not wanted:
            self._timer.stop()
            self._told.setText("")
        elif self.isVisible() and not self._timer.isActive():
            self._timer.start()
            self._ask()

    def _ask(self) -> None:
        self._cockpit.bridge.call(lambda client: client.run(self._run_id), self._show, self._away, owner=self)

    def _away(self, sentence: str) -> None:
        self._told.setText(sentence)

    def _show(self, run: pb.Run) -> None:
        if not self._timer.isActive():
            return  # nobody wants to know any more
        self._put(self.tr("step"), f"{run.last_step:,}")
        for tag, value in sorted(run.headline.items()):
            self._put(tag, f"{value:,.4g}", of_many=EPISODES_TAG in run.headline)
        over = run.state == RunState.TERM
        self._told.setText(self.tr("The run is over.") if over else "")
        if over:
            self._timer.stop()

    def _words(self, tag: str, of_many: bool) -> str:
        """What a headline's number is; two of them are returns."""
        newest = {
            RETURN_TAG: self.tr("mean return of the newest episodes"),
            LENGTH_TAG: self.tr("mean length of the newest episodes"),
        }
        known = {
            MEAN_RETURN: self.tr("mean return, last {count} episodes").format(count=RECENT_EPISODES),
            RETURN_TAG: self.tr("return of the last episode"),
            LENGTH_TAG: self.tr("length of the last episode"),
            SPS_TAG: self.tr("steps per second"),
            EPISODES_TAG: self.tr("episodes"),
            **(newest if of_many else {}),
        }
        return known.get(tag, tag)

    def _put(self, tag: str, text: str, *, of_many: bool = False) -> None:
        """``of_many``: where rows of the run stand for many episodes."""
        label = self.numbers.get(tag)
        if label is None:
            label = self.numbers[tag] = QLabel()
            label.setProperty("role", "title")
            name = QLabel(self._words(tag, of_many))
            name.setProperty("role", "muted")
            row = len(self.numbers)
            self._grid.addWidget(name, row, 0)
            self._grid.addWidget(label, row, 1)
        label.setText(text)
