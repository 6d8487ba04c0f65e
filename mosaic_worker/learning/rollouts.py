"""Rollouts of vector environments: collected step by step, then evaluated as one batch.

While the environments run, only the actor is evaluated. Values and log-probabilities of the whole rollout follow in one
batch: the same numbers, much sooner.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic_worker.learning.advantages import advantages_of, explained_variance, kl_estimate
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.training.session import TrainingSession


class Actor(Protocol):
    """Chooses the actions of one rollout."""

    def follow(self) -> None:
        """Take up the parameters as they are now."""

    def noise(self, random: np.random.Generator, steps: int, envs: int) -> NDArray[np.float32]:
        """All noise of a rollout, drawn at once."""

    def choose(self, observations: NDArray[np.float32], noise: NDArray[np.float32]) -> tuple[NDArray[Any], Any]:
        """(actions to learn from, actions as the environments take them)"""


class Rollout:
    """What the environments went through between two updates; row `t` of each array is step `t` of them all.

    `filled` rows are done: a stop may come in the middle of one, and a resumed run goes on there.
    """

    ROWS = ("observations", "actions", "rewards", "terminated", "truncated")
    PARTS = ("filled", "noise", *ROWS, "cut_off")

    def __init__(self, *, discrete: bool) -> None:
        self.discrete = discrete
        self.begin(np.zeros((0, 1, 1), dtype=np.float32), np.zeros((1, 1), dtype=np.float32))

    def begin(self, noise: NDArray[np.float32], observation: NDArray[np.float32]) -> None:
        """Empty it for as many steps as there is noise, from the observation that the environments are in."""
        shape = (len(noise), len(observation))
        self.filled = 0
        self.noise = noise
        # One row more: the observation that the last step led to.
        self.observations = np.zeros((shape[0] + 1, *observation.shape), dtype=np.float32)
        self.observations[0] = observation
        self.actions: NDArray[Any] = np.zeros(shape, dtype=np.int64) if self.discrete else np.zeros_like(noise)
        self.rewards = np.zeros(shape, dtype=np.float32)
        self.terminated = np.zeros(shape, dtype=bool)
        self.truncated = np.zeros(shape, dtype=bool)
        # (step, environment, observation) where a time limit cut an episode off.
        self.cut_off: list[tuple[int, int, NDArray[np.float32]]] = []

    @property
    def is_open(self) -> bool:
        """Whether it is to be gone on with."""
        return self.filled < len(self.actions)

    def refit(self, noise: NDArray[np.float32]) -> None:
        """Give it the length of other noise; what is done stays."""
        filled, cut_off, before = self.filled, self.cut_off, {name: getattr(self, name) for name in self.ROWS}
        self.begin(noise, self.observations[0])
        self.filled, self.cut_off = filled, cut_off
        for name, rows in before.items():
            done = filled + (name == "observations")
            getattr(self, name)[:done] = rows[:done]

    def cut_off_all(self) -> None:
        """End the running episodes at the last row, as a time limit would."""
        last = self.filled - 1
        if last >= 0:
            running = ~(self.terminated[last] | self.truncated[last])
            self.truncated[last] |= running
            self.cut_off += [
                (last, int(env), self.observations[self.filled, env].copy()) for env in np.flatnonzero(running)
            ]


class RolloutCollector:
    """Steps the environments and keeps what must survive from one rollout to the next."""

    PARTS: tuple[str, ...] = ("random", "global_step", "observation", "returns", "lengths")
    observation: NDArray[np.float32]

    def __init__(
        self, envs: SyncVectorEnv, session: TrainingSession, actor: Actor, seed: int, *, discrete: bool = True
    ) -> None:
        self.envs, self.session, self.actor = envs, session, actor
        self.random = action_stream(seed)
        self.global_step = 0
        self._begin(envs.reset(seed=seed)[0].reshape(envs.num_envs, -1))
        self.returns = np.zeros(envs.num_envs)
        self.lengths = np.zeros(envs.num_envs, dtype=np.int64)
        self.rollout = Rollout(discrete=discrete)

    def collect(self, steps: int) -> Rollout | None:
        """Play `steps` steps in every environment, or return None when the session asks to stop meanwhile."""
        envs, session, rollout, choose = self.envs, self.session, self.rollout, self.actor.choose
        if not rollout.is_open:
            rollout.begin(self._noise(steps), self._current())
        elif steps != len(rollout.actions):  # the run was resumed with another end
            steps = max(steps, rollout.filled)
            more = self._noise(max(0, steps - len(rollout.noise)))
            rollout.refit(np.concatenate([rollout.noise[:steps], more]))
        self.actor.follow()
        for step in range(rollout.filled, steps):
            session.safe_point(self.global_step)
            if session.stop_requested:
                rollout.filled = step
                return None
            rollout.actions[step], played = choose(rollout.observations[step], rollout.noise[step])
            observation, reward, terminated, truncated, info = envs.step(played)
            self.global_step += envs.num_envs
            self.returns += reward
            self.lengths += 1
            rollout.rewards[step] = self._scaled(reward)
            rollout.observations[step + 1] = self._seen(observation.reshape(envs.num_envs, -1))
            if "final_obs" in info:
                rollout.terminated[step], rollout.truncated[step] = terminated, truncated
                self._end_episodes(rollout, step, info["final_obs"])
        rollout.filled = steps
        self.observation = rollout.observations[steps]
        return rollout

    @property
    def steps_done(self) -> int:
        """Steps of each environment in the rollouts before the open one."""
        return self.global_step // self.envs.num_envs - (self.rollout.filled if self.rollout.is_open else 0)

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold: the old ones were cut off."""
        rollout = self.rollout
        rollout.cut_off_all()
        self._begin(self.envs.reset()[0].reshape(self.envs.num_envs, -1))
        if rollout.is_open:
            rollout.observations[rollout.filled] = self.observation
        self.returns[:], self.lengths[:] = 0.0, 0

    def _noise(self, steps: int) -> NDArray[np.float32]:
        return self.actor.noise(self.random, steps, self.envs.num_envs)

    # What a collector that normalises does in its own way.

    def _begin(self, first_observation: NDArray[Any]) -> None:
        self.observation = np.array(first_observation, dtype=np.float32)

    def _current(self) -> NDArray[np.float32]:
        return self.observation

    def _scaled(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        return rewards

    def _seen(self, observations: NDArray[Any]) -> NDArray[Any]:
        return observations

    def _final(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        return np.array(observation, dtype=np.float32)

    def _end_episodes(self, rollout: Rollout, step: int, final_observations: NDArray[Any]) -> None:
        terminated, truncated = rollout.terminated[step], rollout.truncated[step]
        for env in np.flatnonzero(terminated | truncated):
            if truncated[env] and not terminated[env]:
                final = self._final(np.asarray(final_observations[env]).reshape(-1))
                rollout.cut_off.append((step, int(env), final))
            ended = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, ended)
            self._end_episode(int(env))

    def _end_episode(self, env: int) -> None:
        self.returns[env], self.lengths[env] = 0.0, 0


@dataclass
class Batch:
    """A rollout as flat tensors on the training device."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor

    def __len__(self) -> int:
        return len(self.actions)

    def rows(self, chosen: Tensor) -> Batch:
        return Batch(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))

    def parts(self, count: int) -> list[Batch]:
        """`count` consecutive parts whose sizes differ by one at most."""
        columns = [getattr(self, field.name).tensor_split(count) for field in dataclasses.fields(self)]
        return [Batch(*part) for part in zip(*columns, strict=True)]

    def minibatches(self, count: int) -> list[Batch]:
        """`count` parts that together hold every row once, in random order."""
        return self.rows(torch.randperm(len(self))).parts(count)

    @property
    def normalised_advantages(self) -> Tensor:
        """With mean 0 and deviation 1; a single one has no spread to divide by and stays."""
        if len(self) < 2:
            return self.advantages
        spread, mean = torch.std_mean(self.advantages)
        return (self.advantages - mean) / (spread + 1e-8)


def minibatch_count(args: Any, rows: int) -> int:
    """As many as asked for; fewer for the last rollout, which may be shorter."""
    return max(1, round(rows / (args.num_envs * args.num_steps / args.num_minibatches)))


@torch.no_grad()
def evaluate(
    rollout: Rollout,
    critic: nn.Module,
    log_probs_of: Callable[[Tensor, Tensor], Tensor],
    args: Any,
    device: torch.device,
) -> Batch:
    """Values, log-probabilities and advantages of a rollout, under the policy that produced it."""
    observations = torch.from_numpy(rollout.observations).to(device)
    all_values = critic(observations).squeeze(-1).cpu().numpy()
    values, next_values = all_values[:-1], all_values[1:].copy()
    if rollout.cut_off:
        at_step, at_env, finals = zip(*rollout.cut_off, strict=True)
        final_values = critic(torch.from_numpy(np.stack(finals)).to(device))
        next_values[at_step, at_env] = final_values.squeeze(-1).cpu().numpy()
    ends = rollout.terminated, rollout.truncated
    advantages = advantages_of(rollout.rewards, values, next_values, *ends, args.gamma, args.gae_lambda)
    flat_observations = observations[:-1].flatten(0, 1)
    actions = torch.from_numpy(rollout.actions).flatten(0, 1).to(device)
    return Batch(
        observations=flat_observations,
        actions=actions,
        log_probs=log_probs_of(flat_observations, actions),
        advantages=torch.from_numpy(advantages.reshape(-1)).to(device),
        returns=torch.from_numpy((advantages + values).reshape(-1)).to(device),
        values=torch.from_numpy(values.reshape(-1)).to(device),
    )


@dataclass
class PpoLosses:
    """What an update minimises, its parts as sums over `rows`, and how far the probability of each action moved."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor
    rows: int = 1

    def moved_beyond(self, target_kl: float | None) -> bool:
        return target_kl is not None and kl_estimate(self.log_ratios) > target_kl


def ppo_figures(losses: PpoLosses, log_ratios: list[Tensor], batch: Batch, clip_coef: float) -> dict[str, float]:
    """What to log of an update: the last losses, and the log-ratios of all its minibatches.

    Raises FloatingPointError when the loss is not finite.
    """
    if not math.isfinite(losses.total.item()):
        raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
    clipped = (torch.cat(log_ratios).exp() - 1).abs() > clip_coef
    return {
        "losses/value_loss": losses.value.item() / losses.rows,
        "losses/policy_loss": losses.policy.item() / losses.rows,
        "losses/entropy": losses.entropy.item() / losses.rows,
        "losses/old_approx_kl": -losses.log_ratios.mean().item(),
        "losses/approx_kl": kl_estimate(losses.log_ratios),
        "losses/clipfrac": clipped.float().mean().item(),
        "losses/explained_variance": explained_variance(batch.returns, batch.values),
    }
