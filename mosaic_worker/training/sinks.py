"""Where a run's scalars go: the durable journal, TensorBoard files, a tracking service.

A sink is one such place. The session hands each row to all of them, in a fixed order with the journal first, because
that is the one that must not lose anything.
"""

from __future__ import annotations

import math
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic_protocol.headline import CPU_TAG, MEMORY_TAG, SPS_TAG
from mosaic_worker.training.gpu_load import GpuLoad

if TYPE_CHECKING:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from torch.utils.tensorboard import SummaryWriter

    from mosaic_protocol.outbox import OutboxWriter
    from mosaic_protocol.worker_client import WorkerSession
    from mosaic_worker.tracking import Tracker

TENSORBOARD_FLUSH_SECONDS = 5
_TELL_SECONDS = 1.0


class Sink(ABC):
    """One place that a run's scalars go to.

    Threads: every method is called in the training thread, none of them twice at the same time. What a sink does
    elsewhere, in threads or processes of its own, is its own affair.

    Time: :meth:`scalars` is paid by the training, with every row; it does no more than hand the row on, and never waits
    for a network or another process. Only :meth:`close` may wait, and says for how long.

    Errors: nothing is raised for what the world does. A sink that cannot go on says so once on stderr and takes further
    rows without a word; neither the training nor another sink notices. Only mistakes in the code are raised.

    A full disk: the journal keeps rows in memory and writes them when there is space; it waits for that as long as it
    takes when it is closed, since what it holds dies with the process. Every other sink ends, and says so.
    """

    @abstractmethod
    def scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take values that belong together at one step; they may be infinite or no number. The mapping stays the
        caller's, who does not change it any more."""

    def flush(self) -> None:
        """Write what is held back, as far as that is possible without waiting."""
        return

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Take no more rows; write and release everything. `failed`: the training ended with an error."""


_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class _Load:
    """What the process has computed since it was ready to train and what memory it holds, recorded wherever a script
    tells its speed: often enough for a curve, and never in a row of each episode. Only the daemon's curves are drawn
    over it, so it is not in the files of TensorBoard. So is how busy its GPUs are, where it has any."""

    def __init__(self, share: float = 1.0) -> None:
        self._began, self._share = time.process_time(), share
        self._gpus = GpuLoad()

    def beside(self, values: dict[str, float | None]) -> dict[str, float | None]:
        if SPS_TAG not in values or CPU_TAG in values:
            return values
        return {
            **values,
            CPU_TAG: self._share * (time.process_time() - self._began),
            **_memory(),
            **self._gpus.newest(),
        }

    def close(self) -> None:
        self._gpus.close()


def _memory() -> dict[str, float]:
    """Nothing where the system does not say: no number of it is worth a training."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return {MEMORY_TAG: round(int(pages) * _PAGE_MB, 1)}
    except (OSError, ValueError, IndexError):
        return {}


class JournalSink(Sink):
    """The outbox of a script that has a process of its own. The one sink that loses nothing."""

    def __init__(
        self,
        journal: OutboxWriter,
        tell: Callable[[int], None] = lambda seq: None,
        on_wait: Callable[[str], None] = lambda sentence: None,
        share: float = 1.0,
    ) -> None:
        """``tell`` hears the number of the newest row while rows wait for disk space: if they die with this process,
        somebody can say how many they were. ``on_wait`` hears a sentence when they begin to wait, and "" when they are
        written. ``share``: of what the process computes, what is done for this run."""
        from mosaic_protocol.events import MetricRow

        self.journal = journal
        self._row = MetricRow
        self._tell, self._told, self._told_at = tell, 0, 0.0
        self._on_wait, self._waits = on_wait, False
        self._load = _Load(share)

    def scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        self.journal.append(self._row(step=step, values=self._load.beside(_finite(numbers))))
        self._note_waiting()
        if self.journal.held and time.monotonic() - self._told_at > _TELL_SECONDS:
            self._tell_if_held()

    def flush(self) -> None:
        self.journal.flush()
        self._note_waiting()
        self._tell_if_held()

    def close(self, *, failed: bool) -> None:
        """Waits for space without limit: a supervisor in a hurry kills the process."""
        self._load.close()
        self._tell_if_held()
        self.journal.wait_for_space(give_up=lambda: False)
        self.journal.close()

    def _note_waiting(self) -> None:
        if bool(self.journal.held) != self._waits:
            from mosaic_protocol.outbox import WAITS

            self._waits = not self._waits
            self._on_wait(WAITS if self._waits else "")

    def _tell_if_held(self) -> None:
        if self.journal.held and self.journal.last_seq != self._told:
            self._told, self._told_at = self.journal.last_seq, time.monotonic()
            self._tell(self._told)


