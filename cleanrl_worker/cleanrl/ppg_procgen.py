"""Phasic policy gradient (Cobbe et al., 2020) for Procgen's games, in one file.

    python cleanrl_worker/cleanrl/ppg_procgen.py --env-id starpilot --total-timesteps 1000000

Flag names, defaults and TensorBoard tags are CleanRL's. Training goes in phases. In the policy phase the agent learns
from each rollout once, much as with PPO, but what the critic learns does not reach the shared network. In the
auxiliary phase a second value head teaches the shared network from all rollouts of the phase, while a penalty holds
the policy where it was.

The games are EnvPool's. Tried with EnvPool 1.2.5: the step that ends an episode returns the episode's true last
observation; the step after it ignores its action, gives reward 0 and returns the first observation of a new level.
Such a reset row belongs to no episode and is left out of the advantages, the reward's scale and every loss. A level
that met its time limit is not treated as terminated: its last observation is still worth its value.

A minibatch of pictures takes seconds on a CPU, so its gradient is added up in small chunks, between which the run can
pause or stop. A stop discards the unfinished minibatch, which a resumed run begins again.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.arguments import parse
from cleanrl_worker.atari import UnknownGameError
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space, read_manifest
from cleanrl_worker.envpool_games import procgen_name
from cleanrl_worker.game_camera import Camera
from cleanrl_worker.policies import Policy, fill
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState


@dataclass
class Args:
    exp_name: str = "ppg_procgen"
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU, which for networks of this size is many times faster."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""

    env_id: str = "starpilot"
    """A Procgen game: starpilot (its easy levels), starpilot-hard, or EnvPool's name for it, StarpilotHard-v0."""
    total_timesteps: int = 25_000_000
    """Environment steps in all, rounded up to whole rollouts."""
    learning_rate: float = 5e-4
    """Step size of Adam."""
    num_envs: int = 64
    """How many environments are stepped side by side."""
    num_steps: int = 256
    """Steps of each environment in a rollout."""
    anneal_lr: bool = False
    """Lower the learning rate linearly to zero over the run."""
    gamma: float = 0.999
    """Discount: what a reward is still worth one step later."""
    gae_lambda: float = 0.95
    """Trade of bias (0) against variance (1) in the advantage estimate."""
    num_minibatches: int = 8
    """Parts that a rollout is cut into for gradient steps."""
    adv_norm_fullbatch: bool = True
    """Normalise the advantages of each rollout."""
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

    n_iteration: int = 32
    """Rollouts in a phase; all of them are kept in memory for the auxiliary part at its end."""
    e_policy: int = 1
    """Passes over each rollout that improve the policy."""
    v_value: int = 1
    """Passes over each rollout that improve the value function."""
    e_auxiliary: int = 6
    """Passes over the phase's rollouts in the auxiliary part."""
    beta_clone: float = 1.0
    """How strongly the auxiliary part holds the policy where it was."""
    num_aux_rollouts: int = 4
    """Rollouts of single environments in each minibatch of the auxiliary part."""
    n_aux_grad_accum: int = 1
    """Minibatches of the auxiliary part whose gradients make one step."""

    torch_threads: int = 1
    """CPU threads for PyTorch; here, as many as there are idle cores pay off."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = False
    """Keep the phase's rollouts in checkpoints (gigabytes with the defaults); without them a resumed run's next
    auxiliary part learns only from what came after."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts anew."""


COUNTS = (
    "total_timesteps",
    "num_envs",
    "num_steps",
    "num_minibatches",
    "n_iteration",
    "num_aux_rollouts",
    "n_aux_grad_accum",
    "torch_threads",
)
NOT_NEGATIVE = (
    "seed",
    "checkpoint_every",
    "checkpoint_keep",
    "ent_coef",
    "vf_coef",
    "e_policy",
    "v_value",
    "e_auxiliary",
    "beta_clone",
)
POSITIVE = ("learning_rate", "clip_coef", "max_grad_norm", "target_kl")
FRACTIONS = ("gamma", "gae_lambda")
CHUNK = 64  # rows of one forward and backward pass: about a tenth of a second on a CPU
SAY_EVERY = 10.0  # seconds


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


# --- the games ---------------------------------------------------------------------------------------------

INSTALL = "python -m cleanrl_worker.tools.install_extras --set procgen"


def procgen_id(name: str) -> str:
    """EnvPool's id of `starpilot`, `starpilot-hard` or `StarpilotHard-v0`. Raises UsageError."""
    try:
        return procgen_name(name)
    except UnknownGameError as error:
        sentence = str(error)
        raise UsageError(sentence[:1].upper() + sentence[1:]) from error
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"ppg_procgen needs the procgen extra ({reason}). Install it with: {INSTALL}") from error


