"""One agent's learning: episodes run in the manner that a plan chose, recorded, and learned from."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.recording.step_recorder import StepLane
from spade_bdi_rl_worker.learning.algorithms import Learner
from spade_bdi_rl_worker.learning.confidence import Confidence
from spade_bdi_rl_worker.learning.strategy import Strategy
from spade_bdi_rl_worker.learning.worlds import StateName, SteppedWorld, TableWorld

How: TypeAlias = Literal["explore", "exploit", "cached", "repair"]
MANNERS: tuple[How, ...] = ("explore", "exploit", "cached", "repair")
REPAIR_EPSILON = 0.3
TRIAL = 50
"""Episodes after which it is decided whether a cached policy brings what it promised."""
SHORTFALL = 0.4
"""A cached policy fails when it brings so much less than it promised."""
_MOST_SEED = 2**31


@dataclass(slots=True)
class Episode:
    """What came of one."""

    number: int
    """In the run."""
    steps: int
    total: float
    """The return, not discounted."""
    terminated: bool
    success: bool


class QLearningRuntime:
    """Belongs to the thread of its agent. ``progress`` is how much of the run is over; whoever runs the agent sets
    it."""

    def __init__(
        self,
        world: TableWorld | SteppedWorld,
        learner: Learner,
        strategy: Strategy,
        lane: StepLane | None,
        *,
        seed: int,
        index: int = 0,
        every_value: bool = False,
    ) -> None:
        """``index``: of the agent among those of the run. ``every_value``: record what the agent expects of each action
        with every step."""
        self.world, self.learner, self.strategy, self.lane = world, learner, strategy, lane
        self.chance = learner.chance
        self.confidence = Confidence()
        self.progress = 0.0
        self.episodes = self.steps = self.successes = 0
        self.recent: deque[bool] = deque(maxlen=100)
        """Whether each of the newest episodes succeeded."""
        self._recent_successes = 0
        self.policy: list[int] | None = None
        """The action for each state, as it was when a plan cached it."""
        self.policy_promise = 0.0
        self.path: list[int] = []
        """The states of the newest episode."""
        self._trial: deque[float] = deque(maxlen=TRIAL)
        self._first_seed = (seed * 7919 + index * 104_729) * 1_000_003
        self._every_value = every_value

    # ---- episodes ------------------------------------------------------------------------------------------------

    def run_episode(self, how: How, extras: Mapping[str, Any] | None = None) -> Episode:
        """Run one from its start to its end, learn from it and record it. ``extras`` stand with its first step.

        ``explore`` acts at random as often as the strategy says, ``exploit`` as seldom as it ever will, ``repair`` in
        between; ``cached`` never: it follows the cached policy and learns what that brings.
        """
        world, learner = self.world, self.learner
        q, update, step, limit = learner.q, learner.update, world.step, world.limit
        learner.alpha = self.strategy.alpha_at(self.progress)
        epsilon, policy = self._epsilon(how), self.policy if how == "cached" else None
        draw, actions = self.chance.random, world.actions
        by_table = isinstance(world, TableWorld)
        grows = isinstance(world, SteppedWorld) and not world.is_numbered
        seed = (self._first_seed + self.episodes) % _MOST_SEED

        def choose(state: int, row: list[float], best: float) -> int:
            if policy is not None and state < len(policy):
                return policy[state]
            if epsilon and draw() < epsilon:
                return int(draw() * actions)
            if row.count(best) == 1:
                return row.index(best)
            ties = [action for action, value in enumerate(row) if value == best]
            return ties[int(draw() * len(ties))]

        state = world.begin(seed)
        if grows:
            learner.grow(world.states)
        row = q[state]
        promised = best = max(row)
        action = choose(state, row, best)
        states: list[int] = []
        taken: list[int] = []
        rewards: list[float] = []
        values: list[float] = []
        rows: list[list[float]] | None = [] if self._every_value else None
        while True:  # every line of it counts: it runs a hundred thousand times a second
            after, reward, terminated = step(state, action)
            if grows:
                learner.grow(world.states)
            states.append(state)
            taken.append(action)
            rewards.append(reward)
            values.append(best)
            if rows is not None:
                rows.append(row.copy())
            if terminated:
                update(state, action, reward, after, 0, 0.0, True)
                break
            row = q[after]
            best = max(row)
            next_action = choose(after, row, best)
            update(state, action, reward, after, next_action, best, False)
            if len(taken) >= limit or (world.truncated and not by_table):
                break
            state, action = after, next_action
        success = terminated and (reward > 0 or not world.has_prizes)
        self.path = [*states, after]
        self._note(how, promised, _discounted(rewards, learner.gamma), len(taken), success)
        number = self._record(seed, states, taken, rewards, values, rows, after, terminated, extras)
        return Episode(number, len(taken), sum(rewards), terminated, success)

    def _epsilon(self, how: How) -> float:
        if how == "explore":
            return self.strategy.epsilon_at(self.progress)
        if how == "repair":
            return max(REPAIR_EPSILON, self.strategy.epsilon_end)
        return self.strategy.epsilon_end if how == "exploit" else 0.0

    def _note(self, how: How, promised: float, brought: float, steps: int, success: bool) -> None:
        self.confidence.note(promised, brought)
        self.episodes += 1
        self.steps += steps
        self.successes += success
        if len(self.recent) == 100:
            self._recent_successes -= self.recent[0]
        self.recent.append(success)
        self._recent_successes += success
        if how == "cached":
            self._trial.append(brought)

    def _record(
        self,
        seed: int,
        states: list[int],
        taken: list[int],
        rewards: list[float],
        values: list[float],
        rows: list[list[float]] | None,
        last: int,
        terminated: bool,
        extras: Mapping[str, Any] | None,
    ) -> int:
        lane, world = self.lane, self.world
        if lane is None:
            return self.episodes - 1
        shown: list[Any] = states
        if isinstance(world, SteppedWorld):
            shown, last = world.shown[:-1], world.shown[-1]
        if not rows and (isinstance(world, TableWorld) or world.is_numbered):
            return lane.append_episode(seed, shown, taken, rewards, values, last, terminated=terminated, extras=extras)
        lane.begin_episode(seed)
        final = len(taken) - 1
        for at, action in enumerate(taken):
            lane.append(
                shown[at],
                action,
                rewards[at],
                terminated and at == final,
                not terminated and at == final,
                value=values[at],
                extras=_step_extras(extras if at == 0 else None, rows[at] if rows else None),
                final_observation=last if at == final else None,
            )
        return lane.episode

    # ---- what was learned ----------------------------------------------------------------------------------------

    @property
    def success_rate(self) -> float:
        """Of the newest 100 episodes."""
        return self._recent_successes / len(self.recent) if self.recent else 0.0

    def cache_policy(self) -> None:
        """Keep what the table would do now in each state."""
        self.policy = self.greedy_policy()
        self.policy_promise = self.confidence.promised.value
        self._trial.clear()

    def drop_policy(self) -> None:
        self.policy = None
        self._trial.clear()

    @property
    def is_policy_failing(self) -> bool:
        """Whether the cached policy brings clearly less than it promised."""
        trial = self._trial
        if self.policy is None or len(trial) < TRIAL:
            return False
        return sum(trial) / TRIAL < self.policy_promise - SHORTFALL * abs(self.policy_promise)

    def greedy_policy(self) -> list[int]:
        return [row.index(max(row)) for row in self.learner.q]

    def merge(self, name: StateName, values: list[float], visits: int) -> None:
        """Take over what another agent learned of a state, by how much experience either has with it. Raises
        ValueError."""
        if len(values) != self.world.actions:
            raise ValueError(f"{len(values)} values do not fit a world of {self.world.actions} actions")
        state = self.world.named(name)
        self.learner.grow(self.world.states)
        here = self.learner.visits[state]
        self.learner.blend(state, values, visits / (here + visits) if visits > 0 else 0.0)

    # ---- for a checkpoint ----------------------------------------------------------------------------------------

    @property
    def chance_state(self) -> list[Any]:
        version, internal, gauss = self.chance.getstate()
        return [version, list(internal), gauss]

    @chance_state.setter
    def chance_state(self, found: list[Any]) -> None:
        self.chance.setstate((found[0], tuple(found[1]), found[2]))

    @property
    def counted(self) -> dict[str, Any]:
        """Everything but tables and chance."""
        return {
            "episodes": self.episodes,
            "steps": self.steps,
            "successes": self.successes,
            "recent": list(self.recent),
            "policy": self.policy,
            "policy_promise": self.policy_promise,
            "trial": list(self._trial),
            "confidence": self.confidence.state,
            "fixed": dict(self.strategy.fixed),
        }

    @counted.setter
    def counted(self, found: dict[str, Any]) -> None:
        self.episodes, self.steps, self.successes = found["episodes"], found["steps"], found["successes"]
        self.recent = deque(found["recent"], maxlen=100)
        self._recent_successes = sum(self.recent)
        self.policy, self.policy_promise = found["policy"], found["policy_promise"]
        self._trial = deque(found["trial"], maxlen=TRIAL)
        self.confidence.state = found["confidence"]
        self.strategy.fixed = dict(found["fixed"])

    @property
    def seen(self) -> NDArray[Any]:
        """What was shown in each state of a world that does not number its states."""
        return self.world.seen if isinstance(self.world, SteppedWorld) else np.zeros((0, 0), np.int16)

    @seen.setter
    def seen(self, shown: NDArray[Any]) -> None:
        if isinstance(self.world, SteppedWorld):
            self.world.seen = shown


def _discounted(rewards: list[float], gamma: float) -> float:
    """What an episode brought. Most rewards of most worlds are nothing."""
    return sum(reward * gamma**at for at, reward in enumerate(rewards) if reward)


def _step_extras(mind: Mapping[str, Any] | None, row: list[float] | None) -> dict[str, Any] | None:
    if row is None:
        return dict(mind) if mind else None
    found = dict(mind or {})
    return {**found, "mind": {**found.get("mind", {}), "values": [round(value, 6) for value in row]}}


def new_chance(seed: int, index: int) -> random.Random:
    """An agent's own source of chance."""
    return random.Random(f"{seed}/{index}")
