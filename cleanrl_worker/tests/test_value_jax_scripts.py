"""DQN and C51 in JAX: their arithmetic against their twins', checkpoints of either, and the whole scripts."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from cleanrl_worker.cleanrl import c51, c51_jax, dqn, dqn_jax
from cleanrl_worker.config import PACKAGE
from mosaic_worker.compiled import value_learning
from mosaic_worker.compiled.networks import part
from mosaic_worker.compiled.value_learning import Q_NETWORK, TARGET, Learner, first_learner, schedule
from mosaic_worker.compiled.value_spans import Memory, remembered, share_at
from mosaic_worker.compiled.xla import jnp
from mosaic_worker.errors import UsageError
from mosaic_worker.learning.fast_losses.c51 import textbook_projection
from mosaic_worker.learning.replay_buffer import Batch, ReplayBuffer
from mosaic_worker.learning.schedules import exploration
from mosaic_worker.policies.acting import load_acting
from mosaic_worker.scripts.argument_check import check_arguments
from mosaic_worker.state import checkpoints
from mosaic_worker.tests.script_tools import (
    checkpoints_of,
    differing,
    logged_rows,
    newest_tensors,
    only_run,
    run_main,
    run_until,
)

TWINS = {dqn_jax: dqn, c51_jax: c51}
SHORT = ["--total-timesteps", "1501", "--learning-starts", "200", "--buffer-size", "400", "--batch-size", "16"]
IN_STEPS = "--no-compiled-envs"


@pytest.fixture(autouse=True, scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Compiled programs stay in one place for these tests, those of other processes too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(home := tmp_path_factory.mktemp("home")))
        yield home


@pytest.fixture(params=TWINS, ids=lambda script: script.__name__.rpartition(".")[2])
def script(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


def name_of(script: ModuleType) -> str:
    return script.__name__.rpartition(".")[2]


# --- the flags ---------------------------------------------------------------------------------------------


def test_flags_and_defaults_are_those_of_the_twin(script: ModuleType) -> None:
    ours, theirs = dataclasses.asdict(script.Args()), dataclasses.asdict(TWINS[script].Args())
    assert set(theirs) - set(ours) == {"torch_deterministic", "torch_threads", "cuda"}
    assert set(ours) - set(theirs) == {"xla_threads", "compiled_envs"}
    shared = set(ours) & set(theirs) - {"exp_name"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_what_cannot_work_is_refused_in_one_sentence(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = name_of(script)
    for flags, said in (
        (["--env-id", "Pendulum-v1"], f"{name} needs a discrete action space; Pendulum-v1 has"),
        (["--xla-threads", "0"], "--xla-threads must be at least 1, got 0."),
        (["--num-envs", "9", "--buffer-size", "8"], "--buffer-size must be at least num-envs (9), got 8."),
        (["--total-timesteps", "3000000000"], "--total-timesteps must be less than 2,147,483,648"),
    ):
        assert run_main(script, monkeypatch, tmp_path, *flags) == 2
        assert capsys.readouterr().err.startswith(f"{name}: {said}")
    assert list(tmp_path.iterdir()) == []


def test_without_jax_a_run_is_refused_before_it_starts_with_the_command(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs JAX: .* python -m mosaic_worker.extras --set jax"):
        check_arguments(Path(str(script.__file__)), {})


# --- the arithmetic ----------------------------------------------------------------------------------------


class Pair:
    """A learner in JAX, the twin's networks with the same numbers, and a batch for both."""

    def __init__(self, script: ModuleType) -> None:
        self.script, self.twin = script, TWINS[script]
        self.args = script.Args()
        envs = script.make_envs(script.Args(compiled_envs=False))
        outputs = 2 * getattr(self.args, "n_atoms", 1)
        self.learner: Learner = first_learner(7, envs, outputs)
        envs.close()
        more = (self.twin.Args(),) if script is c51_jax else ()
        self.networks = [self.twin.QNetwork(4, 2, *more) for _ in range(2)]
        for network, name in zip(self.networks, (Q_NETWORK, TARGET), strict=True):
            arrays = {key: torch.from_numpy(np.array(one)) for key, one in part(self.learner.learned, name).items()}
            network.network.load_state_dict(arrays)
        torch.manual_seed(1)
        rows = torch.randn(16, 11)
        rows[:, -3] = (rows[:, -3] > 0).float()
        rows[:, -2] *= 30
        rows[:, -1] = (rows[:, -1] > 1).float()
        self.rows = jnp.array(rows.numpy())
        self.batch = Batch(rows[:, :4], rows[:, 4:8], rows[:, -3:-2].long(), rows[:, -2], rows[:, -1])

    def updated(self) -> tuple[Learner, Any]:
        knobs = schedule(self.args, self.args.total_timesteps, 1.0)
        if self.script is dqn_jax:
            return self.script.single()(self.learner, self.rows, knobs)
        knobs |= {"v_min": np.float32(-100), "v_max": np.float32(100), "epsilon": np.float32(0.01 / 128)}
        return self.script.single(101)(self.learner, self.rows, knobs)


