"""Conservative Q-learning (CQL, Kumar et al., 2020) on soft actor-critic.

    python corl_worker/corl/cql.py --dataset pendulum-mix --normalize-reward

Critics are pushed down on actions that the actor would take and up on those that the data has, so what they say of the
policy is a lower bound. Networks have the names and shapes of ``sac_continuous_action``, which can go on from here.
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
from corl_worker.networks import SquashedActor
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, TargetNetwork, require_finite
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.temperature import Temperature
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "cql"


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
    cql_alpha: float = 10.0
    """How much the critics' values of other actions are pushed below those of the data's."""
    cql_n_actions: int = 10
    """Actions of each kind (uniform, the actor's here, the actor's at the next state) that are compared."""
    cql_temp: float = 1.0
    """Sharpness of that comparison: small looks at the highest value alone."""
    discount: float = 0.99
    """What a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each update."""
    policy_lr: float = 1e-4
    """Step size of Adam for the actor."""
    q_lr: float = 3e-4
    """Step size of Adam for the critics and for the temperature."""
    alpha: float = 0.2
    """Temperature, the weight of the policy's entropy, when it is not tuned."""
    autotune: bool = True
    """Tune the temperature so that the policy keeps an entropy of minus the number of action dimensions."""

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
    """The networks, their target network, the temperature and one gradient step."""

    PARTS = ("critic_loss", "actor_loss", "value", "gap")

    def __init__(self, task: OfflineTask, args: Any, device: torch.device) -> None:
        self.args, self.cql_alpha = args, args.cql_alpha
        size, inputs = task.observation_size, task.observation_size + task.action_size
        self.actor = SquashedActor(size, task.action_space, args.hidden_dim).to(device)
        self.critics = TwinCritics(inputs, args.hidden_dim).to(device)
        self.target_critics = TwinCritics(inputs, args.hidden_dim).to(device).requires_grad_(False)
        self.actor_adam = FusedAdam(self.actor, args.policy_lr)
        self.critic_adam = FusedAdam(self.critics, args.q_lr)
        self.target = TargetNetwork(self.target_critics, self.critic_adam.vector)
        self.temperature = Temperature(-float(task.action_size), args)
        self.critic_loss, self.actor_loss = torch.zeros(()), torch.zeros(())
        self.value, self.gap = torch.zeros(()), torch.zeros(())

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """What both critics should have said, but for the push: reward and the discounted value of what follows."""
        actions, _ = self.actor.sample(batch.next_observations)
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.discount)

    @torch.no_grad()
    def compared_actions(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Actions (3 n, rows, size) that the data's are compared with, and the logarithms of their densities: uniform
        ones first, then the actor's."""
        count = self.args.cql_n_actions
        uniform = torch.rand((count, *batch.actions.shape), device=batch.actions.device) * 2 - 1
        density = -(2 * self.actor.action_scale).log().sum().expand(count, len(batch.actions))
        here, here_density = self.actor.sample(batch.observations, count)
        there, there_density = self.actor.sample(batch.next_observations, count)
        actions = torch.cat((self.actor.stretched(uniform), here, there))
        return actions, torch.cat((density, here_density, there_density))

    def values_of(self, actions: Tensor, batch: Batch) -> Tensor:
        """What both critics say of several actions for each row, shaped (2, actions, rows)."""
        observations = batch.observations.expand(len(actions), -1, -1)
        rows = torch.cat((observations, actions), dim=2).flatten(0, 1)
        return self.critics(rows).unflatten(1, actions.shape[:2])

    def bounded(self, values: Tensor, batch: Batch) -> Tensor:
        """The values that are pushed down, as they are; Cal-QL has more to say here."""
        return values

    def loss_of_critics(self, batch: Batch) -> Tensor:
        values = self.critics(batch.observations_and_actions)
        actions, densities = self.compared_actions(batch)
        others = self.bounded(self.values_of(actions, batch), batch)
        temperature = self.args.cql_temp
        soft_highest = ((others - densities) / temperature).logsumexp(dim=1) * temperature
        gap = (soft_highest - values).mean(dim=1)
        self.value, self.gap = values.detach().mean(), gap.detach().mean()
        errors = (values - self.targets(batch)).square().mean(dim=1)
        return (errors + self.cql_alpha * gap).sum()

    def update_actor(self, observations: Tensor) -> None:
        """One step of the actor, then of the temperature."""
        actions, log_probs = self.actor.sample(observations)
        values = self.critics(torch.cat((observations, actions), dim=1)).amin(dim=0)
        loss = (self.temperature.alpha * log_probs - values).mean()
        self.actor_adam.minimise(loss)
        self.actor_loss = loss.detach()
        if self.temperature.tuned:
            self.temperature.tune(log_probs.mean().item())

    def update(self, batch: Batch) -> None:
        self.update_actor(batch.observations)
        loss = self.loss_of_critics(batch)
        self.critic_adam.minimise(loss)
        self.critic_loss = loss.detach()
        self.target.follow(self.args.tau)

    def figures(self) -> dict[str, float]:
        return {
            "losses/critic_loss": self.critic_loss.item(),
            "losses/actor_loss": self.actor_loss.item(),
            "losses/q_values": self.value.item(),
            "losses/cql_gap": self.gap.item(),
            "losses/alpha": self.temperature.alpha,
        }

    def require_finite(self) -> None:
        vectors = self.actor_adam.vector, self.critic_adam.vector
        require_finite(*vectors, what="networks are", advice="--q-lr or --policy-lr")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *MOMENTS)
    state.attributes("critic_adam", learner.critic_adam, *MOMENTS)
    state.attributes("temperature", learner.temperature, *learner.temperature.PARTS)
    state.attributes("learner", learner, *learner.PARTS)
    run = OfflineRun(task, session, state, args, replay, learner.actor, learner.require_finite)

    run.restore(task.dataset.in_parts())
    while run.goes_on():
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def check(args: Any) -> None:
    """Raise UsageError for the first argument that cannot work."""
    positive = ("policy_lr", "q_lr", "cql_temp")
    lists: dict[str, Any] = {"not_negative": ("alpha", "cql_alpha"), "positive": positive}
    check_offline(args, counts=("cql_n_actions",), fractions=("discount", "tau"), **lists)


def make_task(args: Args) -> OfflineTask:
    """The dataset and its environment, checked for what this algorithm can handle. Raises UsageError."""
    return open_task(ALGORITHM, args, ("continuous",))


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    return load_acting(SquashedActor(sizes_of(checkpoint)[0], any_range(checkpoint), args.hidden_dim), checkpoint)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    return run_script(ALGORITHM, "Learn from a dataset with CQL.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
