"""Many episodes of Q-learning one after the other, in a world that leaves nothing to chance: several times as fast as
one by one, and the same to the bit.

:meth:`~spade_bdi_rl_worker.learning.runtime.QLearningRuntime.run_episode` is how it reads in a textbook. Here the rule
of :class:`~spade_bdi_rl_worker.learning.algorithms.QLearning` stands in the loop, what is best in a state is looked for
only where a value changed there, a step is noted by the number of its move, and what an episode leaves behind is
counted when all are over. A test holds both to the same numbers.
"""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TypeAlias

import numpy as np

from mosaic_worker.recording.whole_episodes import EpisodeBatch
from spade_bdi_rl_worker.learning.algorithms import Learner, QLearning
from spade_bdi_rl_worker.learning.confidence import WINDOW, Confidence, agreement, in_hundredths
from spade_bdi_rl_worker.learning.strategy import Budget, Line
from spade_bdi_rl_worker.learning.worlds import SteppedWorld, TableWorld

MOST_SEED = 2**31
Move: TypeAlias = tuple[int, int, float, bool]
"""Its number, the next state, the reward, whether the episode is over."""
View: TypeAlias = tuple[float, int, list[int] | None, list[float], list[Move]]
"""Of a state: the best value, the first action that has it, all of them where there are several, the values and the
moves of its actions."""
Ended: TypeAlias = tuple[int, float, Move, float]
"""Of an episode: its length, its return, its last move, and how far the table could then be relied on, in
hundredths."""


def many_episodes(world: TableWorld | SteppedWorld, learner: Learner, confidence: Confidence) -> ManyEpisodes | None:
    """For a world and a learner that it is made for; else None."""
    if type(learner) is not QLearning or not isinstance(world, TableWorld) or world.sure is None:
        return None
    return ManyEpisodes(world, learner, confidence)


