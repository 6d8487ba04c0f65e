"""One agent's learning: episodes run in the manner that a plan chose, recorded, and learned from."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic_worker.recording.step_lane import StepLane
from mosaic_worker.recording.whole_episodes import EpisodeBatch, WholeEpisode
from spade_bdi_rl_worker.learning.algorithms import Learner, one_of_the_best
from spade_bdi_rl_worker.learning.confidence import Confidence
from spade_bdi_rl_worker.learning.many_episodes import MOST_SEED, Ended, ManyEpisodes, many_episodes
from spade_bdi_rl_worker.learning.strategy import Budget, Line, Strategy
from spade_bdi_rl_worker.learning.worlds import StateName, SteppedWorld, TableWorld

How: TypeAlias = Literal["explore", "exploit", "cached", "repair"]
MANNERS: tuple[How, ...] = ("explore", "exploit", "cached", "repair")
REPAIR_EPSILON = 0.3
TRIAL = 50
"""Episodes after which it is decided whether a cached policy brings what it promised."""
SHORTFALL = 0.4
"""A cached policy fails when it brings so much less than it promised."""
_MOST_UNRECORDED = 4096
"""Steps that may wait to be recorded,"""
_MOST_PLAYED = 512
"""and episodes that were played many at once."""


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


@dataclass(slots=True)
class Played:
    """What came of several."""

    lengths: list[int]
    totals: list[float]
    last: Episode


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
        self._batch = EpisodeBatch()
        """What is not recorded yet, unless it was played many at once: then that holds it,"""
        self._extras: list[Mapping[str, Any] | None] = []
        """and this what stands with the first step of each."""
        self._path: list[int] = []
        """The states of the newest episode that was recorded."""
        self._trial: deque[float] = deque(maxlen=TRIAL)
        self._first_seed = (seed * 7919 + index * 104_729) * 1_000_003
        self._every_value = every_value
        self._many = many_episodes(world, learner, self.confidence)

    # ---- episodes ------------------------------------------------------------------------------------------------

    def run_episode(self, how: How, extras: Mapping[str, Any] | None = None) -> Episode:
        """Run one from its start to its end and learn from it. ``extras`` stand with its first step. It is recorded
        with the next :meth:`record`, sooner where there is much to record.

        ``explore`` acts at random as often as the strategy says, ``exploit`` as seldom as it ever will, ``repair`` in
        between; ``cached`` never: it follows the cached policy and learns what that brings.
        """
        if self._many is not None and len(self._many):
            self.record()  # a batch has either
        try:
            return self._run_episode(how, extras)
        except BaseException:
            self._batch.forget_unfinished()
            raise

    def _run_episode(self, how: How, extras: Mapping[str, Any] | None) -> Episode:
        world, learner, batch = self.world, self.learner, self._batch
        q, update, step, limit = learner.q, learner.update, world.step, world.limit
        learner.alpha = self.strategy.alpha_at(self.progress)
        epsilon, policy = self._epsilon(how), self.policy if how == "cached" else None
        draw, actions, gamma = self.chance.random, world.actions, learner.gamma
        sure = world.sure if isinstance(world, TableWorld) else None
        grows = isinstance(world, SteppedWorld) and not world.is_numbered
        rows: list[list[float]] | None = [] if self._every_value else None
        see, do = batch.observations.append, batch.actions.append
        gain, expect = batch.rewards.append, batch.values.append
        seed = (self._first_seed + self.episodes) % MOST_SEED
        state = world.begin(seed)
        length, total, brought, promised, discount = 0, 0.0, 0.0, 0.0, 1.0
        before = action = 0
        reward, terminated = 0.0, False
        while True:  # every line of it counts: it runs a hundred thousand times a second
            if grows:
                learner.grow(world.states)
            if terminated:
                update(before, action, reward, state, 0, 0.0, True)
                break
            row = q[state]
            best = max(row)
            if policy is not None and state < len(policy):
                chosen = policy[state]
            elif epsilon and draw() < epsilon:
                chosen = int(draw() * actions)
            elif row.count(best) == 1:
                chosen = row.index(best)
            else:
                chosen = one_of_the_best(row, best, draw())
            if length:
                update(before, action, reward, state, chosen, best, False)
                if length >= limit or world.truncated:
                    break
            else:
                promised = best
            see(state)
            do(chosen)
            expect(best)
            if rows is not None:
                rows.append(row.copy())
            before, action = state, chosen
            state, reward, terminated = sure[state][chosen] if sure is not None else step(state, chosen)
            gain(reward)
            if reward:
                total += reward
                brought += reward * discount
            discount *= gamma
            length += 1
        self._note(how, promised, brought, length, success := terminated and (reward > 0 or not world.has_prizes))
        number = self._keep(WholeEpisode(seed, length, total, state, terminated, extras), rows, by_steps=grows)
        return Episode(number, length, total, terminated, success)

    def _keep(self, episode: WholeEpisode, rows: list[list[float]] | None, *, by_steps: bool) -> int:
        """Have the newest episode recorded, later where it can be; the number that it has in the run."""
        batch = self._batch
        batch.end(episode)
        number = self._newest_number
        if by_steps or rows is not None:
            self._record_steps(rows)
        elif len(batch.actions) >= _MOST_UNRECORDED:
            self.record()
        return number

    def plays_many(self, how: How) -> bool:
        """Whether :meth:`run_episodes` can be called."""
        return self._many is not None and how != "cached" and not self._every_value

    def run_episodes(
        self,
        how: How,
        count: int,
        budget: Budget,
        explain: Callable[[list[float]], list[Mapping[str, Any] | None]],
    ) -> Played:
        """Run so many one after the other, as :meth:`run_episode` would while :attr:`progress` is what is used up of
        the budget, and fewer where all of it is. ``explain`` gets the confidence after each, and gives what stands with
        the first step of each."""
        many = self._many
        assert many is not None
        if len(self._batch):
            self.record()
        known, first = len(many), self.episodes
        epsilon = self.strategy.epsilon_line if how == "explore" else Line(self._epsilon(how))
        seed = self._first_seed + first
        try:
            pace = self.strategy.alpha_line, epsilon
            self.progress = many.play(seed, count, budget, pace, (self.steps, first))
        except BaseException:
            many.forget_unfinished()
            raise
        finally:  # what ended is kept, whatever happened to the next one
            ended = many.ended[known:]
            self._extras += explain([confidence for _, _, _, confidence in ended])
            played = self._note_many(many, ended)
        assert played is not None, "none was asked for"
        if len(many) >= _MOST_PLAYED:
            self.record()
        return played

    def _note_many(self, many: ManyEpisodes, ended: list[Ended]) -> Played | None:
        """Count them."""
        if not ended:
            return None
        lengths = [length for length, _, _, _ in ended]
        totals = [total for _, total, _, _ in ended]
        successes = many.successes(ended)
        self.episodes += len(lengths)
        self.steps += sum(lengths)
        self.successes += successes.count(True)
        self.recent.extend(successes)
        self._recent_successes = self.recent.count(True)
        _, _, (_, _, _, terminated), _ = ended[-1]
        newest = Episode(self._newest_number, lengths[-1], totals[-1], terminated, successes[-1])
        return Played(lengths, totals, newest)

    @property
    def _newest_number(self) -> int:
        """The number of the newest episode in the run."""
        if self.lane is None:
            return self.episodes - 1
        return self.lane.next_episode + len(self._batch) + len(self._many or ()) - 1

    def record(self) -> None:
        """Record what was played. Whatever is told of an episode is told after that."""
        batch, many = self._batch, self._many
        self._path = self.path
        if many is not None and len(many):
            batch = many.hand_over(self._first_seed + self.episodes - len(many))
            batch.extras, self._extras = self._extras, []
        if len(batch) and self.lane is not None:
            self.lane.append_episodes(batch)
        batch.clear()

    @property
    def path(self) -> list[int]:
        """The states of the newest episode."""
        batch = self._batch
        if self._many is not None and len(self._many):
            return self._many.path
        if not len(batch):
            return self._path
        return [*batch.observations[-batch.lengths[-1] :], batch.finals[-1]]

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

    def _record_steps(self, rows: list[list[float]] | None) -> None:
        """Record the newest episode step by step: with the values of each, or as the world shows it."""
        batch, lane, world = self._batch, self.lane, self.world
        episode = batch.pop()
        first = len(batch.actions) - episode.length
        taken, rewards, values = batch.actions[first:], batch.rewards[first:], batch.values[first:]
        shown: list[Any] = [*batch.observations[first:], episode.final_observation]
        path = list(shown)
        batch.forget_unfinished()
        self.record()  # what came before it
        self._path = path
        if lane is None:
            return
        if isinstance(world, SteppedWorld):
            shown = world.shown
        lane.begin_episode(episode.seed)
        final = episode.length - 1
        for at, action in enumerate(taken):
            lane.append(
                shown[at],
                action,
                rewards[at],
                episode.terminated and at == final,
                not episode.terminated and at == final,
                value=values[at],
                extras=_step_extras(episode.extras if at == 0 else None, rows[at] if rows else None),
                final_observation=shown[-1] if at == final else None,
            )

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


def _step_extras(mind: Mapping[str, Any] | None, row: list[float] | None) -> dict[str, Any] | None:
    if row is None:
        return dict(mind) if mind else None
    found = dict(mind or {})
    return {**found, "mind": {**found.get("mind", {}), "values": [round(value, 6) for value in row]}}


def new_chance(seed: int, index: int) -> random.Random:
    """An agent's own source of chance."""
    return random.Random(f"{seed}/{index}")
