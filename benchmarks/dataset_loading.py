"""How long it takes until transitions are in memory, against the loop that d4rl makes of the same columns."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from benchmarks.daemon import BenchmarkError
from benchmarks.machine import SCRATCH
from benchmarks.report import Line, Section, Target, interleaved, ratios
from mosaic_protocol.datasets import DATA, DatasetManifest, file_sha256
from mosaic_protocol.datasets.manifest import MANIFEST_VERSION, write_manifest
from mosaic_protocol.paths import MosaicPaths
from mosaic_worker.offline import OfflineDataset, Transitions, open_dataset
from mosaic_worker.offline.rows_file import table_in_file

NAME = "dataset_loading"
TITLE = "Loading a dataset"
METHOD = """\
400,000 rows in the shapes of Hopper (11 numbers, 3 of an action), episodes of up to 1,000 steps, a quarter of which end
by the time limit. The loop is d4rl's `qlearning_dataset`, written out here by its meaning (d4rl itself is not
installed): one row after the other, the row of a timeout left out; its columns are in memory before the clock starts.
Ours reads the file. Both arrays must be equal. CPU time, pairs in the order ABBA. Rows drawn: batches of 256 from a
table in memory, and from the file that takes its place when memory is too small, here with its pages in the system's
cache."""
TARGET = Target("≥", 30)
ROWS, OBSERVATION, ACTION, EPISODE = 400_000, 11, 3, 1000
Columns = dict[str, NDArray[Any]]
_MADE = ("observations", "actions", "next_observations", "rewards", "terminals")


def run(*, quick: bool = False) -> Section:
    """One section of the benchmark page. Raises BenchmarkError where the arrays differ."""
    rows = ROWS // 10 if quick else ROWS
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="loading-", dir=SCRATCH) as home:
        columns = _columns(rows)
        _write(MosaicPaths(Path(home)), columns)
        with open_dataset("hopper", paths=MosaicPaths(Path(home))) as dataset:
            _require_equal(dataset.transitions(), by_the_loop(columns))
            pairs = interleaved(
                2 if quick else 5, lambda: _rate(lambda: by_the_loop(columns)), lambda: _rate(dataset.transitions)
            )
            speeds = [(rows * ours, rows * loop) for loop, ours in pairs]
            parts = [rows * _rate(lambda: _in_parts(dataset)) for _ in range(3)]
        drawn = [_drawn(rows, Path(home)) for _ in range(3)]
    return Section(
        NAME,
        TITLE,
        METHOD,
        [
            Line("rows loaded per CPU second, ours ÷ the loop", ratios(speeds), target=TARGET),
            Line("rows loaded per CPU second, ours", [ours for ours, _ in speeds], "/s"),
            Line("rows loaded per CPU second, ours, in parts of whole episodes", parts, "/s"),
            Line("rows loaded per CPU second, the loop", [loop for _, loop in speeds], "/s"),
            Line("rows drawn per CPU second, from a file ÷ from memory", [one / other for one, other in drawn]),
        ],
    )


def by_the_loop(columns: Columns) -> Columns:
    """The transitions of columns, a row at a time: what followed is the next row, and after a timeout it is unknown."""
    made: dict[str, list[Any]] = {name: [] for name in _MADE}
    for i in range(len(columns["rewards"]) - 1):
        observation = columns["observations"][i].astype(np.float32)
        following = columns["observations"][i + 1].astype(np.float32)
        action = columns["actions"][i].astype(np.float32)
        reward = columns["rewards"][i].astype(np.float32)
        over = bool(columns["terminals"][i])
        if columns["timeouts"][i]:
            continue
        made["observations"].append(observation)
        made["next_observations"].append(following)
        made["actions"].append(action)
        made["rewards"].append(reward)
        made["terminals"].append(over)
    return {name: np.array(values) for name, values in made.items()}


def _require_equal(ours: Transitions, theirs: Columns) -> None:
    """What a terminal row leads to is not learned from; the loop has another episode's first observation there."""
    goes_on = ~theirs["terminals"]
    for name, values in theirs.items():
        found = getattr(ours, name)
        kept = (found[goes_on], values[goes_on]) if name == "next_observations" else (found, values)
        if not np.array_equal(*kept):
            raise BenchmarkError(f"{name} differ from those of the loop")


def _rate(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1 / (time.process_time() - began)


def _in_parts(dataset: OfflineDataset) -> None:
    for part in dataset.parts(8 * 2**20):
        part.lengths()


def _drawn(rows: int, folder: Path) -> tuple[float, float]:
    """Batches drawn per CPU second, from a file and from memory."""
    import torch

    torch.set_num_threads(1)
    width = 2 * OBSERVATION + ACTION + 2
    tables = torch.from_numpy(table_in_file(rows, width, folder)), torch.empty(rows, width)

    def draw(table: torch.Tensor) -> None:
        for _ in range(2000):
            table.index_select(0, torch.randint(rows, (256,)))

    for table in tables:
        table.fill_(1.0)
        draw(table)
    return _rate(partial(draw, tables[0])), _rate(partial(draw, tables[1]))


def _columns(rows: int) -> Columns:
    draw = np.random.default_rng(0)
    ends = np.zeros(rows, bool)
    at = -1
    while (at := at + int(draw.integers(20, EPISODE))) < rows:
        ends[at] = True
    by_time = draw.random(rows) < 0.25
    found = {
        "observations": draw.normal(size=(rows, OBSERVATION)).astype(np.float32),
        "actions": draw.uniform(-1, 1, (rows, ACTION)).astype(np.float32),
        "rewards": draw.normal(size=rows).astype(np.float32),
        "terminals": ends & ~by_time,
        "timeouts": ends & by_time,
    }
    found["terminals"][-1] = found["timeouts"][-1] = False
    return found


def _write(paths: MosaicPaths, columns: Columns) -> None:
    folder = paths.dataset("hopper")
    folder.mkdir(parents=True)
    with h5py.File(folder / DATA, "w") as data:
        for name, values in columns.items():
            data.create_dataset(name, data=values)
    ends = columns["terminals"] | columns["timeouts"]
    manifest = DatasetManifest(
        v=MANIFEST_VERSION,
        name="hopper",
        layout="d4rl",
        created_at=time.time(),
        sha256=file_sha256(folder / DATA),
        bytes=(folder / DATA).stat().st_size,
        episodes=int(ends.sum()) + 1,
        steps=len(ends),
        returns={},
        actors={},
        left_out={},
        source={"kind": "benchmark"},
        env_id="Hopper-v5",
        observation_space=_box(OBSERVATION, 1e30),
        action_space=_box(ACTION, 1.0),
    )
    write_manifest(folder, manifest)


def _box(width: int, end: float) -> str:
    ends = {"low": [-end] * width, "high": [end] * width}
    return json.dumps({"type": "Box", "dtype": "float32", "shape": [width], **ends})


if __name__ == "__main__":
    for line in run(quick=True).lines:
        print(f"{line.what}: {line.measured}, {line.verdict}")
