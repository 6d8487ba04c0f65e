"""Many whole episodes in one entry of a chunk's heap: for agents that play thousands of them a second, whose beginnings
and ends would otherwise weigh, and cost, more than their steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count, repeat
from typing import Any

import msgspec

from mosaic_protocol.events import EndedEpisode, Int64

OUTCOMES = ("truncated", "terminated")
_MOST_NUMBER = 2**63


class EpisodeGroup(msgspec.Struct, array_like=True):
    """Episodes of one agent that follow each other, from the first step to the last; a list has one item for each."""

    first_episode: Int64
    """The number of the first; those of the others follow."""
    agent_id: str
    first_step: Int64
    """In the run; each episode begins after the last step of the one before."""
    lengths: list[Int64]
    seeds: list[Int64 | str | None]
    totals: list[float | None]
    terminated: list[bool]
    """Else it was truncated."""
    finals: list[Any]
    """The observation after its last step."""
    extras: list[Any]
    """What its first step has to say; None: nothing."""

    @property
    def is_sound(self) -> bool:
        """Whether it says the same of each, and nothing that cannot be."""
        sizes = {len(one) for one in (self.seeds, self.totals, self.terminated, self.finals, self.extras)}
        if sizes != {len(self.lengths)} or min(self.lengths, default=1) < 1:
            return False
        return max(self.first_step + sum(self.lengths), self.first_episode + len(self.lengths)) < _MOST_NUMBER

    def ended(self) -> Iterator[EndedEpisode]:
        """How each of them ended."""
        return map(
            EndedEpisode,
            count(self.first_episode),
            repeat(self.agent_id),
            self.lengths,
            self.totals,
            map(OUTCOMES.__getitem__, self.terminated),
            self.seeds,
            accumulate(self.lengths, initial=self.first_step),
        )

    def packable(self) -> list[Any]:
        """As the heap takes it: what cannot be written in it then becomes text in its own place."""
        return [getattr(self, field) for field in self.__struct_fields__]
