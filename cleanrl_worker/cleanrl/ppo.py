"""Proximal Policy Optimization for discrete actions (Schulman et al., 2017).

    python cleanrl_worker/cleanrl/ppo.py --env-id CartPole-v1 --total-timesteps 50000

Flag names, defaults and TensorBoard tags are CleanRL's. One thing differs on purpose: a truncated episode (one that met
a time limit) is not treated as a terminated one, its last step is still worth the value of the state it was cut off in.
Rollouts, advantages and the optimiser are `mosaic_worker.learning`'s.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium as gym
import torch
from gymnasium.vector import SyncVectorEnv
from torch import Tensor, nn
from torch.nn import functional as F

from mosaic_worker.learning.adam import MOMENTS, FlatAdam
from mosaic_worker.learning.argument_checks import check_cuda, check_minibatches, check_ranges
from mosaic_worker.learning.environments import make_env, make_vector_envs, observation_size
from mosaic_worker.learning.fast_acting import SoftmaxActor
from mosaic_worker.learning.rollouts import Batch, PpoLosses, RolloutCollector, evaluate, minibatch_count, ppo_figures
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession


@dataclass
class Args:
    exp_name: str = "ppo"
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

    env_id: str = "CartPole-v1"
    """Gymnasium id of an environment with discrete actions, whose observations are numbers or can be counted."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam at the start."""
    num_envs: int = 4
    """How many environments are stepped side by side."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 4
    """Parts that a rollout is cut into for gradient steps."""
    update_epochs: int = 4
    """Passes over each rollout."""
    norm_adv: bool = True
    """Normalise the advantages of every minibatch."""
    clip_coef: float = 0.2
    """How far the new policy's probability ratio may move before its gradient is cut."""
    clip_vloss: bool = True
    """Clip the value function's change by the same coefficient."""
    ent_coef: float = 0.01
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
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class Agent(nn.Module):
    """Separate actor and critic, each with two hidden layers of 64 tanh units."""

    def __init__(self, observation_size: int, action_count: int) -> None:
        super().__init__()
        self.critic = network(observation_size, 1, last_gain=1.0)
        self.actor = network(observation_size, action_count, last_gain=0.01)

    def log_probs(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Logarithm of the probability of each action that was taken."""
        return F.log_softmax(self.actor(observations), dim=1).gather(1, actions.unsqueeze(1)).squeeze(1)


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    layers = [nn.Linear(before, after) for before, after in pairwise((inputs, 64, 64, outputs))]
    for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def losses_of(agent: Agent, batch: Batch, args: Args) -> PpoLosses:
    """The clipped objective of the policy, the error of the critic and the entropy bonus."""
    log_probs = F.log_softmax(agent.actor(batch.observations), dim=1)
    entropy = -(log_probs.exp() * log_probs).sum()
    log_ratios = log_probs.gather(1, batch.actions.unsqueeze(1)).squeeze(1) - batch.log_probs

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
    agent = Agent(observation_size(envs), int(space.n)).to(device)
    adam = FlatAdam(agent.parameters(), args.learning_rate, epsilon=1e-5)
    actor = SoftmaxActor(agent.actor, int(space.n), int(space.start))
    collector = RolloutCollector(envs, session, actor, args.seed)

    state = TrainingState()
    state.module("agent", agent)
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
    check_cuda(args)


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments, checked for what this algorithm can handle. Raises UsageError."""
    return make_vector_envs("ppo", args, "discrete", others="ppo_continuous_action")


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    agent = Agent(math.prod(observation["shape"]), action["n"])
    fill(agent, "agent", checkpoint)
    return SoftmaxActor(agent.actor, action["n"], action["start"], agent.critic)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    description = "Train with PPO on an environment with discrete actions."
    return run_script("ppo", description, Args, check, make_envs, train, twin="ppo_jax")


if __name__ == "__main__":
    sys.exit(main())
