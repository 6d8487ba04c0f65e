"""PPO with curiosity: its normalisers, returns and losses against their definitions, both players, the whole script."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from cleanrl_worker import envpool_games
from cleanrl_worker.atari import AtariGames
from cleanrl_worker.cleanrl import ppo_rnd_envpool as rnd
from cleanrl_worker.envpool_games import EnvPoolGames
from mosaic_worker.learning import curiosity as curiosity_module
from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.learning.curiosity import (
    FRAME_CHANNELS,
    CuriosityScale,
    CuriousBatch,
    CuriousCollector,
    CuriousRollout,
    Moments,
    curious_batch_of,
    past_resets,
)
from mosaic_worker.learning.folding import folded_shape
from mosaic_worker.state import checkpoints
from mosaic_worker.state.tensor_kinds import of_this_process
from mosaic_worker.tests.learning.foreseeable import RecordingSession
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    newest_tensors,
    only_run,
    run_main,
)
from mosaic_worker.training.session import TrainingSession

CLEANRL_DEFAULTS = {
    "exp_name": "ppo_rnd_envpool",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "env_id": "MontezumaRevenge-v5",
    "total_timesteps": 2_000_000_000,
    "learning_rate": 1e-4,
    "num_envs": 128,
    "num_steps": 128,
    "anneal_lr": True,
    "gamma": 0.999,
    "gae_lambda": 0.95,
    "num_minibatches": 4,
    "update_epochs": 4,
    "norm_adv": True,
    "clip_coef": 0.1,
    "clip_vloss": True,
    "ent_coef": 0.001,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
    "sticky_action": True,
    "update_proportion": 0.25,
    "int_coef": 1.0,
    "ext_coef": 2.0,
    "int_gamma": 0.99,
    "num_iterations_obs_norm_init": 50,
}
OURS = {"cuda", "env_backend", "torch_threads", "checkpoint_every", "checkpoint_keep", "resume", "warm_start"}
EPISODE_TAGS = {
    "charts/avg_episodic_return",
    "charts/episodic_return",
    "charts/episode_curiosity_reward",
    "charts/episodic_length",
}
UPDATE_TAGS = {
    "charts/SPS",
    "charts/learning_rate",
    "losses/value_loss",
    "losses/policy_loss",
    "losses/entropy",
    "losses/fwd_loss",
    "losses/old_approx_kl",
    "losses/approx_kl",
}
SMALL = [
    *("--env-id", "Breakout-v5", "--num-envs", "2", "--num-steps", "16", "--num-minibatches", "2"),
    *("--update-epochs", "2", "--num-iterations-obs-norm-init", "1"),
]
CPU = torch.device("cpu")
PLAYS = "ppo_rnd_envpool plays Atari games, and"


FOLDED = folded_shape(4, 84)


def some_pictures(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(256, size=(*shape, *FOLDED), dtype=np.uint8)


def a_normaliser(envs: int = 2) -> CuriosityScale:
    normaliser = CuriosityScale(envs, 84, 0.99, CPU)
    normaliser.pictures.update(some_pictures(50, seed=9)[..., -FRAME_CHANNELS:])
    return normaliser


def some_batch(rows: int = 10) -> CuriousBatch:
    torch.manual_seed(3)
    return CuriousBatch(
        envs=2,
        real=torch.arange(rows),
        observations=torch.from_numpy(some_pictures(rows + 2)),
        actions=torch.randint(0, 3, (rows,)),
        log_probs=-torch.rand(rows) * 2,
        advantages=torch.randn(rows) * 5,
        ext_returns=torch.randn(rows),
        int_returns=torch.randn(rows),
        ext_values=torch.randn(rows),
    )


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(rnd.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--num-envs", "0"], "--num-envs must be at least 1, got 0."),
        (["--num-steps", "1"], "--num-steps must be at least 2, got 1."),
        (["--env-backend", "alle"], "--env-backend must be auto, envpool or ale, got 'alle'."),
        (["--update-proportion", "1.5"], "--update-proportion must be from 0 to 1, got 1.5."),
        (["--update-proportion", "0"], "--update-proportion must be more than 0, got 0.0."),
        (["--int-gamma", "-0.1"], "--int-gamma must be from 0 to 1, got -0.1."),
        (["--ext-coef", "-1"], "--ext-coef must be 0 or more, got -1.0."),
        (
            ["--env-id", "Montezuma-v5"],
            f"{PLAYS} there is no Atari game 'Montezuma-v5'; did you mean 'MontezumaRevenge-v5'?",
        ),
        (
            ["--env-id", "Ant-v5", "--env-backend", "envpool"],
            f"{PLAYS} Ant-v5 is none: try an algorithm for Gymnasium's environments, such as ppo",
        ),
        (
            ["--env-id", "CartPole-v1", "--env-backend", "ale"],
            f"{PLAYS} CartPole-v1 is none: try an algorithm for Gymnasium's environments, such as ppo",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(rnd, monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"ppo_rnd_envpool: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Make a package look as if it were not installed: neither found nor imported."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == module else real(name, *rest))
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)


def test_envpool_that_is_asked_for_and_missing_is_an_error_with_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "envpool")
    assert run_main(rnd, monkeypatch, tmp_path, "--env-backend", "envpool") == 2
    said = capsys.readouterr().err
    assert said.startswith("ppo_rnd_envpool: ppo_rnd_envpool needs the envpool extra (")
    assert said.endswith("Install it with: python -m cleanrl_worker.tools.install_extras --set envpool\n")


def test_without_envpool_the_emulator_plays_and_says_that_it_is_slower(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "envpool")
    games = rnd.make_envs(rnd.Args(num_envs=1))
    assert isinstance(games, AtariGames)
    said = "EnvPool is not installed: ale_py plays the games instead, in one thread, which is slower.\n"
    assert capsys.readouterr().out == said


def test_with_envpool_it_plays_unless_the_emulator_is_asked_for() -> None:
    assert isinstance(rnd.make_envs(rnd.Args(num_envs=1)), EnvPoolGames)
    assert isinstance(rnd.make_envs(rnd.Args(num_envs=1, env_backend="ale")), AtariGames)


# --- EnvPool's games ---------------------------------------------------------------------------------------


def test_the_step_after_an_end_only_resets_in_envpool() -> None:
    """Its action does not matter, it pays nothing, and it is marked."""
    games = [EnvPoolGames("Breakout-v5", 3, 5, sticky=0.0) for _ in range(2)]
    random = np.random.default_rng(1)
    ends = resets = 0
    before = np.zeros(3, dtype=bool)
    for _ in range(150):
        actions = random.integers(4, size=3)
        other = np.where(before, (actions + 1) % 4, actions)
        found, same = games[0].step(actions), games[1].step(other)
        assert np.array_equal(found.resets, before)
        assert np.array_equal(games[0].observations, games[1].observations)
        assert not found.rewards[before].any()
        assert np.array_equal(found.terminated, same.terminated)
        before = found.terminated | found.truncated
        ends, resets = ends + int(before.sum()), resets + int(found.resets.sum())
    assert ends >= 10 and abs(ends - resets) <= 3


def test_the_score_in_envpool_is_of_the_whole_game_unclipped() -> None:
    games = EnvPoolGames("SpaceInvaders-v5", 2, 1, sticky=0.0)
    random = np.random.default_rng(0)
    totals, lengths = np.zeros(2), np.zeros(2)
    while True:
        found = games.step(random.integers(6, size=2))
        totals += found.rewards
        lengths += ~found.resets
        if found.finished:
            break
    for number, score, frames in found.finished:
        assert score == totals[number] and frames == 4 * lengths[number]
    assert max(score for _, score, _ in found.finished) >= 5


def test_names_of_envpool_are_atari_games_only() -> None:
    assert envpool_games.envpool_name("ALE/Pong-v5") == envpool_games.envpool_name("PongNoFrameskip-v4") == "Pong-v5"
    assert "Ant-v5" not in envpool_games.known_names("atari")
    assert "CoinrunEasy-v0" in envpool_games.known_names("procgen")


# --- normalisers -------------------------------------------------------------------------------------------


def test_moments_merged_batch_by_batch_are_those_of_everything() -> None:
    values = np.random.default_rng(0).normal(3, 2, size=(500, 4))
    moments = Moments((4,))
    for part in np.array_split(values, [7, 8, 200]):
        moments.update(part)
    assert moments.count == pytest.approx(500, abs=1e-3)
    np.testing.assert_allclose(moments.mean, values.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(moments.variance, values.var(axis=0), rtol=1e-4)


def test_pictures_are_whitened_and_cut_at_five_standard_deviations() -> None:
    normaliser = CuriosityScale(1, 84, 0.99, CPU)
    seen = some_pictures(200)[..., -16:].astype(np.int64) // 4
    normaliser.pictures.update(seen)
    pictures = torch.zeros(2, *FOLDED, dtype=torch.uint8)
    pictures[1] = 255
    found = normaliser.normalised(pictures)
    expected = (0 - seen.mean(axis=0)) / seen.std(axis=0)
    np.testing.assert_allclose(found[0], expected, rtol=1e-3, atol=1e-3)
    assert (found[1] == 5).all()


def test_curiosity_is_divided_by_the_spread_of_its_discounted_sum_along_time() -> None:
    random = np.random.default_rng(2)
    normaliser = CuriosityScale(3, 84, 0.9, CPU)
    never = np.zeros((5, 3), dtype=bool)
    first, second = random.random((2, 5, 3)).astype(np.float32)
    normaliser.scaled(first, never)
    found = normaliser.scaled(second, never)
    running, sums = np.zeros(3), []
    for row in [*first, *second]:
        running = running * 0.9 + row
        sums.append(running)
    np.testing.assert_allclose(found, second / np.std(sums), rtol=1e-3)


def test_a_row_that_resets_leaves_the_discounted_sum_alone() -> None:
    normaliser = CuriosityScale(1, 84, 0.5, CPU)
    resets = np.array([[False], [True], [False]])
    normaliser.scaled(np.array([[4.0], [0.0], [1.0]], dtype=np.float32), resets)
    assert normaliser.running.tolist() == [4.0 * 0.5 + 1]


# --- returns -----------------------------------------------------------------------------------------------


def without_resets(array: Any, resets: Any, env: int) -> Any:
    return array[~resets[:, env], env]


def test_estimates_with_rows_that_reset_are_those_without_them() -> None:
    """The same game as if it had been reset within the step that ended it."""
    random = np.random.default_rng(3)
    steps, envs = 14, 4
    rewards, values = random.normal(size=(2, steps, envs)).astype(np.float32)
    last = random.normal(size=envs).astype(np.float32)
    next_values = np.concatenate([values[1:], last[None]])
    ends = random.random((steps, envs)) < 0.2
    resets = np.zeros_like(ends)
    for step in range(1, steps):  # a row that resets ends nothing
        ends[step] &= ~ends[step - 1]
        resets[step] = ends[step - 1]
    ends[-1] = False
    never = np.zeros_like(ends)
    ext = advantages_of(rewards, values, next_values, ends, never, 0.9, 0.8, resets)
    beyond = past_resets(next_values, resets)
    int_ = advantages_of(rewards, values, beyond, never, never, 0.9, 0.8, resets)
    assert resets.sum() > 4
    for env in range(envs):
        plain_rewards, plain_values, plain_ends = (
            without_resets(array, resets, env) for array in (rewards, values, ends)
        )
        plain_next = np.append(plain_values[1:], last[env])
        for found, is_end in (ext, plain_ends), (int_, np.zeros_like(plain_ends)):
            following, expected = 0.0, []
            rows = list(zip(plain_rewards, plain_values, plain_next, is_end, strict=True))
            for reward, value, later, end in reversed(rows):
                following = reward + (0 if end else 0.9 * later) - value + (0 if end else 0.72 * following)
                expected.append(following)
            np.testing.assert_allclose(without_resets(found, resets, env), expected[::-1], rtol=1e-4, atol=1e-5)


def test_curiosity_goes_on_over_the_end_of_an_episode_and_the_games_rewards_do_not() -> None:
    rewards = np.array([[0.0], [0.0], [1.0]], dtype=np.float32)
    nothing = np.zeros((3, 1), dtype=np.float32)
    ends = np.array([[False], [True], [False]])
    never = np.zeros_like(ends)
    episodic = advantages_of(rewards, nothing, nothing, ends, never, 0.5, 1.0, never)
    ongoing = advantages_of(rewards, nothing, nothing, never, never, 0.5, 1.0, never)
    assert episodic[:, 0].tolist() == [0, 0, 1]
    assert ongoing[:, 0].tolist() == [0.25, 0.5, 1]


def a_rollout(steps: int = 6, envs: int = 2) -> CuriousRollout:
    random = np.random.default_rng(4)
    rollout = CuriousRollout(steps, envs, FOLDED)
    rollout.observations[:] = some_pictures(steps + 1, envs)
    rollout.values[:] = random.normal(size=rollout.values.shape)
    rollout.rewards[:] = random.normal(size=rollout.rewards.shape)
    rollout.actions[:] = np.arange(steps * envs).reshape(steps, envs)
    return rollout


def test_rows_that_reset_are_left_out_of_what_is_learned() -> None:
    rollout = a_rollout()
    rollout.terminated[2, 1] = rollout.resets[3, 1] = True
    batch = curious_batch_of(rollout, rollout.curiosity, rnd.Args(), CPU)
    assert batch.actions[batch.real].tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert np.array_equal(batch.observations[8], rollout.observations[4, 0])
    assert np.array_equal(batch.next_pictures(torch.tensor([8]))[0], rollout.observations[5, 0, ..., -16:])
    learner = rnd.Learner(rnd.Agent(12), rnd.Curiosity(), a_normaliser(), rnd.Args(update_epochs=1))
    rollout.actions[3, 1] = 10**9  # would not fit if it were ever looked at
    batch = curious_batch_of(rollout, rollout.curiosity, rnd.Args(), CPU)
    assert "losses/fwd_loss" in learner.update(batch) and learner.adam.steps == 4


def test_both_advantages_are_weighed_and_added() -> None:
    rollout = a_rollout()
    curiosity = np.abs(rollout.rewards) + 1
    both, ext, int_ = (
        curious_batch_of(rollout, curiosity, rnd.Args(ext_coef=e, int_coef=i), CPU).advantages
        for e, i in ((2.0, 3.0), (1.0, 0.0), (0.0, 1.0))
    )
    torch.testing.assert_close(both, 2 * ext + 3 * int_, rtol=1e-4, atol=1e-5)


def test_a_game_cut_off_by_the_time_limit_is_worth_the_value_of_its_last_picture() -> None:
    rollout = a_rollout()
    rollout.truncated[2, 0] = True
    rollout.cut_off.append((2, 0, 7.0))
    args = rnd.Args()
    batch = curious_batch_of(rollout, rollout.curiosity, args, CPU)
    assert batch.ext_returns[4].item() == pytest.approx(float(rollout.rewards[2, 0]) + args.gamma * 7, abs=1e-4)


# --- the update --------------------------------------------------------------------------------------------


def unfolded(pictures: torch.Tensor) -> torch.Tensor:
    """Folded pictures by the definition of folding."""
    frames = pictures.shape[-1] // 16
    found = torch.zeros(len(pictures), frames, 84, 84)
    for channel in range(pictures.shape[-1]):
        frame, row, column = channel // 16, channel % 16 // 4, channel % 4
        found[:, frame, row::4, column::4] = pictures[..., channel].float()
    return found


def textbook_loss(
    agent: rnd.Agent,
    curiosity: rnd.Curiosity,
    batch: CuriousBatch,
    learned: torch.Tensor,
    args: rnd.Args,
    pictures: Any,
) -> Any:
    hidden = agent.network(unfolded(batch.observations[:-2]) / 255)
    policy = Categorical(logits=agent.actor(hidden))
    ratio = (policy.log_prob(batch.actions) - batch.log_probs).exp()
    advantage = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef) * advantage)
    features = agent.extra_layer(hidden) + hidden
    ext, int_ = agent.critic_ext(features)[:, 0], agent.critic_int(features)[:, 0]
    near = batch.ext_values + (ext - batch.ext_values).clamp(-args.clip_coef, args.clip_coef)
    ext_loss = torch.max((ext - batch.ext_returns) ** 2, (near - batch.ext_returns) ** 2).mean()
    value_loss = 0.5 * ext_loss + 0.5 * ((int_ - batch.int_returns) ** 2).mean()
    frames = unfolded(pictures)
    errors = ((curiosity.predictor(frames) - curiosity.target(frames).detach()) ** 2).mean(dim=1)
    forward = (errors * learned).sum() / learned.sum()
    return -surrogate.mean() - args.ent_coef * policy.entropy().mean() + args.vf_coef * value_loss + forward


def test_gradient_steps_equal_torch_adam_on_the_textbook_loss_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnd, "ROWS_AT_ONCE", 4)
    args = rnd.Args(learning_rate=1e-3, update_proportion=0.5)
    torch.manual_seed(1)
    agent, curiosity, normaliser = rnd.Agent(3), rnd.Curiosity(), a_normaliser()
    other_agent, other_curiosity = rnd.Agent(3), rnd.Curiosity()
    other_agent.load_state_dict(agent.state_dict())
    other_curiosity.load_state_dict(curiosity.state_dict())
    learner = rnd.Learner(agent, curiosity, normaliser, args)
    parameters = [*other_agent.parameters(), *other_curiosity.predictor.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, eps=1e-5)
    batch = some_batch()
    pictures = normaliser.normalised(batch.observations[2:])
    for _ in range(2):
        drawn = torch.get_rng_state()
        learned = (torch.rand(10) < 0.5).float()
        torch.set_rng_state(drawn)
        loss = textbook_loss(other_agent, other_curiosity, batch, learned, args, pictures)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, args.max_grad_norm)
        optimizer.step()
        assert learner.step(batch, batch.real).total.item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-4)
    mine = [*agent.parameters(), *curiosity.predictor.parameters()]
    for one, other in zip(mine, parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=3e-4)


def test_what_is_seen_often_becomes_dull_and_the_random_network_stays_as_it_was() -> None:
    torch.manual_seed(2)
    agent, curiosity = rnd.Agent(3), rnd.Curiosity()
    normaliser = a_normaliser()
    fixed = [one.clone() for one in curiosity.target.parameters()]
    learner = rnd.Learner(agent, curiosity, normaliser, rnd.Args(update_proportion=1.0, learning_rate=1e-3))
    batch = some_batch(16)
    losses = [learner.step(batch, batch.real).forward.item() for _ in range(20)]
    assert losses[-1] < 0.4 * losses[0]
    assert all(map(torch.equal, fixed, curiosity.target.parameters()))
    with torch.no_grad():
        seen = curiosity.errors(normaliser.normalised(batch.next_pictures(batch.real))).mean()
        other = torch.zeros(16, *FOLDED, dtype=torch.uint8)
        assert curiosity.errors(normaliser.normalised(other)).mean() > 2 * seen


# --- the rollout -------------------------------------------------------------------------------------------


def test_curiosity_is_the_error_on_the_picture_that_a_step_leads_to_and_none_for_a_reset() -> None:
    args = rnd.Args(num_envs=2, num_steps=60)
    session: Any = RecordingSession()
    agent, curiosity, normaliser = rnd.Agent(4), rnd.Curiosity(), a_normaliser()
    games = EnvPoolGames("Breakout-v5", 2, 1, sticky=0.0)
    rollout = CuriousCollector(games, session, agent, curiosity, normaliser, args, CPU).collect()
    assert rollout is not None and rollout.resets.any()
    assert not rollout.curiosity[rollout.resets].any() and (rollout.curiosity[~rollout.resets] > 0).all()
    with torch.no_grad():
        expected = curiosity.errors(normaliser.normalised(torch.from_numpy(rollout.observations[8])))
    np.testing.assert_allclose(rollout.curiosity[7], expected * ~torch.from_numpy(rollout.resets[7]), rtol=1e-4)


# --- the script --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["envpool", "ale"])
def test_a_run_ends_with_a_checkpoint_and_every_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    flags = [*SMALL, "--num-steps", "80", "--env-backend", backend, "--total-timesteps", "300"]
    assert run_main(rnd, monkeypatch, tmp_path, *flags, "--checkpoint-every", "160", "--update-epochs", "1") == 0
    rows = logged_rows(tmp_path)
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    episodes = [values for _, values in rows if EPISODE_TAGS & values.keys()]
    assert [step for step, _ in updates] == [160, 320]
    assert all(values.keys() == UPDATE_TAGS for _, values in updates)
    assert episodes and all(values.keys() == EPISODE_TAGS for values in episodes)
    assert all(values["charts/episode_curiosity_reward"] > 0 for values in episodes)
    manifests = [checkpoints.load(path).manifest for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [160, 320]
    assert (manifests[-1].algo, manifests[-1].env_id) == ("ppo_rnd_envpool", "Breakout-v5")


def stop_at(step: int, monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> Path:
    """Run until the session is asked to stop at a step; returns the only checkpoint that is left."""
    original = TrainingSession.safe_point

    def stopping(session: TrainingSession, now: int) -> None:
        session.stop_requested = session.stop_requested or now >= step
        original(session, now)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingSession, "safe_point", stopping)
        assert run_main(rnd, patch, directory, *flags) == 0
    (stopped,) = checkpoints_of(directory)
    return stopped


RESUME_FLAGS = [*SMALL, "--total-timesteps", "96", "--seed", "7", "--checkpoint-every", "0"]


def test_with_ale_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the very start, within a rollout, and within an update: it falls back to the beginning of the rollout."""
    flags = [*RESUME_FLAGS, "--env-backend", "ale"]
    assert run_main(rnd, monkeypatch, tmp_path / "whole", *flags) == 0
    expected = newest_tensors(tmp_path / "whole")
    for asked_at, kept in ((0, 0), (40, 32), (64, 32)):
        stopped = stop_at(asked_at, monkeypatch, tmp_path / f"half {asked_at}", *flags)
        assert checkpoints.read_manifest(stopped).step == kept
        rest = tmp_path / f"rest {asked_at}"
        assert run_main(rnd, monkeypatch, rest, "--resume", str(stopped)) == 0
        assert differing(expected, newest_tensors(rest)) == []


