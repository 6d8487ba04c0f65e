"""What the stage's views of runs have in common: the runs, their big plot, and following them while they are seen."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PyQt6.QtCore import QTimer
from PyQt6.QtGui import QHideEvent, QShowEvent
from PyQt6.QtWidgets import QWidget

from gym_gui.ui.context import Cockpit
from gym_gui.ui.metrics_store import MetricsStore
from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.plots.big_plot import BigPlot
from gym_gui.ui.plots.run_curves import curves_of, shown_run
from mosaic_protocol.headline import RETURN_TAG

_TICK_MILLISECONDS = 500


class StageRuns(QWidget):
    """Asks for the numbers of :attr:`rows` only while it can be seen. A view says how it shows them."""

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._store = MetricsStore.of(cockpit.bridge)
        self.rows: dict[str, RunRow] = {}
        self.plot = BigPlot(cockpit.themes, RETURN_TAG)
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MILLISECONDS)
        self._timer.timeout.connect(self.tell_numbers)
        self._store.tags_changed.connect(self._tags_changed)

    def tell(self) -> None:
        """Show everything there is to say, called when there is news."""
        raise NotImplementedError

    def tell_numbers(self) -> None:
        """Show what goes on by itself, called twice a second."""
        raise NotImplementedError

    def take_rows(self, run_ids: Sequence[str]) -> bool:
        """Look at these from now on, as the cockpit knows them; whether they are others than before."""
        now, before = time.monotonic(), self.rows
        known = {run_id: run for run_id in run_ids if (run := self._cockpit.runs.get(run_id)) is not None}
        self.rows = {run_id: before.get(run_id) or RunRow(run, now) for run_id, run in known.items()}
        for run_id, run in known.items():
            self.rows[run_id].update(run, now)
        if self.rows:
            self._store.give_colours(list(self.rows))
        self._look()
        others = list(before) != list(self.rows)
        if others:
            self.plot.reset()
        return others

    def draw_curves(self) -> None:
        shown = []
        for run_id, row in self.rows.items():
            metrics = self._store.metrics(run_id)
            if metrics is not None:
                run, colour = row.run, self._store.colour_number(run_id)
                shown.append(shown_run(run_id, run.name, run.algo, run.env_id, run.config_json, colour, metrics))
        self.plot.set_curves(curves_of(shown, together=False))

    def showEvent(self, event: QShowEvent | None) -> None:
        super().showEvent(event)
        self._timer.start()
        self._look()
        self.tell()

    def hideEvent(self, event: QHideEvent | None) -> None:
        super().hideEvent(event)
        self._timer.stop()
        self._store.look(self, [])

    def _look(self) -> None:
        self._store.look(self, list(self.rows) if self.isVisible() else [])

    def _tags_changed(self, run_id: str) -> None:
        if run_id in self.rows:
            self.tell()
