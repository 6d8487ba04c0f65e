"""Which runs a listing shows, as SQL on the run index. What no column tells is left to the caller."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gym_gui.services.run_filter import (
    CLOSE,
    EVERYTHING,
    WORD_FIELDS,
    Kind,
    Operand,
    RunFilter,
    Term,
    escaped_glob,
    folded,
)
from gym_gui.services.run_words import PLAY, PLAYING, TRAINING
from mosaic_protocol.states import RunState

_ACTIVITY = f"CASE WHEN state <> '{RunState.EXEC}' THEN '' WHEN algo = '{PLAY}' THEN '{PLAYING}' ELSE '{TRAINING}' END"
"""What :func:`gym_gui.services.run_words.activity` says."""

_COLUMNS: dict[str, tuple[str, ...]] = {
    "name": ("name",),
    "id": ("run_id",),
    "algo": ("algo",),
    "env": ("env_id",),
    "worker": ("worker_type",),
    "seed": ("seed",),
    "group": ("run_group",),
    "sweep": ("sweep",),
    "dataset": ("dataset",),
    "parent": ("parent",),
    "state": ("state", "outcome", _ACTIVITY),
    "outcome": ("outcome",),
    "age": ("(? - created_at)",),
}
"""The SQL of each field that the index knows; ``?`` stands for the time now. Tags are a list, see :func:`_tags`."""

_Condition = tuple[str, list[object]]


@dataclass(frozen=True)
class Query:
    """Which runs a listing shows."""

    states: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    search: str = ""
    include_deleted: bool = False
    filter: RunFilter = EVERYTHING

    def where(self) -> _Condition:
        """The condition on ``run_index``, without those terms that are :attr:`left`."""
        clauses, values = ["1"], list[object]()
        for column, wanted in (("state", self.states), ("outcome", self.outcomes)):
            if wanted:
                clauses.append(f"{column} IN ({','.join('?' * len(wanted))})")
                values += wanted
        if not self.include_deleted:
            clauses.append("deleted = 0")
        if self.search:
            columns = [column for field in WORD_FIELDS for column in _COLUMNS[field]]
            wanted = folded(self.search)
            clauses.append("(" + " OR ".join(f"instr({_low(column, wanted)}, ?)" for column in columns) + ")")
            values += [wanted] * len(columns)
        for term in self.filter.terms:
            if _is_indexed(term):
                clause, more = _condition(term)
                clauses.append(clause)
                values += more
        return " AND ".join(clauses), values

    @property
    def left(self) -> RunFilter:
        """What SQL does not decide: settings, and numbers that change while a run trains."""
        return RunFilter(self.filter.text, tuple(term for term in self.filter.terms if not _is_indexed(term)))


def _is_indexed(term: Term) -> bool:
    return not term.is_setting and (not term.field or term.field == "tag" or term.field in _COLUMNS)


def _condition(term: Term) -> _Condition:
    """Never NULL, so that it can be negated."""
    if term.field == "tag":
        conditions = [_tags(term.operator, operand) for operand in term.operands]
    else:
        fields = [term.field] if term.field else WORD_FIELDS
        columns = [column for field in fields for column in _COLUMNS[field]]
        conditions = [_any_column(columns, term, operand) for operand in term.operands]
    clause = f"coalesce({' OR '.join(clause for clause, _ in conditions)}, 0)"
    values = [value for _, values in conditions for value in values]
    return (f"NOT {clause}" if term.operator == "!=" else clause), values


def _any_column(columns: Sequence[str], term: Term, operand: Operand) -> _Condition:
    clauses, values = [], list[object]()
    for column in columns:
        clause, more = _compared(column, term, operand)
        clauses.append(clause)
        values += [time.time()] * column.count("?") + more
    return f"({' OR '.join(clauses)})", values


def _compared(column: str, term: Term, operand: Operand) -> _Condition:
    if term.kind in (Kind.NUMBER, Kind.SECONDS):
        return _number(column, term.operator, operand)
    return _text(column, term.operator, operand)


def _number(column: str, sign: str, operand: Operand) -> _Condition:
    if operand.number is None:  # `seed=""`
        return f"{column} IS NULL", []
    if operand.upto is not None:
        return f"{column} BETWEEN ? AND ?", [operand.number, operand.upto]
    if sign in ("=", "!=") and isinstance(operand.number, float):
        return f"abs({column} - ?) <= ?", [operand.number, CLOSE * abs(operand.number)]
    return f"{column} {'=' if sign == '!=' else sign} ?", [operand.number]


def _text(column: str, sign: str, operand: Operand) -> _Condition:
    low = _low(column, operand.text)
    if sign == "~":
        return f"instr({low}, ?) > 0", [operand.text]
    if operand.is_glob:
        return f"({column} <> '' AND {low} GLOB ?)", [escaped_glob(operand.text)]
    return f"{low} = ?", [operand.text]


def _low(column: str, wanted: str) -> str:
    """A column to be compared with a folded text; see :func:`gym_gui.services.run_filter.folded`."""
    return f"{'lower' if wanted.isascii() else 'folded'}({column})"


def _tags(sign: str, operand: Operand) -> _Condition:
    if not operand.text:
        return "tags = '[]'", []
    clause, values = _text("value", sign, operand)
    return f"EXISTS (SELECT 1 FROM json_each(tags) WHERE {clause})", values
