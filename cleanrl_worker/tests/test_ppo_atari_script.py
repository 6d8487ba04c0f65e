"""PPO on Atari: its arithmetic against the definition, its rollouts, the whole script, and going on to the bit."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from cleanrl_worker import atari
from cleanrl_worker.atari import AtariGames
from cleanrl_worker.cleanrl import ppo_atari
from mosaic_worker.learning import game_rollouts
from mosaic_worker.learning.adam import FlatAdam
from mosaic_worker.learning.advantages import advantages_of
from mosaic_worker.learning.folding import folded
from mosaic_worker.learning.game_rollouts import GameCollector, GameRollout, batch_of
from mosaic_worker.learning.rollouts import Batch, PpoLosses
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.learning.foreseeable import RecordingSession
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    newest_tensors,
    only_run,
    run_main,
    run_until,
)

CLEANRL_DEFAULTS = {
    "exp_name": "ppo_atari",
    "seed": 1,
    "torch_deterministic": True,
    "track": False,
    "wandb_project_name": "cleanRL",
    "wandb_entity": None,
    "capture_video": False,
    "env_id": "BreakoutNoFrameskip-v4",
    "total_timesteps": 10_000_000,
    "learning_rate": 2.5e-4,
    "num_envs": 8,
    "num_steps": 128,
    "anneal_lr": True,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "num_minibatches": 4,
    "update_epochs": 4,
    "norm_adv": True,
    "clip_coef": 0.1,
    "clip_vloss": True,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "target_kl": None,
}
OURS = {"cuda", "torch_threads", "checkpoint_every", "checkpoint_keep", "resume", "warm_start"}
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
SMALL = ["--num-envs", "2", "--num-steps", "20", "--num-minibatches", "2", "--update-epochs", "2"]
CPU = torch.device("cpu")


def some_observations(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(256, size=(count, 4, 84, 84), dtype=np.uint8)


def some_batch(rows: int = 12) -> Batch:
    torch.manual_seed(3)
    return Batch(
        observations=torch.from_numpy(folded(some_observations(rows))),
        actions=torch.randint(0, 3, (rows,)),
        log_probs=-torch.rand(rows) * 2,
        advantages=torch.randn(rows) * 5,
        returns=torch.randn(rows),
        values=torch.randn(rows),
    )


def unfolded(observations: torch.Tensor) -> torch.Tensor:
    """Folded observations as CleanRL's network takes them, by the definition of folding."""
    pictures = torch.zeros(len(observations), 4, 84, 84)
    for frame in range(4):
        for row in range(4):
            for column in range(4):
                channel = frame * 16 + row * 4 + column
                pictures[:, frame, row::4, column::4] = observations[..., channel].float() / 255
    return pictures


def collector_of(env_id: str, agent: ppo_atari.Agent, **flags: Any) -> tuple[GameCollector, RecordingSession]:
    args = ppo_atari.Args(env_id=env_id, **flags)
    session: Any = RecordingSession()
    return GameCollector(AtariGames(env_id, args.num_envs, args.seed), session, agent, args, CPU), session


def collected(collector: GameCollector, steps: int) -> GameRollout:
    rollout = collector.collect(steps)
    assert rollout is not None
    return rollout


def step(agent: ppo_atari.Agent, adam: FlatAdam, batch: Batch, args: ppo_atari.Args) -> PpoLosses:
    losses = ppo_atari.losses_of(agent, batch, args)
    adam.minimise(losses.total, args.max_grad_norm)
    return losses


def adam_for(agent: ppo_atari.Agent, args: ppo_atari.Args) -> FlatAdam:
    return FlatAdam(agent.parameters(), args.learning_rate, epsilon=1e-5)


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_cleanrl() -> None:
    ours = dataclasses.asdict(ppo_atari.Args())
    assert {name: ours[name] for name in CLEANRL_DEFAULTS} == CLEANRL_DEFAULTS
    assert set(ours) - set(CLEANRL_DEFAULTS) == OURS


