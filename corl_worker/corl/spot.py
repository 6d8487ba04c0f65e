"""SPOT (Wu et al., 2022): TD3 whose actor stays where the data has support, by the density that a VAE learned.

    python corl_worker/corl/spot.py --dataset pendulum-mix --vae-iterations 5000 --total-timesteps 20000

The first ``--vae-iterations`` updates learn how likely the data's actions are, the others learn with that as the pull.
Unlike a distance to the data's action, it does not mind which of several actions the actor takes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.arguments import check_offline
from corl_worker.networks import TanhActor
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, TargetNetwork, require_finite
from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "spot"


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
    vae_iterations: int = 100_000
    """Updates, the first of all, that learn the data's density."""
    vae_lr: float = 1e-3
    """Step size of Adam for the VAE."""
    vae_hidden_dim: int = 750
    """Units in each of the VAE's hidden layers."""
    vae_beta: float = 0.5
    """Weight of the latent variables' distance to a standard normal."""
    lambd: float = 1.0
    """How much unlikely actions cost the actor."""
    lambd_end: float = 0.2
    """Share of that which is left at the end of --online-steps."""
    actor_lr: float = 3e-4
    """Step size of Adam for the actor."""
    qf_lr: float = 3e-4
    """Step size of Adam for the critics."""
    discount: float = 0.99
    """What a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each of their updates."""
    policy_noise: float = 0.2
    """Spread of the noise on the target policy's actions, relative to half the action range."""
    noise_clip: float = 0.5
    """Largest noise on the target policy's actions, relative to half the action range."""
    policy_freq: int = 2
    """Critic updates for each update of the actor and of the target networks."""
    expl_noise: float = 0.1
    """Spread of the noise on actions that are played online, relative to half the action range."""

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


