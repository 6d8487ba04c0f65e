"""Proximal Policy Optimization for Atari games, in one file.

    python cleanrl_worker/cleanrl/ppo_atari.py --env-id PongNoFrameskip-v4 --total-timesteps 1000000

Flag names, defaults and TensorBoard tags are CleanRL's, and so is what the agent sees of a game (see
`cleanrl_worker.atari`): 84x84 grey pictures in stacks of 4, every action held for 4 frames, a lost life ends the
episode, rewards are reduced to their sign. The returns that are logged are whole games with their true score, the
lengths are frames of the emulator. A step is one action, so a run of 10 million steps plays 40 million frames.

Two things make it fast on a processor. A stride of 4 over pictures whose sides are multiples of 4 is a stride of 1
over pictures of 4x4 blocks with 16 times the channels, which convolutions are much better at; rollouts keep the
pictures in that form, as bytes. And the pass that chooses actions also gives their values and log-probabilities.

The state of the emulators is part of a checkpoint: a resumed run goes on in the very games it was stopped in.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.allocation import keep_large_blocks
from cleanrl_worker.arguments import parse
from cleanrl_worker.atari import SIDE, STACK, AtariEvaluation, AtariGames, make_games
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.policies import fill
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState


@dataclass
class Args:
    exp_name: str = "ppo_atari"
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

    env_id: str = "BreakoutNoFrameskip-v4"
    """Atari game: PongNoFrameskip-v4, Pong-v5 (the same) or ALE/Pong-v5 (with sticky actions)."""
    total_timesteps: int = 10_000_000
    """Environment steps in all, of 4 frames each, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam at the start."""
    num_envs: int = 8
    """How many games are played side by side."""
    num_steps: int = 128
    """Steps of each environment between two updates."""
    anneal_lr: bool = True
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 4
    """Parts that a rollout is cut into for gradient steps."""
    update_epochs: int = 4
    """Passes over each rollout."""
    norm_adv: bool = True
    """Normalise the advantages of every minibatch."""
    clip_coef: float = 0.1
    """How far the new policy's probability ratio may move before its gradient is cut."""
    clip_vloss: bool = True
    """Clip the value function's change by the same coefficient."""
    ent_coef: float = 0.01
    """Weight of the entropy bonus."""
    vf_coef: float = 0.5
    """Weight of the value loss."""
    max_grad_norm: float = 0.5
    """Longest gradient that is applied unscaled."""
    target_kl: float | None = None
    """End the passes over a rollout once the policy has moved this far."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more help only where cores are idle."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts anew."""


COUNTS = ("total_timesteps", "num_envs", "num_steps", "num_minibatches", "update_epochs", "torch_threads")
NOT_NEGATIVE = ("seed", "checkpoint_every", "checkpoint_keep", "ent_coef", "vf_coef")
POSITIVE = ("learning_rate", "clip_coef", "max_grad_norm", "target_kl")
FRACTIONS = ("gamma", "gae_lambda")


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    for name, value in dataclasses.asdict(args).items():
        flag = "--" + name.replace("_", "-")
        if name in COUNTS:
            require(value >= 1, f"{flag} must be at least 1, got {value}.")
        elif name in NOT_NEGATIVE:
            require(0 <= value < math.inf, f"{flag} must be 0 or more, got {value}.")
        elif name in POSITIVE and value is not None:
            require(0 < value < math.inf, f"{flag} must be more than 0, got {value}.")
        elif name in FRACTIONS:
            require(0 <= value <= 1, f"{flag} must be from 0 to 1, got {value}.")
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


def make_envs(args: Args) -> AtariGames:
    """The games. Raises UsageError for what is no Atari game, or when the emulator is not installed."""
    return make_games("ppo_atari", args.env_id, args.num_envs, args.seed, record=args.capture_video)


BLOCK = 4
BLOCKS = SIDE // BLOCK
FOLDED = (BLOCKS, BLOCKS, STACK * BLOCK * BLOCK)
"""Shape of an observation as a picture of 4x4 blocks: rows, columns, then picture and pixel within the block."""


