"""Curiosity by random network distillation: what is measured, how it is scaled, and rollouts that hold it.

Curiosity is the error with which a trained network foresees what a fixed random network makes of a picture.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.learning.folding import BLOCK, folded, folded_shape
from mosaic_worker.learning.game_rollouts import flat
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.training.session import TrainingSession

FRAME_CHANNELS = BLOCK * BLOCK
"""Channels of one folded picture."""


class Moments:
    """Mean and variance of everything seen so far, merged batch by batch without keeping it."""

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.count = 1e-4
        self.mean, self.variance = np.zeros(shape), np.ones(shape)

    PARTS = ("count", "mean", "variance")

    def update(self, batch: NDArray[Any]) -> None:
        """Take in a batch, along its first axis."""
        values = batch.astype(np.float32)
        mean, variance, count = values.mean(axis=0), values.var(axis=0), len(values)
        total = self.count + count
        shift = mean - self.mean
        squares = self.variance * self.count + variance * count + shift**2 * (self.count * count / total)
        self.mean, self.variance, self.count = self.mean + shift * (count / total), squares / total, total


class CuriosityScale:
    """What curiosity is measured on and divided by: statistics of the pictures and of its discounted sum."""

    def __init__(self, envs: int, side: int, gamma: float, device: torch.device) -> None:
        self.gamma, self.device = gamma, device
        self.pictures = Moments(folded_shape(1, side))
        self.sums = Moments()
        self.running = np.zeros(envs)

    def normalised(self, pictures: Tensor) -> Tensor:
        """The last picture of folded observations, whitened and cut at 5 standard deviations."""
        mean = torch.from_numpy(self.pictures.mean.astype(np.float32)).to(self.device)
        scale = torch.from_numpy((1 / np.sqrt(self.pictures.variance)).astype(np.float32)).to(self.device)
        return pictures[..., -FRAME_CHANNELS:].float().sub_(mean).mul_(scale).clamp_(-5, 5)

    def scaled(self, curiosity: NDArray[np.float32], resets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Curiosity (steps, environments) divided by the spread of its discounted sum, which it is added to first."""
        sums = np.empty(curiosity.shape)
        for step, row in enumerate(curiosity):
            self.running = np.where(resets[step], self.running, self.running * self.gamma + row)
            sums[step] = self.running
        self.sums.update(sums.reshape(-1))
        return (curiosity / np.sqrt(self.sums.variance)).astype(np.float32)

    def take_in(self, observations: NDArray[np.uint8]) -> None:
        """Count the last picture of folded observations."""
        self.pictures.update(observations[..., -FRAME_CHANNELS:])


class CuriousRollout:
    """What the games went through between two updates; row `t` of each array is step `t` of them all."""

    def __init__(self, steps: int, envs: int, shape: tuple[int, int, int]) -> None:
        # One row more: the observations that the last step led to.
        self.observations = np.zeros((steps + 1, envs, *shape), dtype=np.uint8)
        self.actions = np.zeros((steps, envs), dtype=np.int64)
        self.log_probs, self.rewards, self.curiosity = np.zeros((3, steps, envs), dtype=np.float32)
        # Values of the game's rewards, then of curiosity; again one row more.
        self.values = np.zeros((2, steps + 1, envs), dtype=np.float32)
        self.terminated, self.truncated, self.resets = np.zeros((3, steps, envs), dtype=bool)
        # (step, environment, value) where a time limit cut an episode off and the next row shows another one.
        self.cut_off: list[tuple[int, int, float]] = []


