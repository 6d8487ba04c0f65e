"""Categorical deep Q-learning (C51) for discrete actions, in one file.

    python cleanrl_worker/cleanrl/c51.py --env-id CartPole-v1 --total-timesteps 100000

Flag names, defaults and TensorBoard tags are CleanRL's. The network learns the distribution of each action's
return: probabilities of evenly spaced values, the atoms. An action is chosen in numpy on the parameters' own
memory, and the network is small enough for its backward pass to be written out: the gradients that autograd
would find, in less time. An episode that met a time limit is not treated as terminated: what may come after
the state it was cut off in still counts.
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cleanrl_worker.arguments import parse
from cleanrl_worker.checkpoints import Checkpoint, CheckpointError, describe_space
from cleanrl_worker.environments import make_env
from cleanrl_worker.policies import Policy, fill, flat_rows, now_and_then_at_random
from cleanrl_worker.session import TrainingSession, UsageError
from cleanrl_worker.training_state import TrainingState


@dataclass
class Args:
    exp_name: str = "c51"
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
    save_model: bool = False
    """Understood for CleanRL's sake; the last checkpoint always holds the network."""
    upload_model: bool = False
    """Send the network to the Hugging Face Hub (not available in this version)."""
    hf_entity: str = ""
    """User or organisation that an uploaded network would belong to."""

    env_id: str = "CartPole-v1"
    """Gymnasium id of an environment with discrete actions and box observations."""
    total_timesteps: int = 500_000
    """Environment steps in all, rounded up so that each environment makes the same number."""
    learning_rate: float = 2.5e-4
    """Step size of Adam."""
    num_envs: int = 1
    """How many environments are stepped side by side; all other flags still count single steps."""
    n_atoms: int = 101
    """How many values the distribution of a return is spread over."""
    v_min: float = -100.0
    """Lowest of these values; returns below it count as this."""
    v_max: float = 100.0
    """Highest of these values; returns above it count as this."""
    buffer_size: int = 10_000
    """Transitions that the replay buffer holds."""
    gamma: float = 0.99
    """Discount: what a reward is still worth one step later."""
    target_network_frequency: int = 500
    """Environment steps between updates of the target network."""
    batch_size: int = 128
    """Transitions drawn from the buffer for each gradient step."""
    start_e: float = 1.0
    """Share of random actions at the start."""
    end_e: float = 0.05
    """Share of random actions once exploration has been lowered."""
    exploration_fraction: float = 0.5
    """Part of the run over which the share of random actions falls from start-e to end-e."""
    learning_starts: int = 10_000
    """Environment steps that only fill the buffer, before the first gradient step."""
    train_frequency: int = 10
    """Environment steps between gradient steps."""

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
    """Checkpoint whose networks to begin with; everything else starts anew."""


COUNTS = (
    "total_timesteps",
    "num_envs",
    "buffer_size",
    "target_network_frequency",
    "batch_size",
    "train_frequency",
    "torch_threads",
)
NOT_NEGATIVE = ("seed", "learning_starts", "checkpoint_every", "checkpoint_keep")
POSITIVE = ("learning_rate",)
FRACTIONS = ("gamma", "start_e", "end_e", "exploration_fraction")
LOG_EVERY = 100  # environment steps


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
    require(args.n_atoms >= 2, f"--n-atoms must be at least 2, got {args.n_atoms}.")
    require(
        -math.inf < args.v_min < args.v_max < math.inf,
        f"--v-min must be less than v-max ({args.v_max}), got {args.v_min}.",
    )
    require(args.end_e <= args.start_e, f"--end-e must be at most start-e ({args.start_e}), got {args.end_e}.")
    require(not args.upload_model, "--upload-model is not available in this version; leave it out.")
    require(
        not args.cuda or torch.cuda.is_available(),
        "--cuda was asked for, but PyTorch finds no CUDA device; leave it out to train on the CPU.",
    )


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise UsageError(sentence)


class Environments:
    """Environments of one kind, stepped one by one: for a few, a vector environment costs more than it saves.

    Nothing is reset unasked, so the observation that an episode ended in cannot be mistaken for the first one
    of the next.
    """

    def __init__(self, envs: list[gym.Env[Any, Any]]) -> None:
        self.envs = envs
        self.single_action_space, self.single_observation_space = envs[0].action_space, envs[0].observation_space

    def close(self) -> None:
        for env in self.envs:
            env.close()


