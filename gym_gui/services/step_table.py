"""Recorded steps as a Parquet file, where pyarrow is installed. Needs no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from gym_gui.services.parquet_file import ParquetFile, TableError, parquet_file
from mosaic_protocol.events import TrainingStep

_ROWS_AT_ONCE = 20_000
_PLAIN = ("step", "episode", "agent_id", "actor", "reward", "terminated", "truncated", "value", "t")
_FORMED = ("observation", "action")
_AS_TEXT = ("final_observation", "info")


def write_parquet(steps: Iterable[TrainingStep], file: Path) -> int:
    """Write steps as they come, in bounded memory; how many they were. Raises :class:`TableError`, and there is no file
    then.

    Observations and actions that are numbers, or lists of them, become such columns; all else is JSON in a text column.
    """
    rest = iter(steps)
    with parquet_file(file, of_what="steps") as made:
        batch = list(islice(rest, _ROWS_AT_ONCE))
        as_text = [*_AS_TEXT, *(name for name in _FORMED if not all(_has_form(getattr(step, name)) for step in batch))]
        while batch:
            _add(made, batch, as_text)
            batch = list(islice(rest, _ROWS_AT_ONCE))
    return made.rows


def _add(made: ParquetFile, steps: Sequence[TrainingStep], as_text: Sequence[str]) -> None:
    columns = {
        name: [_cell(getattr(step, name), text=name in as_text) for step in steps]
        for name in (*_PLAIN, *_FORMED, *_AS_TEXT)
    }
    try:
        made.add(columns)
    except (made.pa.ArrowInvalid, made.pa.ArrowTypeError, OverflowError) as error:
        places = f"steps {steps[0].step} to {steps[-1].step}"
        sentence = f"observations or actions change their form among {places}, which a table cannot hold"
        raise TableError(f"{sentence}: --json takes them as they are") from error


def _cell(value: Any, *, text: bool) -> Any:
    if text:
        return None if value is None else msgspec.json.encode(value, enc_hook=_plain).decode()
    return value.tolist() if hasattr(value, "tolist") else value


def _has_form(value: Any) -> bool:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        return all(_has_form(item) for item in value)
    return value is None or isinstance(value, bool | int | float)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
