"""How fast event files are read: a large one for the first time, and what came to it since."""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Line, Section, Target
from gym_gui.services.scalars.event_reader import EventFileReader
from gym_gui.services.scalars.event_writer import EventFile

NAME = "event_files"
TITLE = "Event files"
METHOD = """\
A file of 1,000,000 scalars of ten tags, read whole by MOSAIC's reader and by TensorBoard's EventAccumulator (which
keeps every scalar), in pairs of the order ABBA. Both check every checksum and find all points. Then 600 events at a
time are appended, 20 times, and each time what is new is read: the reader goes on where it stopped and opens the file
again."""

EVENTS = 1_000_000
NEW_EVENTS = 600
TAGS = [f"charts/metric_{number}" for number in range(10)]


def run(*, quick: bool = False) -> Section:
    events, rounds = (100_000, 1) if quick else (EVENTS, 3)
    with tempfile.TemporaryDirectory(prefix="mosaic-bench-") as folder:
        file = Path(folder) / "events.out.tfevents.1.bench"
        with file.open("wb") as stream:
            _append(EventFile(stream, 1.0), 0, events)
        seconds, ratios, cpu_ratios = _first_reads(file, events, rounds)
        reloads = _reloads(file, events)
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line(f"EventAccumulator ÷ MOSAIC, first read of {events:,} events", ratios, "x", Target("≥", 5.0)),
            Line("the same by CPU time", cpu_ratios, "x"),
            Line(f"first read of {events:,} events", seconds, "s"),
            Line(f"reload of {NEW_EVENTS} new events", [clock for clock, _ in reloads], "ms", Target("<", 5.0)),
            Line("the same by CPU time", [cpu for _, cpu in reloads], "ms"),
        ],
    )


def _append(file: EventFile, first: int, count: int) -> None:
    """Tags in turn, as a script logs them, so that no two neighbours are alike."""
    hand = random.Random(first)
    for number in range(first, first + count):
        file.add_scalars(TAGS[number % len(TAGS)], [(number // len(TAGS) * 4, hand.random(), 1.7e9 + number / 100)])


def _first_reads(file: Path, events: int, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Our seconds, and how many times as long the other takes: by the clock, and by CPU time."""
    seconds, ratios, cpu_ratios = [], [], []
    for number in range(rounds):
        pair = [_ours, _theirs] if number % 2 == 0 else [_theirs, _ours]
        taken = {read: _timed(read, file) for read in pair}
        (clock, cpu, points), (other_clock, other_cpu, other_points) = taken[_ours], taken[_theirs]
        assert points == other_points == events, (points, other_points)
        seconds.append(clock)
        ratios.append(other_clock / clock)
        cpu_ratios.append(other_cpu / cpu)
    return seconds, ratios, cpu_ratios


def _timed(read: Callable[[Path], int], file: Path) -> tuple[float, float, int]:
    began, cpu = time.perf_counter(), time.process_time()
    points = read(file)
    return time.perf_counter() - began, time.process_time() - cpu, points


def _ours(file: Path) -> int:
    reader = EventFileReader(file)
    points = len(reader.read_all().points)
    assert not reader.damaged and not reader.ended
    return points


def _theirs(file: Path) -> int:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)
    found = EventAccumulator(str(file), size_guidance={"scalars": 0})
    found.Reload()
    return sum(len(found.Scalars(tag)) for tag in found.Tags()["scalars"])


def _reloads(file: Path, events: int) -> list[tuple[float, float]]:
    """Milliseconds by the clock and of CPU time, of each."""
    reader, found = EventFileReader(file), []
    reader.read_all()
    with file.open("ab") as stream:
        writer = EventFile(stream, 1.0)
        for number in range(20):
            _append(writer, events + number * NEW_EVENTS, NEW_EVENTS)
            stream.flush()
            began, cpu = time.perf_counter(), time.process_time()
            points = reader.read_all().points
            found.append((1e3 * (time.perf_counter() - began), 1e3 * (time.process_time() - cpu)))
            assert len(points) == NEW_EVENTS
    return found