class Density(nn.Module):
    """A variational autoencoder of actions given observations: how likely the data's policy is to take one."""

    def __init__(self, observation_size: int, action_size: int, hidden: int) -> None:
        super().__init__()
        latent = 2 * action_size
        self.encoder = nn.Sequential(
            nn.Linear(observation_size + action_size, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.mean, self.log_std = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(observation_size + latent, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.action = nn.Linear(hidden, action_size)

    def loss(self, observations: Tensor, unit: Tensor, beta: float) -> Tensor:
        """The negative of a bound on the log-density of actions from -1 to 1, up to a constant, shaped (rows,)."""
        hidden = self.encoder(torch.cat((observations, unit), dim=1))
        mean, log_std = self.mean(hidden), self.log_std(hidden).clamp(-4, 15)
        latent = mean + log_std.exp() * torch.randn_like(mean)
        drawn = self.action(self.decoder(torch.cat((observations, latent), dim=1))).tanh()
        divergence = -0.5 * (1 + 2 * log_std - mean.square() - (2 * log_std).exp()).mean(dim=1)
        return (drawn - unit).square().mean(dim=1) + beta * divergence


class Learner:
    """The networks, their target networks and one gradient step."""

    def __init__(self, task: OfflineTask, args: Args, device: torch.device) -> None:
        self.args, self.lambd = args, args.lambd
        size, inputs, hidden = task.observation_size, task.observation_size + task.action_size, args.hidden_dim
        self.density = Density(size, task.action_size, args.vae_hidden_dim).to(device)
        self.actor = TanhActor(size, task.action_space, hidden).to(device)
        self.critics = TwinCritics(inputs, hidden).to(device)
        self.target_actor = TanhActor(size, task.action_space, hidden).to(device).requires_grad_(False)
        self.target_critics = TwinCritics(inputs, hidden).to(device).requires_grad_(False)
        self.density_adam = FusedAdam(self.density, args.vae_lr)
        self.actor_adam = FusedAdam(self.actor, args.actor_lr)
        self.critic_adam = FusedAdam(self.critics, args.qf_lr)
        self.followers = (
            TargetNetwork(self.target_actor, self.actor_adam.vector),
            TargetNetwork(self.target_critics, self.critic_adam.vector),
        )
        self.updates = 0
        self.vae_loss, self.critic_loss = torch.zeros(()), torch.zeros(())
        self.actor_loss, self.value = torch.zeros(()), torch.zeros(())

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        unit = self.actor.unit(self.target_actor(batch.next_observations))
        clip = self.args.noise_clip
        noise = torch.randn_like(unit).mul_(self.args.policy_noise).clamp_(-clip, clip)
        actions = self.actor.stretched((unit + noise).clamp_(-1, 1))
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.discount)

    def loss_of_critics(self, batch: Batch) -> Tensor:
        values = self.critics(batch.observations_and_actions)
        self.value = values.detach().mean()
        return (values - self.targets(batch)).square().mean(dim=1).sum()

    def loss_of_actor(self, batch: Batch) -> Tensor:
        """The first critic's opinion, on the scale of 1 by its own size, and how unlikely the data makes the action."""
        actions = self.actor(batch.observations)
        values = self.critics.first(torch.cat((batch.observations, actions), dim=1))
        weight = 1 / values.detach().abs().mean().clamp_min(1e-8)
        unlikely = self.density.loss(batch.observations, self.actor.unit(actions), self.args.vae_beta)
        return self.lambd * unlikely.mean() - weight * values.mean()

    def update(self, batch: Batch) -> None:
        """One step of the VAE as long as that is due, then of the critics and every so often of the actor."""
        self.updates += 1
        if self.updates <= self.args.vae_iterations:
            loss = self.density.loss(batch.observations, self.actor.unit(batch.actions), self.args.vae_beta).mean()
            self.density_adam.minimise(loss)
            self.vae_loss = loss.detach()
            return
        loss = self.loss_of_critics(batch)
        self.critic_adam.minimise(loss)
        self.critic_loss = loss.detach()
        if self.updates % self.args.policy_freq == 0:
            loss = self.loss_of_actor(batch)
            self.actor_adam.minimise(loss)
            self.actor_loss = loss.detach()
            for follower in self.followers:
                follower.follow(self.args.tau)

    def figures(self) -> dict[str, float]:
        return {
            "losses/vae_loss": self.vae_loss.item(),
            "losses/critic_loss": self.critic_loss.item(),
            "losses/actor_loss": self.actor_loss.item(),
            "losses/q_values": self.value.item(),
        }

    def require_finite(self) -> None:
        vectors = self.actor_adam.vector, self.critic_adam.vector, self.density_adam.vector
        require_finite(*vectors, what="networks are", advice="--qf-lr or --vae-lr")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task, args.online_steps)

    state = TrainingState()
    state.module("density", learner.density)
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_actor", learner.target_actor)
    state.module("target_critics", learner.target_critics)
    state.attributes("density_adam", learner.density_adam, *MOMENTS)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("learner", learner, "updates", "vae_loss", "critic_loss", "actor_loss", "value")
    networks = learner.actor, learner.require_finite
    run = OfflineRun(task, session, state, args, replay, *networks, noise=args.expl_noise)

    run.restore(task.dataset.in_parts())
    while run.goes_on():
        run.play()
        learner.lambd = args.lambd * (1 - (1 - args.lambd_end) * run.online_share)
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_offline(
        args,
        counts=("policy_freq", "vae_hidden_dim"),
        not_negative=("lambd", "vae_beta", "vae_iterations", "policy_noise", "noise_clip", "expl_noise"),
        positive=("actor_lr", "qf_lr", "vae_lr"),
        fractions=("discount", "tau", "lambd_end"),
    )
    sentence = f"must be less than --total-timesteps ({args.total_timesteps}), got {args.vae_iterations}."
    require(args.vae_iterations < args.total_timesteps, f"--vae-iterations {sentence}")


def make_task(args: Args) -> OfflineTask:
    """The dataset and its environment, checked for what this algorithm can handle. Raises UsageError."""
    return open_task(ALGORITHM, args, ("continuous",))


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    return load_acting(
        TanhActor(sizes_of(checkpoint)[0], any_range(checkpoint), args.hidden_dim), checkpoint, args.expl_noise
    )


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    return run_script(ALGORITHM, "Learn from a dataset with SPOT.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
