"""Acting for algorithms that value discrete actions: mostly the best one, now and then one at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic_worker.learning.environments import Environments
from mosaic_worker.learning.fast_acting import NumpyForm, Rows, numpy_form
from mosaic_worker.learning.replay_buffer import ReplayBuffer
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.policies.policy import flat_rows, now_and_then_at_random
from mosaic_worker.training.session import TrainingSession

Choice = Callable[[Rows], NDArray[np.int64]]
"""Observations to the best action of each row, counted from 0."""

_GREEDY = -1


def highest_value(network: nn.Module) -> Choice:
    """The action of highest value, in numpy: ``network(rows).argmax(dim=1)``."""
    values = numpy_form(network)
    return lambda rows: values(rows).argmax(axis=1)


def highest_mean(network: nn.Module, atoms: Tensor) -> Choice:
    """The action whose distribution over the atoms has the highest mean, in numpy.

    The same as ``(network(rows).view(rows, actions, atoms).softmax(dim=2) @ atoms).argmax(dim=1)``.
    """
    means = means_of(network, atoms)
    return lambda rows: means(rows).argmax(axis=1)


def means_of(network: nn.Module, atoms: Tensor) -> Callable[[Rows], Rows]:
    """The mean of each action's distribution over the atoms."""
    return means_over(numpy_form(network), atoms.cpu().numpy())


def means_over(outputs: NumpyForm, places: Rows) -> NumpyForm:
    """The same of a network's form in numpy, and of atoms in numpy."""

    def means(rows: Rows) -> Rows:
        logits = outputs(rows).reshape(len(rows), -1, len(places))
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        found: Rows = (weights @ places) / weights.sum(axis=2)
        return found

    return means


class EpsilonGreedyCollector:
    """Steps the environments and fills the buffer."""

    PARTS = ("random", "global_step", "observation", "returns", "lengths")

    def __init__(self, envs: Environments, session: TrainingSession, buffer: ReplayBuffer, seed: int) -> None:
        space = envs.single_action_space
        assert isinstance(space, gym.spaces.Discrete)
        self.action_count, self.first_action = int(space.n), int(space.start)
        self.envs, self.session, self.buffer = envs.envs, session, buffer
        self.random = action_stream(seed)
        self.global_step = 0
        first_observations = [env.reset(seed=seed + number)[0] for number, env in enumerate(self.envs)]
        self.observation = np.array(first_observations, dtype=np.float32).reshape(len(self.envs), -1)
        self.returns, self.lengths = [0.0] * len(self.envs), [0] * len(self.envs)

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold."""
        self.observation[:] = [np.asarray(env.reset()[0]).reshape(-1) for env in self.envs]
        self.returns, self.lengths = [0.0] * len(self.envs), [0] * len(self.envs)

    def step(self, best: Choice, epsilon: float) -> None:
        """Act once in every environment, at random with probability `epsilon`, and store what happened."""
        self.global_step += len(self.envs)
        for number, action in enumerate(self._choose(best, epsilon)):
            env, observation = self.envs[number], self.observation[number]
            following, reward, terminated, truncated, _ = env.step(self.first_action + action)
            following = np.asarray(following).reshape(-1)
            self.buffer.add(observation, following, action, float(reward), terminated)
            self.returns[number] += float(reward)
            self.lengths[number] += 1
            if terminated or truncated:
                self._end_episode(number, epsilon)
                following = np.asarray(env.reset()[0]).reshape(-1)
            observation[:] = following

    def _choose(self, best: Choice, epsilon: float) -> list[int]:
        """An action for each environment, counted from 0."""
        draw = self.random.random
        actions = [int(draw() * self.action_count) if draw() < epsilon else _GREEDY for _ in self.envs]
        if _GREEDY in actions:
            found = best(self.observation).tolist()
            actions = [found[number] if action == _GREEDY else action for number, action in enumerate(actions)]
        return actions

    def _end_episode(self, number: int, epsilon: float) -> None:
        ended = {
            "charts/episodic_return": self.returns[number],
            "charts/episodic_length": self.lengths[number],
            "charts/epsilon": epsilon,
        }
        self.session.scalars(self.global_step, ended)
        self.returns[number], self.lengths[number] = 0.0, 0


class EpsilonGreedyPolicy:
    """The network of a checkpoint, choosing actions; sampled means: at random as often as at the end of training."""

    def __init__(
        self,
        best: Choice,
        action: dict[str, Any],
        epsilon: float,
        *,
        flat: bool = True,
        values: Callable[[Rows], NDArray[np.float32]] | None = None,
    ) -> None:
        """`action` describes the action space; `flat` for a network that takes rows of numbers; `values` gives the
        value of each action, for recordings, which keep them."""
        self.best, self.epsilon, self.flat, self.values = best, epsilon, flat, values
        self.action_count, self.first_action = action["n"], action["start"]

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        chosen = self.best(flat_rows(observations) if self.flat else observations)
        if not deterministic:
            chosen = now_and_then_at_random(chosen, self.epsilon, self.action_count, random)
        return chosen + self.first_action

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        """The value of each action, and of the best one."""
        if self.values is None:
            return {}
        values = self.values(flat_rows(observations) if self.flat else observations)
        return {"value": values.max(axis=1), "action_values": values}
