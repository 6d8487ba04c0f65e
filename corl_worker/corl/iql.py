"""Implicit Q-learning (IQL, Kostrikov et al., 2021), for continuous and discrete actions.

    python corl_worker/corl/iql.py --dataset pendulum-mix --normalize-reward
    python corl_worker/corl/iql.py --dataset pendulum-mix --normalize-reward --online-steps 10000

No action that the dataset does not have is ever valued: a state is worth what its better actions brought (an
expectile), critics learn from that, and the actor imitates actions by how much better they were than the state.
The weights of imitation are exponential in the rewards' scale, so ``--normalize-reward`` is on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.arguments import check_offline
from corl_worker.networks import GaussianActor, choices_network
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

ALGORITHM = "iql"
LARGEST_WEIGHT = 100.0


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
    beta: float = 3.0
    """How sharply better actions are preferred; 0 is behaviour cloning."""
    iql_tau: float = 0.7
    """Expectile of what a state is worth: 0.5 is its mean, nearer to 1 the best that the data did there."""
    discount: float = 0.99
    """What a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each update."""
    qf_lr: float = 3e-4
    """Step size of Adam for the critics."""
    vf_lr: float = 3e-4
    """Step size of Adam for the values of states."""
    actor_lr: float = 3e-4
    """Step size of Adam for the actor."""

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
        self.args, self.discrete = args, task.is_discrete
        size, hidden = task.observation_size, args.hidden_dim
        self.actor: Any = make_actor(size, task.action_space, hidden).to(device)
        self.critics = make_critics(size, task, hidden).to(device)
        self.target_critics = make_critics(size, task, hidden).to(device).requires_grad_(False)
        self.values = choices_network(size, hidden, 1).to(device)
        self.actor_adam = FusedAdam(self.actor, args.actor_lr)
        self.critic_adam = FusedAdam(self.critics, args.qf_lr)
        self.value_adam = FusedAdam(self.values, args.vf_lr)
        self.target = TargetNetwork(self.target_critics, self.critic_adam.vector)
        self.critic_loss, self.value_loss, self.actor_loss = torch.zeros(()), torch.zeros(()), torch.zeros(())
        self.value = torch.zeros(())

    def judged(self, critics: TwinCritics, batch: Batch) -> Tensor:
        """What both critics think of the actions that were taken, shaped (2, rows)."""
        if not self.discrete:
            return critics(batch.observations_and_actions)
        of_all = critics(batch.observations)
        return of_all.gather(2, batch.actions.expand(2, -1).unsqueeze(2)).squeeze(2)

    def loss_of_values(self, advantages: Tensor) -> Tensor:
        """An asymmetric square: falling short of the better actions costs more than exceeding the worse."""
        weights = torch.where(advantages > 0, self.args.iql_tau, 1 - self.args.iql_tau)
        return (weights * advantages.square()).mean()

    def loss_of_critics(self, batch: Batch, following: Tensor) -> Tensor:
        targets = torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.discount)
        return (self.judged(self.critics, batch) - targets).square().mean()

    def loss_of_actor(self, batch: Batch, advantages: Tensor) -> Tensor:
        """Imitation, weighted by how much better an action was than the state is worth."""
        weights = (self.args.beta * advantages).exp().clamp_max(LARGEST_WEIGHT)
        if self.discrete:
            return (weights * F.cross_entropy(self.actor(batch.observations), batch.actions, reduction="none")).mean()
        return -(weights * self.actor.log_probs(batch.observations, batch.actions)).mean()

    def update(self, batch: Batch) -> None:
        with torch.no_grad():
            judged = self.judged(self.target_critics, batch).amin(dim=0)
            following = self.values(batch.next_observations).squeeze(1)
        values = self.values(batch.observations).squeeze(1)
        advantages = judged - values
        value_loss = self.loss_of_values(advantages)
        self.value_adam.minimise(value_loss)
        critic_loss = self.loss_of_critics(batch, following)
        self.critic_adam.minimise(critic_loss)
        self.target.follow(self.args.tau)
        actor_loss = self.loss_of_actor(batch, advantages.detach())
        self.actor_adam.minimise(actor_loss)
        self.value_loss, self.critic_loss = value_loss.detach(), critic_loss.detach()
        self.actor_loss = actor_loss.detach()
        self.value = values.detach().mean()

    def figures(self) -> dict[str, float]:
        return {
            "losses/value_loss": self.value_loss.item(),
            "losses/q_loss": self.critic_loss.item(),
            "losses/actor_loss": self.actor_loss.item(),
            "losses/v_values": self.value.item(),
        }

    def require_finite(self) -> None:
        vectors = self.actor_adam.vector, self.critic_adam.vector, self.value_adam.vector
        require_finite(*vectors, what="networks are", advice="--beta or learning rate")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task, args.online_steps)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_critics", learner.target_critics)
    state.module("values", learner.values)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("value_adam", learner.value_adam, *MOMENTS)
    state.attributes("learner", learner, "critic_loss", "value_loss", "actor_loss", "value")
    run = OfflineRun(task, session, state, args, replay, learner.actor, learner.require_finite)

    run.restore(task.dataset.in_parts())
    while run.goes_on():
        run.play()
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def make_actor(observation_size: int, actions: gym.Space[Any], hidden: int) -> nn.Module:
    if isinstance(actions, gym.spaces.Discrete):
        return choices_network(observation_size, hidden, int(actions.n))
    assert isinstance(actions, gym.spaces.Box)
    return GaussianActor(observation_size, actions, hidden)


def make_critics(observation_size: int, task: OfflineTask, hidden: int) -> TwinCritics:
    if task.is_discrete:
        return TwinCritics(observation_size, hidden, outputs=task.action_size)
    return TwinCritics(observation_size + task.action_size, hidden)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    positive = ("qf_lr", "vf_lr", "actor_lr")
    check_offline(args, not_negative=("beta",), positive=positive, fractions=("discount", "tau", "iql_tau"))
    require(0 < args.iql_tau < 1, f"--iql-tau must lie between 0 and 1, got {args.iql_tau}.")


def make_task(args: Args) -> OfflineTask:
    """The dataset and its environment, checked for what this algorithm can handle. Raises UsageError."""
    return open_task(ALGORITHM, args)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    size, count = sizes_of(checkpoint)
    discrete = checkpoint.manifest.spaces["action"]["type"] == "Discrete"
    actions = gym.spaces.Discrete(count) if discrete else any_range(checkpoint)
    return load_acting(make_actor(size, actions, args.hidden_dim), checkpoint)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    return run_script(ALGORITHM, "Learn from a dataset with IQL.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
