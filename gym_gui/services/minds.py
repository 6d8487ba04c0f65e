"""What an agent believed, wanted and chose at a step of a recorded episode. Needs no Qt, and no AgentSpeak interpreter.

Records of a mind are changes (:mod:`mosaic_protocol.mind`), so an episode is read together with those before it, back
to the last whole record of its agent: a chunk or two of steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gym_gui.services.recorded_steps import StepSource
from mosaic_protocol.events import StepChunk, TrainingStep
from mosaic_protocol.mind import MIND, WHOLE_EVERY, Mind, MindError, MindReader
from mosaic_protocol.steps.chunk import OpenedChunk
from mosaic_protocol.suggest import did_you_mean

MOST_LOOKS = 32 * WHOLE_EVERY
"""How often it is looked further back for a whole record, by an episode or more each time: those of an agent alternate
with those of others, of which there may be 15. Further back it was removed with old steps, or never written."""


class NoMindError(Exception):
    """There is nothing to show; ``str()`` is one sentence."""


@dataclass(frozen=True)
class MindAt:
    """A mind before one step."""

    agent_id: str
    episode: int
    step: int
    """Of the run."""
    place: int
    """Of the episode: its first step is 0."""
    action: Any
    mind: Mind

    def to_object(self) -> dict[str, Any]:
        """For programs."""
        told: dict[str, Any] = msgspec.to_builtins(self.mind)
        beliefs = [{"belief": one.text, "source": one.source} for one in self.mind.beliefs]
        where = {"agent": self.agent_id, "episode": self.episode, "step": self.step, "place": self.place}
        action = self.action.tolist() if hasattr(self.action, "tolist") else self.action
        return {**where, "action": action, **told, "beliefs": beliefs, **_changes(self.mind)}


def _changes(mind: Mind) -> dict[str, list[str]]:
    return {"added": [one.text for one in mind.added], "removed": [one.text for one in mind.removed]}


def minds_of(source: StepSource, episode: int, agent: str | None = None) -> list[MindAt]:
    """Every recorded mind of an episode, in order: that at its first step, and at each further one where the run
    records them. ``agent``: of several that share a number. Raises :class:`NoMindError`, and what damaged chunks
    raise."""
    chunks = list(source.chunks(episode))
    if not chunks:
        raise NoMindError(f"{source.name} has no recorded episode {episode}: `mosaic episodes` lists those there are")
    played = [step for chunk in chunks for step in OpenedChunk(chunk).steps() if step.episode == episode]
    wanted = agent if agent is not None else played[0].agent_id
    if wanted not in (players := {step.agent_id: None for step in played}):
        others = " and ".join(one or "an agent without a name" for one in players)
        raise NoMindError(f"episode {episode} of {source.name} was played by {others}, not by {wanted!r}")
    places = {step.step: place for place, step in enumerate(step for step in played if step.agent_id == wanted)}
    reader, found, problem = MindReader(), list[MindAt](), ""
    for step in _records_back_to_a_whole_one(source, chunks, episode, wanted):
        try:
            mind = reader.take(step.info[MIND])
        except MindError as error:
            problem = str(error)
            continue
        if step.step in places:
            found.append(MindAt(wanted, episode, step.step, places[step.step], step.action, mind))
    if not found:
        raise NoMindError(_why_none(source, episode, problem))
    return found


def mind_at(found: Sequence[MindAt], place: int) -> MindAt:
    """The record that holds at a step of the episode: the last one until then. ``found`` is not empty."""
    until = [one for one in found if one.place <= place]
    return until[-1] if until else found[0]


def newest_episode(source: StepSource, tail: Iterator[TrainingStep], agent: str | None = None) -> int:
    """The episode that is being played, or was played last, by the last recorded steps. ``agent``: of several, the last
    one that this agent played. Raises NoMindError, and what damaged chunks raise."""
    last = None
    for step in tail:
        last = step
    if last is None:
        raise NoMindError(f"{source.name} has no recorded steps: its worker records none, or has not begun")
    if agent is None or last.agent_id == agent:
        return last.episode
    return _newest_of(source, list(source.chunks(last.episode)), agent)


def _newest_of(source: StepSource, chunks: list[StepChunk], agent: str) -> int:
    players: dict[str, None] = {}
    for _ in range(MOST_LOOKS):
        steps = [step for chunk in chunks for step in OpenedChunk(chunk).steps(observations=False)]
        if played := [step.episode for step in steps if step.agent_id == agent]:
            return max(played)
        players |= dict.fromkeys(step.agent_id for step in steps)
        if not chunks or not (chunks := _chunks_before(source, chunks[0])):
            break
    known = ", ".join(filter(None, players)) or "an agent without a name"
    near = did_you_mean(agent, filter(None, players))
    raise NoMindError(f"the last episodes of {source.name} were played by {known}, none of them by {agent!r}{near}")


def _why_none(source: StepSource, episode: int, problem: str) -> str:
    if problem:
        return f"what the agent of {source.name} believed in episode {episode} cannot be put together: {problem}"
    return f"episode {episode} of {source.name} has no record of a mind: only workers with beliefs write one"


def _records_back_to_a_whole_one(
    source: StepSource, chunks: list[StepChunk], episode: int, agent: str
) -> list[TrainingStep]:
    """The agent's steps with records, from the last whole one before the episode, or at its beginning, to its end."""
    kept = _records(chunks, episode, agent)
    for _ in range(MOST_LOOKS):
        if (start := _last_whole(kept, episode)) is not None:
            return kept[start:]
        if not (chunks := _chunks_before(source, chunks[0])):
            break
        kept = [*_records(chunks, episode, agent), *kept]
    return kept


def _records(chunks: list[StepChunk], episode: int, agent: str) -> list[TrainingStep]:
    steps = (step for chunk in chunks for step in OpenedChunk(chunk).steps())
    return [step for step in steps if MIND in step.info and step.agent_id == agent and step.episode <= episode]


def _last_whole(steps: list[TrainingStep], episode: int) -> int | None:
    """Its place among the steps. One within the episode counts only where none is before it."""
    wholes = [place for place, step in enumerate(steps) if _is_whole(step.info[MIND])]
    before = [place for place in wholes if steps[place].episode < episode]
    return before[-1] if before else wholes[0] if wholes else None


def _is_whole(record: object) -> bool:
    return isinstance(record, dict) and record.get("whole") is True


def _chunks_before(source: StepSource, chunk: StepChunk) -> list[StepChunk]:
    """The nearest ones with earlier steps, in order; [] at the beginning."""
    found: dict[int, StepChunk] = {}
    for number in range(max(0, chunk.first_episode - 1), chunk.first_episode + 1):
        found |= {one.first_step: one for one in source.chunks(number) if one.first_step < chunk.first_step}
    return [found[first] for first in sorted(found)]
