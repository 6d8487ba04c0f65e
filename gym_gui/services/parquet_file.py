"""Parquet files, where pyarrow is installed: written in parts and in bounded memory, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mosaic_protocol.whole_files import drafted

INSTALL = "python -m mosaic_worker.extras --set parquet"


class TableError(Exception):
    """The table cannot be written; the message is a sentence for a person."""


class ParquetFile:
    """A file in the making; :attr:`schema` is that of its first part, which all others have to have."""

    def __init__(self, draft: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.pa, self._pq, self._draft = pa, pq, draft
        self.schema: Any = None
        self.rows = 0
        self._writer: Any = None

    def add(self, columns: Mapping[str, Any]) -> None:
        """Append a part. Raises what pyarrow raises for columns that are no table, or not one like the first."""
        table = self.pa.table(columns, schema=self.schema)
        if self._writer is None:
            self.schema = table.schema
            self._writer = self._pq.ParquetWriter(self._draft, self.schema, compression="zstd")
        self._writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@contextmanager
def parquet_file(file: Path, *, of_what: str) -> Iterator[ParquetFile]:
    """A file that takes its place at the end, unless something is raised or there was nothing to write. Raises
    :class:`TableError`, and there is no file then."""
    try:
        with drafted(file) as draft:
            made = ParquetFile(draft)
            try:
                yield made
            finally:
                made.close()
            if not made.rows:
                raise TableError(f"there are no {of_what} to write")
    except ImportError as error:
        sentence = f"Parquet needs pyarrow, which is not installed here: `{INSTALL}` installs it"
        raise TableError(sentence) from error
    except OSError as error:
        raise TableError(f"{file} cannot be written: {error.strerror or error}") from error
