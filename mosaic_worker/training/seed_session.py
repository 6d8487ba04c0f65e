"""The session of one seed among several that one program trains.

The daemon speaks with the whole run alone: it is paused, stopped and asked for checkpoints as one. A seed has what a
run of its own will need when the program is over: a journal, checkpoints, TensorBoard files, and a last word.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat

from mosaic_protocol import events as ev
from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.seed_runs import FLAG, folder_of
from mosaic_worker.supervision import control
from mosaic_worker.training.progress import NoProgress
from mosaic_worker.training.session import TrainingSession
from mosaic_worker.training.sinks import JournalSink

if TYPE_CHECKING:
    from mosaic_protocol.outbox import OutboxWriter
    from mosaic_worker.state.checkpoints import NotNowError


class SeedSession(TrainingSession):
    """Made by the one whose run holds it, in its thread; ends with :meth:`say_completed` and the like, and
    :meth:`close`."""

    def __init__(self, whole: TrainingSession, args: Mapping[str, Any], algo: str, seed: int, count: int) -> None:
        """`args` are those of the whole run, which trains `count` seeds."""
        folder = folder_of(whole.run_dir, seed)
        folder.mkdir(parents=True, exist_ok=True)
        by_hand = not whole.is_supervised
        super().__init__({**args, "seed": seed, FLAG: 1}, algo, folder, folder if by_hand else folder / "tensorboard")
        self.seed, self._whole, self._count = seed, whole, count
        self.twin = whole.twin
        self._progress = NoProgress(self._episodes)
        self.is_over = False
        self._journal: OutboxWriter | None = None
        if not by_hand:
            self._journal = self._open_journal()
            self._sinks.append(JournalSink(self._journal, share=1 / count))
        if os.environ.get(control.TENSORBOARD_VARIABLE) != "0" and (sink := self._open_tensorboard()):
            self._sinks.append(sink)

    def _open_journal(self) -> OutboxWriter:
        from mosaic_protocol.outbox import OutboxWriter

        outbox = self.run_dir / "outbox"
        opened = lambda: OutboxWriter(directory=outbox, stream="script")  # noqa: E731
        return until_it_works(opened, "open the journal", give_up=lambda: self._whole.stop_requested)

    def begin(self, total_steps: int | None) -> None:
        """Right after the whole run began."""
        self._require_a_state_that_can_be_saved()
        self._total_steps = float("inf") if total_steps is None else total_steps
        self._say(ev.RUN_STARTED)

    def scalars(self, step: int, values: Mapping[str, SupportsFloat], returns: Any = None) -> None:
        self._step = step
        super().scalars(step, values, returns)

    def say_completed(self) -> None:
        """All steps were made."""
        self._end(ev.RUN_COMPLETED, f"completed after {self._step:,} steps, one of {self._count} seeds of a program")

    def say_stopped(self) -> None:
        self._end(ev.RUN_STOPPED, f"stopped at step {self._step:,}")

    def say_failed(self, sentence: str) -> None:
        """This seed is lost; the others go on."""
        self._end(ev.RUN_FAILED, sentence)

    def _end(self, event: str, sentence: str) -> None:
        self.is_over = True
        if self._checkpoints is not None:
            self._checkpoints.wait()
        self._say(event, sentence)

    def _say(self, event: str, sentence: str = "") -> None:
        if self._journal is not None:
            self._journal.append(ev.RunLifecycleEvent(event=event, sentence=sentence, step=self._step))

    def _does_without_a_checkpoint(self, obstacle: NotNowError) -> bool:
        return self._whole._does_without_a_checkpoint(obstacle)

    def close(self, *, failed: bool = False) -> None:
        """Release everything. One that has not said its last word ends as the whole run does."""
        if self._checkpoints is not None:
            self._checkpoints.wait()
        for sink in self._sinks:
            sink.close(failed=failed)