def folded(observations: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Observations (count, 4, 84, 84) as pictures of blocks (count, 21, 21, 64)."""
    blocks = observations.reshape(-1, STACK, BLOCKS, BLOCK, BLOCKS, BLOCK)
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, *FOLDED)


class Agent(nn.Module):
    """Three convolutions and a hidden layer, shared by actor and critic."""

    def __init__(self, action_count: int) -> None:
        super().__init__()
        gain = math.sqrt(2)
        self.network = nn.Sequential(
            initialised(nn.Conv2d(STACK, 32, 8, stride=BLOCK), gain),
            nn.ReLU(inplace=True),
            initialised(nn.Conv2d(32, 64, 4, stride=2), gain),
            nn.ReLU(inplace=True),
            initialised(nn.Conv2d(64, 64, 3), gain),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            initialised(nn.Linear(64 * 7 * 7, 512), gain),
            nn.ReLU(inplace=True),
        )
        self.actor = initialised(nn.Linear(512, action_count), 0.01)
        self.critic = initialised(nn.Linear(512, 1), 1.0)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, values) of folded observations, given as bytes."""
        first, *others = self.network
        assert isinstance(first, nn.Conv2d)
        # The same convolution as `first` on unfolded pictures; bytes become 0 to 1 here, since weights are few.
        weight = F.pixel_unshuffle(first.weight, BLOCK) / 255
        hidden = F.conv2d(observations.float().permute(0, 3, 1, 2), weight, first.bias)
        for layer in others:
            hidden = layer(hidden)
        return self.actor(hidden), self.critic(hidden).squeeze(1)


def initialised(layer: Any, gain: float) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Rollout:
    """What the games went through between two updates; row `t` of each array is step `t` of them all.

    `filled` rows are done: a stop may come in the middle of one, and a resumed run goes on there. Once `used` it has
    nothing left to tell, and checkpoints leave it out.
    """

    ARRAYS = ("observations", "actions", "log_probs", "rewards", "values", "terminated", "truncated", "final_values")

    def __init__(self, steps: int, envs: int) -> None:
        self.filled, self.steps, self.used = 0, steps, True
        self.observations = np.zeros((steps, envs, *FOLDED), dtype=np.uint8)
        self.actions = np.zeros((steps, envs), dtype=np.int64)
        self.log_probs, self.rewards, self.values = np.zeros((3, steps, envs), dtype=np.float32)
        self.terminated, self.truncated = np.zeros((2, steps, envs), dtype=bool)
        # Value of the state that a time limit cut an episode off in, where `truncated`.
        self.final_values = np.zeros((steps, envs), dtype=np.float32)

    def begin(self, steps: int) -> None:
        self.filled, self.steps, self.used = 0, steps, False

    def arrays(self) -> list[NDArray[Any]]:
        """The rows of this rollout, which may be shorter than there is room for."""
        return [getattr(self, name)[: self.steps] for name in self.ARRAYS]

    @property
    def content(self) -> dict[str, Any]:
        rows = 0 if self.used else self.filled
        kept = {name: getattr(self, name)[:rows] for name in self.ARRAYS}
        return kept | {"filled": self.filled, "steps": self.steps, "used": self.used}

    @content.setter
    def content(self, kept: dict[str, Any]) -> None:
        self.filled, self.steps, self.used = kept["filled"], kept["steps"], kept["used"]
        for name in self.ARRAYS:
            getattr(self, name)[: len(kept[name])] = kept[name]


class Collector:
    """Plays the games and keeps what must survive from one rollout to the next."""

    def __init__(self, games: AtariGames, session: TrainingSession, args: Args, device: torch.device) -> None:
        self.games, self.session, self.device = games, session, device
        self.random = np.random.default_rng((args.seed, 1))
        self.global_step = 0
        self.rollout = Rollout(args.num_steps, args.num_envs)

    def collect(self, agent: Agent, steps: int) -> Rollout | None:
        """Play `steps` steps in every game, or return None when the session asks to stop meanwhile."""
        rollout = self.rollout
        if rollout.used:
            rollout.begin(steps)
        while rollout.filled < steps:
            self.session.safe_point(self.global_step)
            if self.session.stop_requested:
                return None
            self._step(agent, rollout, rollout.filled)
            rollout.filled += 1
        return rollout

    def values_now(self, agent: Agent) -> NDArray[np.float32]:
        """The critic's value of the observations that the games are in."""
        return self._look(agent, self.games.observations)[1]

    def _step(self, agent: Agent, rollout: Rollout, step: int) -> None:
        rollout.observations[step] = folded(self.games.observations)
        log_probs, rollout.values[step] = self._act(agent, rollout.observations[step])
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        actions = (log_probs + self.random.gumbel(size=log_probs.shape)).argmax(axis=1)
        rollout.actions[step] = actions
        rollout.log_probs[step] = log_probs[np.arange(len(actions)), actions]
        found = self.games.step(actions)
        self.global_step += len(actions)
        rollout.rewards[step] = np.sign(found.rewards)
        rollout.terminated[step], rollout.truncated[step] = found.terminated, found.truncated
        for env, observation in found.cut_off:
            rollout.final_values[step, env] = self._look(agent, observation[None])[1][0]
        for _, score, frames in found.finished:
            ended = {"charts/episodic_return": score, "charts/episodic_length": frames}
            self.session.scalars(self.global_step, ended)

    def _look(self, agent: Agent, observations: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return self._act(agent, folded(observations))

    @torch.inference_mode()
    def _act(self, agent: Agent, pictures: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        logits, values = agent(torch.from_numpy(pictures).to(self.device))
        return F.log_softmax(logits, dim=1).cpu().numpy(), values.cpu().numpy()


def advantages_of(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    next_values: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    gamma: float,
    gae_lambda: float,
) -> NDArray[np.float32]:
    """Generalised advantage estimates, all arrays shaped (steps, environments).

    `next_values` is the critic's value of the observation that a step truly led to. A terminated episode has no
    future: that value counts for nothing. A truncated one has, but the steps after it belong to another episode:
    the value counts, the later advantages do not.
    """
    errors = rewards + np.float32(gamma) * next_values * ~terminated - values
    carry = np.float32(gamma * gae_lambda) * ~(terminated | truncated)
    advantages = np.empty_like(errors)
    following = np.zeros_like(errors[0])
    for step in range(len(errors) - 1, -1, -1):
        following = errors[step] + carry[step] * following
        advantages[step] = following
    return advantages


@dataclass
class Batch:
    """A rollout as flat tensors on the training device."""

    observations: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    values: Tensor

    def __len__(self) -> int:
        return len(self.actions)

    def rows(self, chosen: Tensor) -> Batch:
        return Batch(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))


def batch_of(rollout: Rollout, last_values: NDArray[np.float32], args: Args, device: torch.device) -> Batch:
    """Advantages and returns of a rollout that left the games in states of these values."""
    observations, actions, log_probs, rewards, values, terminated, truncated, final_values = rollout.arrays()
    next_values = np.concatenate([values[1:], last_values[None]])
    next_values = np.where(truncated, final_values, next_values)
    advantages = advantages_of(rewards, values, next_values, terminated, truncated, args.gamma, args.gae_lambda)

    def flat(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array.reshape(-1, *array.shape[2:])).to(device)

    columns = (observations, actions, log_probs, advantages, advantages + values, values)
    return Batch(*(flat(column) for column in columns))


@dataclass
class Losses:
    """Means over a minibatch; `total` is what is minimised."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor


def losses_of(agent: Agent, batch: Batch, args: Args) -> Losses:
    logits, values = agent(batch.observations)
    log_probs = F.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum(dim=1).mean()
    log_ratios = log_probs.gather(1, batch.actions.unsqueeze(1)).squeeze(1) - batch.log_probs

    advantages = batch.advantages
    if args.norm_adv and len(batch) > 1:  # a single one has no spread to divide by
        spread, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (spread + 1e-8)
    # The clipped objective with its bound written out: min(r A, clip(r) A) = min(r A, A + clip_coef |A|).
    bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(advantages * log_ratios.exp(), bounds).mean()

    squared = (values - batch.returns).square()
    if args.clip_vloss:
        clipped_values = batch.values + (values - batch.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped_values - batch.returns).square())
    value = 0.5 * squared.mean()

    total = policy - args.ent_coef * entropy + args.vf_coef * value
    return Losses(total, policy, value, entropy, log_ratios.detach())


class Learner:
    """Adam on all parameters laid out as one vector, so that clipping and stepping take a few operations.

    Adam is written out rather than taken from `torch.optim`, whose first use imports the compiler: a second of
    start-up for nothing.
    """

    def __init__(self, agent: Agent, args: Args) -> None:
        self.agent, self.args = agent, args
        self.learning_rate = args.learning_rate
        parameters = list(agent.parameters())
        self.vector = nn.utils.parameters_to_vector(parameters).detach()
        self.gradient = torch.zeros_like(self.vector)
        nn.utils.vector_to_parameters(self.vector, parameters)  # they are views of it from here on
        pieces = self.gradient.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)

    def step(self, batch: Batch) -> Losses:
        """One gradient step on a minibatch."""
        self.gradient.zero_()
        losses = losses_of(self.agent, batch, self.args)
        losses.total.backward()
        self.gradient.mul_((self.args.max_grad_norm / (self.gradient.norm() + 1e-6)).clamp(max=1))
        self.descend()
        return losses

    @torch.no_grad()
    def descend(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-5) -> None:
        """Adam's step along the gradient that is there."""
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        root = self.mean_square.sqrt().div_(math.sqrt(1 - beta_2**self.steps)).add_(epsilon)
        self.vector.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - beta_1**self.steps))

    def update(self, batch: Batch, session: TrainingSession, step: int) -> dict[str, float] | None:
        """Improve the agent on one rollout and return what to log about it.

        An update takes seconds and a stop must not: when one is asked for meanwhile, everything is put back to where
        the update began, and None returned.
        """
        args = self.args
        undo = self._remember()
        minibatch_size = args.num_envs * args.num_steps / args.num_minibatches
        count = max(1, round(len(batch) / minibatch_size))  # fewer for the last rollout, which may be shorter
        all_log_ratios = []
        for _ in range(args.update_epochs):
            for chosen in torch.randperm(len(batch)).tensor_split(count):
                session.safe_point(step)
                if session.stop_requested:
                    self._put_back(undo)
                    return None
                losses = self.step(batch.rows(chosen.to(batch.actions.device)))
                all_log_ratios.append(losses.log_ratios)
            if args.target_kl is not None and kl_estimate(losses.log_ratios) > args.target_kl:
                break
        if not math.isfinite(losses.total.item()):
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
        clipped = (torch.cat(all_log_ratios).exp() - 1).abs() > args.clip_coef
        return {
            "losses/value_loss": losses.value.item(),
            "losses/policy_loss": losses.policy.item(),
            "losses/entropy": losses.entropy.item(),
            "losses/old_approx_kl": -losses.log_ratios.mean().item(),
            "losses/approx_kl": kl_estimate(losses.log_ratios),
            "losses/clipfrac": clipped.float().mean().item(),
            "losses/explained_variance": explained_variance(batch),
        }

    def _remember(self) -> tuple[int, Tensor, list[Tensor]]:
        return self.steps, torch.get_rng_state(), [one.clone() for one in (self.vector, self.mean, self.mean_square)]

    def _put_back(self, undo: tuple[int, Tensor, list[Tensor]]) -> None:
        self.steps, random_state, tensors = undo
        torch.set_rng_state(random_state)
        for current, before in zip((self.vector, self.mean, self.mean_square), tensors, strict=True):
            current.copy_(before)


