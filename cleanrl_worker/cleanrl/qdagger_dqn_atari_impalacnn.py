"""QDagger (Agarwal et al., 2022): a DQN student that begins with what a teacher can do, in one file.

    python cleanrl_worker/cleanrl/qdagger_dqn_atari_impalacnn.py --env-id BreakoutNoFrameskip-v4 \
        --teacher-policy dqn_atari.cleanrl_model

Flag names, defaults and TensorBoard tags are CleanRL's; only the teacher is a file or directory of yours instead of a
repository on a hub. A run goes through five stages: the teacher's return is measured; the teacher plays to fill a
buffer; the student learns from that buffer without playing; the student's return is measured; the student plays and
learns from its own steps. In both learning stages a loss that draws the student's policy to the teacher's is added to
DQN's, and in the last one its weight falls as the student's return comes near the teacher's.

Steps count all the work: the teacher's, then gradient steps without playing, then the student's. Besides Atari's games,
any environment with discrete actions will do whose observations are pictures of at least 10x10, for which the student
is IMPALA's network, or vectors, for which it is the small network of dqn.py.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker import checkpoints
from cleanrl_worker.arguments import parse
from cleanrl_worker.atari import AtariEvaluation, AtariGame, UnknownGameError, is_atari_name
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.environments import make_env
from cleanrl_worker.game_camera import Camera
from cleanrl_worker.plain_state import decode
from cleanrl_worker.policies import Policy, fill, now_and_then_at_random
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState

ALGO = "qdagger_dqn_atari_impalacnn"


@dataclass
class Args:
    exp_name: str = ALGO
    """Name of the experiment, part of the run directory's name."""
    seed: int = 1
    """Seed of environments, networks and sampling; the same seed gives the same run."""
    torch_deterministic: bool = True
    """Ask cuDNN for deterministic kernels."""
    cuda: bool = False
    """Train on the GPU, which for pictures is many times faster."""
    track: bool = False
    """Send the run to Weights & Biases; without a key it is kept on disk, to be sent later."""
    wandb_project_name: str = "cleanRL"
    """Project that a tracked run belongs to."""
    wandb_entity: str | None = None
    """Team or user that owns the project of a tracked run."""
    capture_video: bool = False
    """Record short videos of the first environment."""
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the network."""
    upload_model: bool = False
    """Send the network to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that an uploaded network would belong to."""

    env_id: str = "BreakoutNoFrameskip-v4"
    """An Atari game, or the Gymnasium id of an environment with discrete actions and pictures or vectors."""
    total_timesteps: int = 10_000_000
    """Steps that the student plays, after everything that it learns from the teacher's."""
    learning_rate: float = 1e-4
    """Step size of Adam."""
    num_envs: int = 1
    """Environments side by side; only one is supported."""
    buffer_size: int = 1_000_000
    """Observations that the replay buffer holds, each of them once."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    tau: float = 1.0
    """How much of the network the target network takes over at each of its updates; 1 copies it."""
    target_network_frequency: int = 1000
    """Steps between updates of the target network."""
    batch_size: int = 32
    """Transitions drawn from the buffer for each gradient step."""
    start_e: float = 1.0
    """Share of random actions at the start."""
    end_e: float = 0.01
    """Share of random actions once exploration has been lowered."""
    exploration_fraction: float = 0.10
    """Part of the student's steps over which the share of random actions falls from start-e to end-e."""
    learning_starts: int = 80_000
    """The student's steps that only fill the buffer, before it learns from them."""
    train_frequency: int = 4
    """The student's steps between gradient steps."""

    teacher_policy: str | None = None
    """The teacher: a checkpoint of dqn or of this script, or a CleanRL model file with a Q-network's state dict."""
    teacher_policy_hf_repo: str | None = None
    """A teacher on the Hugging Face Hub (not available in this version: download it and name the file)."""
    teacher_model_exp_name: str = "dqn_atari"
    """Understood for CleanRL's sake; the teacher's network is recognised from the shapes of its parameters."""
    teacher_eval_episodes: int = 10
    """Episodes over which the teacher's return, and later the student's, is measured."""
    teacher_steps: int = 500_000
    """Steps that the teacher plays to fill the buffer."""
    offline_steps: int = 500_000
    """Gradient steps on the teacher's buffer, before the student plays."""
    temperature: float = 1.0
    """Softness of both policies in the distillation loss; lower holds the student to the teacher's best actions."""

    torch_threads: int = 1
    """CPU threads for PyTorch; for pictures, as many as there are idle cores pay off."""
    checkpoint_every: int = 100_000
    """Steps between checkpoints; 0 writes only the one at the end."""
    checkpoint_keep: int = 3
    """Newest checkpoints to keep besides the best one; 0 keeps all."""
    save_buffer: bool = True
    """Keep the replay buffer in checkpoints; without it a resumed run fills it anew."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts anew."""


