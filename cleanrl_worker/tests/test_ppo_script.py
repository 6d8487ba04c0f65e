"""PPO: its arithmetic against the definition, its rollouts in a world that can be foreseen, the whole script."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch.distributions import Categorical

from cleanrl_worker.cleanrl import ppo
from mosaic_worker.learning.adam import FlatAdam
from mosaic_worker.learning.fast_acting import SoftmaxActor
from mosaic_worker.learning.rollouts import Batch, Rollout, RolloutCollector, evaluate
from mosaic_worker.state import checkpoints
from mosaic_worker.state.training_state import TrainingState
from mosaic_worker.tests import script_tools
from mosaic_worker.tests.learning.foreseeable import Metronome, RecordingSession
from mosaic_worker.tests.script_tools import checkpoints_of, differing, logged_rows, newest_tensors, only_run

CLEANRL_DEFAULTS = {
    "exp_name": "ppo",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "env_id": "CartPole-v1",
    "total_timesteps": 500_000,
    "learning_rate": 2.5e-4,
    "num_envs": 4,
    "num_steps": 128,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "num_minibatches": 4,
    "update_epochs": 4,
    "norm_adv": True,
    "clip_coef": 0.2,
    "clip_vloss": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
}
EPISODE_TAGS = {"charts/episodic_return", "charts/episodic_length"}
UPDATE_TAGS = {
    "charts/SPS",
    "charts/learning_rate",
    "losses/value_loss",
    "losses/policy_loss",
    "losses/entropy",
    "losses/old_approx_kl",
    "losses/approx_kl",
    "losses/clipfrac",
    "losses/explained_variance",
}


class Tick(Metronome):
    """Every step is worth 1."""

    def reward_of(self, action: Any) -> float:
        return 1.0


def collector_of(envs: Any, agent: ppo.Agent, seed: int = 1) -> tuple[RolloutCollector, RecordingSession]:
    session: Any = RecordingSession()
    space: Any = envs.single_action_space
    actor = SoftmaxActor(agent.actor, int(space.n), int(space.start))
    return RolloutCollector(envs, session, actor, seed), session


def collected(collector: RolloutCollector, steps: int) -> Rollout:
    rollout = collector.collect(steps)
    assert rollout is not None
    return rollout


def metronomes(count: int = 1, **limits: int) -> Any:
    return SyncVectorEnv([lambda: Tick(**limits)] * count, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)


def run_main(monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str) -> int:
    return script_tools.run_main(ppo, monkeypatch, directory, *flags)


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(ppo.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == {
        "cuda",
        "torch_threads",
        "checkpoint_every",
        "checkpoint_keep",
        "resume",
        "warm_start",
    }


BAD_FLAGS = [
    (["--total-timesteps", "-5"], "--total-timesteps must be at least 1, got -5."),
    (["--num-envs", "0"], "--num-envs must be at least 1, got 0."),
    (["--torch-threads", "0"], "--torch-threads must be at least 1, got 0."),
    (["--seed", "-1"], "--seed must be 0 or more, got -1."),
    (["--checkpoint-every", "-1"], "--checkpoint-every must be 0 or more, got -1."),
    (["--learning-rate", "0"], "--learning-rate must be more than 0, got 0.0."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--gamma", "1.5"], "--gamma must be from 0 to 1, got 1.5."),
    (
        ["--num-envs", "1", "--num-steps", "3"],
        "--num-minibatches must be at most num-envs times num-steps (3), got 4.",
    ),
    (
        ["--env-id", "Pendulum-v1"],
        "ppo needs a discrete action space; Pendulum-v1 has Box(1,). Try ppo_continuous_action.",
    ),
    (
        ["--env-id", "minigrid:MiniGrid-Empty-5x5-v0"],
        "ppo needs a Box observation space; minigrid:MiniGrid-Empty-5x5-v0 has a Dict of direction, image, mission.",
    ),
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
    assert run_main(monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"ppo: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_cuda_without_a_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_main(monkeypatch, tmp_path, "--cuda") == 2
    assert "PyTorch finds no CUDA device" in capsys.readouterr().err


# --- the rollout -------------------------------------------------------------------------------------------


def test_a_rollout_holds_real_transitions_across_the_end_of_an_episode() -> None:
    collector, session = collector_of(metronomes(cut_at=3), ppo.Agent(2, 2))
    rollout = collected(collector, 5)
    assert rollout.observations[:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert rollout.rewards[:, 0].tolist() == [1] * 5
    assert np.flatnonzero(rollout.truncated[:, 0]).tolist() == [2]
    assert not rollout.terminated.any()
    ((step, env, final),) = rollout.cut_off
    assert (step, env, final.tolist()) == (2, 0, [0, 3])
    assert session.rows == [(3, {"charts/episodic_return": 3.0, "charts/episodic_length": 3})]


def test_an_episode_goes_on_from_one_rollout_to_the_next() -> None:
    collector, session = collector_of(metronomes(count=2, end_at=4), ppo.Agent(2, 2))
    collector.collect(3)
    rollout = collected(collector, 3)
    assert rollout.observations[0].tolist() == [[0, 3], [0, 3]]
    assert rollout.terminated[0].all() and rollout.cut_off == []
    assert session.rows == [(8, {"charts/episodic_return": 4.0, "charts/episodic_length": 4})] * 2


class StoppingSession(RecordingSession):
    """Asks for a stop at one step."""

    stop_at = 6

    def safe_point(self, step: int) -> None:
        self.stop_requested = step == self.stop_at


@pytest.mark.parametrize("steps", [2, 3, 4, 9])
def test_an_open_rollout_follows_an_end_that_moved_and_loses_nothing_of_what_is_done(steps: int) -> None:
    collectors = []
    for _ in range(2):
        agent = ppo.Agent(2, 2)
        with torch.no_grad():
            for parameter in agent.parameters():
                parameter.fill_(0.1)
        collectors.append(collector_of(metronomes(count=2, cut_at=2), agent)[0])
    stopped, whole = collectors
    stopped.session = StoppingSession()  # type: ignore[assignment]
    assert stopped.collect(5) is None and stopped.rollout.filled == 3 and stopped.steps_done == 0
    stopped.session.stop_at = -1  # type: ignore[attr-defined]
    found, expected = collected(stopped, steps), collected(whole, max(3, steps))
    for part in Rollout.PARTS:
        np.testing.assert_equal(getattr(found, part), getattr(expected, part))
    assert stopped.steps_done == max(3, steps) and stopped.observation.tolist() == whole.observation.tolist()


def test_the_value_of_the_last_state_reaches_only_the_step_that_was_cut_off() -> None:
    agent, args = ppo.Agent(2, 2), ppo.Args()
    results = {}
    for limits in ({"cut_at": 3}, {"end_at": 3}):
        rollout = collected(collector_of(metronomes(**limits), agent)[0], 4)
        results[next(iter(limits))] = evaluate(rollout, agent.critic, agent.log_probs, args, torch.device("cpu"))
    cut, ended = results["cut_at"], results["end_at"]
    with torch.no_grad():
        last_value = agent.critic(torch.tensor([[0.0, 3.0]])).item()
    assert (cut.returns[2] - ended.returns[2]).item() == pytest.approx(args.gamma * last_value, abs=1e-5)
    assert cut.returns[3].item() == ended.returns[3].item()


def test_actions_are_drawn_from_the_softmax_of_the_actor() -> None:
    agent = ppo.Agent(2, 2)
    last: Any = agent.actor[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([0.2, 0.8]).log())
    rollout = collected(collector_of(metronomes(count=4), agent)[0], 5000)
    assert rollout.actions.mean() == pytest.approx(0.8, abs=0.01)


def test_cartpole_is_cut_off_at_500_steps() -> None:
    """A hand-made actor that balances the pole: push towards the side it leans and falls to."""
    agent = ppo.Agent(4, 2)
    with torch.no_grad():
        for parameter in agent.actor.parameters():
            parameter.zero_()
        weights = [parameter for parameter in agent.actor.parameters() if parameter.dim() == 2]
        first, second, last = weights
        first[0] = torch.tensor([0.02, 0.05, 1.0, 0.4])
        second[0, 0] = 1
        last[:, 0] = torch.tensor([-1e6, 1e6])
    collector, session = collector_of(ppo.make_envs(ppo.Args(num_envs=3)), agent)
    rollout = collected(collector, 1001)
    ends = [(length, length) for length in (500, 500)] * 3
    assert [tuple(values.values()) for _, values in session.rows] == ends
    assert rollout.truncated.sum() == len(rollout.cut_off) == 6 and not rollout.terminated.any()
    for step, env, final in rollout.cut_off:
        assert not np.array_equal(final, rollout.observations[step + 1, env])


# --- the update --------------------------------------------------------------------------------------------


def some_batch(rows: int = 40) -> Batch:
    torch.manual_seed(3)
    return Batch(
        observations=torch.randn(rows, 4),
        actions=torch.randint(0, 3, (rows,)),
        log_probs=-torch.rand(rows) * 2,
        advantages=torch.randn(rows) * 5,
        returns=torch.randn(rows),
        values=torch.randn(rows),
    )


def textbook_loss(agent: ppo.Agent, batch: Batch, args: ppo.Args) -> Any:
    policy = Categorical(logits=agent.actor(batch.observations))
    ratio = (policy.log_prob(batch.actions) - batch.log_probs).exp()
    advantage = batch.advantages
    if args.norm_adv:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef) * advantage)
    value = agent.critic(batch.observations)[:, 0]
    value_loss = (value - batch.returns) ** 2
    if args.clip_vloss:
        near = batch.values + (value - batch.values).clamp(-args.clip_coef, args.clip_coef)
        value_loss = torch.max(value_loss, (near - batch.returns) ** 2)
    entropy = policy.entropy().mean()
    return -surrogate.mean() - args.ent_coef * entropy + args.vf_coef * 0.5 * value_loss.mean()


@pytest.mark.parametrize("norm_adv", [True, False])
@pytest.mark.parametrize("clip_vloss", [True, False])
def test_gradient_steps_equal_torch_adam_on_the_textbook_loss(norm_adv: bool, clip_vloss: bool) -> None:
    args = ppo.Args(norm_adv=norm_adv, clip_vloss=clip_vloss, learning_rate=1e-2)
    torch.manual_seed(1)
    ours = ppo.Agent(4, 3)
    reference = ppo.Agent(4, 3)
    reference.load_state_dict(ours.state_dict())
    adam = FlatAdam(ours.parameters(), args.learning_rate, epsilon=1e-5)
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-2, eps=1e-5)
    batch = some_batch()
    for _ in range(5):
        loss = textbook_loss(reference, batch, args)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), args.max_grad_norm)
        optimizer.step()
        found = ppo.losses_of(ours, batch, args).total
        adam.minimise(found, args.max_grad_norm)
        assert found.item() == pytest.approx(loss.item(), rel=1e-4, abs=1e-6)
    for mine, theirs in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_minibatches_cover_every_row_once_even_when_the_sizes_do_not_divide() -> None:
    batch = some_batch(rows=10)
    parts = batch.minibatches(4)
    assert sorted(len(part) for part in parts) == [2, 2, 3, 3]
    rows = torch.cat([part.observations for part in parts])
    assert sorted(rows[:, 0].tolist()) == sorted(batch.observations[:, 0].tolist())


def test_a_minibatch_of_one_row_does_not_spoil_the_network() -> None:
    agent, args = ppo.Agent(4, 3), ppo.Args()
    adam = FlatAdam(agent.parameters(), args.learning_rate)
    adam.minimise(ppo.losses_of(agent, some_batch(rows=1), args).total, args.max_grad_norm)
    assert all(parameter.isfinite().all() for parameter in agent.parameters())


def test_passes_over_a_rollout_end_once_the_policy_moved_as_far_as_allowed() -> None:
    args = ppo.Args(num_envs=1, num_steps=40, target_kl=1e-12)
    agent = ppo.Agent(4, 3)
    adam = FlatAdam(agent.parameters(), args.learning_rate)
    ppo.improve(agent, adam, some_batch(), args)
    assert adam.steps == args.num_minibatches
    ppo.improve(agent, adam, some_batch(), dataclasses.replace(args, target_kl=None))
    assert adam.steps == args.num_minibatches * (1 + args.update_epochs)


# --- the script --------------------------------------------------------------------------------------------


def test_ppo_learns_cartpole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "40000", "--seed", "4") == 0
    rows = logged_rows(tmp_path)
    returns = [values["charts/episodic_return"] for _, values in rows if EPISODE_TAGS & values.keys()]
    assert np.mean(returns[:20]) < 50
    assert np.mean(returns[-20:]) >= 150
    assert max(returns) <= 500


def test_every_episode_and_every_update_is_logged_under_cleanrl_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "2048") == 0
    rows = logged_rows(tmp_path)
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    episodes = [values for _, values in rows if EPISODE_TAGS & values.keys()]
    assert [step for step, _ in updates] == [512, 1024, 1536, 2048]
    assert all(values.keys() == UPDATE_TAGS for _, values in updates)
    assert all(values.keys() == EPISODE_TAGS for values in episodes)
    played = sum(values["charts/episodic_length"] for values in episodes)
    assert 2048 - 4 * 500 <= played <= 2048 and len(episodes) > 10
    rates = [values["charts/learning_rate"] for _, values in updates]
    assert rates == pytest.approx([2.5e-4 * share for share in (1, 0.75, 0.5, 0.25)])


def test_the_same_seed_gives_the_same_parameters_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, seed in enumerate((5, 5, 6)):
        directory = tmp_path / str(number)
        directory.mkdir()
        assert run_main(monkeypatch, directory, "--total-timesteps", "3000", "--seed", str(seed)) == 0
        (path,) = checkpoints_of(directory)
        found.append(checkpoints.load(path).tensors)
    first, again, other = found
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_checkpoints_come_at_the_interval_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ["--num-envs", "3", "--num-steps", "50", "--num-minibatches", "7"]
    flags = ["--total-timesteps", "1000", "--checkpoint-every", "400", *shape]
    assert run_main(monkeypatch, tmp_path, *flags) == 0
    paths = checkpoints_of(tmp_path)
    manifests = [checkpoints.load(path).manifest for path in paths]
    assert [manifest.step for manifest in manifests] == [450, 900, 1002]
    last = manifests[-1]
    assert (last.algo, last.env_id, last.args["num_steps"]) == ("ppo", "CartPole-v1", 50)
    assert last.spaces["action"]["n"] == 2 and last.spaces["observation"]["shape"] == [4]
    agent = ppo.Agent(4, 2)
    state = TrainingState()
    state.module("agent", agent)
    state.warm_start(checkpoints.load(paths[-1]).tensors)


def test_a_loss_that_is_not_finite_fails_the_run_with_advice_and_without_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "2048", "--learning-rate", "1e30") == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    assert checkpoints_of(tmp_path) == []


RESUME_FLAGS = ["--total-timesteps", "3000", "--num-steps", "50", "--seed", "7", "--checkpoint-every", "0"]


@pytest.mark.parametrize(
    "stop_at",
    [
        pytest.param(4, id="first", marks=pytest.mark.nightly),
        pytest.param(1000, id="between", marks=pytest.mark.nightly),
        pytest.param(1100, id="amid"),
        pytest.param(1996, id="late", marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    assert run_main(monkeypatch, tmp_path / "whole", *RESUME_FLAGS) == 0
    stopped = script_tools.run_until(stop_at, ppo, monkeypatch, tmp_path / "half", *RESUME_FLAGS)
    assert run_main(monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_a_checkpoint_of_another_environment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "200", "--num-steps", "25") == 0
    (path,) = checkpoints_of(tmp_path)
    assert run_main(monkeypatch, tmp_path, "--env-id", "Acrobot-v1", "--warm-start", str(path)) == 2
    assert "its environment is CartPole-v1, this run's is Acrobot-v1" in capsys.readouterr().err


def test_the_script_stands_alone_as_a_file(tmp_path: Path) -> None:
    assert ppo.__file__ is not None
    command = [sys.executable, ppo.__file__, "--env-id", "Acrobot-v1", "--total-timesteps", "600"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 600 steps" in done.stdout
    assert only_run(tmp_path).name.startswith("Acrobot-v1__ppo__1__")
    refused = subprocess.run([*command, "--gamma", "2"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (2, "ppo: --gamma must be from 0 to 1, got 2.0.\n")
