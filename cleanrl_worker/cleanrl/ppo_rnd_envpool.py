"""PPO with Random Network Distillation (Burda et al., 2018), for Atari games whose rewards are hard to find.

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

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.atari import SIDE, STACK, STICKY, AtariEvaluation, AtariGames, make_games
from cleanrl_worker.envpool_games import EnvPoolGames, KeptGames, envpool_is_installed, make_envpool_games
from mosaic_worker.learning.adam import MOMENTS, FlatAdam
from mosaic_worker.learning.advantages import kl_estimate
from mosaic_worker.learning.argument_checks import check_cuda, check_minibatches, check_ranges, require
from mosaic_worker.learning.curiosity import CuriosityScale, CuriousBatch, CuriousCollector, Moments, curious_batch_of
from mosaic_worker.learning.folding import initialised, over_blocks
from mosaic_worker.learning.game_rollouts import SoftmaxPolicy
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import run_script
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import Checkpoint, CheckpointError
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.allocation import keep_large_blocks
from mosaic_worker.training.session import TrainingSession, UsageError

GAIN = math.sqrt(2)
ROWS_AT_ONCE = 256
"""Rows of a minibatch that go through the networks together: thousands would take gigabytes, and a stop seconds."""

Games = AtariGames | EnvPoolGames


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
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class Agent(nn.Module):
    """Convolutions shared by the actor and by two critics: of the game's rewards and of curiosity."""

    def __init__(self, action_count: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            initialised(nn.Conv2d(STACK, 32, 8, stride=4), GAIN),
            nn.ReLU(),
            initialised(nn.Conv2d(32, 64, 4, stride=2), GAIN),
            nn.ReLU(),
            initialised(nn.Conv2d(64, 64, 3), GAIN),
            nn.ReLU(),
            nn.Flatten(),
            initialised(nn.Linear(64 * 7 * 7, 256), GAIN),
            nn.ReLU(),
            initialised(nn.Linear(256, 448), GAIN),
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
            *picture_layers(),
            nn.ReLU(),
            initialised(nn.Linear(512, 512), GAIN),
            nn.ReLU(),
            initialised(nn.Linear(512, 512), GAIN),
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
        initialised(nn.Conv2d(1, 32, 8, stride=4), GAIN),
        nn.LeakyReLU(),
        initialised(nn.Conv2d(32, 64, 4, stride=2), GAIN),
        nn.LeakyReLU(),
        initialised(nn.Conv2d(64, 64, 3), GAIN),
        nn.LeakyReLU(),
        nn.Flatten(),
        initialised(nn.Linear(64 * 7 * 7, 512), GAIN),
    ]


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
class Rows:
    """Some rows of a minibatch, and what they share with the whole of it."""

    numbers: Tensor
    advantages: Tensor
    learned: Tensor
    """1 for each row that the predictor learns from, else 0."""
    all_rows: int
    all_learned: Tensor


def losses_of(
    agent: Agent, curiosity: Curiosity, scale: CuriosityScale, batch: CuriousBatch, some: Rows, args: Args
) -> Losses:
    """PPO's losses with two critics, and the error of the predictor."""
    rows, advantages = some.numbers, some.advantages
    logits, ext_values, int_values = agent(batch.observations[rows])
    log_probs = F.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum()
    log_ratios = log_probs.gather(1, batch.actions[rows].unsqueeze(1)).squeeze(1) - batch.log_probs[rows]
    # min(r A, clip(r, 1 - c, 1 + c) A) is min(r A, A + c |A|), which needs no second product.
    bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(advantages * log_ratios.exp(), bounds).sum()

    ext_returns, old_values = batch.ext_returns[rows], batch.ext_values[rows]
    squared = (ext_values - ext_returns).square()
    if args.clip_vloss:
        clipped = old_values + (ext_values - old_values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped - ext_returns).square())
    value = 0.5 * (squared.sum() + (int_values - batch.int_returns[rows]).square().sum())

    errors = curiosity.errors(scale.normalised(batch.next_pictures(rows)))
    forward = (errors * some.learned).sum()
    total = (policy - args.ent_coef * entropy + args.vf_coef * value) / some.all_rows
    total = total + forward / some.all_learned
    return Losses(total, policy, value, entropy, forward, log_ratios.detach())


