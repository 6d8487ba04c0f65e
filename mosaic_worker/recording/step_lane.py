"""The steps of one agent in one environment, episode after episode, as a worker hands them over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

from mosaic_protocol import events
from mosaic_protocol.steps import chunk as chunks
from mosaic_worker.recording.chunk_filler import ChunkFiller
from mosaic_worker.recording.step_entries import Entry, note_ends, written_seed
from mosaic_worker.recording.step_fields import leaves
from mosaic_worker.recording.whole_episodes import EpisodeBatch, GroupWriter

_NAN = math.nan
_Step: TypeAlias = tuple[Any, Any, Any, float | None, bool, bool, float | None]
"""Observation, action, reward as it came and as a number, terminated, truncated, value."""
_NO_ENTRIES: list[Entry] = []


class StepLane:
    """Made by :meth:`~mosaic_worker.recording.step_recorder.StepRecorder.lane`. Belongs to one thread at a time."""

    def __init__(self, filler: ChunkFiller, agent_id: str, actor: str) -> None:
        self.agent_id, self.actor = agent_id, actor
        self.episode = -1
        """The number of the episode that is running; -1 before the first."""
        self.is_writing = False
        """Whether a step is being written into a prepared row, which happens without the lock."""
        self._filler = filler
        self._pending: list[Entry] = []
        self._running = self._is_plain = False
        self._seed: int | str | None = None
        self._length, self._total, self._first_step = 0, 0.0, 0
        self._undone = 0

    def begin_episode(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> int:
        """An episode begins; one that is running is recorded as abandoned. Returns its number in the run."""
        with self._filler.lock:
            self._filler.take_rows()
            return self._begin(seed, options)

    def undo(self, steps: int, total: float) -> None:
        """The last steps of the episode are undone, an end among them as well; ``total`` is the return before them.
        What is recorded stays: the next step says how many were undone. An undo that no step follows leaves no
        trace."""
        if not 0 < steps <= self._length:
            raise ValueError(f"{steps} steps of {self._length} cannot be undone")
        with self._filler.lock:
            self._filler.take_rows()
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
        ready = self._filler.ready
        if (
            ready is not None
            and number is not None
            and actor is None
            and not (terminated or truncated or extras)
            and type(observation) is ready.observation_type
            and type(action) is ready.action_type
        ):
            try:  # nearly every step: into a row that is prepared for it, without the lock and without a call
                self.is_writing = True  # who takes the rows away waits for that
                if ready.holder is self and (row := (chunk := ready.chunk).rows) < ready.end:
                    if (slices := ready.slices) is None:
                        ready.write(row, observation, action)
                    else:
                        ready.observations[slices[row]] = observation
                        ready.actions[row] = action
                    ready.rewards[row] = number
                    if value is not None:
                        ready.values[row], ready.flags[row] = value, chunks.HAS_VALUE
                    chunk.rows = row = row + 1
                    ready.count[0] = row | chunk.turn
                    self._length += 1
                    self._total += number
                    return
            except (OverflowError, TypeError, ValueError):  # another form, or a number that no column holds
                pass
            finally:
                self.is_writing = False
        step = (observation, action, reward, number, bool(terminated), bool(truncated), value)
        with self._filler.lock:
            self._filler.take_rows()
            self._append(step, self.actor if actor is None else actor, extras, final_observation)
            self._hold()

    def _hold(self) -> None:
        """Have the next rows prepared for steps of this lane, if they may be like the one before."""
        ready, names = self._filler.ready, self._filler.names
        if ready is not None and self._is_plain and self.actor in names and ready.chunk.rows < ready.capacity:
            ready.prepare(self, self.episode, names[self.agent_id], names[self.actor])

    def _append(self, step: _Step, actor: str, extras: Mapping[str, Any] | None, final_observation: Any) -> None:
        """Record any step."""
        filler = self._filler
        observation, action, reward, number, terminated, truncated, value = step
        mark = filler.mark()
        try:
            entries = _NO_ENTRIES
            if not self._is_plain or terminated or truncated or extras or number is None:
                entries = self._entries(number, reward, extras, terminated, truncated, final_observation)
            chunk = filler.row_for(observation, action, entries, self.agent_id, actor)
            if chunk is None:
                filler.unrecorded_steps += 1
                return
            row = chunk.rows
            filler.observation.write(row, observation)
            filler.action.write(row, action)
        except BaseException:
            filler.take_back(mark)
            raise
        self._undone = 0
        self._running = not (terminated or truncated)
        episodes, agents, actors, flags, rewards, values = filler.fixed
        names = filler.names
        episodes[row] = self.episode
        agents[row] = names[self.agent_id]
        actors[row] = names[actor]
        rewards[row] = gained = _NAN if number is None else number
        flag = (chunks.TERMINATED if terminated else 0) | (chunks.TRUNCATED if truncated else 0)
        values[row] = 0.0 if value is None else value
        flags[row] = flag if value is None else flag | chunks.HAS_VALUE
        note_ends(chunk.ends, self.episode, entries)
        chunk.commit()
        self._length += 1
        self._total += gained
        self._pending = _NO_ENTRIES
        self._is_plain = self._running

    @property
    def next_episode(self) -> int:
        """The number that the next episode gets, unless another lane begins one sooner."""
        return self._filler.next_episode

    def append_episodes(self, batch: EpisodeBatch) -> None:
        """Record episodes from their beginnings to their ends, and empty the batch: many times as fast as step by step.
        Each is kept as a whole or not at all, unless it is too long for a chunk or its extras are too large."""
        columns = batch.columns()
        writer = GroupWriter(self._filler, batch, columns, self.agent_id, self.actor) if columns is not None else None
        at = first = 0
        while at < len(batch):
            written = self._append_whole(writer, at) if writer is not None else 0
            if not written:
                self._append_by_steps(batch, at, first)
                written = 1
            first += sum(batch.lengths[at : at + written])
            at += written
        batch.clear()

    def _append_whole(self, writer: GroupWriter, at: int) -> int:
        with self._filler.lock:
            self._filler.take_rows()
            if self._running:
                return 0
            if written := writer.write(at):
                self.episode = self._filler.next_episode - 1
            return written

    def _append_by_steps(self, batch: EpisodeBatch, at: int, first: int) -> None:
        episode = batch.episode(at)
        self.begin_episode(episode.seed)
        last = first + episode.length - 1
        for step in range(first, last + 1):
            is_last = step == last
            self.append(
                batch.observations[step],
                batch.actions[step],
                batch.rewards[step],
                is_last and episode.terminated,
                is_last and not episode.terminated,
                value=batch.values[step],
                extras=episode.extras if step == first else None,
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
            self._first_step = self._filler.next_step
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
        self.episode, self._running = self._filler.begin_episode(), True
        self._seed = written_seed(seed)
        self._length, self._total, self._undone = 0, 0.0, 0
        pending.append((chunks.BEGIN, [self.episode, self.agent_id, self._seed, dict(options or {})]))
        self._pending, self._is_plain = pending, False
        return self.episode

    def _ended(self, outcome: str, length: int, total: float) -> Entry:
        finite = total if math.isfinite(total) else None
        ended = events.EndedEpisode(self.episode, self.agent_id, length, finite, outcome, self._seed, self._first_step)
        return chunks.END, ended


def _as_number(reward: Any) -> float | None:
    """None for a reward that is not one number: it is kept among the extras."""
    try:
        return float(reward)
    except (TypeError, ValueError, OverflowError):
        return None
