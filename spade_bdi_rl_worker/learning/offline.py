"""Values of actions learned from steps that somebody else made, before the first episode is played.

No learning rate, no chance, no order: each action that was tried is worth the mean of what it led to, and the values
are swept over until they agree with each other. In a state that follows, only actions that were tried there count: of
the others nobody knows anything, and they must not seem better than what somebody showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spade_bdi_rl_worker.learning.algorithms import DynaQ, Learner, Sarsa

MOST_SWEEPS = 2000
_ENOUGH = 1e-7
"""A sweep that changes no value by more is the last one."""


@dataclass(frozen=True)
class Experience:
    """Steps in the numbers of a world; equal ones are one row with a count."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    after: NDArray[np.int64]
    """The state that followed; -1 where nobody recorded what a last step led to."""
    over: NDArray[np.bool_]
    next_actions: NDArray[np.int64]
    """What was done there; -1 where nothing was."""
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.float64], counts: NDArray[np.int64]) -> Experience:
        """Rows of state, action, reward, state after it, whether it was over, and the next action."""
        state, action, reward, after, over, following = rows.T
        whole = [one.astype(np.int64) for one in (state, action, after, following)]
        return cls(whole[0], whole[1], reward, whole[2], over.astype(np.bool_), whole[3], counts)

    @property
    def steps(self) -> int:
        return int(self.counts.sum())


def teach(learner: Learner, experience: Experience) -> None:
    """Fill a learner's table with what the steps are worth. SARSA judges them by what was done afterwards, the others
    by the best that was tried there."""
    q = _swept(experience, (len(learner.q), learner.actions), learner.gamma, on_policy=isinstance(learner, Sarsa))
    visits = np.bincount(experience.states, experience.counts, len(learner.q)).astype(np.int64)
    tables: dict[str, NDArray[Any]] = {"q": q, "visits": visits}
    if isinstance(learner, DynaQ):
        tables["memories"] = _memories(experience)
    learner.tables = tables


def _swept(seen: Experience, shape: tuple[int, int], gamma: float, *, on_policy: bool) -> NDArray[np.float64]:
    states, actions = shape
    pair = seen.states * actions + seen.actions
    tries = np.bincount(pair, seen.counts, states * actions)
    tried = (tries > 0).reshape(shape)
    follows = seen.after * actions + np.maximum(seen.next_actions, 0)
    is_followed = (seen.next_actions >= 0) & tried.reshape(-1)[follows] & on_policy
    q, floor = np.zeros(shape), 0.0
    for _ in range(MOST_SWEEPS):
        best = np.where(tried, q, -np.inf).max(axis=1)
        ahead = np.where(tried.any(axis=1), best, floor)[seen.after]
        ahead = np.where(is_followed, q.reshape(-1)[follows], ahead)
        targets = seen.rewards + np.where(seen.over, 0.0, gamma * ahead)
        swept = (np.bincount(pair, seen.counts * targets, states * actions) / np.maximum(tries, 1)).reshape(shape)
        change, q = float(np.abs(swept - q).max()), swept
        floor = min(0.0, float(q[tried].min()))
        if change <= _ENOUGH:
            break
    # What nobody tried is worth no more than the worst that somebody did: where every step costs something, an action
    # that stays at 0 would be preferred to all that is known.
    q[tried.any(axis=1, keepdims=True) & ~tried] = floor
    return q


def _memories(seen: Experience) -> NDArray[np.float64]:
    """For Dyna-Q, which keeps one outcome of each action, the last of these: the one that came most often."""
    order = np.argsort(seen.counts, kind="stable")
    known = order[(seen.after >= 0)[order]]
    columns = (seen.states, seen.actions, seen.rewards, seen.after, seen.over)
    return np.stack([one[known].astype(np.float64) for one in columns], axis=1)
