"""Evaluations of a run's checkpoints whose every step was kept: what `mosaic eval --record` left beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mosaic_protocol.paths import RunPaths
from mosaic_protocol.regular_files import read_regular
from mosaic_protocol.steps.recordings import is_recording

MOST_LISTED = 200
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class RecordedEvaluation:
    """One way in which a checkpoint was evaluated."""

    folder: Path
    step: int
    """Of the checkpoint."""
    mode: str
    episodes: int
    mean: float | None


def recorded_evaluations(run_directory: Path) -> list[RecordedEvaluation]:
    """The newest first. Only what a result names, which is written last: an evaluation that was killed has none."""
    directory = RunPaths(run_directory).evaluations
    results = sorted(directory.glob("*.json"), key=_stamp, reverse=True)
    found: list[RecordedEvaluation] = []
    for file in results:
        found += _of_result(file)
        if len(found) >= MOST_LISTED:
            break
    return found[:MOST_LISTED]


def _stamp(file: Path) -> str:
    """Names are ``checkpoint--time-number``; times sort as text."""
    return file.name.rpartition("--")[2]


def _of_result(file: Path) -> Iterator[RecordedEvaluation]:
    try:
        result: Any = json.loads(read_regular(file, _MOST_BYTES))
        recordings, results, step = result["recordings"], result["results"], int(result["step"])
        for mode, named in recordings.items():
            folder = _beside(file, Path(named))
            measured = results[mode]
            mean = measured.get("mean")
            mean = float(mean) if isinstance(mean, int | float) else None
            if folder is not None:
                yield RecordedEvaluation(folder, step, str(mode), int(measured["episodes"]), mean)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # a result of before there were recordings, or no result


def _beside(file: Path, named: Path) -> Path | None:
    """The recording that a result names, where the result is now; what a file says is no way out of its folder."""
    outer = file.parent / named.parent.name
    folder = outer / named.name
    if ".." in (named.parent.name, named.name) or outer.is_symlink() or folder.is_symlink():
        return None
    return folder if outer != file.parent and folder != outer and is_recording(folder) else None
