"""PPO with Random Network Distillation, for Atari games whose rewards are hard to find, in one file.

    python cleanrl_worker/cleanrl/ppo_rnd_envpool.py --env-id MontezumaRevenge-v5

Curiosity is the error with which a trained network foresees what a fixed random network makes of the next picture:
large for pictures that were seen rarely. It is a second reward with a value function of its own, whose returns go on
over the end of an episode, since what is new stays new in the next one. Flag names, defaults and TensorBoard tags are
CleanRL's. One thing differs on purpose: the running estimate that curiosity is divided by sums it up along time, as
the paper says, not across environments.

EnvPool plays the games where it is installed, on every core; otherwise `ale_py` does, on one. EnvPool's games cannot
be kept in a checkpoint: a run resumed with it begins new episodes and goes on with all else as it was. With `ale_py` it
goes on exactly. A rollout is large, so a run that is stopped inside one falls back to its beginning.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker import checkpoints
from cleanrl_worker.allocation import keep_large_blocks
from cleanrl_worker.arguments import parse
from cleanrl_worker.atari import SIDE, STACK, STICKY, AtariEvaluation, AtariGames, make_games
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.envpool_games import EnvPoolGames, envpool_is_installed, make_envpool_games
from cleanrl_worker.policies import fill
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState


@dataclass
class Args:
    exp_name: str = "ppo_rnd_envpool"
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "MontezumaRevenge-v5"
    """Atari game by EnvPool's name."""
    env_backend: str = "auto"
    """Who plays the games: envpool, ale (slower, but resumes exactly), or auto for envpool where it is installed."""
    total_timesteps: int = 2_000_000_000
    """Environment steps in all, of 4 frames each, rounded up to whole rollouts."""
    learning_rate: float = 1e-4
    """Step size of Adam at the start."""
    num_envs: int = 128
    """How many games are played side by side."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.999
    """Discount of the game's own rewards."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimates."""
    num_minibatches: int = 4
    """Parts that a rollout is cut into for gradient steps."""
    update_epochs: int = 4
    """Passes over each rollout."""
    norm_adv: bool = True
    """Normalise the advantages of every minibatch."""
    clip_coef: float = 0.1
    """How far the new policy's probability ratio may move before its gradient is cut."""
    clip_vloss: bool = True
    """Clip the change of the values of the game's own rewards by the same coefficient."""
    ent_coef: float = 0.001
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value losses."""
    max_grad_norm: float = 0.5
    """Longest gradient that is applied unscaled."""
    target_kl: float | None = None
    """End the passes over a rollout once the policy has moved this far."""
    sticky_action: bool = True
    """Let the emulator repeat the last action in a quarter of the frames, so that no fixed sequence wins."""

    update_proportion: float = 0.25
    """Share of the observations that the predictor learns from; fewer keep it curious for longer."""
    int_coef: float = 1.0
    """Weight of the curiosity advantages."""
    ext_coef: float = 2.0
    """Weight of the game's advantages."""
    int_gamma: float = 0.99
    """Discount of curiosity."""
    num_iterations_obs_norm_init: int = 50
    """Rollouts of random play that the statistics of the pictures begin with."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more help only where cores are idle."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, in new episodes where EnvPool plays; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts anew."""


