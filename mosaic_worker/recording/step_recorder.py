"""Records the steps of a run: every step that :meth:`StepLane.append` has taken survives, once.

Steps are written into the columns of an open chunk (:mod:`mosaic_protocol.steps.open_chunk`). A chunk that is full, or
holds a step for longer than a moment, becomes one record of the journal. On a full disk the recorder waits; the steps
that it has are safe in the file of the open chunk.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import weakref
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from mosaic_protocol import events
from mosaic_protocol.full_disk import until_it_works
from mosaic_protocol.outbox import OutboxReader, OutboxWriter
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.columns import Column, StepSchema
from mosaic_protocol.steps.columns import Path as LeafPath
from mosaic_protocol.steps.open_chunk import STREAM, ChunkPlace, Layout, OpenChunk, path_of, read_left
from mosaic_worker.recording.step_fields import MOST_ACTION_BYTES, MOST_OBSERVATION_BYTES, Taker, leaves
from mosaic_worker.recording.whole_episodes import Columns, EpisodeBatch, WholeEpisode, pack

MOST_STEPS = 512
MOST_COLUMN_BYTES = 1024 * 1024
HEAP_BYTES = 64 * 1024
MOST_ENTRY_BYTES = 512 * 1024
"""What cannot stand in a column may weigh so much,"""
MOST_BESIDE_BYTES = 640 * 1024
"""and all of it in one step so much, without the final observation:"""
MOST_FINAL_BYTES = MOST_OBSERVATION_BYTES + 64 * 1024
"""whatever could be an observation can be the final one."""
MOST_HEAP_BYTES = MOST_FINAL_BYTES + MOST_BESIDE_BYTES
"""With its columns a step then fits into one record, also when nothing of it compresses."""
SEAL_SECONDS = 0.2
WAITS = "its steps wait for disk space"

_MOST_NAMES = 255
_LONGEST_NAME = 1_000
_ALWAYS_KEPT = frozenset({chunks.NAME, chunks.END})
_SPOKEN = {chunks.FINAL: "final observation", chunks.BEGIN: "what reset was given"}
_FIXED_FORMATS: tuple[Literal["q", "B", "d"], ...] = ("q", "B", "B", "B", "d", "d")
Entry: TypeAlias = tuple[str, Any]
_NO_ENTRIES: list[Entry] = []
_VALUED = bytes((chunks.HAS_VALUE,))
_NAN = math.nan
_MOST_NUMBER = 2**63
"""Seeds may have more bits; those are written as text."""


class _Hot:
    """What a step is compared with to see that it is like the one before: then it is written without a call."""

    __slots__ = (
        "action_dtype",
        "action_shape",
        "action_type",
        "action_words",
        "actions",
        "capacity",
        "chunk",
        "dtype",
        "observation_type",
        "observation_words",
        "observations",
        "shape",
    )

    def __init__(self, chunk: OpenChunk, views: Mapping[LeafPath, Any], observation: Any, action: Any) -> None:
        self.chunk, self.capacity = chunk, chunk.layout.capacity
        self.observations, self.actions = views[(chunks.OBSERVATION,)], views[(chunks.ACTION,)]
        self.observation_type: Any = type(observation)
        self.action_type: Any = type(action)
        self.dtype, self.shape = _form_of(observation)
        self.action_dtype, self.action_shape = _form_of(action)
        self.observation_words, self.action_words = _words_of(self.observations), _words_of(self.actions)


class StepRecorder:
    """The one writer of a run's steps. Thread-safe: lanes may belong to different threads.

    ``give_up`` ends the waiting for a full disk, when the run is to end. ``on_wait`` hears a sentence when such waiting
    begins and "" when it is over, in whichever thread waits; it must be quick, and record nothing.
    """

    def __init__(
        self,
        outbox: Path,
        *,
        give_up: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda sentence: None,
        seal_seconds: float = SEAL_SECONDS,
    ) -> None:
        self.dropped_parts = 0
        """Observations, actions and extras that were too large; their steps were kept without them."""
        self.unrecorded_steps = 0
        """Steps that came after the waiting for a full disk was given up."""
        self._give_up_wanted, self._on_wait = give_up, on_wait
        self._waits = False
        self._lock = threading.Lock()
        self._file = path_of(outbox, STREAM)
        self._journal = until_it_works(
            lambda: OutboxWriter(outbox, STREAM), "open the journal of steps", give_up=self._give_up
        )
        self._place = self._recovered_place()
        self._goes_on()
        self._next_episode = self._place.next_episode
        self._chunk: OpenChunk | None = None
        self._fixed: list[Any] = []
        self._observation = Taker(chunks.OBSERVATION, MOST_OBSERVATION_BYTES)
        self._action = Taker(chunks.ACTION, MOST_ACTION_BYTES)
        self._beside_columns = True
        self._hot: _Hot | None = None
        self._names: dict[str, int] = {}
        self._gave_up = self._is_cut_off = False
        self._why_closed = ""
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._seal_often, args=(seal_seconds,), name="step-recorder", daemon=True
        )
        self._thread.start()
        _recorders.add(self)

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

    @property
    def steps(self) -> int:
        """How many steps of this run were recorded so far."""
        with self._lock:
            return self._next_step

    def lane(self, agent_id: str = "", actor: str = "") -> StepLane:
        """For one agent in one environment. ``actor`` is who acts for it, unless a step says otherwise."""
        return StepLane(self, agent_id, actor)

    def flush(self) -> None:
        """Hand what is recorded to the journal now."""
        with self._lock:
            self._seal()

    def close(self) -> None:
        """Hand the rest to the journal. Appending afterwards is an error."""
        self._over.set()
        self._thread.join()
        with self._lock:
            if self._why_closed:
                return
            self._seal()
            self._why_closed = "the recorder of steps is closed"
            self._release_chunk()
            self._journal.close()
            if not self._gave_up:
                with suppress(OSError):
                    self._file.unlink()  # it is empty, and the journal tells where to go on
        if self.unrecorded_steps:
            _say(f"The last {self.unrecorded_steps} steps were not recorded: the disk is full.")

    # ---- for lanes, which hold the lock --------------------------------------------------------------------------

    def _begin_episode(self) -> int:
        number, self._next_episode = self._next_episode, self._next_episode + 1
        return number

    @property
    def _next_step(self) -> int:
        return self._place.first_step + (self._chunk.rows if self._chunk is not None else 0)

    def _row_for(self, observation: Any, action: Any, entries: list[Entry], agent: str, actor: str) -> OpenChunk | None:
        """A chunk whose next row fits the step, with the step's entries on its heap already; None when the waiting for
        a full disk was given up."""
        if self._is_cut_off:  # a step behind one that was not recorded would follow on another
            return None
        chunk = self._with_columns(observation, action)
        if self._beside_columns:
            entries = [*entries, *self._observation.leaves_beside(observation), *self._action.leaves_beside(action)]
        while chunk is not None:
            unknown = [name for name in {agent: 0, actor: 0} if name not in self._names]
            if not entries and not unknown:
                return chunk
            names = ((chunks.NAME, str(name)[:_LONGEST_NAME]) for name in unknown)
            packed, dropped = _packed(chunk.rows, [*names, *entries])
            if len(self._names) + len(unknown) <= _MOST_NAMES and chunk.add_to_heap(packed):
                for name in unknown:
                    self._names[name] = len(self._names)
                self._say_dropped(dropped)
                return chunk
            heap_bytes = max(HEAP_BYTES, len(packed), min(2 * len(packed), MOST_HEAP_BYTES))
            chunk = self._new_chunk(heap_bytes, self._observation.columns, self._action.columns)
            if chunk is not None:
                self._attach(chunk, observation, action)
        self._is_cut_off, self._hot = True, None
        return None

    def _make_room(self, lane: StepLane, observation: int, action: int, length: int) -> bool:
        """See to a chunk that takes an episode as a whole and knows who acts; False where there can be none."""
        if self._is_cut_off or lane._running:
            return False
        if self._hot is None:
            self._with_columns(observation, action)
        hot = self._hot
        if hot is None or hot.observation_words is None or hot.action_words is None or length > hot.capacity:
            return False
        knows = lane.agent_id in self._names and lane.actor in self._names
        is_full = knows or length > hot.capacity - hot.chunk.rows  # nothing else can be in the way
        if is_full and not self._seal():
            return False
        unknown = [name for name in {lane.agent_id: 0, lane.actor: 0} if name not in self._names]
        packed = b"".join(heap.packed(hot.chunk.rows, chunks.NAME, str(name)[:_LONGEST_NAME]) for name in unknown)
        if len(self._names) + len(unknown) > _MOST_NAMES or not hot.chunk.add_to_heap(packed):
            return False
        for name in unknown:
            self._names[name] = len(self._names)
        return True

    def _mark(self) -> _Mark | None:
        """What to go back to when a step cannot be written. Raises ValueError where nothing may be: in a fork the chunk
        is the parent's, also to go back in."""
        if self._why_closed:
            raise ValueError(self._why_closed)
        chunk = self._chunk
        return None if chunk is None else _Mark(chunk, chunk.place, chunk.heap_used, len(self._names))

    def _take_back(self, mark: _Mark | None) -> None:
        """Nothing of the step under way stays: its entries would go to the next one. A chunk that was begun for it is
        empty, and is begun again."""
        chunk = self._chunk
        if mark is None or chunk is not mark.chunk or chunk.place != mark.place:
            self._release_chunk()
            return
        chunk.take_back(mark.heap_used)
        while len(self._names) > mark.names:
            self._names.popitem()

    def _say_dropped(self, sentences: list[str]) -> None:
        if sentences and not self.dropped_parts:
            _say(sentences[0])
        self.dropped_parts += len(sentences)

    def _with_columns(self, observation: Any, action: Any) -> OpenChunk | None:
        chunk = self._chunk
        if chunk is not None:
            if chunk.rows >= chunk.layout.capacity and not self._seal():
                return None
            if self._observation.fits(observation) and self._action.fits(action):
                return chunk
        seen, done = self._observation.columns_of(observation), self._action.columns_of(action)
        if chunk is None or (seen, done) != (self._observation.columns, self._action.columns):
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
        self._observation.attach(views, observation)
        self._action.attach(views, action)
        self._beside_columns = not (self._observation.is_single and self._action.is_single)
        self._hot = None if self._beside_columns else _Hot(chunk, views, observation, action)

    def _new_chunk(self, heap_bytes: int, seen: tuple[Column, ...], done: tuple[Column, ...]) -> OpenChunk | None:
        """With columns for what is seen and done. None, and nothing has changed, when the waiting was given up."""
        if not self._seal():
            return None
        schema = StepSchema((*chunks.FIXED_COLUMNS, *seen, *done))
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
        self._fixed = [
            chunk.memory[offset : offset + width * capacity].cast(kind)
            for (offset, width), kind in zip(layout.columns, _FIXED_FORMATS, strict=False)
        ]
        return chunk

    def _release_chunk(self) -> None:
        if self._chunk is not None:
            for view in self._fixed:
                view.release()
            self._fixed = []
            self._hot = None
            self._names.clear()  # they stand on its heap
            self._observation.detach()
            self._action.detach()
            self._chunk.close()
            self._chunk = None

    def _seal(self) -> bool:
        """Turn the open chunk into a record. On a full disk this waits: the steps are in the file meanwhile, and stay
        there when the waiting is given up (False)."""
        chunk = self._chunk
        if self._gave_up:
            return False
        if chunk is None or not chunk.rows:
            return True
        record = chunk.seal()
        record.next_episode = self._next_episode
        self._journal.append(record)
        if not self._journal.wait_for_space(self._give_up):
            self._gave_up = True
            return False
        self._goes_on()
        self._place = ChunkPlace(self._place.seq + 1, self._place.first_step + chunk.rows, self._next_episode)
        chunk.begin_next(self._place)
        self._names.clear()
        return True

    def _seal_often(self, seconds: float) -> None:
        while not self._over.wait(seconds):
            self.flush()

    def _recovered_place(self) -> ChunkPlace:
        """Where to go on: what an earlier process of this run left in its open chunk is put into the journal first."""
        next_seq = self._journal.last_seq + 1
        try:
            left = read_left(self._file)
        except chunks.ChunkError as error:
            _say(f"What the open chunk of steps held is lost: {error}.")
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

    def _disown(self) -> None:
        """In the child of a fork: the file and the journal are the parent's."""
        self._why_closed = "this process is a fork of the one that records: record there"
        self._lock, self._hot = threading.Lock(), None