class Games(Protocol):
    """Environments stepped together, which reset as EnvPool's do: in the step after an episode's last."""

    keeps_state: bool
    """Whether the running episodes can be part of a checkpoint."""
    camera: Camera | None
    num_envs: int
    single_observation_space: gym.Space[Any]
    single_action_space: gym.Space[Any]

    def reset(self) -> NDArray[np.uint8]: ...

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        """(observations, rewards, terminated, truncated)"""

    def close(self) -> None: ...


class ProcgenGames:
    """Procgen's games in EnvPool's threads. The state of a running game cannot be read out of them."""

    keeps_state = False

    def __init__(self, env_id: str, num_envs: int, seed: int, *, record: bool = False) -> None:
        name = procgen_id(env_id)
        import envpool

        self.num_envs = num_envs
        self._pool = envpool.make_gymnasium(name, num_envs=num_envs, seed=seed % 2**31)
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observations = self.reset()
        self.camera = Camera(lambda: enlarged(self.observations[0])) if record else None

    def reset(self) -> NDArray[np.uint8]:
        self.observations = np.asarray(self._pool.reset()[0])
        return self.observations

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]:
        self.observations, rewards, terminated, truncated, _ = self._pool.step(actions.astype(np.int32))
        if self.camera is not None:
            self.camera.follow(game_over=bool(terminated[0] | truncated[0]))
        return self.observations, rewards, terminated, truncated

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()
        self._pool.close()


def make_envs(args: Args) -> Games:
    """The environments. Raises UsageError. A resumed run meets other levels than those it began with."""
    begun = read_manifest(Path(args.resume)).step if args.resume else 0
    return ProcgenGames(args.env_id, args.num_envs, args.seed + begun, record=args.capture_video)


class ProcgenEnv(gym.Env[NDArray[np.uint8], np.int64]):
    """One game that waits to be reset, with its true rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - gymnasium's own form

    def __init__(self, env_id: str, render_mode: str | None = None) -> None:
        self.env_id, self.render_mode = env_id, render_mode
        self._games = ProcgenGames(env_id, 1, seed=0)
        self.observation_space = self._games.single_observation_space
        self.action_space = self._games.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:  # EnvPool only takes one when it makes a game
            self._games.close()
            self._games = ProcgenGames(self.env_id, 1, seed)
        else:
            self._games.reset()
        return self._games.observations[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated = self._games.step(np.array([action]))
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> Any:
        return enlarged(self._games.observations[0])

    def close(self) -> None:
        self._games.close()


def enlarged(picture: NDArray[np.uint8], times: int = 6) -> NDArray[np.uint8]:
    """A (channels, height, width) picture as one that a person can look at."""
    return np.ascontiguousarray(picture.transpose(1, 2, 0).repeat(times, axis=0).repeat(times, axis=1))


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One game with what training shows the agent and the rewards that training scales. Raises UsageError."""
    return ProcgenEnv(args.env_id, render_mode)


# --- the agent ---------------------------------------------------------------------------------------------


def scaled(layer: Any, gain: float) -> Any:
    """The layer, the weights of each of its units scaled to length `gain`, its bias zero."""
    with torch.no_grad():
        lengths = layer.weight.flatten(1).norm(dim=1)
        layer.weight.mul_((gain / lengths).view(-1, *[1] * (layer.weight.dim() - 1)))
        layer.bias.zero_()
    return layer


class Residual(nn.Module):
    """Two convolutions whose result is added to what enters."""

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.first = scaled(nn.Conv2d(channels, channels, 3, padding=1), math.sqrt(gain))
        self.second = scaled(nn.Conv2d(channels, channels, 3, padding=1), math.sqrt(gain))

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures + self.second(F.relu(self.first(F.relu(pictures))))


def impala_network(observation_shape: tuple[int, ...]) -> nn.Sequential:
    """The convolutional network of IMPALA (Espeholt et al., 2018) with 256 outputs."""
    channels, height, width = observation_shape
    layers: list[nn.Module] = []
    blocks = 3
    for depth in (16, 32, 32):
        # Gains that keep the size of what flows through alike in all depths.
        gain = 1 / math.sqrt(blocks) / math.sqrt(2)
        layers += [scaled(nn.Conv2d(channels, depth, 3, padding=1), 1.0), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(depth, gain), Residual(depth, gain)]
        channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
    last = scaled(nn.Linear(channels * height * width, 256), 1.4)
    return nn.Sequential(*layers, nn.Flatten(), nn.ReLU(), last, nn.ReLU())


