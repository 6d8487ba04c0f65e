"""Records the steps of a run: every step that :meth:`~mosaic_worker.recording.step_lane.StepLane.append` has taken
survives, once.

Lanes write steps into the columns of an open chunk (:mod:`mosaic_protocol.steps.open_chunk`). A chunk that is full
(:mod:`mosaic_worker.recording.chunk_filler`), or holds a step for longer than a moment, becomes one record of the
journal. On a full disk the recorder waits; the steps that it has are safe in the file of the open chunk.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from mosaic_worker.recording.chunk_filler import ChunkFiller
from mosaic_worker.recording.step_entries import say
from mosaic_worker.recording.step_lane import StepLane

SEAL_SECONDS = 0.2


class StepRecorder:
    """The one writer of a run's steps. Thread-safe: lanes may belong to different threads.

    ``give_up`` ends the waiting for a full disk, when the run is to end. ``on_wait`` hears a sentence when such waiting
    begins and "" when it is over, in whichever thread waits; it must be quick, and record nothing.
    """

    def __init__(
        self,
        outbox: Path,
        *,
        give_up: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda sentence: None,
        seal_seconds: float = SEAL_SECONDS,
    ) -> None:
        self._filler = ChunkFiller(outbox, give_up, on_wait)
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._seal_often, args=(seal_seconds,), name="step-recorder", daemon=True
        )
        self._thread.start()
        _recorders.add(self)

    @property
    def steps(self) -> int:
        """How many steps of this run were recorded so far."""
        with self._filler.lock:
            return self._filler.next_step

    @property
    def dropped_parts(self) -> int:
        """Observations, actions and extras that were too large; their steps were kept without them."""
        return self._filler.dropped_parts

    @property
    def unrecorded_steps(self) -> int:
        """Steps that came after the waiting for a full disk was given up."""
        return self._filler.unrecorded_steps

    def lane(self, agent_id: str = "", actor: str = "") -> StepLane:
        """For one agent in one environment. ``actor`` is who acts for it, unless a step says otherwise."""
        return StepLane(self._filler, agent_id, actor)

    def flush(self) -> None:
        """Hand what is recorded to the journal now."""
        with self._filler.lock:
            self._filler.take_rows()
            self._filler.seal()

    def close(self) -> None:
        """Hand the rest to the journal. Appending afterwards is an error."""
        self._over.set()
        self._thread.join()
        with self._filler.lock:
            self._filler.take_rows()
            is_first_time = self._filler.close()
        if is_first_time and self.unrecorded_steps:
            say(f"The last {self.unrecorded_steps} steps were not recorded: the disk is full.")

    def _seal_often(self, seconds: float) -> None:
        while not self._over.wait(seconds):
            self.flush()

    def disown(self) -> None:
        """In the child of a fork: what is recorded there is an error."""
        self._filler.disown()


_recorders: weakref.WeakSet[StepRecorder] = weakref.WeakSet()


def _disown_all() -> None:
    for recorder in _recorders:
        recorder.disown()


os.register_at_fork(after_in_child=_disown_all)
