"""Which sweep is looked at, what is known of it, and what is asked of the daemon about it. No widgets here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from PyQt6.QtCore import QObject, QTimer, pyqtSignal
from PyQt6.QtWidgets import QWidget

from gym_gui.services.sweeps.axes import Range, within
from gym_gui.services.sweeps.insight import runs_of
from gym_gui.services.sweeps.model import OPEN, Sweep, SweepState, Trial
from gym_gui.services.trainer.client import TrainerClient
from gym_gui.ui.context import Cockpit
from gym_gui.ui.sweeps.picture import SweepPicture, read_picture
from gym_gui.ui.widgets.snackbar import Notice
from mosaic_protocol.proto import trainer_pb2 as pb

LOOK_MILLISECONDS = 1000
_REST = 10
"""A sweep that took long to read is read again only after so many times as long."""
_OVER_SECONDS = 5.0
"""One that is over changes only when somebody adds trials."""


class SweepDesk(QObject):
    """One for a window, in the GUI's thread. It looks at the daemon while a widget that watches can be seen.

    ``listed(list[pb.Sweep])``, newest first. ``opened()``: another sweep is looked at, or none. ``changed()``: its
    picture is another one. ``told(str)``: why there is none. ``trial_changed()``: another trial was chosen.
    ``filtered()``: other trials pass the filter. ``moved()``: runs of the sweep may have come further.
    """

    listed = pyqtSignal(list)
    opened = pyqtSignal()
    changed = pyqtSignal()
    told = pyqtSignal(str)
    trial_changed = pyqtSignal()
    filtered = pyqtSignal()
    moved = pyqtSignal()

    def __init__(self, cockpit: Cockpit, parent: QObject) -> None:
        super().__init__(parent)
        self._cockpit = cockpit
        self.reference = ""
        """The id of the sweep that is looked at, "" for none."""
        self.picture: SweepPicture | None = None
        self.number: int | None = None
        """Of the trial that somebody chose."""
        self.ranges: dict[str, Range] = {}
        self.listing: list[pb.Sweep] | None = None
        self._watchers: list[QWidget] = []
        self._list_watchers: list[QWidget] = []
        self._reading = self._listing = False
        self.is_choosing = False
        """While the desk itself selects runs: nobody else did."""
        self._next_look = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MILLISECONDS)
        self._timer.timeout.connect(self.look)
        cockpit.bridge.connection_changed.connect(lambda _: self.look())

    # ---- watching ------------------------------------------------------------------------------------------------

    def watch(self, widget: QWidget, *, lists: bool = False) -> None:
        """Look at the daemon while this can be seen: at the sweep, or at the list of all."""
        (self._list_watchers if lists else self._watchers).append(widget)
        self._timer.start()

    def close_panel(self) -> None:
        self._timer.stop()

    def look(self) -> None:
        """Read what somebody can see, unless it is being read or was just read."""
        if not self._cockpit.bridge.connection.connected:
            return
        if any(widget.isVisible() for widget in self._list_watchers):
            self.look_for_sweeps()
        if any(widget.isVisible() for widget in self._watchers):
            if self.sweep is not None and not self.sweep.is_over:
                self.moved.emit()
            if time.monotonic() >= self._next_look:
                self._read()

    def look_for_sweeps(self) -> None:
        if self._listing:
            return
        self._listing = True
        self._cockpit.bridge.call(TrainerClient.sweeps, self._take_list, self._no_list, owner=self)

    def _take_list(self, found: list[pb.Sweep]) -> None:
        self._listing = False
        if found != self.listing:
            self.listing = found
            self.listed.emit(found)

    def _no_list(self, sentence: str) -> None:
        self._listing = False
        self.told.emit(sentence)

    def _read(self) -> None:
        if self._reading or not self.reference:
            return
        self._reading, reference, before, begun = True, self.reference, self.picture, time.monotonic()

        def done(found: SweepPicture | None) -> None:
            self._reading = False
            self._rest(time.monotonic() - begun)
            if reference == self.reference:
                self._take(found)
            else:
                self._read()

        def failed(sentence: str) -> None:
            self._reading = False
            if reference == self.reference:
                self.told.emit(sentence)

        read = partial(_read_beside, reference, before)
        self._cockpit.bridge.call(read, done, failed, owner=self)

    def _rest(self, seconds: float) -> None:
        over = self.picture is not None and self.picture.sweep.is_over
        self._next_look = time.monotonic() + max(_REST * seconds, _OVER_SECONDS if over else 0.0)

    def _take(self, found: SweepPicture | None) -> None:
        if found is None:
            return
        self.picture = found
        self.changed.emit()

    def show_picture(self, picture: SweepPicture) -> None:
        """Look at a sweep that was read already."""
        self.open(picture.sweep.sweep_id)
        self._take(picture)

    # ---- which sweep, which trial --------------------------------------------------------------------------------

    def open(self, reference: str) -> None:
        """Look at a sweep from now on; "" for none."""
        if reference != self.reference:
            self.reference, self.picture, self.number, self.ranges = reference, None, None, {}
            self._next_look = 0.0
            self.opened.emit()
        self.look()

    @property
    def sweep(self) -> Sweep | None:
        return self.picture.sweep if self.picture is not None else None

    @property
    def trial(self) -> Trial | None:
        """The trial that was chosen, or else the best."""
        if self.picture is None:
            return None
        chosen = self.picture.trial(self.number) if self.number is not None else None
        return chosen if chosen is not None else self.picture.best

    def choose(self, number: int | None) -> None:
        """Choose a trial; its runs are selected with it."""
        if self.picture is None or number == self.number:
            return
        self.number = number
        trial = self.picture.trial(number) if number is not None else None
        if trial is not None:
            self.is_choosing = True
            try:
                self._cockpit.selection.select(runs_of(trial))
            finally:
                self.is_choosing = False
        self.trial_changed.emit()

    # ---- the filter ----------------------------------------------------------------------------------------------

    def set_range(self, name: str, wanted: Range | None) -> None:
        """Let only trials pass that are within a range on an axis; None takes it away."""
        before = dict(self.ranges)
        if wanted is None or (wanted[0] <= 0 and wanted[1] >= 1):
            self.ranges.pop(name, None)
        else:
            self.ranges[name] = wanted
        if self.ranges != before:
            self.filtered.emit()

    def clear_filter(self) -> None:
        if self.ranges:
            self.ranges = {}
            self.filtered.emit()

    def passing(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of the picture's trials pass the filter."""
        if self.picture is None:
            return np.zeros(0, dtype=bool)
        return within(self.picture.places, [axis.name for axis in self.picture.axes], self.ranges)

    def live_steps(self, trials: Iterable[Trial]) -> Mapping[str, int]:
        """The last step of each of their runs that goes on, as the daemon last said."""
        going_on = (seed.runs[-1] for trial in trials if trial.state in OPEN for seed in trial.seeds if seed.runs)
        runs = (self._cockpit.runs.get(run_id) for run_id in going_on)
        return {run.run_id: run.last_step for run in runs if run is not None}

    # ---- what is asked -------------------------------------------------------------------------------------------

    def why_not(self, verb: str) -> str:
        """Why something cannot be done to the sweep now, "" when it can. ``verb``: pause, resume, stop or more."""
        sweep = self.sweep
        if sweep is None:
            return self.tr("Open a sweep first.")
        if not self._cockpit.bridge.connection.connected:
            return self.tr("The trainer daemon is away.")
        allowed: dict[str, Sequence[SweepState]] = {
            "pause": (SweepState.RUNNING,),
            "resume": (SweepState.PAUSED, SweepState.STOPPED),
            "stop": (SweepState.RUNNING, SweepState.PAUSED),
            "more": tuple(state for state in SweepState if state is not SweepState.STOPPING),
        }
        if sweep.state in allowed[verb]:
            return ""
        return self.tr("The sweep is {state}.").format(state=sweep.state)

    def pause(self) -> None:
        self._ask("pause", lambda client, reference: client.pause_sweep(reference))

    def resume(self) -> None:
        self._ask("resume", lambda client, reference: client.resume_sweep(reference))

    def stop(self) -> None:
        self._ask("stop", lambda client, reference: client.stop_sweep(reference))

    def add_trials(self, more: int, percent: int = 0) -> None:
        self._ask("more", lambda client, reference: client.resume_sweep(reference, more=more, percent=percent))

    def _ask(self, verb: str, act: Callable[[TrainerClient, str], Sweep]) -> None:
        reference = self.reference
        if self.why_not(verb):
            return

        def done(_: Sweep) -> None:
            self._next_look = 0.0
            self._read()

        failed = lambda sentence: self._cockpit.notify(Notice(sentence, "error"))  # noqa: E731
        self._cockpit.bridge.call(lambda client: act(client, reference), done, failed, owner=self)


def _read_beside(reference: str, before: SweepPicture | None, client: TrainerClient) -> SweepPicture | None:
    return read_picture(client, reference, before)
