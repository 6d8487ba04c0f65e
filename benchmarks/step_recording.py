"""What recording steps costs: the training thread, the disk, and who reads them again."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import step_rivals
from benchmarks.report import Line, Section, Target
from gym_gui.services.trainer.telemetry.batches import Batch
from gym_gui.services.trainer.telemetry.step_store import StepStore
from mosaic_protocol import events
from mosaic_protocol.outbox import MESSAGE_BYTES, OutboxReader, discard_through
from mosaic_protocol.steps.chunk import OpenedChunk
from mosaic_protocol.steps.open_chunk import STREAM
from mosaic_worker.recording.step_recorder import StepRecorder

NAME = "step_recording"
TITLE = "Recording steps"
METHOD = """\
Steps as CartPole has them (four 32-bit numbers, an action, a reward), an episode every 200, random observations, which
compress worse than real ones. Appending is the CPU time of the recording thread, the sealing and journalling of chunks
included; the same numbers go to torch's SummaryWriter as six scalars a step, interleaved, and to other recorders in
processes of their own, whose CPU time counts as a whole. The store takes the journal
as the daemon does; its size is that of the file after closing it, by steps. Reading is the time of the store to give
the chunks, and to unpack the steps that were asked for, among all that are stored."""

RUN = "run"
EPISODE = 200
_DIFFERENT = 100_000
"""Far more than a chunk holds: within one nothing repeats."""


def run(*, quick: bool = False) -> Section:
    steps, rounds, stored = (50_000, 3, 500_000) if quick else (200_000, 7, 10_000_000)
    appended, ratios = [], []
    for _ in range(rounds):
        ours, theirs = _seconds_to_append(steps), _seconds_with_summary_writer(steps // 20) * 20
        appended.append(1e6 * ours / steps)
        ratios.append(theirs / ours)
    lines = [
        Line("Appending a step, CPU time of the recording thread", appended, "µs", Target("≤", 2.0)),
        Line("The same numbers through SummaryWriter ÷ appending", ratios, "", Target("≥", 10.0)),
    ]
    return Section(
        NAME, TITLE, _method(), [*lines, *_rival_lines(median(appended), quick=quick), *_store_lines(stored)]
    )


def _method() -> str:
    absent = [title for title in step_rivals.RIVALS if title not in step_rivals.installed()]
    return f"{METHOD} Not installed where this was measured: {'; '.join(absent)}." if absent else METHOD


def _rival_lines(ours: float, *, quick: bool) -> list[Line]:
    """CPU time of other recorders by ours, for what is installed here."""
    rounds = 1 if quick else 3
    return [
        Line(
            f"The same steps through {title} ÷ appending",
            [step_rivals.microseconds_a_step(title, quick=quick) / ours for _ in range(rounds)],
        )
        for title in step_rivals.installed()
    ]


def _observations(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32))


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        yield Path(folder)


def _seconds_to_append(steps: int) -> float:
    observations = _observations(steps)
    with _scratch() as folder, closing(StepRecorder(folder)) as recorder:
        lane = recorder.lane("agent", "policy")
        began = time.thread_time()
        for number, observation in enumerate(observations):
            lane.append(observation, number & 1, 1.0, number % EPISODE == EPISODE - 1)
        recorder.flush()
        return time.thread_time() - began


def _seconds_with_summary_writer(steps: int) -> float:
    from torch.utils.tensorboard import SummaryWriter

    observations = _observations(steps)
    with _scratch() as folder, closing(SummaryWriter(str(folder))) as writer:
        began = time.process_time()  # its writing thread belongs to the price
        for number, observation in enumerate(observations):
            for place, value in enumerate(observation):
                writer.add_scalar(f"observation/{place}", value, number)
            writer.add_scalar("action", number & 1, number)
            writer.add_scalar("reward", 1.0, number)
        writer.flush()
        return time.process_time() - began


def _store_lines(steps: int) -> list[Line]:
    with _scratch() as folder:
        outbox = folder / "outbox"
        seconds = _fill(folder / "steps.sqlite", outbox, steps)
        size = sum(file.stat().st_size for file in folder.glob("steps.sqlite*"))
        with closing(StepStore(folder / "steps.sqlite")) as store:
            tail, episode = _read_milliseconds(store, steps)
    return [
        Line("Stored, bytes a step", [size / steps], "B", Target("≤", 30.0)),
        Line("Storing what a journal holds, steps per second", [steps / seconds], "/s"),
        Line(f"Last 500 of {steps:,} steps", tail, "ms", Target("<", 5.0)),
        Line(f"Any one episode of {steps:,} steps", episode, "ms", Target("<", 5.0)),
    ]


def _fill(path: Path, outbox: Path, steps: int) -> float:
    """Record steps and store their journal, a part after the other; seconds of storing."""
    observations = _observations(_DIFFERENT)
    seconds = 0.0
    with closing(StepStore(path)) as store, closing(StepRecorder(outbox, seal_seconds=3600.0)) as recorder:
        lane = recorder.lane("agent", "policy")
        reader = OutboxReader(outbox, STREAM)
        for number in range(steps):
            ends = number % EPISODE == EPISODE - 1
            lane.append(observations[number % _DIFFERENT], number & 1, 1.0, ends)
            if number % 500_000 == 499_999 or number == steps - 1:
                recorder.flush()
                began = time.monotonic()
                while lines := reader.read(1000, MESSAGE_BYTES):
                    store.ingest(Batch(RUN, STREAM, reader.next_seq - len(lines), lines)).result()
                seconds += time.monotonic() - began
                discard_through(outbox, STREAM, reader.next_seq - 1)
        reader.close()
        return seconds


def _read_milliseconds(store: StepStore, steps: int) -> tuple[list[float], list[float]]:
    chance = np.random.default_rng(1)
    tail = [_milliseconds(store, steps - 500, steps) for _ in range(50)]
    episodes = []
    for number in chance.integers(0, steps // EPISODE, 50):
        began = time.perf_counter()
        first, before = store.episode_span(RUN, int(number))
        episodes.append(1e3 * (time.perf_counter() - began) + _milliseconds(store, first, before))
    return tail, episodes


def _milliseconds(store: StepStore, first: int, before: int) -> float:
    began = time.perf_counter()
    for _, line in store.chunks_after(RUN, first, before):
        record = events.decode(line)
        assert isinstance(record, events.StepChunk)
        sum(1 for step in OpenedChunk(record).steps() if step.step >= first)
    return 1e3 * (time.perf_counter() - began)
