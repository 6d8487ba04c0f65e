"""QDagger (Agarwal et al., 2022): a DQN student that begins with what a teacher can do.

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
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cleanrl_worker.teachers import Teacher, find_teacher, vector_network
from cleanrl_worker.teaching_tasks import AtariTask, Task, evaluation_env, make_task
from mosaic_worker.learning.adam import MOMENTS, FlatAdam, TargetNetwork, require_finite
from mosaic_worker.learning.argument_checks import (
    check_cuda,
    check_exploration,
    check_no_upload,
    check_ranges,
    require,
)
from mosaic_worker.learning.epsilon_greedy import EpsilonGreedyPolicy
from mosaic_worker.learning.frame_replay import FrameReplayBuffer, make_frame_buffer
from mosaic_worker.learning.impala import impala_blocks
from mosaic_worker.learning.pictures import as_pictures, largest_of, picture_size
from mosaic_worker.learning.replay_buffer import Batch
from mosaic_worker.learning.run_state import RunState
from mosaic_worker.learning.script_main import exit_status
from mosaic_worker.learning.seeding import prepare_torch
from mosaic_worker.learning.single_player import SinglePlayer
from mosaic_worker.learning.telling import NowAndThen
from mosaic_worker.policies.policy import Policy, fill
from mosaic_worker.state import checkpoints
from mosaic_worker.state.checkpoints import Checkpoint
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.training.arguments import parse
from mosaic_worker.training.session import TrainingSession

ALGO = "qdagger_dqn_atari_impalacnn"
SMALLEST_BUFFER = 16
RECENT = 10  # episodes of the student that the weight of the distillation depends on
LOG_EVERY = 100  # steps


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
    """Keep the replay buffer in checkpoints; without it a resumed run starts with an empty one."""
    resume: str | None = None
    """Checkpoint to go on from, exactly as if the run had never stopped; flags not given are as they were."""
    warm_start: str | None = None
    """Checkpoint whose networks to begin with; everything else starts from the beginning."""


class QNetwork(nn.Module):
    """The student: the value of each action, from a picture (IMPALA's network) or a vector (that of dqn.py)."""

    scale: Tensor

    def __init__(self, observation_shape: tuple[int, ...], action_count: int, largest: float = 1.0) -> None:
        """`largest` is what the brightest pixel is divided by."""
        super().__init__()
        self.of_pictures = len(observation_shape) > 1
        if self.of_pictures:
            blocks, outputs = impala_blocks(picture_size(observation_shape))
            last = nn.Linear(outputs, 256), nn.ReLU(), nn.Linear(256, action_count)
            self.network = nn.Sequential(*blocks, nn.Flatten(), nn.ReLU(), *last)
        else:
            self.network = vector_network([*observation_shape, 120, 84, action_count])
        self.register_buffer("scale", torch.tensor(largest))

    def forward(self, observations: Tensor) -> Tensor:
        if self.of_pictures:
            return self.network(as_pictures(observations) / self.scale)
        return self.network(observations.float())


def make_student(task: Task) -> QNetwork:
    """A network for what the task shows and what can be done in it."""
    space, actions = task.observation_space, task.action_space
    assert isinstance(space, gym.spaces.Box) and isinstance(actions, gym.spaces.Discrete)
    return QNetwork(space.shape, int(actions.n), largest_of(space))


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


def losses_of(
    student: QNetwork, target: QNetwork, teacher: nn.Module, batch: Batch, weight: float, args: Args
) -> Losses:
    """DQN's loss and, as far as it has weight, the distillation loss; a terminated episode has no future."""
    with torch.no_grad():
        best = target(batch.next_observations).amax(dim=1)
        targets = batch.rewards + args.gamma * (1 - batch.terminated) * best
    values = student(batch.observations)
    chosen = values.gather(1, batch.actions).squeeze(1)
    td = F.mse_loss(chosen, targets)
    distillation = torch.zeros(())
    if weight > 0:
        with torch.no_grad():
            teacher_values = teacher(batch.observations)
        distillation = distillation_loss(values, teacher_values, args.temperature)
    return Losses(td + weight * distillation, td.detach(), distillation.detach(), chosen.detach().mean())


def train(args: Args, task: Task, teacher: Teacher, session: TrainingSession) -> None:
    device = prepare_torch(args)
    space: Any = task.observation_space
    student, target = (make_student(task).to(device) for _ in range(2))
    learner = Learner(student, target, teacher.network.to(device), args)
    longest = max(args.teacher_steps, args.total_timesteps)
    buffer = make_frame_buffer(args.buffer_size, longest, space, task.stack, args.save_buffer)
    player = SinglePlayer(task, device, args.seed)
    stages = Stages(args, player, buffer, learner, session)
    progress = stages.progress

    state = TrainingState()
    state.module("q_network", student)
    state.module("target_network", target)
    state.attributes("learner", learner.adam, *MOMENTS)
    state.attributes("player", player, *player.PARTS)
    state.attributes("progress", progress, *progress.PARTS)
    state.attributes("buffer", buffer, "contents")
    state.attributes("teacher", teacher, "tensors")
    task.keep(state)
    run = RunState(session, state, task, args, progress, verify=learner.require_finite, buffer=buffer)
    run.restore(lambda: take_up(stages, checkpoints.read_manifest(Path(str(args.resume))).state))

    def may_go_on() -> bool:
        """Hold while paused, save when that is due; whether the run is to go on."""
        session.safe_point(progress.global_step)
        if not session.stop_requested:
            run.save_if_due()
        return not session.stop_requested

    stages.may_go_on, stages.speed = may_go_on, lambda: run.steps_per_second
    if args.learning_starts >= args.total_timesteps:
        told = f"--learning-starts is {args.learning_starts:,}, it plays {args.total_timesteps:,}"
        print(f"The student will learn nothing from its own steps: {told}.", flush=True)
    session.record(task)
    if isinstance(task, AtariTask):
        session.show(task.game.colours)
    session.begin(args.teacher_steps + args.offline_steps + args.total_timesteps)
    stages.run()
    run.save(required=True)


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


def share_of_random(args: Args, step: int, duration: float) -> float:
    """The share of random actions: falls linearly from start_e to end_e over `duration` steps, then stays."""
    return args.end_e if step >= duration else args.start_e + step / duration * (args.end_e - args.start_e)


class Learner:
    """The student, its target network and gradient steps."""

    def __init__(self, student: QNetwork, target: QNetwork, teacher: nn.Module, args: Args) -> None:
        self.student, self.target, self.teacher, self.args = student, target.requires_grad_(False), teacher, args
        self.adam = FlatAdam(student.parameters(), args.learning_rate)
        self._follower = TargetNetwork(target, self.adam.vector)

    def follow(self, tau: float) -> None:
        """Move the target network towards the student."""
        self._follower.follow(tau)

    def step(self, batch: Batch, weight: float) -> Losses:
        """One gradient step, with this weight of the distillation loss."""
        losses = losses_of(self.student, self.target, self.teacher, batch, weight, self.args)
        self.adam.minimise(losses.total)
        return losses._replace(total=losses.total.detach())

    def require_finite(self) -> None:
        require_finite(self.adam.vector)


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
    def global_step(self) -> int:
        return self.teacher + self.offline + self.online


class Stages:
    """The five stages of a run. Each goes on where it was left, and returns False when it must be left again."""

    def __init__(
        self, args: Args, player: SinglePlayer, buffer: FrameReplayBuffer, learner: Learner, session: TrainingSession
    ) -> None:
        self.args, self.player, self.buffer, self.learner, self.session = args, player, buffer, learner, session
        self.progress = Progress()
        self.may_go_on: Callable[[], bool] = lambda: True
        self.speed: Callable[[], float] = lambda: 0.0
        self._told = NowAndThen()
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
        self._told.say(f"Stage {self.progress.stage + 1}: {done:,} of {total:,} {what}.")
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
        self.session.scalars(self.progress.global_step, {f"charts/{who}/avg_episodic_return": mean})
        print(f"Return: {mean:.2f} (mean of {len(self.progress.returns)} episodes).", flush=True)

    def fill(self) -> bool:
        args, progress = self.args, self.progress
        while progress.teacher < args.teacher_steps:
            if not self._going_on(progress.teacher, args.teacher_steps, "steps"):
                return False
            epsilon = share_of_random(args, progress.teacher, args.teacher_steps)
            finished = self.player.step(self.learner.teacher, epsilon, self.buffer).finished
            progress.teacher += 1
            if finished is not None:
                tags = ("episodic_return", "episodic_length", "epsilon")
                values = zip(tags, (*finished, epsilon), strict=True)
                self.session.scalars(progress.global_step, {f"charts/teacher/{tag}": value for tag, value in values})
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
                self.session.scalars(progress.global_step, dict(zip(tags, losses[:3], strict=True)))
        return True

    def learn_online(self) -> bool:
        args, progress = self.args, self.progress
        enough = min(args.learning_starts, self.buffer.capacity)  # counts after a resume without the buffer
        while progress.online < args.total_timesteps:
            if not self.may_go_on():
                return False
            epsilon = share_of_random(args, progress.online, args.exploration_fraction * args.total_timesteps)
            found = self.player.step(self.learner.student, epsilon, self.buffer)
            progress.online += 1
            if found.finished is not None:
                self._end_episode(found.finished, epsilon)
            if progress.online > args.learning_starts and self.buffer.filled >= max(2, enough):
                self._learn()
        return True

    def _end_episode(self, finished: tuple[float, int], epsilon: float) -> None:
        total, length = finished
        self.progress.recent.append(total)
        ended = {"charts/episodic_return": total, "charts/episodic_length": length, "charts/epsilon": epsilon}
        self.session.scalars(self.progress.global_step, ended)

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
            "charts/SPS": self.speed(),
        }
        self.session.scalars(self.progress.global_step, values)