PLAYS = "ppo_atari plays Atari games, and"
BAD_FLAGS = [
    (["--num-envs", "0"], "--num-envs must be at least 1, got 0."),
    (["--checkpoint-keep", "-1"], "--checkpoint-keep must be 0 or more, got -1."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--gamma", "1.5"], "--gamma must be from 0 to 1, got 1.5."),
    (
        ["--num-envs", "1", "--num-steps", "3"],
        "--num-minibatches must be at most num-envs times num-steps (3), got 4.",
    ),
    (
        ["--env-id", "PongNoFramskip-v4"],
        f"{PLAYS} there is no Atari game 'PongNoFramskip-v4'; did you mean 'PongNoFrameskip-v4'?",
    ),
    (
        ["--env-id", "Pendulum-v1"],
        f"{PLAYS} Pendulum-v1 is none: try an algorithm for Gymnasium's environments, such as ppo",
    ),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS, ids=lambda part: part if isinstance(part, str) else "")
def test_what_cannot_work_is_refused_in_one_sentence_before_anything_is_written(
    flags: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_main(ppo_atari, monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"ppo_atari: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_without_the_emulator_the_error_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    atari.game_names.cache_clear()
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert run_main(ppo_atari, monkeypatch, tmp_path, "--seed", "1") == 2
    assert "python -m cleanrl_worker.tools.install_extras --set atari" in capsys.readouterr().err


# --- the network -------------------------------------------------------------------------------------------


def test_convolving_blocks_is_the_same_as_convolving_pictures() -> None:
    agent = ppo_atari.Agent(6)
    observations = some_observations(3)
    with torch.no_grad():
        hidden = agent.network(torch.from_numpy(observations).float() / 255)
        logits, values = agent(torch.from_numpy(folded(observations)))
        torch.testing.assert_close(logits, agent.actor(hidden), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(values, agent.critic(hidden)[:, 0], rtol=1e-4, atol=1e-5)


def test_folding_puts_each_pixel_where_its_block_and_place_say() -> None:
    observations = some_observations(2)
    blocks = torch.from_numpy(folded(observations))
    assert torch.equal(unfolded(blocks), torch.from_numpy(observations).float() / 255)


def test_parameters_have_the_names_and_shapes_of_cleanrl() -> None:
    shapes = {name: tuple(value.shape) for name, value in ppo_atari.Agent(6).state_dict().items()}
    assert shapes == {
        "network.0.weight": (32, 4, 8, 8),
        "network.0.bias": (32,),
        "network.2.weight": (64, 32, 4, 4),
        "network.2.bias": (64,),
        "network.4.weight": (64, 64, 3, 3),
        "network.4.bias": (64,),
        "network.7.weight": (512, 3136),
        "network.7.bias": (512,),
        "actor.weight": (6, 512),
        "actor.bias": (6,),
        "critic.weight": (1, 512),
        "critic.bias": (1,),
    }


# --- the rollout -------------------------------------------------------------------------------------------


def test_a_rollout_holds_what_was_seen_chosen_and_paid() -> None:
    agent = ppo_atari.Agent(4)
    collector, session = collector_of("BreakoutNoFrameskip-v4", agent, num_envs=2, num_steps=150)
    again = AtariGames("BreakoutNoFrameskip-v4", 2, seed=1)
    rollout = collector.collect(150)
    assert rollout is not None and rollout.filled == 150 and collector.global_step == 300
    scores = []
    for step in range(150):
        assert np.array_equal(rollout.observations[step], folded(again.observations))
        found = again.step(rollout.actions[step])
        assert np.array_equal(rollout.rewards[step], np.sign(found.rewards))
        assert np.array_equal(rollout.terminated[step], found.terminated)
        scores += [(2 * (step + 1), score, frames) for _, score, frames in found.finished]
    assert rollout.terminated.sum() > 5
    told = [(step, *values.values()) for step, values in session.rows]
    assert told == scores and len(scores) >= 1
    with torch.no_grad():
        logits, values = agent(torch.from_numpy(rollout.observations[7]))
    policy = Categorical(logits=logits)
    expected = policy.log_prob(torch.from_numpy(rollout.actions[7]))
    np.testing.assert_allclose(rollout.log_probs[7], expected, atol=1e-5)
    np.testing.assert_allclose(rollout.values[7], values, atol=1e-5)


def test_a_game_cut_off_by_the_time_limit_is_worth_the_value_of_its_last_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atari, "MOST_FRAMES", 120)
    collector, _ = collector_of("PongNoFrameskip-v4", ppo_atari.Agent(6), num_envs=1, num_steps=40)
    rollout = collected(collector, 40)
    (at,) = np.flatnonzero(rollout.truncated[:, 0])[:1]
    args = ppo_atari.Args(num_envs=1, num_steps=40)
    batch = batch_of(rollout, collector.values_now(), args, CPU)
    final = rollout.final_values[at, 0]
    assert final != 0 and final != rollout.values[at + 1, 0]
    expected = rollout.rewards[at, 0] + args.gamma * final
    assert batch.returns[int(at)].item() == pytest.approx(expected, abs=1e-5)


def test_actions_are_drawn_from_the_softmax_of_the_actor() -> None:
    agent = ppo_atari.Agent(6)
    collector, _ = collector_of("PongNoFrameskip-v4", agent, num_envs=2, num_steps=600)
    shares = torch.tensor([0.4, 0.2, 0.1, 0.1, 0.1, 0.1])
    with torch.no_grad():
        agent.actor.weight.zero_()
        agent.actor.bias.copy_(shares.log())
    rollout = collected(collector, 600)
    found = np.bincount(rollout.actions.reshape(-1), minlength=6) / rollout.actions.size
    np.testing.assert_allclose(found, shares, atol=0.05)


# --- the update --------------------------------------------------------------------------------------------


def textbook_loss(agent: ppo_atari.Agent, batch: Batch, args: ppo_atari.Args) -> Any:
    hidden = agent.network(unfolded(batch.observations))
    policy = Categorical(logits=agent.actor(hidden))
    ratio = (policy.log_prob(batch.actions) - batch.log_probs).exp()
    advantage = batch.advantages
    if args.norm_adv:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef) * advantage)
    value = agent.critic(hidden)[:, 0]
    value_loss = (value - batch.returns) ** 2
    if args.clip_vloss:
        near = batch.values + (value - batch.values).clamp(-args.clip_coef, args.clip_coef)
        value_loss = torch.max(value_loss, (near - batch.returns) ** 2)
    entropy = policy.entropy().mean()
    return -surrogate.mean() - args.ent_coef * entropy + args.vf_coef * 0.5 * value_loss.mean()


@pytest.mark.parametrize("switch", [True, False])
def test_gradient_steps_equal_torch_adam_on_the_textbook_loss(switch: bool) -> None:
    args = ppo_atari.Args(norm_adv=switch, clip_vloss=switch, learning_rate=1e-3)
    torch.manual_seed(1)
    ours, reference = ppo_atari.Agent(3), ppo_atari.Agent(3)
    reference.load_state_dict(ours.state_dict())
    adam = adam_for(ours, args)
    optimizer = torch.optim.Adam(reference.parameters(), lr=1e-3, eps=1e-5)
    batch = some_batch()
    for _ in range(3):
        loss = textbook_loss(reference, batch, args)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), args.max_grad_norm)
        optimizer.step()
        assert step(ours, adam, batch, args).total.item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-4)
    for mine, theirs in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=2e-4)