def test_an_update_is_that_of_the_twin(script: ModuleType) -> None:
    pair = Pair(script)
    network, target = pair.networks
    epsilon = 1e-8 if script is dqn_jax else 0.01 / 128
    adam = torch.optim.Adam(network.parameters(), 2.5e-4, eps=epsilon)
    loss, value = pair.twin.loss_of(network, target, pair.batch, pair.twin.Args())
    loss.backward()
    adam.step()
    learner, (ours, our_value) = pair.updated()
    np.testing.assert_allclose([ours, our_value], [loss.item(), value.item()], rtol=1e-4, atol=1e-5)
    for key, one in part(learner.learned, Q_NETWORK).items():
        np.testing.assert_allclose(one, network.network.state_dict()[key], atol=5e-5, err_msg=key)


def test_a_distribution_is_put_back_onto_the_atoms_as_the_definition_has_it() -> None:
    random = np.random.default_rng(2)
    atoms = np.linspace(-10, 10, 21, dtype=np.float32)
    probabilities = random.dirichlet(np.ones(21), 12).astype(np.float32)
    rewards = np.array([0, 1, -1, 0.3, 9, -9, 100, -100, 2.5, 0, 10, -10], np.float32)
    terminated = (random.random(12) < 0.4).astype(np.float32)
    nothing = jnp.zeros((12, 4))
    batch = value_learning.Batch(nothing, nothing, jnp.zeros(12, int), jnp.array(rewards), jnp.array(terminated))
    found = c51_jax.projected(jnp.array(probabilities), batch, jnp.array(atoms), {"gamma": np.float32(0.9)})
    given = [torch.from_numpy(one) for one in (probabilities, rewards, terminated, atoms)]
    expected = textbook_projection(given[0], given[1], given[2], given[3], 0.9)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3])
def test_the_memory_holds_what_the_twins_does(count: int) -> None:
    kept, memory = ReplayBuffer(8, 4, True), Memory(jnp.zeros((8, 11)), jnp.int32(0), jnp.int32(0))
    random = np.random.default_rng(0)
    for _ in range(7):
        rows = random.normal(size=(count, 11)).astype(np.float32)
        memory = remembered(memory, jnp.array(rows))
        for row in rows:
            kept.add(row[:4], row[4:8], row[8], row[9], row[10])
        assert (int(memory.position), int(memory.filled)) == (kept.position, kept.filled)
        np.testing.assert_array_equal(memory.rows, kept.array)


def test_the_share_of_random_actions_is_the_twins() -> None:
    args = dqn_jax.Args(total_timesteps=1000, learning_starts=0)
    knobs = schedule(args, 1000, 1.0)
    for step in (0, 1, 250, 499, 500, 999):
        assert float(share_at(jnp.int32(step), knobs)) == pytest.approx(exploration(args, step))


# --- the scripts -------------------------------------------------------------------------------------------


HOW = {(): (1000, 1501), ("--num-envs", "3"): (1500, 1503), (IN_STEPS,): (501, 1501)}
"""More flags, a step that such a run can be stopped at, and its last one."""