def train(args: Args, games: Games, session: TrainingSession) -> None:
    keep_large_blocks()
    device = prepare_torch(args)
    agent, curiosity = Agent(int(games.single_action_space.n)).to(device), Curiosity().to(device)
    scale = CuriosityScale(args.num_envs, SIDE, args.int_gamma, device)
    learner = Learner(agent, curiosity, scale, args)
    adam = learner.adam
    collector = CuriousCollector(games, session, agent, curiosity, scale, args, device)
    progress = Progress()

    state = TrainingState()
    state.module("agent", agent)
    state.module("curiosity", curiosity)
    state.attributes("games", KeptGames(games), "state")  # first: it says best why a checkpoint does not fit
    state.attributes("learner", adam, *MOMENTS)
    state.attributes("normaliser", scale, "running")
    state.attributes("pictures", scale.pictures, *Moments.PARTS)
    state.attributes("sums", scale.sums, *Moments.PARTS)
    state.attributes("collector", collector, *collector.PARTS)
    state.attributes("progress", progress, "looked_around", "iteration")
    run = RunState(session, state, games, args, collector, fixed=("num_steps",))
    run.restore()

    def safe_point() -> None:
        session.safe_point(collector.global_step)
        if session.stop_requested:
            raise StopRequestedError

    iterations = math.ceil(args.total_timesteps / (args.num_envs * args.num_steps))
    session.record(games.camera)
    session.show(games.picture)
    session.begin(iterations * args.num_envs * args.num_steps)
    run.mark()  # what a stop writes, wherever in an iteration it comes: its beginning
    if not progress.looked_around:
        progress.looked_around = collector.look_around(args.num_steps * args.num_iterations_obs_norm_init)
        if progress.looked_around:
            run.mark()
    while progress.looked_around and progress.iteration < iterations:
        if args.anneal_lr:
            adam.learning_rate = args.learning_rate * (1 - progress.iteration / iterations)
        rollout = collector.collect()
        if rollout is None:  # a stop was asked for
            break
        scaled = scale.scaled(rollout.curiosity, rollout.resets)
        for observations in rollout.observations[1:]:
            scale.take_in(observations)
        batch = curious_batch_of(rollout, scaled, args, device)
        try:
            logged = learner.update(batch, safe_point)
        except StopRequestedError:
            break
        progress.iteration += 1
        logged["charts/learning_rate"] = adam.learning_rate
        logged["charts/SPS"] = run.steps_per_second
        session.scalars(collector.global_step, logged)
        run.mark()
        run.save_if_due()
    run.save_last()


@dataclass
class Progress:
    """How far the run is."""

    looked_around: bool = False
    iteration: int = 0


class StopRequestedError(Exception):
    """The session asked for a stop in the middle of an update."""


class Learner:
    """Improves the networks on one rollout after the other."""

    def __init__(self, agent: Agent, curiosity: Curiosity, scale: CuriosityScale, args: Args) -> None:
        self.agent, self.curiosity, self.scale, self.args = agent, curiosity, scale, args
        parameters = [*agent.parameters(), *curiosity.predictor.parameters()]
        self.adam = FlatAdam(parameters, args.learning_rate, epsilon=1e-5)

    def update(self, batch: CuriousBatch, safe_point: Callable[[], None] = lambda: None) -> dict[str, float]:
        """Several passes over a rollout, in minibatches; returns what to log about them.

        What `safe_point` raises leaves the networks in between.
        """
        args = self.args
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

    def step(self, batch: CuriousBatch, chosen: Tensor, safe_point: Callable[[], None] = lambda: None) -> Losses:
        """One gradient step on the chosen rows, a few at a time, with a safe point before each few."""
        self.adam.gradient.zero_()
        advantages = batch.advantages[chosen]
        if self.args.norm_adv and len(chosen) > 1:  # a single one has no spread to divide by
            spread, mean = torch.std_mean(advantages)
            advantages = (advantages - mean) / (spread + 1e-8)
        learned = (torch.rand(len(chosen)) < self.args.update_proportion).float().to(advantages.device)
        whole = len(chosen), learned.sum().clamp(min=1)
        parts = []
        for part in torch.arange(len(chosen), device=advantages.device).split(ROWS_AT_ONCE):
            safe_point()
            some = Rows(chosen[part], advantages[part], learned[part], *whole)
            losses = losses_of(self.agent, self.curiosity, self.scale, batch, some, self.args)
            losses.total.backward()
            parts.append(losses)
        self.adam.clip(self.args.max_grad_norm)
        self.adam.descend()
        return means_of(parts, *whole)


def means_of(parts: list[Losses], rows: int, learned: Tensor) -> Losses:
    """The losses of a whole minibatch, as means over its rows."""

    def summed(name: str) -> Tensor:
        return torch.stack([getattr(part, name).detach() for part in parts]).sum()

    return Losses(
        total=summed("total"),
        policy=summed("policy") / rows,
        value=summed("value") / rows,
        entropy=summed("entropy") / rows,
        forward=summed("forward") / learned,
        log_ratios=torch.cat([part.log_ratios for part in parts]),
    )


BACKENDS = ("auto", "envpool", "ale")


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=("total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "torch_threads"),
        not_negative=(
            *("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef"),
            *("int_coef", "ext_coef", "num_iterations_obs_norm_init"),
        ),
        positive=("learning_rate", "clip_coef", "max_grad_norm", "target_kl", "update_proportion"),
        fractions=("gamma", "gae_lambda", "int_gamma", "update_proportion"),
    )
    require(
        args.env_backend in BACKENDS,
        f"--env-backend must be {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}, got {args.env_backend!r}.",
    )
    # EnvPool may spend every other step on a reset.
    require(args.num_steps >= 2, f"--num-steps must be at least 2, got {args.num_steps}.")
    check_minibatches(args)
    check_cuda(args)


def make_envs(args: Args) -> Games:
    """The games, from EnvPool or `ale_py`. Raises UsageError."""
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


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """The agent of a checkpoint. Raises CheckpointError when its networks are not this script's."""
    agent = Agent(int(checkpoint.manifest.spaces["action"]["n"]))
    fill(agent, "agent", checkpoint)
    return SoftmaxPolicy(agent)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One game with its true score, over all lives, seen as in training; `ale_py` plays it."""
    return AtariEvaluation(args.env_id, render_mode, sticky=STICKY if args.sticky_action else 0.0)


def main() -> int:
    description = "Train with PPO and Random Network Distillation on an Atari game."
    return run_script("ppo_rnd_envpool", description, Args, check, make_envs, train)


if __name__ == "__main__":
    sys.exit(main())
