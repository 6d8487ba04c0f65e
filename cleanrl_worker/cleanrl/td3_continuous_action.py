"""Twin Delayed Deep Deterministic policy gradient for continuous actions, in one file.

    python cleanrl_worker/cleanrl/td3_continuous_action.py --env-id Pendulum-v1 --total-timesteps 20000 \\
        --learning-starts 1000

Flag names, defaults and TensorBoard tags are CleanRL's. What differs is how the same arithmetic is carried
out: both critics are one network with a leading dimension of two, each network's parameters lie in one vector
that the target networks follow, and a transition is one row of the replay memory, so that a batch is
one gather. With several environments, one gradient step is made for each environment step, as with one.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from cleanrl_worker.arguments import parse
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.environments import make_env
from cleanrl_worker.policies import Policy, fill, flat_rows
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState

ALGORITHM = "td3_continuous_action"
HIDDEN = 256
LOG_EVERY = 100


@dataclass
class Args:
    exp_name: str = ALGORITHM
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU; for networks this small the CPU is often as fast."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the networks."""
    upload_model: bool = False
    """Send the networks to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that uploaded networks would belong to."""

    env_id: str = "Hopper-v4"
    """Gymnasium id of an environment with bounded continuous actions and box observations."""
    total_timesteps: int = 1_000_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor and critics alike."""
    num_envs: int = 1
    """How many environments are stepped side by side."""
    buffer_size: int = 1_000_000
    """Transitions that the replay memory holds before the oldest are overwritten."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    tau: float = 0.005
    """Share of the way that target networks go towards the trained ones at each of their updates."""
    batch_size: int = 256
    """Transitions drawn for one gradient step."""
    policy_noise: float = 0.2
    """Spread of the noise on the target policy's actions, relative to half the action range."""
    exploration_noise: float = 0.1
    """Spread of the noise on the actions that are played, relative to half the action range."""
    learning_starts: int = 25_000
    """Steps with random actions before the first gradient step; a twentieth of a short run is enough."""
    policy_frequency: int = 2
    """Critic updates for each update of the actor and of the target networks."""
    noise_clip: float = 0.5
    """Largest noise on the target policy's actions, relative to half the action range."""

    torch_threads: int = 1
    """CPU threads for PyTorch; more than one slows networks this small down."""
    checkpoint_every: int = 100_000
    """Environment steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it a resumed run fills it anew."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with, acting from the first step; everything else starts anew."""


COUNTS = ("total_timesteps", "num_envs", "buffer_size", "batch_size", "policy_frequency", "torch_threads")
NOT_NEGATIVE = (
    "seed",
    "checkpoint_every",
    "checkpoint_keep",
    "learning_starts",
    "policy_noise",
    "exploration_noise",
    "noise_clip",
)
POSITIVE = ("learning_rate",)
FRACTIONS = ("gamma", "tau")


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    for name, value in dataclasses.asdict(args).items():
        flag = "--" + name.replace("_", "-")
        if name in COUNTS:
            require(value >= 1, f"{flag} must be at least 1, got {value}.")
        elif name in NOT_NEGATIVE:
            require(0 <= value < math.inf, f"{flag} must be 0 or more, got {value}.")
        elif name in POSITIVE:
            require(0 < value < math.inf, f"{flag} must be more than 0, got {value}.")
        elif name in FRACTIONS:
            require(0 <= value <= 1, f"{flag} must be from 0 to 1, got {value}.")
    require(
        args.num_envs <= args.buffer_size,
        f"--buffer-size must be at least num-envs ({args.num_envs}), got {args.buffer_size}.",
    )
    require(not args.upload_model, "--upload-model is not available in this version; leave it out.")
    require(
        not args.cuda or torch.cuda.is_available(),
        "--cuda was asked for, but PyTorch finds no CUDA device; leave it out to train on the CPU.",
    )


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UsageError(sentence)


