"""A look inside a dataset. Reads all of it once, in blocks; needs h5py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gym_gui.services.datasets.inside import Histogram, Inside, Range, Row, Sample
from gym_gui.services.datasets.survey import surveyed
from mosaic_protocol.dataset_files import data_file, spaces
from mosaic_protocol.datasets import DatasetEntry, DatasetsError
from mosaic_protocol.datasets.manifest import finite

BINS = 24
MOST_ROWS = 200
_MOST_COLUMNS = 64
_MOST_NUMBERS = 8
"""Of one observation in a row of the table."""


def look_inside(entry: DatasetEntry, episode: int | None = None, most_rows: int = 20) -> Inside:
    """``episode``: whose rows are told, the best one without it. Raises DatasetsError."""
    told = entry.manifest
    found = surveyed(entry.data, told.layout, told.observation_space, told.action_space)
    with data_file.opened(entry.data, told.layout) as file:
        samples = _samples(file, found.returns, found.lengths)
        chosen = samples[0].number if episode is None else episode
        if not 0 <= chosen < found.episodes:
            raise DatasetsError(f"there is no episode {chosen}: {entry.name} has 0 to {found.episodes - 1}")
        rows, left_out = _rows(file, chosen, min(max(most_rows, 1), MOST_ROWS))
    observations, actions = (
        _ranges(columns.seen(), space, word)
        for columns, space, word in (
            (found.observations, told.observation_space, "observation"),
            (found.actions, told.action_space, "action"),
        )
    )
    return Inside(
        name=entry.name,
        sha256=told.sha256,
        returns=histogram(found.returns),
        lengths=histogram(found.lengths.astype(np.float64)),
        terminated=found.terminated,
        observations=observations[:_MOST_COLUMNS],
        actions=actions[:_MOST_COLUMNS],
        columns_left_out=sum(max(0, len(one) - _MOST_COLUMNS) for one in (observations, actions)),
        samples=samples,
        episode=chosen,
        rows=rows,
        rows_left_out=left_out,
    )


def histogram(values: NDArray[np.float64], bins: int = BINS) -> Histogram:
    """Of the finite ones. Values that are all alike stand in one bar."""
    values = values[np.isfinite(values)]
    if not len(values):
        return Histogram([0.0, 1.0], [0])
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Histogram([low - 0.5, high + 0.5], [len(values)])
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    return Histogram(edges.tolist(), counts.tolist())


def _samples(file: data_file.DataFile, returns: NDArray[np.float64], lengths: NDArray[np.int64]) -> list[Sample]:
    """The best, the one in the middle, the worst and the first, each once."""
    order = np.argsort(np.nan_to_num(returns, nan=-math.inf), kind="stable")
    wanted = (("best", order[-1]), ("median", order[(len(order) - 1) // 2]), ("worst", order[0]), ("first", 0))
    found: dict[int, str] = {}
    for why, number in wanted:
        found.setdefault(int(number), why)
    return [_sample(file, number, why, float(returns[number]), int(lengths[number])) for number, why in found.items()]


def _sample(file: data_file.DataFile, number: int, why: str, total: float, length: int) -> Sample:
    acted = dict.fromkeys(name or "unknown actor" for name in file.actors(number))
    recorded = file.recorded_as(number)
    end = _end(file, int(file.starts[number + 1]) - 1)
    return Sample(why, number, total, length, end, ", ".join(acted), recorded)


def _end(file: data_file.DataFile, step: int) -> str:
    return "terminated" if file.terminals[step] else "cut off" if file.timeouts[step] else ""


def _rows(file: data_file.DataFile, number: int, most: int) -> tuple[list[Row], int]:
    first, behind = int(file.starts[number]), int(file.starts[number + 1])
    shown = min(behind, first + most)
    steps, actors = file.read(first, shown), file.actors(number)
    rows = [
        Row(
            step=place,
            observation=_told(steps.observations, place),
            action=_told(steps.actions, place),
            reward=finite(float(steps.rewards[place])),
            actor=actors[place] if place < len(actors) else "",
            end=_end(file, first + place),
        )
        for place in range(shown - first)
    ]
    return rows, behind - shown


def _told(values: dict[spaces.Leaf, NDArray[Any]], place: int) -> str:
    """One value in a line: its first numbers, and how many there are where they are too many."""
    numbers = [one for part in values.values() for one in np.ravel(part[place]).tolist()[: _MOST_NUMBERS + 1]]
    words = [f"{one:.4g}" if isinstance(one, float) else str(one)[:40] for one in numbers[:_MOST_NUMBERS]]
    count = sum(int(np.size(part[place])) for part in values.values())
    return ", ".join(words) + (f", … ({count:,})" if count > len(words) else "")


def _ranges(seen: Any, space_text: str, word: str) -> list[Range]:
    if seen is None:
        return []
    ends = _bounds(spaces.parsed(space_text))
    if len(ends) != len(seen.low):  # pictures have one range for all of their numbers
        least = min((low for low, _ in ends if low is not None), default=None)
        most = max((high for _, high in ends if high is not None), default=None)
        ends = [(least, most)] * len(seen.low)
    pairs = zip(seen.low, seen.high, ends, strict=True)
    return [Range(f"{word} {number}", low, high, *end) for number, (low, high, end) in enumerate(pairs)]


def _bounds(space: spaces.Space) -> list[tuple[float | None, float | None]]:
    """For each number of a value, as the survey counts them. None where a space has no bound."""
    found: list[tuple[float | None, float | None]] = []
    for leaf in spaces.leaves(space).values():
        match leaf["type"]:
            case "Box":
                low, high = spaces.bounds(leaf)
                found += [(finite(float(a)), finite(float(b))) for a, b in zip(low, high, strict=False)]
            case "Discrete":
                start = float(leaf.get("start", 0))
                found.append((start, start + float(leaf["n"]) - 1))
            case "MultiDiscrete":
                counts = np.ravel(leaf["nvec"]).astype(float)
                starts = np.ravel(leaf.get("start") or np.zeros_like(counts))
                found += [(float(a), float(a + n - 1)) for a, n in zip(starts, counts, strict=False)]
            case "MultiBinary":
                found += [(0.0, 1.0)] * spaces.width(leaf)
    return found
