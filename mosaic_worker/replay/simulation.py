"""One recorded episode, simulated again: every observation, reward and end is compared with what was recorded.

The actions are those of the recording; seed and options of the reset as well. The first difference ends the comparison,
because from there on the actions answer to something else. Whether the environment itself is at fault is then found by
simulating it once more: two simulations that agree with each other, and not with the recording, are another version or
other settings.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

import gymnasium as gym

from mosaic_protocol.steps.recorded_episodes import Leaves, RecordedEpisode
from mosaic_worker.errors import UsageError
from mosaic_worker.replay.comparing import (
    Difference,
    observation_difference,
    recorded_rewards,
    same,
    same_reward,
    shown,
    taken_apart,
)
from mosaic_worker.replay.snapshots import Snapshots

MakeEnv: TypeAlias = Callable[[], gym.Env[Any, Any]]


@dataclass(frozen=True)
class Compared:
    """Of how many verified steps it was recorded, and could be compared. The end of a step always can."""

    observations: int = 0
    rewards: int = 0


class Replay:
    """Stands at a place of an episode: before its step of that number, or behind the last one.

    ``env`` and ``observation`` are those at that place. Belongs to one thread; closes its environment.
    """

    def __init__(self, episode: RecordedEpisode, make_env: MakeEnv, snapshots: Snapshots | None = None) -> None:
        """Raises UsageError for an episode that cannot be simulated."""
        require_replayable(episode)
        self.episode = episode
        self.place = 0
        self.observation: Any = None
        self.difference: Difference | None = None
        self.checked = 0
        """How many steps from the beginning on were simulated and do not differ from the recording."""
        self.verified = 0
        """How many of them are known to be as recorded: their observation or their reward was compared."""
        self.compared = Compared()
        self.snapshots = snapshots if snapshots is not None else Snapshots(every=0)
        self._numbers, self._rewards = episode.numbers.tolist(), recorded_rewards(episode)
        self._ends = list(zip(episode.terminated.tolist(), episode.truncated.tolist(), strict=True))
        self._restored_at: int | None = None
        self.env = make_env()
        try:
            self._reset()
        except BaseException:
            self.env.close()
            raise

    @property
    def is_over(self) -> bool:
        return self.place >= len(self.episode)

    def advance(self) -> bool:
        """Take the next recorded action; False at the end, and where the simulation has left the recording."""
        if self.is_over or (self.difference is not None and self.place >= self.difference.place):
            return False
        place = self.place
        action = self.episode.action(place)
        observation, reward, terminated, truncated, _ = self._ask(lambda: self.env.step(action), f"step {place}")
        self.place, self.observation = place + 1, observation
        if self.difference is None:
            self._compare(place, reward, bool(terminated), bool(truncated))
        if self.difference is not None and self._restored_at is not None:
            # Perhaps the state that was kept is not the whole state: an earlier one, or the beginning, decides.
            self.snapshots.drop(self._restored_at)
            self.difference = None
            self._return_to(place)
            while self.place <= place and self.advance():
                pass
            return self.place > place
        self.snapshots.offer(self.place, self.env, observation)
        return True

    def seek(self, place: int) -> None:
        """Go to a place, from the nearest kept state before it or on from here, whichever is nearer. Stops early where
        the simulation leaves the recording. Raises UsageError for a place that the episode does not have."""
        if not 0 <= place <= len(self.episode):
            raise UsageError(f"there is no step {place} in episode {self.episode.number}: it has {len(self.episode)}")
        kept = self.snapshots.before(place)
        if not (kept[0] if kept is not None else 0) <= self.place <= place:
            self._return_to(place)
        while self.place < place and self.advance():
            pass

    def run(self) -> Iterator[int]:
        """To the end, or to the first difference; the place after each step."""
        while self.difference is None and self.advance():
            yield self.place

    def close(self) -> None:
        self.env.close()

    def _return_to(self, place: int) -> None:
        """Stand at the last kept state at or before a place, or at the beginning."""
        kept = self.snapshots.before(place)
        if kept is None:
            self._reset()
            return
        self.snapshots.restore(kept[1], self.env)
        self._restored_at = self.place = kept[0]
        self.observation = copy.deepcopy(kept[1].observation)

    def _reset(self) -> None:
        episode = self.episode
        options = episode.options or None
        self.observation, _ = self._ask(lambda: self.env.reset(seed=episode.seed, options=options), "reset")
        self.place, self._restored_at = 0, None
        if self.difference is None:
            self._note(0, observation_difference(episode.observation(0), self.observation))
        self.snapshots.offer(0, self.env, self.observation)

    def _compare(self, place: int, reward: Any, terminated: bool, truncated: bool) -> None:
        """A step is as recorded when its observation, which was compared before it, its reward and its end are; the
        last one also by what it led to."""
        ends, after = self._ends[place], self._recorded_after(place)
        is_same = same_reward(self._rewards[place], reward)
        if is_same is False:
            self._note(place, ("reward", shown(self._rewards[place]), shown(reward)))
        elif (terminated, truncated) != ends:
            which = "terminated" if terminated != ends[0] else "truncated"
            now = terminated if which == "terminated" else truncated
            self._note(place, (which, str(not now).lower(), str(now).lower()))
        elif place + 1 < len(self.episode):
            self._count(place, reward=is_same is not None)
            self._note(place + 1, observation_difference(after, self.observation))
        elif not self._note(place, observation_difference(after, self.observation, "final observation")):
            self._count(place, reward=is_same is not None)

    def _count(self, place: int, *, reward: bool) -> None:
        """A step is as recorded, as far as it was. One that is met again is not counted again."""
        if place != self.checked:
            return
        observation = bool(self.episode.observation(place))
        compared = self.compared
        self.checked += 1
        self.verified += observation or reward
        self.compared = Compared(compared.observations + observation, compared.rewards + reward)

    def _recorded_after(self, place: int) -> Leaves:
        """The observation that a step led to: what the next one saw."""
        if place + 1 < len(self.episode):
            return self.episode.observation(place + 1)
        return self.episode.final or {}

    def _note(self, place: int, found: tuple[str, str, str] | None) -> bool:
        if found is not None:
            self.difference = Difference(place, self._numbers[place], *found)
        return found is not None

    def _ask(self, call: Callable[[], Any], when: str) -> Any:
        try:
            return call()
        except Exception as error:  # an environment is foreign code
            reason = " ".join(str(error).split())[:300]
            raise UsageError(f"the environment failed at {when}: {type(error).__name__}: {reason}") from error


def require_replayable(episode: RecordedEpisode) -> None:
    """Raise UsageError for an episode that cannot be simulated again, with the reason."""
    called = f"episode {episode.number}"
    if not episode.began:
        raise UsageError(f"the beginning of {called} is missing: its first steps were lost or removed")
    if episode.seed is None:
        raise UsageError(
            f"{called} was recorded without a seed, so nobody knows how it began: "
            "a worker gives it with lane.begin_episode(seed)"
        )
    if episode.action(0) is None:
        raise UsageError(f"the actions of {called} were not recorded")


def repeats_itself(episode: RecordedEpisode, make_env: MakeEnv, steps: int) -> bool:
    """Whether two simulations of the first steps agree with each other."""
    with closing(make_env()) as one, closing(make_env()) as other:
        try:
            pairs = zip(_simulated(episode, one, steps), _simulated(episode, other, steps), strict=True)
            return all(_agree(ours, theirs) for ours, theirs in pairs)
        except Exception:  # noqa: BLE001 - an environment is foreign code, and this one did not fail before
            return False


def _simulated(episode: RecordedEpisode, env: gym.Env[Any, Any], steps: int) -> Iterator[Any]:
    yield env.reset(seed=episode.seed, options=episode.options or None)[0]
    for place in range(min(steps, len(episode))):
        yield env.step(episode.action(place))[:4]


def _agree(one: Any, other: Any) -> bool:
    ours, theirs = taken_apart(one), taken_apart(other)
    return ours.keys() == theirs.keys() and all(same(value, theirs[path]) for path, value in ours.items())
