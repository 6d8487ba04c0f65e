"""The list of runs as a table for spreadsheets: the columns and the lines that are shown, in their order."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime

from gym_gui.ui.models.run_rows import RunRow
from gym_gui.ui.models.run_table import RunTable

_WORDS = frozenset({"status", "queue", "reserved", "eta"})
"""Columns that are sorted by something that says nothing to others."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def run_csv(table: RunTable, columns: Sequence[str]) -> str:
    """Numbers as they are and not as the screen rounds them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run_id", *map(table.title, columns)])
    for position in range(len(table.order)):
        row = table.order.row(position)
        if row is not None:
            writer.writerow([row.run_id, *(_cell(table, row, name) for name in columns)])
    return text.getvalue()


def _cell(table: RunTable, row: RunRow, name: str) -> str | int | float:
    number = table.number_of(name)
    if name == "created":
        return datetime.fromtimestamp(row.run.created_at, UTC).isoformat(timespec="seconds")
    value = table.columns[number].key(row)
    if name not in _WORDS and isinstance(value, int | float):
        return value
    shown = table.cell(row, number)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown  # a spreadsheet would carry it out
