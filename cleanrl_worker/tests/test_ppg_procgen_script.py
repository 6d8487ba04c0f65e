"""PPG: its arithmetic against the definitions, the rows that belong to no episode, the whole script."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, kl_divergence

from cleanrl_worker.cleanrl import ppg_procgen as ppg
from cleanrl_worker.procgen_games import procgen_id
from mosaic_worker.learning import phases
from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.learning.foreseeable import RecordingSession
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    logged_values,
    newest_tensors,
    only_run,
    run_main,
)
from mosaic_worker.training.session import TrainingSession

CLEANRL_DEFAULTS = {
    "exp_name": "ppg_procgen",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "env_id": "starpilot",
    "total_timesteps": 25_000_000,
    "learning_rate": 5e-4,
    "num_envs": 64,
    "num_steps": 256,
    "anneal_lr": False,
    "gamma": 0.999,
    "gae_lambda": 0.95,
    "num_minibatches": 8,
    "adv_norm_fullbatch": True,
    "clip_coef": 0.2,
    "clip_vloss": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
    "n_iteration": 32,
    "e_policy": 1,
    "v_value": 1,
    "e_auxiliary": 6,
    "beta_clone": 1.0,
    "num_aux_rollouts": 4,
    "n_aux_grad_accum": 1,
}
OURS = {"cuda", "torch_threads", "checkpoint_every", "checkpoint_keep", "save_buffer", "resume", "warm_start"}
POLICY_TAGS = {
    "charts/learning_rate",
    "charts/SPS",
    "losses/value_loss",
    "losses/policy_loss",
    "losses/entropy",
    "losses/old_approx_kl",
    "losses/approx_kl",
    "losses/clipfrac",
    "losses/explained_variance",
}
AUXILIARY_TAGS = {"losses/aux/kl_loss", "losses/aux/aux_value_loss", "losses/aux/real_value_loss"}
SMALL = ["--num-envs", "3", "--num-steps", "10", "--num-minibatches", "2", "--n-iteration", "2", "--e-auxiliary", "2"]
SHORT = [*SMALL, "--num-aux-rollouts", "2", "--total-timesteps", "120"]  # two phases of two rollouts


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As the script does: more threads are slower on a busy machine."""
    torch.set_num_threads(1)