COUNTS = (
    "total_timesteps",
    "buffer_size",
    "target_network_frequency",
    "batch_size",
    "train_frequency",
    "teacher_eval_episodes",
    "teacher_steps",
    "torch_threads",
)
NOT_NEGATIVE = ("seed", "learning_starts", "offline_steps", "checkpoint_every", "checkpoint_keep")
POSITIVE = ("learning_rate", "temperature")
FRACTIONS = ("gamma", "tau", "start_e", "end_e", "exploration_fraction")
SMALLEST_BUFFER = 16
SMALLEST_PICTURE = 10  # pixels of a side
RECENT = 10  # episodes of the student that the weight of the distillation depends on
LOG_EVERY = 100  # steps
SAY_EVERY = 10.0  # seconds


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    for name, value in dataclasses.asdict(args).items():
        flag = "--" + name.replace("_", "-")
        if name in COUNTS:
            require(value >= 1, f"{flag} must be at least 1, got {value}.")
        elif name in NOT_NEGATIVE:
            require(value >= 0, f"{flag} must be 0 or more, got {value}.")
        elif name in POSITIVE:
            require(0 < value < math.inf, f"{flag} must be more than 0, got {value}.")
        elif name in FRACTIONS:
            require(0 <= value <= 1, f"{flag} must be from 0 to 1, got {value}.")
    require(args.end_e <= args.start_e, f"--end-e must be at most start-e ({args.start_e}), got {args.end_e}.")
    require(args.num_envs == 1, f"--num-envs must be 1: QDagger's student plays one environment, got {args.num_envs}.")
    least = f"--buffer-size must be at least {SMALLEST_BUFFER}"
    require(args.buffer_size >= SMALLEST_BUFFER, f"{least}, got {args.buffer_size}.")
    require(not args.upload_model, "--upload-model is not available in this version; leave it out.")
    require(
        args.teacher_policy_hf_repo is None,
        "--teacher-policy-hf-repo is not available in this version; download the model and name its file with "
        "--teacher-policy.",
    )
    require(
        not args.cuda or torch.cuda.is_available(),
        "--cuda was asked for, but PyTorch finds no CUDA device; leave it out to train on the CPU.",
    )


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UsageError(sentence)


# --- the environment ---------------------------------------------------------------------------------------


class Step(NamedTuple):
    """What one step brought."""

    observation: NDArray[Any]
    reward: float
    """What is learned from; Atari's rewards are clipped to -1, 0 and 1."""
    terminated: bool
    truncated: bool
    finished: tuple[float, int] | None
    """(return, length) of a whole episode or game that ended with this step."""


class AtariTask:
    """An Atari game in which a lost life ends the episode that is learned from, but not the game."""

    stack = 4

    def __init__(self, env_id: str, seed: int, *, record: bool) -> None:
        self.game = AtariGame(env_id, episodic_life=True)
        self.camera = Camera(self.game.colours) if record else None
        self.envs = self.camera.envs if self.camera is not None else []
        self.game.seed(seed)
        self.action_space = gym.spaces.Discrete(self.game.action_count)
        self.observation_space = gym.spaces.Box(0, 255, self.game.stack.shape, np.uint8)

    def reset(self) -> NDArray[Any]:
        """The first observation of the next life, or of a new game."""
        return self.game.reset().copy()

    def restart(self) -> NDArray[Any]:
        self.game.abandon()
        return self.reset()

    def step(self, action: int) -> Step:
        found = self.game.step(action)
        finished = (self.game.score, self.game.frames) if found.game_over else None
        if self.camera is not None:
            self.camera.follow(game_over=found.game_over)
        reward = float(np.sign(found.reward))
        return Step(self.game.stack.copy(), reward, found.terminated, found.truncated, finished)

    def keep(self, state: TrainingState) -> None:
        state.attributes("game", self.game, "snapshot")

    def close(self) -> None:
        if self.camera is not None:
            self.camera.close()


class GymTask:
    """Any other environment."""

    stack = 1

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        self.envs = [env]
        self.action_space, self.observation_space = env.action_space, env.observation_space
        self.total, self.length = 0.0, 0
        self._seed: int | None = seed

    def reset(self) -> NDArray[Any]:
        observation, _ = self.envs[0].reset(seed=self._seed)
        self._seed, self.total, self.length = None, 0.0, 0
        return np.array(observation)

    restart = reset

    def step(self, action: int) -> Step:
        assert isinstance(self.action_space, gym.spaces.Discrete)
        taken = action + int(self.action_space.start)
        observation, reward, terminated, truncated, _ = self.envs[0].step(taken)
        self.total += float(reward)
        self.length += 1
        finished = (self.total, self.length) if terminated or truncated else None
        return Step(np.array(observation), float(reward), terminated, truncated, finished)

    def keep(self, state: TrainingState) -> None:
        state.envs("envs", self)

    def close(self) -> None:
        self.envs[0].close()


Task = AtariTask | GymTask


INSTALL = "python -m cleanrl_worker.tools.install_extras --set atari"


@contextmanager
def atari_made_plain(env_id: str) -> Iterator[None]:
    """What keeps an Atari game from being made, as a UsageError."""
    try:
        import cv2  # noqa: F401 - needed with the first picture

        yield
    except ImportError as error:
        raise UsageError(f"{env_id} needs the atari extra ({error}). Install it with: {INSTALL}") from error
    except UnknownGameError as error:
        sentence = str(error)
        raise UsageError(sentence[:1].upper() + sentence[1:]) from error


def make_task(args: Args) -> Task:
    """The environment, checked for what this algorithm can handle. Raises UsageError."""
    if is_atari_name(args.env_id):
        with atari_made_plain(args.env_id):
            return AtariTask(args.env_id, args.seed, record=args.capture_video)
    env = make_env(args.env_id, record=args.capture_video)
    action_space, space = env.action_space, env.observation_space
    others = "sac_continuous_action, td3_continuous_action or ppo_continuous_action"
    require(
        isinstance(action_space, gym.spaces.Discrete),
        f"{ALGO} needs a discrete action space; {args.env_id} has {brief(action_space)}. Try {others}.",
    )
    fits = isinstance(space, gym.spaces.Box) and (len(space.shape) == 1 or is_picture(space.shape))
    least = f"{SMALLEST_PICTURE}x{SMALLEST_PICTURE}"
    require(fits, f"{ALGO} needs vectors or pictures of at least {least} to look at; {args.env_id} has {brief(space)}.")
    return GymTask(env, args.seed)


