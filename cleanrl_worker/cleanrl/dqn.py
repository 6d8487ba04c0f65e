"""Deep Q-learning for discrete actions (Mnih et al., 2015).

    python cleanrl_worker/cleanrl/dqn.py --env-id CartPole-v1 --total-timesteps 100000

Flag names, defaults and TensorBoard tags are CleanRL's. One thing differs on purpose: an episode that met a time limit
is not treated as terminated, the value of the state it was cut off in still counts. The gradient of the loss is
computed by `mosaic_worker.learning.fast_losses`, in half the time of autograd, as long as it is that of `loss_of`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mosaic_worker.learning.adam import MOMENTS, LeanAdam, TargetNetwork, require_finite
from mosaic_worker.learning.argument_checks import check_cuda, check_exploration, check_no_upload, check_ranges
from mosaic_worker.learning.environments import Environments, make_env, make_single_envs, observation_size
from mosaic_worker.learning.epsilon_greedy import (
    EpsilonGreedyCollector,
    EpsilonGreedyPolicy,
    highest_value,
)
from mosaic_worker.learning.fast_acting import numpy_form
from mosaic_worker.learning.fast_losses.dqn import DqnGradient
from mosaic_worker.learning.fast_losses.rectified import is_rectified
from mosaic_worker.learning.fast_losses.verified import LearningStep
from mosaic_worker.learning.replay_buffer import Batch, ReplayBuffer
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.schedules import exploration, multiples_passed
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.session import TrainingSession

LOG_EVERY = 100  # environment steps


@dataclass
class Args:
    exp_name: str = "dqn"
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
    """Understood for CleanRL's sake; the last checkpoint always holds the network."""
    upload_model: bool = False
    """Send the network to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that an uploaded network would belong to."""

    env_id: str = "CartPole-v1"
    """Gymnasium id of an environment with discrete actions, whose observations are numbers or can be counted."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam."""
    num_envs: int = 1
    """How many environments are stepped side by side; all other flags still count single steps."""
    buffer_size: int = 10_000
    """Transitions that the replay buffer holds."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    tau: float = 1.0
    """How much of the network the target network takes over at each of its updates; 1 copies it."""
    target_network_frequency: int = 500
    """Environment steps between updates of the target network."""
    batch_size: int = 128
    """Transitions drawn from the buffer for each gradient step."""
    start_e: float = 1.0
    """Share of random actions at the start."""
    end_e: float = 0.05
    """Share of random actions once exploration has been lowered."""
    exploration_fraction: float = 0.5
    """Part of the run over which the share of random actions falls from start-e to end-e."""
    learning_starts: int = 10_000
    """Environment steps that only fill the buffer, before the first gradient step."""
    train_frequency: int = 10
    """Environment steps between gradient steps."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it a resumed run starts with an empty one."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class QNetwork(nn.Module):
    """The value of each action, from two hidden layers of 120 and 84 rectified units."""

    def __init__(self, observation_size: int, action_count: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(observation_size, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, action_count)
        )

    def forward(self, observations: Tensor) -> Tensor:
        return self.network(observations)


def loss_of(q_network: QNetwork, target_network: QNetwork, batch: Batch, args: Args) -> tuple[Tensor, Tensor]:
    """(mean squared error, mean value) of the chosen actions; a terminated episode has no future."""
    with torch.no_grad():
        best = target_network(batch.next_observations).amax(dim=1)
        targets = batch.rewards + args.gamma * (1 - batch.terminated) * best
    chosen = q_network(batch.observations).gather(1, batch.actions).squeeze(1)
    return F.mse_loss(chosen, targets), chosen.mean()


@np.errstate(over="ignore", invalid="ignore")  # a network that is lost is reported by require_finite
def train(args: Args, envs: Environments, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = envs.single_action_space
    sizes = observation_size(envs), int(space.n)
    q_network, target_network = QNetwork(*sizes).to(device), QNetwork(*sizes).to(device).requires_grad_(False)
    adam = LeanAdam(q_network.parameters(), args.learning_rate)
    target = TargetNetwork(target_network, adam.vector)
    fast = DqnGradient(adam, target_network, args.gamma) if is_rectified(q_network.network) else None
    learn = LearningStep(adam, target, lambda batch: loss_of(q_network, target_network, batch, args), fast)
    buffer = ReplayBuffer(args.buffer_size, sizes[0], args.save_buffer)
    collector = EpsilonGreedyCollector(envs, session, buffer, args.seed)

    state = TrainingState()
    state.module("q_network", q_network)
    state.module("target_network", target_network)
    state.attributes("learner", adam, *MOMENTS)
    state.attributes("collector", collector, *collector.PARTS)
    state.attributes("buffer", buffer, "contents")
    state.envs("envs", envs, collector.restart)
    verify = partial(require_finite, adam.vector)
    run = RunState(session, state, envs, args, collector, verify=verify, buffer=buffer)
    run.restore()

    steps = math.ceil(args.total_timesteps / args.num_envs) * args.num_envs
    rows_needed = min(args.learning_starts, buffer.capacity)  # counts after a resume without the buffer
    if args.learning_starts >= steps:
        print(f"Nothing will be learned: --learning-starts is {args.learning_starts:,}, the run ends before.")
    session.record(envs)
    session.begin(steps)
    best = highest_value(q_network.network)
    while (before := collector.global_step) < steps:
        session.safe_point(before)
        if session.stop_requested:
            break
        collector.step(best, exploration(args, before))
        now = collector.global_step
        if now > args.learning_starts and buffer.filled >= rows_needed:
            for _ in range(due := multiples_passed(args.train_frequency, before, now)):
                loss, values = learn(buffer.sample(args.batch_size, device))
            if due and args.cuda:
                best = highest_value(q_network.network)
            if due and multiples_passed(LOG_EVERY, before, now):
                verify()
                logged = {"losses/td_loss": loss.item(), "losses/q_values": values.item()}
                session.scalars(now, logged | {"charts/SPS": run.steps_per_second})
            if multiples_passed(args.target_network_frequency, before, now):
                target.follow(args.tau)
        run.save_if_due()
    run.save_last()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=(
            "total_timesteps",
            "num_envs",
            "buffer_size",
            "target_network_frequency",
            "batch_size",
            "train_frequency",
            "torch_threads",
        ),
        not_negative=("seed", "learning_starts", "checkpoint_every", "checkpoint_keep"),
        positive=("learning_rate",),
        fractions=("gamma", "tau", "start_e", "end_e", "exploration_fraction"),
    )
    check_exploration(args)
    check_no_upload(args)
    check_cuda(args)


def make_envs(args: Args) -> Environments:
    """The environments, checked for what this algorithm can handle. Raises UsageError."""
    return make_single_envs("dqn", args)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    q_network = QNetwork(math.prod(observation["shape"]), action["n"])
    fill(q_network, "q_network", checkpoint)
    best, values = highest_value(q_network.network), numpy_form(q_network.network)
    return EpsilonGreedyPolicy(best, action, args.end_e, values=values)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    description = "Train with DQN on an environment with discrete actions."
    return run_script("dqn", description, Args, check, make_envs, train, twin="dqn_jax")


if __name__ == "__main__":
    sys.exit(main())
