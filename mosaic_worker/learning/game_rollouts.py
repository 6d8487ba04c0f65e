"""Rollouts of games that are looked at as pictures: the pass that chooses actions also gives their values."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.learning.folding import folded, folded_shape
from mosaic_worker.learning.rollouts import Batch
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.training.session import TrainingSession


class Games(Protocol):
    """Games that are played side by side; a finished one is begun again within the step that finished it."""

    observations: NDArray[np.uint8]

    def step(self, actions: NDArray[np.int64]) -> Any:
        """What one step brought: rewards, terminated, truncated, cut_off, finished."""


class GameRollout:
    """What the games went through between two updates; row `t` of each array is step `t` of them all.

    `filled` rows are done: a stop may come in the middle of one, and a resumed run goes on there. Once `used` it is
    not needed any more, and checkpoints leave it out.
    """

    ARRAYS = ("observations", "actions", "log_probs", "rewards", "values", "terminated", "truncated", "final_values")

    def __init__(self, steps: int, envs: int, shape: tuple[int, int, int]) -> None:
        self.filled, self.steps, self.used = 0, steps, True
        self.observations = np.zeros((steps, envs, *shape), dtype=np.uint8)
        self.actions = np.zeros((steps, envs), dtype=np.int64)
        self.log_probs, self.rewards, self.values = np.zeros((3, steps, envs), dtype=np.float32)
        self.terminated, self.truncated = np.zeros((2, steps, envs), dtype=bool)
        # Value of the state that a time limit cut an episode off in, where `truncated`.
        self.final_values = np.zeros((steps, envs), dtype=np.float32)

    def begin(self, steps: int) -> None:
        self.filled, self.steps, self.used = 0, steps, False

    def arrays(self) -> list[NDArray[Any]]:
        """The rows of this rollout, which may be shorter than there is room for."""
        return [getattr(self, name)[: self.steps] for name in self.ARRAYS]

    @property
    def content(self) -> dict[str, Any]:
        rows = 0 if self.used else self.filled
        kept = {name: getattr(self, name)[:rows] for name in self.ARRAYS}
        return kept | {"filled": self.filled, "steps": self.steps, "used": self.used}

    @content.setter
    def content(self, kept: dict[str, Any]) -> None:
        self.filled, self.steps, self.used = kept["filled"], kept["steps"], kept["used"]
        for name in self.ARRAYS:
            getattr(self, name)[: len(kept[name])] = kept[name]


class GameCollector:
    """Plays the games and keeps what must survive from one rollout to the next.

    `agent` gives (logits, values) of folded observations.
    """

    def __init__(
        self, games: Games, session: TrainingSession, agent: nn.Module, args: Any, device: torch.device
    ) -> None:
        self.games, self.session, self.agent, self.device = games, session, agent, device
        self.random = action_stream(args.seed)
        self.global_step = 0
        _, stack, side, _ = games.observations.shape
        self.rollout = GameRollout(args.num_steps, args.num_envs, folded_shape(stack, side))

    def collect(self, steps: int) -> GameRollout | None:
        """Play `steps` steps in every game, or return None when the session asks to stop meanwhile."""
        rollout = self.rollout
        if rollout.used:
            rollout.begin(steps)
        steps = rollout.steps = max(steps, rollout.filled)  # of a run that was resumed with another end
        while rollout.filled < steps:
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return None
            self._step(rollout, rollout.filled)
            rollout.filled += 1
        return rollout

    @property
    def steps_done(self) -> int:
        """Steps of each game in the rollouts that were learned from."""
        return self.global_step // len(self.games.observations) - (0 if self.rollout.used else self.rollout.filled)

    def values_now(self) -> NDArray[np.float32]:
        """The critic's value of the observations that the games are in."""
        return self._look(folded(self.games.observations))[1]

    def _step(self, rollout: GameRollout, step: int) -> None:
        rollout.observations[step] = folded(self.games.observations)
        log_probs, rollout.values[step] = self._look(rollout.observations[step])
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        actions = (log_probs + self.random.gumbel(size=log_probs.shape)).argmax(axis=1)
        rollout.actions[step] = actions
        rollout.log_probs[step] = log_probs[np.arange(len(actions)), actions]
        found = self.games.step(actions)
        self.global_step += len(actions)
        rollout.rewards[step] = np.sign(found.rewards)
        rollout.terminated[step], rollout.truncated[step] = found.terminated, found.truncated
        for env, observation in found.cut_off:
            rollout.final_values[step, env] = self._look(folded(observation[None]))[1][0]
        for _, score, frames in found.finished:
            ended = {"charts/episodic_return": score, "charts/episodic_length": frames}
            self.session.scalars(self.global_step, ended)

    @torch.inference_mode()
    def _look(self, pictures: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(log-probabilities, values)"""
        logits, values = self.agent(torch.from_numpy(pictures).to(self.device))
        return F.log_softmax(logits, dim=1).cpu().numpy(), values.cpu().numpy()


def batch_of(rollout: GameRollout, last_values: NDArray[np.float32], args: Any, device: torch.device) -> Batch:
    """Advantages and returns of a rollout that left the games in states of these values."""
    observations, actions, log_probs, rewards, values, terminated, truncated, final_values = rollout.arrays()
    next_values = np.concatenate([values[1:], last_values[None]])
    next_values = np.where(truncated, final_values, next_values)
    advantages = advantages_of(rewards, values, next_values, terminated, truncated, args.gamma, args.gae_lambda)
    columns = (observations, actions, log_probs, advantages, advantages + values, values)
    return Batch(*(flat(column, device) for column in columns))


def flat(array: NDArray[Any], device: torch.device) -> Tensor:
    """(steps, environments, …) as rows on the training device."""
    return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(device)


class SoftmaxPolicy:
    """A trained agent that plays; it gives logits and values of folded observations, and perhaps more."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    @torch.inference_mode()
    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        """The action for each observation: the likeliest, or one drawn as in training."""
        logits = self.agent(torch.from_numpy(folded(observations)))[0].numpy()
        noise = 0 if deterministic else random.gumbel(size=logits.shape)
        return np.asarray((logits + noise).argmax(axis=1))

    @torch.inference_mode()
    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """How likely each action is, and what is expected of the game's rewards."""
        logits, values, *_ = self.agent(torch.from_numpy(folded(observations)))
        return {"probabilities": logits.softmax(dim=1).numpy(), "value": values.numpy()}
