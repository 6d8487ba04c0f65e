"""Rows of an open chunk that wait for steps which are like the one before: nearly every step is.

What such steps have in common (episode, agent, actor, no flags, no value) stands in the next rows before they come, so
a step writes its observation, action and reward, and counts. The lane that the rows are prepared for, their *holder*,
does that without the lock of the filler. Who has the lock and wants to do anything else takes the rows away first, with
:meth:`ReadyRows.take`: the holder sees that it is the holder no longer, or is waited for while it writes. Each side
says what it does before it looks at the other, and the interpreter executes one instruction after the other, so one of
them sees the other.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps.columns import Path as LeafPath
from mosaic_protocol.steps.open_chunk import OpenChunk

_MOST_AT_ONCE = 512
_NO_FLAGS = bytes(_MOST_AT_ONCE)
_NO_VALUES = memoryview(array("d", bytes(8 * _MOST_AT_ONCE)))
_SMALL_BYTES = 256
"""An observation of so many bytes is faster to write as numbers of a row than as a row of an array."""


class Holder(Protocol):
    """A lane."""

    is_writing: bool


class ReadyRows:
    """Made with the columns of a chunk, and ends with them."""

    __slots__ = (
        "_action_form",
        "_before",
        "_observation_form",
        "action_type",
        "action_words",
        "actions",
        "capacity",
        "chunk",
        "columns",
        "count",
        "end",
        "flags",
        "holder",
        "observation_type",
        "observation_words",
        "observations",
        "rewards",
        "slices",
        "values",
    )

    def __init__(
        self, chunk: OpenChunk, columns: Sequence[Any], views: Mapping[LeafPath, Any], observation: Any, action: Any
    ) -> None:
        """``columns`` are the fixed ones, ``views`` all by their paths; observation and action are as steps will have
        them."""
        self.chunk, self.capacity, self.columns, self.count = chunk, chunk.layout.capacity, columns, chunk.count
        _, _, _, self.flags, self.rewards, self.values = columns
        self.observations, self.actions = views[(chunks.OBSERVATION,)], views[(chunks.ACTION,)]
        self.observation_type: Any = type(observation)
        self.action_type: Any = type(action)
        self._observation_form, self._action_form = _form_of(observation), _form_of(action)
        self.observation_words, self.action_words = _words_of(self.observations), _words_of(self.actions)
        self.slices: list[slice] | None = None
        """Where each row of a small observation is: numbers of another kind or count are then refused in writing."""
        if self._action_form is None and (flat := _numbers_of(self.observations, observation)) is not None:
            self.observations, width = flat, observation.size
            self.slices = [slice(row * width, (row + 1) * width) for row in range(self.capacity)]
            if self.action_type is int and self.action_words is not None:
                self.actions = self.action_words  # a plain number gets there in half the time
        self.holder: Holder | None = None
        """The lane that the rows up to :attr:`end` are prepared for. Changed by who has the lock."""
        self._before: Holder | None = None
        self.end = 0

    def write(self, row: int, observation: Any, action: Any) -> None:
        """Put them into their columns. Raises ValueError where they do not have the form of those before,
        OverflowError where a number has too many bits."""
        if (self._observation_form is not None and _form_of(observation) != self._observation_form) or (
            self._action_form is not None and _form_of(action) != self._action_form
        ):
            raise ValueError("another form")
        self.observations[row] = observation
        self.actions[row] = action

    def prepare(self, holder: Holder, episode: int, agent: int, actor: int) -> None:
        """The next rows for steps of one lane: of one that goes on alone many, else one."""
        row = self.chunk.rows
        rows = min(_MOST_AT_ONCE, self.capacity - row) if self._before is holder else 1
        episodes, agents, actors, flags, _, values = self.columns
        if rows == 1:
            episodes[row], agents[row], actors[row], flags[row], values[row] = episode, agent, actor, 0, 0.0
        else:
            end = row + rows
            episodes[row:end] = array("q", (episode,)) * rows
            agents[row:end], actors[row:end] = bytes((agent,)) * rows, bytes((actor,)) * rows
            flags[row:end], values[row:end] = _NO_FLAGS[:rows], _NO_VALUES[:rows]
        self.end = row + rows
        self.holder = self._before = holder

    def take(self) -> None:
        """They are nobody's from now on; what is being written is written first."""
        holder, self.holder = self.holder, None
        while holder is not None and holder.is_writing:
            time.sleep(0)


def _words_of(column: Any) -> memoryview | None:
    """A column of whole numbers as such; None for any other."""
    if column.dtype != np.int64 or column.ndim != 1:
        return None
    return memoryview(column).cast("B").cast("q")


def _numbers_of(column: Any, value: Any) -> memoryview | None:
    """A column of small arrays of one dimension as one row of numbers; None for any other."""
    if not isinstance(value, np.ndarray) or value.ndim != 1 or not 0 < value.nbytes <= _SMALL_BYTES:
        return None
    kind = value.dtype.char
    if not value.dtype.isnative or kind not in "?bBhHiIfd":
        return None
    return memoryview(column.reshape(-1)).cast("B").cast(kind)


def _form_of(value: Any) -> tuple[Any, Any] | None:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else None
