"""QDagger: its arithmetic against the definitions, the teachers it knows, its buffer, the whole script."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, kl_divergence

from cleanrl_worker import teachers
from cleanrl_worker.cleanrl import dqn, ppo
from cleanrl_worker.cleanrl import qdagger_dqn_atari_impalacnn as qdagger
from cleanrl_worker.teaching_tasks import AtariTask, GymTask, Step, make_task
from mosaic_worker.learning import frame_replay, telling
from mosaic_worker.learning.frame_replay import FrameReplayBuffer, make_frame_buffer
from mosaic_worker.learning.pictures import as_pictures, is_picture, largest_of, picture_size
from mosaic_worker.learning.replay_buffer import Batch
from mosaic_worker.learning.single_player import SinglePlayer
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.learning.foreseeable import Metronome
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    logged_values,
    newest_tensors,
    only_run,
    run_main,
    run_until,
)
from mosaic_worker.training.session import TrainingSession, UsageError

CLEANRL_DEFAULTS = {
    "exp_name": "qdagger_dqn_atari_impalacnn",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "save_model": False,
    "upload_model": False,
    "hf_entity": "",
    "env_id": "BreakoutNoFrameskip-v4",
    "total_timesteps": 10_000_000,
    "learning_rate": 1e-4,
    "num_envs": 1,
    "buffer_size": 1_000_000,
    "gamma": 0.99,
    "tau": 1.0,
    "target_network_frequency": 1000,
    "batch_size": 32,
    "start_e": 1.0,
    "end_e": 0.01,
    "exploration_fraction": 0.10,
    "learning_starts": 80_000,
    "train_frequency": 4,
    "teacher_policy_hf_repo": None,
    "teacher_model_exp_name": "dqn_atari",
    "teacher_eval_episodes": 10,
    "teacher_steps": 500_000,
    "offline_steps": 500_000,
    "temperature": 1.0,
}
OURS = {
    "cuda",
    "teacher_policy",
    "torch_threads",
    "checkpoint_every",
    "checkpoint_keep",
    "save_buffer",
    "resume",
    "warm_start",
}
TINY = ["--teacher-steps", "60", "--offline-steps", "40", "--total-timesteps", "120", "--teacher-eval-episodes", "2"]
SHORT = [*TINY, "--learning-starts", "20", "--batch-size", "8", "--train-frequency", "2"]
SHORT += ["--buffer-size", "50", "--target-network-frequency", "15", "--env-id", "CartPole-v1"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the script does: more threads are slower on a busy machine."""
    torch.set_num_threads(1)


class Catch(gym.Env[Any, Any]):
    """A ball falls through a 10x10 picture of two channels; to be below it where it lands is worth 1, else -1."""

    observation_space = gym.spaces.Box(0, 1, (10, 10, 2), np.bool_)
    action_space = gym.spaces.Discrete(3)

    def __init__(self) -> None:
        self.ball, self.row, self.paddle = 0, 0, 5

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.ball, self.row, self.paddle = int(self.np_random.integers(10)), 0, 5
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.paddle = int(np.clip(self.paddle + action - 1, 0, 9))
        self.row += 1
        landed = self.row == 9
        reward = (1.0 if self.ball == self.paddle else -1.0) if landed else 0.0
        return self._observe(), reward, landed, False, {}

    def _observe(self) -> Any:
        picture = np.zeros((10, 10, 2), dtype=bool)
        picture[self.row, self.ball, 0] = picture[9, self.paddle, 1] = True
        return picture


@pytest.fixture
def catch() -> Iterator[str]:
    make: Any = Catch
    gym.register("Catch-v0", entry_point=make, disable_env_checker=True)
    yield "Catch-v0"
    gym.registry.pop("Catch-v0")