def brief(space: gym.Space[Any]) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment with what training shows and true rewards; a whole game is one episode. Raises UsageError."""
    if is_atari_name(args.env_id):
        with atari_made_plain(args.env_id):
            return AtariEvaluation(args.env_id, render_mode)
    return make_env(args.env_id, render_mode=render_mode)


# --- networks ----------------------------------------------------------------------------------------------


def is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) in (2, 3) and min(picture_size(shape)[1:]) >= SMALLEST_PICTURE


def channels_are_last(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[2] < shape[0]


def picture_size(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of observations with their channels first, last, or without any."""
    if len(shape) == 2:
        return 1, *shape
    first, second, third = shape
    return (third, first, second) if channels_are_last(shape) else (first, second, third)


def as_pictures(observations: Tensor) -> Tensor:
    """A batch of observations as (batch, channels, height, width) numbers."""
    shape = tuple(observations.shape[1:])
    if len(shape) == 2:
        observations = observations.unsqueeze(1)
    elif channels_are_last(shape):
        observations = observations.permute(0, 3, 1, 2)
    # Channels last in memory: the same sums in half the time on a CPU.
    return observations.to(torch.float32, memory_format=torch.channels_last)


class Residual(nn.Module):
    """Two convolutions whose result is added to what enters."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, pictures: Tensor) -> Tensor:
        return pictures + self.second(F.relu(self.first(F.relu(pictures))))


def impala_network(size: tuple[int, int, int], outputs: int) -> nn.Sequential:
    """The convolutional network of IMPALA (Espeholt et al., 2018)."""
    channels, height, width = size
    layers: list[nn.Module] = []
    for depth in (16, 32, 32):
        layers += [nn.Conv2d(channels, depth, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(depth), Residual(depth)]
        channels, height, width = depth, (height + 1) // 2, (width + 1) // 2
    flat = channels * height * width
    return nn.Sequential(*layers, nn.Flatten(), nn.ReLU(), nn.Linear(flat, 256), nn.ReLU(), nn.Linear(256, outputs))


def vector_network(sizes: list[int]) -> nn.Sequential:
    """Linear layers of these sizes with rectified units between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class QNetwork(nn.Module):
    """The student: the value of each action, from a picture or a vector."""

    scale: Tensor

    def __init__(self, observation_shape: tuple[int, ...], action_count: int, largest: float = 1.0) -> None:
        """`largest` is what the brightest pixel is divided by."""
        super().__init__()
        self.of_pictures = len(observation_shape) > 1
        if self.of_pictures:
            self.network = impala_network(picture_size(observation_shape), action_count)
        else:
            self.network = vector_network([*observation_shape, 120, 84, action_count])
        self.register_buffer("scale", torch.tensor(largest))

    def forward(self, observations: Tensor) -> Tensor:
        if self.of_pictures:
            return self.network(as_pictures(observations) / self.scale)
        return self.network(observations.float())


def largest_of(space: gym.spaces.Box) -> float:
    """What pictures of this space are divided by, so that they reach from 0 to 1; 1 where there is no limit."""
    largest = float(np.max(space.high))
    return largest if space.dtype == np.uint8 and largest > 1 else 1.0


class QPolicy:
    """A trained student's choice of actions."""

    def __init__(self, network: QNetwork, epsilon: float, action_count: int, first_action: int) -> None:
        self.network, self.epsilon = network, epsilon
        self.action_count, self.first_action = action_count, first_action

    @torch.no_grad()
    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        """The best actions; unless `deterministic`, a share of end-e of them is random."""
        best = self.network(torch.from_numpy(np.asarray(observations))).argmax(dim=1).numpy()
        if not deterministic:
            best = now_and_then_at_random(best, self.epsilon, self.action_count, random)
        return self.first_action + best


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    network = QNetwork(tuple(observation["shape"]), action["n"]).requires_grad_(False)
    fill(network, "q_network", checkpoint)
    return QPolicy(network, args.end_e, action["n"], action["start"])