def make_envs(args: Args) -> Environments:
    """The environments, checked for what this algorithm can handle. Raises UsageError."""
    envs = Environments([make_env(args.env_id, record=args.capture_video and n == 0) for n in range(args.num_envs)])
    action_space, observation_space = envs.single_action_space, envs.single_observation_space
    others = "sac_continuous_action, td3_continuous_action or ppo_continuous_action"
    require(
        isinstance(action_space, gym.spaces.Discrete),
        f"c51 needs a discrete action space; {args.env_id} has {brief(action_space)}. Try {others}.",
    )
    require(
        isinstance(observation_space, gym.spaces.Box),
        f"c51 needs a Box observation space; {args.env_id} has {brief(observation_space)}.",
    )
    return envs


def brief(space: gym.Space[Any]) -> str:
    return f"Box{space.shape}" if isinstance(space, gym.spaces.Box) else str(space)


Layers = list[tuple[Tensor, Tensor]]
Arrays = list[tuple[NDArray[np.float32], NDArray[np.float32]]]


class QNetwork(nn.Module):
    """The distribution of each action's return, from two hidden layers of 120 and 84 rectified units.

    Its parameters lie in one vector and want no gradients of autograd: the learner finds them itself.
    """

    atoms: Tensor

    def __init__(self, observation_size: int, action_count: int, args: Args) -> None:
        super().__init__()
        outputs = action_count * args.n_atoms
        self.network = nn.Sequential(
            nn.Linear(observation_size, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs)
        ).requires_grad_(False)
        self.register_buffer("atoms", torch.linspace(args.v_min, args.v_max, args.n_atoms), persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Logits, shaped (observations, actions, atoms)."""
        return self.by_action(self.network(observations))

    def by_action(self, outputs: Tensor) -> Tensor:
        return outputs.view(len(outputs), -1, len(self.atoms))

    def as_vector(self) -> Tensor:
        """Lay the parameters out as one vector that they are views of from here on."""
        vector = nn.utils.parameters_to_vector(self.parameters())
        nn.utils.vector_to_parameters(vector, self.parameters())
        return vector

    def layers_in(self, vector: Tensor) -> Layers:
        """Views of a vector in the shapes of this network's (weight, bias) pairs."""
        parameters = list(self.parameters())
        pieces = vector.split([parameter.numel() for parameter in parameters])
        views = [piece.view_as(parameter) for piece, parameter in zip(pieces, parameters, strict=True)]
        return list(zip(views[::2], views[1::2], strict=True))

    def arrays(self) -> Arrays:
        """(transposed weight, bias) of each layer: views, where the parameters are in main memory."""
        arrays = [parameter.cpu().numpy() for parameter in self.parameters()]
        return [(weight.T, bias) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)]


class Batch(NamedTuple):
    """Transitions drawn from the buffer, one a row."""

    observations: Tensor
    next_observations: Tensor
    actions: Tensor
    rewards: Tensor
    terminated: Tensor


class ReplayBuffer:
    """The newest transitions, each packed into one row of a matrix so that a batch is a single gather.

    A row is: observation, next observation, action, reward, whether the episode terminated there.
    """

    def __init__(self, capacity: int, observation_size: int, saved: bool) -> None:
        self.capacity, self.size, self.saved = capacity, observation_size, saved
        self.rows = torch.zeros(capacity, 2 * observation_size + 3)
        self.array = self.rows.numpy()  # the same memory: single rows are written faster through numpy
        self.position = self.filled = 0

    def add(
        self, observation: NDArray[Any], following: NDArray[Any], action: int, reward: float, terminated: bool
    ) -> None:
        """Store one transition in place of the oldest."""
        row = self.array[self.position]
        row[: self.size] = observation
        row[self.size : -3] = following
        row[-3], row[-2], row[-1] = action, reward, terminated
        self.position += 1
        self.filled = max(self.filled, self.position)
        self.position %= self.capacity

    def sample(self, count: int, device: torch.device) -> Batch:
        """Draw rows, each as likely as any other, with replacement."""
        rows = self.rows.index_select(0, torch.randint(self.filled, (count,))).to(device)
        observations, next_observations = rows[:, : self.size], rows[:, self.size : -3]
        return Batch(observations, next_observations, rows[:, -3:-2].long(), rows[:, -2], rows[:, -1])

    @property
    def contents(self) -> dict[str, Any]:
        """What a checkpoint keeps; no rows unless they are to be saved."""
        kept = self.filled if self.saved else 0
        return {"capacity": self.capacity, "position": self.position if kept else 0, "rows": self.rows[:kept]}

    @contents.setter
    def contents(self, kept: dict[str, Any]) -> None:
        if kept["capacity"] != self.capacity:
            sizes = f"{kept['capacity']:,} transitions, this run's for {self.capacity:,}"
            raise ValueError(f"its replay buffer has room for {sizes}; leave --buffer-size as it was")
        self.position, self.filled = kept["position"], len(kept["rows"])
        self.rows[: self.filled] = kept["rows"]

    def __str__(self) -> str:
        megabytes = self.rows[: self.filled].nbytes / 1e6
        return f"{self.filled:,} transitions, {megabytes:.1f} MB"


