"""C51: its projection and gradients against the definition, its buffer, the whole script."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cleanrl_worker import checkpoints
from cleanrl_worker.cleanrl import c51
from cleanrl_worker.tests.script_tools import (
    Metronome,
    RecordingSession,
    checkpoints_of,
    differing,
    logged_rows,
    logged_values,
    newest_tensors,
    only_run,
    run_main,
    run_until,
)

CLEANRL_DEFAULTS = {
    "exp_name": "c51",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "save_model": False,
    "upload_model": False,
    "hf_entity": "",
    "env_id": "CartPole-v1",
    "total_timesteps": 500_000,
    "learning_rate": 2.5e-4,
    "num_envs": 1,
    "buffer_size": 10_000,
    "gamma": 0.99,
    "n_atoms": 101,
    "v_min": -100,
    "v_max": 100,
    "target_network_frequency": 500,
    "batch_size": 128,
    "start_e": 1,
    "end_e": 0.05,
    "exploration_fraction": 0.5,
    "learning_starts": 10_000,
    "train_frequency": 10,
}
OURS = {"cuda", "torch_threads", "checkpoint_every", "checkpoint_keep", "save_buffer", "resume", "warm_start"}
EPISODE_TAGS = {"charts/episodic_return", "charts/episodic_length", "charts/epsilon"}
UPDATE_TAGS = {"charts/SPS", "losses/loss", "losses/q_values"}
SHORT = ["--total-timesteps", "1500", "--learning-starts", "200", "--buffer-size", "400", "--batch-size", "16"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the script does: more threads make networks this small many times slower on a busy machine."""
    torch.set_num_threads(1)


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(c51.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


CONTINUOUS = (
    "c51 needs a discrete action space; Pendulum-v1 has Box(1,). "
    "Try sac_continuous_action, td3_continuous_action or ppo_continuous_action."
)
BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--num-envs", "0"], "--num-envs must be at least 1, got 0."),
    (["--buffer-size", "-3"], "--buffer-size must be at least 1, got -3."),
    (["--batch-size", "0"], "--batch-size must be at least 1, got 0."),
    (["--train-frequency", "0"], "--train-frequency must be at least 1, got 0."),
    (["--target-network-frequency", "0"], "--target-network-frequency must be at least 1, got 0."),
    (["--learning-starts", "-1"], "--learning-starts must be 0 or more, got -1."),
    (["--seed", "-1"], "--seed must be 0 or more, got -1."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--gamma", "2"], "--gamma must be from 0 to 1, got 2.0."),
    (["--n-atoms", "1"], "--n-atoms must be at least 2, got 1."),
    (["--v-min", "100"], "--v-min must be less than v-max (100.0), got 100.0."),
    (["--exploration-fraction", "-0.1"], "--exploration-fraction must be from 0 to 1, got -0.1."),
    (["--start-e", "0.01"], "--end-e must be at most start-e (0.01), got 0.05."),
    (["--upload-model"], "--upload-model is not available in this version; leave it out."),
    (["--env-id", "Pendulum-v1"], CONTINUOUS),
    (["--env-id", "FrozenLake-v1"], "c51 needs a Box observation space; FrozenLake-v1 has Discrete(16)."),
    (["--env-id", "CartPol-v1"], "There is no environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"c51: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_cuda_without_a_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_main(c51, monkeypatch, tmp_path, "--cuda") == 2
    assert "PyTorch finds no CUDA device" in capsys.readouterr().err


# --- schedules ---------------------------------------------------------------------------------------------


def test_exploration_falls_linearly_and_then_stays() -> None:
    args = c51.Args(total_timesteps=1000, start_e=1.0, end_e=0.2, exploration_fraction=0.5)
    found = [c51.exploration(args, step) for step in (0, 250, 500, 900)]
    assert found == pytest.approx([1.0, 0.6, 0.2, 0.2])


def test_without_a_phase_of_exploration_the_last_share_holds_from_the_start() -> None:
    assert c51.exploration(c51.Args(exploration_fraction=0), 0) == 0.05


@pytest.mark.parametrize(("every", "stride"), [(10, 1), (10, 4), (3, 8), (7, 7)])
def test_what_is_due_by_steps_comes_as_often_however_many_environments_there_are(every: int, stride: int) -> None:
    found = sum(c51.multiples_passed(every, step, step + stride) for step in range(0, 840, stride))
    assert found == 840 // every


# --- the arithmetic ----------------------------------------------------------------------------------------


def some_batch(rows: int = 32) -> c51.Batch:
    torch.manual_seed(3)
    return c51.Batch(
        observations=torch.randn(rows, 4),
        next_observations=torch.randn(rows, 4),
        actions=torch.randint(0, 3, (rows, 1)),
        rewards=torch.randn(rows),
        terminated=(torch.rand(rows) < 0.3).float(),
    )


def textbook_projection(
    probabilities: Tensor, rewards: Tensor, terminated: Tensor, args: c51.Args
) -> list[list[float]]:
    """The projection atom by atom, as the paper's algorithm states it."""
    spacing = (args.v_max - args.v_min) / (args.n_atoms - 1)
    rows = []
    for row, reward, end in zip(probabilities.tolist(), rewards.tolist(), terminated.tolist(), strict=True):
        found = [0.0] * args.n_atoms
        for number, probability in enumerate(row):
            atom = args.v_min + number * spacing
            moved = min(max(reward + (0 if end else args.gamma * atom), args.v_min), args.v_max)
            place = (moved - args.v_min) / spacing
            below, above = math.floor(place), math.ceil(place)
            if below == above:
                found[below] += probability
            else:
                found[below] += probability * (above - place)
                found[above] += probability * (place - below)
        rows.append(found)
    return rows


def projected(probabilities: Tensor, rewards: Tensor, terminated: Tensor, args: c51.Args) -> Tensor:
    atoms = torch.linspace(args.v_min, args.v_max, args.n_atoms)
    return c51.project(probabilities, rewards, terminated, atoms, args.gamma)


@pytest.mark.parametrize(
    ("atoms", "low", "high"), [(2, 0.0, 1.0), (11, -5.0, 5.0), (51, -10.0, 30.0), (101, -100.0, 100.0)]
)
def test_the_projection_is_that_of_the_paper(atoms: int, low: float, high: float) -> None:
    args = c51.Args(n_atoms=atoms, v_min=low, v_max=high, gamma=0.9)
    torch.manual_seed(2)
    probabilities = torch.randn(60, atoms).mul(2).softmax(dim=1)
    rewards, terminated = torch.randn(60) * (high - low), (torch.rand(60) < 0.4).float()
    found = projected(probabilities, rewards, terminated, args)
    expected = torch.tensor(textbook_projection(probabilities, rewards, terminated, args))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-5)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(60))


def test_a_terminated_transition_is_worth_its_reward_for_certain() -> None:
    args = c51.Args(n_atoms=5, v_min=-2, v_max=2)
    found = projected(torch.full((3, 5), 0.2), torch.tensor([1.0, 0.5, 9.0]), torch.ones(3), args)
    expected = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1.0]])
    torch.testing.assert_close(found, expected)