def part_of(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


# --- the teacher -------------------------------------------------------------------------------------------


class TeacherNetwork(nn.Module):
    """A network that was recognised; `scaled` ones look at pictures from 0 to 1, others at the bare numbers."""

    def __init__(self, network: nn.Sequential, of_pictures: bool) -> None:
        super().__init__()
        self.network, self.of_pictures = network, of_pictures

    def forward(self, observations: Tensor) -> Tensor:
        if self.of_pictures:
            return self.network(as_pictures(observations) / 255)
        return self.network(observations.flatten(1).float())


class Teacher:
    """The teacher's network and, as a checkpoint keeps them, its parameters."""

    def __init__(self, network: nn.Module, tensors: dict[str, Tensor]) -> None:
        self.network, self.tensors = network.requires_grad_(False), tensors


def find_teacher(args: Args, task: Task) -> Teacher:
    """The teacher of this run; a resumed run has it in its checkpoint. Raises UsageError."""
    if args.resume:
        tensors, name = kept_teacher(Path(args.resume)), args.resume
    else:
        require(
            args.teacher_policy is not None,
            "--teacher-policy is needed: a checkpoint of dqn or of this script, or a CleanRL model file.",
        )
        assert args.teacher_policy is not None
        name = args.teacher_policy
        tensors = read_teacher(Path(name), args.env_id)
    assert isinstance(task.action_space, gym.spaces.Discrete)
    assert isinstance(task.observation_space, gym.spaces.Box)
    try:
        return Teacher(recognised(tensors, task.observation_space, int(task.action_space.n)), tensors)
    except ValueError as error:
        raise UsageError(f"{name} cannot teach {args.env_id}: {error}.") from error


def kept_teacher(path: Path) -> dict[str, Tensor]:
    try:
        found = checkpoints.load(path)
        kept = decode(found.manifest.state["teacher"]["tensors"], found.tensors)
    except CheckpointError as error:
        raise UsageError(str(error)) from error
    except KeyError as error:
        raise UsageError(f"{path} cannot be used: it was not written by {ALGO}") from error
    return dict(kept)


def read_teacher(path: Path, env_id: str) -> dict[str, Tensor]:
    """The parameters of a teacher's Q-network. Raises UsageError."""
    if path.is_dir():
        return teacher_of_checkpoint(path, env_id)
    if not path.is_file():
        what = "a checkpoint directory of dqn or of this script, or a CleanRL model file"
        raise UsageError(f"There is no teacher at {path}; --teacher-policy names {what}.")
    return teacher_of_file(path)


def teacher_of_checkpoint(path: Path, env_id: str) -> dict[str, Tensor]:
    try:
        found = checkpoints.load(path)
    except CheckpointError as error:
        raise UsageError(f"The teacher cannot be used: {error}") from error
    tensors = part_of(found.tensors, "q_network.")
    algo, learned = found.manifest.algo, found.manifest.env_id
    require(bool(tensors), f"{path} cannot be a teacher: it is a checkpoint of {algo}, which has no Q-network.")
    if learned != env_id:
        print(f"The teacher learned in {learned}; this run is in {env_id}.", flush=True)
    return tensors


def teacher_of_file(path: Path) -> dict[str, Tensor]:
    """A state dict from a file of CleanRL's; a file that would have to run code to be read is refused."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 - tensors only, never code
    except Exception as error:  # a foreign file can be wrong in any way
        reason = " ".join(str(error).split())[:160]
        raise UsageError(
            f"{path} cannot be a teacher: it holds more than tensors, or is damaged ({reason})."
        ) from error
    plain = isinstance(found, dict) and all(isinstance(value, Tensor) for value in found.values())
    require(plain and bool(found), f"{path} cannot be a teacher: it is not the state dict of one network.")
    return {str(name): tensor for name, tensor in found.items()}


def recognised(tensors: Mapping[str, Tensor], space: gym.spaces.Box, actions: int) -> nn.Module:
    """The network that these parameters belong to. Raises ValueError, a clause, when there is none that fits."""
    own = QNetwork(space.shape, actions, largest_of(space))
    if {name: t.shape for name, t in own.state_dict().items()} == {name: t.shape for name, t in tensors.items()}:
        own.load_state_dict(dict(tensors))
        return own
    names = sorted((name for name in tensors if name.endswith("weight")), key=_by_number)
    weights = [tensors[name] for name in names]
    ranks = [weight.dim() for weight in weights]
    if ranks and set(ranks) == {2}:
        network = TeacherNetwork(vector_network([weights[0].shape[1], *(len(weight) for weight in weights)]), False)
        given = weights[0].shape[1]
        if given != math.prod(space.shape):
            raise ValueError(f"its network looks at {given} numbers, there are {math.prod(space.shape)}")
    elif ranks == [4, 4, 4, 2, 2] and [weight.shape[2] for weight in weights[:3]] == [8, 4, 3]:
        network = TeacherNetwork(nature_network(weights, space), True)
    else:
        shapes = ", ".join("x".join(map(str, weight.shape)) for weight in weights[:6])
        raise ValueError(f"its network is of no kind known here (weights {shapes or 'missing'})")
    if len(weights[-1]) != actions:
        raise ValueError(f"its network values {len(weights[-1])} actions, there are {actions}")
    places = [index for index, layer in enumerate(network.network) if hasattr(layer, "weight")]
    load_in_order(network, dict(zip(names, places, strict=True)), tensors)
    return network


def _by_number(name: str) -> list[tuple[int, str]]:
    """network.10 comes after network.9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split(".")]


def nature_network(weights: list[Tensor], space: gym.spaces.Box) -> nn.Sequential:
    """The convolutional network of DQN's paper in Nature (Mnih et al., 2015)."""
    channels = picture_size(space.shape)[0] if is_picture(space.shape) else 0
    convolutions = [
        nn.Conv2d(weight.shape[1], len(weight), weight.shape[2], stride)
        for weight, stride in zip(weights[:3], (4, 2, 1), strict=True)
    ]
    if weights[0].shape[1] != channels:
        raise ValueError(f"its network looks at {weights[0].shape[1]} pictures, there are {channels}")
    linear = [nn.Linear(weight.shape[1], len(weight)) for weight in weights[3:]]
    network = nn.Sequential(
        *(layer for convolution in convolutions for layer in (convolution, nn.ReLU())),
        nn.Flatten(),
        linear[0],
        nn.ReLU(),
        linear[1],
    )
    try:
        network(torch.zeros(1, *picture_size(space.shape)))
    except RuntimeError as error:
        raise ValueError(f"its network is not made for pictures of {space.shape}") from error
    return network


