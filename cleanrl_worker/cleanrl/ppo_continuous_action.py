"""Proximal Policy Optimization for continuous actions (Schulman et al., 2017).

    python cleanrl_worker/cleanrl/ppo_continuous_action.py --env-id Pendulum-v1 --total-timesteps 100000

Flag names, defaults and TensorBoard tags are CleanRL's. Observations and rewards are normalised by statistics that
run along with the training and are kept in checkpoints: a policy is worth nothing without them. They are gathered
over all environments together rather than for each one apart. A truncated episode (one that met a time limit) is
not treated as a terminated one: its last step is still worth the value of the state it was cut off in.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic_worker.learning.adam import MOMENTS, FlatAdam
from mosaic_worker.learning.argument_checks import check_cuda, check_minibatches, check_no_upload, check_ranges
from mosaic_worker.learning.environments import DISCRETE_SCRIPTS, make_env, make_vector_envs, observation_size
from mosaic_worker.learning.fast_acting import GaussianActor, numpy_form
from mosaic_worker.learning.normalising import Normaliser, NormalisingCollector
from mosaic_worker.learning.rollouts import Batch, PpoLosses, evaluate, minibatch_count, ppo_figures
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "ppo_continuous_action"
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU; for networks this small the CPU is usually faster."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the networks."""
    upload_model: bool = False
    """Send the networks to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that uploaded networks would belong to."""

    env_id: str = "HalfCheetah-v4"
    """Gymnasium id of an environment with continuous actions and box observations."""
    total_timesteps: int = 1_000_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 3e-4
    """Step size of Adam at the start."""
    num_envs: int = 1
    """How many environments are stepped side by side."""
    num_steps: int = 2048
    """Steps of each environment between two updates."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 32
    """Parts that a rollout is cut into for gradient steps."""
    update_epochs: int = 10
    """Passes over each rollout."""
    norm_adv: bool = True
    """Normalise the advantages of every minibatch."""
    clip_coef: float = 0.2
    """How far the new policy's probability ratio may move before its gradient is cut."""
    clip_vloss: bool = True
    """Clip the value function's change by the same coefficient."""
    ent_coef: float = 0.0
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longest gradient that is applied unscaled."""
    target_kl: float | None = None
    """End the passes over a rollout once the policy has moved this far."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks and normalisation to begin with; everything else starts from the beginning."""


