"""Four ways to learn the values of actions from experience. Each has its rule in one place, ``update``.

Tables are lists of rows, one row of values for each state: in a loop of Python a list is read several times as fast as
an array. :attr:`Learner.tables` are the same numbers as arrays, for checkpoints.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

Table: TypeAlias = list[list[float]]


def one_of_the_best(row: list[float], best: float, drawn: float) -> int:
    """Of several actions that are as good: the one that was drawn, a number from 0 to 1."""
    ties = [action for action, value in enumerate(row) if value == best]
    return ties[int(drawn * len(ties))]


def _blend(row: list[float], values: Sequence[float], share: float) -> None:
    for action, value in enumerate(values):
        row[action] += share * (value - row[action])


class Learner:
    """A table of values and the rule that changes it. :attr:`q` is what actions are chosen by."""

    name: ClassVar[str]

    def __init__(self, states: int, actions: int, gamma: float, chance: random.Random) -> None:
        self.actions, self.gamma, self.chance = actions, gamma, chance
        self.alpha = 0.1
        self.q: Table = []
        self.visits: list[int] = []
        """How often each state was left by an action that was learned from."""
        self.grow(states)

    def grow(self, states: int) -> None:
        """Have room for so many states."""
        while len(self.q) < states:
            self.q.append([0.0] * self.actions)
            self.visits.append(0)

    def update(
        self, state: int, action: int, reward: float, after: int, next_action: int, best: float, over: bool
    ) -> None:
        """Learn from one step. ``next_action`` is what will be done in the state after it, unless it is ``over``, and
        ``best`` the highest value there."""
        raise NotImplementedError

    def blend(self, state: int, values: Sequence[float], share: float) -> None:
        """Move what is known of a state towards what somebody else knows; ``share`` 1: take it over."""
        _blend(self.q[state], values, share)

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        """For a checkpoint; setting them goes on from there."""
        return {"q": np.array(self.q), "visits": np.array(self.visits, np.int64)}

    @tables.setter
    def tables(self, found: dict[str, NDArray[Any]]) -> None:
        self.q[:] = found["q"].tolist()
        self.visits[:] = found["visits"].tolist()


class QLearning(Learner):
    """Off-policy: what is best afterwards counts, whatever is done."""

    name = "q_learning"

    def update(
        self, state: int, action: int, reward: float, after: int, next_action: int, best: float, over: bool
    ) -> None:
        row = self.q[state]
        target = reward if over else reward + self.gamma * best
        row[action] += self.alpha * (target - row[action])
        self.visits[state] += 1


class Sarsa(Learner):
    """On-policy: what is done afterwards counts, exploration included, so it keeps away from edges."""

    name = "sarsa"

    def update(
        self, state: int, action: int, reward: float, after: int, next_action: int, best: float, over: bool
    ) -> None:
        row = self.q[state]
        target = reward if over else reward + self.gamma * self.q[after][next_action]
        row[action] += self.alpha * (target - row[action])
        self.visits[state] += 1


class DoubleQ(Learner):
    """Two tables, each judged by the other: a lucky draw is not taken for a good action. ``q`` is their mean."""

    name = "double_q"

    def __init__(self, states: int, actions: int, gamma: float, chance: random.Random) -> None:
        self._halves: tuple[Table, Table] = ([], [])
        super().__init__(states, actions, gamma, chance)

    def grow(self, states: int) -> None:
        super().grow(states)
        for half in self._halves:
            while len(half) < states:
                half.append([0.0] * self.actions)

    def update(
        self, state: int, action: int, reward: float, after: int, next_action: int, best: float, over: bool
    ) -> None:
        one, other = self._halves if self.chance.random() < 0.5 else self._halves[::-1]
        target = reward
        if not over:
            row = one[after]
            target += self.gamma * other[after][row.index(max(row))]
        one[state][action] += self.alpha * (target - one[state][action])
        self.q[state][action] = (one[state][action] + other[state][action]) / 2
        self.visits[state] += 1

    def blend(self, state: int, values: Sequence[float], share: float) -> None:
        for table in (self.q, *self._halves):  # the mean alone would be gone with the next update
            _blend(table[state], values, share)

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        return {**super().tables, "first": np.array(self._halves[0]), "second": np.array(self._halves[1])}

    @tables.setter
    def tables(self, found: dict[str, NDArray[Any]]) -> None:
        self.q[:], self.visits[:] = found["q"].tolist(), found["visits"].tolist()
        # A table that another algorithm learned is a fair beginning for both halves.
        self._halves[0][:] = found.get("first", found["q"]).tolist()
        self._halves[1][:] = found.get("second", found["q"]).tolist()


class DynaQ(QLearning):
    """Q-learning that also remembers what each action led to, and learns from memories between two steps."""

    name = "dyna_q"

    def __init__(self, states: int, actions: int, gamma: float, chance: random.Random, planning_steps: int = 5) -> None:
        self.planning_steps = planning_steps
        self._memories: list[tuple[int, int, float, int, bool]] = []
        self._place_of: dict[tuple[int, int], int] = {}
        super().__init__(states, actions, gamma, chance)

    def update(
        self, state: int, action: int, reward: float, after: int, next_action: int, best: float, over: bool
    ) -> None:
        super().update(state, action, reward, after, next_action, best, over)
        self._remember(state, action, reward, after, over)
        memories, draw = self._memories, self.chance.random
        for _ in range(self.planning_steps):
            state, action, reward, after, over = memories[int(draw() * len(memories))]
            row = self.q[state]
            target = reward if over else reward + self.gamma * max(self.q[after])
            row[action] += self.alpha * (target - row[action])

    def _remember(self, state: int, action: int, reward: float, after: int, over: bool) -> None:
        """The newest outcome of each action: in a world of chance that is one of several."""
        place = self._place_of.setdefault((state, action), len(self._memories))
        memory = (state, action, reward, after, over)
        if place == len(self._memories):
            self._memories.append(memory)
        else:
            self._memories[place] = memory

    @property
    def tables(self) -> dict[str, NDArray[Any]]:
        return {**super().tables, "memories": np.array(self._memories, np.float64).reshape(-1, 5)}

    @tables.setter
    def tables(self, found: dict[str, NDArray[Any]]) -> None:
        self.q[:], self.visits[:] = found["q"].tolist(), found["visits"].tolist()
        self._memories.clear()
        self._place_of.clear()
        for state, action, reward, after, over in found.get("memories", np.zeros((0, 5))).tolist():
            self._remember(int(state), int(action), reward, int(after), bool(over))


ALGORITHMS: dict[str, type[Learner]] = {one.name: one for one in (QLearning, Sarsa, DoubleQ, DynaQ)}


def make_learner(
    name: str, states: int, actions: int, gamma: float, chance: random.Random, planning_steps: int
) -> Learner:
    if name == DynaQ.name:
        return DynaQ(states, actions, gamma, chance, planning_steps)
    return ALGORITHMS[name](states, actions, gamma, chance)
