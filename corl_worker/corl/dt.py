"""Decision Transformer (DT, Chen et al., 2021): predicts the action that goes with the return one asks for.

    python corl_worker/corl/dt.py --dataset pendulum-mix --target-return -150 --total-timesteps 20000

No values are learned. A transformer reads the last ``--seq-len`` steps as (return still to come, observation, action)
and predicts the actions; asked for a high return, it acts as the episodes did that had one. It remembers its episode:
where rewards are not reported to it, in a played session, it asks for the same return all along.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from corl_worker.acting import Scales, loaded_scales, observation_rows, sizes_of
from corl_worker.arguments import check_offline
from corl_worker.offline_run import OfflineRun
from corl_worker.replay import MakeTable, returns_to_go
from corl_worker.task import OfflineTask, open_task
from mosaic_worker.learning.adam import MOMENTS, FusedAdam, require_finite
from mosaic_worker.learning.argument_checks import require
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.offline import Data
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.environments import make_env
from mosaic_worker.training.session import TrainingSession

ALGORITHM = "dt"


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
    hidden_dim: int = 256
    """Units in each of the hidden layers."""
    target_return: float | None = None
    """Return that is asked for when it acts; the dataset's best episode unless it is given."""
    seq_len: int = 20
    """Steps that it looks back."""
    num_layers: int = 3
    """Blocks of the transformer."""
    num_heads: int = 1
    """Heads of attention in each."""
    episode_len: int = 1_000
    """Longest episode that it can tell the time in."""
    dropout: float = 0.1
    """Share of units that are left out of each update."""
    learning_rate: float = 1e-4
    """Step size of Adam, after the warm-up."""
    warmup_steps: int = 1_000
    """Updates over which the step size rises to that."""

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


@dataclass
class Pieces:
    """Pieces of episodes, (rows, steps, …); padded behind, where `real` is 0."""

    returns: Tensor
    observations: Tensor
    actions: Tensor
    times: Tensor
    real: Tensor


class Trajectories:
    """The dataset's episodes, and pieces of them drawn as often as they have steps."""

    PARTS = ()
    with_returns = with_next_actions = False

    def __init__(self, task: OfflineTask, args: Args) -> None:
        self.task, self.steps, self.longest = task, args.seq_len, args.episode_len
        self.filled, self.scale = 0, 0.0

    def load(self, data: Data, scales: Scales, gamma: float = 1.0, make_table: MakeTable = torch.empty) -> None:
        size, count = data.width, 1 if self.task.is_discrete else self.task.action_size
        self.rows = make_table(len(data), size + count + 1)
        for part in data.parts():
            array = self.rows[self.filled : self.filled + len(part)].numpy()
            array[:, :size] = scales.observations(part.observations)
            array[:, size:-1] = np.asarray(part.actions, np.float32).reshape(len(part), -1)
            array[:, -1] = returns_to_go(part, part.rewards, 1.0)
            self.scale = max(self.scale, float(np.abs(array[:, -1]).max()))
            self.filled += len(part)
        self.scale = self.scale or 1.0
        self.best = float(data.returns().max())
        self.size, self.starts = size, torch.from_numpy(np.concatenate([[0], np.cumsum(data.lengths())]))

    def sample(self, count: int, device: torch.device) -> Pieces:
        first = torch.randint(self.filled, (count, 1))
        episode = torch.searchsorted(self.starts, first, right=True) - 1
        numbers = first + torch.arange(self.steps)
        real = numbers < self.starts[episode + 1]
        numbers = torch.where(real, numbers, first)
        rows = self.rows[numbers].to(device)
        actions = rows[..., self.size : -1]
        return Pieces(
            rows[..., -1:] / self.scale,
            rows[..., : self.size],
            actions[..., 0].long() if self.task.is_discrete else actions,
            (numbers - self.starts[episode]).clamp_max(self.longest - 1).to(device),
            real.float().to(device),
        )


