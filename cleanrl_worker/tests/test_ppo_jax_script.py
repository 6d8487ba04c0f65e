"""PPO in JAX: its arithmetic against its twin's, checkpoints that act through either, and the whole script."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cleanrl_worker.cleanrl import ppo, ppo_jax
from cleanrl_worker.config import PACKAGE
from mosaic_protocol.seed_runs import folder_of
from mosaic_worker.compiled.environment import Seen
from mosaic_worker.compiled.networks import tanh_network
from mosaic_worker.compiled.xla import jax, jnp
from mosaic_worker.errors import UsageError
from mosaic_worker.learning import rollouts
from mosaic_worker.learning.advantages import textbook_advantages
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.scripts.argument_check import check_arguments
from mosaic_worker.state import checkpoints
from mosaic_worker.tests import script_tools
from mosaic_worker.tests.script_tools import checkpoints_of, differing, logged_rows, newest_tensors, only_run
from mosaic_worker.training.session import TrainingSession

SCRIPT = Path(str(ppo_jax.__file__))
KNOBS = {name: np.float32(getattr(ppo_jax.Args(), name) or 0) for name in ppo_jax.TRACED}
EPISODE_TAGS = {"charts/episodic_return", "charts/episodic_length"}


@pytest.fixture(autouse=True, scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compiled programs stay in one place for these tests, those of other processes too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(home := tmp_path_factory.mktemp("home")))
        yield home


def run_main(monkeypatch: pytest.MonkeyPatch, directory: Path, *flags: str, script: Any = ppo_jax) -> int:
    return script_tools.run_main(script, monkeypatch, directory, *flags)


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_the_twin() -> None:
    ours, theirs = dataclasses.asdict(ppo_jax.Args()), dataclasses.asdict(ppo.Args())
    assert set(theirs) - set(ours) == {"torch_deterministic", "torch_threads", "cuda"}
    assert set(ours) - set(theirs) == {"xla_threads", "seeds"}
    shared = set(ours) & set(theirs) - {"exp_name"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


COMPILED = "ppo_jax runs environments that are compiled: CartPole-v1, Acrobot-v1, MountainCar-v0."
BAD_FLAGS = [
    (["--total-timesteps", "-5"], "--total-timesteps must be at least 1, got -5."),
    (["--learning-rate", "nan"], "--learning-rate must be more than 0, got nan."),
    (["--num-minibatches", "3"], "--num-minibatches must divide num-envs times num-steps (512), got 3."),
    (["--env-id", "LunarLander-v3"], f"{COMPILED} For LunarLander-v3 use ppo."),
    (["--env-id", "Pendulum-v1"], "ppo_jax needs a discrete action space; Pendulum-v1 has continuous actions."),
    (
        ["--capture-video"],
        "--capture-video: a compiled environment draws nothing; film the policy with mosaic eval --record.",
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
    assert run_main(monkeypatch, tmp_path, *flags) == 2
    assert capsys.readouterr().err == f"ppo_jax: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_without_jax_a_run_is_refused_before_it_starts_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as refusal:
        check_arguments(SCRIPT, {})
    command = "python -m mosaic_worker.extras --set jax"
    assert str(refusal.value) == f"ppo_jax needs JAX: JAX is not installed here. Install it with: {command}"


def test_without_jax_the_script_by_hand_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("Install it with: python -m mosaic_worker.extras --set jax")


# --- the arithmetic ----------------------------------------------------------------------------------------


def test_advantages_are_those_of_the_definition_across_ends_of_both_kinds() -> None:
    random = np.random.default_rng(4)
    shape = 12, 3
    rewards, values, next_values = (random.normal(size=shape).astype(np.float32) for _ in range(3))
    terminated = random.random(shape) < 0.2
    truncated = (random.random(shape) < 0.2) & ~terminated
    nothing = jnp.zeros(shape)
    seen = Seen(jnp.array(rewards), jnp.array(terminated), jnp.array(truncated), nothing, nothing, nothing)
    found = ppo_jax.advantages_of(seen, jnp.array(values), jnp.array(next_values), KNOBS)
    expected = textbook_advantages(rewards, values, next_values, terminated, truncated, 0.99, 0.95)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("is_cut", [True, False])
def test_the_value_of_the_last_state_counts_where_a_time_limit_cut_an_episode_off(is_cut: bool) -> None:
    learned = {name.removeprefix("agent."): jnp.array(one) for name, one in agent_tensors(ppo.Agent(4, 2)).items()}
    random = np.random.default_rng(5)
    observations = jnp.array(random.normal(size=(3, 1, 4)), jnp.float32)
    following = jnp.array(random.normal(size=(3, 1, 4)), jnp.float32)
    over = jnp.array([[False], [True], [False]])
    zeros = jnp.zeros((3, 1))
    seen = Seen(zeros + 1, over & (not is_cut), over & is_cut, following, zeros, zeros)
    played = observations, jnp.zeros((3, 1), int), jnp.zeros((3, 1, 2)), seen
    batch = ppo_jax.evaluated(learned, played, observations[0], KNOBS)
    last = tanh_network(learned, "critic", following[1])[0, 0] if is_cut else 0.0
    np.testing.assert_allclose(batch.returns[1], 1 + 0.99 * last, rtol=1e-5)
    np.testing.assert_allclose(batch.log_probs, np.log([0.5] * 3), rtol=1e-6)


def agent_tensors(agent: ppo.Agent) -> dict[str, np.ndarray]:
    return {f"agent.{name}": value.numpy().copy() for name, value in agent.state_dict().items()}


@pytest.mark.parametrize(("norm_adv", "clip_vloss"), [(True, True), (False, False)])
def test_loss_and_gradient_are_those_of_the_twin(norm_adv: bool, clip_vloss: bool) -> None:
    torch.manual_seed(3)
    agent, args = ppo.Agent(4, 3), ppo.Args(norm_adv=norm_adv, clip_vloss=clip_vloss)
    columns = {
        "observations": torch.randn(40, 4),
        "actions": torch.randint(0, 3, (40,)),
        "log_probs": -torch.rand(40) * 2,
        "advantages": torch.randn(40) * 5,
        "returns": torch.randn(40),
        "values": torch.randn(40),
    }
    losses = ppo.losses_of(agent, rollouts.Batch(**columns), args)
    losses.total.backward()
    shape = ppo_jax.shape_of(ppo_jax.Args(norm_adv=norm_adv, clip_vloss=clip_vloss))
    learned = {name.removeprefix("agent."): jnp.array(one) for name, one in agent_tensors(agent).items()}
    batch = ppo_jax.Batch(**{name: jnp.array(value.numpy()) for name, value in columns.items()})
    slope = jax.jit(jax.value_and_grad(lambda at: ppo_jax.losses_of(at, batch, shape, KNOBS), has_aux=True))
    (total, (policy, value, entropy, _)), gradients = slope(learned)
    parts = [losses.total.item(), *(part.item() / 40 for part in (losses.policy, losses.value, losses.entropy))]
    np.testing.assert_allclose([total, policy, value, entropy], parts, rtol=1e-4, atol=1e-6)
    for name, parameter in agent.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_allclose(gradients[name], parameter.grad, rtol=1e-3, atol=1e-5)


def test_passes_over_a_rollout_end_once_the_policy_moved_as_far_as_allowed() -> None:
    args = ppo_jax.Args(num_envs=1, num_steps=40, target_kl=1e-12)
    envs = ppo_jax.make_envs(args)
    learner = ppo_jax.first_learner(args, envs)
    knobs = {**KNOBS, "learning_rate": np.float32(1e-3), "target_kl": np.float32(1e-12)}
    update = ppo_jax.program(ppo_jax.shape_of(args))
    learner, _, _ = update(learner, knobs)
    assert learner.moments.steps == args.num_minibatches
    learner, _, _ = update(learner, {**knobs, "target_kl": np.float32(1)})
    assert learner.moments.steps == args.num_minibatches * (1 + args.update_epochs)


# --- the script --------------------------------------------------------------------------------------------


def test_it_learns_cartpole_and_logs_what_its_twin_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, tmp_path / "jax", "--total-timesteps", "40000", "--seed", "4") == 0
    rows = logged_rows(tmp_path / "jax")
    episodes = [values for _, values in rows if EPISODE_TAGS & values.keys()]
    returns = [values["charts/episodic_return"] for values in episodes]
    assert np.mean(returns[:20]) < 50 and np.mean(returns[-20:]) >= 150 and max(returns) <= 500
    played = sum(values["charts/episodic_length"] for values in episodes)
    assert 40448 - 4 * 500 <= played <= 40448
    updates = [(step, values) for step, values in rows if "charts/SPS" in values]
    assert [step for step, _ in updates] == list(range(512, 40449, 512))
    assert updates[0][1]["charts/learning_rate"] == pytest.approx(2.5e-4)
    assert updates[-1][1]["charts/learning_rate"] == pytest.approx(2.5e-4 / 79)
    assert run_main(monkeypatch, tmp_path / "torch", "--total-timesteps", "512", script=ppo) == 0
    theirs = {frozenset(values) for _, values in logged_rows(tmp_path / "torch")}
    assert {frozenset(values) for _, values in rows} == theirs


def test_the_same_seed_gives_the_same_bits_and_another_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for number, seed in enumerate(("5", "5", "6")):
        assert run_main(monkeypatch, tmp_path / str(number), "--total-timesteps", "3000", "--seed", seed) == 0
        found.append(newest_tensors(tmp_path / str(number)))
    first, again, other = found
    assert differing(first, again) == []
    assert "agent.critic.0.weight" in differing(first, other)


def test_checkpoints_come_at_the_interval_and_have_the_tensors_of_the_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "3000", "--checkpoint-every", "1000") == 0
    manifests = [checkpoints.read_manifest(path) for path in checkpoints_of(tmp_path)]
    assert [manifest.step for manifest in manifests] == [1024, 2048, 3072]
    last = manifests[-1]
    assert (last.algo, last.env_id, last.args["num_steps"]) == ("ppo_jax", "CartPole-v1", 128)
    assert last.spaces["action"]["n"] == 2 and last.spaces["observation"]["shape"] == [4]
    networks = {name: one.shape for name, one in newest_tensors(tmp_path).items() if name.startswith("agent.")}
    assert networks == {name: one.shape for name, one in agent_tensors(ppo.Agent(4, 2)).items()}


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = ppo_jax.program

    def spoilt_later(shape: Any) -> Any:
        update, calls = whole(shape), iter(range(100))

        def call(learner: Any, knobs: Any) -> Any:
            rate = knobs["learning_rate"] if next(calls) < 2 else np.float32(1e30)
            return update(learner, {**knobs, "learning_rate": rate})

        return call

    monkeypatch.setattr(ppo_jax, "program", spoilt_later)
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "9000", "--checkpoint-every", "512") == 1
    assert "a lower --learning-rate may help" in capsys.readouterr().err
    paths = checkpoints_of(tmp_path)
    assert [checkpoints.read_manifest(path).step for path in paths][:2] == [512, 1024]
    for path in paths:
        assert all(torch.as_tensor(one).isfinite().all() for one in checkpoints.load(path).tensors.values())


RESUME_FLAGS = ["--total-timesteps", "3500", "--seed", "7", "--checkpoint-every", "0"]


@pytest.mark.parametrize("stop_at", [0, 1024, pytest.param(3072, marks=pytest.mark.nightly)])
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits(
    stop_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(monkeypatch, tmp_path / "whole", *RESUME_FLAGS) == 0
    stopped = script_tools.run_until(stop_at, ppo_jax, monkeypatch, tmp_path / "half", *RESUME_FLAGS)
    assert run_main(monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(tmp_path / "rest")) == []
    assert [values for step, values in logged_rows(tmp_path / "rest") if EPISODE_TAGS & values.keys()] == [
        values for step, values in logged_rows(tmp_path / "whole") if step > stop_at and EPISODE_TAGS & values.keys()
    ]


def test_rollouts_of_another_shape_are_refused_when_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, tmp_path / "one", "--total-timesteps", "512") == 0
    (path,) = checkpoints_of(tmp_path / "one")
    assert run_main(monkeypatch, tmp_path / "two", "--resume", str(path), "--num-envs", "8") == 2
    said = f"{path} cannot be used: its --num-envs is 4, this run's is 8; leave it as it was\n"
    assert capsys.readouterr().err.endswith(said)


# --- twins -------------------------------------------------------------------------------------------------


def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Path]:
    """A checkpoint of each."""
    found = {}
    for name, script in (("ppo_jax", ppo_jax), ("ppo", ppo)):
        assert run_main(monkeypatch, tmp_path / name, "--total-timesteps", "2048", script=script) == 0
        found[name] = checkpoints_of(tmp_path / name)[-1]
    return found


def test_each_twin_begins_with_the_networks_of_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = both(monkeypatch, tmp_path)
    slow = ["--learning-rate", "1e-30", "--total-timesteps", "512"]
    for name, other, script in (("ppo_jax", "ppo", ppo_jax), ("ppo", "ppo_jax", ppo)):
        begun = tmp_path / f"{name} begun"
        assert run_main(monkeypatch, begun, "--warm-start", str(made[other]), *slow, script=script) == 0
        given, found = checkpoints.load(made[other]).tensors, newest_tensors(begun)
        assert all(torch.equal(given[one], found[one]) for one in agent_tensors(ppo.Agent(4, 2)))
        assert run_main(monkeypatch, tmp_path / "no", "--resume", str(made[other]), script=script) == 2
        advice = f"its algorithm is {other}, this run's is {name}; of this twin the networks can be taken over"
        assert advice in capsys.readouterr().err


def test_a_checkpoint_acts_as_the_network_does_and_without_jax(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_main(monkeypatch, tmp_path, "--total-timesteps", "20480") == 0
    (path,) = checkpoints_of(tmp_path)
    loaded = load_acting(path, PACKAGE)
    assert loaded.script.__name__ == "cleanrl_worker.cleanrl.ppo" and loaded.manifest.algo == "ppo_jax"
    rows = np.random.default_rng(5).normal(size=(200, 4)).astype(np.float32)
    chosen = loaded.policy.act(rows, deterministic=True, random=np.random.default_rng(0))
    learned = {name.removeprefix("agent."): jnp.array(one) for name, one in loaded.checkpoint.kept.items()}
    expected = np.asarray(tanh_network(learned, "actor", jnp.array(rows)).argmax(1))
    assert set(chosen.tolist()) == {0, 1} and (chosen == expected).mean() > 0.99
    program = (
        "import sys; from pathlib import Path; from cleanrl_worker.config import PACKAGE\n"
        "from mosaic_worker.policies.acting import load_acting\n"
        "load_acting(Path(sys.argv[1]), PACKAGE); sys.exit('jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=PACKAGE.parent, check=False)
    assert done.returncode == 0


# --- several seeds -----------------------------------------------------------------------------------------

SEEDS = ["--seeds", "3", "--seed", "5", "--num-envs", "2", "--num-steps", "64", "--num-minibatches", "2"]


def folders_of(directory: Path) -> dict[int, Path]:
    return {seed: folder_of(only_run(directory), seed) for seed in (5, 6, 7)}


def steps_of(paths: list[Path]) -> list[int]:
    return [checkpoints.read_manifest(path).step for path in paths]


def rows_in(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """What a seed logged, as :func:`logged_rows` has it of a run."""
    place = folder.parent / f"as {folder.name}"
    (place / "runs").mkdir(parents=True)
    (place / "runs" / "one").symlink_to(folder)
    return logged_rows(place)


def test_each_of_several_seeds_learns_as_it_would_alone_and_leaves_what_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [*SEEDS, "--total-timesteps", "256", "--checkpoint-every", "128"]
    assert run_main(monkeypatch, tmp_path / "all", *flags) == 0
    alone = [flag for flag in flags if flag not in ("--seeds", "3")]
    tags: set[frozenset[str]] = set()
    for seed, folder in folders_of(tmp_path / "all").items():
        assert run_main(monkeypatch, tmp_path / str(seed), *alone, "--seed", str(seed)) == 0
        paths, theirs = checkpoints.list_checkpoints(folder / "checkpoints"), checkpoints_of(tmp_path / str(seed))
        manifests = [checkpoints.read_manifest(path) for path in paths]
        assert (
            [one.step for one in manifests] == [checkpoints.read_manifest(path).step for path in theirs] == [128, 256]
        )
        assert (manifests[-1].args["seed"], manifests[-1].args["seeds"]) == (seed, 1)
        ours, expected = checkpoints.load(paths[-1]).tensors, newest_tensors(tmp_path / str(seed))
        assert {name: one.shape for name, one in ours.items()} == {name: one.shape for name, one in expected.items()}
        for name in agent_tensors(ppo.Agent(4, 2)):  # to rounding: side by side sums are made in another order
            np.testing.assert_allclose(ours[name], expected[name], atol=1e-4, err_msg=name)
        rows = rows_in(folder)
        tags |= {frozenset(values) for _, values in rows}
        told, other = (
            [values["charts/episodic_return"] for _, values in found if "charts/episodic_return" in values]
            for found in (rows, logged_rows(tmp_path / str(seed)))
        )
        assert told[:3] == other[:3] and len(told) > 3
    assert tags == {frozenset(values) for _, values in logged_rows(tmp_path / "5")}
    means = [values for _, values in logged_rows(tmp_path / "all") if "losses/value_loss" in values]
    assert len(means) == 2 and not (only_run(tmp_path / "all") / "checkpoints").exists()


def test_a_run_goes_on_from_the_checkpoint_of_a_seed_as_from_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [*SEEDS, "--total-timesteps", "128"]
    assert run_main(monkeypatch, tmp_path / "all", *few) == 0
    (path,) = checkpoints.list_checkpoints(folders_of(tmp_path / "all")[6] / "checkpoints")
    assert run_main(monkeypatch, tmp_path / "on", "--resume", str(path), "--total-timesteps", "256") == 0
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "on")[-1]).args["seed"] == 6
    assert run_main(monkeypatch, tmp_path / "warm", *few, "--warm-start", str(path), "--learning-rate", "1e-30") == 0
    given = checkpoints.load(path).tensors
    for folder in folders_of(tmp_path / "warm").values():
        (begun,) = checkpoints.list_checkpoints(folder / "checkpoints")
        found = checkpoints.load(begun).tensors
        assert all(torch.equal(given[one], found[one]) for one in agent_tensors(ppo.Agent(4, 2)))
    for flags, said in (
        (["--resume", str(path)], "--resume goes on with one seed"),
        (["--track"], "--track sends one run"),
        (["--seeds", "300"], "--seeds must be at most 256, got 300."),
    ):
        assert run_main(monkeypatch, tmp_path / "no", *few, *flags) == 2
        assert said in capsys.readouterr().err


def spoilt(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """From the second update on these seeds, by their place, are lost."""
    whole = ppo_jax.program

    def spoiling(shape: Any, *, is_of_seeds: bool = False) -> Any:
        update, calls = whole(shape, is_of_seeds=is_of_seeds), iter(range(100))

        def call(learner: Any, knobs: Any) -> Any:
            learner, (total, figures), episodes = update(learner, knobs)
            if next(calls) == 1:
                for number in numbers:
                    lost = {name: one.at[number].set(jnp.nan) for name, one in learner.learned.items()}
                    learner, total = learner._replace(learned=lost), total.at[number].set(jnp.nan)
            return learner, (total, figures), episodes

        return call

    monkeypatch.setattr(ppo_jax, "program", spoiling)


def test_a_seed_that_is_lost_keeps_its_last_good_checkpoint_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*SEEDS, "--total-timesteps", "512", "--checkpoint-every", "128"]
    assert run_main(monkeypatch, tmp_path / "well", *flags) == 0
    spoilt(monkeypatch, 1)
    assert run_main(monkeypatch, tmp_path / "one", *flags) == 0
    assert "Seed 6 is lost, the others go on: The loss is no longer finite" in capsys.readouterr().out
    found = {
        seed: checkpoints.list_checkpoints(folder / "checkpoints")
        for seed, folder in folders_of(tmp_path / "one").items()
    }
    assert {seed: checkpoints.read_manifest(paths[-1]).step for seed, paths in found.items()} == {
        5: 512,
        6: 128,
        7: 512,
    }
    for seed in (5, 7):
        (*_, well) = checkpoints.list_checkpoints(folders_of(tmp_path / "well")[seed] / "checkpoints")
        assert differing(checkpoints.load(well).tensors, checkpoints.load(found[seed][-1]).tensors) == []
    spoilt(monkeypatch, 0, 1, 2)
    assert run_main(monkeypatch, tmp_path / "all", *flags) == 1
    assert "Every seed is lost. The loss is no longer finite" in capsys.readouterr().err


def test_seeds_stop_together_each_with_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = TrainingSession.safe_point

    def stopping(session: TrainingSession, step: int) -> None:
        session.stop_requested = step >= 256
        original(session, step)

    monkeypatch.setattr(TrainingSession, "safe_point", stopping)
    assert run_main(monkeypatch, tmp_path, *SEEDS, "--total-timesteps", "9000") == 0
    for folder in folders_of(tmp_path).values():
        (path,) = checkpoints.list_checkpoints(folder / "checkpoints")
        assert checkpoints.read_manifest(path).step == 256


# --- processes ---------------------------------------------------------------------------------------------


def test_the_script_stands_alone_and_finds_what_was_compiled_before(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_main(monkeypatch, tmp_path / "here", "--total-timesteps", "512") == 0
    kept = set((cached / "cache" / "jax").rglob("jit_update*-cache"))
    assert kept
    command = [sys.executable, str(SCRIPT), "--total-timesteps", "512"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Training for 512 steps" in done.stdout
    assert only_run(tmp_path).name.startswith("CartPole-v1__ppo_jax__1__")
    assert set((cached / "cache" / "jax").rglob("jit_update*-cache")) == kept, "it was compiled again"
    theirs, ours = newest_tensors(tmp_path), newest_tensors(tmp_path / "here")
    assert differing(theirs, {name: ours[name] for name in theirs}) == []
    assert ours.keys() - theirs.keys() == {"random.torch"}, "only these tests imported PyTorch"
