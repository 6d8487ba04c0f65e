"""The recorded episodes of a run, or of a recorded evaluation, as a list that can be filtered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gym_gui.services.replay.episode_record import Stripe, stripes
from mosaic_protocol.events import StepChunk
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes

ORDERS = ("newest", "oldest", "best", "longest")


@dataclass(frozen=True)
class ListedEpisode:
    """What a card says of an episode."""

    number: int
    seed: int | None
    steps: int
    total: float
    outcome: str
    agent_id: str = ""
    stripes: tuple[Stripe, ...] = ()
    source: str = field(default="", compare=False)
    """The run that this episode was taken over from, in words; empty for most."""

    def share_of(self, actor: str) -> float:
        """How much of the episode an actor played, from 0 to 1."""
        played = sum(stripe.end - stripe.first for stripe in self.stripes if stripe.actor == actor)
        return played / self.steps if self.steps else 0.0


def listed(chunks: Iterable[StepChunk]) -> Iterator[ListedEpisode]:
    """All episodes that have steps, in the order of their numbers. Raises ChunkError for damaged ones."""
    yield from sorted(map(of_episode, read_episodes(chunks)), key=lambda one: one.number)


def of_episode(episode: RecordedEpisode) -> ListedEpisode:
    return ListedEpisode(
        episode.number,
        episode.seed,
        len(episode),
        float(np.sum(episode.rewards)),
        episode.outcome,
        episode.agent_id,
        tuple(stripes(episode.actors)),
    )


def filtered(
    episodes: Sequence[ListedEpisode], words: str, env_id: str = "", order: str = "newest"
) -> list[ListedEpisode]:
    """Those that match every word: the number of an episode, its seed, how it ended, who played, the environment."""
    wanted = words.lower().split()
    found = [one for one in episodes if all(_matches(one, word, env_id) for word in wanted)]
    match order:
        case "oldest":
            return sorted(found, key=lambda one: one.number)
        case "best":
            return sorted(found, key=lambda one: (-one.total, -one.number))
        case "longest":
            return sorted(found, key=lambda one: (-one.steps, -one.number))
    return sorted(found, key=lambda one: -one.number)


def _matches(one: ListedEpisode, word: str, env_id: str) -> bool:
    actors = {stripe.actor for stripe in one.stripes}
    if word.isdigit():
        return word in (str(one.number), str(one.seed))
    said = [env_id, one.outcome or "not ended", one.agent_id, f"seed={one.seed}", f"episode={one.number}", *actors]
    said += ["you"] if "human" in actors else []
    return any(word in text.lower() for text in said)
