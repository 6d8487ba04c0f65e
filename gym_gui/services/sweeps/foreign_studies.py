"""Studies that somebody else wrote with Optuna, read and never written: SQLite files and journals.

SQLite is read with plain SQL on a read-only connection: Optuna's own storage creates tables and asks for a lock. The
journal is read by Optuna from a backend that cannot write.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SCHEMA = 12
"""Of the tables that Optuna 2.4 to 5 write; others may mean something else by the same names."""
MOST_BYTES = 4 * 2**30
_SQLITE = b"SQLite format 3\0"


class StudyError(Exception):
    """A study that cannot be read; ``str()`` is a sentence for a person."""


@dataclass(frozen=True)
class ForeignTrial:
    number: int
    state: str
    values: tuple[float, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignStudy:
    name: str
    directions: tuple[str, ...]
    trials: tuple[ForeignTrial, ...]

    def ranked(self) -> list[ForeignTrial]:
        """Trials with a value, best first by the first objective."""
        sign = -1.0 if self.directions[:1] == ("minimize",) else 1.0
        done = [one for one in self.trials if one.state == "complete" and one.values and math.isfinite(one.values[0])]
        return sorted(done, key=lambda one: (-sign * one.values[0], one.number))


def read_studies(file: Path) -> list[ForeignStudy]:
    """Every study in a file. Raises :class:`StudyError`."""
    try:
        if not file.is_file():
            is_there = file.exists()
            raise StudyError(f"{file} is no regular file" if is_there else f"there is no file {file}")
        size = file.stat().st_size
        with file.open("rb") as opened:
            head = opened.read(len(_SQLITE))
    except OSError as error:
        raise StudyError(f"{file} cannot be read: {error.strerror}") from error
    if size > MOST_BYTES:
        raise StudyError(f"{file} is larger than {MOST_BYTES // 2**30} GB: no study is read that large")
    if head == _SQLITE:
        return _from_sqlite(file)
    if head[:1] == b"{":
        return _from_journal(file)
    raise StudyError(f"{file} is no study: Optuna keeps them in SQLite files and in journals of JSON lines")


# ---- SQLite ------------------------------------------------------------------------------------------------------


def _from_sqlite(file: Path) -> list[ForeignStudy]:
    quoted = str(file.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with closing(sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=2.0)) as connection:
            _require_schema(connection, file)
            return [
                _sqlite_study(connection, *row) for row in _rows(connection, "SELECT study_id, study_name FROM studies")
            ]
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise StudyError(f"{file} is locked: another program is writing to it; try again later") from error
        raise StudyError(f"{file} cannot be read as a study of Optuna's: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StudyError(f"{file} holds a study that makes no sense ({type(error).__name__}: {error})") from error


def _rows(connection: sqlite3.Connection, sql: str, *values: object) -> Iterator[Any]:
    return iter(connection.execute(sql, values).fetchall())


def _require_schema(connection: sqlite3.Connection, file: Path) -> None:
    tables = {name for (name,) in _rows(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"studies", "trials", "version_info"} <= tables:
        raise StudyError(f"{file} is a database, but holds no study of Optuna's")
    version = next(_rows(connection, "SELECT schema_version, library_version FROM version_info"), None)
    if version is None or version[0] != _SCHEMA:
        by = f", written by Optuna {version[1]}" if version else ""
        raise StudyError(
            f"{file} has the schema {version[0] if version else 'of no version'}{by}; this version reads schema "
            f"{_SCHEMA}: convert it with `optuna storage upgrade`, or read it with the Optuna that wrote it"
        )


def _sqlite_study(connection: sqlite3.Connection, study_id: int, name: str) -> ForeignStudy:
    directions = tuple(
        str(one).lower()
        for (one,) in _rows(
            connection, "SELECT direction FROM study_directions WHERE study_id = ? ORDER BY objective", study_id
        )
    )
    of_study = "trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?)"
    params: dict[int, dict[str, Any]] = {}
    sql = f"SELECT trial_id, param_name, param_value, distribution_json FROM trial_params WHERE {of_study}"
    for trial_id, param, value, distribution in _rows(connection, sql, study_id):
        params.setdefault(trial_id, {})[param] = _param(value, json.loads(distribution))
    values: dict[int, list[float]] = {}
    sql = f"SELECT trial_id, value, value_type FROM trial_values WHERE {of_study} ORDER BY objective"
    for trial_id, value, kind in _rows(connection, sql, study_id):
        infinite = {"INF_POS": math.inf, "INF_NEG": -math.inf}
        values.setdefault(trial_id, []).append(infinite.get(kind, value))
    sql = "SELECT trial_id, number, state FROM trials WHERE study_id = ? ORDER BY number"
    trials = tuple(
        ForeignTrial(number, str(state).lower(), tuple(values.get(key, ())), params.get(key, {}))
        for key, number, state in _rows(connection, sql, study_id)
    )
    return ForeignStudy(name, directions, trials)


def _param(value: float, distribution: dict[str, Any]) -> Any:
    """What the number in the table stands for: one of some choices, a whole number, or itself."""
    kind, about = str(distribution["name"]), distribution["attributes"]
    if kind == "CategoricalDistribution":
        return about["choices"][int(value)]
    return int(value) if kind.startswith("Int") else value


# ---- journals ----------------------------------------------------------------------------------------------------


def _from_journal(file: Path) -> list[ForeignStudy]:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import BaseJournalBackend

    class ReadOnly(BaseJournalBackend):
        def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
            with file.open("rb") as lines:
                for number, line in enumerate(lines):
                    if number >= log_number_from and line.endswith(b"\n"):  # half a line is still being written
                        yield json.loads(line)

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            raise StudyError(f"{file} is only read here")

    try:
        storage = JournalStorage(ReadOnly())
        return [
            ForeignStudy(
                study.study_name,
                tuple(one.name.lower() for one in study.directions),
                tuple(
                    ForeignTrial(one.number, one.state.name.lower(), tuple(one.values or ()), dict(one.params))
                    for one in storage.get_all_trials(study._study_id, deepcopy=False)
                ),
            )
            for study in storage.get_all_studies()
        ]
    except OSError as error:
        raise StudyError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise StudyError(
            f"{file} cannot be read as a journal of Optuna {optuna.__version__}: it is damaged, or of another version "
            f"({type(error).__name__})"
        ) from error
