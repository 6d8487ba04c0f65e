"""ReBRAC (Tarasov et al., 2023): TD3+BC with the data's pull on actor and critic apart, and critics with layer norms.

    python corl_worker/corl/rebrac.py --dataset hopper-medium --actor-bc-coef 0.01 --critic-bc-coef 0.01

The actor is pulled towards the data's actions, and what follows an action is worth less the farther the next action is
from the one that the data took. Layer norms keep critics from running away on actions that nobody tried.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.arguments import check_offline
from corl_worker.networks import TanhActor
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, TargetNetwork, require_finite
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.twin_critics import twin_layer
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "rebrac"


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
    normalize: bool = False
    """Bring observations to mean 0 and deviation 1 of the dataset; the policy keeps these numbers."""
    normalize_reward: bool = True
    """Scale rewards so that the best and the worst episode lie as far apart as the longest has steps."""
    reward_scale: float = 1.0
    """What rewards are multiplied by, after that."""
    reward_bias: float = 0.0
    """What is added to rewards, after that."""
    hidden_dim: int = 256
    """Units in each of the hidden layers."""
    actor_bc_coef: float = 0.1
    """How much the distance to the data's actions costs the actor."""
    critic_bc_coef: float = 0.1
    """How much the distance to the data's next action lowers what follows."""
    normalize_q: bool = True
    """Bring the critic's opinion to the scale of 1 before the actor weighs it against the data."""
    actor_learning_rate: float = 1e-3
    """Step size of Adam for the actor."""
    critic_learning_rate: float = 1e-3
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


class NormedCritics(nn.Module):
    """Two Q-networks of three hidden layers, each with a layer norm; parameters have a leading dimension of 2."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        sizes = (inputs, hidden, hidden, hidden, 1)
        layers = [twin_layer(one, other) for one, other in pairwise(sizes)]
        self.weights = nn.ParameterList([weight for weight, _ in layers])
        self.biases = nn.ParameterList([bias for _, bias in layers])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(2, 1, hidden)) for _ in layers[:-1]])
        self.shifts = nn.ParameterList([nn.Parameter(torch.zeros(2, 1, hidden)) for _ in layers[:-1]])

    def forward(self, inputs: Tensor) -> Tensor:
        """Values shaped (2, rows)."""
        hidden = inputs.expand(2, -1, -1)
        for number, (gain, shift) in enumerate(zip(self.gains, self.shifts, strict=True)):
            hidden = torch.baddbmm(self.biases[number], hidden, self.weights[number]).relu_()
            hidden = torch.addcmul(shift, F.layer_norm(hidden, hidden.shape[2:]), gain)
        return torch.baddbmm(self.biases[-1], hidden, self.weights[-1]).squeeze(2)


class Learner:
    """The networks, their target networks and one gradient step."""

    def __init__(self, task: OfflineTask, args: Args, device: torch.device) -> None:
        self.args = args
        size, inputs, hidden = task.observation_size, task.observation_size + task.action_size, args.hidden_dim
        self.actor = TanhActor(size, task.action_space, hidden).to(device)
        self.critics = NormedCritics(inputs, hidden).to(device)
        self.target_actor = TanhActor(size, task.action_space, hidden).to(device).requires_grad_(False)
        self.target_critics = NormedCritics(inputs, hidden).to(device).requires_grad_(False)
        self.actor_adam = FusedAdam(self.actor, args.actor_learning_rate)
        self.critic_adam = FusedAdam(self.critics, args.critic_learning_rate)
        self.followers = (
            TargetNetwork(self.target_actor, self.actor_adam.vector),
            TargetNetwork(self.target_critics, self.critic_adam.vector),
        )
        self.updates = 0
        self.critic_loss, self.actor_loss, self.value = torch.zeros(()), torch.zeros(()), torch.zeros(())

    def away(self, actions: Tensor, others: Tensor) -> Tensor:
        """The squared distance of actions, in units of half their range, shaped (rows,)."""
        return ((actions - others) / self.actor.action_scale).square().sum(dim=1)

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        assert batch.next_actions is not None
        unit = self.actor.unit(self.target_actor(batch.next_observations))
        clip = self.args.noise_clip
        noise = torch.randn_like(unit).mul_(self.args.policy_noise).clamp_(-clip, clip)
        actions = self.actor.stretched((unit + noise).clamp_(-1, 1))
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        following = following - self.args.critic_bc_coef * self.away(actions, batch.next_actions)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.discount)

    def loss_of_critics(self, batch: Batch) -> Tensor:
        values = self.critics(batch.observations_and_actions)
        self.value = values.detach().mean()
        return (values - self.targets(batch)).square().mean(dim=1).sum()

    def loss_of_actor(self, batch: Batch) -> Tensor:
        actions = self.actor(batch.observations)
        values = self.critics(torch.cat((batch.observations, actions), dim=1)).amin(dim=0)
        weight = 1 / values.detach().abs().mean().clamp_min(1e-8) if self.args.normalize_q else 1.0
        return (self.args.actor_bc_coef * self.away(actions, batch.actions) - weight * values).mean()

    def update(self, batch: Batch) -> None:
        """One step of the critics, every so often of the actor and the targets."""
        loss = self.loss_of_critics(batch)
        self.critic_adam.minimise(loss)
        self.critic_loss = loss.detach()
        self.updates += 1
        if self.updates % self.args.policy_freq == 0:
            loss = self.loss_of_actor(batch)
            self.actor_adam.minimise(loss)
            self.actor_loss = loss.detach()
            for follower in self.followers:
                follower.follow(self.args.tau)

    def figures(self) -> dict[str, float]:
        return {
            "losses/critic_loss": self.critic_loss.item(),
            "losses/actor_loss": self.actor_loss.item(),
            "losses/q_values": self.value.item(),
        }

    def require_finite(self) -> None:
        vectors = self.actor_adam.vector, self.critic_adam.vector
        require_finite(*vectors, what="networks are", advice="--critic-learning-rate")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task, args.online_steps, next_actions=True)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_actor", learner.target_actor)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("learner", learner, "updates", "critic_loss", "actor_loss", "value")
    networks = learner.actor, learner.require_finite
    run = OfflineRun(task, session, state, args, replay, *networks, noise=args.expl_noise)

    run.restore(task.dataset.in_parts())
    while run.goes_on():
        run.play()
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_offline(
        args,
        counts=("policy_freq",),
        not_negative=("actor_bc_coef", "critic_bc_coef", "policy_noise", "noise_clip", "expl_noise"),
        positive=("actor_learning_rate", "critic_learning_rate"),
        fractions=("discount", "tau"),
    )


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
    return run_script(ALGORITHM, "Learn from a dataset with ReBRAC.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
