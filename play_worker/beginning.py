"""A session that begins at a step of a recorded episode, in the very state that the recording had there.

The recorded actions are played again from the recorded seed. What comes is compared with the recording, so nobody takes
over a state that never was; and it is recorded in this session too, with those who acted then. A replay of this session
is therefore an ordinary one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mosaic_protocol.events import RecordError
from mosaic_protocol.steps.chunk import UNDONE, ChunkError
from mosaic_protocol.steps.recorded_episodes import RecordedEpisode, read_episodes
from mosaic_protocol.steps.recordings import Recording, RecordingError
from mosaic_worker.errors import UsageError
from mosaic_worker.replay.comparing import observation_difference, recorded_rewards, same_reward, shown
from mosaic_worker.replay.simulation import require_replayable

_SESSIONS = "play"
"""The worker whose recordings are of the game itself."""
TAKEN_OVER = "taken_over_from"
"""Of the first step's extras: the run, the episode and the step that a session began at."""


@dataclass(frozen=True)
class RecordedStep:
    """One step to be made again."""

    action: Any
    actor: str
    value: float | None
    extras: dict[str, Any]


@dataclass(frozen=True)
class Beginning:
    """The first ``step`` steps of an episode. Use :meth:`asked_for` to have one."""

    episode: RecordedEpisode
    step: int
    origin: Mapping[str, Any]
    wrapped_by: str = ""
    """The worker that recorded, where it may have played behind wrappers that a session does not have."""

    @classmethod
    def asked_for(cls, params: Mapping[str, Any]) -> Beginning | None:
        """As the parameters say; None for a session that begins as sessions do. Raises UsageError."""
        folder = str(params.get("from_recording") or "")
        if not folder:
            return None
        number, step = int(params.get("from_episode") or 0), int(params.get("from_step") or 0)
        try:
            recording = Recording.at(Path(folder))
            episode = next(iter(read_episodes(recording.chunks(number), number)), None)
        except (RecordingError, ChunkError, RecordError) as error:
            raise UsageError(f"--from-recording: {error}") from error
        except OSError as error:
            raise UsageError(f"--from-recording: {folder} cannot be read: {error.strerror}") from error
        if episode is None:
            raise UsageError(f"--from-episode: {folder} has no episode {number}")
        require_replayable(episode)
        last = len(episode) - 1 if episode.outcome in ("terminated", "truncated") else len(episode)
        if not 0 <= step <= last:
            raise UsageError(f"--from-step: episode {number} can be taken over at the steps 0 to {last}, not at {step}")
        told = {name: recording.about[name] for name in ("run_id", "run_name", "checkpoint") if name in recording.about}
        worker = str(recording.about.get("worker") or "")
        return cls(episode, step, {**told, "episode": number, "step": step}, "" if worker == _SESSIONS else worker)

    @property
    def seed(self) -> int:
        assert self.episode.seed is not None, "an episode without a seed is refused"
        return self.episode.seed

    @cached_property
    def _rewards(self) -> list[Any]:
        return recorded_rewards(self.episode)

    def steps(self) -> Iterator[RecordedStep]:
        episode, values = self.episode, self.episode.values
        for place in range(self.step):
            extras = dict(episode.extras.get(place, {}))
            extras.pop(UNDONE, None)  # here nothing was
            if not place:
                extras[TAKEN_OVER] = dict(self.origin)
            told = None if values is None else float(values[place])
            value = told if told is not None and math.isfinite(told) else None
            yield RecordedStep(episode.action(place), episode.actors[place], value, extras)

    def check(self, place: int, observation: Any, reward: Any = None) -> None:
        """Whether the game is where the recording was before the step of this place, with the reward that led there.
        Raises UsageError where it is not."""
        if place and same_reward(self._rewards[place - 1], reward) is False:
            self._refuse(place - 1, ("reward", shown(self._rewards[place - 1]), shown(reward)))
        if place < len(self.episode):
            found = observation_difference(self.episode.observation(place), observation)
            if found is not None:
                self._refuse(place, found)

    def _refuse(self, place: int, found: tuple[str, str, str]) -> None:
        what, recorded, came = found
        why = "`mosaic replay` says why"
        if self.wrapped_by:
            why = f"the worker {self.wrapped_by!r} recorded it, and may wrap the game, which a session plays as it is"
            why += ": such an episode can be replayed, not taken over"
        raise UsageError(
            f"step {self.step} cannot be reached: the game leaves the recording at step {place} "
            f"({what} was {recorded}, now it is {came}); {why}"
        )
