"""Measuring a policy: episodes that can be played again, and what their returns amount to.

Every episode has a seed of its own, made from the evaluation's seed and the episode's number. It alone decides how the
environment begins and what is drawn in the episode, and the policy is always asked about one observation at a time: so
the tenth episode is the same to the bit however many are played, in whatever order or process. A contest names the
environments' seeds itself, and has with each episode what choosing its actions took.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from mosaic_worker.policies.policy import GivenUpError, Policy, begin_episode

if TYPE_CHECKING:
    from mosaic_worker.recording.step_lane import StepLane

SPENT = "spent"
"""Of the last step of an episode: what choosing its actions took, by name. ``seconds`` and ``cpu_seconds`` are
measured; a policy that knows more says so (:class:`~mosaic_worker.policies.policy.Spending`)."""
_STEPS_BETWEEN_LOOKS = 16
"""Rare enough to cost nothing, often enough to stop within a moment."""


@dataclass(frozen=True)
class Episode:
    """One episode that was played to its end."""

    number: int
    total: float
    """The sum of its rewards."""
    length: int


class RandomPolicy:
    """Draws actions from their space; the same episode draws the same ones."""

    def __init__(self, space: gym.Space[Any]) -> None:
        self._space = space
        self._episode: np.random.Generator | None = None

    def act(self, observations: Any, *, deterministic: bool, random: np.random.Generator) -> Any:
        if random is not self._episode:
            self._episode = random
            self._space.seed(int(random.integers(2**31)))
        return [self._space.sample() for _ in observations]


class Player:
    """Plays episodes of one policy in one environment, which it does not close. ``lane`` takes every step. With
    ``seeds`` the episode of each number begins with the seed at that place, and is recorded with what it took."""

    def __init__(
        self,
        policy: Policy,
        env: gym.Env[Any, Any],
        seed: int,
        *,
        deterministic: bool,
        lane: StepLane | None = None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        self.policy, self.env, self.seed, self.deterministic = policy, env, seed, deterministic
        self.lane, self.seeds = lane, seeds
        self.steps = 0
        """Of all episodes so far, the running one included."""

    def play(self, numbers: Iterable[int], stop: Callable[[], bool]) -> Iterator[Episode | None]:
        """The episodes of these numbers, one after the other, and None every so many steps in between.

        It ends early, in the middle of an episode, when `stop` says so; that is asked as often.
        """
        if (attend := getattr(self.policy, "attend", None)) is not None:
            attend(stop)
        with suppress(GivenUpError):
            yield from self._play(numbers, stop)

    def _play(self, numbers: Iterable[int], stop: Callable[[], bool]) -> Iterator[Episode | None]:
        rewarded = getattr(self.policy, "rewarded", None)
        for number in numbers:
            env_seed, random = seeds_of(self.seed, number) if self.seeds is None else seeded(self.seeds[number])
            observation, _ = self.env.reset(seed=env_seed)
            if self.lane is not None:
                self.lane.begin_episode(env_seed)
            begin_episode(self.policy)
            spending = _Spending(self.policy) if self.seeds is not None else None
            total, length, over = 0.0, 0, False
            while not over:
                if self.steps % _STEPS_BETWEEN_LOOKS == 0:
                    yield None
                    if stop():
                        return
                batch = np.asarray(observation)[None]
                if spending is None:
                    (action,) = self.policy.act(batch, deterministic=self.deterministic, random=random)
                else:
                    with spending:
                        (action,) = self.policy.act(batch, deterministic=self.deterministic, random=random)
                before = copy.deepcopy(observation) if self.lane is not None else None  # some environments reuse it
                observation, reward, terminated, truncated, _ = self.env.step(action)
                if rewarded is not None:
                    rewarded(float(reward))
                if self.lane is not None:
                    spent = spending.told() if spending is not None and (terminated or truncated) else None
                    ends = bool(terminated), bool(truncated)
                    self._record(self.lane, before, action, reward, *ends, observation, spent)
                total += float(reward)
                length += 1
                self.steps += 1
                over = terminated or truncated
            yield Episode(number, total, length)

    def _record(
        self,
        lane: StepLane,
        before: Any,
        action: Any,
        reward: Any,
        terminated: bool,
        truncated: bool,
        after: Any,
        spent: Mapping[str, float] | None = None,
    ) -> None:
        value, extras = None, None
        if (appraise := getattr(self.policy, "appraise", None)) is not None:
            extras = {name: values[0] for name, values in appraise(np.asarray(before)[None]).items()}
            value = float(extras.pop("value")) if "value" in extras else None
        if spent is not None:
            extras = {**(extras or {}), SPENT: dict(spent)}
        final = after if terminated or truncated else None
        lane.append(before, action, reward, terminated, truncated, value=value, extras=extras, final_observation=final)


def seeds_of(seed: int, number: int) -> tuple[int, np.random.Generator]:
    """The environment's seed and the policy's source of chance for one episode of an evaluation."""
    sequence = np.random.SeedSequence((seed, number))
    env_seed = int(sequence.generate_state(1)[0]) >> 1  # environments written in C take 31 bits
    return env_seed, np.random.default_rng(sequence.spawn(1)[0])


def seeded(env_seed: int) -> tuple[int, np.random.Generator]:
    """The same for an environment's seed that was given: it alone decides what the policy draws as well."""
    return env_seed, np.random.default_rng(np.random.SeedSequence(env_seed).spawn(1)[0])


class _Spending:
    """What choosing the actions of one episode takes. Enter it for each choice."""

    def __init__(self, policy: Policy) -> None:
        self._told: Callable[[], Mapping[str, float]] | None = getattr(policy, "spent", None)
        self._seconds = self._cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self._seconds += time.perf_counter() - self._began[0]
        self._cpu_seconds += time.process_time() - self._began[1]

    def told(self) -> dict[str, float]:
        own = self._told() if self._told is not None else {}
        return {"seconds": self._seconds, "cpu_seconds": self._cpu_seconds, **own}


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half: a quarter of the values, rounded down, is left out at either end."""
    if not len(values):
        return math.nan
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    left_out = len(ordered) // 4
    return float(ordered[left_out : len(ordered) - left_out].mean())


def summary(episodes: Sequence[Episode]) -> dict[str, Any]:
    """What episodes amount to, as JSON; numbers that are not finite become null."""
    if not episodes:
        return {"episodes": 0, "returns": [], "lengths": []}
    by_number = sorted(episodes, key=lambda episode: episode.number)
    returns = np.array([episode.total for episode in by_number])
    lengths = [episode.length for episode in by_number]
    with np.errstate(invalid="ignore"):  # returns that are not finite have no spread: None
        told = {
            "mean": returns.mean(),
            "std": returns.std(),
            "median": np.median(returns),
            "iqm": interquartile_mean(returns.tolist()),
            "min": returns.min(),
            "max": returns.max(),
            "mean_length": np.mean(lengths),
        }
    return {
        "episodes": len(by_number),
        **{name: _finite(float(value)) for name, value in told.items()},
        "returns": [_finite(value) for value in returns.tolist()],
        "lengths": lengths,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