class Lamps:
    """Shows a picture whose left or right half is lit; naming the lit side is rewarded.

    Episode `n` of an environment ends after 2 + n % 3 steps, every other one by a time limit. Resets as EnvPool does.
    """

    single_observation_space: gym.Space[Any] = gym.spaces.Box(0, 255, (3, 12, 12), np.uint8)
    single_action_space: gym.Space[Any] = gym.spaces.Discrete(2)

    def __init__(self, num_envs: int, seed: int = 0, *, keeps_state: bool = True) -> None:
        self.num_envs, self.keeps_state = num_envs, keeps_state
        self.camera: Any = None
        self.random = np.random.default_rng(seed)
        self.lit = np.zeros(num_envs, dtype=np.int64)
        self.episode, self.age = np.full(num_envs, -1), np.zeros(num_envs, dtype=np.int64)
        self.over = np.ones(num_envs, dtype=bool)
        self.closed = False

    def picture(self) -> Any:
        return self._pictures()[0].transpose(1, 2, 0)

    def reset(self) -> Any:
        self.over[:] = True
        self._begin()
        return self._pictures()

    def _begin(self) -> None:
        self.episode[self.over] += 1
        self.age[self.over] = 0
        self.lit = self.random.integers(2, size=self.num_envs)

    def step(self, actions: Any) -> Any:
        resetting = self.over.copy()
        rewards = np.where(resetting, 0, actions == self.lit).astype(np.float32)
        self._begin()
        self.age[~resetting] += 1
        self.over = ~resetting & (self.age >= 2 + self.episode % 3)
        cut_off = self.over & (self.episode % 2 == 1)
        return self._pictures(), rewards, self.over & ~cut_off, cut_off

    def _pictures(self) -> Any:
        pictures = np.zeros((self.num_envs, 3, 12, 12), dtype=np.uint8)
        for env, side in enumerate(self.lit):
            pictures[env, :, :, 6 * side : 6 * side + 6] = 200
        return pictures

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The script plays Lamps, whose state can be kept."""
    monkeypatch.setattr(ppg, "make_envs", lambda args: Lamps(args.num_envs, args.seed))


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(ppg.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


BAD_FLAGS = [
    (["--total-timesteps", "0"], "--total-timesteps must be at least 1, got 0."),
    (["--n-iteration", "0"], "--n-iteration must be at least 1, got 0."),
    (["--num-aux-rollouts", "0"], "--num-aux-rollouts must be at least 1, got 0."),
    (["--e-auxiliary", "-1"], "--e-auxiliary must be 0 or more, got -1."),
    (["--beta-clone", "nan"], "--beta-clone must be 0 or more, got nan."),
    (["--learning-rate", "0"], "--learning-rate must be more than 0, got 0.0."),
    (["--gamma", "1.5"], "--gamma must be from 0 to 1, got 1.5."),
    (
        ["--num-envs", "2", "--num-steps", "3", "--num-minibatches", "7"],
        "--num-minibatches must be at most num-envs times num-steps (6), got 7.",
    ),
    (["--env-id", "starpilit"], "There is no Procgen game 'starpilit'; did you mean 'starpilot'?"),
    (["--env-id", "StarpilotEsy-v0"], "There is no Procgen game 'StarpilotEsy-v0'; did you mean 'StarpilotEasy-v0'?"),
    (["--env-id", "bigfish-memory"], "There is no Procgen game 'bigfish-memory'"),
    (["--env-id", "CartPole-v1"], "There is no Procgen game 'CartPole-v1'"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(ppg, monkeypatch, tmp_path, *flags) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"ppg_procgen: {sentence}") and told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_envpool_the_error_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "envpool.registration", None)
    assert run_main(ppg, monkeypatch, tmp_path, "--seed", "1") == 2
    assert "Install it with: python -m cleanrl_worker.tools.install_extras --set procgen" in capsys.readouterr().err


def test_a_phase_that_memory_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lamps: None
) -> None:
    monkeypatch.setattr(phases, "free_memory", lambda: 2.5e9)
    flags = ["--num-envs", "64", "--num-steps", "4000", "--n-iteration", "40"]
    assert run_main(ppg, monkeypatch, tmp_path, *flags) == 2
    told = capsys.readouterr().err
    assert "40 rollouts of 4000 steps of 64 environments takes 4.8 GB of memory, of which 2.5 GB are free" in told


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("starpilot", "StarpilotEasy-v0"),
        ("bigfish", "BigfishEasy-v0"),
        ("coinrun-hard", "CoinrunHard-v0"),
        ("coinrun_hard", "CoinrunHard-v0"),
        ("maze-memory", "MazeMemory-v0"),
        ("StarpilotHard-v0", "StarpilotHard-v0"),
    ],
)
def test_games_are_known_by_the_names_of_cleanrl_and_of_envpool(name: str, found: str) -> None:
    assert procgen_id(name) == found


# --- the games ---------------------------------------------------------------------------------------------


def test_the_step_after_an_end_is_a_reset_row_and_the_end_belongs_to_the_episode() -> None:
    """What the masking rests on: should EnvPool change, this fails before anything is learned wrongly."""
    import envpool

    pool = envpool.make_gymnasium("StarpilotEasy-v0", num_envs=8, seed=3)
    _, info = pool.reset()
    level, ended, drawn = info["level_seed"].copy(), np.zeros(8, dtype=bool), np.random.default_rng(0)
    ends = 0
    for _ in range(150):
        _, rewards, terminated, truncated, info = pool.step(drawn.integers(15, size=8).astype(np.int32))
        new_level = info["level_seed"] != level
        assert (new_level == ended).all(), "the row after an end begins another level, and no other row does"
        assert not rewards[ended].any() and not (terminated | truncated)[ended].any()
        assert (info["elapsed_step"][ended] == 0).all()
        level, ended = info["level_seed"].copy(), terminated | truncated
        ends += int(ended.sum())
    pool.close()
    assert ends > 5


def test_an_evaluation_game_has_true_rewards_and_the_same_seed_gives_the_same_game() -> None:
    env = ppg.make_evaluation_env(ppg.Args(env_id="coinrun"), render_mode="rgb_array")
    first, _ = env.reset(seed=5)
    total = 0.0
    for _ in range(30):
        observation, reward, *_ = env.step(env.action_space.sample())
        total += float(reward)
    again, _ = env.reset(seed=5)
    other, _ = env.reset(seed=6)
    assert env.observation_space.contains(observation) and total in (0.0, 10.0)
    assert (first == again).all() and not (first == other).all()
    picture: Any = env.render()
    assert picture.shape == (384, 384, 3) and picture.dtype == np.uint8
    env.close()


# --- the arithmetic ----------------------------------------------------------------------------------------


def reference_advantages(
    rewards: Any, values: Any, terminated: Any, ended: Any, counts: Any, gamma: float, lam: float
) -> Any:
    """One environment's, from the definition: a sum of discounted errors up to the end of each row's episode."""
    found = np.full(len(rewards), np.nan)
    for start in range(len(rewards)):
        if not counts[start]:
            continue
        total, factor = 0.0, 1.0
        for step in range(start, len(rewards)):
            following = 0.0 if terminated[step] else values[step + 1]
            total += factor * (rewards[step] + gamma * following - values[step])
            factor *= gamma * lam
            if ended[step]:
                break
        found[start] = total
    return found


def test_advantages_are_those_of_each_episode_alone() -> None:
    rng = np.random.default_rng(4)
    rewards, values = rng.normal(size=(40, 3)), rng.normal(size=(41, 3))
    ended = np.zeros((40, 3), dtype=bool)
    counts = np.ones((40, 3), dtype=bool)
    for step in range(40):
        ended[step] = counts[step] & (rng.random(3) < 0.2)
        if step < 39:
            counts[step + 1] = ~ended[step]
    terminated = ended & (rng.random((40, 3)) < 0.5)
    rewards[~counts] = 0
    values[:-1][~counts] += 100  # what a reset row thinks must not matter, except as the value of a cut-off end
    narrow_rewards, narrow_values = rewards.astype(np.float32), values.astype(np.float32)
    found = advantages_of(narrow_rewards, narrow_values[:-1], narrow_values[1:], terminated, ended, 0.9, 0.8)
    for env in range(3):
        one = [part[:, env] for part in (rewards, values, terminated, ended, counts)]
        expected = reference_advantages(one[0], one[1], one[2], one[3], one[4], 0.9, 0.8)
        np.testing.assert_allclose(found[counts[:, env], env], expected[counts[:, env]], rtol=1e-4, atol=1e-4)


def test_rewards_are_divided_by_the_spread_of_all_discounted_returns_so_far() -> None:
    scale = phases.RewardScale(2, gamma=0.5)
    rng = np.random.default_rng(1)
    running, seen = np.zeros(2), []
    for _ in range(50):
        rewards, live, ended = rng.normal(3, 2, size=2), rng.random(2) < 0.8, rng.random(2) < 0.2
        rewards[~live] = 0
        found = scale(rewards, live, ended & live)
        for env in range(2):
            running[env] = running[env] * 0.5 + rewards[env] if live[env] else 0
            if live[env]:
                seen.append(running[env])
            if ended[env]:
                running[env] = 0
    # The scale begins as if a ten-thousandth of a value with spread 1 had been seen.
    assert scale.variance == pytest.approx(np.var(seen), rel=1e-3) and scale.mean == pytest.approx(
        np.mean(seen), rel=1e-3
    )
    np.testing.assert_allclose(found, rewards / np.sqrt(scale.variance + 1e-8), rtol=1e-5)
    scale.count = 1e12  # so that the next two change nothing
    assert (scale(np.array([1e4, -1e4]), np.ones(2, dtype=bool), np.ones(2, dtype=bool)) == [10, -10]).all()


def some_rows(count: int = 17) -> tuple[torch.Tensor, torch.Tensor, ppg.Rows]:
    torch.manual_seed(2)
    rows = ppg.Rows(
        actions=torch.randint(4, (count,)),
        log_probs=-torch.rand(count) * 2,
        values=torch.randn(count),
        advantages=torch.randn(count),
        returns=torch.randn(count),
    )
    return torch.randn(count, 4, requires_grad=True), torch.randn(count, requires_grad=True), rows


@pytest.mark.parametrize("clip_vloss", [True, False])
def test_the_policy_phase_has_the_losses_of_ppo(clip_vloss: bool) -> None:
    logits, values, rows = some_rows()
    found = ppg.policy_losses(logits, values, rows, ppg.Args(clip_vloss=clip_vloss))
    policy = Categorical(logits=logits)
    ratio = (policy.log_prob(rows.actions) - rows.log_probs).exp()
    gain = torch.minimum(rows.advantages * ratio, rows.advantages * ratio.clamp(0.8, 1.2))
    error = (values - rows.returns) ** 2
    if clip_vloss:
        held = rows.values + (values - rows.values).clamp(-0.2, 0.2)
        error = torch.maximum(error, (held - rows.returns) ** 2)
    torch.testing.assert_close(found.policy, -gain.sum())
    torch.testing.assert_close(found.value, 0.5 * error.sum())
    torch.testing.assert_close(found.entropy, policy.entropy().sum())
    torch.testing.assert_close(found.log_ratios.exp(), ratio.detach())


def test_the_auxiliary_part_has_two_value_losses_and_the_divergence_from_the_old_policy() -> None:
    logits, values, rows = some_rows()
    old_logits, auxiliary = torch.randn_like(logits), torch.randn_like(values)
    found = ppg.auxiliary_losses(logits, values, auxiliary, old_logits, rows.returns)
    divergence = kl_divergence(Categorical(logits=old_logits), Categorical(logits=logits)).sum()
    torch.testing.assert_close(found.divergence, divergence)
    torch.testing.assert_close(found.value, 0.5 * ((values - rows.returns) ** 2).sum())
    torch.testing.assert_close(found.auxiliary_value, 0.5 * ((auxiliary - rows.returns) ** 2).sum())


def small_agent() -> ppg.Agent:
    torch.manual_seed(5)
    return ppg.Agent((3, 12, 12), 2)


def test_the_values_gradient_stays_in_its_head_and_the_auxiliary_values_reaches_the_network() -> None:
    pictures = torch.randint(255, (4, 3, 12, 12), dtype=torch.uint8)
    for reaches, output in ((False, 1), (True, 2)):
        agent = small_agent()
        agent.policy_and_both_values(pictures)[output].sum().backward()
        assert any(parameter.grad is not None for parameter in agent.network.parameters()) is reaches
    agent = small_agent()
    agent.policy_and_value(pictures)[1].sum().backward()
    assert all(parameter.grad is None for parameter in agent.network.parameters())
    assert agent.critic.weight.grad is not None


# --- a phase -----------------------------------------------------------------------------------------------


def learner_with_phase(args: ppg.Args, rollouts: int = 2) -> tuple[ppg.Learner, phases.Phase]:
    """A learner before its first update, with rollouts of Lamps."""
    agent, session = small_agent(), RecordingSession()
    phase = phases.Phase((rollouts, args.num_steps, args.num_envs), (3, 12, 12), 2, saved=True)
    fake: Any = session
    collector = phases.PhaseCollector(Lamps(args.num_envs), phase, fake, args)
    device = torch.device("cpu")
    for _ in range(rollouts):
        while phase.filled < args.num_steps:
            collector.step(agent, device)
        phases.evaluate_rollout(agent, phase, collector.observation, args, device)
        phase.count, phase.filled = phase.count + 1, 0
    phase.count = 0
    return ppg.Learner(agent, phase, args, device, lambda: True), phase


SMALL_ARGS = ppg.Args(num_envs=3, num_steps=10, num_minibatches=1, num_aux_rollouts=4)


def test_rows_that_only_reset_are_never_learned_from() -> None:
    _, phase = learner_with_phase(SMALL_ARGS)
    assert 0 < (~phase.counts).sum() < phase.counts.sum()
    assert phase.rewards[~phase.counts].any() == 0
    followed = phase.ended[:, :-1]
    assert torch.equal(~phase.counts[:, 1:], followed), "a reset row is the one after an end, and no other"
    assert torch.equal(phase.rows_of_rollout(), phase.counts[0].flatten().nonzero().squeeze(1))
    rows = phase.rows_of_columns(torch.tensor([4]))  # the second rollout of the second environment
    expected = [30 + 3 * step + 1 for step in range(10) if phase.counts[1, step, 1]]
    assert rows.tolist() == expected


def test_values_and_log_probabilities_are_those_of_the_acting_agent() -> None:
    learner, phase = learner_with_phase(SMALL_ARGS)
    with torch.no_grad():
        logits, values = learner.agent.policy_and_value(phase.flat("observations"))
    torch.testing.assert_close(values, phase.flat("values"), rtol=1e-4, atol=1e-5)
    expected = Categorical(logits=logits).log_prob(phase.flat("actions"))
    torch.testing.assert_close(expected, phase.flat("log_probs"), rtol=1e-4, atol=1e-5)


def test_advantages_are_normalised_over_what_counts_of_a_rollout() -> None:
    _, phase = learner_with_phase(SMALL_ARGS)
    for rollout in range(2):
        chosen = phase.advantages[rollout][phase.counts[rollout]]
        assert chosen.mean().item() == pytest.approx(0, abs=1e-5) and chosen.std().item() == pytest.approx(1, abs=1e-4)
    _, raw = learner_with_phase(dataclasses.replace(SMALL_ARGS, adv_norm_fullbatch=False))
    torch.testing.assert_close(raw.returns - raw.values, raw.advantages)


def adam_of(agent: ppg.Agent) -> torch.optim.Adam:
    return torch.optim.Adam(agent.parameters(), lr=5e-4, eps=1e-8)


def copy_of(agent: ppg.Agent) -> ppg.Agent:
    other = small_agent()
    other.load_state_dict(agent.state_dict())
    return other


def assert_alike(one: ppg.Agent, other: ppg.Agent) -> None:
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-5)


def test_a_policy_step_in_chunks_is_one_adam_step_on_the_whole_minibatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppg, "CHUNK", 7)
    learner, phase = learner_with_phase(SMALL_ARGS)
    reference = copy_of(learner.agent)
    rows = phase.rows_of_rollout()
    logits, values = reference.policy_and_value(phase.flat("observations")[rows])
    columns = ppg.Rows(*(phase.flat(name)[rows] for name in ppg.Rows._fields))
    losses = ppg.policy_losses(logits, values, columns, SMALL_ARGS)
    ((losses.policy - 0.01 * losses.entropy + 0.5 * losses.value) / len(rows)).backward()
    nn.utils.clip_grad_norm_([p for p in reference.parameters() if p.grad is not None], 0.5)
    adam_of(reference).step()
    logged = learner.learn_policy()
    assert logged is not None and POLICY_TAGS - logged.keys() == {"charts/learning_rate", "charts/SPS"}
    assert logged["losses/approx_kl"] == pytest.approx(0, abs=1e-5)
    assert_alike(learner.agent, reference)


def test_an_auxiliary_step_in_chunks_is_one_adam_step_on_the_joint_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppg, "CHUNK", 7)
    args = dataclasses.replace(SMALL_ARGS, num_aux_rollouts=3, n_aux_grad_accum=2, e_auxiliary=1, beta_clone=2.0)
    learner, phase = learner_with_phase(args)
    phase.count = 2
    reference = copy_of(learner.agent)
    rows = phase.flat("counts").nonzero().squeeze(1)
    phase.logits.normal_()  # another policy's: its own would leave the divergence without a gradient
    learner.position.known = len(phase.flat("logits"))
    old = phase.flat("logits")[rows]
    logits, values, auxiliary = reference.policy_and_both_values(phase.flat("observations")[rows])
    returns = phase.flat("returns")[rows]
    divergence = kl_divergence(Categorical(logits=old), Categorical(logits=logits)).mean()
    joint = 0.5 * (auxiliary - returns).square().mean() + 2.0 * divergence
    (joint + 0.5 * (values - returns).square().mean()).backward()
    nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
    adam_of(reference).step()
    logged = learner.learn_auxiliary()
    assert logged is not None and logged.keys() == AUXILIARY_TAGS
    assert_alike(learner.agent, reference)


def test_the_auxiliary_part_holds_the_policy_to_what_it_was_when_the_part_began() -> None:
    moved = []
    for beta in (0.0, 10.0):
        args = dataclasses.replace(SMALL_ARGS, beta_clone=beta, e_auxiliary=15, learning_rate=3e-3)
        learner, phase = learner_with_phase(args)
        phase.count = 2
        learner.adam.vector.mul_(1.5)  # a policy that is decided, so that it has something to lose
        assert learner.learn_auxiliary() is not None
        with torch.no_grad():
            new = learner.agent.policy_and_value(phase.flat("observations"))[0]
        old = Categorical(logits=phase.flat("logits"))
        moved.append(kl_divergence(old, Categorical(logits=new)).mean().item())
    assert moved[1] < moved[0] / 3


@pytest.mark.parametrize(("policy", "value", "moves"), [(1, 0, "actor"), (0, 1, "critic"), (0, 0, None)])
def test_passes_for_the_policy_and_for_the_value_are_counted_apart(policy: int, value: int, moves: str | None) -> None:
    learner, _ = learner_with_phase(dataclasses.replace(SMALL_ARGS, e_policy=policy, v_value=value))
    before = {name: tensor.clone() for name, tensor in learner.agent.state_dict().items()}
    learner.learn_policy()
    moved = {name.split(".")[0] for name in differing(before, dict(learner.agent.state_dict()))}
    assert moved == ({"actor", "network"} if moves == "actor" else {moves} if moves else set())


def test_the_passes_over_a_rollout_end_once_the_policy_has_moved_too_far() -> None:
    args = dataclasses.replace(SMALL_ARGS, e_policy=9, v_value=9, target_kl=1e-6)
    learner, _ = learner_with_phase(args)
    learner.learn_policy()
    assert learner.position.epoch < 9


# --- the script --------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_ppg_learns_to_name_the_lit_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None) -> None:
    flags = ["--num-envs", "8", "--num-steps", "32", "--num-minibatches", "4", "--n-iteration", "4"]
    assert run_main(ppg, monkeypatch, tmp_path, *flags, "--total-timesteps", "3072", "--learning-rate", "2e-3") == 0
    shares = [
        v["charts/episodic_return"] / v["charts/episodic_length"] for _, v in rows_with(tmp_path, "episodic_return")
    ]
    assert np.mean(shares[:60]) < 0.7
    assert np.mean(shares[-60:]) > 0.9


def rows_with(directory: Path, tag: str) -> list[tuple[int, dict[str, float]]]:
    return [(step, values) for step, values in logged_rows(directory) if f"charts/{tag}" in values]


def test_rollouts_phases_and_episodes_are_logged_under_cleanrl_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None
) -> None:
    assert run_main(ppg, monkeypatch, tmp_path, *SHORT) == 0
    rows = logged_rows(tmp_path)
    assert [(step, set(values)) for step, values in rows if "charts/SPS" in values] == [
        (step, POLICY_TAGS) for step in (30, 60, 90, 120)
    ]
    assert [(step, set(values)) for step, values in rows if "losses/aux/kl_loss" in values] == [
        (60, AUXILIARY_TAGS),
        (120, AUXILIARY_TAGS),
    ]
    episodes = rows_with(tmp_path, "episodic_return")
    assert {values["charts/episodic_length"] for _, values in episodes} == {2, 3, 4}
    assert all(0 <= values["charts/episodic_return"] <= values["charts/episodic_length"] for _, values in episodes)


def test_a_last_phase_may_be_shorter_and_still_ends_with_its_auxiliary_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None
) -> None:
    assert run_main(ppg, monkeypatch, tmp_path, *SHORT, "--total-timesteps", "61") == 0
    assert [step for step, values in logged_rows(tmp_path) if "losses/aux/kl_loss" in values] == [60, 90]


def test_the_same_seed_gives_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    tiny = ["--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--e-auxiliary", "1"]
    for number, seed in enumerate(("5", "5", "6")):
        flags = [*tiny, "--total-timesteps", "16", "--seed", seed, "--env-id", "coinrun"]
        assert run_main(ppg, monkeypatch, tmp_path / str(number), *flags) == 0
        found.append(newest_tensors(tmp_path / str(number)))
    first, again, other = found
    assert differing(first, again) == []
    assert "agent.actor.weight" in differing(first, other)


@contextmanager
def stopping_at(number: int) -> Iterator[None]:
    """Runs are asked to stop at their n-th safe point, wherever that falls."""
    original, left = TrainingSession.safe_point, [number]

    def safe_point(session: TrainingSession, step: int) -> None:
        left[0] -= 1
        session.stop_requested = session.stop_requested or left[0] <= 0
        original(session, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingSession, "safe_point", safe_point)
        yield


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppg, "CHUNK", 7)


# A phase has 2 x 10 points in steps, 2 x 4 in policy minibatches, 5 where logits are taken, 2 x 3 x 3 in the last part.
@pytest.mark.parametrize(
    "stop_at",
    [13, 40, *(pytest.param(one, marks=pytest.mark.nightly) for one in (1, 6, 11, 24, 29, 32, 36, 48, 60, 85, 95))],
)
def test_a_run_that_was_stopped_anywhere_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int, lamps: None, small_chunks: None, whole_run: Path
) -> None:
    flags = [*SHORT, "--seed", "7", "--save-buffer", "--anneal-lr"]
    with stopping_at(stop_at):
        assert run_main(ppg, monkeypatch, tmp_path / "half", *flags) == 0
    (stopped,) = checkpoints_of(tmp_path / "half")
    assert run_main(ppg, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(whole_run), newest_tensors(tmp_path / "rest")) == []


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ppg, "make_envs", lambda args: Lamps(args.num_envs, args.seed))
        patch.setattr(ppg, "CHUNK", 7)
        assert run_main(ppg, patch, directory, *SHORT, "--seed", "7", "--save-buffer", "--anneal-lr") == 0
    return directory


def test_a_finished_run_can_be_resumed_with_more_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None
) -> None:
    assert run_main(ppg, monkeypatch, tmp_path / "first", *SHORT, "--total-timesteps", "30") == 0
    (path,) = checkpoints_of(tmp_path / "first")
    assert run_main(ppg, monkeypatch, tmp_path / "more", "--resume", str(path), "--total-timesteps", "120") == 0
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "more")[-1]).step == 120
    assert [step for step, values in logged_rows(tmp_path / "more") if "losses/aux/kl_loss" in values] == [60, 120]


def test_a_stop_within_the_auxiliary_part_comes_before_its_next_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None, small_chunks: None
) -> None:
    with stopping_at(40):
        assert run_main(ppg, monkeypatch, tmp_path, *SHORT, "--save-buffer") == 0
    (stopped,) = checkpoints_of(tmp_path)
    manifest = checkpoints.read_manifest(stopped)
    assert (manifest.step, manifest.state["position"]["stage"]) == (60, "auxiliary")


@pytest.mark.parametrize("stop_at", [4, 12, 40], ids=["collecting", "policy", "auxiliary"])
def test_without_its_rollouts_a_resumed_run_makes_the_steps_that_were_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop_at: int,
    lamps: None,
    small_chunks: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with stopping_at(stop_at):
        assert run_main(ppg, monkeypatch, tmp_path / "half", *SHORT) == 0
    (stopped,) = checkpoints_of(tmp_path / "half")
    assert sum(t.numel() for name, t in checkpoints.load(stopped).tensors.items() if name.startswith("phase.")) == 0
    capsys.readouterr()
    assert run_main(ppg, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert "The checkpoint holds no rollouts" in capsys.readouterr().out
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "rest")[-1]).step == 120


def test_games_that_cannot_be_put_back_count_as_cut_off_where_the_run_was_stopped() -> None:
    args, session = dataclasses.replace(SMALL_ARGS, num_envs=2), RecordingSession()
    phase = phases.Phase((1, 10, 2), (3, 12, 12), 2, saved=True)
    fake: Any = session
    collector = phases.PhaseCollector(Lamps(2, keeps_state=False), phase, fake, args)
    agent, device = small_agent(), torch.device("cpu")
    collector.step(agent, device)
    last_seen = collector.observation.copy()
    collector.restart()
    for _ in range(2):
        collector.step(agent, device)
    assert phase.ended[0, 0].all() and not phase.terminated[0, 0].any()
    assert phase.counts[0, :3].tolist() == [[True, True], [False, False], [True, True]]
    assert (phase.observations[0, 1].numpy() == last_seen).all(), "the value of what came last is still needed"
    assert (phase.observations[0, 2].numpy() == collector.first_observation).all()
    assert phase.rewards[0, 1].any() == 0 and collector.lengths.tolist() == [1, 1]


def test_real_games_go_on_after_a_stop_with_new_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = ["--num-envs", "2", "--num-steps", "4", "--num-minibatches", "1", "--e-auxiliary", "1", "--save-buffer"]
    with stopping_at(3):
        flags = [*tiny, "--total-timesteps", "16", "--capture-video"]
        assert run_main(ppg, monkeypatch, tmp_path / "half", *flags) == 0
    assert [clip.name for clip in (only_run(tmp_path / "half") / "videos").iterdir()] == ["episode-0-step-0.mp4"]
    (stopped,) = checkpoints_of(tmp_path / "half")
    assert run_main(ppg, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert "they begin new ones" in capsys.readouterr().out
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "rest")[-1]).step == 16


def test_checkpoints_come_at_the_interval_with_the_size_of_the_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lamps: None
) -> None:
    flags = [*SHORT, "--checkpoint-every", "50", "--checkpoint-keep", "0", "--save-buffer"]
    assert run_main(ppg, monkeypatch, tmp_path, *flags) == 0
    manifests = [checkpoints.read_manifest(path) for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [51, 102, 120]
    assert manifests[-1].spaces["action"]["n"] == 2
    assert manifests[-1].spaces["observation"]["shape"] == [3, 12, 12]
    assert "The checkpoint at step 51 includes the phase: 2 rollouts, 0 MB." in capsys.readouterr().out


def test_a_warm_start_takes_over_the_networks_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None
) -> None:
    assert run_main(ppg, monkeypatch, tmp_path / "first", *SHORT) == 0
    path = checkpoints_of(tmp_path / "first")[-1]
    with stopping_at(1):
        assert run_main(ppg, monkeypatch, tmp_path / "second", *SMALL, "--warm-start", str(path), "--seed", "9") == 0
    given, found = newest_tensors(tmp_path / "first"), newest_tensors(tmp_path / "second")
    networks = [name for name in given if name.startswith("agent.")]
    assert networks and all(torch.equal(given[name], found[name]) for name in networks)
    assert not found["optimizer.mean"].any()


def test_a_loss_that_is_not_finite_fails_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lamps: None
) -> None:
    flags = [*SHORT, "--learning-rate", "1e30", "--checkpoint-every", "15", "--checkpoint-keep", "0"]
    assert run_main(ppg, monkeypatch, tmp_path, *flags) == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [15, 30]


def test_a_checkpoint_of_other_rollouts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lamps: None
) -> None:
    with stopping_at(5):
        assert run_main(ppg, monkeypatch, tmp_path, *SHORT, "--save-buffer") == 0
    (path,) = checkpoints_of(tmp_path)
    assert run_main(ppg, monkeypatch, tmp_path, "--resume", str(path), "--num-steps", "12") == 2
    assert "its rollouts have 10 steps of 3 environments; leave both as they were" in capsys.readouterr().err


def test_a_policy_comes_back_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None) -> None:
    assert run_main(ppg, monkeypatch, tmp_path, *SHORT) == 0
    found = checkpoints.load(checkpoints_of(tmp_path)[-1])
    policy: Any = ppg.load_policy(found, ppg.Args(**found.manifest.args))
    pictures = Lamps(200).reset()
    drawn = np.random.default_rng(1)
    best = policy.act(pictures, deterministic=True, random=drawn)
    with torch.no_grad():
        probabilities = policy.agent.policy_and_value(torch.from_numpy(pictures))[0].softmax(dim=1).numpy()
    assert (best == probabilities.argmax(axis=1)).all()
    sampled = np.stack([policy.act(pictures, deterministic=False, random=drawn) for _ in range(20)])
    assert sampled.mean() == pytest.approx(probabilities[:, 1].mean(), abs=0.05)


def test_a_checkpoint_without_the_agent_is_no_policy(tmp_path: Path) -> None:
    spaces = {"observation": {"shape": [3, 12, 12]}, "action": {"n": 2, "start": 0}}
    path = checkpoints.save(
        tmp_path, algo="ppg_procgen", env_id="x", step=1, tensors={"agent.actor.bias": torch.zeros(2)}, spaces=spaces
    )
    with pytest.raises(checkpoints.CheckpointError, match="is missing"):
        ppg.load_policy(checkpoints.load(path), ppg.Args())


def test_the_learning_rate_falls_when_asked_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lamps: None) -> None:
    assert run_main(ppg, monkeypatch, tmp_path, *SHORT, "--anneal-lr") == 0
    assert logged_values(tmp_path, "charts/learning_rate") == pytest.approx([5e-4, 3.75e-4, 2.5e-4, 1.25e-4])
