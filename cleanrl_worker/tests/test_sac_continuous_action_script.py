"""SAC: its arithmetic against the definition, its memory in a world that can be foreseen, the whole script."""

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

from cleanrl_worker.cleanrl import sac_continuous_action as sac
from mosaic_worker.learning.continuous_acting import Player, SquashedGaussianActor
from mosaic_worker.learning.replay_buffer import ContinuousBatch, ContinuousReplayBuffer
from mosaic_worker.learning.temperature import Temperature
from mosaic_worker.learning.twin_critics import TwinCritics
from mosaic_worker.state import checkpoints
from mosaic_worker.tests import script_tools
from mosaic_worker.tests.learning.foreseeable import Echo, Metronome, RecordingSession
from mosaic_worker.tests.script_tools import checkpoints_of, differing, logged_rows, newest_tensors

CLEANRL_DEFAULTS = {
    "exp_name": "sac_continuous_action",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "env_id": "Hopper-v4",
    "total_timesteps": 1_000_000,
    "num_envs": 1,
    "buffer_size": 1_000_000,
    "gamma": 0.99,
    "tau": 0.005,
    "batch_size": 256,
    "learning_starts": 5_000,
    "policy_lr": 3e-4,
    "q_lr": 1e-3,
    "policy_frequency": 2,
    "target_network_frequency": 1,
    "alpha": 0.2,
    "autotune": True,
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
    "losses/alpha",
    "losses/alpha_loss",
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
    return script_tools.run_main(sac, monkeypatch, directory, *flags)


def player_of(
    count: int = 1, args: sac.Args | None = None, actor: sac.Actor | None = None, **limits: int
) -> tuple[Player, RecordingSession]:
    args = args or sac.Args()
    envs = SyncVectorEnv([lambda: Ruler(**limits)] * count, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    session: Any = RecordingSession()
    acting = SquashedGaussianActor(actor or sac.Actor(2, ACTIONS), sac.LOG_STD_RANGE)
    return Player(envs, session, ContinuousReplayBuffer(100, 2, 2), acting, args), session


def learner_of(**changes: Any) -> sac.Learner:
    torch.manual_seed(1)
    return sac.Learner(3, ACTIONS, sac.Args(**changes), CPU)


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
    ours = dataclasses.asdict(sac.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--batch-size", "0"], "--batch-size must be at least 1, got 0."),
    (["--policy-frequency", "0"], "--policy-frequency must be at least 1, got 0."),
    (["--alpha", "-1"], "--alpha must be 0 or more, got -1.0."),
    (["--q-lr", "nan"], "--q-lr must be more than 0, got nan."),
    (["--policy-lr", "0"], "--policy-lr must be more than 0, got 0.0."),
    (["--tau", "1.5"], "--tau must be from 0 to 1, got 1.5."),
    (["--num-envs", "3", "--buffer-size", "2"], "--buffer-size must be at least num-envs (3), got 2."),
    (
        ["--env-id", "CartPole-v1"],
        "sac_continuous_action needs a continuous action space; CartPole-v1 has Discrete(2). Try ppo, dqn or c51.",
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
    assert capsys.readouterr().err == f"sac_continuous_action: {sentence}\n"
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
    actor = fixed_actor(mean=(30.0, -30.0), log_std=-5.0)
    player, _ = player_of(args=sac.Args(learning_starts=1000), actor=actor)
    drawn = np.concatenate([player.choose() for _ in range(500)])
    assert (drawn.min(axis=0) < [-0.9, 0.2]).all() and (drawn.max(axis=0) > [0.9, 3.8]).all()
    warm, _ = player_of(args=sac.Args(learning_starts=1000, warm_start="somewhere"), actor=actor)
    np.testing.assert_allclose(warm.choose(), [[1, 0]], atol=1e-4)


def fixed_actor(mean: tuple[float, float], log_std: float) -> sac.Actor:
    """An actor that pays no attention to what it sees."""
    actor = sac.Actor(2, ACTIONS)
    with torch.no_grad():
        for parameter in actor.parameters():
            parameter.zero_()
        actor.fc_mean.bias.copy_(torch.tensor(mean))
        actor.fc_logstd.bias.fill_(np.arctanh(np.clip((log_std + 1.5) / 3.5, -0.999999, 0.999999)))
    return actor


def test_the_first_random_actions_do_not_follow_the_draws_of_the_environment() -> None:
    envs = SyncVectorEnv([Echo], copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
    session: Any = RecordingSession()
    acting = SquashedGaussianActor(sac.Actor(1, Echo.action_space), sac.LOG_STD_RANGE)
    player = Player(envs, session, ContinuousReplayBuffer(500, 1, 1), acting, sac.Args())
    for _ in range(400):
        player.step()
    seen, action, following = player.replay.kept.numpy()[:, :3].T
    assert abs(np.corrcoef(seen, action)[0, 1]) < 0.2 and abs(np.corrcoef(action, following)[0, 1]) < 0.2


def test_acting_draws_from_the_squashed_gaussian_that_is_trained() -> None:
    torch.manual_seed(1)
    actor = fixed_actor(mean=(0.3, -0.2), log_std=-1.0)
    player, _ = player_of(args=sac.Args(learning_starts=0), actor=actor)
    played = np.concatenate([player.choose() for _ in range(4000)])
    with torch.no_grad():
        trained = actor.sample(torch.zeros(4000, 2))[0].numpy()
    assert all(action in ACTIONS for action in played)
    for share in (0.1, 0.5, 0.9):
        expected = np.tanh(np.array([0.3, -0.2]) + np.exp(-1.0) * NORMAL_QUANTILES[share])
        expected = expected * [1, 2] + [0, 2]
        np.testing.assert_allclose(np.quantile(played, share, axis=0), expected, atol=0.05)
        np.testing.assert_allclose(np.quantile(trained, share, axis=0), expected, atol=0.05)


NORMAL_QUANTILES = {0.1: -1.2816, 0.5: 0.0, 0.9: 1.2816}


# --- learning ----------------------------------------------------------------------------------------------


def textbook_sample(actor: sac.Actor, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = actor.fc2(actor.fc1(observations).relu()).relu()
    log_std = -5 + 0.5 * (2 + 5) * (actor.fc_logstd(hidden).tanh() + 1)
    gaussian = torch.distributions.Normal(actor.fc_mean(hidden), log_std.exp())
    before = gaussian.mean + gaussian.stddev * torch.randn_like(gaussian.mean)
    squashed = before.tanh()
    log_probs = gaussian.log_prob(before) - torch.log(actor.action_scale * (1 - squashed**2) + 1e-6)
    return squashed * actor.action_scale + actor.action_bias, log_probs.sum(dim=1)


def test_log_probabilities_are_those_of_the_squashed_gaussian() -> None:
    learner, batch = learner_of(), some_batch()
    torch.manual_seed(4)
    found = learner.actor.sample(batch.observations)
    torch.manual_seed(4)
    expected = textbook_sample(learner.actor, batch.observations)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_targets_are_the_reward_and_the_lesser_soft_value_of_what_follows() -> None:
    learner, batch = learner_of(gamma=0.9, autotune=False, alpha=0.7), some_batch()
    torch.manual_seed(9)
    found = learner.targets(batch)
    torch.manual_seed(9)
    actions, log_probs = textbook_sample(learner.actor, batch.next_observations)
    inputs = torch.cat([batch.next_observations, actions], dim=1)
    values = torch.min(*(one_by_one(learner.target_critics, number, inputs) for number in (0, 1)))
    expected = [
        reward + (0.0 if ended else 0.9 * (value - 0.7 * log_prob))
        for reward, ended, value, log_prob in zip(
            batch.rewards.tolist(), batch.terminated.tolist(), values.tolist(), log_probs.tolist(), strict=True
        )
    ]
    assert batch.terminated.any()
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_updates_equal_torch_adam_on_the_textbook_losses() -> None:
    learner, batch = learner_of(policy_lr=1e-3, q_lr=1e-2, tau=0.1), some_batch()
    actor, critics = copy.deepcopy(learner.actor), copy.deepcopy(learner.critics)
    target = copy.deepcopy(learner.target_critics)
    log_alpha = torch.zeros(1, requires_grad=True)
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.Adam(critics.parameters(), lr=1e-2)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-2)
    for number in range(1, 5):
        torch.manual_seed(number)
        targets = learner.targets(batch)
        loss: Any = sum(
            torch.nn.functional.mse_loss(one_by_one(critics, which, batch.observations_and_actions), targets)
            for which in (0, 1)
        )
        step(critic_optimizer, loss)
        for _ in range(2 if number % 2 == 0 else 0):
            actions, log_probs = textbook_sample(actor, batch.observations)
            acted = torch.cat([batch.observations, actions], dim=1)
            values = torch.min(*(one_by_one(critics, which, acted) for which in (0, 1)))
            step(actor_optimizer, (log_alpha.exp().item() * log_probs - values).mean())
            step(alpha_optimizer, (-log_alpha.exp() * (log_probs.detach() - 2)).mean())
        for one, other in zip(critics.parameters(), target.parameters(), strict=True):
            other.data = 0.9 * other.data + 0.1 * one.data
        torch.manual_seed(number)
        _, losses = learner.update(batch)
        assert losses.sum().item() == pytest.approx(loss.item(), rel=1e-3)
    assert learner.temperature.log_alpha == pytest.approx(log_alpha.item(), rel=1e-3) != 0
    for mine, theirs in ((learner.actor, actor), (learner.critics, critics), (learner.target_critics, target)):
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.data, other.data, rtol=1e-3, atol=3e-4)


def step(optimizer: torch.optim.Optimizer, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def test_the_temperature_falls_while_the_policy_is_more_random_than_asked_and_stays_when_it_is_not_tuned() -> None:
    temperature = Temperature(-2.0, sac.Args())
    temperature.tune(mean_log_prob=-5.0)
    assert temperature.alpha < 1
    temperature = Temperature(-2.0, sac.Args())
    temperature.tune(mean_log_prob=5.0)
    assert temperature.alpha > 1
    fixed = learner_of(autotune=False, alpha=0.3)
    for _ in range(4):
        fixed.update(some_batch())
    assert fixed.temperature.alpha == pytest.approx(0.3)
    assert Temperature(-2.0, sac.Args(autotune=False, alpha=0.0)).alpha == 0


def test_the_target_network_begins_as_a_copy_and_moves_as_often_as_asked() -> None:
    learner = learner_of(target_network_frequency=3)
    before = learner.target.vector.clone()
    assert torch.equal(before, learner.critic_adam.vector)
    for _ in range(2):
        learner.update(some_batch())
    assert torch.equal(learner.target.vector, before)
    learner.update(some_batch())
    assert not torch.equal(learner.target.vector, before)


# --- the script --------------------------------------------------------------------------------------------


def test_sac_learns_to_play_what_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        gym.registry, "Echo-v0", gym.envs.registration.EnvSpec("Echo-v0", lambda **_: Echo(), max_episode_steps=20)
    )
    flags = ["--learning-starts", "200", "--batch-size", "32", "--policy-lr", "1e-3", "--seed", "1"]
    assert run_main(monkeypatch, tmp_path, "--env-id", "Echo-v0", "--total-timesteps", "1200", *flags) == 0
    returns = script_tools.logged_values(tmp_path, "charts/episodic_return")
    assert np.mean(returns[:10]) < -20
    assert np.mean(returns[-10:]) > -10


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
    stopped = script_tools.run_until(stop_at, sac, monkeypatch, tmp_path / "half", *flags)
    assert run_main(monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []
    whole, rest = (
        checkpoints.read_manifest(checkpoints_of(tmp_path / name)[-1]).state["temperature"]
        for name in ("whole", "rest")
    )
    assert whole == rest and whole["log_alpha"] != 0


def test_without_its_buffer_a_resumed_run_fills_a_new_one_before_it_learns_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SHORT, "--total-timesteps", "200", "--no-save-buffer"]
    stopped = script_tools.run_until(100, sac, monkeypatch, tmp_path / "half", *flags)
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
    said = "Nothing will be learned: --learning-starts is 5,000, the run ends before; --learning-starts 5 would do.\n"
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
    assert 0 < (one["critics.weight_2"] - two["critics.weight_2"]).abs().max() <= 1.1e-3
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
    flags = [*SHORT, "--total-timesteps", "400", "--checkpoint-every", "40", "--q-lr", "1e30"]
    assert run_main(monkeypatch, tmp_path, *flags) == 1
    assert "a lower --q-lr or --policy-lr may help" in capsys.readouterr().err
    kept = [checkpoints.load(path) for path in checkpoints_of(tmp_path)]
    assert [checkpoint.manifest.step for checkpoint in kept] == [40]
    assert all(tensor.isfinite().all() for tensor in kept[0].tensors.values())
