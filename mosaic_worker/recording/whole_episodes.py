"""Episodes that are recorded when they are over, many at a time: for learners that play faster than steps can be handed
over one by one. Their observations and actions are whole numbers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mosaic_protocol.events import EndedEpisode
from mosaic_protocol.steps import chunk as chunks
from mosaic_protocol.steps import heap

_NO_OPTIONS: dict[str, Any] = {}


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
    """Episodes of one agent, in order. Belongs to the agent's thread. The player appends each step to the four lists
    and calls :meth:`end` after the last one; steps after the last end belong to no episode yet."""

    __slots__ = ("actions", "episodes", "observations", "rewards", "values")

    def __init__(self) -> None:
        self.observations: list[int] = []
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.values: list[float] = []
        self.episodes: list[WholeEpisode] = []

    def end(self, episode: WholeEpisode) -> None:
        """The newest steps, as many as it has, are this episode."""
        self.episodes.append(episode)

    def forget_unfinished(self) -> None:
        """Steps of an episode that has no end are none."""
        known = sum(one.length for one in self.episodes)
        for column in (self.observations, self.actions, self.rewards, self.values):
            del column[known:]

    def clear(self) -> None:
        for column in (self.observations, self.actions, self.rewards, self.values, self.episodes):
            column.clear()

    def columns(self) -> Columns | None:
        """The steps as they are recorded; None for numbers that no column holds. Found out before anything is written:
        an episode is kept as a whole or not at all."""
        try:
            return (
                array("q", self.observations),
                array("q", self.actions),
                array("d", self.rewards),
                array("d", self.values),
            )
        except (OverflowError, TypeError):
            return None


def pack(
    entries: bytearray, row: int, number: int, agent_id: str, first_step: int, episode: WholeEpisode
) -> EndedEpisode:
    """Append what the heap of a chunk holds of an episode whose first step stands in ``row``; how it ended."""
    last = row + episode.length - 1
    total = episode.total if math.isfinite(episode.total) else None
    outcome = "terminated" if episode.terminated else "truncated"
    ended = EndedEpisode(number, agent_id, episode.length, total, outcome, episode.seed, first_step)
    heap.append_packed(entries, (row, chunks.BEGIN, (number, agent_id, episode.seed, _NO_OPTIONS)))
    if episode.extras:
        heap.append_packed(entries, (row, chunks.EXTRAS, episode.extras))
    heap.append_packed(entries, (last, chunks.FINAL, (((), episode.final_observation),)))
    heap.append_packed(entries, (last, chunks.END, ended))
    return ended