def make_envs(args: Args) -> SyncVectorEnv:
    """The environments, checked for what this algorithm can handle.

    SAME_STEP: a finished environment is reset within the step that finished it, so every step is a real
    transition, and the observation the episode ended in arrives as `final_obs`.
    """
    envs = SyncVectorEnv(
        [partial(make_env, args.env_id, record=args.capture_video and n == 0) for n in range(args.num_envs)],
        copy=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    actions, observations = envs.single_action_space, envs.single_observation_space
    require(
        isinstance(actions, gym.spaces.Box),
        f"{ALGORITHM} needs a continuous action space; {args.env_id} has {brief(actions)}. Try ppo, dqn or c51.",
    )
    assert isinstance(actions, gym.spaces.Box)
    require(
        actions.is_bounded(),
        f"{ALGORITHM} needs bounded actions; those of {args.env_id} are not. Try ppo_continuous_action.",
    )
    require(
        isinstance(observations, gym.spaces.Box),
        f"{ALGORITHM} needs a Box observation space; {args.env_id} has {brief(observations)}.",
    )
    return envs


def brief(space: gym.Space[Any]) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


class Actor(nn.Module):
    """Observation to action: two hidden layers of 256 ReLU units, tanh stretched to the action range."""

    action_scale: Tensor
    action_bias: Tensor

    def __init__(self, observation_size: int, actions: gym.spaces.Box) -> None:
        super().__init__()
        low, high = torch.from_numpy(actions.low).reshape(-1), torch.from_numpy(actions.high).reshape(-1)
        self.fc1 = nn.Linear(observation_size, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.fc_mu = nn.Linear(HIDDEN, len(low))
        self.register_buffer("action_scale", ((high - low) / 2).float())
        self.register_buffer("action_bias", ((high + low) / 2).float())

    def forward(self, observations: Tensor) -> Tensor:
        hidden = self.fc2(self.fc1(observations).relu_()).relu_()
        return torch.addcmul(self.action_bias, self.fc_mu(hidden).tanh_(), self.action_scale)

    def arrays(self) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """(transposed weight, bias) of each layer: views, where the parameters are in main memory."""
        found = [parameter.detach().cpu().numpy() for parameter in self.parameters()]
        return [(weight.T, bias) for weight, bias in zip(found[::2], found[1::2], strict=True)]


class Critics(nn.Module):
    """Two independent Q-networks in one: each parameter has a leading dimension of two.

    Takes (observation, action) rows side by side and gives values shaped (2, rows).
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.weight_1, self.bias_1 = twin_layer(inputs, HIDDEN)
        self.weight_2, self.bias_2 = twin_layer(HIDDEN, HIDDEN)
        self.weight_3, self.bias_3 = twin_layer(HIDDEN, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.baddbmm(self.bias_1, inputs.expand(2, -1, -1), self.weight_1).relu_()
        hidden = torch.baddbmm(self.bias_2, hidden, self.weight_2).relu_()
        return torch.baddbmm(self.bias_3, hidden, self.weight_3).squeeze(2)

    def first(self, inputs: Tensor) -> Tensor:
        """The first critic's values alone, shaped (rows,)."""
        hidden = torch.addmm(self.bias_1[0], inputs, self.weight_1[0]).relu_()
        hidden = torch.addmm(self.bias_2[0], hidden, self.weight_2[0]).relu_()
        return torch.addmm(self.bias_3[0], hidden, self.weight_3[0]).squeeze(1)


def twin_layer(inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight and bias of a layer for both critics, drawn as `nn.Linear` draws them."""
    bound = 1 / math.sqrt(inputs)
    shapes = (2, inputs, outputs), (2, 1, outputs)
    weight, bias = (nn.Parameter(torch.empty(shape).uniform_(-bound, bound)) for shape in shapes)
    return weight, bias


def as_vector(module: nn.Module) -> Tensor:
    """All parameters of a module as one vector; they are views of it from here on."""
    parameters = list(module.parameters())
    vector = nn.utils.parameters_to_vector(parameters).detach()
    nn.utils.vector_to_parameters(vector, parameters)
    return vector


class Adam:
    """Adam on the parameters of a module, which lie in one vector.

    The kernel of `torch.optim.Adam(fused=True)` called directly: its bookkeeping takes longer than the arithmetic
    for networks this small, and its first use imports the compiler, which takes seconds.
    """

    PARTS = ("steps", "mean", "mean_square")

    def __init__(self, module: nn.Module, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.vector = as_vector(module)
        self.parameters = list(module.parameters())
        self.views = self.pieces(self.vector)
        self.steps = torch.zeros((), device=self.vector.device)
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.means, self.mean_squares = self.pieces(self.mean), self.pieces(self.mean_square)
        self.kernel_steps = [self.steps] * len(self.parameters)

    def pieces(self, vector: Tensor) -> list[Tensor]:
        """Views of a vector, one shaped like each parameter."""
        parts = vector.split([parameter.numel() for parameter in self.parameters])
        return [part.view_as(parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    def minimise(self, loss: Tensor) -> None:
        """One step down the gradient of a loss, of which only this module's part is computed."""
        self.descend(list(torch.autograd.grad(loss, self.parameters)))

    @torch.no_grad()
    def descend(self, gradients: list[Tensor]) -> None:
        self.steps += 1
        torch._fused_adam_(
            self.views,
            gradients,
            self.means,
            self.mean_squares,
            [],
            self.kernel_steps,
            lr=self.learning_rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


@dataclass
class Batch:
    """Transitions drawn from the replay memory; observation and action stand side by side, as critics want them."""

    observations: Tensor
    observations_and_actions: Tensor
    next_observations: Tensor
    rewards: Tensor
    terminated: Tensor


class Replay:
    """The last transitions, each one row: observation, action, next observation, reward, terminated."""

    PARTS = ("position", "kept")

    def __init__(self, capacity: int, observation_size: int, action_size: int) -> None:
        self.capacity = capacity
        self.widths = (observation_size, action_size, observation_size, 1, 1)
        self.rows = torch.empty(capacity, sum(self.widths))  # memory is taken only as it is filled
        self.array = self.rows.numpy()
        self.position, self.filled = 0, 0

    def add(self, *columns: NDArray[Any]) -> None:
        """Add one transition for each environment; columns in the order of a row, each (environments, width)."""
        at = (self.position + np.arange(len(columns[0]))) % self.capacity
        self.array[at] = np.concatenate(columns, axis=1, dtype=np.float32)
        self.position = (self.position + len(at)) % self.capacity
        self.filled = min(self.filled + len(at), self.capacity)

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw uniformly with replacement."""
        chosen = self.rows.index_select(0, torch.randint(self.filled, (count,))).to(device)
        size, actions = self.widths[0], self.widths[1]
        return Batch(
            observations=chosen[:, :size],
            observations_and_actions=chosen[:, : size + actions],
            next_observations=chosen[:, size + actions : -2],
            rewards=chosen[:, -2],
            terminated=chosen[:, -1],
        )

    @property
    def kept(self) -> Tensor:
        """The rows that a checkpoint keeps."""
        return self.rows[: self.filled]

    @kept.setter
    def kept(self, rows: Tensor) -> None:
        if len(rows) > self.capacity:
            raise ValueError(f"its replay buffer holds {len(rows)} transitions, this run's {self.capacity} at most")
        self.rows[: len(rows)] = rows
        self.filled = len(rows)


class Learner:
    """The networks, their target networks and one gradient step."""

    def __init__(self, observation_size: int, actions: gym.spaces.Box, args: Args, device: torch.device) -> None:
        self.args, self.device = args, device
        self.actor = Actor(observation_size, actions).to(device)
        self.critics = Critics(observation_size + math.prod(actions.shape)).to(device)
        self.target_actor = Actor(observation_size, actions).to(device).requires_grad_(False)
        self.target_critics = Critics(observation_size + math.prod(actions.shape)).to(device).requires_grad_(False)
        self.actor_adam = Adam(self.actor, args.learning_rate)
        self.critic_adam = Adam(self.critics, args.learning_rate)
        self.target_actor_vector = as_vector(self.target_actor).copy_(self.actor_adam.vector)
        self.target_critic_vector = as_vector(self.target_critics).copy_(self.critic_adam.vector)
        self.low = self.actor.action_bias - self.actor.action_scale
        self.high = self.actor.action_bias + self.actor.action_scale
        self.updates = 0
        self.actor_loss = torch.zeros(())  # of the last update that was one, for the log

    def update(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """One step of the critics, every so often of the actor and the targets; (values, losses) of both critics."""
        values = self.critics(batch.observations_and_actions)
        losses = (values - self.targets(batch)).square().mean(dim=1)
        self.critic_adam.minimise(losses.sum())
        self.updates += 1
        if self.updates % self.args.policy_frequency == 0:
            acted = torch.cat((batch.observations, self.actor(batch.observations)), dim=1)
            actor_loss = -self.critics.first(acted).mean()
            self.actor_adam.minimise(actor_loss)
            self.actor_loss = actor_loss.detach()
            self.target_actor_vector.lerp_(self.actor_adam.vector, self.args.tau)
            self.target_critic_vector.lerp_(self.critic_adam.vector, self.args.tau)
        return values.detach(), losses.detach()

    @torch.no_grad()
    def targets(self, batch: Batch) -> Tensor:
        """What both critics should have said: reward and the discounted lesser value of a smoothed next action."""
        actions = self.target_actor(batch.next_observations)
        clip = self.args.noise_clip
        noise = torch.randn_like(actions).mul_(self.args.policy_noise).clamp_(-clip, clip)
        actions = actions.addcmul_(noise, self.actor.action_scale).clamp_(self.low, self.high)
        following = self.target_critics(torch.cat((batch.next_observations, actions), dim=1)).amin(dim=0)
        return torch.addcmul(batch.rewards, 1 - batch.terminated, following, value=self.args.gamma)

    def require_finite(self) -> None:
        """Raise FloatingPointError once a parameter is not a number any more; no checkpoint is written of that."""
        total = self.actor_adam.vector.sum() + self.critic_adam.vector.sum()
        if not math.isfinite(total.item()):
            raise FloatingPointError("The networks are no longer finite; a lower --learning-rate may help.")


class Player:
    """Steps the environments and remembers what happens."""

    PARTS = ("random", "global_step", "observation", "returns", "lengths")

    def __init__(self, envs: SyncVectorEnv, session: TrainingSession, replay: Replay, args: Args) -> None:
        self.envs, self.session, self.replay, self.args = envs, session, replay, args
        assert isinstance(envs.single_action_space, gym.spaces.Box)
        self.low = envs.single_action_space.low.reshape(-1)
        self.high = envs.single_action_space.high.reshape(-1)
        # Not the bare seed: the environments have that, and actions must not follow the draws they make.
        self.random = np.random.default_rng((args.seed, 1))
        self.global_step = 0
        first_observation, _ = envs.reset(seed=args.seed)
        self.observation = self._flat(first_observation)
        self.returns = np.zeros(envs.num_envs)
        self.lengths = np.zeros(envs.num_envs, dtype=np.int64)

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold."""
        self.observation = self._flat(self.envs.reset()[0])
        self.returns[:], self.lengths[:] = 0.0, 0

    def _flat(self, observation: NDArray[Any]) -> NDArray[np.float32]:
        return np.array(observation, dtype=np.float32).reshape(self.envs.num_envs, -1)

    def choose(self, actor: Actor) -> NDArray[np.float32]:
        """Random actions before learning starts, unless the networks are warm; then the actor's, with noise."""
        shape = (self.envs.num_envs, len(self.low))
        if self.global_step < self.args.learning_starts and self.args.warm_start is None:
            return self.random.uniform(self.low, self.high, shape).astype(np.float32)
        hidden_1, hidden_2, last = actor.arrays()
        hidden = np.maximum(self.observation @ hidden_1[0] + hidden_1[1], 0)
        hidden = np.maximum(hidden @ hidden_2[0] + hidden_2[1], 0)
        noise = self.random.standard_normal(shape, dtype=np.float32) * np.float32(self.args.exploration_noise)
        unit = np.tanh(hidden @ last[0] + last[1]) + noise
        middle, scale = (self.high + self.low) / 2, (self.high - self.low) / 2
        return np.clip(middle + scale * unit, self.low, self.high)

    def step(self, actor: Actor) -> None:
        """One step of every environment, each remembered with the observation that it truly led to."""
        envs = self.envs
        action = self.choose(actor)
        played = action.reshape(envs.action_space.shape or ())
        observation, reward, terminated, truncated, info = envs.step(played)
        self.global_step += envs.num_envs
        self.returns += reward
        self.lengths += 1
        following = self._flat(observation)
        led_to = following
        if "final_obs" in info:
            led_to = following.copy()
            self._end_episodes(led_to, terminated | truncated, info["final_obs"])
        self.replay.add(self.observation, action, led_to, reward[:, None], terminated[:, None])
        self.observation = following

    def _end_episodes(self, led_to: NDArray[np.float32], ended: NDArray[np.bool_], finals: NDArray[Any]) -> None:
        for env in np.flatnonzero(ended):
            led_to[env] = np.asarray(finals[env], dtype=np.float32).reshape(-1)
            logged = {"charts/episodic_return": self.returns[env], "charts/episodic_length": self.lengths[env]}
            self.session.scalars(self.global_step, logged)
            self.returns[env], self.lengths[env] = 0.0, 0


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
    assert isinstance(space, gym.spaces.Box) and envs.single_observation_space.shape is not None
    observation_size = math.prod(envs.single_observation_space.shape)
    learner = Learner(observation_size, space, args, device)
    replay = Replay(args.buffer_size, observation_size, math.prod(space.shape))
    player = Player(envs, session, replay, args)
    spaces = {"observation": describe_space(envs.single_observation_space), "action": describe_space(space)}

    state = TrainingState()
    state.module("actor", learner.actor)
    state.module("critics", learner.critics)
    state.module("target_actor", learner.target_actor)
    state.module("target_critics", learner.target_critics)
    state.attributes("actor_adam", learner.actor_adam, *Adam.PARTS)
    state.attributes("critic_adam", learner.critic_adam, *Adam.PARTS)
    state.attributes("learner", learner, "updates", "actor_loss")
    state.attributes("player", player, *Player.PARTS)
    if args.save_buffer:
        state.attributes("replay", replay, *Replay.PARTS)
    state.envs("envs", envs, player.restart)
    session.restore(state, args.resume, args.warm_start)
    resumed_at = saved_at = player.global_step

    def save(*, required: bool) -> int:
        learner.require_finite()
        session.save_checkpoint(player.global_step, *state.capture(), spaces, required=required)
        if args.save_buffer:
            size = replay.kept.nbytes / 1e6
            print(f"The checkpoint at step {player.global_step:,} holds {replay.filled:,} transitions, {size:,.1f} MB.")
        return player.global_step

    steps = math.ceil(args.total_timesteps / args.num_envs) * args.num_envs
    enough = min(args.learning_starts + 1, args.buffer_size)
    if args.learning_starts >= steps:
        said = f"Nothing will be learned: --learning-starts is {args.learning_starts:,}, the run ends before"
        print(f"{said}; --learning-starts {steps // 20} would do.")
    session.record(envs)
    session.begin(steps)
    while player.global_step < steps:
        session.safe_point(player.global_step)
        if session.stop_requested:
            break
        player.step(learner.actor)
        if replay.filled >= enough:
            for _ in range(args.num_envs):
                values, losses = learner.update(replay.sample(args.batch_size, device))
            if player.global_step % LOG_EVERY < args.num_envs:
                learner.require_finite()
                sps = (player.global_step - resumed_at) / session.seconds_running
                session.scalars(player.global_step, to_log(values, losses, learner) | {"charts/SPS": sps})
        if session.checkpoint_requested or 0 < args.checkpoint_every <= player.global_step - saved_at:
            saved_at = save(required=False)
    if saved_at < player.global_step or player.global_step == 0:
        save(required=True)


def to_log(values: Tensor, losses: Tensor, learner: Learner) -> dict[str, float]:
    (value_1, value_2), (loss_1, loss_2) = values.mean(dim=1).tolist(), losses.tolist()
    return {
        "losses/qf1_values": value_1,
        "losses/qf2_values": value_2,
        "losses/qf1_loss": loss_1,
        "losses/qf2_loss": loss_2,
        "losses/qf_loss": (loss_1 + loss_2) / 2,
        "losses/actor_loss": learner.actor_loss.item(),
    }


class TrainedActor:
    """The actor of a checkpoint, choosing actions; sampled means: with the noise that explored in training."""

    def __init__(self, actor: Actor, action_shape: list[int], noise: float) -> None:
        self.layers, self.action_shape, self.noise = actor.arrays(), action_shape, np.float32(noise)
        self.scale, self.middle = actor.action_scale.numpy(), actor.action_bias.numpy()

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[Any]:
        hidden_1, hidden_2, last = self.layers
        hidden = np.maximum(flat_rows(observations) @ hidden_1[0] + hidden_1[1], 0)
        hidden = np.maximum(hidden @ hidden_2[0] + hidden_2[1], 0)
        unit = np.tanh(hidden @ last[0] + last[1])
        if not deterministic:
            unit = (unit + self.noise * random.standard_normal(unit.shape, dtype=np.float32)).clip(-1, 1)
        return (self.middle + self.scale * unit).reshape(len(observations), *self.action_shape)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    # Any range will do: the true one is among the tensors.
    actor = Actor(math.prod(observation["shape"]), gym.spaces.Box(-1, 1, tuple(action["shape"])))
    fill(actor, "actor", checkpoint)
    return TrainedActor(actor, action["shape"], args.exploration_noise)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    try:
        args = parse(Args, "Train with TD3 on an environment with continuous actions.")
        check(args)
        with closing(make_envs(args)) as envs, TrainingSession.open(dataclasses.asdict(args), ALGORITHM) as session:
            train(args, envs, session)
    except UsageError as error:
        print(f"{ALGORITHM}: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"{ALGORITHM}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