def test_the_projection_keeps_the_mean_where_no_atom_leaves_the_range() -> None:
    args = c51.Args(n_atoms=41, v_min=-20, v_max=20, gamma=0.5)
    atoms = torch.linspace(-20, 20, 41)
    probabilities = torch.randn(10, 41).softmax(dim=1)
    rewards = torch.linspace(-5, 5, 10)
    found = projected(probabilities, rewards, torch.zeros(10), args)
    torch.testing.assert_close(found @ atoms, rewards + 0.5 * probabilities @ atoms, rtol=1e-4, atol=1e-4)


SMALL = c51.Args(n_atoms=21, v_min=-5, v_max=5, learning_rate=1e-2, batch_size=32)


def learner_of(args: c51.Args) -> tuple[c51.Learner, c51.QNetwork, c51.QNetwork]:
    torch.manual_seed(1)
    network, target = c51.QNetwork(4, 3, args), c51.QNetwork(4, 3, args)
    return c51.Learner(network, target, args), network, target


def test_gradient_steps_equal_torch_adam_on_the_textbook_loss() -> None:
    learner, network, target = learner_of(SMALL)
    last: Any = target.network[4]
    last.bias.add_(torch.randn(63))  # a target network that differs, as it does between its updates
    reference = c51.QNetwork(4, 3, SMALL).requires_grad_(True)
    reference.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2, eps=0.01 / 32)
    batch, rows = some_batch(), torch.arange(32)
    for _ in range(5):
        after = target(batch.next_observations).softmax(dim=2)
        best = (after * target.atoms).sum(dim=2).argmax(dim=1)
        expected = torch.tensor(textbook_projection(after[rows, best], batch.rewards, batch.terminated, SMALL))
        probabilities = reference(batch.observations)[rows, batch.actions[:, 0]].softmax(dim=1)
        loss = -(expected * probabilities.log()).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        found_loss, found_value = learner.step(batch)
        gradients = nn.utils.parameters_to_vector([p.grad for p in reference.parameters() if p.grad is not None])
        torch.testing.assert_close(learner.gradient, gradients, rtol=1e-3, atol=1e-5)
        optimizer.step()
        assert found_loss.item() == pytest.approx(loss.item(), rel=1e-4)
        value = (probabilities * target.atoms).sum(dim=1).mean().item()
        assert found_value.item() == pytest.approx(value, rel=1e-3, abs=1e-4)
    for mine, theirs in zip(network.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-3, atol=1e-4)