def load_in_order(network: TeacherNetwork, places: dict[str, int], tensors: Mapping[str, Tensor]) -> None:
    """Give each layer the parameters that lie under a name; raises ValueError when they do not fit."""
    wanted = {}
    for name, place in places.items():
        bias = name.removesuffix("weight") + "bias"
        if bias not in tensors:
            raise ValueError(f"its {bias} is missing")
        wanted[f"network.{place}.weight"], wanted[f"network.{place}.bias"] = tensors[name], tensors[bias]
    try:
        network.load_state_dict(wanted)
    except RuntimeError as error:
        raise ValueError("the layers of its network do not fit each other") from error


# --- the replay buffer -------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Transitions drawn from the buffer, one a row."""

    observations: Tensor
    next_observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor


def is_numeric(space: gym.spaces.Box) -> bool:
    """Whether observations need 4 bytes a number; those of bytes and truth values stay what they are."""
    return space.dtype not in (np.uint8, np.bool_)


class ReplayBuffer:
    """The newest steps, the pictures of each stored once; stacks are put together when they are drawn.

    A place holds the newest picture of an observation and what was done there. One place more per episode, at which
    nothing was done, holds what the episode ended in. The stack of an early step repeats its episode's first picture.
    """

    COLUMNS = ("frames", "actions", "rewards", "terminated", "acted", "age")

    def __init__(self, capacity: int, space: gym.spaces.Box, stack: int, saved: bool) -> None:
        self.capacity, self.stack, self.saved = capacity, stack, saved
        shape = space.shape[1:] if stack > 1 else space.shape
        kind = torch.float32 if is_numeric(space) else torch.from_numpy(np.zeros(0, dtype=space.dtype)).dtype
        self.frames = torch.zeros(capacity, *shape, dtype=kind)
        self.actions = torch.zeros(capacity, dtype=torch.int64)
        self.rewards, self.terminated = torch.zeros(2, capacity).unbind()
        self.acted = torch.zeros(capacity, dtype=torch.bool)
        self.age = torch.zeros(capacity, dtype=torch.int64)  # steps since the episode began
        self.position = self.filled = self.steps = 0

    def add(self, observation: NDArray[Any], action: int, reward: float, terminated: bool) -> None:
        """Store a step in place of the oldest."""
        self._put(observation, action, reward, terminated, acted=True)
        self.steps += 1

    def end(self, observation: NDArray[Any]) -> None:
        """Store what an episode ended in, or was left in; the next step begins another."""
        if self.steps:
            self._put(observation, 0, 0.0, False, acted=False)
            self.steps = 0

    def _put(self, observation: NDArray[Any], action: int, reward: float, terminated: bool, *, acted: bool) -> None:
        at = self.position
        self.frames[at] = torch.from_numpy(observation[-1] if self.stack > 1 else observation)
        self.actions[at], self.rewards[at], self.terminated[at] = action, reward, terminated
        self.acted[at], self.age[at] = acted, self.steps
        self.position = (at + 1) % self.capacity
        self.filled = min(self.filled + 1, self.capacity)

    def clear(self) -> None:
        self.position = self.filled = self.steps = 0

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw steps, each as likely as any other, with replacement. At least one must have a successor."""
        chosen = torch.randint(self.filled, (count,))
        while len(wrong := (~self._usable(chosen)).nonzero().squeeze(1)):
            chosen[wrong] = torch.randint(self.filled, (len(wrong),))
        age = self.age[chosen]
        return Batch(
            self._stacks(chosen, age).to(device),
            self._stacks((chosen + 1) % self.capacity, age + 1).to(device),
            self.actions[chosen].unsqueeze(1).to(device),
            self.rewards[chosen].to(device),
            self.terminated[chosen].to(device),
        )

    def _usable(self, places: Tensor) -> Tensor:
        """Whether a step was made there, its successor is known, and its stack has not been overwritten yet."""
        oldest = self.position if self.filled == self.capacity else 0
        since = (places - oldest) % self.capacity
        return self.acted[places] & (since < self.filled - 1) & (since >= self.age[places].clamp(max=self.stack - 1))

    def _stacks(self, places: Tensor, age: Tensor) -> Tensor:
        if self.stack == 1:
            return self.frames[places]
        back = torch.minimum(torch.arange(self.stack - 1, -1, -1), age.unsqueeze(1))
        return self.frames[(places.unsqueeze(1) - back) % self.capacity]

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no places unless they are to be saved."""
        kept = self.filled if self.saved else 0
        columns = {name: getattr(self, name)[:kept] for name in self.COLUMNS}
        steps = self.steps if kept else 0
        return {"capacity": self.capacity, "position": self.position if kept else 0, "steps": steps, **columns}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        full = len(kept["frames"]) == kept["capacity"]  # then the oldest lies amid the others
        if kept["capacity"] != self.capacity and (full or len(kept["frames"]) > self.capacity):
            sizes = f"{kept['capacity']:,} observations, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size and all steps as they were")
        self.position, self.filled, self.steps = kept["position"] % self.capacity, len(kept["frames"]), kept["steps"]
        for name in self.COLUMNS:
            getattr(self, name)[: self.filled] = kept[name]

    def __str__(self) -> str:
        megabytes = sum(getattr(self, name)[: self.filled].nbytes for name in self.COLUMNS) / 1e6
        return f"{self.filled:,} observations, {megabytes:,.1f} MB"


