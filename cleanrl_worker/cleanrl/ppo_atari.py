"""Proximal Policy Optimization for Atari games (Schulman et al., 2017).

    python cleanrl_worker/cleanrl/ppo_atari.py --env-id PongNoFrameskip-v4 --total-timesteps 1000000

Flag names, defaults and TensorBoard tags are CleanRL's, and so is what the agent sees of a game (see
`cleanrl_worker.atari`): 84x84 grey pictures in stacks of 4, every action held for 4 frames, a lost life ends the
episode, rewards are reduced to their sign. The returns that are logged are whole games with their true score, the
lengths are frames of the emulator. A step is one action, so a run of 10 million steps plays 40 million frames.

The state of the emulators is part of a checkpoint: a resumed run continues the games it was playing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.atari import STACK, AtariEvaluation, AtariGames, make_games
from mosaic_worker.learning.adam import MOMENTS, FlatAdam
from mosaic_worker.learning.argument_checks import check_cuda, check_minibatches, check_ranges
from mosaic_worker.learning.folding import initialised, over_blocks
from mosaic_worker.learning.game_rollouts import GameCollector, SoftmaxPolicy, batch_of
from mosaic_worker.learning.rollouts import Batch, PpoLosses, minibatch_count, ppo_figures
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.allocation import keep_large_blocks
from mosaic_worker.training.session import TrainingSession


@dataclass
class Args:
    exp_name: str = "ppo_atari"
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "BreakoutNoFrameskip-v4"
    """Atari game: PongNoFrameskip-v4, Pong-v5 (the same) or ALE/Pong-v5 (with sticky actions)."""
    total_timesteps: int = 10_000_000
    """Environment steps in all, of 4 frames each, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam at the start."""
    num_envs: int = 8
    """How many games are played side by side."""
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
    clip_coef: float = 0.1
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
    """CPU threads for PyTorch; more help only where cores are idle."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class Agent(nn.Module):
    """Three convolutions and a hidden layer, shared by actor and critic."""

    def __init__(self, action_count: int) -> None:
        super().__init__()
        gain = math.sqrt(2)
        self.network = nn.Sequential(
            initialised(nn.Conv2d(STACK, 32, 8, stride=4), gain),
            nn.ReLU(inplace=True),
            initialised(nn.Conv2d(32, 64, 4, stride=2), gain),
            nn.ReLU(inplace=True),
            initialised(nn.Conv2d(64, 64, 3), gain),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            initialised(nn.Linear(64 * 7 * 7, 512), gain),
            nn.ReLU(inplace=True),
        )
        self.actor = initialised(nn.Linear(512, action_count), 0.01)
        self.critic = initialised(nn.Linear(512, 1), 1.0)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, values) of observations given as bytes and folded: `self.network(pictures / 255)`, sooner."""
        hidden = over_blocks(self.network, observations.float(), divisor=255)
        return self.actor(hidden), self.critic(hidden).squeeze(1)


def losses_of(agent: Agent, batch: Batch, args: Args) -> PpoLosses:
    """The clipped objective of the policy, the error of the critic and the entropy bonus, as means."""
    logits, values = agent(batch.observations)
    log_probs = F.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
    log_ratios = log_probs.gather(1, batch.actions.unsqueeze(1)).squeeze(1) - batch.log_probs

    advantages = batch.normalised_advantages if args.norm_adv else batch.advantages
    # min(r A, clip(r, 1 - c, 1 + c) A) is min(r A, A + c |A|), which needs no second product.
    bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(advantages * log_ratios.exp(), bounds).mean()

    squared = (values - batch.returns).square()
    if args.clip_vloss:
        clipped_values = batch.values + (values - batch.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped_values - batch.returns).square())
    value = 0.5 * squared.mean()

    total = policy - args.ent_coef * entropy + args.vf_coef * value
    return PpoLosses(total, policy, value, entropy, log_ratios.detach())


def train(args: Args, games: AtariGames, session: TrainingSession) -> None:
    keep_large_blocks()
    device = prepare_torch(args)
    agent = Agent(int(games.single_action_space.n)).to(device)
    adam = FlatAdam(agent.parameters(), args.learning_rate, epsilon=1e-5)
    collector = GameCollector(games, session, agent, args, device)

    state = TrainingState()
    state.module("agent", agent)
    state.attributes("games", games, "snapshot")  # first, because it says best why a checkpoint does not fit
    state.attributes("learner", adam, *MOMENTS)
    state.attributes("collector", collector, "random", "global_step")
    state.attributes("rollout", collector.rollout, "content")
    run = RunState(session, state, games, args, collector, fixed=("num_steps",))
    run.restore()

    def may_go_on() -> bool:
        session.safe_point(collector.global_step)
        return not session.stop_requested

    steps = math.ceil(args.total_timesteps / args.num_envs)  # of each environment
    whole = math.ceil(steps / args.num_steps) * args.num_steps  # if the last rollout were not shorter
    session.record(games.camera)
    session.show(games.picture)
    session.begin(steps * args.num_envs)
    while (done := collector.steps_done) < steps:
        if args.anneal_lr:
            adam.learning_rate = args.learning_rate * (1 - done / whole)
        rollout = collector.collect(min(args.num_steps, steps - done))
        if rollout is None:  # a stop was asked for
            break
        batch = batch_of(rollout, collector.values_now(), args, device)
        logged = improve(agent, adam, batch, args, may_go_on)
        if logged is None:
            break
        rollout.used = True
        logged["charts/learning_rate"] = adam.learning_rate
        logged["charts/SPS"] = run.steps_per_second
        session.scalars(collector.global_step, logged)
        run.save_if_due()
    run.save_last()


def improve(
    agent: Agent, adam: FlatAdam, batch: Batch, args: Args, may_go_on: Callable[[], bool] = lambda: True
) -> dict[str, float] | None:
    """Several passes over a rollout, in minibatches; returns what to log about them.

    An update takes seconds and a stop must not: when one is asked for meanwhile, everything is put back to where
    the update began, and None returned.
    """
    undo = adam.remember()
    log_ratios = []
    for _ in range(args.update_epochs):
        for chosen in torch.randperm(len(batch)).tensor_split(minibatch_count(args, len(batch))):
            if not may_go_on():
                adam.put_back(undo)
                return None
            losses = losses_of(agent, batch.rows(chosen.to(batch.actions.device)), args)
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


def make_envs(args: Args) -> AtariGames:
    """The games. Raises UsageError for what is no Atari game, or when the emulator is not installed."""
    return make_games("ppo_atari", args.env_id, args.num_envs, args.seed, record=args.capture_video)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """The agent of a checkpoint. Raises CheckpointError when its networks are not this script's."""
    agent = Agent(int(checkpoint.manifest.spaces["action"]["n"]))
    fill(agent, "agent", checkpoint)
    return SoftmaxPolicy(agent)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One game with its true score, over all lives, seen as in training."""
    return AtariEvaluation(args.env_id, render_mode)


def main() -> int:
    return run_script("ppo_atari", "Train with PPO on an Atari game.", Args, check, make_envs, train)


if __name__ == "__main__":
    sys.exit(main())