def test_with_envpool_a_resumed_run_begins_new_episodes_says_so_and_keeps_all_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = stop_at(40, monkeypatch, tmp_path / "half", *RESUME_FLAGS)
    capsys.readouterr()
    original = TrainingSession.restore
    restored: list[Any] = []

    def restoring(session: TrainingSession, state: Any, *paths: Any) -> None:
        original(session, state, *paths)
        restored.extend(state.capture())

    monkeypatch.setattr(TrainingSession, "restore", restoring)
    assert run_main(rnd, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert "EnvPool's games cannot be kept in a checkpoint: new episodes begin" in capsys.readouterr().out
    before = checkpoints.load(stopped)
    tensors, state = restored
    assert before.manifest.step == 32
    assert differing(before.tensors, of_this_process(tensors)) == []
    assert state == before.manifest.state
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "rest")[-1]).step == 96
    assert run_main(rnd, monkeypatch, tmp_path / "more", "--resume", str(stopped), "--num-envs", "3") == 2
    assert "cannot be used: the checkpoint has 2 games, this run has 3" in capsys.readouterr().err


def test_new_episodes_of_a_resumed_run_are_not_those_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = stop_at(40, monkeypatch, tmp_path, *RESUME_FLAGS)
    args = rnd.Args(env_id="Breakout-v5", num_envs=4, seed=7)
    first, later = rnd.make_envs(args), rnd.make_envs(dataclasses.replace(args, resume=str(stopped)))
    assert not np.array_equal(first.observations, later.observations)