def kl_estimate(log_ratios: Tensor) -> float:
    """How far the new policy is from the old one: an unbiased estimate that is never negative."""
    return (log_ratios.exp() - 1 - log_ratios).mean().item()


def explained_variance(batch: Batch) -> float:
    """1 when the critic foresaw the returns, 0 when a constant would have done as well, NaN without variance."""
    variance = batch.returns.var(correction=0).item()
    unexplained = (batch.returns - batch.values).var(correction=0).item()
    return 1 - unexplained / variance if variance else math.nan


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(args: Args, games: AtariGames, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    keep_large_blocks()
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space = games.single_action_space
    agent = Agent(int(space.n)).to(device)
    learner = Learner(agent, args)
    spaces = {"observation": describe_space(games.single_observation_space), "action": describe_space(space)}

    steps = math.ceil(args.total_timesteps / args.num_envs)  # of each environment
    iterations = math.ceil(steps / args.num_steps)
    collector, progress = Collector(games, session, args, device), Progress()
    state = TrainingState()
    state.module("agent", agent)
    state.attributes("games", games, "snapshot")  # first, because it says best why a checkpoint does not fit
    state.attributes("learner", learner, "steps", "mean", "mean_square")
    state.attributes("collector", collector, "random", "global_step")
    state.attributes("rollout", collector.rollout, "content")
    state.attributes("progress", progress, "iteration")
    session.restore(state, args.resume, args.warm_start)
    resumed_at = progress.saved_at = collector.global_step

    def save(*, required: bool) -> None:
        session.save_checkpoint(collector.global_step, *state.capture(), spaces, required=required)
        progress.saved_at = collector.global_step

    session.record(games.camera)
    session.begin(steps * args.num_envs)
    while (done := progress.iteration * args.num_steps) < steps:
        if args.anneal_lr:
            learner.learning_rate = args.learning_rate * (1 - progress.iteration / iterations)
        rollout = collector.collect(agent, min(args.num_steps, steps - done))
        if rollout is None:
            break
        batch = batch_of(rollout, collector.values_now(agent), args, device)
        logged = learner.update(batch, session, collector.global_step)
        if logged is None:
            break
        rollout.used = True
        progress.iteration += 1
        logged["charts/learning_rate"] = learner.learning_rate
        logged["charts/SPS"] = (collector.global_step - resumed_at) / session.seconds_running
        session.scalars(collector.global_step, logged)
        if session.checkpoint_requested or 0 < args.checkpoint_every <= collector.global_step - progress.saved_at:
            save(required=False)
    if progress.saved_at < collector.global_step or collector.global_step == 0:
        save(required=True)


@dataclass
class Progress:
    """How far the run is, and what of it is on the disk."""

    iteration: int = 0
    saved_at: int = 0


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
    """One game with its true score, over all lives, seen as in training."""
    return AtariEvaluation(args.env_id, render_mode)


def main() -> int:
    try:
        args = parse(Args, "Train with PPO on an Atari game.")
        check(args)
        with (
            closing(make_envs(args)) as games,
            TrainingSession.open(dataclasses.asdict(args), "ppo_atari") as session,
        ):
            train(args, games, session)
    except UsageError as error:
        print(f"ppo_atari: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"ppo_atari: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