class StepLane:
    """The steps of one agent in one environment, episode after episode."""

    def __init__(self, recorder: StepRecorder, agent_id: str, actor: str) -> None:
        self.agent_id, self.actor = agent_id, actor
        self.episode = -1
        """The number of the episode that is running; -1 before the first."""
        self._recorder = recorder
        self._pending: list[Entry] = []
        self._running = self._is_plain = False
        self._seed: int | str | None = None
        self._length, self._total, self._first_step = 0, 0.0, 0
        self._undone = 0

    def begin_episode(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> int:
        """An episode begins; one that is running is recorded as abandoned. Returns its number in the run."""
        with self._recorder._lock:
            return self._begin(seed, options)

    def undo(self, steps: int, total: float) -> None:
        """The last steps of the episode are undone, an end among them as well; ``total`` is the return before them.
        What is recorded stays: the next step says how many were undone. An undo that no step follows leaves no
        trace."""
        if not 0 < steps <= self._length:
            raise ValueError(f"{steps} steps of {self._length} cannot be undone")
        self._undone += steps
        self._length -= steps
        self._total, self._running, self._is_plain = total, True, False

    def append(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: bool = False,
        truncated: bool = False,
        *,
        value: float | None = None,
        actor: str | None = None,
        extras: Mapping[str, Any] | None = None,
        final_observation: Any = None,
    ) -> None:
        """Record a step: the observation before it, the action, and what came of it. ``final_observation`` is what the
        last step of an episode led to."""
        number = reward if type(reward) is float else _as_number(reward)
        if value is not None and type(value) is not float:
            value = float(value)
        actor = self.actor if actor is None else actor
        recorder = self._recorder
        with recorder._lock:
            hot = recorder._hot
            if (  # what holds of nearly every step, without a call
                hot is not None
                and self._is_plain
                and not (terminated or truncated or extras)
                and number is not None
                and type(observation) is hot.observation_type
                and (hot.dtype is None or (observation.dtype is hot.dtype and observation.shape == hot.shape))
                and type(action) is hot.action_type
                and (
                    hot.action_dtype is None or (action.dtype is hot.action_dtype and action.shape == hot.action_shape)
                )
                and hot.chunk.rows < hot.capacity
                and self.agent_id in recorder._names
                and actor in recorder._names
            ):
                chunk = hot.chunk
                row = chunk.rows
                try:
                    hot.observations[row] = observation
                    hot.actions[row] = action
                    is_written = True
                except OverflowError:  # a whole number that no column holds
                    is_written = False
            else:
                is_written = False
            if not is_written:
                mark = recorder._mark()
                try:
                    entries = self._entries(
                        number, reward, extras, bool(terminated), bool(truncated), final_observation
                    )
                    found = recorder._row_for(observation, action, entries, self.agent_id, actor)
                    if found is None:
                        recorder.unrecorded_steps += 1
                        return
                    chunk = found
                    row = chunk.rows
                    recorder._observation.write(row, observation)
                    recorder._action.write(row, action)
                except BaseException:
                    recorder._take_back(mark)
                    raise
                self._undone = 0
                self._running = not (terminated or truncated)
            episodes, agents, actors, flags, rewards, values = recorder._fixed
            names = recorder._names
            episodes[row] = self.episode
            agents[row] = names[self.agent_id]
            actors[row] = names[actor]
            rewards[row] = _NAN if number is None else number
            flag = (chunks.TERMINATED if terminated else 0) | (chunks.TRUNCATED if truncated else 0)
            values[row] = 0.0 if value is None else value
            flags[row] = flag if value is None else flag | chunks.HAS_VALUE
            if not is_written:
                _tell_ends(chunk.ends, self.episode, entries)
            chunk.commit()
            self._length += 1
            self._total += _NAN if number is None else number
            self._pending = _NO_ENTRIES
            self._is_plain = self._running

    @property
    def next_episode(self) -> int:
        """The number that the next episode gets, unless another lane begins one sooner."""
        return self._recorder._next_episode

    def append_episodes(self, batch: EpisodeBatch) -> None:
        """Record episodes from their beginnings to their ends, and empty the batch: many times as fast as step by step.
        Each is kept as a whole or not at all, unless it is too long for a chunk or its extras are too large."""
        columns, episodes = batch.columns(), batch.episodes
        at = first = 0
        while at < len(episodes):
            written = self._append_whole(columns, episodes, at, first) if columns is not None else 0
            if not written:
                self._append_by_steps(batch, episodes[at], first)
                written = 1
            first += sum(one.length for one in episodes[at : at + written])
            at += written
        batch.clear()

    def _append_whole(self, columns: Columns, episodes: Sequence[WholeEpisode], at: int, first: int) -> int:
        """Write as many of the episodes from ``at`` on, whose steps begin at ``first``, as one chunk has room for; how
        many that were. 0: the next one cannot be written as a whole."""
        recorder = self._recorder
        with recorder._lock:
            for _ in range(3):  # it may be short of rows or names, and then of room for its extras
                mark = recorder._mark()
                try:
                    if written := self._write_group(columns, episodes, at, first):
                        return written
                except BaseException:
                    recorder._take_back(mark)
                    raise
                if not recorder._make_room(self, columns[0][first], columns[1][first], episodes[at].length):
                    return 0
        return 0

    def _write_group(self, columns: Columns, episodes: Sequence[WholeEpisode], at: int, first: int) -> int:
        recorder = self._recorder
        hot, names = recorder._hot, recorder._names
        if (
            hot is None
            or hot.observation_words is None
            or hot.action_words is None
            or self._running
            or self.agent_id not in names
            or self.actor not in names
        ):
            return 0
        chunk = hot.chunk
        row = begin = chunk.rows
        number, step = recorder._next_episode, recorder._next_step
        room = chunk.layout.heap_capacity - chunk.heap_used
        entries, flags, ended = bytearray(), bytearray(), list[events.EndedEpisode]()
        numbers = array("q")
        for episode in islice(episodes, at, None):
            length, fitting = episode.length, len(entries)
            if row + length > hot.capacity:
                break
            end = pack(entries, row, number, self.agent_id, step, episode)
            if len(entries) > room:
                del entries[fitting:]
                break
            ended.append(end)
            numbers.extend(repeat(number, length))
            flags.extend(_VALUED * (length - 1))
            flags.append(chunks.HAS_VALUE | (chunks.TERMINATED if episode.terminated else chunks.TRUNCATED))
            row, step, number = row + length, step + length, number + 1
        if not ended:
            return 0
        last, count = first + row - begin, row - begin
        chunk.add_to_heap(entries)
        recorder._next_episode, self.episode = number, number - 1
        in_episodes, agents, actors, in_flags, in_rewards, in_values = recorder._fixed
        hot.observation_words[begin:row], hot.action_words[begin:row] = columns[0][first:last], columns[1][first:last]
        in_rewards[begin:row], in_values[begin:row] = columns[2][first:last], columns[3][first:last]
        in_episodes[begin:row], in_flags[begin:row] = numbers, flags
        agents[begin:row] = bytes((names[self.agent_id],)) * count
        actors[begin:row] = bytes((names[self.actor],)) * count
        for one in ended:
            chunk.ends.end(one)
        chunk.commit(count)
        return len(ended)

    def _append_by_steps(self, batch: EpisodeBatch, episode: WholeEpisode, first: int) -> None:
        self.begin_episode(episode.seed)
        last = first + episode.length - 1
        for at in range(first, last + 1):
            is_last = at == last
            self.append(
                batch.observations[at],
                batch.actions[at],
                batch.rewards[at],
                is_last and episode.terminated,
                is_last and not episode.terminated,
                value=batch.values[at],
                extras=episode.extras if at == first else None,
                final_observation=episode.final_observation if is_last else None,
            )

    def _entries(
        self,
        number: float | None,
        reward: Any,
        extras: Mapping[str, Any] | None,
        terminated: bool,
        truncated: bool,
        final_observation: Any,
    ) -> list[Entry]:
        """What the heap holds of a step that is not like most. The lane changes when the step is written."""
        if not self._running:
            self._begin(None, None)
        if not self._length and not self._undone:
            self._first_step = self._recorder._next_step
        entries = list(self._pending)
        if number is None:
            extras = {**(extras or {}), "reward": reward}
        if self._undone:
            extras = {**(extras or {}), chunks.UNDONE: self._undone}
        if extras:
            entries.append((chunks.EXTRAS, dict(extras)))
        if terminated or truncated:
            if final_observation is not None:
                entries.append((chunks.FINAL, list(leaves((), final_observation))))
            total = self._total + (_NAN if number is None else number)
            entries.append(self._ended("terminated" if terminated else "truncated", self._length + 1, total))
        return entries

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> int:
        pending = list(self._pending)
        if self._running and self._length:
            pending.append(self._ended("abandoned", self._length, self._total))
        self.episode, self._running = self._recorder._begin_episode(), True
        self._seed = seed if seed is None or abs(seed) < _MOST_NUMBER else str(seed)
        self._length, self._total, self._undone = 0, 0.0, 0
        pending.append((chunks.BEGIN, [self.episode, self.agent_id, self._seed, dict(options or {})]))
        self._pending, self._is_plain = pending, False
        return self.episode

    def _ended(self, outcome: str, length: int, total: float) -> Entry:
        finite = total if math.isfinite(total) else None
        ended = events.EndedEpisode(self.episode, self.agent_id, length, finite, outcome, self._seed, self._first_step)
        return chunks.END, ended


@dataclass(frozen=True)
class _Mark:
    """How much of which chunk's heap, and how many names, belong to steps that were written."""

    chunk: OpenChunk
    place: ChunkPlace
    heap_used: int
    names: int


def _packed(row: int, entries: list[Entry]) -> tuple[bytes, list[str]]:
    """The entries of a step as the heap holds them, and a sentence for each that is too large."""
    found: list[bytes] = []
    dropped: list[str] = []
    left = MOST_BESIDE_BYTES
    for key, value in entries:
        entry = heap.packed(row, key, value)
        room = MOST_FINAL_BYTES if key == chunks.FINAL else min(left, MOST_ENTRY_BYTES)
        if len(entry) > room and key not in _ALWAYS_KEPT:
            name = "/".join(map(str, value[0])) if key == chunks.LEAF else _SPOKEN.get(key, key)
            size = f"{name} of {len(entry):,} bytes is too large to record"
            dropped.append(f"{size} (here at most {room:,}): left out of its step.")
            entry = _instead(row, key, value, len(entry))
        left -= 0 if key == chunks.FINAL else len(entry)
        found.append(entry)
    return b"".join(found), dropped


def _tell_ends(ends: chunks.Ends, episode: int, entries: list[Entry]) -> None:
    """What the entries of a step of an episode say of ends."""
    for key, value in entries:
        if key == chunks.END:
            ends.end(value)
        elif key == chunks.EXTRAS and chunks.undone_steps(value):
            ends.undo(episode)


def _instead(row: int, key: str, value: Any, size: int) -> bytes:
    """What stands for an entry that is too large: what readers need of it to read the other steps."""
    if key == chunks.EXTRAS:
        undone = {chunks.UNDONE: value[chunks.UNDONE]} if chunks.UNDONE in value else {}
        return heap.packed(row, key, {"dropped_bytes": size, **undone})
    if key == chunks.BEGIN:
        return heap.packed(row, key, [*value[:3], {}])
    return b""


def _words_of(column: Any) -> memoryview | None:
    """A column of whole numbers as such; None for any other."""
    if column.dtype != np.int64 or column.ndim != 1:
        return None
    return memoryview(column).cast("B").cast("q")


def _form_of(value: Any) -> tuple[Any, Any]:
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else (None, None)


def _as_number(reward: Any) -> float | None:
    """None for a reward that is not one number: it is kept among the extras."""
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        return None


def _place_after(last: events.StepChunk | None, next_seq: int) -> ChunkPlace:
    if last is None:
        return ChunkPlace(next_seq, 0, 0)
    next_episode = max(last.next_episode, last.last_episode + 1)
    return ChunkPlace(next_seq, last.first_step + last.count, next_episode)


def _say(sentence: str) -> None:
    with suppress(OSError):
        print(f"mosaic: {sentence}", file=sys.stderr, flush=True)


_recorders: weakref.WeakSet[StepRecorder] = weakref.WeakSet()


def _disown_all() -> None:
    for recorder in _recorders:
        recorder._disown()


os.register_at_fork(after_in_child=_disown_all)