def test_the_same_seed_gives_the_same_parameters_with_envpool_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        flags = [*SMALL, "--total-timesteps", "32", "--env-backend", "envpool", "--seed", str(seed)]
        assert run_main(rnd, monkeypatch, tmp_path / name, *flags) == 0
        found.append(newest_tensors(tmp_path / name))
    assert differing(found[0], found[1]) == []
    assert "agent.actor.0.weight" in differing(found[0], found[2])


def test_a_warm_start_takes_all_networks_over_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(rnd, monkeypatch, tmp_path / "first", *SMALL, "--total-timesteps", "32") == 0
    (path,) = checkpoints_of(tmp_path / "first")
    stopped = stop_at(0, monkeypatch, tmp_path / "second", *SMALL, "--warm-start", str(path))
    old, new = checkpoints.load(path), checkpoints.load(stopped)
    networks = [name for name in old.tensors if name.startswith(("agent.", "curiosity."))]
    assert all(torch.equal(old.tensors[name], new.tensors[name]) for name in networks)
    assert {name.split(".")[1] for name in networks} >= {"network", "actor", "predictor", "target"}
    assert not new.tensors["learner.mean"].any() and old.tensors["learner.mean"].any()


def test_a_loss_that_is_not_finite_fails_the_run_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = curiosity_module.past_resets
    monkeypatch.setattr(curiosity_module, "past_resets", lambda *arguments: original(*arguments) * np.nan)
    assert run_main(rnd, monkeypatch, tmp_path, *SMALL, "--total-timesteps", "64") == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert checkpoints_of(tmp_path) == []


