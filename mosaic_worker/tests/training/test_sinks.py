"""Each sink keeps its promise: nothing is raised for what the world does, and only the journal loses nothing."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from mosaic_protocol import events
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_worker.training.sinks import ConversationSink, JournalSink, Sink, TensorBoardSink, TrackingSink


class Listening:
    """Stands where a tracker or a conversation stands, and keeps what it is handed."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.steps: list[int] = []
        self.closed: list[int] = []

    def scalars(self, step: int, numbers: dict[str, float]) -> None:
        self.rows.append((step, numbers))

    def close(self, status: int) -> None:
        self.closed.append(status)

    def progress(self, step: int) -> None:
        self.steps.append(step)

    def publish(self, record: events.MetricRow) -> None:
        self.rows.append((record.step, dict(record.values)))


Make = Callable[[Path], Sink]
SINKS: dict[str, Make] = {
    "journal": lambda folder: JournalSink(OutboxWriter(folder / "outbox", "script")),
    "conversation": lambda folder: ConversationSink(Listening()),  # type: ignore[arg-type]
    "tensorboard": lambda folder: TensorBoardSink.open(folder / "tensorboard", {"seed": 1}),
    "tracking": lambda folder: TrackingSink(Listening()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("failed", [True, False])
def test_every_sink_takes_any_number_and_is_closed_once(kind: str, failed: bool, tmp_path: Path) -> None:
    sink = SINKS[kind](tmp_path)
    sink.scalars(1, {"a": 1.0, "b": math.nan, "c": -math.inf})
    sink.scalars(2, {})
    sink.flush()
    sink.close(failed=failed)


def test_the_journal_has_a_row_for_each_with_none_for_what_json_has_no_word_for(tmp_path: Path) -> None:
    sink = SINKS["journal"](tmp_path)
    sink.scalars(3, {"a": 1.5, "b": math.inf})
    sink.close(failed=False)
    reader = OutboxReader(tmp_path / "outbox", "script")
    (row,) = [events.decode(line) for line in reader.read(10)]
    reader.close()
    assert isinstance(row, events.MetricRow)
    assert (row.step, row.values) == (3, {"a": 1.5, "b": None})


def test_a_conversation_hears_how_far_the_run_is_and_stays_open() -> None:
    conversation = Listening()
    sink = ConversationSink(conversation)  # type: ignore[arg-type]
    sink.scalars(7, {"a": math.nan})
    sink.close(failed=False)
    assert (conversation.steps, conversation.rows, conversation.closed) == ([7], [(7, {"a": None})], [])


def test_rows_that_wait_for_disk_space_are_told_once_and_so_is_that_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, told = OutboxWriter(tmp_path / "outbox", "script"), list[str]()
    sink = JournalSink(journal, on_wait=told.append)
    with monkeypatch.context() as patched:
        patched.setattr(journal, "_write_line", lambda seq, line: False)
        for step in range(3):
            sink.scalars(step, {"a": 1.0})
        assert told == ["what it journals waits for disk space"]
    sink.flush()
    assert told[1:] == [""] and journal.held == 0
    sink.close(failed=False)


def test_tensorboard_ends_with_one_sentence_on_a_full_disk_and_ignores_further_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = TensorBoardSink.open(tmp_path, {})
    file = sink._file
    assert file is not None

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "add_event", full)
    for step in (10, 20):
        sink.scalars(step, {"a": 1.0})
    sink.close(failed=False)
    assert sink.writer is None
    assert capsys.readouterr().err == "TensorBoard files end at step 10: [Errno 28] No space left on device\n"


def test_what_is_no_scalar_goes_to_the_same_file_through_the_writer_of_pytorch(tmp_path: Path) -> None:
    sink = TensorBoardSink.open(tmp_path, {"seed": 1})
    writer = sink.writer
    assert writer is not None and writer is sink.writer
    writer.add_histogram("weights", np.arange(4.0), 5)
    sink.scalars(6, {"a": 2.0})
    sink.close(failed=False)
    (file,) = tmp_path.iterdir()
    found = {value.tag: event.step for event in EventFileLoader(str(file)).Load() for value in event.summary.value}
    assert found == {"hyperparameters/text_summary": 0, "weights": 5, "a": 6}


@pytest.mark.parametrize(("failed", "status"), [(True, 1), (False, 0)])
def test_a_tracked_run_learns_how_it_ended(failed: bool, status: int) -> None:
    tracker = Listening()
    sink = TrackingSink(tracker)  # type: ignore[arg-type]
    sink.scalars(1, {"a": 2.0})
    sink.close(failed=failed)
    assert (tracker.rows, tracker.closed) == ([(1, {"a": 2.0})], [status])
