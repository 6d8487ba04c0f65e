"""Studies read for a program that must not import Optuna: SQLite files here, journals in a process of their own.

    python -m gym_gui.services.sweeps.study_reader FILE

prints the studies of a file as JSON, or why they cannot be read. What a hostile file does to a reader ends with that
process.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gym_gui.services.sweeps.foreign_studies import ForeignStudy, ForeignTrial, StudyError, read_studies

_SECONDS = 120.0
Stamp = tuple[str, int, int]


class StudyReader:
    """Reads a file again only when it changed. Blocking; for one thread at a time."""

    def __init__(self, read_journal: Callable[[Path], list[ForeignStudy]] | None = None) -> None:
        self._read_journal = read_journal or read_apart
        self._known: tuple[Stamp, list[ForeignStudy]] | None = None

    def read(self, file: Path) -> list[ForeignStudy]:
        """Every study in a file. Raises :class:`StudyError`."""
        stamp = _stamp(file)
        if self._known is None or self._known[0] != stamp:
            self._known = stamp, read_studies(file) if _is_sqlite(file) else self._read_journal(file)
        return self._known[1]


def read_apart(file: Path) -> list[ForeignStudy]:
    """Every study in a file, read by another process. Raises :class:`StudyError`."""
    command = [sys.executable, "-m", "gym_gui.services.sweeps.study_reader", str(file)]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL)
        told = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        raise StudyError(f"{file} was not read in {_SECONDS:.0f} s: it is too large to be shown") from None
    except (OSError, ValueError):
        raise StudyError(f"{file} cannot be read: the program that reads it ended without an answer") from None
    if "error" in told:
        raise StudyError(str(told["error"]))
    return [_study(one) for one in told["studies"]]


def _stamp(file: Path) -> Stamp:
    """What changes with the file; of SQLite's, which may keep news in a file beside it, with that as well."""
    found = []
    for one in (file, file.with_name(f"{file.name}-wal")):
        try:
            about = one.stat()
            found.append((about.st_mtime_ns, about.st_size))
        except OSError:
            found.append((0, 0))
    return str(file), sum(time for time, _ in found), sum(size for _, size in found)


def _is_sqlite(file: Path) -> bool:
    """Whether it is no journal: anything else is judged without Optuna."""
    try:
        with file.open("rb") as opened:
            return opened.read(1) != b"{"
    except OSError:
        return True


def _study(told: dict[str, Any]) -> ForeignStudy:
    trials = (
        ForeignTrial(int(one["number"]), str(one["state"]), tuple(map(float, one["values"])), dict(one["params"]))
        for one in told["trials"]
    )
    return ForeignStudy(str(told["name"]), tuple(map(str, told["directions"])), tuple(trials))


def _object(study: ForeignStudy) -> dict[str, Any]:
    return {
        "name": study.name,
        "directions": list(study.directions),
        "trials": [
            {"number": one.number, "state": one.state, "values": list(one.values), "params": one.params}
            for one in study.trials
        ],
    }


def main(arguments: list[str]) -> int:
    try:
        told: dict[str, Any] = {"studies": [_object(one) for one in read_studies(Path(arguments[0]))]}
    except StudyError as error:
        told = {"error": str(error)}
    sys.stdout.write(json.dumps(told, default=str))  # with NaN and Infinity, which Python reads again
    return 0


def value_key(study: ForeignStudy, trial: ForeignTrial) -> tuple[bool, float]:
    """By which trials of a study are listed best first, those without a value at the end."""
    sign = -1.0 if study.directions[:1] == ("minimize",) else 1.0
    value = trial.values[0] if trial.values else math.nan
    return (False, -sign * value) if math.isfinite(value) else (True, float(trial.number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