class Collector:
    """Steps the environments and fills the buffer."""

    PARTS = ("random", "global_step", "observation", "returns", "lengths")

    def __init__(
        self, envs: Environments, session: TrainingSession, buffer: ReplayBuffer, atoms: Tensor, seed: int
    ) -> None:
        space = envs.single_action_space
        assert isinstance(space, gym.spaces.Discrete)
        self.action_count, self.first_action = int(space.n), int(space.start)
        self.envs, self.session, self.buffer = envs.envs, session, buffer
        self.atoms = atoms.cpu().numpy()
        self.random = np.random.default_rng((seed, 1))  # not the stream that seeds the first environment
        self.global_step = 0
        first_observations = [env.reset(seed=seed + number)[0] for number, env in enumerate(self.envs)]
        self.observation = np.array(first_observations, dtype=np.float32).reshape(len(self.envs), -1)
        self.returns, self.lengths = [0.0] * len(self.envs), [0] * len(self.envs)

    def restart(self) -> None:
        """Begin new episodes in environments whose state a checkpoint could not hold."""
        self.observation[:] = [np.asarray(env.reset()[0]).reshape(-1) for env in self.envs]
        self.returns, self.lengths = [0.0] * len(self.envs), [0] * len(self.envs)

    def step(self, layers: Arrays, epsilon: float) -> None:
        """Act once in every environment, at random with probability `epsilon`, and store what happened."""
        self.global_step += len(self.envs)
        for number, action in enumerate(self._choose(layers, epsilon)):
            env, observation = self.envs[number], self.observation[number]
            following, reward, terminated, truncated, _ = env.step(self.first_action + action)
            following = np.asarray(following).reshape(-1)
            self.buffer.add(observation, following, action, float(reward), terminated)
            self.returns[number] += float(reward)
            self.lengths[number] += 1
            if terminated or truncated:
                self._end_episode(number, epsilon)
                following = np.asarray(env.reset()[0]).reshape(-1)
            observation[:] = following

    def _choose(self, layers: Arrays, epsilon: float) -> list[int]:
        """An action for each environment, counted from 0."""
        draw = self.random.random
        greedy = -1
        actions = [int(draw() * self.action_count) if draw() < epsilon else greedy for _ in self.envs]
        if greedy in actions:
            best = best_actions(layers, self.atoms, self.observation).tolist()
            actions = [best[number] if action == greedy else action for number, action in enumerate(actions)]
        return actions

    def _end_episode(self, number: int, epsilon: float) -> None:
        ended = {
            "charts/episodic_return": self.returns[number],
            "charts/episodic_length": self.lengths[number],
            "charts/epsilon": epsilon,
        }
        self.session.scalars(self.global_step, ended)
        self.returns[number], self.lengths[number] = 0.0, 0


def best_actions(layers: Arrays, atoms: NDArray[np.float32], observation: NDArray[np.float32]) -> NDArray[np.int64]:
    """The action of highest mean return for each row."""
    hidden_1, hidden_2, last = layers
    hidden = np.maximum(observation @ hidden_1[0] + hidden_1[1], 0)
    hidden = np.maximum(hidden @ hidden_2[0] + hidden_2[1], 0)
    logits = (hidden @ last[0] + last[1]).reshape(len(observation), -1, len(atoms))
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return ((weights @ atoms) / weights.sum(axis=2)).argmax(axis=1)


def exploration(args: Args, step: int) -> float:
    """The share of random actions: falls linearly from start_e to end_e, then stays."""
    duration = args.exploration_fraction * args.total_timesteps
    if step >= duration:
        return args.end_e
    return args.start_e + step / duration * (args.end_e - args.start_e)


def multiples_passed(every: int, before: int, after: int) -> int:
    """How many multiples of `every` lie in (before, after]: what is due, however many steps one loop makes."""
    return after // every - before // every


