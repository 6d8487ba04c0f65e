"""TD3: its arithmetic against the definition, its memory in a world that can be foreseen, the whole script."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from cleanrl_worker.cleanrl import td3_continuous_action as td3
from mosaic_worker.learning.continuous_acting import Player, TanhActor
from mosaic_worker.learning.replay_buffer import ContinuousBatch, ContinuousReplayBuffer
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.state import checkpoints
from mosaic_worker.tests import script_tools
from mosaic_worker.tests.learning.foreseeable import Echo, Metronome, RecordingSession
from mosaic_worker.tests.script_tools import checkpoints_of, differing, logged_rows, newest_tensors

CLEANRL_DEFAULTS = {
    "exp_name": "td3_continuous_action",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "save_model": False,
    "upload_model": False,
    "hf_entity": "",
    "env_id": "Hopper-v4",
    "total_timesteps": 1_000_000,
    "learning_rate": 3e-4,
    "num_envs": 1,
    "buffer_size": 1_000_000,
    "gamma": 0.99,
    "tau": 0.005,
    "batch_size": 256,
    "policy_noise": 0.2,
    "exploration_noise": 0.1,
    "learning_starts": 25_000,
    "policy_frequency": 2,
    "noise_clip": 0.5,
}
OURS = {"cuda", "torch_threads", "checkpoint_every", "checkpoint_keep", "save_buffer", "resume", "warm_start"}
UPDATE_TAGS = {
    "charts/SPS",
    "losses/qf1_values",
    "losses/qf2_values",
    "losses/qf1_loss",
    "losses/qf2_loss",
    "losses/qf_loss",
    "losses/actor_loss",
}
CPU = torch.device("cpu")
ACTIONS = gym.spaces.Box(np.array([-1, 0], dtype=np.float32), np.array([1, 4], dtype=np.float32))
SHORT = ["--env-id", "Pendulum-v1", "--learning-starts", "50", "--batch-size", "16", "--checkpoint-every", "0"]


class Ruler(Metronome):
    """A step is worth its action's sum."""

    action_space = ACTIONS

    def reward_of(self, action: Any) -> float:
        return float(action.sum())