def test_the_loss_falls_on_a_batch_that_is_repeated() -> None:
    args = ppo_atari.Args(clip_vloss=False, learning_rate=1e-3)
    agent = ppo_atari.Agent(3)
    adam, batch = adam_for(agent, args), some_batch(32)
    values = [step(agent, adam, batch, args).value.item() for _ in range(25)]
    assert values[-1] < 0.3 * values[0]


def test_a_minibatch_of_one_row_does_not_spoil_the_network() -> None:
    agent, args = ppo_atari.Agent(3), ppo_atari.Args()
    step(agent, adam_for(agent, args), some_batch(rows=1), args)
    assert all(parameter.isfinite().all() for parameter in agent.parameters())


def test_a_stop_within_an_update_takes_it_back_whole() -> None:
    args = ppo_atari.Args(num_envs=2, num_steps=6, num_minibatches=2)
    agent = ppo_atari.Agent(3)
    adam = adam_for(agent, args)
    step(agent, adam, some_batch(), args)
    before = [one.clone() for one in (adam.vector, adam.mean, adam.mean_square, torch.get_rng_state())]
    batch = some_batch()
    torch.set_rng_state(before[3])
    asked = iter((True, True, False))
    assert ppo_atari.improve(agent, adam, batch, args, lambda: next(asked)) is None
    after = (adam.vector, adam.mean, adam.mean_square, torch.get_rng_state())
    assert adam.steps == 1 and all(map(torch.equal, before, after))
    assert ppo_atari.improve(agent, adam, batch, args) is not None and adam.steps == 9