def project(probabilities: Tensor, rewards: Tensor, terminated: Tensor, atoms: Tensor, gamma: float) -> Tensor:
    """The distribution of reward plus discounted return, put back onto the atoms.

    Each atom moves to where the reward takes it, or to the nearest end of their range, and its probability is
    shared between the two atoms around that place, the nearer one taking more. A terminated episode has no
    future: all of its probability moves to the reward.
    """
    last = len(atoms) - 1
    lowest, highest = atoms[0], atoms[-1]
    moved = torch.addcmul(rewards.unsqueeze(1), (1 - terminated).unsqueeze(1), atoms, value=gamma)
    places = moved.sub_(lowest).mul_(last / (highest - lowest)).clamp_(0, last)
    below = places.floor().clamp_(max=last - 1)
    to_above = places.sub_(below).mul_(probabilities)
    index = below.long()
    projected = torch.zeros_like(probabilities).scatter_add_(1, index, probabilities - to_above)
    return projected.scatter_add_(1, index.add_(1), to_above)


class Learner:
    """Gradient steps for a network whose parameters, gradients and moments are one vector each.

    Backward pass and Adam are written out: the bookkeeping of autograd and `torch.optim` takes longer than the
    arithmetic for networks this small.
    """

    PARTS = ("steps", "mean", "mean_square")

    def __init__(self, q_network: QNetwork, target_network: QNetwork, args: Args) -> None:
        self.args, self.q_network, self.target_network = args, q_network, target_network
        self.vector, self.target_vector = q_network.as_vector(), target_network.as_vector()
        self.layers = q_network.layers_in(self.vector)
        self.gradient = torch.zeros_like(self.vector)
        self.layer_gradients = q_network.layers_in(self.gradient)
        self.steps = 0
        self.mean, self.mean_square = torch.zeros_like(self.vector), torch.zeros_like(self.vector)
        self.follow()

    def follow(self) -> None:
        """Make the target network equal to the network."""
        self.target_vector.copy_(self.vector)

    def targets(self, batch: Batch) -> Tensor:
        """The distributions that the chosen actions should have had, by the target network."""
        probabilities = self.target_network(batch.next_observations).softmax(dim=2)
        atoms = self.q_network.atoms
        best = (probabilities @ atoms).argmax(dim=1)
        after_best = probabilities[torch.arange(len(best), device=best.device), best]
        return project(after_best, batch.rewards, batch.terminated, atoms, self.args.gamma)

    def step(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """One gradient step on the cross-entropy; returns (it, mean value of the chosen actions)."""
        targets = self.targets(batch)
        activations = self.activations(batch.observations)
        logits = self.q_network.by_action(activations[-1])
        chosen = torch.arange(len(logits), device=logits.device), batch.actions.squeeze(1)
        log_probabilities = logits[chosen].log_softmax(dim=1)
        probabilities = log_probabilities.exp()
        slopes = torch.zeros_like(logits)
        slopes[chosen] = (probabilities - targets).div_(len(logits))
        self.propagate(activations, slopes.view_as(activations[-1]))
        self.descend(epsilon=0.01 / self.args.batch_size)
        loss = -torch.vdot(targets.view(-1), log_probabilities.view(-1)) / len(logits)
        return loss, (probabilities @ self.q_network.atoms).mean()

    def activations(self, observations: Tensor) -> list[Tensor]:
        """What enters each layer, and last what leaves the network."""
        found = [observations]
        for weight, bias in self.layers:
            entering = found[-1].relu_() if len(found) > 1 else observations
            found.append(torch.addmm(bias, entering, weight.t()))
        return found

    def propagate(self, activations: list[Tensor], slopes: Tensor) -> None:
        """Fill the gradient, given the slope of the loss in each output of the network."""
        for number in reversed(range(len(self.layers))):
            entering = activations[number]
            weight_gradient, bias_gradient = self.layer_gradients[number]
            torch.mm(slopes.t(), entering, out=weight_gradient)
            torch.sum(slopes, dim=0, out=bias_gradient)
            if number:
                # A rectified unit passes its slope on where it is above zero: there its sign is 1.
                slopes = (slopes @ self.layers[number][0]).mul_(entering.sign())

    def descend(self, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-8) -> None:
        """Adam's step along the gradient that is there."""
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - beta_1)
        self.mean_square.mul_(beta_2).addcmul_(self.gradient, self.gradient, value=1 - beta_2)
        # Both corrections for the moments' start at zero go into the two scalars.
        correction = math.sqrt(1 - beta_2**self.steps)
        rate = self.args.learning_rate * correction / (1 - beta_1**self.steps)
        self.vector.addcdiv_(self.mean, self.mean_square.sqrt().add_(epsilon * correction), value=-rate)

    def require_finite(self) -> None:
        """Raise FloatingPointError when the network is lost."""
        if not self.vector.isfinite().all():
            raise FloatingPointError("The loss is no longer finite; a lower --learning-rate may help.")


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@np.errstate(over="ignore", invalid="ignore")  # a network that is lost is reported by the learner
def train(args: Args, envs: Environments, session: TrainingSession) -> None:
    torch.set_num_threads(args.torch_threads)
    torch.set_flush_denormal(True)  # moments of Adam that fade to almost nothing would slow everything down
    seed_everything(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    device = torch.device("cuda" if args.cuda else "cpu")
    space = envs.single_action_space
    assert isinstance(space, gym.spaces.Discrete) and envs.single_observation_space.shape is not None
    sizes = math.prod(envs.single_observation_space.shape), int(space.n)
    q_network, target_network = QNetwork(*sizes, args).to(device), QNetwork(*sizes, args).to(device)
    learner = Learner(q_network, target_network, args)
    buffer = ReplayBuffer(args.buffer_size, sizes[0], args.save_buffer)
    collector = Collector(envs, session, buffer, q_network.atoms, args.seed)
    spaces = {"observation": describe_space(envs.single_observation_space), "action": describe_space(space)}

    state = TrainingState()
    state.module("q_network", q_network)
    state.module("target_network", target_network)
    state.attributes("learner", learner, *Learner.PARTS)
    state.attributes("collector", collector, *Collector.PARTS)
    state.attributes("buffer", buffer, "contents")
    state.envs("envs", envs, collector.restart)
    session.restore(state, args.resume, args.warm_start)
    resumed_at = saved_at = collector.global_step

    def save(*, required: bool) -> int:
        learner.require_finite()
        step = collector.global_step
        session.save_checkpoint(step, *state.capture(), spaces, required=required)
        if args.save_buffer:
            print(f"The checkpoint at step {step:,} includes the replay buffer: {buffer}.", flush=True)
        return step

    steps = math.ceil(args.total_timesteps / args.num_envs) * args.num_envs
    rows_needed = min(args.learning_starts, buffer.capacity)  # counts after a resume without the buffer
    if args.learning_starts >= steps:
        print(f"Nothing will be learned: --learning-starts is {args.learning_starts:,}, the run ends before.")
    session.record(envs)
    session.begin(steps)
    layers = q_network.arrays()
    while collector.global_step < steps:
        before = collector.global_step
        session.safe_point(before)
        if session.stop_requested:
            break
        collector.step(layers, exploration(args, before))
        now = collector.global_step
        if now > args.learning_starts and buffer.filled >= rows_needed:
            for _ in range(due := multiples_passed(args.train_frequency, before, now)):
                loss, values = learner.step(buffer.sample(args.batch_size, device))
            if due and args.cuda:
                layers = q_network.arrays()
            if due and multiples_passed(LOG_EVERY, before, now):
                learner.require_finite()
                speed = (now - resumed_at) / session.seconds_running
                logged = {"losses/loss": loss.item(), "losses/q_values": values.item(), "charts/SPS": speed}
                session.scalars(now, logged)
            if multiples_passed(args.target_network_frequency, before, now):
                learner.follow()
        interval_over = 0 < args.checkpoint_every <= now - saved_at
        if now < steps and (session.checkpoint_requested or interval_over):  # the last one may not fail
            saved_at = save(required=False)
    if saved_at < collector.global_step or collector.global_step == 0:
        save(required=True)


class TrainedNetwork:
    """The network of a checkpoint, choosing actions; sampled means: at random as often as at the end of training."""

    def __init__(self, q_network: QNetwork, action: dict[str, Any], epsilon: float) -> None:
        self.layers, self.epsilon = q_network.arrays(), epsilon
        self.action_count, self.first_action = action["n"], action["start"]
        self.atoms = q_network.atoms.numpy()

    def act(self, observations: NDArray[Any], *, deterministic: bool, random: np.random.Generator) -> NDArray[np.int64]:
        chosen = best_actions(self.layers, self.atoms, flat_rows(observations))
        if not deterministic:
            chosen = now_and_then_at_random(chosen, self.epsilon, self.action_count, random)
        return chosen + self.first_action


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    q_network = QNetwork(math.prod(observation["shape"]), action["n"], args)
    fill(q_network, "q_network", checkpoint)
    return TrainedNetwork(q_network, action, args.end_e)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment as training sees it. Raises UsageError."""
    return make_env(args.env_id, render_mode=render_mode)


def main() -> int:
    try:
        args = parse(Args, "Train with C51 on an environment with discrete actions.")
        check(args)
        with closing(make_envs(args)) as envs, TrainingSession.open(dataclasses.asdict(args), "c51") as session:
            train(args, envs, session)
    except UsageError as error:
        print(f"c51: {error}", file=sys.stderr)
        return 2
    except (FloatingPointError, CheckpointError) as error:
        print(f"c51: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