class ConversationSink(Sink):
    """The outbox of a worker that trains in its own process: its conversation with the daemon, which closes itself."""

    def __init__(self, conversation: WorkerSession) -> None:
        from mosaic_protocol.events import MetricRow

        self._conversation = conversation
        self._row = MetricRow
        self._load = _Load()

    def scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        self._conversation.progress(step)
        self._conversation.publish(self._row(step=step, values=self._load.beside(_finite(numbers))))

    def close(self, *, failed: bool) -> None:
        self._load.close()


class TensorBoardSink(Sink):
    """TensorBoard files, by TensorBoard's own writer. On a full disk they end, with a sentence."""

    def __init__(self, file: EventFileWriter) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._file: EventFileWriter | None = file
        """None once the files have ended."""
        self._writer: SummaryWriter | None = None
        self._event, self._summary, self._last_step = Event, Summary, 0

    @classmethod
    def open(cls, directory: Path, args: Mapping[str, Any]) -> TensorBoardSink:
        """Raises OSError when the directory cannot be written, ImportError where no writer is installed."""
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        sink = cls(EventFileWriter(str(directory), max_queue_size=1000, flush_secs=TENSORBOARD_FLUSH_SECONDS))
        sink._add_text("hyperparameters", "\n".join(["|argument|value|", "|-|-|", *_rows(args)]))
        return sink

    @property
    def writer(self) -> SummaryWriter | None:
        """PyTorch's writer on the same file, for what is no scalar; None once the files have ended. Raises ImportError
        where PyTorch is not installed, which takes a second to import: nothing here asks for it."""
        if self._file is not None and self._writer is None:
            self._writer = _summary_writer(self._file)
        return self._writer

    def scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        if self._file is None:
            return
        self._last_step = step
        try:
            self._add_event(self._file, step, numbers)
        except OSError as error:  # a full disk must not end the training
            file = self._file
            self._end(error)
            with suppress(OSError):  # its thread would go on trying otherwise
                file.close()

    def _add_event(self, file: EventFileWriter, step: int, numbers: Mapping[str, float]) -> None:
        """All values in one event: several times cheaper than one for each, and read just the same."""
        value = self._summary.Value
        summary = self._summary(value=[value(tag=tag, simple_value=number) for tag, number in numbers.items()])
        file.add_event(self._event(wall_time=time.time(), step=int(step), summary=summary))

    def _add_text(self, tag: str, text: str) -> None:
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.plugins.text.metadata import create_summary_metadata

        assert self._file is not None
        content = TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        content.tensor_shape.dim.add(size=1)
        value = self._summary.Value(tag=f"{tag}/text_summary", metadata=create_summary_metadata("", ""), tensor=content)
        self._file.add_event(self._event(wall_time=time.time(), summary=self._summary(value=[value])))

    def close(self, *, failed: bool) -> None:
        """Waits for the disk."""
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        self._file = self._writer = None
        tell_tensorboard_ended(self._last_step, error)


def _rows(args: Mapping[str, Any]) -> list[str]:
    return [f"|{name}|{value}|" for name, value in args.items()]


def _summary_writer(file: EventFileWriter) -> SummaryWriter:
    """On a file that is open: of several files in a folder TensorBoard follows only the newest."""
    from torch.utils.tensorboard import FileWriter, SummaryWriter

    class OnAnOpenFile(FileWriter):
        def __init__(self) -> None:
            self.event_writer = file

    class Writer(SummaryWriter):
        file_writer: Any
        all_writers: Any

        def _get_file_writer(self) -> FileWriter:
            if self.file_writer is None:
                self.file_writer = OnAnOpenFile()
                self.all_writers = {file.get_logdir(): self.file_writer}
            return self.file_writer

    return Writer(file.get_logdir())


def tell_tensorboard_ended(step: int, error: Exception) -> None:
    print(f"TensorBoard files end at step {step:,}: {error}", file=sys.stderr, flush=True)


def tell_no_tensorboard(error: ImportError) -> None:
    print(f"No TensorBoard files are written: {error}", file=sys.stderr, flush=True)


class TrackingSink(Sink):
    """Weights & Biases, in a process of its own; see :class:`mosaic_worker.tracking.Tracker`."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        self._tracker.scalars(step, numbers)

    def close(self, *, failed: bool) -> None:
        """Waits for the upload, for the tracker's patience at most."""
        self._tracker.close(1 if failed else 0)


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no infinity."""
    return {tag: number if math.isfinite(number) else None for tag, number in numbers.items()}