def test_the_target_network_starts_as_the_network_and_only_moves_when_told() -> None:
    learner, network, target = learner_of(SMALL)
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []
    before = learner.target_vector.clone()
    learner.step(some_batch())
    assert torch.equal(learner.target_vector, before) and not torch.equal(learner.vector, before)
    learner.follow()
    assert differing(dict(network.state_dict()), dict(target.state_dict())) == []


def test_acting_in_numpy_agrees_with_the_network_and_follows_its_parameters() -> None:
    learner, network, _ = learner_of(SMALL)
    layers, atoms = network.arrays(), network.atoms.numpy()
    observations = torch.randn(200, 4)
    chosen = []
    for _ in range(2):
        chosen.append(c51.best_actions(layers, atoms, observations.numpy()).tolist())
        assert chosen[-1] == (network(observations).softmax(dim=2) * network.atoms).sum(dim=2).argmax(dim=1).tolist()
        for _ in range(20):
            learner.step(some_batch())
    assert chosen[0] != chosen[1]


# --- the buffer --------------------------------------------------------------------------------------------


def filled_buffer(capacity: int, count: int, *, saved: bool = True) -> c51.ReplayBuffer:
    buffer = c51.ReplayBuffer(capacity, 2, saved)
    for number in range(count):
        here, there = np.full(2, number), np.full(2, number + 1)
        buffer.add(here, there, number % 3, number / 2, number % 2 == 0)
    return buffer


def test_a_full_buffer_forgets_the_oldest_transition() -> None:
    assert sorted(filled_buffer(5, 7).rows[:, 0].tolist()) == [2, 3, 4, 5, 6]


def test_a_batch_holds_whole_transitions_of_the_filled_part() -> None:
    batch = filled_buffer(1000, 6).sample(500, torch.device("cpu"))
    numbers = batch.observations[:, 0]
    assert set(numbers.tolist()) == {0, 1, 2, 3, 4, 5}
    assert torch.equal(batch.next_observations, batch.observations + 1)
    assert torch.equal(batch.actions[:, 0], numbers.long() % 3) and batch.actions.dtype == torch.int64
    assert torch.equal(batch.rewards, numbers / 2)
    assert torch.equal(batch.terminated, (numbers % 2 == 0).float())


def test_the_contents_of_a_buffer_come_back_and_another_size_is_refused() -> None:
    kept = filled_buffer(5, 7).contents
    again = c51.ReplayBuffer(5, 2, True)
    again.contents = kept
    assert torch.equal(again.rows, filled_buffer(5, 7).rows) and (again.position, again.filled) == (2, 5)
    with pytest.raises(ValueError, match="has room for 5 transitions, this run's for 6"):
        c51.ReplayBuffer(6, 2, True).contents = kept