class ManyEpisodes:
    """Plays, and holds what came of it until :meth:`hand_over`. Belongs to the agent's thread."""

    def __init__(self, world: TableWorld, learner: QLearning, confidence: Confidence) -> None:
        assert world.sure is not None
        self._world, self._learner, self._confidence = world, learner, confidence
        actions = world.actions
        self._moves: list[list[Move]] = [
            [(state * actions + action, *outcome) for action, outcome in enumerate(row)]
            for state, row in enumerate(world.sure)
        ]
        self._states, self._actions = np.divmod(np.arange(world.states * actions), actions)
        self._rewards = np.array([reward for _, _, reward, _ in chain.from_iterable(self._moves)])
        self._discounts = [1.0]
        """After so many steps, by multiplication: a power differs in the last bit."""
        self._walked: list[int] = []
        """The numbers of the moves, all episodes in a row,"""
        self._values: list[float] = []
        """and what the table promised before each."""
        self.ended: list[Ended] = []
        """The episodes that are held."""

    def play(  # noqa: C901 - one loop: a call costs as much as a step
        self, seed: int, count: int, budget: Budget, pace: tuple[Line, Line], so_far: tuple[int, int]
    ) -> float:
        """So many episodes, of this seed and the next ones, fewer where the budget is used up; how much of it is.
        ``pace``: alpha and epsilon as they change with that; ``so_far``: steps and episodes."""
        world, learner, confidence = self._world, self._learner, self._confidence
        visits, gamma, actions, draw = learner.visits, learner.gamma, world.actions, learner.chance.random
        walk, expect, end = self._walked.append, self._values.append, self.ended.append
        begin, range_of_steps, discounts = world.begin, range(1, world.limit + 1), self._discounts
        (alpha_begin, alpha_rise, alpha_span), (epsilon_begin, epsilon_rise, epsilon_span) = pace
        most_steps, most_episodes = budget.steps, budget.episodes
        steps, episodes = so_far
        promised_mean, brought_mean = confidence.promised.value, confidence.brought.value
        seen = confidence.promised.count
        done = budget.progress(steps, episodes)
        known: list[View | None] = [None] * world.states  # of now: others may have changed the table meanwhile
        look = self._look
        try:
            for own_seed in range(seed, seed + count):
                alpha = alpha_begin + alpha_rise * (done / alpha_span if done < alpha_span else 1.0)
                epsilon = epsilon_begin + epsilon_rise * (done / epsilon_span if done < epsilon_span else 1.0)
                total = brought = 0.0
                state = begin(own_seed % MOST_SEED)
                best, action, ties, row, moves = known[state] or look(state, known)
                promised = best
                if epsilon and draw() < epsilon:
                    action = int(draw() * actions)
                elif ties:
                    action = ties[int(draw() * len(ties))]
                for length in range_of_steps:  # every line of it counts: it runs several 100,000 times a second
                    move = moves[action]
                    number, after, reward, over = move
                    walk(number)
                    expect(best)
                    if reward:
                        total += reward
                        while len(discounts) < length:
                            discounts.append(discounts[-1] * gamma)
                        brought += reward * discounts[length - 1]
                    value = row[action]
                    if over:
                        learned = value + alpha * (reward - value)
                        if learned != value:
                            row[action], known[state] = learned, None
                        visits[state] += 1
                        break
                    best, chosen, ties, following, moves = known[after] or look(after, known)
                    if epsilon and draw() < epsilon:
                        chosen = int(draw() * actions)
                    elif ties:
                        chosen = ties[int(draw() * len(ties))]
                    learned = value + alpha * (reward + gamma * best - value)
                    if learned != value:  # seldom, once the table is what it will be
                        row[action], known[state] = learned, None
                    visits[state] += 1
                    state, row, action = after, following, chosen
                if seen < WINDOW:
                    seen += 1
                promised_mean += (promised - promised_mean) / seen
                brought_mean += (brought - brought_mean) / seen
                end((length, total, move, in_hundredths(agreement(promised_mean, brought_mean))))
                steps += length
                episodes += 1
                done = episodes / most_episodes if most_episodes else 0.0
                if most_steps and steps / most_steps > done:
                    done = steps / most_steps
                if done >= 1.0:
                    return 1.0
            return done
        finally:
            confidence.state = [promised_mean, seen, brought_mean, seen]

    def _look(self, state: int, known: list[View | None]) -> View:
        """What is to be known of a state; it holds until a value there changes."""
        row = self._learner.q[state]
        best = max(row)
        ties = [action for action, value in enumerate(row) if value == best] if row.count(best) > 1 else None
        view = known[state] = best, row.index(best), ties, row, self._moves[state]
        return view

    def __len__(self) -> int:
        """How many episodes it holds."""
        return len(self.ended)

    @property
    def path(self) -> list[int]:
        """The states of the newest episode."""
        length, _, (_, final, _, _), _ = self.ended[-1]
        return [*(number // self._world.actions for number in self._walked[-length:]), final]

    def successes(self, ended: list[Ended]) -> list[bool]:
        """Whether each of these succeeded."""
        any_end = not self._world.has_prizes
        return [over and (any_end or reward > 0) for _, _, (_, _, reward, over), _ in ended]

    def forget_unfinished(self) -> None:
        """Steps of an episode that has no end are none."""
        known = sum(length for length, _, _, _ in self.ended)
        del self._walked[known:], self._values[known:]

    def hand_over(self, first_seed: int) -> EpisodeBatch:
        """What was played, but for extras; it holds nothing then. ``first_seed``: of the first episode."""
        batch = EpisodeBatch()
        moves = np.frombuffer(array("q", self._walked), np.int64)
        batch.observations = array("q", self._states[moves].tobytes())
        batch.actions = array("q", self._actions[moves].tobytes())
        batch.rewards = array("d", self._rewards[moves].tobytes())
        batch.values = array("d", self._values)
        batch.seeds = [seed % MOST_SEED for seed in range(first_seed, first_seed + len(self))]
        batch.lengths = [length for length, _, _, _ in self.ended]
        batch.totals = [total for _, total, _, _ in self.ended]
        batch.finals = [final for _, _, (_, final, _, _), _ in self.ended]
        batch.terminated = [over for _, _, (_, _, _, over), _ in self.ended]
        self._walked.clear()
        self._values.clear()
        self.ended.clear()
        return batch
