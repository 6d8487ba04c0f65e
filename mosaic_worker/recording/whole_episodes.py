"""Episodes that are recorded when they are over, many at a time: for learners that play faster than steps can be handed
over one by one. Their observations and actions are whole numbers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap
from mosaic_protocol.steps.episode_groups import EpisodeGroup
from mosaic_worker.recording.step_entries import MOST_NUMBER, written_seed

if TYPE_CHECKING:
    from mosaic_worker.recording.chunk_filler import ChunkFiller
    from mosaic_worker.recording.ready_rows import ReadyRows

_ENDS = np.array([chunks.HAS_VALUE | chunks.TRUNCATED, chunks.HAS_VALUE | chunks.TERMINATED], np.uint8)
"""The flags of a last step, by whether the episode terminated."""


@dataclass(slots=True)
class WholeEpisode:
    """One from its beginning to its end, without its steps."""

    seed: int
    length: int
    total: float
    """The return."""
    final_observation: int
    terminated: bool
    """Else it was truncated."""
    extras: Mapping[str, Any] | None
    """They stand with its first step."""


Columns = tuple["array[int]", "array[int]", "array[float]", "array[float]"]


class EpisodeBatch:
    """Episodes of one agent, in order. Belongs to the agent's thread.

    The player appends each step to the four lists of steps and calls :meth:`end` after the last one; steps after the
    last end belong to no episode yet. One that plays many at once puts its own lists in their places, those of episodes
    with one item for each; steps that stand in arrays of the types that :meth:`columns` names are taken as they are.
    """

    __slots__ = (
        "actions",
        "extras",
        "finals",
        "lengths",
        "observations",
        "rewards",
        "seeds",
        "terminated",
        "totals",
        "values",
    )

    def __init__(self) -> None:
        self.observations: MutableSequence[int] = []
        self.actions: MutableSequence[int] = []
        self.rewards: MutableSequence[float] = []
        self.values: MutableSequence[float] = []
        self.seeds: list[int] = []
        self.lengths: list[int] = []
        self.totals: list[float] = []
        self.finals: list[int] = []
        self.terminated: list[bool] = []
        self.extras: list[Mapping[str, Any] | None] = []

    def __len__(self) -> int:
        """How many episodes it holds."""
        return len(self.lengths)

    def end(self, episode: WholeEpisode) -> None:
        """The newest steps, as many as it has, are this episode."""
        self.seeds.append(episode.seed)
        self.lengths.append(episode.length)
        self.totals.append(episode.total)
        self.finals.append(episode.final_observation)
        self.terminated.append(episode.terminated)
        self.extras.append(episode.extras)

    def episode(self, at: int) -> WholeEpisode:
        return WholeEpisode(
            self.seeds[at],
            self.lengths[at],
            self.totals[at],
            self.finals[at],
            self.terminated[at],
            self.extras[at],
        )

    def pop(self) -> WholeEpisode:
        """Take the newest out; its steps stay, and belong to no episode."""
        newest = self.episode(-1)
        for about in self._of_episodes:
            about.pop()
        return newest

    def forget_unfinished(self) -> None:
        """Steps of an episode that has no end are none."""
        known = sum(self.lengths)
        for column in self._of_steps:
            del column[known:]

    def clear(self) -> None:
        for one in (*self._of_steps, *self._of_episodes):
            del one[:]

    @property
    def _of_steps(self) -> tuple[MutableSequence[Any], ...]:
        return self.observations, self.actions, self.rewards, self.values

    @property
    def _of_episodes(self) -> tuple[list[Any], ...]:
        return self.seeds, self.lengths, self.totals, self.finals, self.terminated, self.extras

    def columns(self) -> Columns | None:
        """The steps as they are recorded; None for numbers that no column holds. Found out before anything is written:
        an episode is kept as a whole or not at all."""
        try:
            return (
                _column("q", self.observations),
                _column("q", self.actions),
                _column("d", self.rewards),
                _column("d", self.values),
            )
        except (OverflowError, TypeError):
            return None

    def group(self, begin: int, end: int, first_episode: int, agent_id: str, first_step: int) -> EpisodeGroup:
        """Some of its episodes as the heap of a chunk holds them."""
        totals: list[float | None] = [*self.totals[begin:end]]
        if not all(map(math.isfinite, self.totals[begin:end])):
            totals = [total if math.isfinite(total) else None for total in self.totals[begin:end]]
        return EpisodeGroup(
            first_episode,
            agent_id,
            first_step,
            self.lengths[begin:end],
            _written_seeds(self.seeds[begin:end]),
            totals,
            self.terminated[begin:end],
            self.finals[begin:end],
            self.extras[begin:end],
        )


class GroupWriter:
    """Writes the episodes of a batch into chunks, as many at once as one has room for. Used under the filler's lock."""

    def __init__(self, filler: ChunkFiller, batch: EpisodeBatch, columns: Columns, agent_id: str, actor: str) -> None:
        self._filler, self._batch, self._columns = filler, batch, columns
        self._agent_id, self._actor = agent_id, actor
        lengths = np.array(batch.lengths, np.int64)
        self._ends = lengths.cumsum()
        """How many steps there are up to the end of each episode,"""
        self._places = np.arange(len(batch)).repeat(lengths)
        """of each step the place of its episode in the batch,"""
        self._flags = np.full(len(self._places), chunks.HAS_VALUE, np.uint8)
        """and its flags."""
        self._flags[self._ends - 1] = _ENDS[np.array(batch.terminated, np.uint8)]

    def write(self, at: int) -> int:
        """Write episodes from ``at`` on; how many. 0: the next one cannot be written as a whole."""
        filler, (observations, actions, _, _) = self._filler, self._columns
        for _ in range(3):  # it may be short of names, then of rows or of room for extras
            mark = filler.mark()
            try:
                ready = filler.rows_for_whole(self._agent_id, self._actor)
                if ready is not None and (written := self._write_some(ready, at)):
                    return written
            except BaseException:
                filler.take_back(mark)
                raise
            first, length = self._first_of(at), self._batch.lengths[at]
            if not filler.make_room(self._agent_id, self._actor, observations[first], actions[first], length):
                return 0
        return 0

    def _first_of(self, at: int) -> int:
        """The first step of an episode."""
        return int(self._ends[at - 1]) if at else 0

    def _write_some(self, ready: ReadyRows, at: int) -> int:
        batch, filler, chunk = self._batch, self._filler, ready.chunk
        room = self._first_of(at) + ready.capacity - chunk.rows
        fitting = int(self._ends.searchsorted(room, "right")) - at
        while fitting:
            group = batch.group(at, at + fitting, filler.next_episode, self._agent_id, filler.next_step)
            if chunk.add_to_heap(heap.packed(chunk.rows, chunks.EPISODES, group.packable())):
                break
            fitting //= 2
        else:
            return 0
        rows = self._write_rows(ready, at, at + fitting)
        filler.next_episode += fitting
        chunk.ends.end_all(group)
        chunk.commit(rows)
        return fitting

    def _write_rows(self, ready: ReadyRows, at: int, until: int) -> int:
        """The steps of some episodes into the columns; how many."""
        filler, first, last = self._filler, self._first_of(at), self._first_of(until)
        count, begin = last - first, ready.chunk.rows
        end = begin + count
        assert ready.observation_words is not None and ready.action_words is not None
        observations, actions, rewards, values = self._columns
        episodes, agents, actors, flags, in_rewards, in_values = ready.columns
        ready.observation_words[begin:end] = memoryview(observations)[first:last]
        ready.action_words[begin:end] = memoryview(actions)[first:last]
        in_rewards[begin:end] = memoryview(rewards)[first:last]
        in_values[begin:end] = memoryview(values)[first:last]
        numbers = self._places[first:last] + (filler.next_episode - at)
        episodes[begin:end] = numbers.data.cast("B").cast("q")
        flags[begin:end] = self._flags[first:last].data
        agents[begin:end] = bytes((filler.names[self._agent_id],)) * count
        actors[begin:end] = bytes((filler.names[self._actor],)) * count
        return count


def _column(kind: Literal["q", "d"], numbers: MutableSequence[Any]) -> array[Any]:
    return numbers if isinstance(numbers, array) and numbers.typecode == kind else array(kind, numbers)


def _written_seeds(seeds: list[int]) -> list[int | str | None]:
    if min(seeds) > -MOST_NUMBER and max(seeds) < MOST_NUMBER:
        return [*seeds]
    return list(map(written_seed, seeds))
