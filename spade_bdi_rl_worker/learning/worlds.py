"""Worlds of numbered states, as fast as they can be had and exactly as the environment would go.

:class:`TableWorld` walks over the transition table of an environment that has one, without calling it: an episode on it
is the very one that the environment plays from the same seed, because chance is drawn from the same generator in the
same order. :class:`SteppedWorld` steps the environment itself.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.errors import UsageError
from spade_bdi_rl_worker.learning.environments import time_limit

MOST_STATES = 500_000
_BLOCK = 16
"""Random numbers that are drawn at once."""
_PROBES = 8

Outcome: TypeAlias = tuple[int, float, bool]
"""The next state, the reward, and whether the episode is over."""


StateName: TypeAlias = int | tuple[int, ...]
"""A number where every world of the kind numbers its states alike, else what is seen there."""


class World(Protocol):
    """Belongs to one thread. States and actions are counted from 0."""

    actions: int
    limit: int
    """Steps after which an episode is truncated."""
    truncated: bool
    """Whether the environment itself cut the episode short with the last step."""
    terminal: tuple[int, ...]
    """States that end an episode, as far as that is known."""
    has_prizes: bool
    """Whether some rewards are positive: then an episode succeeds that ends with one."""

    @property
    def states(self) -> int:
        """That are known so far."""

    def begin(self, seed: int) -> int:
        """The state in which the episode of a seed begins."""

    def step(self, state: int, action: int) -> Outcome:
        """Act. To stop at :attr:`limit` is the caller's business."""

    def name_of(self, state: int) -> StateName:
        """What agents of other worlds of the same kind call a state."""

    def named(self, name: StateName) -> int:
        """The state of such a name; one that was not seen here yet gets a number. Raises ValueError."""