@pytest.mark.parametrize("how", HOW, ids=["compiled", "three", "stepped"])
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_bits_and_the_tags_of_the_twin(
    how: tuple[str, ...], script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, (stop_at, last) = [*SHORT, *how], HOW[how]
    assert run_main(script, monkeypatch, tmp_path / "whole", *flags) == 0
    stopped = run_until(stop_at, script, monkeypatch, tmp_path / "half", *flags)
    assert run_main(script, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    whole = newest_tensors(tmp_path / "whole")
    assert differing(whole, newest_tensors(tmp_path / "rest")) == []
    assert checkpoints.read_manifest(checkpoints_of(tmp_path / "whole")[-1]).step == last
    if how:
        return
    assert run_main(script, monkeypatch, tmp_path / "other", *flags, "--seed", "2") == 0
    assert "q_network.network.0.weight" in differing(whole, newest_tensors(tmp_path / "other"))
    assert run_main(TWINS[script], monkeypatch, tmp_path / "twin", *flags) == 0
    ours, theirs = logged_rows(tmp_path / "whole"), logged_rows(tmp_path / "twin")
    assert {frozenset(values) for _, values in ours} == {frozenset(values) for _, values in theirs}
    updates = [[step for step, values in rows if "charts/SPS" in values] for rows in (ours, theirs)]
    assert updates[0] == updates[1] == list(range(300, 1501, 100))
    played = sum(values.get("charts/episodic_length", 0) for _, values in ours)
    assert 1001 <= played <= 1501
    learned, names = newest_tensors(tmp_path / "twin"), ("q_network.", "target_network.")
    assert {name: one.shape for name, one in whole.items() if name.startswith(names)} == {
        name: one.shape for name, one in learned.items() if name.startswith(names)
    }


def test_a_span_that_was_cut_anywhere_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = ["--start-e", "0.3", "--end-e", "0.3"]  # a share that falls is another one in a longer run
    assert run_main(dqn_jax, monkeypatch, tmp_path / "whole", *SHORT, *steady) == 0
    directory = tmp_path / "0"
    assert run_main(dqn_jax, monkeypatch, directory, *SHORT, *steady, "--total-timesteps", "333") == 0
    for total in ("334", "1499", "1501"):
        over, directory = checkpoints_of(directory)[-1], tmp_path / total
        assert run_main(dqn_jax, monkeypatch, directory, "--resume", str(over), "--total-timesteps", total) == 0
    assert differing(newest_tensors(tmp_path / "whole"), newest_tensors(directory)) == []


def test_without_the_buffer_a_resumed_run_fills_another_one_before_it_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = run_until(1000, dqn_jax, monkeypatch, tmp_path / "half", *SHORT, "--no-save-buffer")
    assert run_main(dqn_jax, monkeypatch, tmp_path / "rest", "--resume", str(stopped)) == 0
    updates = [step for step, values in logged_rows(tmp_path / "rest") if "charts/SPS" in values]
    assert updates == [1200, 1300, 1400, 1500]
    assert run_main(dqn_jax, monkeypatch, tmp_path / "no", "--resume", str(stopped), "--buffer-size", "500") == 2
    assert "its replay buffer has room for 400 transitions, this run's for 500" in capsys.readouterr().err


def test_each_twin_begins_with_the_network_of_the_other_and_its_checkpoint_acts_without_jax(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin, name = TWINS[script], name_of(script)
    few = ["--total-timesteps", "20"]
    made = {}
    for one in (script, twin):
        assert run_main(one, monkeypatch, tmp_path / name_of(one), *few) == 0
        made[one] = checkpoints_of(tmp_path / name_of(one))[-1]
    for one, other in ((script, twin), (twin, script)):
        begun = tmp_path / f"{name_of(one)} begun"
        assert run_main(one, monkeypatch, begun, *few, "--warm-start", str(made[other])) == 0
        given, found = checkpoints.load(made[other]).tensors, newest_tensors(begun)
        assert torch.equal(given["q_network.network.0.weight"], found["q_network.network.0.weight"])
        assert run_main(one, monkeypatch, tmp_path / "no", *few, "--resume", str(made[other])) == 2
        assert "of this twin the networks can be taken over: --warm-start" in capsys.readouterr().err
    loaded = load_acting(made[script], PACKAGE)
    assert name_of(loaded.script) == name_of(twin) and loaded.manifest.algo == name
    rows = np.random.default_rng(5).normal(size=(50, 4)).astype(np.float32)
    chosen = loaded.policy.act(rows, deterministic=True, random=np.random.default_rng(0))
    assert set(chosen.tolist()) <= {0, 1}
    assert loaded.policy.appraise(rows)["value"].shape == (50,)  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", [(), (IN_STEPS,)], ids=["compiled", "stepped"])
def test_a_network_that_is_not_finite_ends_the_run_and_the_last_good_checkpoint_stays(
    how: tuple[str, ...],
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = [*SHORT, *how, "--learning-starts", "600", "--learning-rate", "1e38", "--checkpoint-every", "500"]
    assert run_main(script, monkeypatch, tmp_path, *flags) == 1
    assert "network is no longer finite" in capsys.readouterr().err
    assert [checkpoints.read_manifest(path).step for path in checkpoints_of(tmp_path)] == [500]


@pytest.mark.nightly
def test_it_learns_cartpole(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["--total-timesteps", "60000", "--learning-starts", "1000", "--exploration-fraction", "0.2"]
    assert run_main(script, monkeypatch, tmp_path, *flags) == 0
    returns = [values["charts/episodic_return"] for _, values in logged_rows(tmp_path) if "charts/epsilon" in values]
    assert np.mean(returns[:20]) < 50 and np.mean(returns[-50:]) >= 120


def test_the_script_stands_alone_as_a_file_and_imports_no_torch(script: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, str(script.__file__), "--total-timesteps", "20"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert only_run(tmp_path).name.startswith(f"CartPole-v1__{name_of(script)}__1__")
    assert "random.torch" not in newest_tensors(tmp_path)
