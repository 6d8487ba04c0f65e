"""Recorded steps as a Parquet file, where pyarrow is installed. Needs no Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mosaic_protocol.events import TrainingStep
from mosaic_protocol.whole_files import drafted

if TYPE_CHECKING:
    import pyarrow as pa

INSTALL = "python -m mosaic_worker.extras --set parquet"
_ROWS_AT_ONCE = 20_000
_PLAIN = ("step", "episode", "agent_id", "actor", "reward", "terminated", "truncated", "value", "t")
_FORMED = ("observation", "action")
_AS_TEXT = ("final_observation", "info")


class StepTableError(Exception):
    """The table cannot be written; the message is a sentence for a person."""


def write_parquet(steps: Iterable[TrainingStep], file: Path) -> int:
    """Write steps as they come, in bounded memory; how many they were. Raises :class:`StepTableError` and OSError, and
    there is no file then.

    Observations and actions that are numbers, or lists of them, become such columns; all else is JSON in a text column.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        sentence = f"Parquet needs pyarrow, which is not installed here: `{INSTALL}` installs it"
        raise StepTableError(sentence) from error

    rest = iter(steps)
    batch = list(islice(rest, _ROWS_AT_ONCE))
    as_text = [*_AS_TEXT, *(name for name in _FORMED if not all(_has_form(getattr(step, name)) for step in batch))]
    schema, count = None, 0
    with drafted(file) as draft:
        writer = None
        try:
            while batch:
                table = _table(pa, batch, as_text, schema)
                if writer is None:
                    schema = table.schema
                    writer = pq.ParquetWriter(draft, schema, compression="zstd")
                writer.write_table(table)
                count += len(batch)
                batch = list(islice(rest, _ROWS_AT_ONCE))
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise StepTableError("there are no steps to write")
    return count


def _table(pa: Any, steps: Sequence[TrainingStep], as_text: Sequence[str], schema: pa.Schema | None) -> pa.Table:
    columns: Mapping[str, list[Any]] = {
        name: [_cell(getattr(step, name), text=name in as_text) for step in steps]
        for name in (*_PLAIN, *_FORMED, *_AS_TEXT)
    }
    try:
        return pa.table(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        places = f"steps {steps[0].step} to {steps[-1].step}"
        sentence = f"observations or actions change their form among {places}, which a table cannot hold"
        raise StepTableError(f"{sentence}: --json takes them as they are") from error


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