class CuriousCollector:
    """Plays the games and keeps what must survive from one rollout to the next."""

    PARTS = ("random", "global_step", "recent")

    def __init__(
        self,
        games: Any,
        session: TrainingSession,
        agent: nn.Module,
        curiosity: Any,
        scale: CuriosityScale,
        args: Any,
        device: torch.device,
    ) -> None:
        """`agent` gives (logits, values of the game's rewards, values of curiosity) of folded observations."""
        self.games, self.session, self.device = games, session, device
        self.agent, self.curiosity, self.scale = agent, curiosity, scale
        self.random = action_stream(args.seed)
        self.global_step = 0
        self.recent: deque[float] = deque(maxlen=20)
        # Since each game began; of a game that a checkpoint interrupted, since the run was resumed.
        self.game_curiosity = np.zeros(args.num_envs)
        _, stack, side, _ = games.observations.shape
        self.rollout = CuriousRollout(args.num_steps, args.num_envs, folded_shape(stack, side))

    def look_around(self, steps: int) -> bool:
        """Gather statistics of the pictures in random play; False when the session asks to stop meanwhile."""
        choices = int(self.games.single_action_space.n)
        if steps:
            print(f"First, {steps:,} random steps in each game, for the statistics of the pictures.", flush=True)
        for _ in range(steps):
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return False
            self.games.step(self.random.integers(choices, size=self.games.count))
            self.scale.take_in(folded(self.games.observations))
        return True

    def collect(self) -> CuriousRollout | None:
        """Play one rollout, or return None when the session asks to stop meanwhile."""
        rollout = self.rollout
        rollout.cut_off.clear()
        for step in range(len(rollout.actions)):
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return None
            rollout.observations[step] = folded(self.games.observations)
            self._step(step)
        rollout.observations[-1] = folded(self.games.observations)
        rollout.values[:, -1] = self._look(rollout.observations[-1])[1]
        return rollout

    def _step(self, step: int) -> None:
        rollout = self.rollout
        log_probs, rollout.values[:, step] = self._look(rollout.observations[step])
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        actions = (log_probs + self.random.gumbel(size=log_probs.shape)).argmax(axis=1)
        rollout.actions[step] = actions
        rollout.log_probs[step] = log_probs[np.arange(len(actions)), actions]
        found = self.games.step(actions)
        self.global_step += len(actions)
        rollout.rewards[step] = np.sign(found.rewards)
        rollout.terminated[step], rollout.truncated[step] = found.terminated, found.truncated
        rollout.resets[step] = found.resets
        rollout.curiosity[step] = self._surprise() * ~found.resets
        self.game_curiosity += rollout.curiosity[step]
        for env, observation in found.cut_off:
            _, values = self._look(folded(observation[None]))
            rollout.cut_off.append((step, env, float(values[0, 0])))
        for ended in found.finished:
            self._end_game(*ended)

    def _end_game(self, env: int, score: float, frames: int) -> None:
        self.recent.append(score)
        ended = {
            "charts/avg_episodic_return": sum(self.recent) / len(self.recent),
            "charts/episodic_return": score,
            "charts/episode_curiosity_reward": self.game_curiosity[env],
            "charts/episodic_length": frames,
        }
        self.session.scalars(self.global_step, ended)
        self.game_curiosity[env] = 0

    @torch.inference_mode()
    def _look(self, pictures: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        logits, ext, int_ = self.agent(torch.from_numpy(pictures).to(self.device))
        return F.log_softmax(logits, dim=1).cpu().numpy(), torch.stack([ext, int_]).cpu().numpy()

    @torch.inference_mode()
    def _surprise(self) -> NDArray[np.float32]:
        pictures = torch.from_numpy(folded(self.games.observations)).to(self.device)
        return self.curiosity.errors(self.scale.normalised(pictures)).cpu().numpy()


def past_resets(next_values: NDArray[np.float32], resets: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Next values for returns that go on over the end of an episode: beyond the row that resets it."""
    beyond = next_values.copy()
    beyond[:-1] = np.where(resets[1:], next_values[1:], next_values[:-1])
    return beyond


@dataclass
class CuriousBatch:
    """A rollout as flat tensors on the training device, one row for each step of each environment in turn."""

    envs: int
    real: Tensor
    """Numbers of the rows to learn from: all but those that only reset a game."""
    observations: Tensor
    """As many rows more as there are environments: what the last steps led to."""
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    ext_returns: Tensor
    int_returns: Tensor
    ext_values: Tensor

    def next_pictures(self, rows: Tensor) -> Tensor:
        """The last picture of the observations that the steps of these rows led to."""
        return self.observations[..., -FRAME_CHANNELS:][rows + self.envs]


def curious_batch_of(
    rollout: CuriousRollout, scaled_curiosity: NDArray[np.float32], args: Any, device: torch.device
) -> CuriousBatch:
    """Both kinds of advantages, weighed and added, and both kinds of returns."""
    (ext_values, int_values), (ext_next, int_next) = rollout.values[:, :-1], rollout.values[:, 1:].copy()
    for step, env, value in rollout.cut_off:
        ext_next[step, env] = value
    ends, cuts, resets = rollout.terminated, rollout.truncated, rollout.resets
    never = np.zeros_like(ends)
    decay = args.gae_lambda
    ext = advantages_of(rollout.rewards, ext_values, ext_next, ends, cuts, args.gamma, decay, resets)
    int_next = past_resets(int_next, resets)
    int_ = advantages_of(scaled_curiosity, int_values, int_next, never, never, args.int_gamma, decay, resets)
    return CuriousBatch(
        envs=resets.shape[1],
        real=torch.from_numpy(np.flatnonzero(~resets)).to(device),
        observations=flat(rollout.observations, device),
        actions=flat(rollout.actions, device),
        log_probs=flat(rollout.log_probs, device),
        advantages=flat(np.float32(args.ext_coef) * ext + np.float32(args.int_coef) * int_, device),
        ext_returns=flat(ext + ext_values, device),
        int_returns=flat(int_ + int_values, device),
        ext_values=flat(ext_values, device),
    )