def test_a_loaded_policy_plays_as_the_checkpoint_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(rnd, monkeypatch, tmp_path, *SMALL, "--total-timesteps", "32") == 0
    checkpoint = checkpoints.load(checkpoints_of(tmp_path)[-1])
    args = rnd.Args(**checkpoint.manifest.args)
    policy = rnd.load_policy(checkpoint, args)
    env = rnd.make_evaluation_env(args)
    observation, _ = env.reset(seed=1)
    agent = rnd.Agent(4)
    own = {name: value for name, value in checkpoint.tensors.items() if name.startswith("agent.")}
    agent.load_state_dict({name.removeprefix("agent."): value for name, value in own.items()})
    with torch.no_grad():
        logits = agent.actor(agent.network(torch.from_numpy(observation[None]).float() / 255))
    chosen = policy.act(observation[None], deterministic=True, random=np.random.default_rng(0))
    assert chosen.tolist() == logits.argmax(dim=1).tolist()
    assert env.step(chosen[0])[0].shape == (4, 84, 84)


def test_a_clip_of_the_first_game_is_made_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(rnd, monkeypatch, tmp_path, *SMALL, "--total-timesteps", "32", "--capture-video") == 0
    (clip,) = (only_run(tmp_path) / "videos").iterdir()
    assert clip.name.startswith("episode-0-step-") and clip.stat().st_size > 500
