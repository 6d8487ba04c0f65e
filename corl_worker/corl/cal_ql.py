"""Calibrated Q-learning (Cal-QL, Nakamoto et al., 2023): CQL that does not fall when it goes on in the environment.

    python corl_worker/corl/cal_ql.py --dataset pendulum-mix --online-steps 10000

CQL's critics end far below what the policy truly earns, and the first online transitions make it unlearn what it can.
Here values are never pushed below the returns that the data itself brought. Online, batches are mixed from the dataset
and from what was made since. All else is :mod:`corl_worker.corl.cql`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from corl_worker.acting import any_range, load_acting, sizes_of
from corl_worker.corl import cql
from corl_worker.networks import SquashedActor
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import Batch, Replay
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS
from mosaic_worker.learning.argument_checks import check_ranges
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "cal_ql"


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
    mixing_ratio: float = 0.5
    """Share of a batch that was made online, once the run goes on in the environment."""
    cql_alpha_online: float = 10.0
    """What --cql-alpha becomes there."""
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


class Learner(cql.Learner):
    """CQL's, with a floor under the values that are pushed down."""

    def bounded(self, values: Tensor, batch: Batch) -> Tensor:
        """No action of the actor's is valued below what the data brought from here; uniform ones may be."""
        assert batch.returns is not None
        count = self.args.cql_n_actions
        return torch.cat((values[:, :count], torch.maximum(values[:, count:], batch.returns)), dim=1)


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay = Replay(task, args.online_steps, returns=True)

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
        run.play()
        learner.cql_alpha = args.cql_alpha_online if run.is_online else args.cql_alpha
        share = args.mixing_ratio if run.is_online else 0.0
        learner.update(replay.sample_mixed(args.batch_size, share, device))
        run.count(learner.figures)
    run.end()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    cql.check(args)
    check_ranges(args, not_negative=("cql_alpha_online",), fractions=("mixing_ratio",))


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
    return run_script(ALGORITHM, "Learn from a dataset with Cal-QL.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