class TableWorld:
    """An environment by its table ``P``: for each state and action the outcomes with their probabilities."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        inner: Any = env.unwrapped
        space: Any = env.action_space
        table: Any = inner.P
        self.states, self.actions, self.limit = len(table), int(space.n), time_limit(env)
        self.truncated = False
        outcomes = [[_outcomes(table[state][action]) for action in range(self.actions)] for state in range(self.states)]
        self.has_prizes = any(reward > 0 for row in outcomes for one in row for _, (_, reward, _) in one)
        ends = {after for row in outcomes for one in row for _, (after, _, over) in one if over}
        self.terminal = tuple(sorted(ends))
        self._starts = _bounds(np.asarray(inner.initial_state_distrib))
        self._only_start = self._starts[0][1] if len(self._starts) == 1 else -1
        is_sure = all(len(one) == 1 for row in outcomes for one in row)
        self.sure = [[one[0][1] for one in row] for row in outcomes] if is_sure else None
        """What each action in each state leads to, where nothing is left to chance."""
        self._outcomes = outcomes
        self._draws: list[float] = []
        self._generator: np.random.Generator | None = None

    def begin(self, seed: int) -> int:
        if self.sure is not None and self._only_start >= 0:
            return self._only_start  # nothing is left to chance: no generator is needed
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._draw_more()
        drawn = self._draws.pop()
        return next((state for bound, state in self._starts if bound > drawn), 0)

    def step(self, state: int, action: int) -> Outcome:
        if self.sure is not None:
            return self.sure[state][action]
        draws = self._draws
        if not draws:
            self._draw_more()
        drawn = draws.pop()
        outcomes = self._outcomes[state][action]
        for bound, outcome in outcomes:
            if bound > drawn:
                return outcome
        return outcomes[0][1]  # as the environment's search does when rounding leaves no bound above

    def allows(self, state: int, action: int, outcome: Outcome) -> bool:
        """Whether an action can have led to this; a next state of -1 is one that nobody noted."""
        after, reward, over = outcome
        return any(
            (after in (-1, there) and over == ends and math.isclose(reward, gained, abs_tol=1e-9))
            for _, (there, gained, ends) in self._outcomes[state][action]
        )

    def name_of(self, state: int) -> StateName:
        return state

    def named(self, name: StateName) -> int:
        return _checked_number(name, self.states)

    def _draw_more(self) -> None:
        """The numbers that the environment would draw one by one."""
        assert self._generator is not None
        self._draws[:] = self._generator.random(_BLOCK).tolist()[::-1]


def _checked_number(name: StateName, states: int) -> int:
    if isinstance(name, tuple) or not 0 <= name < states:
        raise ValueError(f"there is no state {name} in this world")
    return name


def _outcomes(entries: Any) -> list[tuple[float, Outcome]]:
    bounds = np.cumsum([entry[0] for entry in entries]).tolist()
    return [
        (bound, (int(state), float(reward), bool(over)))
        for bound, (_, state, reward, over) in zip(bounds, entries, strict=True)
    ]


def _bounds(distribution: NDArray[Any]) -> list[tuple[float, int]]:
    """The states of a distribution with their upper bounds; those that never come are left out."""
    bounds = np.cumsum(distribution).tolist()
    return [(bound, state) for state, bound in enumerate(bounds) if distribution[state] > 0]


class SteppedWorld:
    """An environment that is stepped. States are numbered in the order in which they are first seen, unless the
    environment numbers them itself. :attr:`shown` is what it showed in the running episode, one more than steps."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        space: Any = env.action_space
        self.actions, self.limit, self.has_prizes = int(space.n), time_limit(env), True
        self.truncated = False
        self.terminal: tuple[int, ...] = ()
        self.shown: list[Any] = []
        self.is_numbered = isinstance(env.observation_space, gym.spaces.Discrete)
        observed: Any = env.observation_space
        self._states = int(observed.n) if self.is_numbered else 0
        self._number_of: dict[bytes, int] = {}
        self._seen: list[NDArray[Any]] = []

    @property
    def states(self) -> int:
        return self._states

    def begin(self, seed: int) -> int:
        self.shown.clear()
        observation, _ = self.env.reset(seed=seed)
        return self._state_of(observation)

    def step(self, state: int, action: int) -> Outcome:
        observation, reward, terminated, self.truncated, _ = self.env.step(action)
        return self._state_of(observation), float(reward), bool(terminated)

    def _state_of(self, observation: Any) -> int:
        if self.is_numbered:
            self.shown.append(int(observation))
            return int(observation)
        self.shown.append(observation)
        return self.number_of(observation, add=True)

    def number_of(self, observation: NDArray[Any], *, add: bool = False) -> int:
        """The state of an observation; -1 for one that was never seen."""
        key = observation.tobytes()
        number = self._number_of.get(key, -1)
        if number < 0 and add:
            if self._states >= MOST_STATES:
                raise UsageError(
                    f"more than {MOST_STATES:,} states were seen: this environment is too large for a table; "
                    "choose a smaller one"
                )
            number = self._number_of[key] = self._states
            self._seen.append(observation.copy())
            self._states += 1
        return number

    def name_of(self, state: int) -> StateName:
        return state if self.is_numbered else tuple(map(int, self._seen[state]))

    def named(self, name: StateName) -> int:
        if self.is_numbered:
            return _checked_number(name, self._states)
        limits = np.iinfo(np.int16)
        is_shown = isinstance(name, tuple) and len(name) == self.env.observation_space.shape[0]  # type: ignore[index]
        if not isinstance(name, tuple) or not is_shown or not all(limits.min <= one <= limits.max for one in name):
            raise ValueError("a state of this world is the list of numbers that is seen in it")
        return self.number_of(np.array(name, np.int16), add=True)

    @property
    def seen(self) -> NDArray[Any]:
        """What was shown in each state, for a checkpoint; empty where the environment numbers states itself."""
        return np.array(self._seen, np.int16) if self._seen else np.zeros((0, 0), np.int16)

    @seen.setter
    def seen(self, shown: NDArray[Any]) -> None:
        if self.is_numbered:
            return
        self._number_of.clear()
        self._seen.clear()
        self._states = 0
        for observation in np.asarray(shown, np.int16):
            self.number_of(observation, add=True)


def open_world(env: gym.Env[Any, Any]) -> TableWorld | SteppedWorld:
    """By its table where the environment has one that tells the whole truth, by stepping it otherwise."""
    if isinstance(env.observation_space, gym.spaces.Discrete) and hasattr(env.unwrapped, "P"):
        try:
            world = TableWorld(env)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            return SteppedWorld(env)  # its P is something else
        if _tells_the_truth(world, env):
            return world
    return SteppedWorld(env)


def _tells_the_truth(world: TableWorld, env: gym.Env[Any, Any]) -> bool:
    """Whether some episodes go as the environment plays them: some do more than their table says, such as a passenger
    who changes the destination."""
    chance = np.random.default_rng(0)
    for seed in range(_PROBES):
        state = int(env.reset(seed=seed)[0])
        if world.begin(seed) != state:
            return False
        for _ in range(min(world.limit, 100)):
            action = int(chance.integers(world.actions))
            shown, reward, terminated, _, _ = env.step(action)
            if world.step(state, action) != (int(shown), float(reward), bool(terminated)):
                return False
            state = int(shown)
            if terminated:
                break
    return True
