"""Acting with bounded continuous actions: actors evaluated in numpy, and the player that remembers their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from torch import nn

from mosaic_worker.learning.fast_acting import Layers, Rows, layers_of, relu_hidden
from mosaic_worker.learning.replay_buffer import ContinuousReplayBuffer
from mosaic_worker.learning.seeding import action_stream
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import fill, flat_rows
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.training.session import TrainingSession


def bounds_of(envs: SyncVectorEnv) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lowest and highest action, flat."""
    space = envs.single_action_space
    assert isinstance(space, gym.spaces.Box)
    return space.low.reshape(-1), space.high.reshape(-1)


class NumpyActor:
    """The layers of an actor as arrays: views, where the parameters are in main memory, else copies made each time."""

    def __init__(self, actor: nn.Module) -> None:
        self._actor = actor
        in_memory = next(actor.parameters()).device.type == "cpu"
        self._layers = layers_of(actor) if in_memory else None

    @property
    def layers(self) -> Layers:
        return self._layers if self._layers is not None else layers_of(self._actor)


class TanhActor(NumpyActor):
    """TD3's actor, whose three layers are two of rectified units and the mean that tanh squashes.

    The textbook form is the actor's own call, with ``Normal(0, noise).sample()`` added in units of half the range.
    """

    def __init__(self, actor: nn.Module, noise: float) -> None:
        super().__init__(actor)
        self.exploring = np.float32(noise)

    def unit(self, rows: Rows) -> Rows:
        """Actions from -1 to 1."""
        layers = self.layers
        hidden = relu_hidden(layers, rows)
        return np.tanh(hidden @ layers[2][0] + layers[2][1])

    def explore(
        self, rows: Rows, low: NDArray[Any], high: NDArray[Any], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Actions with noise, within their range."""
        noise = random.standard_normal((len(rows), len(low)), dtype=np.float32) * self.exploring
        unit = self.unit(rows) + noise
        middle, scale = (high + low) / 2, (high - low) / 2
        return np.clip(middle + scale * unit, low, high)


class SquashedGaussianActor(NumpyActor):
    """SAC's actor, whose four layers are two of rectified units, the mean, and the logarithm of the deviation.

    The textbook form is the actor's own call and ``tanh(Normal(mean, deviation).sample())``. `log_std_range`: what tanh
    stretches the logarithm of the deviation to.
    """

    def __init__(self, actor: nn.Module, log_std_range: tuple[float, float]) -> None:
        super().__init__(actor)
        lowest, highest = log_std_range
        self.middle, self.reach = (highest + lowest) / 2, (highest - lowest) / 2

    def mean_and_deviation(self, rows: Rows) -> tuple[Rows, Rows]:
        """Before squashing."""
        layers = self.layers
        hidden = relu_hidden(layers, rows)
        (mean_weight, mean_bias), (std_weight, std_bias) = layers[2], layers[3]
        deviation = np.exp(np.tanh(hidden @ std_weight + std_bias) * self.reach + self.middle)
        return hidden @ mean_weight + mean_bias, deviation

    def explore(
        self, rows: Rows, low: NDArray[Any], high: NDArray[Any], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Actions drawn from the policy."""
        mean, deviation = self.mean_and_deviation(rows)
        noise = random.standard_normal((len(rows), len(low)), dtype=np.float32)
        return (high + low) / 2 + (high - low) / 2 * np.tanh(mean + deviation * noise)


class BoundedPolicy:
    """The actor of a checkpoint; `choose` gives actions from -1 to 1, `critics` the values of them."""

    def __init__(self, actor: Any, action_shape: list[int], choose: Callable[[Rows, bool, Any], Rows]) -> None:
        self.scale, self.middle = actor.action_scale.numpy(), actor.action_bias.numpy()
        self.action_shape, self.choose = action_shape, choose
        self.critics: TwinCritics | None = None

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        unit = self.choose(flat_rows(observations), deterministic, random)
        return (self.middle + self.scale * unit).reshape(len(observations), *self.action_shape)

    def with_critics(self, checkpoint: Checkpoint, inputs: int, hidden: int) -> BoundedPolicy:
        """Let it say what it expects, where the checkpoint has the critics: imported ones need not."""
        if any(name.startswith("critics.") for name in checkpoint.tensors):
            self.critics = TwinCritics(inputs, hidden)
            fill(self.critics, "critics", checkpoint)
        return self

    @torch.no_grad()
    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
        """What the more cautious critic expects of the preferred action."""
        if self.critics is None:
            return {}
        rows = flat_rows(observations)
        played = self.middle + self.scale * self.choose(rows, True, None)
        inputs = torch.from_numpy(np.concatenate([rows, played.astype(np.float32)], axis=1))
        return {"value": self.critics(inputs).amin(dim=0).numpy()}


def tanh_policy(actor: nn.Module, action_shape: list[int], noise: float) -> BoundedPolicy:
    """TD3's; sampled means: with the noise that explored in training."""
    form = TanhActor(actor, noise)

    def choose(rows: Rows, deterministic: bool, random: np.random.Generator) -> Rows:
        unit = form.unit(rows)
        if not deterministic:
            unit = (unit + form.exploring * random.standard_normal(unit.shape, dtype=np.float32)).clip(-1, 1)
        return unit

    return BoundedPolicy(actor, action_shape, choose)


def squashed_policy(actor: nn.Module, action_shape: list[int], log_std_range: tuple[float, float]) -> BoundedPolicy:
    """SAC's."""
    form = SquashedGaussianActor(actor, log_std_range)

    def choose(rows: Rows, deterministic: bool, random: np.random.Generator) -> Rows:
        mean, deviation = form.mean_and_deviation(rows)
        if not deterministic:
            mean = mean + deviation * random.standard_normal(deviation.shape, dtype=np.float32)
        return np.tanh(mean)

    return BoundedPolicy(actor, action_shape, choose)


class Player:
    """Steps the environments and remembers what happens."""

    PARTS = ("random", "global_step", "observation", "returns", "lengths")

    def __init__(
        self,
        envs: SyncVectorEnv,
        session: TrainingSession,
        replay: ContinuousReplayBuffer,
        actor: TanhActor | SquashedGaussianActor,
        args: Any,
    ) -> None:
        self.envs, self.session, self.replay, self.actor, self.args = envs, session, replay, actor, args
        self.low, self.high = bounds_of(envs)
        self.random = action_stream(args.seed)
        self.global_step = 0
        first_observation, _ = envs.reset(seed=args.seed)
        self.observation = self._flat(first_observation)
        self.returns = np.zeros(envs.num_envs)
        self.lengths = np.zeros(envs.num_envs, dtype=np.int64)

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold."""
        self.observation = self._flat(self.envs.reset()[0])
        self.returns[:], self.lengths[:] = 0.0, 0

    def _flat(self, observation: NDArray[Any]) -> Rows:
        return np.array(observation, dtype=np.float32).reshape(self.envs.num_envs, -1)

    def choose(self) -> NDArray[np.float32]:
        """Random actions before learning starts, unless the networks are warm; then the actor's, exploring."""
        if self.global_step < self.args.learning_starts and self.args.warm_start is None:
            shape = (self.envs.num_envs, len(self.low))
            return self.random.uniform(self.low, self.high, shape).astype(np.float32)
        return self.actor.explore(self.observation, self.low, self.high, self.random)

    def step(self) -> None:
        """One step of every environment, each remembered with the observation that it truly led to."""
        envs = self.envs
        action = self.choose()
        played = action.reshape(envs.action_space.shape or ())
        observation, reward, terminated, truncated, info = envs.step(played)
        self.global_step += envs.num_envs
        self.returns += reward
        self.lengths += 1
        following = self._flat(observation)
        led_to = following
        if "final_obs" in info:
            led_to = following.copy()
            self._end_episodes(led_to, terminated | truncated, info["final_obs"])
        self.replay.add(self.observation, action, led_to, reward[:, None], terminated[:, None])
        self.observation = following

    def _end_episodes(self, led_to: Rows, ended: NDArray[np.bool_], finals: NDArray[Any]) -> None:
        for env in np.flatnonzero(ended):
            led_to[env] = np.asarray(finals[env], dtype=np.float32).reshape(-1)
            logged = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, logged)
            self.returns[env], self.lengths[env] = 0.0, 0


def steps_before_learning(args: Any, steps: int) -> int:
    """Transitions that the buffer must hold before the first gradient step; says so when that never comes."""
    if args.learning_starts >= steps:
        said = f"Nothing will be learned: --learning-starts is {args.learning_starts:,}, the run ends before"
        print(f"{said}; --learning-starts {steps // 20} would do.")
    return min(args.learning_starts + 1, args.buffer_size)