COUNTS = ("total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "torch_threads")
NOT_NEGATIVE = (
    *("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef"),
    *("int_coef", "ext_coef", "num_iterations_obs_norm_init"),
)
POSITIVE = ("learning_rate", "clip_coef", "max_grad_norm", "target_kl", "update_proportion")
FRACTIONS = ("gamma", "gae_lambda", "int_gamma", "update_proportion")
BACKENDS = ("auto", "envpool", "ale")


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    for name, value in dataclasses.asdict(args).items():
        flag = "--" + name.replace("_", "-")
        if name in COUNTS:
            require(value >= 1, f"{flag} must be at least 1, got {value}.")
        if name in NOT_NEGATIVE:
            require(0 <= value < math.inf, f"{flag} must be 0 or more, got {value}.")
        if name in POSITIVE and value is not None:
            require(0 < value < math.inf, f"{flag} must be more than 0, got {value}.")
        if name in FRACTIONS:
            require(0 <= value <= 1, f"{flag} must be from 0 to 1, got {value}.")
    require(
        args.env_backend in BACKENDS,
        f"--env-backend must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, got {args.env_backend!r}.",
    )
    # EnvPool may spend every other step on a reset.
    require(args.num_steps >= 2, f"--num-steps must be at least 2, got {args.num_steps}.")
    rows = args.num_envs * args.num_steps
    require(
        args.num_minibatches <= rows,
        f"--num-minibatches must be at most num-envs times num-steps ({rows}), got {args.num_minibatches}.",
    )
    require(
        not args.cuda or torch.cuda.is_available(),
        "--cuda was asked for, but PyTorch finds no CUDA device; leave it out to train on the CPU.",
    )


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UsageError(sentence)


Games = AtariGames | EnvPoolGames


def make_envs(args: Args) -> Games:
    """The games, from whoever is to play them. Raises UsageError."""
    sticky = STICKY if args.sticky_action else 0.0
    # New episodes of a resumed run must not be those it began with.
    seed = args.seed + (_step_of(args.resume) if args.resume else 0)
    wanted = args.env_backend
    if wanted == "envpool" or (wanted == "auto" and envpool_is_installed()):
        return make_envpool_games(
            "ppo_rnd_envpool", args.env_id, args.num_envs, seed, sticky=sticky, record=args.capture_video
        )
    games = make_games("ppo_rnd_envpool", args.env_id, args.num_envs, seed, sticky=sticky, record=args.capture_video)
    if wanted == "auto":
        sentence = "EnvPool is not installed: ale_py plays the games instead, in one thread, which is slower."
        print(sentence, flush=True)
    return games


def _step_of(path: str) -> int:
    try:
        return checkpoints.read_manifest(Path(path)).step
    except CheckpointError as error:
        raise UsageError(str(error)) from error


BLOCK = 4
BLOCKS = SIDE // BLOCK
FRAME_CHANNELS = BLOCK * BLOCK
FOLDED = (BLOCKS, BLOCKS, STACK * FRAME_CHANNELS)
"""Shape of an observation as a picture of 4x4 blocks: rows, columns, then picture and pixel within the block."""
ROWS_AT_ONCE = 256
"""Rows of a minibatch that go through the networks together: thousands would take gigabytes, and a stop seconds."""


def folded(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Observations (count, 4, 84, 84) as pictures of blocks (count, 21, 21, 64)."""
    blocks = observations.reshape(-1, STACK, BLOCKS, BLOCK, BLOCKS, BLOCK)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, *FOLDED)


def initialised(layer: Any, gain: float = math.sqrt(2)) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def over_blocks(network: nn.Sequential, pictures: Tensor) -> Tensor:
    """A network whose first convolution has a stride of 4, on folded pictures, where its stride is 1: much faster."""
    first, *others = network
    assert isinstance(first, nn.Conv2d)
    hidden = F.conv2d(pictures.permute(0, 3, 1, 2), F.pixel_unshuffle(first.weight, BLOCK), first.bias)
    for layer in others:
        hidden = layer(hidden)
    return hidden


class Agent(nn.Module):
    """Convolutions shared by the actor and by two critics: of the game's rewards and of curiosity."""

    def __init__(self, action_count: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            initialised(nn.Conv2d(STACK, 32, 8, stride=BLOCK)),
            nn.ReLU(),
            initialised(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            initialised(nn.Conv2d(64, 64, 3)),
            nn.ReLU(),
            nn.Flatten(),
            initialised(nn.Linear(64 * 7 * 7, 256)),
            nn.ReLU(),
            initialised(nn.Linear(256, 448)),
            nn.ReLU(),
        )
        self.extra_layer = nn.Sequential(initialised(nn.Linear(448, 448), 0.1), nn.ReLU())
        self.actor = nn.Sequential(
            initialised(nn.Linear(448, 448), 0.01), nn.ReLU(), initialised(nn.Linear(448, action_count), 0.01)
        )
        self.critic_ext = initialised(nn.Linear(448, 1), 0.01)
        self.critic_int = initialised(nn.Linear(448, 1), 0.01)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(logits, values of the game's rewards, values of curiosity) of folded observations, given as bytes."""
        hidden = over_blocks(self.network, observations.float().mul_(1 / 255))
        for_values = hidden + self.extra_layer(hidden)
        ext, int_ = self.critic_ext(for_values), self.critic_int(for_values)
        return self.actor(hidden), ext.squeeze(1), int_.squeeze(1)


class Curiosity(nn.Module):
    """A fixed random network, and one that learns to foresee what it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.predictor = nn.Sequential(
            *picture_layers(), nn.ReLU(), initialised(nn.Linear(512, 512)), nn.ReLU(), initialised(nn.Linear(512, 512))
        )
        self.target = nn.Sequential(*picture_layers())
        for parameter in self.target.parameters():
            parameter.requires_grad_(False)

    def errors(self, pictures: Tensor) -> Tensor:
        """Squared error of the prediction for each picture (normalised, folded), averaged over the 512 answers."""
        with torch.no_grad():
            answers = over_blocks(self.target, pictures)
        return (over_blocks(self.predictor, pictures) - answers).square().mean(dim=1)


def picture_layers() -> list[nn.Module]:
    return [
        initialised(nn.Conv2d(1, 32, 8, stride=BLOCK)),
        nn.LeakyReLU(),
        initialised(nn.Conv2d(32, 64, 4, stride=2)),
        nn.LeakyReLU(),
        initialised(nn.Conv2d(64, 64, 3)),
        nn.LeakyReLU(),
        nn.Flatten(),
        initialised(nn.Linear(64 * 7 * 7, 512)),
    ]


class Moments:
    """Mean and variance of everything seen so far, merged batch by batch without keeping it."""

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.count = 1e-4
        self.mean, self.variance = np.zeros(shape), np.ones(shape)

    PARTS = ("count", "mean", "variance")

    def update(self, batch: NDArray[Any]) -> None:
        """Take in a batch, along its first axis."""
        values = batch.astype(np.float32)
        mean, variance, count = values.mean(axis=0), values.var(axis=0), len(values)
        total = self.count + count
        shift = mean - self.mean
        squares = self.variance * self.count + variance * count + shift**2 * (self.count * count / total)
        self.mean, self.variance, self.count = self.mean + shift * (count / total), squares / total, total


class Normaliser:
    """What curiosity is measured on and divided by: statistics of the pictures and of its discounted sum."""

    def __init__(self, envs: int, gamma: float, device: torch.device) -> None:
        self.gamma, self.device = gamma, device
        self.pictures = Moments((BLOCKS, BLOCKS, FRAME_CHANNELS))
        self.sums = Moments()
        self.running = np.zeros(envs)

    def normalised(self, pictures: Tensor) -> Tensor:
        """The last picture of folded observations, whitened and cut at 5 standard deviations."""
        mean = torch.from_numpy(self.pictures.mean.astype(np.float32)).to(self.device)
        scale = torch.from_numpy((1 / np.sqrt(self.pictures.variance)).astype(np.float32)).to(self.device)
        return pictures[..., -FRAME_CHANNELS:].float().sub_(mean).mul_(scale).clamp_(-5, 5)

    def scaled(self, curiosity: NDArray[np.float32], resets: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Curiosity (steps, environments) divided by the spread of its discounted sum, which it is added to first."""
        sums = np.empty(curiosity.shape)
        for step, row in enumerate(curiosity):
            self.running = np.where(resets[step], self.running, self.running * self.gamma + row)
            sums[step] = self.running
        self.sums.update(sums.reshape(-1))
        return (curiosity / np.sqrt(self.sums.variance)).astype(np.float32)


class Rollout:
    """What the games went through between two updates; row `t` of each array is step `t` of them all."""

    def __init__(self, steps: int, envs: int) -> None:
        # One row more: the observations that the last step led to.
        self.observations = np.zeros((steps + 1, envs, *FOLDED), dtype=np.uint8)
        self.actions = np.zeros((steps, envs), dtype=np.int64)
        self.log_probs, self.rewards, self.curiosity = np.zeros((3, steps, envs), dtype=np.float32)
        # Values of the game's rewards, then of curiosity; again one row more.
        self.values = np.zeros((2, steps + 1, envs), dtype=np.float32)
        self.terminated, self.truncated, self.resets = np.zeros((3, steps, envs), dtype=bool)
        # (step, environment, value) where a time limit cut an episode off and the next row shows another one.
        self.cut_off: list[tuple[int, int, float]] = []


class Collector:
    """Plays the games and keeps what must survive from one rollout to the next."""

    def __init__(self, games: Games, session: TrainingSession, args: Args, device: torch.device) -> None:
        self.games, self.session, self.device = games, session, device
        self.random = np.random.default_rng((args.seed, 1))
        self.global_step = 0
        self.recent: deque[float] = deque(maxlen=20)
        # Since each game began; of a game that a checkpoint interrupted, since the run was resumed.
        self.game_curiosity = np.zeros(args.num_envs)
        self.rollout = Rollout(args.num_steps, args.num_envs)

    PARTS = ("random", "global_step", "recent")

    def look_around(self, normaliser: Normaliser, steps: int) -> bool:
        """Gather statistics of the pictures in random play; False when the session asks to stop meanwhile."""
        choices = int(self.games.single_action_space.n)
        if steps:
            print(f"First, {steps:,} random steps in each game, for the statistics of the pictures.", flush=True)
        for _ in range(steps):
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return False
            self.games.step(self.random.integers(choices, size=self.games.count))
            normaliser.pictures.update(folded(self.games.observations)[..., -FRAME_CHANNELS:])
        return True

    def collect(self, agent: Agent, curiosity: Curiosity, normaliser: Normaliser) -> Rollout | None:
        """Play one rollout, or return None when the session asks to stop meanwhile."""
        rollout = self.rollout
        rollout.cut_off.clear()
        for step in range(len(rollout.actions)):
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return None
            rollout.observations[step] = folded(self.games.observations)
            self._step(agent, curiosity, normaliser, step)
        rollout.observations[-1] = folded(self.games.observations)
        rollout.values[:, -1] = self._look(agent, rollout.observations[-1])[1]
        return rollout

    def _step(self, agent: Agent, curiosity: Curiosity, normaliser: Normaliser, step: int) -> None:
        rollout = self.rollout
        log_probs, rollout.values[:, step] = self._look(agent, rollout.observations[step])
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        actions = (log_probs + self.random.gumbel(size=log_probs.shape)).argmax(axis=1)
        rollout.actions[step] = actions
        rollout.log_probs[step] = log_probs[np.arange(len(actions)), actions]
        found = self.games.step(actions)
        self.global_step += len(actions)
        rollout.rewards[step] = np.sign(found.rewards)
        rollout.terminated[step], rollout.truncated[step] = found.terminated, found.truncated
        rollout.resets[step] = found.resets
        rollout.curiosity[step] = self._surprise(curiosity, normaliser) * ~found.resets
        self.game_curiosity += rollout.curiosity[step]
        for env, observation in found.cut_off:
            _, values = self._look(agent, folded(observation[None]))
            rollout.cut_off.append((step, env, float(values[0, 0])))
        for ended in found.finished:
            self._end_game(*ended)

    def _end_game(self, env: int, score: float, frames: int) -> None:
        self.recent.append(score)
        ended = {
            "charts/avg_episodic_return": sum(self.recent) / len(self.recent),
            "charts/episodic_return": score,
            "charts/episode_curiosity_reward": self.game_curiosity[env],
            "charts/episodic_length": frames,
        }
        self.session.scalars(self.global_step, ended)
        self.game_curiosity[env] = 0

    @torch.inference_mode()
    def _look(self, agent: Agent, pictures: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        logits, ext, int_ = agent(torch.from_numpy(pictures).to(self.device))
        return F.log_softmax(logits, dim=1).cpu().numpy(), torch.stack([ext, int_]).cpu().numpy()

    @torch.inference_mode()
    def _surprise(self, curiosity: Curiosity, normaliser: Normaliser) -> NDArray[np.float32]:
        pictures = torch.from_numpy(folded(self.games.observations)).to(self.device)
        return curiosity.errors(normaliser.normalised(pictures)).cpu().numpy()


def advantages_of(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    next_values: NDArray[np.float32],
    ends: NDArray[np.bool_],
    cuts: NDArray[np.bool_],
    resets: NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float32]:
    """Generalised advantage estimates, all arrays shaped (steps, environments).

    After a step in `ends` there is no future; after one in `cuts` there is, but the later advantages belong to another
    episode. Rows in `resets` only put a new episode in place: estimates pass through them as if they were not there.
    """
    errors = rewards + np.float32(gamma) * next_values * ~ends - values
    carry = np.float32(gamma * gae_lambda) * ~(ends | cuts)
    advantages = np.empty_like(errors)
    following = np.zeros_like(errors[0])
    for step in range(len(errors) - 1, -1, -1):
        following = np.where(resets[step], following, errors[step] + carry[step] * following)
        advantages[step] = following
    return advantages


def past_resets(next_values: NDArray[np.float32], resets: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Next values for returns that go on over the end of an episode: beyond the row that resets it."""
    beyond = next_values.copy()
    beyond[:-1] = np.where(resets[1:], next_values[1:], next_values[:-1])
    return beyond


@dataclass
class Batch:
    """A rollout as flat tensors on the training device, one row for each step of each environment in turn."""

    envs: int
    real: Tensor
    """Numbers of the rows to learn from: all but those that only reset a game."""
    observations: Tensor
    """As many rows more as there are environments: what the last steps led to."""
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    ext_returns: Tensor
    int_returns: Tensor
    ext_values: Tensor

    def next_pictures(self, rows: Tensor) -> Tensor:
        """The last picture of the observations that the steps of these rows led to."""
        return self.observations[..., -FRAME_CHANNELS:][rows + self.envs]


def batch_of(rollout: Rollout, scaled_curiosity: NDArray[np.float32], args: Args, device: torch.device) -> Batch:
    """Both kinds of advantages, weighed and added, and both kinds of returns."""
    (ext_values, int_values), (ext_next, int_next) = rollout.values[:, :-1], rollout.values[:, 1:].copy()
    for step, env, value in rollout.cut_off:
        ext_next[step, env] = value
    ends, cuts, resets = rollout.terminated, rollout.truncated, rollout.resets
    never = np.zeros_like(ends)
    ext = advantages_of(rollout.rewards, ext_values, ext_next, ends, cuts, resets, args.gamma, args.gae_lambda)
    int_next = past_resets(int_next, resets)
    int_ = advantages_of(scaled_curiosity, int_values, int_next, never, never, resets, args.int_gamma, args.gae_lambda)

    def flat(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(device)

    return Batch(
        envs=resets.shape[1],
        real=torch.from_numpy(np.flatnonzero(~resets)).to(device),
        observations=flat(rollout.observations),
        actions=flat(rollout.actions),
        log_probs=flat(rollout.log_probs),
        advantages=flat(np.float32(args.ext_coef) * ext + np.float32(args.int_coef) * int_),
        ext_returns=flat(ext + ext_values),
        int_returns=flat(int_ + int_values),
        ext_values=flat(ext_values),
    )


@dataclass
class Losses:
    """Sums over some rows of a minibatch; `total` is their share of what is minimised."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    forward: Tensor
    log_ratios: Tensor


@dataclass
class Weights:
    """What a whole minibatch has in common: its size, and how many rows the predictor learns from."""

    rows: int
    learned: Tensor
    """1 for each of its rows that the predictor learns from, else 0."""


class StopRequestedError(Exception):
    """The session asked for a stop in the middle of an update."""


class Learner:
    """Adam on all parameters that learn, laid out as one vector; see `ppo_atari`."""

    def __init__(self, agent: Agent, curiosity: Curiosity, normaliser: Normaliser, args: Args) -> None:
        self.agent, self.curiosity, self.normaliser, self.args = agent, curiosity, normaliser, args
        self.learning_rate = args.learning_rate
        parameters = [*agent.parameters(), *curiosity.predictor.parameters()]
        self.vector = nn.utils.parameters_to_vector(parameters).detach()
        self.gradient = torch.zeros_like(self.vector)
        nn.utils.vector_to_parameters(self.vector, parameters)  # they are views of it from here on
        pieces = self.gradient.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)

    def losses_of(self, batch: Batch, rows: Tensor, advantages: Tensor, learned: Tensor, whole: Weights) -> Losses:
        """Losses of some rows of a minibatch, whose advantages are normalised already."""
        args = self.args
        logits, ext_values, int_values = self.agent(batch.observations[rows])
        log_probs = F.log_softmax(logits, dim=1)
        entropy = -(log_probs.exp() * log_probs).sum()
        log_ratios = log_probs.gather(1, batch.actions[rows].unsqueeze(1)).squeeze(1) - batch.log_probs[rows]
        # The clipped objective with its bound written out: min(r A, clip(r) A) = min(r A, A + clip_coef |A|).
        bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
        policy = -torch.minimum(advantages * log_ratios.exp(), bounds).sum()

        ext_returns, old_values = batch.ext_returns[rows], batch.ext_values[rows]
        squared = (ext_values - ext_returns).square()
        if args.clip_vloss:
            clipped = old_values + (ext_values - old_values).clamp(-args.clip_coef, args.clip_coef)
            squared = torch.maximum(squared, (clipped - ext_returns).square())
        value = 0.5 * (squared.sum() + (int_values - batch.int_returns[rows]).square().sum())

        errors = self.curiosity.errors(self.normaliser.normalised(batch.next_pictures(rows)))
        forward = (errors * learned).sum()
        total = (policy - args.ent_coef * entropy + args.vf_coef * value) / whole.rows
        total = total + forward / whole.learned.sum().clamp(min=1)
        return Losses(total, policy, value, entropy, forward, log_ratios.detach())

    def step(self, batch: Batch, chosen: Tensor, safe_point: Callable[[], None] = lambda: None) -> Losses:
        """One gradient step on the chosen rows, a few at a time, with a safe point before each few."""
        self.gradient.zero_()
        advantages = batch.advantages[chosen]
        if self.args.norm_adv and len(chosen) > 1:  # a single one has no spread to divide by
            spread, mean = torch.std_mean(advantages)
            advantages = (advantages - mean) / (spread + 1e-8)
        learned = (torch.rand(len(chosen)) < self.args.update_proportion).float().to(advantages.device)
        whole = Weights(len(chosen), learned)
        parts = []
        for part in torch.arange(len(chosen), device=advantages.device).split(ROWS_AT_ONCE):
            safe_point()
            losses = self.losses_of(batch, chosen[part], advantages[part], learned[part], whole)
            losses.total.backward()
            parts.append(losses)
        self.gradient.mul_((self.args.max_grad_norm / (self.gradient.norm() + 1e-6)).clamp(max=1))
        self.descend()
        return means_of(parts, whole)

    @torch.no_grad()
    def descend(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-5) -> None:
        """Adam's step along the gradient that is there."""
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        root = self.mean_square.sqrt().div_(math.sqrt(1 - beta_2**self.steps)).add_(epsilon)
        self.vector.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - beta_1**self.steps))

    def update(self, batch: Batch, session: TrainingSession, step: int) -> dict[str, float]:
        """Improve the networks on one rollout and return what to log.

        Raises StopRequestedError, the networks in between, when the session asks to stop meanwhile.
        """
        args = self.args

        def safe_point() -> None:
            session.safe_point(step)
            if session.stop_requested:
                raise StopRequestedError

        for _ in range(args.update_epochs):
            order = batch.real[torch.randperm(len(batch.real))]
            # Fewer than asked for where few rows are real: never one without any.
            for chosen in order.tensor_split(min(args.num_minibatches, len(order))):
                losses = self.step(batch, chosen, safe_point)
            if args.target_kl is not None and kl_estimate(losses.log_ratios) > args.target_kl:
                break
        if not math.isfinite(losses.total.item()):
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
        return {
            "losses/value_loss": losses.value.item(),
            "losses/policy_loss": losses.policy.item(),
            "losses/entropy": losses.entropy.item(),
            "losses/fwd_loss": losses.forward.item(),
            "losses/old_approx_kl": -losses.log_ratios.mean().item(),
            "losses/approx_kl": kl_estimate(losses.log_ratios),
        }


def means_of(parts: list[Losses], whole: Weights) -> Losses:
    """The losses of a whole minibatch, as means over its rows."""

    def summed(name: str) -> Tensor:
        return torch.stack([getattr(part, name).detach() for part in parts]).sum()

    return Losses(
        total=summed("total"),
        policy=summed("policy") / whole.rows,
        value=summed("value") / whole.rows,
        entropy=summed("entropy") / whole.rows,
        forward=summed("forward") / whole.learned.sum().clamp(min=1),
        log_ratios=torch.cat([part.log_ratios for part in parts]),
    )


def kl_estimate(log_ratios: Tensor) -> float:
    """How far the new policy is from the old one: an unbiased estimate that is never negative."""
    return (log_ratios.exp() - 1 - log_ratios).mean().item()


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class KeptGames:
    """The games as a part of the checkpoint, as far as they can be."""

    def __init__(self, games: Games) -> None:
        self.games = games

    @property
    def state(self) -> dict[str, Any]:
        snapshot = self.games.snapshot if isinstance(self.games, AtariGames) else None
        return {"count": self.games.count, "snapshot": snapshot}

    @state.setter
    def state(self, kept: dict[str, Any]) -> None:
        if kept["count"] != self.games.count:
            raise ValueError(f"the checkpoint has {kept['count']} games, this run has {self.games.count}")
        if kept["snapshot"] is not None and isinstance(self.games, AtariGames):
            self.games.snapshot = kept["snapshot"]
        else:
            sentence = "EnvPool's games cannot be kept in a checkpoint: new episodes begin, all else goes on as it was."
            print(sentence, flush=True)


@dataclass
class Progress:
    """How far the run is, and what of it is on the disk."""

    looked_around: bool = False
    iteration: int = 0
    saved_at: int = 0


def train(args: Args, games: Games, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    keep_large_blocks()
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space = games.single_action_space
    agent, curiosity = Agent(int(space.n)).to(device), Curiosity().to(device)
    normaliser = Normaliser(args.num_envs, args.int_gamma, device)
    learner = Learner(agent, curiosity, normaliser, args)
    spaces = {"observation": describe_space(games.single_observation_space), "action": describe_space(space)}

    iterations = math.ceil(args.total_timesteps / (args.num_envs * args.num_steps))
    collector, progress = Collector(games, session, args, device), Progress()
    state = TrainingState()
    state.module("agent", agent)
    state.module("curiosity", curiosity)
    state.attributes("games", KeptGames(games), "state")  # first: it says best why a checkpoint does not fit
    state.attributes("learner", learner, "steps", "mean", "mean_square")
    state.attributes("normaliser", normaliser, "running")
    state.attributes("pictures", normaliser.pictures, *Moments.PARTS)
    state.attributes("sums", normaliser.sums, *Moments.PARTS)
    state.attributes("collector", collector, *Collector.PARTS)
    state.attributes("progress", progress, "looked_around", "iteration")
    session.restore(state, args.resume, args.warm_start)
    resumed_at = progress.saved_at = collector.global_step

    session.record(games.camera)
    session.begin(iterations * args.num_envs * args.num_steps)
    # What a stop writes, wherever in the iteration it comes: its beginning.
    beginning, begun_at = state.capture(), collector.global_step
    if not progress.looked_around:
        progress.looked_around = collector.look_around(normaliser, args.num_steps * args.num_iterations_obs_norm_init)
        if progress.looked_around:
            beginning = state.capture()
    while progress.looked_around and progress.iteration < iterations:
        if args.anneal_lr:
            learner.learning_rate = args.learning_rate * (1 - progress.iteration / iterations)
        rollout = collector.collect(agent, curiosity, normaliser)
        if rollout is None:
            break
        scaled = normaliser.scaled(rollout.curiosity, rollout.resets)
        for pictures in rollout.observations[1:]:
            normaliser.pictures.update(pictures[..., -FRAME_CHANNELS:])
        try:
            logged = learner.update(batch_of(rollout, scaled, args, device), session, collector.global_step)
        except StopRequestedError:
            break
        progress.iteration += 1
        logged["charts/learning_rate"] = learner.learning_rate
        logged["charts/SPS"] = (collector.global_step - resumed_at) / session.seconds_running
        session.scalars(collector.global_step, logged)
        beginning, begun_at = state.capture(), collector.global_step
        if session.checkpoint_requested or 0 < args.checkpoint_every <= begun_at - progress.saved_at:
            session.save_checkpoint(begun_at, *beginning, spaces, required=False)
            progress.saved_at = begun_at
    if progress.saved_at < begun_at or begun_at == 0:
        session.save_checkpoint(begun_at, *beginning, spaces, required=True)


class Policy:
    """A trained agent that plays."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @torch.inference_mode()
    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        """The action for each observation: the likeliest, or one drawn as in training."""
        logits = self.agent(torch.from_numpy(folded(observations)))[0].numpy()
        noise = 0 if deterministic else random.gumbel(size=logits.shape)
        return np.asarray((logits + noise).argmax(axis=1))


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """The agent of a checkpoint. Raises CheckpointError when its networks are not this script's."""
    agent = Agent(int(checkpoint.manifest.spaces["action"]["n"]))
    fill(agent, "agent", checkpoint)
    return Policy(agent)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One game with its true score, over all lives, seen as in training; `ale_py` plays it."""
    return AtariEvaluation(args.env_id, render_mode, sticky=STICKY if args.sticky_action else 0.0)


def main() -> int:
    try:
        args = parse(Args, "Train with PPO and Random Network Distillation on an Atari game.")
        check(args)
        with (
            closing(make_envs(args)) as games,
            TrainingSession.open(dataclasses.asdict(args), "ppo_rnd_envpool") as session,
        ):
            train(args, games, session)
    except UsageError as error:
        print(f"ppo_rnd_envpool: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"ppo_rnd_envpool: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