def take_up(stages: Stages, kept: Mapping[str, Any]) -> None:
    """Go on as well as can be where a checkpoint does not hold everything: the buffer, the running episode."""
    progress = stages.progress
    if not stages.buffer.filled and progress.stage in (1, 2) and progress.teacher:
        print("The checkpoint holds no replay buffer: the teacher plays again to fill it.", flush=True)
        progress.stage, progress.teacher = 1, 0
    if not kept.get("envs", {"complete": True})["complete"]:
        print("The environment cannot be put back into its episode: it begins a new one.", flush=True)
        stages.player.restart(stages.buffer)


def check(args: Args) -> None:
    """Raise UsageError for the first argument that cannot work."""
    check_ranges(
        args,
        counts=(
            *("total_timesteps", "buffer_size", "target_network_frequency", "batch_size", "train_frequency"),
            *("teacher_eval_episodes", "teacher_steps", "torch_threads"),
        ),
        not_negative=("seed", "learning_starts", "offline_steps", "checkpoint_every", "checkpoint_keep"),
        positive=("learning_rate", "temperature"),
        fractions=("gamma", "tau", "start_e", "end_e", "exploration_fraction"),
    )
    check_exploration(args)
    require(args.num_envs == 1, f"--num-envs must be 1: QDagger's student plays one environment, got {args.num_envs}.")
    least = f"--buffer-size must be at least {SMALLEST_BUFFER}"
    require(args.buffer_size >= SMALLEST_BUFFER, f"{least}, got {args.buffer_size}.")
    check_no_upload(args)
    require(
        args.teacher_policy_hf_repo is None,
        "--teacher-policy-hf-repo is not available in this version; download the model and name its file with "
        "--teacher-policy.",
    )
    check_cuda(args)