def make_buffer(args: Args, task: Task) -> ReplayBuffer:
    """One buffer for the teacher's steps and later the student's. Raises UsageError when memory is too small."""
    space = task.observation_space
    assert isinstance(space, gym.spaces.Box)
    longest = max(args.teacher_steps, args.total_timesteps)
    capacity = max(SMALLEST_BUFFER, min(args.buffer_size, 2 * longest))  # at worst every step ends an episode
    needed = capacity * (math.prod(space.shape) // task.stack * (4 if is_numeric(space) else 1) + 25)
    if needed > (free := free_memory()):
        sizes = (
            f"{capacity:,} observations takes {needed / 1e9:.1f} GB of memory, of which {free / 1e9:.1f} GB are free"
        )
        raise UsageError(f"A replay buffer of {sizes}; lower --buffer-size.")
    if needed > 1e9:
        print(f"The replay buffer takes up to {needed / 1e9:.1f} GB of memory, filled as it goes.", flush=True)
    return ReplayBuffer(capacity, space, task.stack, args.save_buffer)


def free_memory() -> float:
    """Bytes that this machine can still give; infinite where it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return math.inf
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024


# --- playing and learning ----------------------------------------------------------------------------------


class Player:
    """Plays the environment, with the teacher's network or the student's."""

    PARTS = ("random", "observation")

    def __init__(self, task: Task, device: torch.device, seed: int) -> None:
        assert isinstance(task.action_space, gym.spaces.Discrete)
        self.task, self.device, self.action_count = task, device, int(task.action_space.n)
        self.random = np.random.default_rng((seed, 1))  # not the stream that seeds the environment
        self.observation = task.reset()

    @torch.no_grad()
    def step(self, network: nn.Module, epsilon: float, buffer: ReplayBuffer | None = None) -> Step:
        """Act once, at random with probability `epsilon`, and store what happened."""
        if self.random.random() < epsilon:
            action = int(self.random.integers(self.action_count))
        else:
            action = int(network(torch.from_numpy(self.observation).unsqueeze(0).to(self.device)).argmax())
        found = self.task.step(action)
        if buffer is not None:
            buffer.add(self.observation, action, found.reward, found.terminated)
        self.observation = found.observation
        if found.terminated or found.truncated:
            if buffer is not None:
                buffer.end(found.observation)
            self.observation = self.task.reset()
        return found

    def restart(self, buffer: ReplayBuffer) -> None:
        """Leave the running episode for a new one."""
        buffer.end(self.observation)
        self.observation = self.task.restart()


def exploration(args: Args, step: int, duration: float) -> float:
    """The share of random actions: falls linearly from start_e to end_e over `duration` steps, then stays."""
    return args.end_e if step >= duration else args.start_e + step / duration * (args.end_e - args.start_e)


def distillation_weight(student: float, teacher: float) -> float:
    """1 for a student that is far from its teacher's return, falling to 0 when it gets there.

    The paper's max(1 - student / teacher, 0) speaks of positive returns. Here it is also held to 1 for a student below
    zero, and where the teacher is below zero as well, the ratio is turned over, so that it still falls to 0.
    """
    if student >= teacher:
        return 0.0
    if teacher > 0:
        return min(1 - student / teacher, 1.0)
    return 1 - teacher / student


def targets_of(rewards: Tensor, terminated: Tensor, next_values: Tensor, gamma: float) -> Tensor:
    """What the chosen actions should have been worth; a terminated episode has no future."""
    return rewards + gamma * (1 - terminated) * next_values.amax(dim=1)


def distillation_loss(values: Tensor, teacher_values: Tensor, temperature: float) -> Tensor:
    """How far the student's softmax policy is from the teacher's: KL(teacher, student), the mean over the batch.

    The mean is the expectation in the paper's objective; CleanRL takes the sum over the batch.
    """
    student = F.log_softmax(values / temperature, dim=1)
    teacher = F.log_softmax(teacher_values / temperature, dim=1)
    return (teacher.exp() * (teacher - student)).sum(dim=1).mean()


class Losses(NamedTuple):
    total: Tensor
    td: Tensor
    distillation: Tensor
    values: Tensor


class Learner:
    """Adam on all parameters laid out as one vector, as in ppo.py: `torch.optim` takes seconds to import."""

    PARTS = ("steps", "mean", "mean_square")

    def __init__(self, student: QNetwork, target: QNetwork, teacher: nn.Module, args: Args) -> None:
        self.student, self.target, self.teacher, self.args = student, target.requires_grad_(False), teacher, args
        parameters = list(student.parameters())
        self.vector = nn.utils.parameters_to_vector(parameters).detach()
        self.gradient = torch.zeros_like(self.vector)
        nn.utils.vector_to_parameters(self.vector, parameters)  # they are views of it from here on
        pieces = self.gradient.split([parameter.numel() for parameter in parameters])
        for parameter, piece in zip(parameters, pieces, strict=True):
            parameter.grad = piece.view_as(parameter)
        targets = list(target.parameters())
        self.target_vector = nn.utils.parameters_to_vector(targets).detach()
        nn.utils.vector_to_parameters(self.target_vector, targets)
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.follow(1.0)

    @torch.no_grad()
    def follow(self, tau: float) -> None:
        """Move the target network towards the student."""
        self.target_vector.lerp_(self.vector, tau)

    def step(self, batch: Batch, weight: float) -> Losses:
        """One gradient step on DQN's loss and, as far as it has weight, the distillation loss."""
        self.gradient.zero_()
        losses = self.losses(batch, weight)
        losses.total.backward()
        self._descend()
        return losses._replace(total=losses.total.detach())

    def losses(self, batch: Batch, weight: float) -> Losses:
        args = self.args
        with torch.no_grad():
            next_values = self.target(batch.next_observations)
            targets = targets_of(batch.rewards, batch.terminated, next_values, args.gamma)
        values = self.student(batch.observations)
        chosen = values.gather(1, batch.actions).squeeze(1)
        td = F.mse_loss(chosen, targets)
        distillation = torch.zeros(())
        if weight > 0:
            with torch.no_grad():
                teacher_values = self.teacher(batch.observations)
            distillation = distillation_loss(values, teacher_values, args.temperature)
        return Losses(td + weight * distillation, td.detach(), distillation.detach(), chosen.detach().mean())

    @torch.no_grad()
    def _descend(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        root = self.mean_square.sqrt().div_(math.sqrt(1 - beta_2**self.steps)).add_(epsilon)
        self.vector.addcdiv_(self.mean, root, value=-self.args.learning_rate / (1 - beta_1**self.steps))

    def require_finite(self) -> None:
        """Raise FloatingPointError when the student is lost."""
        if not self.vector.isfinite().all():
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")


@dataclass
class Progress:
    """How far the run has come; a resumed run goes on in the stage and at the step it was stopped in."""

    PARTS = ("stage", "teacher", "offline", "online", "returns", "teacher_return", "recent")

    stage: int = 0
    teacher: int = 0
    offline: int = 0
    online: int = 0
    returns: list[float] = field(default_factory=list)  # of the measurement that is going on
    teacher_return: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def step(self) -> int:
        return self.teacher + self.offline + self.online


class Stages:
    """The five stages of a run. Each goes on where it was left, and returns False when it must be left again."""

    def __init__(
        self, args: Args, player: Player, buffer: ReplayBuffer, learner: Learner, session: TrainingSession
    ) -> None:
        self.args, self.player, self.buffer, self.learner, self.session = args, player, buffer, learner, session
        self.progress = Progress()
        self.may_go_on: Callable[[], bool] = lambda: True
        self.resumed_at = 0
        self._said_at = time.monotonic()
        self.all = (
            ("Measuring the teacher's return", self.measure_teacher),
            ("The teacher plays to fill the buffer", self.fill),
            ("The student learns from the teacher's steps", self.learn_offline),
            ("Measuring the student's return", self.measure_student),
            ("The student plays and learns", self.learn_online),
        )

    def run(self) -> None:
        """Go through all stages, or until the run is to stop. The last one stays: a resumed run may add steps to it."""
        progress, last = self.progress, len(self.all) - 1
        while True:
            title, work = self.all[progress.stage]
            print(f"Stage {progress.stage + 1} of {len(self.all)}: {title}.", flush=True)
            if not work() or progress.stage == last:
                return
            self.learner.require_finite()
            progress.stage += 1
            progress.returns = []
            self.player.restart(self.buffer)
            if progress.stage == last:
                self.buffer.clear()

    def _going_on(self, done: int, total: int, what: str) -> bool:
        """Whether to go on; now and then also how far a stage is that may take long before it has a figure to log."""
        if time.monotonic() - self._said_at >= SAY_EVERY:
            self._said_at = time.monotonic()
            print(f"Stage {self.progress.stage + 1}: {done:,} of {total:,} {what}.", flush=True)
        return self.may_go_on()

    def measure_teacher(self) -> bool:
        if not self._measure(self.learner.teacher):
            return False
        self.progress.teacher_return = float(np.mean(self.progress.returns))
        self._tell_measured("teacher", self.progress.teacher_return)
        return True

    def measure_student(self) -> bool:
        if not self._measure(self.learner.student):
            return False
        self._tell_measured("offline", float(np.mean(self.progress.returns)))
        return True

    def _measure(self, network: nn.Module) -> bool:
        while (done := len(self.progress.returns)) < (total := self.args.teacher_eval_episodes):
            if not self._going_on(done, total, "episodes"):
                return False
            finished = self.player.step(network, self.args.end_e).finished
            if finished is not None:
                self.progress.returns.append(finished[0])
        return True

    def _tell_measured(self, who: str, mean: float) -> None:
        self.session.scalars(self.progress.step, {f"charts/{who}/avg_episodic_return": mean})
        print(f"Return: {mean:.2f} (mean of {len(self.progress.returns)} episodes).", flush=True)

    def fill(self) -> bool:
        args, progress = self.args, self.progress
        while progress.teacher < args.teacher_steps:
            if not self._going_on(progress.teacher, args.teacher_steps, "steps"):
                return False
            epsilon = exploration(args, progress.teacher, args.teacher_steps)
            finished = self.player.step(self.learner.teacher, epsilon, self.buffer).finished
            progress.teacher += 1
            if finished is not None:
                tags = ("episodic_return", "episodic_length", "epsilon")
                values = zip(tags, (*finished, epsilon), strict=True)
                self.session.scalars(progress.step, {f"charts/teacher/{tag}": value for tag, value in values})
        return True

    def learn_offline(self) -> bool:
        args, progress, learner = self.args, self.progress, self.learner
        while progress.offline < args.offline_steps:
            if not self._going_on(progress.offline, args.offline_steps, "gradient steps"):
                return False
            losses = learner.step(self.buffer.sample(args.batch_size, self.player.device), weight=1.0)
            progress.offline += 1
            if progress.offline % args.target_network_frequency == 0:
                learner.follow(args.tau)
            if progress.offline % LOG_EVERY == 0:
                learner.require_finite()
                tags = ("charts/offline/loss", "charts/offline/q_loss", "charts/offline/distill_loss")
                self.session.scalars(progress.step, dict(zip(tags, losses[:3], strict=True)))
        return True

    def learn_online(self) -> bool:
        args, progress = self.args, self.progress
        enough = min(args.learning_starts, self.buffer.capacity)  # counts after a resume without the buffer
        while progress.online < args.total_timesteps:
            if not self.may_go_on():
                return False
            epsilon = exploration(args, progress.online, args.exploration_fraction * args.total_timesteps)
            found = self.player.step(self.learner.student, epsilon, self.buffer)
            progress.online += 1
            if found.finished is not None:
                self._end_episode(*found.finished, epsilon)
            if progress.online > args.learning_starts and self.buffer.filled >= max(2, enough):
                self._learn()
        return True

    def _end_episode(self, total: float, length: int, epsilon: float) -> None:
        self.progress.recent.append(total)
        ended = {"charts/episodic_return": total, "charts/episodic_length": length, "charts/epsilon": epsilon}
        self.session.scalars(self.progress.step, ended)

    def _learn(self) -> None:
        args, progress = self.args, self.progress
        if progress.online % args.train_frequency == 0:
            weight = self.weight
            losses = self.learner.step(self.buffer.sample(args.batch_size, self.player.device), weight)
            if progress.online % LOG_EVERY < args.train_frequency:
                self._tell_losses(losses, weight)
        if progress.online % args.target_network_frequency == 0:
            self.learner.follow(args.tau)

    @property
    def weight(self) -> float:
        """The weight of the distillation loss, by the student's last episodes."""
        recent = self.progress.recent
        if len(recent) < RECENT:
            return 1.0
        return distillation_weight(float(np.mean(recent)), self.progress.teacher_return)

    def _tell_losses(self, losses: Losses, weight: float) -> None:
        self.learner.require_finite()
        values = {
            "losses/loss": losses.total.item(),
            "losses/td_loss": losses.td.item(),
            "losses/distill_loss": losses.distillation.item(),
            "losses/q_values": losses.values.item(),
            "charts/distill_coeff": weight,
            "charts/SPS": (self.progress.step - self.resumed_at) / self.session.seconds_running,
        }
        self.session.scalars(self.progress.step, values)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train(args: Args, task: Task, teacher: Teacher, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space, actions = task.observation_space, task.action_space
    assert isinstance(space, gym.spaces.Box) and isinstance(actions, gym.spaces.Discrete)
    student, target = (QNetwork(space.shape, int(actions.n), largest_of(space)).to(device) for _ in range(2))
    learner = Learner(student, target, teacher.network.to(device), args)
    buffer = make_buffer(args, task)
    player = Player(task, device, args.seed)
    stages = Stages(args, player, buffer, learner, session)
    progress = stages.progress
    spaces = {"observation": describe_space(space), "action": describe_space(actions)}
    saved_at = 0

    state = TrainingState()
    state.module("q_network", student)
    state.module("target_network", target)
    state.attributes("learner", learner, *Learner.PARTS)
    state.attributes("player", player, *Player.PARTS)
    state.attributes("progress", progress, *Progress.PARTS)
    state.attributes("buffer", buffer, "contents")
    state.attributes("teacher", teacher, "tensors")
    task.keep(state)

    def save(*, required: bool) -> None:
        nonlocal saved_at
        learner.require_finite()
        saved_at = progress.step
        session.save_checkpoint(saved_at, *state.capture(), spaces, required=required)
        if args.save_buffer:
            print(f"The checkpoint at step {saved_at:,} includes the replay buffer: {buffer}.", flush=True)

    def may_go_on() -> bool:
        """Hold while paused, save when that is due, and tell whether the run is to go on."""
        session.safe_point(progress.step)
        interval_over = 0 < args.checkpoint_every <= progress.step - saved_at
        if not session.stop_requested and (session.checkpoint_requested or interval_over):
            save(required=False)
        return not session.stop_requested

    session.restore(state, args.resume, args.warm_start)
    if args.resume:
        take_up(stages, checkpoints.read_manifest(Path(args.resume)).state)
    stages.may_go_on = may_go_on
    stages.resumed_at = saved_at = progress.step
    if args.learning_starts >= args.total_timesteps:
        told = f"--learning-starts is {args.learning_starts:,}, it plays {args.total_timesteps:,}"
        print(f"The student will learn nothing from its own steps: {told}.", flush=True)
    session.record(task)
    session.begin(args.teacher_steps + args.offline_steps + args.total_timesteps)
    stages.run()
    save(required=True)


def take_up(stages: Stages, kept: Mapping[str, Any]) -> None:
    """Go on as well as can be where a checkpoint does not hold everything: the buffer, the running episode."""
    progress = stages.progress
    if not stages.buffer.filled and progress.stage in (1, 2) and progress.teacher:
        print("The checkpoint holds no replay buffer: the teacher plays again to fill it.", flush=True)
        progress.stage, progress.teacher = 1, 0
    if not kept.get("envs", {"complete": True})["complete"]:
        print("The environment cannot be put back into its episode: it begins a new one.", flush=True)
        stages.player.restart(stages.buffer)


def main() -> int:
    try:
        args = parse(Args, "Train a DQN student with QDagger, from a teacher's policy.")
        check(args)
        with closing(make_task(args)) as task:
            teacher = find_teacher(args, task)
            with TrainingSession.open(dataclasses.asdict(args), ALGO) as session:
                train(args, task, teacher, session)
    except UsageError as error:
        print(f"{ALGO}: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"{ALGO}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
