"""Fills the open chunk of a run and turns it into records: columns as the steps need them, names, space, sealing.

A chunk that is full becomes one record of the journal. On a full disk this waits; the steps that it has are safe in the
file of the open chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mosaic_protocol import events
from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.columns import GROUPED, PLAIN, Column, StepSchema
from mosaic_protocol.steps.columns import Path as LeafPath
from mosaic_protocol.steps.open_chunk import STREAM, ChunkPlace, Layout, OpenChunk, path_of, read_left
from mosaic_worker.recording.ready_rows import ReadyRows
from mosaic_worker.recording.step_entries import MOST_HEAP_BYTES, Entry, name_entry, packed, say
from mosaic_worker.recording.step_fields import MOST_ACTION_BYTES, MOST_OBSERVATION_BYTES, Taker

MOST_STEPS = 512
MOST_COLUMN_BYTES = 1024 * 1024
HEAP_BYTES = 64 * 1024
WAITS = "its steps wait for disk space"

_MOST_NAMES = 255
_FIXED_FORMATS: tuple[Literal["q", "B", "d"], ...] = ("q", "B", "B", "B", "d", "d")


@dataclass(frozen=True)
class Mark:
    """How much of which chunk's heap, and how many names, belong to steps that were written."""

    chunk: OpenChunk
    place: ChunkPlace
    heap_used: int
    names: int


