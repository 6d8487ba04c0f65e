"""Proximal Policy Optimization for discrete actions, in one file.

    python cleanrl_worker/cleanrl/ppo.py --env-id CartPole-v1 --total-timesteps 50000

Flag names, defaults and TensorBoard tags are CleanRL's. Two things differ on purpose. A truncated episode
(one that met a time limit) is not treated as a terminated one: its last step is still worth the value of the
state it was cut off in. And while the environments run, only the actor is evaluated, in numpy on the
parameters' own memory; values and log-probabilities of the whole rollout follow in one batch: the same
numbers, much sooner.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.arguments import parse
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.environments import make_env
from cleanrl_worker.policies import Policy, fill, flat_rows
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState


@dataclass
class Args:
    exp_name: str = "ppo"
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU; for networks this small the CPU is usually faster."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "CartPole-v1"
    """Gymnasium id of an environment with discrete actions and box observations."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam at the start."""
    num_envs: int = 4
    """How many environments are stepped side by side."""
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
    clip_coef: float = 0.2
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
    """CPU threads for PyTorch; more than one slows networks this small down."""
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


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments, checked for what this algorithm can handle.

    SAME_STEP: a finished environment is reset within the step that finished it, so every row of a rollout is
    a real transition, and the observation the episode ended in arrives as `final_obs`. CartPole's own vector
    environment only knows NEXT_STEP, whose reset rows would have to be masked, and with four is no faster.
    """
    envs = SyncVectorEnv(
        [partial(make_env, args.env_id, record=args.capture_video and n == 0) for n in range(args.num_envs)],
        copy=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    action_space, observation_space = envs.single_action_space, envs.single_observation_space
    require(
        isinstance(action_space, gym.spaces.Discrete),
        f"ppo needs a discrete action space; {args.env_id} has {brief(action_space)}. Try ppo_continuous_action.",
    )
    require(
        isinstance(observation_space, gym.spaces.Box),
        f"ppo needs a Box observation space; {args.env_id} has {brief(observation_space)}.",
    )
    return envs


def brief(space: gym.Space[Any]) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


class Agent(nn.Module):
    """Separate actor and critic, each with two hidden layers of 64 tanh units."""

    def __init__(self, observation_size: int, action_count: int) -> None:
        super().__init__()
        self.critic = network(observation_size, 1, last_gain=1.0)
        self.actor = network(observation_size, action_count, last_gain=0.01)

    def actor_arrays(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """(transposed weight, bias) of each actor layer: views, where the parameters are in main memory."""
        arrays = [parameter.detach().cpu().numpy() for parameter in self.actor.parameters()]
        return [(weight.T, bias) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)]


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    sizes = (inputs, 64, 64, outputs)
    layers = [nn.Linear(before, after) for before, after in pairwise(sizes)]
    for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), last_gain), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


class Rollout:
    """What the environments went through between two updates; row `t` of each array is step `t` of them all.

    `filled` rows are done: a stop may come in the middle of one, and a resumed run goes on there.
    """

    PARTS = ("filled", "noise", "observations", "actions", "rewards", "terminated", "truncated", "cut_off")

    def __init__(self) -> None:
        self.begin(np.zeros((0, 1, 1), dtype=np.float32), np.zeros((1, 1), dtype=np.float32))

    def begin(self, noise: NDArray[np.float32], observation: NDArray[np.float32]) -> None:
        """Empty it for as many steps as there is noise, from the observation that the environments are in."""
        shape = (len(noise), len(observation))
        self.filled = 0
        self.noise = noise
        # One row more: the observation that the last step led to.
        self.observations = np.zeros((shape[0] + 1, *observation.shape), dtype=np.float32)
        self.observations[0] = observation
        self.actions = np.zeros(shape, dtype=np.int64)
        self.rewards = np.zeros(shape, dtype=np.float32)
        self.terminated = np.zeros(shape, dtype=bool)
        self.truncated = np.zeros(shape, dtype=bool)
        # (step, environment, observation) where a time limit cut an episode off.
        self.cut_off: list[tuple[int, int, NDArray[np.float32]]] = []

    def cut_off_all(self) -> None:
        """End the running episodes at the last row, as a time limit would."""
        last = self.filled - 1
        if last >= 0:
            running = ~(self.terminated[last] | self.truncated[last])
            self.truncated[last] |= running
            self.cut_off += [
                (last, int(env), self.observations[self.filled, env].copy()) for env in np.flatnonzero(running)
            ]


class Collector:
    """Steps the environments and keeps what must survive from one rollout to the next."""

    def __init__(self, envs: SyncVectorEnv, session: TrainingSession, seed: int) -> None:
        self.envs, self.session = envs, session
        self.random = np.random.default_rng((seed, 1))  # not the stream that seeds the first environment
        self.global_step = 0
        first_observation, _ = envs.reset(seed=seed)
        self.observation = np.array(first_observation, dtype=np.float32).reshape(envs.num_envs, -1)
        self.returns = np.zeros(envs.num_envs)
        self.lengths = np.zeros(envs.num_envs, dtype=np.int64)
        self.rollout = Rollout()

    PARTS = ("random", "global_step", "observation", "returns", "lengths")

    def collect(self, agent: Agent, steps: int) -> Rollout | None:
        """Play `steps` steps in every environment, or return None when the session asks to stop meanwhile."""
        envs, session = self.envs, self.session
        space = envs.single_action_space
        assert isinstance(space, gym.spaces.Discrete)
        rollout = self.rollout
        if rollout.filled == len(rollout.actions):
            # Adding Gumbel noise and taking the largest logit samples exactly from the softmax.
            noise = self.random.gumbel(size=(steps, envs.num_envs, int(space.n))).astype(np.float32)
            rollout.begin(noise, self.observation)
        hidden_1, hidden_2, last = agent.actor_arrays()
        for step in range(rollout.filled, steps):
            session.safe_point(self.global_step)
            if session.stop_requested:
                rollout.filled = step
                return None
            hidden = np.tanh(rollout.observations[step] @ hidden_1[0] + hidden_1[1])
            hidden = np.tanh(hidden @ hidden_2[0] + hidden_2[1])
            action = (hidden @ last[0] + last[1] + rollout.noise[step]).argmax(axis=1)
            observation, reward, terminated, truncated, info = envs.step(action + space.start)
            self.global_step += envs.num_envs
            self.returns += reward
            self.lengths += 1
            rollout.actions[step] = action
            rollout.rewards[step] = reward
            rollout.observations[step + 1] = observation.reshape(envs.num_envs, -1)
            if "final_obs" in info:
                rollout.terminated[step], rollout.truncated[step] = terminated, truncated
                self._end_episodes(rollout, step, info["final_obs"])
        rollout.filled = steps
        self.observation = rollout.observations[steps]
        return rollout

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold: the old ones were cut off."""
        rollout = self.rollout
        rollout.cut_off_all()
        self.observation = np.array(self.envs.reset()[0], dtype=np.float32).reshape(self.envs.num_envs, -1)
        if rollout.filled < len(rollout.actions):
            rollout.observations[rollout.filled] = self.observation
        self.returns[:], self.lengths[:] = 0.0, 0

    def _end_episodes(self, rollout: Rollout, step: int, final_observations: NDArray[Any]) -> None:
        terminated, truncated = rollout.terminated[step], rollout.truncated[step]
        for env in np.flatnonzero(terminated | truncated):
            if truncated[env] and not terminated[env]:
                final = np.array(final_observations[env], dtype=np.float32).reshape(-1)
                rollout.cut_off.append((step, int(env), final))
            ended = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, ended)
            self.returns[env], self.lengths[env] = 0.0, 0


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

    `next_values` is the critic's value of the observation that a step truly led to, which at the end of an
    episode is not the first one of the next. A terminated episode has no future: that value counts for
    nothing. A truncated one has, but the steps after it belong to another episode: the value counts, the
    later advantages do not.
    """
    errors = rewards + gamma * next_values * ~terminated - values
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

    def shuffled(self, order: Tensor) -> Batch:
        return Batch(*(getattr(self, field.name)[order] for field in dataclasses.fields(self)))

    def parts(self, count: int) -> list[Batch]:
        """`count` consecutive parts whose sizes differ by one at most."""
        columns = [getattr(self, field.name).tensor_split(count) for field in dataclasses.fields(self)]
        return [Batch(*part) for part in zip(*columns, strict=True)]


@torch.no_grad()
def evaluate(agent: Agent, rollout: Rollout, args: Args, device: torch.device) -> Batch:
    """Values, log-probabilities and advantages of a rollout, under the policy that produced it."""
    steps, envs = rollout.actions.shape
    observations = torch.from_numpy(rollout.observations).to(device)
    all_values = agent.critic(observations).squeeze(-1).cpu().numpy()
    values, next_values = all_values[:-1], all_values[1:].copy()
    if rollout.cut_off:
        at_step, at_env, finals = zip(*rollout.cut_off, strict=True)
        final_values = agent.critic(torch.from_numpy(np.stack(finals)).to(device))
        next_values[at_step, at_env] = final_values.squeeze(-1).cpu().numpy()
    ends = rollout.terminated, rollout.truncated
    advantages = advantages_of(rollout.rewards, values, next_values, *ends, args.gamma, args.gae_lambda)
    flat_observations = observations[:-1].reshape(steps * envs, -1)
    actions = torch.from_numpy(rollout.actions.reshape(-1)).to(device)
    log_probs = F.log_softmax(agent.actor(flat_observations), dim=1)
    return Batch(
        observations=flat_observations,
        actions=actions,
        log_probs=log_probs.gather(1, actions.unsqueeze(1)).squeeze(1),
        advantages=torch.from_numpy(advantages.reshape(-1)).to(device),
        returns=torch.from_numpy((advantages + values).reshape(-1)).to(device),
        values=torch.from_numpy(values.reshape(-1)).to(device),
    )


@dataclass
class Losses:
    """Sums over a minibatch; `total` alone is the mean that is minimised."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor


