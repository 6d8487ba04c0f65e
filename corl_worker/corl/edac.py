"""EDAC (An et al., 2021): SAC-N whose critics are kept from agreeing, so that fewer of them do.

    python corl_worker/corl/edac.py --dataset halfcheetah-medium --eta 1

What critics say about actions that the data does not have is all that restrains the actor. Where their slopes point the
same way they do not restrain it at all, so that is penalised. All else is :mod:`corl_worker.corl.sac_n`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.corl import sac_n
from corl_worker.networks import SquashedActor
from corl_worker.replay import Batch
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.argument_checks import check_ranges, require
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "edac"


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
    normalize_reward: bool = False
    """Scale rewards so that the best and the worst episode lie as far apart as the longest has steps."""
    reward_scale: float = 1.0
    """What rewards are multiplied by, after that."""
    reward_bias: float = 0.0
    """What is added to rewards, after that."""
    hidden_dim: int = 256
    """Units in each of the hidden layers."""
    num_critics: int = 10
    """Critics, the most careful of which is believed."""
    eta: float = 1.0
    """How much slopes of critics that point the same way cost; 0 is SAC-N."""
    discount: float = 0.99
    """What a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each update."""
    policy_lr: float = 3e-4
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


class Learner(sac_n.Learner):
    """SAC-N's, with one more term in the loss of the critics."""

    def agreement(self, batch: Batch) -> Tensor:
        """How much the critics' slopes along the actions point the same way: their mean pairwise cosine, times N."""
        count = self.args.num_critics
        actions = batch.actions.expand(count, -1, -1).clone().requires_grad_()
        observations = batch.observations.expand(count, -1, -1)
        values = self.critics(torch.cat((observations, actions), dim=2))
        (slopes,) = torch.autograd.grad(values.sum(), actions, create_graph=True)
        slopes = (slopes / (slopes.norm(dim=2, keepdim=True) + 1e-10)).transpose(0, 1)
        cosines = slopes @ slopes.transpose(1, 2)
        others = cosines * (1 - torch.eye(count, device=cosines.device))
        return others.sum(dim=(1, 2)).mean() / (count - 1)

    def loss_of_critics(self, batch: Batch) -> Tensor:
        loss = super().loss_of_critics(batch)
        return loss + self.args.eta * self.agreement(batch) if self.args.eta else loss


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    sac_n.run_training(args, task, session, Learner)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    sac_n.check(args)
    check_ranges(args, not_negative=("eta",))
    require(args.num_critics > 1, "--num-critics must be at least 2: one critic agrees with itself.")


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
    return run_script(ALGORITHM, "Learn from a dataset with EDAC.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