class ChunkFiller:
    """The one writer of a run's steps. Who calls a method of it holds :attr:`lock` and has called
    :meth:`take_rows`."""

    def __init__(self, outbox: Path, give_up: Callable[[], bool], on_wait: Callable[[str], None]) -> None:
        self.lock = threading.Lock()
        self.dropped_parts = self.unrecorded_steps = 0
        self.names: dict[str, int] = {}
        """What the heap of the open chunk numbers agents and actors by."""
        self.fixed: list[Any] = []
        """The columns that every chunk has."""
        self.ready: ReadyRows | None = None
        """For steps of one observation and one action, each in a column."""
        self.observation = Taker(chunks.OBSERVATION, MOST_OBSERVATION_BYTES)
        self.action = Taker(chunks.ACTION, MOST_ACTION_BYTES)
        self._give_up_wanted, self._on_wait = give_up, on_wait
        self._waits = self._gave_up = self._is_cut_off = False
        self._why_closed = ""
        self._chunk: OpenChunk | None = None
        self._beside_columns = True
        self._file = path_of(outbox, STREAM)
        self._journal = until_it_works(
            lambda: OutboxWriter(outbox, STREAM), "open the journal of steps", give_up=self._give_up
        )
        self._place = self._recovered_place()
        self._goes_on()
        self.next_episode = self._place.next_episode

    def _give_up(self) -> bool:
        """Asked again and again while the disk takes nothing."""
        if not self._waits:
            self._waits = True
            self._on_wait(WAITS)
        return self._give_up_wanted()

    def _goes_on(self) -> None:
        if self._waits:
            self._waits = False
            self._on_wait("")

    def take_rows(self) -> None:
        """Nobody writes into the chunk any more but who has the lock."""
        if self.ready is not None:
            self.ready.take()

    @property
    def next_step(self) -> int:
        return self._place.first_step + (self._chunk.rows if self._chunk is not None else 0)

    def begin_episode(self) -> int:
        number, self.next_episode = self.next_episode, self.next_episode + 1
        return number

    # ---- room for steps ------------------------------------------------------------------------------------------

    def row_for(self, observation: Any, action: Any, entries: list[Entry], agent: str, actor: str) -> OpenChunk | None:
        """A chunk whose next row fits the step, with the step's entries on its heap already; None when the waiting for
        a full disk was given up."""
        if self._is_cut_off:  # a step behind one that was not recorded would follow on another
            return None
        chunk = self._with_columns(observation, action)
        if self._beside_columns:
            entries = [*entries, *self.observation.leaves_beside(observation), *self.action.leaves_beside(action)]
        while chunk is not None:
            unknown = self._unknown(agent, actor)
            if not entries and not unknown:
                return chunk
            body, dropped = packed(chunk.rows, [*map(name_entry, unknown), *entries])
            if self._may_name(unknown) and chunk.add_to_heap(body):
                self._number(unknown)
                self._say_dropped(dropped)
                return chunk
            heap_bytes = max(HEAP_BYTES, len(body), min(2 * len(body), MOST_HEAP_BYTES))
            chunk = self._new_chunk(heap_bytes, self.observation.columns, self.action.columns)
            if chunk is not None:
                self._attach(chunk, observation, action)
        self._is_cut_off, self.ready = True, None
        return None

    def rows_for_whole(self, agent: str, actor: str) -> ReadyRows | None:
        """The open chunk, when it takes whole episodes of this agent as it is."""
        ready, names = self.ready, self.names
        if ready is None or ready.observation_words is None or ready.action_words is None:
            return None
        is_grouped = ready.chunk.layout.schema.v >= GROUPED
        return ready if is_grouped and agent in names and actor in names else None

    def make_room(self, agent: str, actor: str, observation: int, action: int, length: int) -> bool:
        """See to a chunk that takes an episode as a whole and knows who acts; False where there can be none."""
        if self._is_cut_off:
            return False
        if self.rows_for_whole(agent, actor) is not None and not self.seal():  # it is full, by rows or by its heap
            return False
        if not self._has_groups(observation, action):
            return False
        ready, unknown = self.ready, self._unknown(agent, actor)
        if ready is None or ready.observation_words is None or ready.action_words is None or length > ready.capacity:
            return False
        body = b"".join(heap.packed(ready.chunk.rows, *name_entry(name)) for name in unknown)
        if not self._may_name(unknown) or not ready.chunk.add_to_heap(body):
            return False
        self._number(unknown)
        return True

    def _has_groups(self, observation: int, action: int) -> bool:
        """Have a chunk with columns for these, of the version that knows groups of episodes."""
        chunk = self._with_columns(observation, action)
        if chunk is not None and chunk.layout.schema.v < GROUPED:
            chunk = self._new_chunk(HEAP_BYTES, self.observation.columns, self.action.columns, GROUPED)
            if chunk is not None:
                self._attach(chunk, observation, action)
        return chunk is not None

    def _unknown(self, agent: str, actor: str) -> list[str]:
        return [name for name in {agent: 0, actor: 0} if name not in self.names]

    def _may_name(self, unknown: list[str]) -> bool:
        return len(self.names) + len(unknown) <= _MOST_NAMES

    def _number(self, unknown: Iterable[str]) -> None:
        for name in unknown:
            self.names[name] = len(self.names)

    def mark(self) -> Mark | None:
        """What to go back to when a step cannot be written. Raises ValueError where nothing may be: in a fork the chunk
        is the parent's, also to go back in."""
        if self._why_closed:
            raise ValueError(self._why_closed)
        chunk = self._chunk
        return None if chunk is None else Mark(chunk, chunk.place, chunk.heap_used, len(self.names))

    def take_back(self, mark: Mark | None) -> None:
        """Nothing of the step under way stays: its entries would go to the next one. A chunk that was begun for it is
        empty, and is begun again."""
        chunk = self._chunk
        if mark is None or chunk is not mark.chunk or chunk.place != mark.place:
            self._release_chunk()
            return
        chunk.take_back(mark.heap_used)
        while len(self.names) > mark.names:
            self.names.popitem()

    def _say_dropped(self, sentences: list[str]) -> None:
        if sentences and not self.dropped_parts:
            say(sentences[0])
        self.dropped_parts += len(sentences)

    # ---- chunks --------------------------------------------------------------------------------------------------

    def _with_columns(self, observation: Any, action: Any) -> OpenChunk | None:
        chunk = self._chunk
        if chunk is not None:
            if chunk.rows >= chunk.layout.capacity and not self.seal():
                return None
            if self.observation.fits(observation) and self.action.fits(action):
                return chunk
        seen, done = self.observation.columns_of(observation), self.action.columns_of(action)
        if chunk is None or (seen, done) != (self.observation.columns, self.action.columns):
            chunk = self._new_chunk(HEAP_BYTES, seen, done)
        elif self._beside_columns:  # of several parts, which are looked at one by one: the views of the last step do
            return chunk
        if chunk is not None:
            self._attach(chunk, observation, action)
        return chunk

    def _attach(self, chunk: OpenChunk, observation: Any, action: Any) -> None:
        views: dict[LeafPath, Any] = {}
        for column, (offset, width) in zip(chunk.layout.schema.columns, chunk.layout.columns, strict=True):
            raw = chunk.memory[offset : offset + width * chunk.layout.capacity]
            array = np.frombuffer(raw, np.dtype(f"<{column.dtype}"))
            views[column.path] = array.reshape((chunk.layout.capacity, *column.shape))
        self.observation.attach(views, observation)
        self.action.attach(views, action)
        self._beside_columns = not (self.observation.is_single and self.action.is_single)
        self.ready = None if self._beside_columns else ReadyRows(chunk, self.fixed, views, observation, action)

    def _new_chunk(
        self, heap_bytes: int, seen: tuple[Column, ...], done: tuple[Column, ...], version: int = PLAIN
    ) -> OpenChunk | None:
        """With columns for what is seen and done. None, and nothing has changed, when the waiting was given up."""
        if not self.seal():
            return None
        schema = StepSchema((*chunks.FIXED_COLUMNS, *seen, *done), version)
        capacity = max(1, min(MOST_STEPS, MOST_COLUMN_BYTES // schema.width))
        layout = Layout(schema, capacity, heap_bytes)
        self._release_chunk()
        try:
            chunk = until_it_works(
                lambda: OpenChunk(self._file, layout, self._place), "reserve space for steps", give_up=self._give_up
            )
        except OSError:
            if not self._give_up_wanted():
                raise
            self._gave_up = True
            return None
        self._goes_on()
        self._chunk = chunk
        self.fixed = [
            chunk.memory[offset : offset + width * capacity].cast(kind)
            for (offset, width), kind in zip(layout.columns, _FIXED_FORMATS, strict=False)
        ]
        return chunk

    def _release_chunk(self) -> None:
        if self._chunk is not None:
            for view in self.fixed:
                view.release()
            self.fixed = []
            self.ready = None
            self.names.clear()  # they stand on its heap
            self.observation.detach()
            self.action.detach()
            self._chunk.close()
            self._chunk = None

    def seal(self) -> bool:
        """Turn the open chunk into a record. On a full disk this waits: the steps are in the file meanwhile, and stay
        there when the waiting is given up (False)."""
        chunk = self._chunk
        if self._gave_up:
            return False
        if chunk is None or not chunk.rows:
            return True
        record = chunk.seal()
        record.next_episode = self.next_episode
        self._journal.append(record)
        if not self._journal.wait_for_space(self._give_up):
            self._gave_up = True
            return False
        self._goes_on()
        self._place = ChunkPlace(self._place.seq + 1, self._place.first_step + chunk.rows, self.next_episode)
        chunk.begin_next(self._place)
        self.names.clear()
        return True

    # ---- the beginning and the end -------------------------------------------------------------------------------

    def close(self) -> bool:
        """Seal the rest; nothing can be written afterwards. False when it was closed before."""
        if self._why_closed:
            return False
        self.seal()
        self._why_closed = "the recorder of steps is closed"
        self._release_chunk()
        self._journal.close()
        if not self._gave_up:
            with suppress(OSError):
                self._file.unlink()  # it is empty, and the journal tells where to go on
        return True

    def disown(self) -> None:
        """In the child of a fork: the file and the journal are the parent's."""
        self._why_closed = "this process is a fork of the one that records: record there"
        self.lock, self.ready = threading.Lock(), None

    def _recovered_place(self) -> ChunkPlace:
        """Where to go on: what an earlier process of this run left in its open chunk is put into the journal first."""
        next_seq = self._journal.last_seq + 1
        try:
            left = read_left(self._file)
        except chunks.ChunkError as error:
            say(f"What the open chunk of steps held is lost: {error}.")
            left = None
        if left is None:
            return _place_after(self._last_chunk(), next_seq)
        if left.record is not None and left.place.seq == next_seq:
            self._journal.append(left.record)
            self._journal.wait_for_space(self._give_up)
            next_seq += 1
        after = left.after
        return ChunkPlace(next_seq, after.first_step, after.next_episode)

    def _last_chunk(self) -> events.StepChunk | None:
        if not self._journal.last_seq:
            return None
        reader = OutboxReader(self._journal.directory, STREAM, after_seq=self._journal.last_seq - 1)
        try:
            lines = reader.read(1)
        finally:
            reader.close()
        record = events.decode(lines[0]) if lines else None
        return record if isinstance(record, events.StepChunk) else None


def _place_after(last: events.StepChunk | None, next_seq: int) -> ChunkPlace:
    if last is None:
        return ChunkPlace(next_seq, 0, 0)
    next_episode = max(last.next_episode, last.last_episode + 1)
    return ChunkPlace(next_seq, last.first_step + last.count, next_episode)