class Agent(nn.Module):
    """A shared network with three heads: policy, value, and the value that only the auxiliary part uses."""

    def __init__(self, observation_shape: tuple[int, ...], action_count: int) -> None:
        super().__init__()
        self.network = impala_network(observation_shape)
        self.actor = scaled(nn.Linear(256, action_count), 0.1)
        self.critic = scaled(nn.Linear(256, 1), 0.1)
        self.aux_critic = scaled(nn.Linear(256, 1), 0.1)

    def features(self, observations: Tensor) -> Tensor:
        # Channels last: the same sums in half the time on a CPU.
        return self.network(observations.to(torch.float32, memory_format=torch.channels_last).div_(255))

    def policy_and_value(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """(logits, values); the value's gradient ends at its head, so that it cannot disturb the policy."""
        features = self.features(observations)
        return self.actor(features), self.critic(features.detach()).squeeze(1)

    def policy_and_both_values(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(logits, values, auxiliary values); the last one's gradient reaches the whole network."""
        features = self.features(observations)
        value, auxiliary = self.critic(features.detach()), self.aux_critic(features)
        return self.actor(features), value.squeeze(1), auxiliary.squeeze(1)


class ProcgenPolicy:
    """A trained agent's choice of actions."""

    def __init__(self, agent: Agent, first_action: int) -> None:
        self.agent, self.first_action = agent, first_action

    @torch.no_grad()
    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        """The likeliest actions, or ones drawn as in training."""
        logits = self.agent.actor(self.agent.features(torch.from_numpy(np.asarray(observations)))).numpy()
        return self.first_action + (logits if deterministic else logits + random.gumbel(size=logits.shape)).argmax(1)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    agent = Agent(tuple(observation["shape"]), action["n"]).requires_grad_(False)
    fill(agent, "agent", checkpoint)
    return ProcgenPolicy(agent, action["start"])


# --- collecting --------------------------------------------------------------------------------------------


class Phase:
    """All that the environments went through in one phase; every tensor begins (rollout, step, environment).

    `count` rollouts are whole and learned from, and `filled` steps of the next one are there. What the policy phase
    is done with stays for the auxiliary part: pictures as bytes, in memory that was set aside before the run began.
    """

    COLUMNS = ("observations", "actions", "log_probs", "values", "rewards", "terminated", "ended", "counts")
    LATER = ("advantages", "returns", "logits")

    def __init__(self, shape: tuple[int, int, int], observation_shape: tuple[int, ...], actions: int, saved: bool):
        self.shape, self.saved = shape, saved
        self.count = self.filled = 0
        self.observations = torch.zeros(*shape, *observation_shape, dtype=torch.uint8)
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.log_probs, self.values, self.rewards = torch.zeros(3, *shape).unbind()
        self.terminated, self.ended = torch.zeros(2, *shape, dtype=torch.bool).unbind()
        self.counts = torch.zeros(shape, dtype=torch.bool)  # False for reset rows
        self.advantages, self.returns = torch.zeros(2, *shape).unbind()
        self.logits = torch.zeros(*shape, actions)  # of the policy as it was when the auxiliary part began

    @staticmethod
    def bytes_needed(shape: tuple[int, int, int], observation_shape: tuple[int, ...], actions: int) -> int:
        """The size of a phase; a row has 8 bytes of action, 5 numbers of 4, 3 flags and the logits."""
        return math.prod(shape) * (math.prod(observation_shape) + 8 + 5 * 4 + 3 + 4 * actions)

    def flat(self, column: str) -> Tensor:
        """A column with one row for each step of each environment, a view."""
        return getattr(self, column).flatten(0, 2)

    def rows_of_rollout(self) -> Tensor:
        """Flat numbers of the rows of the newest rollout that count."""
        size = self.shape[1] * self.shape[2]
        return self.counts[self.count].flatten().nonzero().squeeze(1) + self.count * size

    def rows_of_columns(self, columns: Tensor) -> Tensor:
        """Flat numbers of the rows that count of whole rollouts of single environments, numbered over the phase."""
        _, steps, envs = self.shape
        first = columns // envs * steps * envs + columns % envs
        rows = (first.unsqueeze(1) + torch.arange(steps) * envs).flatten()
        return rows[self.flat("counts")[rows]]

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no rows unless they are to be saved."""
        rollouts = self.count + (self.filled > 0) if self.saved else 0
        kept = {name: getattr(self, name)[:rollouts] for name in (*self.COLUMNS, *self.LATER)}
        return {"shape": list(self.shape), "count": self.count, "filled": self.filled, "whole": self.saved, **kept}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        if kept["shape"][1:] != list(self.shape[1:]):
            steps, envs = kept["shape"][1:]
            raise ValueError(f"its rollouts have {steps} steps of {envs} environments; leave both as they were")
        rollouts = len(kept["actions"])
        if rollouts > self.shape[0]:
            raise ValueError(f"its phase has {rollouts} rollouts already; leave --n-iteration as it was")
        self.count, self.filled = kept["count"] if kept["whole"] else 0, kept["filled"]
        for name in (*self.COLUMNS, *self.LATER):
            getattr(self, name)[:rollouts] = kept[name]
        if not kept["whole"]:
            self.counts[0, : self.filled] = False

    def clear(self) -> None:
        self.count = self.filled = 0

    def __str__(self) -> str:
        rollouts = self.count + (self.filled > 0)
        megabytes = sum(getattr(self, name)[:rollouts].nbytes for name in (*self.COLUMNS, *self.LATER)) / 1e6
        return f"{rollouts} rollouts, {megabytes:,.0f} MB"


class RewardScale:
    """Divides rewards by the running spread of the discounted return, then clips them to ±10."""

    PARTS = ("running", "count", "mean", "variance")

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.running = np.zeros(num_envs)
        self.count, self.mean, self.variance = 1e-4, 0.0, 1.0

    def __call__(self, rewards: NDArray[Any], live: NDArray[np.bool_], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Scaled rewards of one step; only `live` environments, those not just resetting, count."""
        self.running = np.where(live, self.running * self.gamma + rewards, 0.0)
        self._take_in(self.running[live])
        self.running[ended] = 0.0
        return np.clip(rewards / math.sqrt(self.variance + 1e-8), -10, 10).astype(np.float32)

    def _take_in(self, found: NDArray[np.float64]) -> None:
        """Combine the moments so far with those of new values (Chan et al., 1983)."""
        if not len(found):
            return
        total, distance = self.count + len(found), found.mean() - self.mean
        spread = self.variance * self.count + found.var() * len(found)
        self.variance = float((spread + distance**2 * self.count * len(found) / total) / total)
        self.mean += float(distance * len(found) / total)
        self.count = total


class Collector:
    """Steps the environments and keeps what must survive from one rollout to the next."""

    PARTS = ("random", "global_step", "observation", "resetting", "returns", "lengths")

    def __init__(self, games: Games, phase: Phase, session: TrainingSession, args: Args) -> None:
        self.games, self.phase, self.session = games, phase, session
        assert isinstance(games.single_action_space, gym.spaces.Discrete)
        self.first_action = int(games.single_action_space.start)
        self.random = np.random.default_rng((args.seed, 1))
        self.reward_scale = RewardScale(games.num_envs, args.gamma)
        self.global_step = 0
        self.first_observation = games.reset()
        self.observation = np.array(self.first_observation)
        self.resetting = np.zeros(games.num_envs, dtype=bool)  # whose next step only begins a new episode
        self.returns = np.zeros(games.num_envs)
        self.lengths = np.zeros(games.num_envs, dtype=np.int64)
        self.restarting = False

    def restart(self) -> None:
        """Go on with environments that could not be put back into their episodes.

        As if a time limit had cut all of them off: the next row only resets them, so it still shows the last
        observation that was kept, whose value the row before it needs.
        """
        self.returns[:], self.lengths[:] = 0.0, 0
        self.reward_scale.running[:] = 0.0
        phase = self.phase
        if phase.filled and phase.counts[phase.count, : phase.filled].any():
            phase.ended[phase.count, phase.filled - 1] = True
            self.resetting[:], self.restarting = True, True
        else:
            self.observation, self.resetting[:] = np.array(self.first_observation), False

    @torch.no_grad()
    def step(self, agent: Agent, device: torch.device) -> None:
        """One step of every environment, into the phase's next row."""
        phase = self.phase
        at = phase.count, phase.filled
        observation = torch.from_numpy(self.observation)
        logits, values = agent.policy_and_value(observation.to(device))
        log_probs = F.log_softmax(logits, dim=1).cpu()
        # Adding Gumbel noise and taking the largest samples exactly from the softmax.
        noise = torch.from_numpy(self.random.gumbel(size=tuple(log_probs.shape)).astype(np.float32))
        actions = (log_probs + noise).argmax(dim=1)
        phase.observations[at] = observation
        phase.actions[at] = actions
        phase.log_probs[at] = log_probs.gather(1, actions.unsqueeze(1)).squeeze(1)
        phase.values[at] = values.cpu()
        following, rewards, terminated, truncated = self._advance(actions.numpy())
        live, ended = ~self.resetting, terminated | truncated
        phase.rewards[at] = torch.from_numpy(self.reward_scale(rewards, live, ended))
        phase.terminated[at], phase.ended[at] = torch.from_numpy(terminated), torch.from_numpy(ended)
        phase.counts[at] = torch.from_numpy(live)
        self._account(rewards, live, ended)
        self.observation, self.resetting = np.array(following), ended
        phase.filled += 1

    def _advance(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Any]:
        self.global_step += self.games.num_envs
        if self.restarting:
            self.restarting = False
            nothing = np.zeros(self.games.num_envs, dtype=bool)
            return self.first_observation, nothing.astype(np.float32), nothing, nothing
        return self.games.step(actions + self.first_action)

    def _account(self, rewards: NDArray[Any], live: NDArray[np.bool_], ended: NDArray[np.bool_]) -> None:
        self.returns += rewards
        self.lengths += live
        for env in np.flatnonzero(ended):
            values = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, values)
            self.returns[env], self.lengths[env] = 0.0, 0


def advantages_of(
    rewards: Tensor, values: Tensor, terminated: Tensor, ended: Tensor, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantage estimates of (steps, environments); `values` has one row more, of what came last.

    The row after an episode's last shows what that episode ended in, so the value of the next row is always that of
    the true next observation. A terminated episode has no future; one that was cut off has its value, but nothing
    flows back over an end. What a reset row gets is without meaning and must not be used.
    """
    errors = rewards + gamma * values[1:] * ~terminated - values[:-1]
    carry = gamma * gae_lambda * ~ended
    advantages = torch.empty_like(errors)
    following = torch.zeros_like(errors[0])
    for step in range(len(errors) - 1, -1, -1):
        following = errors[step] + carry[step] * following
        advantages[step] = following
    return advantages


@torch.no_grad()
def evaluate(agent: Agent, phase: Phase, observation: NDArray[np.uint8], args: Args, device: torch.device) -> None:
    """Advantages and returns of the newest rollout, which led to `observation`."""
    number = phase.count
    last = agent.policy_and_value(torch.from_numpy(observation).to(device))[1].cpu()
    values = torch.cat([phase.values[number], last.unsqueeze(0)])
    ends = phase.terminated[number], phase.ended[number]
    advantages = advantages_of(phase.rewards[number], values, *ends, args.gamma, args.gae_lambda)
    phase.returns[number] = advantages + values[:-1]
    if args.adv_norm_fullbatch and phase.counts[number].sum() > 1:
        spread, mean = torch.std_mean(advantages[phase.counts[number]])
        advantages = (advantages - mean) / (spread + 1e-8)
    phase.advantages[number] = advantages


# --- learning ----------------------------------------------------------------------------------------------


@dataclass
class PolicyLosses:
    """Sums over rows."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    log_ratios: Tensor


class Rows(NamedTuple):
    """What the policy phase needs of rows besides their observations."""

    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


def policy_losses(logits: Tensor, values: Tensor, rows: Rows, args: Args) -> PolicyLosses:
    """PPO's clipped objectives."""
    log_probs = F.log_softmax(logits, dim=1)
    entropy = -(log_probs.exp() * log_probs).sum()
    log_ratios = log_probs.gather(1, rows.actions.unsqueeze(1)).squeeze(1) - rows.log_probs
    # The clipped objective with its bound written out: min(r A, clip(r) A) = min(r A, A + clip_coef |A|).
    bounds = torch.add(rows.advantages, rows.advantages.abs(), alpha=args.clip_coef)
    policy = -torch.minimum(rows.advantages * log_ratios.exp(), bounds).sum()
    squared = (values - rows.returns).square()
    if args.clip_vloss:
        clipped = rows.values + (values - rows.values).clamp(-args.clip_coef, args.clip_coef)
        squared = torch.maximum(squared, (clipped - rows.returns).square())
    return PolicyLosses(policy, 0.5 * squared.sum(), entropy, log_ratios.detach())


@dataclass
class AuxiliaryLosses:
    """Sums over rows."""

    value: Tensor
    auxiliary_value: Tensor
    divergence: Tensor


def auxiliary_losses(
    logits: Tensor, values: Tensor, auxiliary_values: Tensor, old_logits: Tensor, returns: Tensor
) -> AuxiliaryLosses:
    """Both heads' value losses, and the divergence of the policy from what it was: KL(old, new)."""
    old, new = F.log_softmax(old_logits, dim=1), F.log_softmax(logits, dim=1)
    return AuxiliaryLosses(
        value=0.5 * (values - returns).square().sum(),
        auxiliary_value=0.5 * (auxiliary_values - returns).square().sum(),
        divergence=(old.exp() * (old - new)).sum(),
    )


class Optimizer:
    """Adam on all parameters laid out as one vector, as in ppo.py: `torch.optim` takes seconds to import."""

    PARTS = ("steps", "mean", "mean_square")

    def __init__(self, agent: Agent, args: Args) -> None:
        self.longest, self.learning_rate = args.max_grad_norm, args.learning_rate
        parameters = list(agent.parameters())
        self.vector = nn.utils.parameters_to_vector(parameters).detach()
        self.gradient = torch.zeros_like(self.vector)
        nn.utils.vector_to_parameters(self.vector, parameters)  # they are views of it from here on
        pieces = self.gradient.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)

    @torch.no_grad()
    def step(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8) -> None:
        """Clip the gradient that is there and go along it."""
        self.gradient.mul_((self.longest / (self.gradient.norm() + 1e-6)).clamp(max=1))
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        root = self.mean_square.sqrt().div_(math.sqrt(1 - beta_2**self.steps)).add_(epsilon)
        self.vector.addcdiv_(self.mean, root, value=-self.learning_rate / (1 - beta_1**self.steps))

    def require_finite(self) -> None:
        """Raise FloatingPointError when the networks are lost."""
        if not self.vector.isfinite().all():
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")


@dataclass
class Position:
    """How far the run has come: a stop may fall anywhere, and a resumed run goes on at the minibatch it fell in."""

    PARTS = ("stage", "iteration", "epoch", "part", "order", "known")

    stage: str = "rollout"  # then "policy"; after the last rollout of a phase also "auxiliary"
    iteration: int = 0
    epoch: int = 0
    part: int = 0
    order: Tensor = dataclasses.field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    known: int = 0  # rows whose logits before the auxiliary part are known

    def enter(self, stage: str) -> None:
        self.stage, self.epoch, self.part, self.known = stage, 0, 0, 0
        self.order = self.order[:0]

    def next_epoch(self) -> None:
        self.epoch, self.part = self.epoch + 1, 0
        self.order = self.order[:0]


class Learner:
    """Gradient steps of both parts of a phase.

    `may_go_on` is asked before each chunk of work; when it says no, the method that asked returns None with the
    position where it was, to be called again by a resumed run.
    """

    def __init__(
        self, agent: Agent, phase: Phase, args: Args, device: torch.device, may_go_on: Callable[[], bool]
    ) -> None:
        self.agent, self.phase, self.args, self.device = agent, phase, args, device
        self.may_go_on = may_go_on
        self.optimizer = Optimizer(agent, args)
        self.position = Position()
        self._said_at = time.monotonic()

    def learn_policy(self) -> dict[str, float] | None:
        """Improve policy and value on the newest rollout; returns what to log about it."""
        args, at = self.args, self.position
        rows = self.phase.rows_of_rollout()
        passes = max(args.e_policy, args.v_value)
        clipped: list[float] = []
        logged: dict[str, float] = {}
        while at.epoch < passes and len(rows):
            if not len(at.order):
                at.order = rows[torch.randperm(len(rows))]
            parts = at.order.tensor_split(min(args.num_minibatches, len(rows)))
            for part in parts[at.part :]:
                found = self._step_policy(part)
                if found is None:
                    return None
                logged, clip_fraction = found
                clipped.append(clip_fraction)
                at.part += 1
            at.next_epoch()
            if args.target_kl is not None and logged["losses/approx_kl"] > args.target_kl:
                break
        if logged:
            logged["losses/clipfrac"] = sum(clipped) / len(clipped)
            logged["losses/explained_variance"] = self._explained_variance(rows)
        return logged

    def _step_policy(self, rows: Tensor) -> tuple[dict[str, float], float] | None:
        """One gradient step on a minibatch; returns (what to log, fraction of clipped ratios)."""
        args, at = self.args, self.position
        for_policy, for_value = float(at.epoch < args.e_policy), args.vf_coef * (at.epoch < args.v_value)
        self.optimizer.gradient.zero_()
        sums = torch.zeros(3)
        ratios = []
        for chunk in rows.split(CHUNK):
            if not self.may_go_on():
                return None
            columns = Rows(*(self.phase.flat(name)[chunk].to(self.device) for name in Rows._fields))
            logits, values = self.agent.policy_and_value(self.phase.flat("observations")[chunk].to(self.device))
            losses = policy_losses(logits, values, columns, args)
            total = for_policy * (losses.policy - args.ent_coef * losses.entropy) + for_value * losses.value
            (total / len(rows)).backward()
            sums += torch.stack([losses.policy, losses.value, losses.entropy]).detach().cpu()
            ratios.append(losses.log_ratios.cpu())
        self._descend(sums)
        policy, value, entropy = (sums / len(rows)).tolist()
        log_ratios = torch.cat(ratios)
        logged = {
            "losses/value_loss": value,
            "losses/policy_loss": policy,
            "losses/entropy": entropy,
            "losses/old_approx_kl": -log_ratios.mean().item(),
            "losses/approx_kl": (log_ratios.exp() - 1 - log_ratios).mean().item(),
        }
        return logged, ((log_ratios.exp() - 1).abs() > args.clip_coef).float().mean().item()

    def _descend(self, sums: Tensor) -> None:
        if not sums.isfinite().all():
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")
        self.optimizer.step()

    def _explained_variance(self, rows: Tensor) -> float:
        """1 when the critic foresaw the returns, 0 when a constant would have done as well, NaN without variance."""
        returns, values = self.phase.flat("returns")[rows], self.phase.flat("values")[rows]
        variance = returns.var(correction=0).item()
        return 1 - (returns - values).var(correction=0).item() / variance if variance else math.nan

    def learn_auxiliary(self) -> dict[str, float] | None:
        """Teach the shared network the returns of the phase; returns what to log about it."""
        args, at = self.args, self.position
        if not self._remember_policy():
            return None
        columns = self.phase.count * self.phase.shape[2]
        size = args.num_aux_rollouts * args.n_aux_grad_accum
        logged: dict[str, float] = {}
        while at.epoch < args.e_auxiliary and columns:
            if not len(at.order):
                at.order = torch.randperm(columns)
            parts = at.order.split(size)
            for part in parts[at.part :]:
                self._say(f"Auxiliary part: pass {at.epoch + 1} of {args.e_auxiliary}, step {at.part} of {len(parts)}.")
                rows = self.phase.rows_of_columns(part)
                found = self._step_auxiliary(rows) if len(rows) else logged
                if found is None:
                    return None
                logged = found
                at.part += 1
            at.next_epoch()
        return logged

    @torch.no_grad()
    def _remember_policy(self) -> bool:
        """Keep the logits that the auxiliary part must hold the policy to; False when the run is to stop."""
        phase, at = self.phase, self.position
        size = phase.shape[1] * phase.shape[2]
        observations, logits = phase.flat("observations"), phase.flat("logits")
        while at.known < (total := phase.count * size):
            if not self.may_go_on():
                return False
            self._say(f"Auxiliary part: evaluating {at.known:,} of {total:,} observations.")
            rows = slice(at.known, min(at.known + 2 * CHUNK, total))
            logits[rows] = self.agent.actor(self.agent.features(observations[rows].to(self.device))).cpu()
            at.known = rows.stop
        return True

    def _step_auxiliary(self, rows: Tensor) -> dict[str, float] | None:
        """One gradient step on the auxiliary objective; returns what to log about it."""
        phase, device = self.phase, self.device
        self.optimizer.gradient.zero_()
        sums = torch.zeros(3)
        for chunk in rows.split(CHUNK):
            if not self.may_go_on():
                return None
            outputs = self.agent.policy_and_both_values(phase.flat("observations")[chunk].to(device))
            aims = phase.flat("logits")[chunk].to(device), phase.flat("returns")[chunk].to(device)
            losses = auxiliary_losses(*outputs, *aims)
            total = losses.value + losses.auxiliary_value + self.args.beta_clone * losses.divergence
            (total / len(rows)).backward()
            sums += torch.stack([losses.divergence, losses.auxiliary_value, losses.value]).detach().cpu()
        self._descend(sums)
        tags = ("losses/aux/kl_loss", "losses/aux/aux_value_loss", "losses/aux/real_value_loss")
        return dict(zip(tags, (sums / len(rows)).tolist(), strict=True))

    def _say(self, sentence: str) -> None:
        """Print now and then: the auxiliary part takes long and steps no environment."""
        if time.monotonic() - self._said_at >= SAY_EVERY:
            self._said_at = time.monotonic()
            print(sentence, flush=True)


# --- the run -----------------------------------------------------------------------------------------------


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def free_memory() -> float:
    """Bytes that this machine can still give; infinite where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.inf
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024


def make_phase(args: Args, games: Games, rollouts: int) -> Phase:
    """Memory for one phase, no more rollouts than the run has. Raises UsageError when there is too little."""
    space, shape = games.single_action_space, games.single_observation_space.shape
    assert isinstance(space, gym.spaces.Discrete) and shape is not None
    size = (min(args.n_iteration, rollouts), args.num_steps, args.num_envs)
    needed = Phase.bytes_needed(size, shape, int(space.n))
    if needed > (free := free_memory()):
        advice = "lower --n-iteration, --num-steps or --num-envs"
        raise UsageError(f"{told_size(size, needed)}, of which {free / 1e9:.1f} GB are free; {advice}.")
    return Phase(size, shape, int(space.n), args.save_buffer)


def told_size(size: tuple[int, int, int], needed: int) -> str:
    rollouts, steps, envs = size
    return (
        f"A phase of {rollouts} rollouts of {steps} steps of {envs} environments takes {needed / 1e9:.1f} GB of memory"
    )


def train(args: Args, games: Games, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space = games.single_action_space
    assert isinstance(space, gym.spaces.Discrete) and games.single_observation_space.shape is not None
    steps_in_rollout = args.num_envs * args.num_steps
    iterations = math.ceil(args.total_timesteps / steps_in_rollout)
    phase = make_phase(args, games, iterations)
    agent = Agent(games.single_observation_space.shape, int(space.n)).to(device)
    collector = Collector(games, phase, session, args)
    spaces = {"observation": describe_space(games.single_observation_space), "action": describe_space(space)}
    saved_at = 0

    def may_go_on() -> bool:
        """Hold while paused, save when that is due, and tell whether the run is to go on."""
        session.safe_point(collector.global_step)
        interval_over = 0 < args.checkpoint_every <= collector.global_step - saved_at
        if not session.stop_requested and (session.checkpoint_requested or interval_over):
            save(required=False)
        return not session.stop_requested

    learner = Learner(agent, phase, args, device, may_go_on)
    position = learner.position
    state = TrainingState()
    state.module("agent", agent)
    state.attributes("optimizer", learner.optimizer, *Optimizer.PARTS)
    state.attributes("collector", collector, *Collector.PARTS)
    state.attributes("reward_scale", collector.reward_scale, *RewardScale.PARTS)
    state.attributes("position", position, *Position.PARTS)
    state.attributes("phase", phase, "contents")
    if games.keeps_state:
        state.envs("envs", games)

    def save(*, required: bool) -> None:
        nonlocal saved_at
        learner.optimizer.require_finite()
        saved_at = collector.global_step
        session.save_checkpoint(saved_at, *state.capture(), spaces, required=required)
        if args.save_buffer:
            print(f"The checkpoint at step {saved_at:,} includes the phase: {phase}.", flush=True)

    session.restore(state, args.resume, args.warm_start)
    if args.resume:
        take_up(position, phase, collector, read_manifest(Path(args.resume)).args)
    resumed_at = saved_at = collector.global_step
    needed = Phase.bytes_needed(phase.shape, games.single_observation_space.shape, int(space.n))
    print(f"{told_size(phase.shape, needed)}, filled as it goes.", flush=True)
    if games.camera is not None:
        session.record(games.camera)
    session.begin(iterations * steps_in_rollout)
    while position.iteration < iterations or position.stage == "auxiliary":
        if args.anneal_lr:
            learned_from = position.iteration - (position.stage == "auxiliary")  # that part goes on at the last rate
            learner.optimizer.learning_rate = args.learning_rate * (1 - learned_from / iterations)
        if position.stage == "rollout":
            while phase.filled < args.num_steps and may_go_on():
                collector.step(agent, device)
            if session.stop_requested:
                break
            evaluate(agent, phase, collector.observation, args, device)
            position.enter("policy")
        if position.stage == "policy":
            logged = learner.learn_policy()
            if logged is None:
                break
            position.iteration += 1
            phase.count, phase.filled = phase.count + 1, 0
            logged["charts/learning_rate"] = learner.optimizer.learning_rate
            logged["charts/SPS"] = (collector.global_step - resumed_at) / session.seconds_running
            session.scalars(collector.global_step, logged)
            phase_over = position.iteration % args.n_iteration == 0 or position.iteration == iterations
            position.enter("auxiliary" if phase_over else "rollout")
        if position.stage == "auxiliary":
            logged = learner.learn_auxiliary()
            if logged is None:
                break
            session.scalars(collector.global_step, logged)
            phase.clear()
            position.enter("rollout")
    save(required=True)


def take_up(position: Position, phase: Phase, collector: Collector, before: dict[str, Any]) -> None:
    """Go on as well as can be where a checkpoint does not hold everything: its rollouts, the running episodes."""
    if not before.get("save_buffer"):
        if position.stage == "policy":
            position.iteration += 1
        if position.stage != "rollout":
            position.enter("rollout")
            phase.filled = 0
        print("The checkpoint holds no rollouts: the auxiliary part of this phase learns from later ones.", flush=True)
    if not collector.games.keeps_state:
        print("EnvPool's games cannot be put back into their episodes: they begin new ones.", flush=True)
        collector.restart()


def main() -> int:
    try:
        args = parse(Args, "Train with phasic policy gradient on a Procgen game.")
        check(args)
        with (
            closing(make_envs(args)) as games,
            TrainingSession.open(dataclasses.asdict(args), "ppg_procgen") as session,
        ):
            train(args, games, session)
    except UsageError as error:
        print(f"ppg_procgen: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"ppg_procgen: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