class Block(nn.Module):
    """One block of the transformer: attention to what came before, then a network for each place."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, places: Tensor) -> Tensor:
        rows, count, width = places.shape
        drop = self.dropout if self.training else 0.0
        parts = self.mix(self.norm_1(places)).view(rows, count, 3, self.heads, width // self.heads)
        asked, keys, values = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(asked, keys, values, dropout_p=drop, is_causal=True)
        places = places + F.dropout(self.out(seen.transpose(1, 2).reshape(rows, count, width)), drop)
        return places + F.dropout(self.narrow(F.gelu(self.wide(self.norm_2(places)))), drop)


class DecisionTransformer(nn.Module):
    """Returns to come, observations and actions in turn; at the place of each observation, the action."""

    asked: Tensor
    """The return that is asked for, and the scale that returns are told on."""

    def __init__(self, observation_size: int, action_size: int, discrete: bool, args: Args) -> None:
        super().__init__()
        width = args.hidden_dim
        self.discrete, self.action_size, self.longest = discrete, action_size, args.episode_len
        self.time = nn.Embedding(args.episode_len, width)
        self.of_return, self.of_observation = nn.Linear(1, width), nn.Linear(observation_size, width)
        self.of_action: nn.Module = nn.Embedding(action_size, width) if discrete else nn.Linear(action_size, width)
        self.first_norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList([Block(width, args.num_heads, args.dropout) for _ in range(args.num_layers)])
        self.head = nn.Linear(width, action_size)
        self.register_buffer("asked", torch.zeros(2, dtype=torch.float64))
        for table in (self.time, *([self.of_action] if discrete else [])):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, pieces: Pieces) -> Tensor:
        """Predicted actions (rows, steps, size): from -1 to 1, or one logit for each choice."""
        time = self.time(pieces.times)
        told = (
            self.of_return(pieces.returns) + time,
            self.of_observation(pieces.observations) + time,
            self.of_action(pieces.actions) + time,
        )
        places = self.first_norm(torch.stack(told, dim=2).flatten(1, 2))
        for block in self.blocks:
            places = block(places)
        found = self.head(self.last_norm(places[:, 1::3]))
        return found if self.discrete else found.tanh()


class Learner:
    """The transformer and one gradient step."""

    def __init__(self, task: OfflineTask, args: Args, device: torch.device) -> None:
        self.args, self.discrete = args, task.is_discrete
        self.actor = DecisionTransformer(task.observation_size, task.action_size, task.is_discrete, args).to(device)
        self.adam = FusedAdam(self.actor, args.learning_rate)
        self.updates, self.loss = 0, torch.zeros(())
        if not self.discrete:
            low, high = (torch.from_numpy(end).reshape(-1) for end in (task.action_space.low, task.action_space.high))
            self.middle, self.reach = ((high + low) / 2).to(device), ((high - low) / 2).to(device)

    def loss_of(self, pieces: Pieces) -> Tensor:
        """How far the predicted actions are from those that were taken."""
        if self.discrete:
            errors = F.cross_entropy(self.actor(pieces).flatten(0, 1), pieces.actions.flatten(), reduction="none")
            return (errors * pieces.real.flatten()).sum() / pieces.real.sum()
        pieces.actions = (pieces.actions - self.middle) / self.reach
        errors = (self.actor(pieces) - pieces.actions).square().mean(dim=2)
        return (errors * pieces.real).sum() / pieces.real.sum()

    def update(self, pieces: Pieces) -> None:
        self.updates += 1
        self.adam.learning_rate = self.args.learning_rate * min(1.0, self.updates / max(1, self.args.warmup_steps))
        loss = self.loss_of(pieces)
        self.adam.minimise(loss)
        self.loss = loss.detach()

    def figures(self) -> dict[str, float]:
        return {"losses/actor_loss": self.loss.item()}

    def require_finite(self) -> None:
        require_finite(self.adam.vector, what="network is")


class DecisionPolicy:
    """A transformer that acts, and remembers its episode as long as it is asked about one observation at a time."""

    def __init__(self, actor: DecisionTransformer, spaces: dict[str, Any], scales: Scales, seq_len: int) -> None:
        self.actor, self.spaces, self.scale, self.seq_len = actor, spaces, scales.observations, seq_len
        self.target, self.returns_scale = actor.asked.tolist()
        self.device = actor.asked.device
        self.begin_episode()

    def begin_episode(self) -> None:
        self.left, self.time = self.target, 0
        self.past: deque[tuple[float, NDArray[Any], NDArray[Any], int]] = deque(maxlen=self.seq_len)

    def rewarded(self, reward: float) -> None:
        self.left -= reward

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        rows = self.scale(observation_rows(self.spaces["observation"], observations))
        if len(rows) != 1:
            return np.concatenate([self._one(row, deque(), 0, deterministic, random) for row in rows])
        chosen = self._one(rows[0], self.past, self.time, deterministic, random)
        self.time += 1
        return chosen

    @torch.no_grad()
    def _one(self, row: NDArray[Any], past: deque[Any], time: int, deterministic: bool, random: Any) -> NDArray[Any]:
        blank = np.zeros((), np.int64) if self.actor.discrete else np.zeros(self.actor.action_size, np.float32)
        now = (self.left / self.returns_scale, row, blank, min(time, self.actor.longest - 1))
        steps = [*past, now][-self.seq_len :]
        columns = (torch.as_tensor(np.array(column)[None]).to(self.device) for column in zip(*steps, strict=True))
        returns, rows, actions, times = columns
        pieces = Pieces(returns.float().unsqueeze(2), rows, actions, times, torch.ones_like(times))
        self.actor.eval()
        found = self.actor(pieces)[0, -1].cpu().numpy()
        self.actor.train()
        kept, chosen = self._chosen(found, deterministic, random)
        past.append((*now[:2], kept, now[3]))
        return chosen

    def _chosen(self, found: NDArray[Any], deterministic: bool, random: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """The action as the transformer sees it, and as the environment takes it."""
        action = self.spaces["action"]
        if self.actor.discrete:
            drawn = found if deterministic else found + random.gumbel(size=found.shape)
            choice = np.array(drawn.argmax(), np.int64)
            return choice, np.array([choice + int(action.get("start", 0))])
        low, high = (np.array(action[end], np.float32) for end in ("low", "high"))
        return found, ((high + low) / 2 + (high - low) / 2 * found).reshape(1, *action["shape"])


def train(args: Args, task: OfflineTask, session: TrainingSession) -> None:
    device = prepare_torch(args)
    learner = Learner(task, args, device)
    replay: Any = Trajectories(task, args)

    state = TrainingState()
    state.module("actor", learner.actor)
    state.attributes("adam", learner.adam, *MOMENTS)
    state.attributes("learner", learner, "updates", "loss")
    run = OfflineRun(task, session, state, args, replay, learner.actor, learner.require_finite)
    run.policy = lambda: DecisionPolicy(learner.actor, run.state.spaces, run.scales, args.seq_len)  # type: ignore[method-assign]

    data = task.dataset.in_parts()
    run.restore(data)
    asked = replay.best if args.target_return is None else args.target_return
    learner.actor.asked.copy_(torch.tensor([asked, replay.scale]))
    while run.goes_on():
        learner.update(replay.sample(args.batch_size, device))
        run.count(learner.figures)
    run.end()


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    counts = ("seq_len", "num_layers", "num_heads", "episode_len")
    check_offline(
        args, counts=counts, not_negative=("warmup_steps",), positive=("learning_rate",), fractions=("dropout",)
    )
    fits = args.hidden_dim % args.num_heads == 0
    require(fits, f"--hidden-dim must be a multiple of --num-heads ({args.num_heads}), got {args.hidden_dim}.")
    asked = args.target_return
    require(asked is None or math.isfinite(asked), f"--target-return must be a number, got {asked}.")


def make_task(args: Args) -> OfflineTask:
    """The dataset and its environment, checked for what this algorithm can handle. Raises UsageError."""
    return open_task(ALGORITHM, args)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    size, count = sizes_of(checkpoint)
    spaces = checkpoint.manifest.spaces
    actor = DecisionTransformer(size, count, spaces["action"]["type"] == "Discrete", args)
    fill(actor, "actor", checkpoint)
    return DecisionPolicy(actor, spaces, loaded_scales(checkpoint), args.seq_len)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    return run_script(ALGORITHM, "Learn from a dataset with a decision transformer.", Args, check, make_task, train)


if __name__ == "__main__":
    sys.exit(main())