def test_a_buffer_that_is_not_saved_leaves_nothing_in_a_checkpoint() -> None:
    kept = filled_buffer(5, 7, saved=False).contents
    assert (kept["position"], len(kept["rows"])) == (0, 0)


# --- the steps ---------------------------------------------------------------------------------------------


NETWORK = c51.QNetwork(2, 2, c51.Args(n_atoms=11))


def collector_of(count: int = 1, **limits: int) -> tuple[c51.Collector, RecordingSession]:
    session: Any = RecordingSession()
    envs = c51.Environments([Metronome(**limits) for _ in range(count)])
    return c51.Collector(envs, session, c51.ReplayBuffer(100, 2, True), NETWORK.atoms, seed=1), session


@pytest.mark.parametrize(
    ("limits", "terminated"), [({"cut_at": 3}, 0), ({"end_at": 3}, 1), ({"end_at": 3, "cut_at": 3}, 1)]
)
def test_a_transition_ends_in_the_true_last_observation_and_a_time_limit_is_no_end(
    limits: dict[str, int], terminated: int
) -> None:
    collector, session = collector_of(**limits)
    for _ in range(5):
        collector.step(NETWORK.arrays(), epsilon=1.0)
    rows = collector.buffer.rows[:5]
    assert rows[:, :2].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    assert rows[:, 2:4].tolist() == [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2]]
    assert rows[:, -1].tolist() == [0, 0, terminated, 0, 0]
    ((step, values),) = session.rows
    expected = {"charts/episodic_return": rows[:3, -2].sum().item(), "charts/episodic_length": 3, "charts/epsilon": 1.0}
    assert (step, values) == (3, expected)


def test_actions_are_stored_from_zero_whatever_the_environment_calls_them() -> None:
    collector, _ = collector_of()
    for _ in range(60):
        collector.step(NETWORK.arrays(), epsilon=1.0)
    actions, rewards = collector.buffer.rows[:60, -3], collector.buffer.rows[:60, -2]
    assert set(actions.tolist()) == {0, 1} and torch.equal(actions, rewards)


def test_several_environments_fill_the_buffer_side_by_side() -> None:
    collector, session = collector_of(3, end_at=2)
    for _ in range(2):
        collector.step(NETWORK.arrays(), epsilon=0.5)
    assert collector.global_step == collector.buffer.filled == 6
    assert collector.buffer.rows[:6, 1].tolist() == [0, 0, 0, 1, 1, 1]
    assert [step for step, _ in session.rows] == [6, 6, 6]


def test_epsilon_is_the_share_of_random_actions() -> None:
    collector, _ = collector_of(4)
    network = c51.QNetwork(2, 2, c51.Args(n_atoms=11))
    for parameter in network.parameters():
        parameter.zero_()
    last: Any = network.network[4]
    last.bias[-1] = 1.0  # the highest value of the second action
    collector.buffer = c51.ReplayBuffer(20_000, 2, True)
    for _ in range(5000):
        collector.step(network.arrays(), epsilon=0.4)
    assert collector.buffer.rows[:, -3].mean().item() == pytest.approx(0.8, abs=0.015)


# --- the script --------------------------------------------------------------------------------------------


def test_c51_learns_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ["--learning-starts", "1000", "--train-frequency", "4", "--learning-rate", "1e-3"]
    flags = ["--total-timesteps", "12000", "--exploration-fraction", "0.3", *quick, "--seed", "2"]
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 0
    returns = logged_values(tmp_path, "charts/episodic_return")
    assert np.mean(returns[:20]) < 50
    assert np.mean(returns[-20:]) >= 120
    assert max(returns) <= 500


def test_episodes_and_updates_are_logged_under_cleanrl_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(c51, monkeypatch, tmp_path, *SHORT) == 0
    rows = logged_rows(tmp_path)
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    episodes = [values for _, values in rows if "charts/episodic_return" in values]
    assert [step for step, _ in updates] == list(range(300, 1501, 100))
    assert all(values.keys() == UPDATE_TAGS for _, values in updates)
    assert all(values.keys() == EPISODE_TAGS for values in episodes) and len(episodes) > 10
    assert 1000 <= sum(values["charts/episodic_length"] for values in episodes) <= 1500