# --- the script --------------------------------------------------------------------------------------------


def test_a_run_ends_with_a_checkpoint_and_every_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--total-timesteps", "500", "--checkpoint-every", "200", "--num-steps", "50"]
    assert run_main(ppo_atari, monkeypatch, tmp_path, *SMALL, *flags) == 0
    rows = logged_rows(tmp_path)
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    episodes = [values for _, values in rows if EPISODE_TAGS & values.keys()]
    assert [step for step, _ in updates] == [100, 200, 300, 400, 500]
    assert all(values.keys() == UPDATE_TAGS for _, values in updates)
    assert episodes and all(values.keys() == EPISODE_TAGS for values in episodes)
    rates = [values["charts/learning_rate"] for _, values in updates]
    assert rates == pytest.approx([2.5e-4 * share for share in (1, 0.8, 0.6, 0.4, 0.2)])
    manifests = [checkpoints.load(path).manifest for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [200, 400, 500]
    assert (manifests[-1].algo, manifests[-1].env_id) == ("ppo_atari", "BreakoutNoFrameskip-v4")
    assert manifests[-1].spaces["action"]["n"] == 4
    assert manifests[-1].tensor_bytes < 25e6, "a rollout that was learned from is not kept"


RESUME_FLAGS = [*SMALL, "--total-timesteps", "120", "--env-id", "ALE/Breakout-v5", "--seed", "7"]


def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a rollout, in the same games; a second run that never stops shows the seed to be all."""
    flags = [*RESUME_FLAGS, "--checkpoint-every", "0"]
    assert run_main(ppo_atari, monkeypatch, tmp_path / "whole", *flags) == 0
    expected = newest_tensors(tmp_path / "whole")
    for stop_at in (4, 58, 80):
        folder = tmp_path / str(stop_at)
        stopped = run_until(stop_at, ppo_atari, monkeypatch, folder, *flags)
        rest = tmp_path / f"{stop_at} rest"
        assert run_main(ppo_atari, monkeypatch, rest, "--resume", str(stopped)) == 0
        assert differing(expected, newest_tensors(rest)) == []
    assert run_main(ppo_atari, monkeypatch, tmp_path / "again", *flags) == 0
    assert differing(expected, newest_tensors(tmp_path / "again")) == []
    assert run_main(ppo_atari, monkeypatch, tmp_path / "other", *flags, "--seed", "8") == 0
    assert "agent.actor.weight" in differing(expected, newest_tensors(tmp_path / "other"))


def test_a_run_that_was_stopped_within_an_update_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [*RESUME_FLAGS, "--checkpoint-every", "0"]
    assert run_main(ppo_atari, monkeypatch, tmp_path / "whole", *flags) == 0
    original = FlatAdam.minimise

    def stopping(adam: FlatAdam, *arguments: Any) -> None:
        if adam.steps == 5:  # the second of four steps of the second update
            session.stop_requested = True
        original(adam, *arguments)

    with monkeypatch.context() as patch:
        from mosaic_worker.training.session import TrainingSession

        opened = TrainingSession.open

        def opening(*arguments: Any) -> TrainingSession:
            nonlocal session
            session = opened(*arguments)
            return session

        session: Any = None
        patch.setattr(TrainingSession, "open", opening)
        patch.setattr(FlatAdam, "minimise", stopping)
        assert run_main(ppo_atari, patch, tmp_path / "half", *flags) == 0
    (stopped,) = checkpoints_of(tmp_path / "half")
    assert checkpoints.read_manifest(stopped).step == 80
    assert run_main(ppo_atari, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []


def test_a_warm_start_takes_the_networks_over_and_what_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(ppo_atari, monkeypatch, tmp_path / "first", *SMALL, "--total-timesteps", "40") == 0
    (path,) = checkpoints_of(tmp_path / "first")
    stopped = run_until(0, ppo_atari, monkeypatch, tmp_path / "second", *SMALL, "--warm-start", str(path))
    old, new = checkpoints.load(path), checkpoints.load(stopped)
    networks = [name for name in old.tensors if name.startswith("agent.")]
    assert len(networks) == 12 and all(torch.equal(old.tensors[name], new.tensors[name]) for name in networks)
    assert not new.tensors["learner.mean"].any() and old.tensors["learner.mean"].any()
    assert run_main(ppo_atari, monkeypatch, tmp_path / "more", "--resume", str(path), "--num-envs", "3") == 2
    assert "cannot be used: the checkpoint has 2 games, this run has 3" in capsys.readouterr().err
    flags = ["--env-id", "PongNoFrameskip-v4", "--warm-start", str(path)]
    assert run_main(ppo_atari, monkeypatch, tmp_path / "third", *SMALL, *flags) == 2
    sentence = "its environment is BreakoutNoFrameskip-v4, this run's is PongNoFrameskip-v4"
    assert sentence in capsys.readouterr().err


def test_a_loss_that_is_not_finite_fails_the_run_with_advice_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = advantages_of
    calls = 0

    def spoiled(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*arguments) * (np.nan if calls == 3 else 1)

    monkeypatch.setattr(game_rollouts, "advantages_of", spoiled)
    assert run_main(ppo_atari, monkeypatch, tmp_path, *RESUME_FLAGS, "--checkpoint-every", "40") == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    good = checkpoints.load(checkpoints_of(tmp_path)[-1])
    assert good.manifest.step == 80
    assert all(value.isfinite().all() for value in good.tensors.values() if value.is_floating_point())


def test_a_loaded_policy_plays_as_the_checkpoint_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(ppo_atari, monkeypatch, tmp_path, *SMALL, "--total-timesteps", "40") == 0
    checkpoint = checkpoints.load(checkpoints_of(tmp_path)[-1])
    args = ppo_atari.Args(**checkpoint.manifest.args)
    policy = ppo_atari.load_policy(checkpoint, args)
    env = ppo_atari.make_evaluation_env(args)
    observation, _ = env.reset(seed=1)
    observations = np.stack([observation, *some_observations(2)])
    agent = ppo_atari.Agent(4)
    own = {name: value for name, value in checkpoint.tensors.items() if name.startswith("agent.")}
    agent.load_state_dict({name.removeprefix("agent."): value for name, value in own.items()})
    with torch.no_grad():
        logits = agent.actor(agent.network(torch.from_numpy(observations).float() / 255))
    random = np.random.default_rng(0)
    chosen = policy.act(observations, deterministic=True, random=random)
    assert chosen.tolist() == logits.argmax(dim=1).tolist()
    drawn = np.stack([policy.act(observations, deterministic=False, random=random) for _ in range(300)])
    share = (drawn[:, 0] == 2).mean()
    assert share == pytest.approx(float(logits.softmax(dim=1)[0, 2]), abs=0.12)
    assert env.step(chosen[0])[0].shape == (4, 84, 84)


def test_a_clip_of_the_first_game_is_made_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(ppo_atari, monkeypatch, tmp_path, *SMALL, "--total-timesteps", "40", "--capture-video") == 0
    (clip,) = (only_run(tmp_path) / "videos").iterdir()
    assert clip.name.startswith("episode-0-step-") and clip.stat().st_size > 500


def test_the_script_stands_alone_as_a_file(tmp_path: Path) -> None:
    assert ppo_atari.__file__ is not None
    command = [sys.executable, ppo_atari.__file__, "--env-id", "ALE/Pong-v5", *SMALL, "--total-timesteps", "40"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 40 steps" in done.stdout
    assert only_run(tmp_path).name.startswith("ALE-Pong-v5__ppo_atari__1__")
