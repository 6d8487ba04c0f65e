"""Advantage-weighted actor-critic (AWAC, Nair et al., 2020).

    python corl_worker/corl/awac.py --dataset pendulum-mix --online-steps 10000

Critics value the actor's own next actions, the actor imitates the data's by how much better they were than its own.
Made to go on in the environment: nothing changes there but where transitions come from. The weights of imitation are
exponential in the rewards' scale, so ``--normalize-reward`` is on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.arguments import check_offline
from corl_worker.networks import GaussianActor
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, TargetNetwork, require_finite
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "awac"


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of networks, batches and the environment; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU; for networks this small the CPU is often as fast."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "CORL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""

    dataset: str = ""
    """Name of the dataset to learn from, as `mosaic datasets list` shows it."""
    env_id: str = ""
    """Environment to judge the policy in; the dataset's own unless it is given."""
    total_timesteps: int = 1_000_000
    """Gradient updates on the dataset."""
    online_steps: int = 0
    """Steps in the environment after the dataset, each with one update: fine-tuning."""
    batch_size: int = 256
    """Transitions drawn for one update."""
    eval_freq: int = 5_000
    """Updates between evaluations in the environment; 0 never plays, and needs no environment."""
    n_episodes: int = 10
    """Episodes of one evaluation, the same ones each time."""
    normalize: bool = True
    """Bring observations to mean 0 and deviation 1 of the dataset; the policy keeps these numbers."""
    normalize_reward: bool = True
    """Scale rewards so that the best and the worst episode lie as far apart as the longest has steps."""
    reward_scale: float = 1.0
    """What rewards are multiplied by, after that."""
    reward_bias: float = 0.0
    """What is added to rewards, after that."""
    hidden_dim: int = 256
    """Units in each of the hidden layers."""
    awac_lambda: float = 1.0
    """How many points of advantage make an action weigh e times as much; small is greedy."""
    exp_adv_max: float = 100.0
    """Largest weight of one action."""
    discount: float = 0.99
    """What a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each update."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor and critics alike."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Updates between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks and scales to begin with; all else starts from the beginning."""


class Learner:
    """The networks, their target network and one gradient step."""

    def __init__(self, task: OfflineTask, args: Args, device: torch.device) -> None:
        self.args = args
        size, inputs = task.observation_size, task.observation_size + task.action_size
        self.actor = GaussianActor(size, task.action_space, args.hidden_dim).to(device)
        self.critics = TwinCritics(inputs, args.hidden_dim).to(device)
        self.target_critics = TwinCritics(inputs, args.hidden_dim).to(device).requires_grad_(False)
        self.actor_adam = FusedAdam(self.actor, args.learning_rate)
        self.critic_adam = FusedAdam(self.critics, args.learning_rate)
        self.target = TargetNetwork(self.target_critics, self.critic_adam.vector)
        self.critic_loss, self.actor_loss, self.value = torch.zeros(()), torch.zeros(()), torch.zeros(())

    def loss_of_critics(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            actions = self.actor.sample(batch.next_observations)
            following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
            targets = torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.discount)
        values = self.critics(batch.observations_and_actions)
        self.value = values.detach().mean()
        return (values - targets).square().mean(dim=1).sum()

    @torch.no_grad()
    def weights(self, batch: Batch) -> Tensor:
        """What imitating each action counts: exponential in how much better it is than the actor's own."""
        actions = self.actor.sample(batch.observations)
        own = self.critics(torch.cat((batch.observations, actions), dim=1)).amin(dim=0)
        advantages = self.critics(batch.observations_and_actions).amin(dim=0) - own
        return (advantages / self.args.awac_lambda).exp().clamp_max(self.args.exp_adv_max)

    def loss_of_actor(self, batch: Batch) -> Tensor:
        return -(self.weights(batch) * self.actor.log_probs(batch.observations, batch.actions)).mean()

    def update(self, batch: Batch) -> None:
        loss = self.loss_of_critics(batch)
        self.critic_adam.minimise(loss)
        self.critic_loss = loss.detach()
        loss = self.loss_of_actor(batch)
        self.actor_adam.minimise(loss)
        self.actor_loss = loss.detach()
        self.target.follow(self.args.tau)

    def figures(self) -> dict[str, float]:
        return {
            "losses/critic_loss": self.critic_loss.item(),
            "losses/actor_loss": self.actor_loss.item(),
            "losses/q_values": self.value.item(),
        }

    def require_finite(self) -> None:
        require_finite(self.actor_adam.vector, self.critic_adam.vector, what="networks are")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task, args.online_steps)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("learner", learner, "critic_loss", "actor_loss", "value")
    run = OfflineRun(task, session, state, args, replay, learner.actor, learner.require_finite)

    run.restore(task.dataset.in_parts())
    while run.goes_on():
        run.play()
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    positive = ("learning_rate", "awac_lambda", "exp_adv_max")
    check_offline(args, positive=positive, fractions=("discount", "tau"))


def make_task(args: Args) -> OfflineTask:
    """The dataset and its environment, checked for what this algorithm can handle. Raises UsageError."""
    return open_task(ALGORITHM, args, ("continuous",))


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    return load_acting(GaussianActor(sizes_of(checkpoint)[0], any_range(checkpoint), args.hidden_dim), checkpoint)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    return run_script(ALGORITHM, "Learn from a dataset with AWAC.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
