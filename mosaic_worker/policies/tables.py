"""The best policy of an environment that shows its own table of what may happen: ``env.unwrapped.P``, as toy text does.

With a step limit the value of a state depends on how many steps are left, so the policy is worked out backwards from
the last step: exact, and nothing is discounted. Without one the values are repeated until they stand still.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mosaic_worker.errors import UsageError
from mosaic_worker.policies.rules import rules_of

_MOST_DECISIONS = 50_000_000
"""States times steps that are worked out one by one: more would not fit into memory."""
_MOST_SWEEPS = 100_000
_STILL = 1e-10
_TIE = 1e-9
"""Values so near are one value; the first of equal actions is taken, so that each machine takes the same."""


def has_table(env: gym.Env[Any, Any]) -> bool:
    base, states = env.unwrapped, env.observation_space
    table = getattr(base, "P", None)
    if not isinstance(table, dict) or not isinstance(states, gym.spaces.Discrete):
        return False
    return len(table) == states.n and isinstance(env.action_space, gym.spaces.Discrete)


class OptimalPolicy:
    """Takes the action with the highest expected return, given the steps that are left."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Raises UsageError where the environment has no table, or one without an end."""
        if not has_table(env):
            raise UsageError(
                f"{rules_of(env)['env_id']} shows no table of what its actions lead to, so nobody knows the optimal "
                "policy: leave “optimal” out (FrozenLake-v1, CliffWalking-v1 and Taxi have one)"
            )
        self._table = _Table(env.unwrapped.P)  # type: ignore[attr-defined]
        limit = rules_of(env)["max_episode_steps"]
        is_exact = limit is not None and limit * self._table.states <= _MOST_DECISIONS
        self._best = self._table.backwards(limit) if is_exact else self._table.standing()
        self._step = 0

    def begin_episode(self) -> None:
        self._step = 0

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        row = self._best[min(self._step, len(self._best) - 1)]
        self._step += 1
        return row[np.asarray(observations, np.int64).reshape(-1)].astype(np.int64)


class _Table:
    """What may follow each action in each state, padded to the most outcomes that one has."""

    def __init__(self, table: dict[int, dict[int, list[tuple[float, int, float, bool]]]]) -> None:
        self.states, actions = len(table), len(table[0])
        most = max(len(found) for row in table.values() for found in row.values())
        shape = (self.states, actions, most)
        self._chance, self._reward, self._goes_on = (np.zeros(shape) for _ in range(3))
        self._next = np.zeros(shape, np.int64)
        for state, row in table.items():
            for action, outcomes in row.items():
                for place, (chance, following, reward, is_over) in enumerate(outcomes):
                    at = (state, action, place)
                    self._chance[at], self._next[at], self._reward[at] = chance, int(following), float(reward)
                    self._goes_on[at] = not is_over

    def backwards(self, limit: int) -> NDArray[np.int16]:
        """The best action for each step and state."""
        values, best = np.zeros(self.states), np.zeros((limit, self.states), np.int16)
        for step in reversed(range(limit)):
            worth = self._worth(values)
            values, best[step] = worth.max(axis=1), _first_best(worth)
        return best

    def standing(self) -> NDArray[np.int16]:
        """The best action for each state. Raises UsageError where values grow without end."""
        values = np.zeros(self.states)
        for _ in range(_MOST_SWEEPS):
            worth = self._worth(values)
            now = worth.max(axis=1)
            if np.abs(now - values).max() < _STILL:
                return _first_best(worth)[None]
            values = now
        raise UsageError("the values of this environment grow without end: there is no optimal policy without discount")

    def _worth(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (self._chance * (self._reward + self._goes_on * values[self._next])).sum(axis=2)
        return found


def _first_best(worth: NDArray[np.float64]) -> NDArray[np.int16]:
    return (worth >= worth.max(axis=1, keepdims=True) - _TIE).argmax(axis=1).astype(np.int16)