def half_blind_catcher() -> dict[str, Tensor]:
    """A dqn-like teacher of Catch, made by hand, that does not see the ball in the right half."""
    columns = torch.arange(10.0).expand(10, 10)
    looking = torch.zeros(10, 10, 2)
    looking[..., 0] = columns * (columns < 5)
    looking[..., 1] = -columns
    direction = looking.flatten()  # how far the ball is to the right of the paddle
    first = nn.Linear(200, 2)
    first.weight.data = torch.stack([direction, -direction])
    first.bias.data.zero_()
    last = nn.Linear(2, 3)
    last.weight.data = torch.tensor([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    last.bias.data = torch.tensor([0.0, 0.5, 0.0])
    return {f"network.{n}.{k}": v for n, layer in ((0, first), (2, last)) for k, v in layer.state_dict().items()}


def cartpole_teacher(directory: Path, seed: int = 3) -> str:
    """A model file as CleanRL writes it, of a network that knows nothing."""
    torch.manual_seed(seed)
    path = directory / "dqn.cleanrl_model"
    torch.save(dqn.QNetwork(4, 2).state_dict(), path)
    return str(path)


# --- the flags and the teacher that they name ----------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(qdagger.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


CONTINUOUS = (
    "qdagger_dqn_atari_impalacnn needs a discrete action space; Pendulum-v1 has Box(1,). "
    "Try sac_continuous_action, td3_continuous_action or ppo_continuous_action."
)
BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--teacher-steps", "0"], "--teacher-steps must be at least 1, got 0."),
    (["--offline-steps", "-1"], "--offline-steps must be 0 or more, got -1."),
    (["--temperature", "0"], "--temperature must be more than 0, got 0.0."),
    (["--buffer-size", "15"], "--buffer-size must be at least 16, got 15."),
    (["--num-envs", "2"], "--num-envs must be 1: QDagger's student plays one environment, got 2."),
    (["--start-e", "0.001"], "--end-e must be at most start-e (0.001), got 0.01."),
    (["--upload-model"], "--upload-model is not available in this version; leave it out."),
    (["--teacher-policy-hf-repo", "a/b"], "--teacher-policy-hf-repo is not available in this version; download"),
    (["--env-id", "Pendulum-v1"], CONTINUOUS),
    (["--env-id", "FrozenLake-v1"], "qdagger_dqn_atari_impalacnn needs vectors or pictures of at least 10x10"),
    (["--env-id", "CartPol-v1"], "There is no environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
    (["--env-id", "PonNoFrameskip-v4"], "There is no Atari game 'PonNoFrameskip-v4'; did you mean 'PongNoFr"),
    (["--env-id", "CartPole-v1"], "--teacher-policy is needed: a checkpoint of dqn or of this script, or a CleanRL"),
    (["--env-id", "CartPole-v1", "--teacher-policy", "nowhere"], "There is no teacher at nowhere; --teacher-policy"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(qdagger, monkeypatch, tmp_path, *flags) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"qdagger_dqn_atari_impalacnn: {sentence}") and told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def refusal(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    flags = ["--env-id", "CartPole-v1", "--teacher-policy", str(path)]
    assert run_main(qdagger, monkeypatch, path.parent / "here", *flags) == 2
    assert list((path.parent / "here").iterdir()) == []
    return capsys.readouterr().err


def test_a_file_that_would_have_to_run_code_to_be_read_is_no_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "whole.pt"
    torch.save(dqn.QNetwork(4, 2), path)
    assert "whole.pt cannot be a teacher: it holds more than tensors" in refusal(path, capsys, monkeypatch)
    path.write_bytes(b"no model at all")
    assert "cannot be a teacher" in refusal(path, capsys, monkeypatch)
    torch.save({"model_weights": dqn.QNetwork(4, 2).state_dict(), "args": {"n_atoms": 101}}, path)
    assert "it is not the state dict of one network" in refusal(path, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (dqn.QNetwork(8, 2), "cannot teach CartPole-v1: its network looks at 8 numbers, there are 4."),
        (dqn.QNetwork(4, 3), "cannot teach CartPole-v1: its network values 3 actions, there are 2."),
        (nn.Conv1d(4, 2, 3), "its network is of no kind known here (weights 2x4x3)."),
        (nn.Linear(4, 2, bias=False), "cannot teach CartPole-v1: its bias is missing."),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_with_the_reason(
    network: nn.Module,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    torch.save(network.state_dict(), tmp_path / "teacher.pt")
    assert reason in refusal(tmp_path / "teacher.pt", capsys, monkeypatch)


def test_a_damaged_checkpoint_and_one_without_a_q_network_are_no_teachers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(ppo, monkeypatch, tmp_path / "ppo", "--total-timesteps", "8", "--num-steps", "2") == 0
    (path,) = checkpoints_of(tmp_path / "ppo")
    capsys.readouterr()
    assert "it is a checkpoint of ppo, which has no Q-network" in refusal(path, capsys, monkeypatch)
    with (path / checkpoints.TENSOR_FILE).open("ab") as stream:
        stream.write(b"more")
    assert "The teacher cannot be used" in refusal(path, capsys, monkeypatch)


def box(*shape: int, dtype: Any = np.uint8) -> gym.spaces.Box:
    return gym.spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)


def nature_cnn(actions: int) -> nn.Sequential:
    """What CleanRL's dqn_atari keeps under `network`."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, actions),
    )


def recognised(tensors: dict[str, Tensor], space: gym.spaces.Box, actions: int) -> nn.Module:
    own = qdagger.QNetwork(space.shape, actions, largest_of(space))
    return teachers.recognised(tensors, space, actions, own)


def test_the_network_of_dqns_paper_is_recognised_by_its_shapes() -> None:
    original = nature_cnn(6)
    tensors = {f"network.{name}": tensor for name, tensor in original.state_dict().items()}
    found = recognised(dict(reversed(tensors.items())), box(4, 84, 84), 6)
    pictures = torch.randint(256, (3, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(found(pictures), original(pictures.float() / 255), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="looks at 4 pictures, there are 3"):
        recognised(tensors, box(3, 84, 84), 6)
    with pytest.raises(ValueError, match="not made for pictures of"):
        recognised(tensors, box(4, 64, 64), 6)
    with pytest.raises(ValueError, match="values 6 actions, there are 4"):
        recognised(tensors, box(4, 84, 84), 4)


def test_a_network_of_linear_layers_teaches_vectors_and_flattened_pictures() -> None:
    for space in (box(200, dtype=np.float32), box(10, 10, 2, dtype=np.bool_)):
        original = dqn.QNetwork(200, 3)
        found = recognised(dict(original.state_dict()), space, 3)
        observations = torch.rand(5, *space.shape) > 0.5
        expected = original(observations.flatten(1).float())
        torch.testing.assert_close(found(observations), expected)


@pytest.mark.parametrize("space", [box(4, 84, 84), box(10, 10, 4, dtype=np.bool_), box(6, dtype=np.float32)])
def test_a_student_may_teach_the_next_one(space: gym.spaces.Box) -> None:
    original = qdagger.QNetwork(space.shape, 3, largest_of(space))
    found = recognised(dict(original.state_dict()), space, 3)
    observations = torch.from_numpy(np.stack([space.sample() for _ in range(2)]))
    assert isinstance(found, qdagger.QNetwork) and torch.equal(found(observations), original(observations))


# --- the student's network -----------------------------------------------------------------------------------


def test_pictures_may_have_their_channels_first_last_or_not_at_all() -> None:
    pictures = torch.randint(2, (2, 10, 12, 3))
    assert picture_size((10, 12, 3)) == (3, 10, 12) == picture_size((3, 10, 12))
    first = as_pictures(pictures.permute(0, 3, 1, 2))
    assert torch.equal(first, as_pictures(pictures)) and first.shape == (2, 3, 10, 12)
    assert as_pictures(pictures[..., 0]).shape == (2, 1, 10, 12)
    assert [is_picture(shape) for shape in ((10, 10), (9, 10, 3), (4, 84, 84), (8,))] == [
        True,
        False,
        True,
        False,
    ]


def test_bytes_are_scaled_to_one_and_other_observations_are_left_alone() -> None:
    assert [largest_of(one) for one in (box(84, 84), box(10, 10, dtype=np.bool_), box(4, dtype=np.float32))] == [
        255,
        1,
        1,
    ]
    network = qdagger.QNetwork((1, 12, 12), 2, largest=255)
    half = qdagger.QNetwork((1, 12, 12), 2, largest=51)
    half.network.load_state_dict(network.network.state_dict())
    picture = torch.randint(50, (1, 1, 12, 12), dtype=torch.uint8)
    torch.testing.assert_close(network(5 * picture), half(picture))


# --- the arithmetic ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("student", "teacher", "weight"),
    [
        (0.0, 10.0, 1.0),
        (5.0, 10.0, 0.5),
        (10.0, 10.0, 0.0),
        (25.0, 10.0, 0.0),
        (-20.0, 10.0, 1.0),
        (-200.0, -100.0, 0.5),
        (-100.0, -100.0, 0.0),
        (50.0, -100.0, 0.0),
        (-1.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
    ],
)
def test_the_weight_of_the_teacher_falls_to_nothing_as_the_student_reaches_it(
    student: float, teacher: float, weight: float
) -> None:
    assert qdagger.distillation_weight(student, teacher) == pytest.approx(weight)


def test_until_ten_episodes_are_over_the_teacher_has_full_weight() -> None:
    nothing: Any = None
    stages = qdagger.Stages(qdagger.Args(), nothing, nothing, nothing, nothing)
    stages.progress.teacher_return = 20.0
    stages.progress.recent.extend([15.0] * 9)
    assert stages.weight == 1.0
    stages.progress.recent.extend([15.0] * 30)
    assert stages.weight == pytest.approx(0.25) and len(stages.progress.recent) == 10


@pytest.mark.parametrize("temperature", [1.0, 0.1, 7.0])
def test_the_distillation_loss_is_the_mean_divergence_of_the_two_softmax_policies(temperature: float) -> None:
    torch.manual_seed(1)
    student, teacher = torch.randn(6, 4), torch.randn(6, 4)
    policies = [Categorical(logits=values / temperature) for values in (teacher, student)]
    expected = kl_divergence(policies[0], policies[1]).mean()
    torch.testing.assert_close(qdagger.distillation_loss(student, teacher, temperature), expected)
    assert qdagger.distillation_loss(teacher, teacher, temperature).item() == pytest.approx(0, abs=1e-6)


def some_batch(rows: int = 16) -> Batch:
    torch.manual_seed(3)
    terminated = (torch.rand(rows) < 0.3).float()
    actions = torch.randint(0, 3, (rows, 1))
    return Batch(torch.randn(rows, 4), torch.randn(rows, 4), actions, torch.randn(rows), terminated)


def learner_of(args: qdagger.Args) -> tuple[qdagger.Learner, nn.Module]:
    torch.manual_seed(1)
    teacher = dqn.QNetwork(4, 3)
    return qdagger.Learner(qdagger.QNetwork((4,), 3), qdagger.QNetwork((4,), 3), teacher, args), teacher


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_gradient_steps_equal_torch_adam_on_the_papers_loss(weight: float) -> None:
    args = qdagger.Args(learning_rate=1e-2, temperature=0.5)
    learner, teacher = learner_of(args)
    reference, target = qdagger.QNetwork((4,), 3), qdagger.QNetwork((4,), 3)
    for network in (reference, target):
        network.load_state_dict(learner.student.state_dict())
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2)
    batch = some_batch()
    for _ in range(4):
        values = reference(batch.observations)
        with torch.no_grad():
            best = target(batch.next_observations).max(dim=1).values
        expected = torch.where(batch.terminated == 1, batch.rewards, batch.rewards + args.gamma * best)
        td = nn.functional.mse_loss(values[torch.arange(16), batch.actions[:, 0]], expected)
        policies = [Categorical(logits=one / 0.5) for one in (teacher(batch.observations), values)]
        distillation = kl_divergence(policies[0], policies[1]).mean()
        optimizer.zero_grad()
        (td + weight * distillation).backward()
        optimizer.step()
        found = learner.step(batch, weight)
        assert found.td.item() == pytest.approx(td.item(), rel=1e-4)
        assert found.distillation.item() == pytest.approx(distillation.item() if weight else 0.0, rel=1e-3)
        assert found.total.item() == pytest.approx((td + weight * distillation).item(), rel=1e-4)
    for mine, theirs in zip(learner.student.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_a_teacher_without_weight_is_not_even_asked() -> None:
    learner, _ = learner_of(qdagger.Args())
    learner.teacher = nn.Identity()  # whose answer would not fit
    learner.step(some_batch(), weight=0.0)


def test_the_target_network_starts_as_the_student_and_moves_only_on_request() -> None:
    learner, _ = learner_of(qdagger.Args())
    followed, target = learner.adam.vector, nn.utils.parameters_to_vector(learner.target.parameters())
    before = target.clone()
    assert torch.equal(before, followed)
    learner.step(some_batch(), weight=1.0)
    assert torch.equal(before, nn.utils.parameters_to_vector(learner.target.parameters()))
    learner.follow(0.25)
    moved = nn.utils.parameters_to_vector(learner.target.parameters())
    torch.testing.assert_close(moved, 0.75 * before + 0.25 * followed)


def test_exploration_falls_linearly_and_then_stays() -> None:
    args = qdagger.Args(start_e=1.0, end_e=0.2)
    assert [qdagger.share_of_random(args, step, 500) for step in (0, 250, 500, 900)] == pytest.approx(
        [1.0, 0.6, 0.2, 0.2]
    )
    assert qdagger.share_of_random(args, 0, 0) == 0.2


# --- the buffer ----------------------------------------------------------------------------------------------


def test_stacks_put_together_from_single_pictures_are_those_that_were_seen() -> None:
    """Against a list of whole transitions, over several times the buffer's size."""
    space, stack = box(4, 3, 3), 4
    buffer = FrameReplayBuffer(40, space, stack, saved=True)
    rng = np.random.default_rng(0)
    seen: dict[tuple[bytes, bytes], tuple[int, float, float]] = {}

    def picture() -> Any:
        return rng.integers(256, size=(3, 3), dtype=np.uint8)

    for episode in range(30):
        now = np.stack([picture()] * stack)
        for step in range(length := int(rng.integers(1, 9))):
            action, reward, last = int(rng.integers(5)), float(rng.normal()), step == length - 1
            terminated = last and episode % 2 == 0
            following = np.concatenate([now[1:], picture()[None]])
            seen[now.tobytes(), following.tobytes()] = (action, float(np.float32(reward)), float(terminated))
            buffer.add(now, action, reward, terminated)
            now = following
        buffer.end(now)
        if buffer.filled > 2:
            batch = buffer.sample(64, torch.device("cpu"))
            for row in range(64):
                key = batch.observations[row].numpy().tobytes(), batch.next_observations[row].numpy().tobytes()
                found = batch.actions[row].item(), batch.rewards[row].item(), batch.terminated[row].item()
                assert found == seen[key]
    assert buffer.frames.shape == (40, 3, 3) and buffer.frames.dtype == torch.uint8


def test_every_step_with_a_successor_can_be_drawn_and_no_other() -> None:
    buffer = FrameReplayBuffer(16, box(1, dtype=np.float32), 1, saved=True)
    for step in range(5):
        buffer.add(np.array([step], dtype=np.float32), step, 0.0, False)
    drawn = buffer.sample(400, torch.device("cpu"))
    assert set(drawn.actions.flatten().tolist()) == {0, 1, 2, 3}, "what the last one led to is not known yet"
    assert torch.equal(drawn.next_observations, drawn.observations + 1)
    buffer.end(np.array([5], dtype=np.float32))
    buffer.end(np.array([6], dtype=np.float32))  # nothing was begun: nothing to end
    assert buffer.filled == 6
    assert set(buffer.sample(400, torch.device("cpu")).actions.flatten().tolist()) == {0, 1, 2, 3, 4}


def filled_buffer(capacity: int, *, saved: bool = True) -> FrameReplayBuffer:
    buffer = FrameReplayBuffer(capacity, box(2, dtype=np.float32), 1, saved)
    for step in range(25):
        buffer.add(np.full(2, step, dtype=np.float32), step, step / 2, False)
    return buffer


def test_the_contents_of_a_buffer_come_back_and_another_size_is_refused() -> None:
    kept = filled_buffer(20).contents
    again = FrameReplayBuffer(20, box(2, dtype=np.float32), 1, saved=True)
    again.contents = kept
    assert torch.equal(again.frames, filled_buffer(20).frames)
    assert (again.position, again.filled, again.steps) == (5, 20, 25)
    with pytest.raises(ValueError, match="has room for 20 observations, this run's for 21"):
        filled_buffer(21).contents = kept
    assert len(filled_buffer(20, saved=False).contents["frames"]) == 0


def test_a_buffer_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task = AtariTask("PongNoFrameskip-v4", 1, record=False)
    monkeypatch.setattr(frame_replay, "free_memory", lambda: 1e9)
    with pytest.raises(UsageError, match=r"1,000,000 observations takes 7.1 GB of memory, of which 1.0 GB are free"):
        make_frame_buffer(1_000_000, 10_000_000, task.observation_space, task.stack, saved=True)


# --- playing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limits", "terminated"), [({"cut_at": 3}, 0), ({"end_at": 3}, 1)])
def test_a_transition_ends_in_the_true_last_observation_and_a_time_limit_is_no_end(
    limits: dict[str, int], terminated: int
) -> None:
    task = GymTask(Metronome(**limits), seed=1)
    player = SinglePlayer(task, torch.device("cpu"), seed=1)
    buffer = FrameReplayBuffer(20, Metronome.observation_space, 1, saved=True)
    network = qdagger.QNetwork((2,), 2)
    steps = [player.step(network, 1.0, buffer) for _ in range(5)]
    assert buffer.frames[:7].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [0, 0]]
    assert buffer.acted[:6].tolist() == [True, True, True, False, True, True]
    assert buffer.terminated[:5].tolist() == [0, 0, terminated, 0, 0]
    assert [step.finished for step in steps] == [None, None, (buffer.rewards[:3].sum().item(), 3), None, None]
    assert torch.equal(buffer.actions[:3].float(), buffer.rewards[:3]), "actions are counted from zero"


def test_epsilon_is_the_share_of_random_actions() -> None:
    task = GymTask(Metronome(), seed=1)
    player = SinglePlayer(task, torch.device("cpu"), seed=1)
    network = qdagger.QNetwork((2,), 2).requires_grad_(False)
    last: Any = network.network[4]
    last.weight.zero_()
    last.bias.copy_(torch.tensor([0.0, 1.0]))
    rewards = [player.step(network, 0.4).reward for _ in range(3000)]
    assert np.mean(rewards) == pytest.approx(0.8, abs=0.02)


def test_a_lost_life_ends_what_is_learned_from_but_not_the_game() -> None:
    task = AtariTask("BreakoutNoFrameskip-v4", 1, record=False)
    player = SinglePlayer(task, torch.device("cpu"), seed=1)
    buffer = FrameReplayBuffer(4000, task.observation_space, 4, saved=True)
    steps: list[Step] = []
    while not steps or steps[-1].finished is None:
        steps.append(player.step(nn.Identity(), 1.0, buffer))
    total, frames = steps[-1].finished or (0.0, 0)
    assert sum(step.terminated for step in steps) == 5 == (~buffer.acted[: buffer.filled]).sum()
    assert {step.reward for step in steps} <= {0.0, 1.0} and total >= sum(step.reward for step in steps)
    assert frames >= 4 * len(steps)
    batch = buffer.sample(8, torch.device("cpu"))
    assert batch.observations.shape == (8, 4, 84, 84)


# --- the script ----------------------------------------------------------------------------------------------


def leaning_teacher() -> dict[str, Tensor]:
    """A dqn-like teacher of CartPole, made by hand, that pushes to where the pole leans and knows nothing more."""
    first, last = nn.Linear(4, 2), nn.Linear(2, 2)
    first.weight.data = torch.tensor([[0.0, 0.0, -50.0, 0.0], [0.0, 0.0, 50.0, 0.0]])
    last.weight.data = torch.eye(2)
    first.bias.data.zero_()
    last.bias.data.zero_()
    return {f"network.{n}.{k}": v for n, layer in ((0, first), (2, last)) for k, v in layer.state_dict().items()}


def test_the_student_passes_its_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(leaning_teacher(), tmp_path / "teacher.pt")
    flags = ["--env-id", "CartPole-v1", "--teacher-policy", str(tmp_path / "teacher.pt"), "--batch-size", "64"]
    flags += ["--teacher-steps", "2000", "--offline-steps", "1500", "--total-timesteps", "8000", "--temperature", "0.5"]
    flags += ["--learning-starts", "200", "--learning-rate", "1e-3", "--target-network-frequency", "200"]
    flags += ["--start-e", "0.1", "--exploration-fraction", "0.3"]
    assert run_main(qdagger, monkeypatch, tmp_path / "run", *flags) == 0
    (teacher,) = logged_values(tmp_path / "run", "charts/teacher/avg_episodic_return")
    (offline,) = logged_values(tmp_path / "run", "charts/offline/avg_episodic_return")
    returns = logged_values(tmp_path / "run", "charts/episodic_return")
    weights = logged_values(tmp_path / "run", "charts/distill_coeff")
    assert 30 < teacher < 60
    assert offline > 25, "a student that was not taught falls after about ten steps"
    assert np.mean(returns[-10:]) > 2 * teacher
    assert weights[0] == 1.0 and weights[-1] == 0.0
    assert "Stage 5 of 5" in capsys.readouterr().out


def test_a_checkpoint_of_dqn_teaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["--total-timesteps", "300", "--learning-starts", "50", "--env-id", "Acrobot-v1"]
    assert run_main(dqn, monkeypatch, tmp_path / "dqn", *short) == 0
    (path,) = checkpoints_of(tmp_path / "dqn")
    args = qdagger.Args(env_id="Acrobot-v1", teacher_policy=str(path))
    task = make_task(qdagger.ALGO, args)
    teacher = teachers.find_teacher(qdagger.ALGO, args, task, lambda: qdagger.make_student(task))
    trained = checkpoints.load(path)
    original = dqn.load_policy(trained, dqn.Args(**trained.manifest.args))
    observations = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    best = teacher.network(torch.from_numpy(observations)).argmax(dim=1).numpy()
    assert (best == original.act(observations, deterministic=True, random=np.random.default_rng(0))).all()
    task.close()
    capsys.readouterr()
    teachers.read_teacher(path, "CartPole-v1")
    assert "The teacher learned in Acrobot-v1; this run is in CartPole-v1." in capsys.readouterr().out


def test_all_stages_are_logged_under_cleanrl_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [
        *SHORT,
        "--teacher-policy",
        cartpole_teacher(tmp_path),
        "--offline-steps",
        "200",
        "--total-timesteps",
        "220",
    ]
    assert run_main(qdagger, monkeypatch, tmp_path / "run", *flags) == 0
    rows = logged_rows(tmp_path / "run")
    found = {tag: [step for step, values in rows if tag in values] for _, values in rows for tag in values}
    assert found["charts/teacher/avg_episodic_return"] == [0]
    assert 0 < found["charts/teacher/episodic_return"][0] <= 60 >= found["charts/teacher/epsilon"][-1]
    assert found["charts/offline/loss"] == [160, 260] == found["charts/offline/q_loss"]
    assert found["charts/offline/distill_loss"] == [160, 260]
    assert found["charts/offline/avg_episodic_return"] == [260]
    assert found["charts/episodic_return"][0] > 260 and "charts/episodic_length" in found
    for tag in ("losses/loss", "losses/td_loss", "losses/distill_loss", "losses/q_values", "charts/distill_coeff"):
        assert found[tag] == [360, 460]
    assert found["charts/SPS"] == [360, 460]


def test_the_same_seed_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = cartpole_teacher(tmp_path)
    found = []
    for number, seed in enumerate(("5", "5", "6")):
        flags = [*SHORT, "--seed", seed, "--teacher-policy", teacher]
        assert run_main(qdagger, monkeypatch, tmp_path / str(number), *flags) == 0
        found.append(newest_tensors(tmp_path / str(number)))
    first, again, other = found
    assert differing(first, again) == []
    assert "q_network.network.0.weight" in differing(first, other)


def test_a_stage_that_takes_long_prints_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(telling, "SECONDS", 0.0)
    assert run_main(qdagger, monkeypatch, tmp_path, *SHORT, "--teacher-policy", cartpole_teacher(tmp_path)) == 0
    told = capsys.readouterr().out
    lines = ("Stage 1: 1 of 2 episodes.", "Stage 2: 59 of 60 steps.", "Stage 3: 7 of 40 gradient steps.")
    assert all(line in told for line in lines)


class StopAt:
    """Asks a run to stop at its n-th safe point, wherever that falls."""

    def __init__(self, number: int, patch: pytest.MonkeyPatch) -> None:
        original, left = TrainingSession.safe_point, [number]

        def safe_point(session: TrainingSession, step: int) -> None:
            left[0] -= 1
            session.stop_requested = session.stop_requested or left[0] <= 0
            original(session, step)

        patch.setattr(TrainingSession, "safe_point", safe_point)


def stopped_at(number: int, monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> Path:
    """The only checkpoint of a run that was stopped at its n-th safe point."""
    with monkeypatch.context() as patch:
        StopAt(number, patch)
        assert run_main(qdagger, patch, directory, *flags) == 0
    (path,) = checkpoints_of(directory)
    return path


def stage_of(path: Path) -> int:
    return int(checkpoints.read_manifest(path).state["progress"]["stage"])


@pytest.mark.parametrize(
    ("env_id", "stops"),
    [
        ("CartPole-v1", (8, 30, 80, 200)),
        pytest.param("CartPole-v1", (1, 8, 30, 70, 90, 110, 121, 140, 200), marks=pytest.mark.nightly),
        pytest.param("Catch-v0", (8, 50, 100, 140), marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_was_stopped_in_any_stage_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env_id: str, stops: tuple[int, ...], catch: str
) -> None:
    teacher = tmp_path / "teacher.pt"
    torch.save(half_blind_catcher() if env_id == catch else dqn.QNetwork(4, 2).state_dict(), teacher)
    flags = [*SHORT, "--env-id", env_id, "--seed", "7", "--teacher-policy", str(teacher)]
    assert run_main(qdagger, monkeypatch, tmp_path / "whole", *flags) == 0
    whole = newest_tensors(tmp_path / "whole")
    stages = set()
    for number in stops:
        stopped = stopped_at(number, monkeypatch, tmp_path / f"half{number}", *flags)
        stages.add(stage_of(stopped))
        assert run_main(qdagger, monkeypatch, tmp_path / f"rest{number}", "--resume", str(stopped)) == 0
        assert differing(whole, newest_tensors(tmp_path / f"rest{number}")) == [], number
    assert stages >= {0, 1, 2, 4}


def test_a_game_of_atari_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    torch.save({f"network.{name}": t for name, t in nature_cnn(4).state_dict().items()}, tmp_path / "teacher.pt")
    flags = ["--teacher-policy", str(tmp_path / "teacher.pt"), "--teacher-eval-episodes", "1", "--batch-size", "2"]
    flags += ["--teacher-steps", "30", "--offline-steps", "2", "--total-timesteps", "24", "--learning-starts", "10"]
    flags += ["--train-frequency", "6", "--buffer-size", "100"]
    monkeypatch.setattr(qdagger.Stages, "_measure", measured_at_once)
    assert run_main(qdagger, monkeypatch, tmp_path / "whole", *flags, "--capture-video") == 0
    assert (only_run(tmp_path / "whole") / "videos" / "episode-0-step-0.mp4").exists()
    for number in (20, 31, 45):
        stopped = stopped_at(number, monkeypatch, tmp_path / f"half{number}", *flags)
        assert run_main(qdagger, monkeypatch, tmp_path / f"rest{number}", "--resume", str(stopped)) == 0
        assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / f"rest{number}")) == []


def measured_at_once(stages: qdagger.Stages, network: nn.Module) -> bool:
    """A whole game takes minutes."""
    stages.progress.returns = [2.0]
    return True


def test_a_resumed_run_has_its_teacher_in_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = cartpole_teacher(tmp_path)
    stopped = stopped_at(60, monkeypatch, tmp_path / "half", *SHORT, "--teacher-policy", teacher)
    Path(teacher).unlink()
    assert run_main(qdagger, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0


def test_a_finished_run_can_be_resumed_with_more_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [*SHORT, "--buffer-size", "500", "--teacher-policy", cartpole_teacher(tmp_path)]
    assert run_main(qdagger, monkeypatch, tmp_path / "first", *flags) == 0
    (path,) = checkpoints_of(tmp_path / "first")
    assert run_main(qdagger, monkeypatch, tmp_path / "more", "--resume", str(path), "--total-timesteps", "200") == 0
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "more")[-1]).step == 300
    found = newest_tensors(tmp_path / "more")
    assert found["buffer.contents.acted"].sum() == 200


@pytest.mark.parametrize(("step", "stage"), [(30, 1), (80, 2), (190, 4)])
def test_a_run_resumed_without_its_buffer_fills_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: int, stage: int
) -> None:
    flags = [*SHORT, "--teacher-policy", cartpole_teacher(tmp_path), "--no-save-buffer"]
    stopped = run_until(step, qdagger, monkeypatch, tmp_path / "half", *flags)
    assert stage_of(stopped) == stage
    kept = checkpoints.load(stopped)
    assert len(kept.tensors["buffer.contents.frames"]) == 0
    capsys.readouterr()
    assert run_main(qdagger, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert ("the teacher plays again to fill it" in capsys.readouterr().out) is (stage < 4)
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "rest")[-1]).step == 220


class Sealed(Metronome):
    """Keeps its state where a checkpoint cannot look."""

    def __init__(self) -> None:
        super().__init__(end_at=7)
        self.secret = object()


def test_an_environment_that_cannot_be_put_back_begins_a_new_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make: Any = Sealed
    gym.register("Sealed-v0", entry_point=make, disable_env_checker=True)
    torch.save(dqn.QNetwork(2, 2).state_dict(), tmp_path / "teacher.pt")
    flags = [*SHORT, "--env-id", "Sealed-v0", "--teacher-policy", str(tmp_path / "teacher.pt")]
    stopped = stopped_at(40, monkeypatch, tmp_path / "half", *flags)
    assert run_main(qdagger, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    gym.registry.pop("Sealed-v0")
    assert "it begins a new one" in capsys.readouterr().out


def test_checkpoints_come_at_the_interval_in_every_stage_with_the_size_of_the_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [
        *SHORT,
        "--teacher-policy",
        cartpole_teacher(tmp_path),
        "--checkpoint-every",
        "50",
        "--checkpoint-keep",
        "0",
    ]
    assert run_main(qdagger, monkeypatch, tmp_path / "run", *flags) == 0
    manifests = [checkpoints.read_manifest(path) for path in checkpoints_of(tmp_path / "run")]
    assert [manifest.step for manifest in manifests] == [50, 100, 150, 200, 220]
    assert (manifests[-1].algo, manifests[-1].spaces["action"]["n"]) == ("qdagger_dqn_atari_impalacnn", 2)
    assert "The checkpoint at step 100 includes the replay buffer: 50 observations, 0.0 MB." in capsys.readouterr().out


def test_a_loss_that_is_not_finite_fails_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--teacher-policy", cartpole_teacher(tmp_path), "--learning-rate", "1e30"]
    assert run_main(qdagger, monkeypatch, tmp_path / "run", *flags, "--checkpoint-every", "60") == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path / "run")] == [60]


def test_a_warm_start_takes_over_the_networks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = ["--teacher-policy", cartpole_teacher(tmp_path)]
    assert run_main(qdagger, monkeypatch, tmp_path / "first", *SHORT, *teacher) == 0
    (path,) = checkpoints_of(tmp_path / "first")
    other = ["--teacher-policy", cartpole_teacher(tmp_path, seed=4), "--seed", "9", "--warm-start", str(path)]
    begun = stopped_at(1, monkeypatch, tmp_path / "second", *SHORT, *other)
    given, found = newest_tensors(tmp_path / "first"), checkpoints.load(begun).tensors
    networks = [name for name in given if name.startswith(("q_network.", "target_network."))]
    assert networks and all(torch.equal(given[name], found[name]) for name in networks)
    assert not found["learner.mean"].any()
    assert "teacher.tensors.network.0.weight" in differing(
        {name: given[name] for name in given if name.startswith("teacher.")},
        {name: found[name] for name in found if name.startswith("teacher.")},
    )


def test_a_policy_comes_back_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catch: str) -> None:
    torch.save(half_blind_catcher(), tmp_path / "teacher.pt")
    flags = [*SHORT, "--env-id", catch, "--teacher-policy", str(tmp_path / "teacher.pt"), "--end-e", "0.5"]
    assert run_main(qdagger, monkeypatch, tmp_path / "run", *flags) == 0
    found = checkpoints.load(checkpoints_of(tmp_path / "run")[-1])
    args = qdagger.Args(**found.manifest.args)
    policy = qdagger.load_policy(found, args)
    env = qdagger.make_evaluation_env(args)
    observation, _ = env.reset(seed=1)
    pictures = np.stack([observation] * 300)
    drawn = np.random.default_rng(1)
    best = policy.act(pictures, deterministic=True, random=drawn)
    assert len(set(best.tolist())) == 1 and env.action_space.contains(best[0])
    sampled = policy.act(pictures, deterministic=False, random=drawn)
    assert np.mean(sampled == best) == pytest.approx(0.5 + 0.5 / 3, abs=0.1)
    env.close()


def test_evaluation_plays_whole_games_with_true_rewards() -> None:
    env = qdagger.make_evaluation_env(qdagger.Args(env_id="BreakoutNoFrameskip-v4"), render_mode="rgb_array")
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    picture: Any = env.render()
    assert picture.shape == (210, 160, 3)
    env.close()


def test_the_script_stands_alone_as_a_file(tmp_path: Path) -> None:
    assert qdagger.__file__ is not None
    command = [sys.executable, qdagger.__file__, *SHORT, "--teacher-policy", cartpole_teacher(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 220 steps" in done.stdout
    assert only_run(tmp_path).name.startswith("CartPole-v1__qdagger_dqn_atari_impalacnn__1__")