def test_the_same_seed_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for number, seed in enumerate(("5", "5", "6")):
        assert run_main(c51, monkeypatch, tmp_path / str(number), *SHORT, "--seed", seed) == 0
        found.append(newest_tensors(tmp_path / str(number)))
    first, again, other = found
    assert differing(first, again) == []
    assert "q_network.network.0.weight" in differing(first, other)


def test_checkpoints_come_at_the_interval_and_at_the_end_and_tell_the_size_of_the_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--total-timesteps", "1000", "--num-envs", "3", "--checkpoint-every", "400", "--learning-starts", "100"]
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 0
    manifests = [checkpoints.load(path).manifest for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [402, 804, 1002]
    last = manifests[-1]
    assert (last.algo, last.env_id, last.args["num_envs"]) == ("c51", "CartPole-v1", 3)
    assert last.spaces["action"]["n"] == 2 and last.spaces["observation"]["shape"] == [4]
    assert "The checkpoint at step 402 includes the replay buffer: 402 transitions, 0.0 MB." in capsys.readouterr().out


def test_a_loss_that_is_not_finite_fails_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--learning-rate", "1e30", "--checkpoint-every", "150"]
    assert run_main(c51, monkeypatch, tmp_path, *flags) == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [150]


def test_a_run_too_short_to_learn_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(c51, monkeypatch, tmp_path, "--total-timesteps", "50") == 0
    assert "Nothing will be learned: --learning-starts is 10,000" in capsys.readouterr().out


@pytest.mark.parametrize("envs", ["1", "3"])
@pytest.mark.parametrize("stop_at", [3, 150, 201, 999, 1497], ids=["first", "filling", "learning", "amid", "late"])
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, envs: str
) -> None:
    flags = [*SHORT, "--seed", "7", "--num-envs", envs, "--target-network-frequency", "70"]
    assert run_main(c51, monkeypatch, tmp_path / "whole", *flags) == 0
    stopped = run_until(stop_at, c51, monkeypatch, tmp_path / "half", *flags)
    assert run_main(c51, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_a_run_resumed_without_its_buffer_fills_it_before_it_learns_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = run_until(900, c51, monkeypatch, tmp_path / "half", *SHORT, "--no-save-buffer")
    assert len(checkpoints.load(stopped).tensors["buffer.contents.rows"]) == 0
    assert run_main(c51, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    updates = [step for step, values in logged_rows(tmp_path / "rest") if "charts/SPS" in values]
    assert updates == [1100, 1200, 1300, 1400, 1500]


def test_a_warm_start_takes_over_the_networks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(c51, monkeypatch, tmp_path / "first", *SHORT) == 0
    (path,) = checkpoints_of(tmp_path / "first")
    flags = ["--total-timesteps", "20", "--warm-start", str(path), "--seed", "9"]
    assert run_main(c51, monkeypatch, tmp_path / "second", *flags) == 0
    given, found = newest_tensors(tmp_path / "first"), newest_tensors(tmp_path / "second")
    networks = [name for name in given if "network." in name]
    assert len(networks) == 12 and all(torch.equal(given[name], found[name]) for name in networks)
    assert len(found["buffer.contents.rows"]) == 20 and not found["learner.mean"].any()


def test_a_checkpoint_of_another_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(c51, monkeypatch, tmp_path, "--total-timesteps", "20") == 0
    (path,) = checkpoints_of(tmp_path)
    assert run_main(c51, monkeypatch, tmp_path, "--env-id", "Acrobot-v1", "--warm-start", str(path)) == 2
    assert "its environment is CartPole-v1, this run's is Acrobot-v1" in capsys.readouterr().err


def test_the_script_stands_alone_as_a_file(tmp_path: Path) -> None:
    assert c51.__file__ is not None
    command = [sys.executable, c51.__file__, "--env-id", "Acrobot-v1", "--total-timesteps", "600"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 600 steps" in done.stdout
    assert only_run(tmp_path).name.startswith("Acrobot-v1__c51__1__")