def run_main(monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> int:
    return script_tools.run_main(td3, monkeypatch, directory, *flags)


def player_of(
    count: int = 1, args: td3.Args | None = None, actor: td3.Actor | None = None, **limits: int
) -> tuple[Player, RecordingSession]:
    args = args or td3.Args()
    envs = SyncVectorEnv([lambda: Ruler(**limits)] * count, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    session: Any = RecordingSession()
    acting = TanhActor(actor or td3.Actor(2, ACTIONS), args.exploration_noise)
    return Player(envs, session, ContinuousReplayBuffer(100, 2, 2), acting, args), session


def learner_of(**changes: Any) -> td3.Learner:
    torch.manual_seed(1)
    return td3.Learner(3, ACTIONS, td3.Args(**changes), CPU)


def some_batch(rows: int = 32) -> ContinuousBatch:
    replay = ContinuousReplayBuffer(rows, 3, 2)
    random = np.random.default_rng(2)
    action = random.uniform(ACTIONS.low, ACTIONS.high, (rows, 2))
    ended = random.random((rows, 1)) < 0.3
    before, after, reward = (random.normal(size=(rows, width)) for width in (3, 3, 1))
    replay.add(before, action, after, reward, ended)
    return replay.sample(rows, CPU)


def one_by_one(critics: TwinCritics, number: int, inputs: torch.Tensor) -> torch.Tensor:
    """A critic taken out of the pair, as an ordinary chain of layers."""
    values = inputs
    for layer in (1, 2, 3):
        weight, bias = getattr(critics, f"weight_{layer}")[number], getattr(critics, f"bias_{layer}")[number]
        values = values @ weight + bias
        values = values.relu() if layer < 3 else values
    return values[:, 0]


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(td3.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--batch-size", "0"], "--batch-size must be at least 1, got 0."),
    (["--policy-frequency", "0"], "--policy-frequency must be at least 1, got 0."),
    (["--exploration-noise", "-1"], "--exploration-noise must be 0 or more, got -1.0."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--tau", "1.5"], "--tau must be from 0 to 1, got 1.5."),
    (["--num-envs", "3", "--buffer-size", "2"], "--buffer-size must be at least num-envs (3), got 2."),
    (["--upload-model"], "--upload-model is not available in this version; leave it out."),
    (
        ["--env-id", "CartPole-v1"],
        "td3_continuous_action needs a continuous action space; CartPole-v1 has Discrete(2). Try ppo, dqn or c51.",
    ),
    (["--env-id", "Pendulm-v1"], "There is no environment 'Pendulm-v1'; did you mean 'Pendulum-v1'?"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"td3_continuous_action: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


# --- playing and remembering -------------------------------------------------------------------------------


def test_a_transition_leads_to_the_observation_the_episode_ended_in_not_to_the_next_one() -> None:
    player, session = player_of(cut_at=2)
    for _ in range(3):
        player.step()
    kept = player.replay.kept.numpy()
    assert kept[:, :2].tolist() == [[0, 0], [0, 1], [1, 0]]
    assert kept[:, 4:6].tolist() == [[0, 1], [0, 2], [1, 1]]
    np.testing.assert_allclose(kept[:, 6], kept[:, 2:4].sum(axis=1), rtol=1e-6)
    assert kept[:, 7].tolist() == [0, 0, 0], "an episode that was cut off is not a terminated one"
    ((step, values),) = session.rows
    assert step == 2 and values["charts/episodic_length"] == 2
    assert values["charts/episodic_return"] == pytest.approx(kept[:2, 6].sum(), rel=1e-6)


def test_only_a_true_end_is_remembered_as_one() -> None:
    player, _ = player_of(count=2, end_at=2)
    for _ in range(2):
        player.step()
    assert player.replay.kept[:, 7].tolist() == [0, 0, 1, 1]


def test_the_first_actions_are_random_unless_the_networks_are_warm() -> None:
    args = td3.Args(learning_starts=1000, exploration_noise=0.0)
    actor = td3.Actor(2, ACTIONS)
    player, _ = player_of(args=args, actor=actor)
    drawn = np.concatenate([player.choose() for _ in range(500)])
    assert (drawn.min(axis=0) < [-0.9, 0.2]).all() and (drawn.max(axis=0) > [0.9, 3.8]).all()
    warm, _ = player_of(args=dataclasses.replace(args, warm_start="somewhere"), actor=actor)
    with torch.no_grad():
        expected = actor(torch.from_numpy(warm.observation)).numpy()
    np.testing.assert_allclose(warm.choose(), expected, rtol=1e-5, atol=1e-6)


def test_the_first_random_actions_do_not_follow_the_draws_of_the_environment() -> None:
    envs = SyncVectorEnv([Echo], copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    session: Any = RecordingSession()
    acting = TanhActor(td3.Actor(1, Echo.action_space), 0.1)
    player = Player(envs, session, ContinuousReplayBuffer(500, 1, 1), acting, td3.Args())
    for _ in range(400):
        player.step()
    seen, action, following = player.replay.kept.numpy()[:, :3].T
    assert abs(np.corrcoef(seen, action)[0, 1]) < 0.2 and abs(np.corrcoef(action, following)[0, 1]) < 0.2


def test_acting_adds_noise_in_units_of_half_the_range_and_keeps_to_the_bounds() -> None:
    actor = td3.Actor(2, ACTIONS)
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.zero_()
    player, _ = player_of(args=td3.Args(learning_starts=0, exploration_noise=0.1), actor=actor)
    drawn = np.concatenate([player.choose() for _ in range(4000)])
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 2], atol=0.02)
    np.testing.assert_allclose(drawn.std(axis=0), [0.1, 0.2], rtol=0.05)
    wild, _ = player_of(args=td3.Args(learning_starts=0, exploration_noise=50), actor=actor)
    assert all(wild.choose()[0] in ACTIONS for _ in range(50))


# --- learning ----------------------------------------------------------------------------------------------


def test_targets_are_the_reward_and_the_lesser_value_of_the_smoothed_next_action() -> None:
    learner, batch = learner_of(gamma=0.9, policy_noise=2.0, noise_clip=0.3), some_batch()
    torch.manual_seed(9)
    found = learner.targets(batch)
    torch.manual_seed(9)
    expected = []
    for noise, row in zip(torch.randn(32, 2), range(32), strict=True):
        action = learner.target_actor(batch.next_observations[row : row + 1])[0]
        for dimension, (low, high) in enumerate(zip(ACTIONS.low.tolist(), ACTIONS.high.tolist(), strict=True)):
            shift = min(max(2.0 * noise[dimension].item(), -0.3), 0.3) * (high - low) / 2
            action[dimension] = min(max(action[dimension].item() + shift, low), high)
        inputs = torch.cat([batch.next_observations[row], action]).unsqueeze(0)
        value = min(one_by_one(learner.target_critics, number, inputs).item() for number in (0, 1))
        future = 0.0 if batch.terminated[row] else 0.9 * value
        expected.append(batch.rewards[row].item() + future)
    assert batch.terminated.any()
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_updates_equal_torch_adam_on_the_textbook_losses() -> None:
    learner, batch = learner_of(learning_rate=1e-2, tau=0.1), some_batch()
    actor, critics = copy.deepcopy(learner.actor), copy.deepcopy(learner.critics)
    target_actor, target_critics = copy.deepcopy(learner.target_actor), copy.deepcopy(learner.target_critics)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-2)
    for number in range(1, 5):
        torch.manual_seed(number)
        targets = learner.targets(batch)
        loss: Any = sum(
            torch.nn.functional.mse_loss(one_by_one(critics, which, batch.observations_and_actions), targets)
            for which in (0, 1)
        )
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        if number % 2 == 0:
            acted = torch.cat([batch.observations, actor(batch.observations)], dim=1)
            actor_optimizer.zero_grad()
            (-one_by_one(critics, 0, acted).mean()).backward()
            actor_optimizer.step()
            for net, target in ((actor, target_actor), (critics, target_critics)):
                for one, other in zip(net.parameters(), target.parameters(), strict=True):
                    other.data = 0.9 * other.data + 0.1 * one.data
        torch.manual_seed(number)
        _, losses = learner.update(batch)
        assert losses.sum().item() == pytest.approx(loss.item(), rel=1e-4)
    pairs = [(learner.actor, actor), (learner.critics, critics)]
    for mine, theirs in [*pairs, (learner.target_actor, target_actor), (learner.target_critics, target_critics)]:
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.data, other.data, rtol=1e-3, atol=1e-4)


def test_target_networks_begin_as_copies_and_stay_put_between_actor_updates() -> None:
    learner = learner_of(policy_frequency=3)
    before = learner.followers[1].vector.clone()
    assert torch.equal(before, learner.critic_adam.vector)
    for _ in range(2):
        learner.update(some_batch())
    assert torch.equal(learner.followers[1].vector, before)
    learner.update(some_batch())
    assert not torch.equal(learner.followers[1].vector, before)


# --- the script --------------------------------------------------------------------------------------------


def test_td3_learns_to_play_what_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        gym.registry, "Echo-v0", gym.envs.registration.EnvSpec("Echo-v0", lambda **_: Echo(), max_episode_steps=20)
    )
    flags = ["--learning-starts", "200", "--batch-size", "32", "--learning-rate", "1e-3", "--seed", "1"]
    assert run_main(monkeypatch, tmp_path, "--env-id", "Echo-v0", "--total-timesteps", "1200", *flags) == 0
    returns = script_tools.logged_values(tmp_path, "charts/episodic_return")
    assert np.mean(returns[:10]) < -20
    assert np.mean(returns[-10:]) > -6


def test_updates_are_logged_every_hundred_steps_under_cleanrl_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(monkeypatch, tmp_path, *SHORT, "--total-timesteps", "450") == 0
    rows = logged_rows(tmp_path)
    updates = [(step, set(values)) for step, values in rows if "charts/SPS" in values]
    assert updates == [(step, UPDATE_TAGS) for step in (100, 200, 300, 400)]
    episodes = [(step, values["charts/episodic_length"]) for step, values in rows if "charts/SPS" not in values]
    assert episodes == [(200, 200), (400, 200)]


def test_the_same_seed_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seed in (("first", "5"), ("again", "5"), ("other", "6")):
        flags = [*SHORT, "--total-timesteps", "200", "--seed", seed]
        assert run_main(monkeypatch, tmp_path / name, *flags) == 0
    first, again, other = (newest_tensors(tmp_path / name) for name in ("first", "again", "other"))
    assert differing(first, again) == [] and differing(first, other) != []


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param([], id="plain", marks=pytest.mark.nightly),
        pytest.param(["--num-envs", "3", "--buffer-size", "100"], id="three envs"),
    ],
)
@pytest.mark.parametrize(
    "stop_at",
    [
        pytest.param(3, id="before learning", marks=pytest.mark.nightly),
        pytest.param(51, id="first update", marks=pytest.mark.nightly),
        pytest.param(252, id="amid"),
    ],
)
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, extra: list[str]
) -> None:
    flags = [*SHORT, "--total-timesteps", "330", "--seed", "7", *extra]
    assert run_main(monkeypatch, tmp_path / "whole", *flags) == 0
    stopped = script_tools.run_until(stop_at, td3, monkeypatch, tmp_path / "half", *flags)
    assert run_main(monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_without_its_buffer_a_resumed_run_fills_a_new_one_before_it_learns_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--total-timesteps", "200", "--no-save-buffer"]
    stopped = script_tools.run_until(100, td3, monkeypatch, tmp_path / "half", *flags)
    before = checkpoints.load(stopped).tensors
    assert not any(name.startswith("replay") for name in before)
    assert "transitions" not in capsys.readouterr().out
    assert run_main(monkeypatch, tmp_path / "short", "--resume", str(stopped), "--total-timesteps", "140") == 0
    assert torch.equal(newest_tensors(tmp_path / "short")["critics.weight_1"], before["critics.weight_1"])
    assert run_main(monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert not torch.equal(newest_tensors(tmp_path / "rest")["critics.weight_1"], before["critics.weight_1"])


def test_the_size_of_a_saved_buffer_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--total-timesteps", "1500", "--checkpoint-every", "1000", "--learning-starts", "1400"]
    assert run_main(monkeypatch, tmp_path, *flags) == 0
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [1000, 1500]
    said = capsys.readouterr().out
    assert "The checkpoint at step 1,500 holds 1,500 transitions, 0.1 MB." in said


def test_a_run_that_ends_before_learning_starts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path, "--env-id", "Pendulum-v1", "--total-timesteps", "100") == 0
    said = "Nothing will be learned: --learning-starts is 25,000, the run ends before; --learning-starts 5 would do.\n"
    assert said in capsys.readouterr().out


def test_a_buffer_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path / "one", *SHORT, "--total-timesteps", "100") == 0
    (path,) = checkpoints_of(tmp_path / "one")
    assert run_main(monkeypatch, tmp_path / "two", "--resume", str(path), "--buffer-size", "60") == 2
    assert "its replay buffer holds 100 transitions, this run's 60 at most" in capsys.readouterr().err
    assert run_main(monkeypatch, tmp_path / "full", *SHORT, "--total-timesteps", "100", "--buffer-size", "80") == 0
    (path,) = checkpoints_of(tmp_path / "full")
    assert run_main(monkeypatch, tmp_path / "larger", "--resume", str(path), "--buffer-size", "160") == 2
    assert "has room for 80 transitions, this run's for 160; leave --buffer-size as it was" in capsys.readouterr().err


