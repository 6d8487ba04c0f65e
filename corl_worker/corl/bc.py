"""Behaviour cloning: act as the dataset did, or as the best part of it did (``--best-fraction 0.1`` is 10 %BC).

    python corl_worker/corl/bc.py --dataset my-demonstrations --total-timesteps 20000

The measure for every other offline algorithm: one that is not better than this has learned nothing but the data's own
behaviour. Continuous actions are imitated by their mean, discrete ones by their probabilities.
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
from corl_worker.networks import TanhActor, choices_network
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, require_finite
from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "bc"


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
    normalize: bool = False
    """Bring observations to mean 0 and deviation 1 of the dataset; the policy keeps these numbers."""
    hidden_dim: int = 256
    """Units in each of the hidden layers."""
    best_fraction: float = 1.0
    """Share of the episodes, by their returns, that is imitated; 0.1 is what the literature calls 10 %BC."""
    learning_rate: float = 3e-4
    """Step size of Adam."""

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
    """The actor and one gradient step."""

    def __init__(self, task: OfflineTask, args: Args, device: torch.device) -> None:
        self.discrete = task.is_discrete
        self.actor: Any = make_actor(task.observation_size, task.action_space, args.hidden_dim).to(device)
        self.adam = FusedAdam(self.actor, args.learning_rate)
        self.loss = torch.zeros(())

    def loss_of(self, batch: Batch) -> Tensor:
        """How far the actor is from what the dataset did."""
        if self.discrete:
            return F.cross_entropy(self.actor(batch.observations), batch.actions)
        away = self.actor(batch.observations) - batch.actions
        return (away / self.actor.action_scale).square().mean()

    def update(self, batch: Batch) -> None:
        loss = self.loss_of(batch)
        self.adam.minimise(loss)
        self.loss = loss.detach()

    def figures(self) -> dict[str, float]:
        return {"losses/actor_loss": self.loss.item()}

    def require_finite(self) -> None:
        require_finite(self.adam.vector, what="network is")


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.attributes("adam", learner.adam, *MOMENTS)
    state.attributes("learner", learner, "loss")
    run = OfflineRun(task, session, state, args, replay, learner.actor, learner.require_finite)

    run.restore(task.dataset.in_parts().best_fraction(args.best_fraction))
    while run.goes_on():
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def make_actor(observation_size: int, actions: gym.Space[Any], hidden: int) -> nn.Module:
    if isinstance(actions, gym.spaces.Discrete):
        return choices_network(observation_size, hidden, int(actions.n))
    assert isinstance(actions, gym.spaces.Box)
    return TanhActor(observation_size, actions, hidden)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_offline(args, positive=("learning_rate", "best_fraction"))
    require(args.best_fraction <= 1, f"--best-fraction must be at most 1, got {args.best_fraction}.")


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
    return run_script(ALGORITHM, "Imitate the actions of a dataset.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