def losses_of(agent: Agent, batch: Batch, args: Args) -> Losses:
    log_probs = F.log_softmax(agent.actor(batch.observations), dim=1)
    entropy = -(log_probs.exp() * log_probs).sum()
    log_ratios = log_probs.gather(1, batch.actions.unsqueeze(1)).squeeze(1) - batch.log_probs

    advantages = batch.advantages
    if args.norm_adv and len(batch) > 1:  # a single one has no spread to divide by
        spread, mean = torch.std_mean(advantages)
        advantages = (advantages - mean) / (spread + 1e-8)
    # The clipped objective with its bound written out: min(r A, clip(r) A) = min(r A, A + clip_coef |A|).
    bounds = torch.add(advantages, advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(advantages * log_ratios.exp(), bounds).sum()

    values = agent.critic(batch.observations).squeeze(1)
    squared = (values - batch.returns).square()
    if args.clip_vloss:
        clipped_values = batch.values + (values - batch.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped_values - batch.returns).square())
    value = 0.5 * squared.sum()

    total = (policy - args.ent_coef * entropy + args.vf_coef * value) / len(batch)
    return Losses(total, policy, value, entropy, log_ratios.detach())


class Learner:
    """Adam on all parameters laid out as one vector: clipping and stepping take a few operations, not dozens.

    Adam is written out rather than taken from `torch.optim`, whose first use imports the compiler (seconds of
    start-up) and whose bookkeeping takes longer than the arithmetic for networks this small.
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

    def update(self, batch: Batch) -> dict[str, float]:
        """Improve the agent on one rollout and return what to log about it."""
        args = self.args
        minibatch_size = args.num_envs * args.num_steps / args.num_minibatches
        count = max(1, round(len(batch) / minibatch_size))  # fewer for the last rollout, which may be shorter
        all_log_ratios = []
        for _ in range(args.update_epochs):
            for minibatch in batch.shuffled(torch.randperm(len(batch))).parts(count):
                losses = self.step(minibatch)
                all_log_ratios.append(losses.log_ratios)
            if args.target_kl is not None and kl_estimate(losses.log_ratios) > args.target_kl:
                break
        if not math.isfinite(losses.total.item()):
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
        clipped = (torch.cat(all_log_ratios).exp() - 1).abs() > args.clip_coef
        return {
            "losses/value_loss": losses.value.item() / len(minibatch),
            "losses/policy_loss": losses.policy.item() / len(minibatch),
            "losses/entropy": losses.entropy.item() / len(minibatch),
            "losses/old_approx_kl": -losses.log_ratios.mean().item(),
            "losses/approx_kl": kl_estimate(losses.log_ratios),
            "losses/clipfrac": clipped.float().mean().item(),
            "losses/explained_variance": explained_variance(batch),
        }


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


def train(args: Args, envs: SyncVectorEnv, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space = envs.single_action_space
    assert isinstance(space, gym.spaces.Discrete) and envs.single_observation_space.shape is not None
    agent = Agent(math.prod(envs.single_observation_space.shape), int(space.n)).to(device)
    learner = Learner(agent, args)
    spaces = {"observation": describe_space(envs.single_observation_space), "action": describe_space(space)}

    steps = math.ceil(args.total_timesteps / args.num_envs)  # of each environment
    iterations = math.ceil(steps / args.num_steps)
    collector, progress = Collector(envs, session, args.seed), Progress()
    state = TrainingState()
    state.module("agent", agent)
    state.attributes("learner", learner, "steps", "mean", "mean_square")
    state.attributes("collector", collector, *Collector.PARTS)
    state.attributes("rollout", collector.rollout, *Rollout.PARTS)
    state.attributes("progress", progress, "iteration")
    state.envs("envs", envs, collector.restart)
    session.restore(state, args.resume, args.warm_start)
    resumed_at = progress.saved_at = collector.global_step

    def save(*, required: bool) -> None:
        session.save_checkpoint(collector.global_step, *state.capture(), spaces, required=required)
        progress.saved_at = collector.global_step

    session.record(envs)
    session.begin(steps * args.num_envs)
    while (done := progress.iteration * args.num_steps) < steps:
        if args.anneal_lr:
            learner.learning_rate = args.learning_rate * (1 - progress.iteration / iterations)
        rollout = collector.collect(agent, min(args.num_steps, steps - done))
        if rollout is None:
            break
        logged = learner.update(evaluate(agent, rollout, args, device))
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


class TrainedActor:
    """The actor of a checkpoint, choosing actions."""

    def __init__(self, agent: Agent, first_action: int) -> None:
        self.layers, self.first_action = agent.actor_arrays(), first_action

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        hidden_1, hidden_2, last = self.layers
        hidden = np.tanh(flat_rows(observations) @ hidden_1[0] + hidden_1[1])
        hidden = np.tanh(hidden @ hidden_2[0] + hidden_2[1])
        logits = hidden @ last[0] + last[1]
        if not deterministic:
            logits = logits + random.gumbel(size=logits.shape)
        return logits.argmax(axis=1) + self.first_action


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    agent = Agent(math.prod(observation["shape"]), action["n"])
    fill(agent, "agent", checkpoint)
    return TrainedActor(agent, action["start"])


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    try:
        args = parse(Args, "Train with PPO on an environment with discrete actions.")
        check(args)
        with closing(make_envs(args)) as envs, TrainingSession.open(dataclasses.asdict(args), "ppo") as session:
            train(args, envs, session)
    except UsageError as error:
        print(f"ppo: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"ppo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