class Agent(nn.Module):
    """Separate actor and critic, each with two hidden layers of 64 tanh units.

    The policy is a Gaussian whose mean depends on the observation and whose deviation does not.
    """

    def __init__(self, observation_size: int, action_size: int) -> None:
        super().__init__()
        self.critic = network(observation_size, 1, last_gain=1.0)
        self.actor_mean = network(observation_size, action_size, last_gain=0.01)
        self.actor_logstd = nn.Parameter(torch.zeros(1, action_size))

    def log_probs(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Logarithm of the density of each action, shaped (rows,)."""
        distance = (actions - self.actor_mean(observations)) * (-self.actor_logstd).exp()
        return -(0.5 * distance.square() + self.actor_logstd + HALF_LOG_TWO_PI).sum(dim=1)

    def entropy(self) -> Tensor:
        """Of the policy, the same in every state."""
        return (self.actor_logstd + 0.5 + HALF_LOG_TWO_PI).sum()


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    layers = [nn.Linear(before, after) for before, after in pairwise((inputs, 64, 64, outputs))]
    for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def losses_of(agent: Agent, batch: Batch, args: Args) -> PpoLosses:
    """The clipped objective of the policy, the error of the critic and the entropy bonus."""
    entropy = agent.entropy() * len(batch)
    log_ratios = agent.log_probs(batch.observations, batch.actions) - batch.log_probs

    advantages = batch.normalised_advantages if args.norm_adv else batch.advantages
    # min(r A, clip(r, 1 - c, 1 + c) A) is min(r A, A + c |A|), which needs no second product.
    bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(advantages * log_ratios.exp(), bounds).sum()

    values = agent.critic(batch.observations).squeeze(1)
    squared = (values - batch.returns).square()
    if args.clip_vloss:
        clipped_values = batch.values + (values - batch.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped_values - batch.returns).square())
    value = 0.5 * squared.sum()

    total = (policy - args.ent_coef * entropy + args.vf_coef * value) / len(batch)
    return PpoLosses(total, policy, value, entropy, log_ratios.detach(), rows=len(batch))


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = envs.single_action_space
    agent = Agent(observation_size(envs), math.prod(space.shape)).to(device)
    normaliser = Normaliser(observation_size(envs), args.gamma)
    adam = FlatAdam(agent.parameters(), args.learning_rate, epsilon=1e-5)
    bounds = space.low.reshape(-1), space.high.reshape(-1)
    actor = GaussianActor(agent.actor_mean, agent.actor_logstd, *bounds, envs.action_space.shape or ())
    collector = NormalisingCollector(envs, session, actor, normaliser, args.seed)

    state = TrainingState()
    state.module("agent", agent)
    state.module("normaliser", normaliser)
    state.attributes("learner", adam, *MOMENTS)
    state.attributes("collector", collector, *collector.PARTS)
    state.attributes("rollout", collector.rollout, *collector.rollout.PARTS)
    state.envs("envs", envs, collector.restart)
    run = RunState(session, state, envs, args, collector, fixed=("num_steps",))
    run.restore()

    steps = math.ceil(args.total_timesteps / args.num_envs)  # of each environment
    whole = math.ceil(steps / args.num_steps) * args.num_steps  # if the last rollout were not shorter
    session.record(envs)
    session.begin(steps * args.num_envs)
    while (done := collector.steps_done) < steps:
        if args.anneal_lr:
            adam.learning_rate = args.learning_rate * (1 - done / whole)
        rollout = collector.collect(min(args.num_steps, steps - done))
        if rollout is None:  # a stop was asked for
            break
        batch = evaluate(rollout, agent.critic, agent.log_probs, args, device)
        logged = improve(agent, adam, batch, args)
        logged["charts/learning_rate"] = adam.learning_rate
        logged["charts/SPS"] = run.steps_per_second
        session.scalars(collector.global_step, logged)
        run.save_if_due()
    run.save_last()


def improve(agent: Agent, adam: FlatAdam, batch: Batch, args: Args) -> dict[str, float]:
    """Several passes over a rollout, in minibatches; returns what to log about them."""
    log_ratios = []
    for _ in range(args.update_epochs):
        for minibatch in batch.minibatches(minibatch_count(args, len(batch))):
            losses = losses_of(agent, minibatch, args)
            adam.minimise(losses.total, args.max_grad_norm)
            log_ratios.append(losses.log_ratios)
        if losses.moved_beyond(args.target_kl):
            break
    return ppo_figures(losses, log_ratios, batch, args.clip_coef)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=("total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "torch_threads"),
        not_negative=("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef"),
        positive=("learning_rate", "clip_coef", "max_grad_norm", "target_kl"),
        fractions=("gamma", "gae_lambda"),
    )
    check_minibatches(args)
    check_no_upload(args)
    check_cuda(args)


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments, checked for what this algorithm can handle. Raises UsageError."""
    return make_vector_envs(ALGORITHM, args, "continuous", others=DISCRETE_SCRIPTS)


class NormalisingPolicy:
    """The actor of a checkpoint. What it normalises observations with no longer changes."""

    def __init__(self, agent: Agent, normaliser: Normaliser, action: dict[str, Any]) -> None:
        self.normaliser, self.shape = normaliser, action["shape"]
        low, high = (np.float32(action[end]) if end in action else None for end in ("low", "high"))
        self.actor = GaussianActor(agent.actor_mean, agent.actor_logstd, low, high, tuple(self.shape))
        self.critic = numpy_form(agent.critic)

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        rows = self._normalised(observations)
        actions = self.actor.mean(rows)
        if not deterministic:
            actions = actions + self.actor.deviation * random.standard_normal(actions.shape, dtype=np.float32)
        return self.actor.clipped(actions).reshape(len(observations), *self.shape)

    def appraise(self, observations: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What is expected of the state, in the environment's own rewards."""
        deviation = np.sqrt(self.normaliser.returns.arrays[1] + 1e-8)
        return {"value": self.critic(self._normalised(observations)).reshape(len(observations)) * deviation}

    def _normalised(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        return self.normaliser.normalised(np.asarray(observations).reshape(len(observations), -1))


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    size = math.prod(observation["shape"])
    agent, normaliser = Agent(size, math.prod(action["shape"])), Normaliser(size, args.gamma)
    fill(agent, "agent", checkpoint)
    fill(normaliser, "normaliser", checkpoint)
    return NormalisingPolicy(agent, normaliser, action)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    description = "Train with PPO on an environment with continuous actions."
    return run_script(ALGORITHM, description, Args, check, make_envs, train)


if __name__ == "__main__":
    sys.exit(main())