def make_evaluation_env(args: Args, render_mode: str | None = None) -> gym.Env[Any, Any]:
    """One environment with what training shows and true rewards; a whole game is one episode. Raises UsageError."""
    return evaluation_env(args.env_id, render_mode)


def load_policy(checkpoint: Checkpoint, args: Args) -> Policy:
    """What a checkpoint learned, without environments. Raises CheckpointError when its tensors do not fit."""
    observation, action = checkpoint.manifest.spaces["observation"], checkpoint.manifest.spaces["action"]
    network = QNetwork(tuple(observation["shape"]), action["n"]).requires_grad_(False)
    fill(network, "q_network", checkpoint)

    @torch.no_grad()
    def values(observations: NDArray[Any]) -> NDArray[np.float32]:
        return network(torch.from_numpy(np.asarray(observations))).numpy()

    def best(observations: NDArray[Any]) -> NDArray[np.int64]:
        return values(observations).argmax(axis=1)

    return EpsilonGreedyPolicy(best, action, args.end_e, flat=False, values=values)


def main() -> int:
    def work() -> None:
        args = parse(Args, "Train a DQN student with QDagger, from a teacher's policy.")
        check(args)
        with closing(make_task(ALGO, args)) as task:
            teacher = find_teacher(ALGO, args, task, lambda: make_student(task))
            with TrainingSession.open(dataclasses.asdict(args), ALGO) as session:
                train(args, task, teacher, session)

    return exit_status(ALGO, work)


if __name__ == "__main__":
    sys.exit(main())