def test_a_warm_start_takes_the_networks_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, tmp_path / "one", *SHORT, "--total-timesteps", "120") == 0
    (path,) = checkpoints_of(tmp_path / "one")
    flags = [*SHORT, "--total-timesteps", "60", "--learning-starts", "59", "--warm-start", str(path)]
    assert run_main(monkeypatch, tmp_path / "two", *flags) == 0
    # One update was made, and it is Adam's first: the critics moved by about one step size, the actor not at all.
    one, two = newest_tensors(tmp_path / "one"), newest_tensors(tmp_path / "two")
    assert torch.equal(one["actor.fc2.weight"], two["actor.fc2.weight"])
    assert 0 < (one["critics.weight_2"] - two["critics.weight_2"]).abs().max() <= 3.1e-4
    assert two["critic_adam.steps"] == 1 and len(two["replay.kept"]) == 60


def test_a_checkpoint_of_another_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path / "one", *SHORT, "--total-timesteps", "60") == 0
    (path,) = checkpoints_of(tmp_path / "one")
    other = ["--env-id", "MountainCarContinuous-v0", "--warm-start", str(path)]
    assert run_main(monkeypatch, tmp_path / "two", *SHORT, *other) == 2
    assert "its environment is Pendulum-v1, this run's is MountainCarContinuous-v0" in capsys.readouterr().err


def test_networks_that_are_not_finite_fail_the_run_and_keep_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--total-timesteps", "400", "--checkpoint-every", "40", "--learning-rate", "1e30"]
    assert run_main(monkeypatch, tmp_path, *flags) == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    kept = [checkpoints.load(path) for path in checkpoints_of(tmp_path)]
    assert [checkpoint.manifest.step for checkpoint in kept] == [40]
    assert all(tensor.isfinite().all() for tensor in kept[0].tensors.values())
